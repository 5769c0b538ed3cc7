"""dump.py TREE OUT: texts of all sources, plan-built texts, PTX."""
import sys, re, json, hashlib, importlib.util, traceback
from pathlib import Path
tree, out = Path(sys.argv[1]), Path(sys.argv[2]); want = sys.argv[3].split(",") if len(sys.argv) > 3 else None
sys.path.insert(0, str(tree / "lib"))
out.mkdir(parents=True, exist_ok=True)
import roofbook; assert str(tree) in roofbook.__file__
from roofbook import labs, peaks, device as contract
from roofbook.device import Unsupported, BuildFailed
from roofbook.lab import Case
import numpy as np
LABS = {**{n: labs.get(n) for n in labs.names()}, "peaks": peaks.LAB}; LABS = {k: v for k, v in LABS.items() if not want or k in want}
from cuda.bindings import nvrtc
PTX = out / "ptx"; PTX.mkdir(exist_ok=True)
failed = {}
def ptx(text, arch):
    key = hashlib.sha256(f"{arch}\n{text}".encode()).hexdigest()[:24]
    p = PTX / f"{key}.ptx"
    if not p.exists():
        _, prog = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
        flags = ["--std=c++17", f"--gpu-architecture=compute_{arch}"]
        (r,) = nvrtc.nvrtcCompileProgram(prog, len(flags), [f.encode() for f in flags])
        if r != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            _, size = nvrtc.nvrtcGetProgramLogSize(prog); log = b" "*size; nvrtc.nvrtcGetProgramLog(prog, log)
            p.write_text("FAILED " + re.sub(r"\(\d+\)", "()", log.decode(errors="replace").strip("\0 \n")))
        else:
            _, size = nvrtc.nvrtcGetPTXSize(prog); b = b" "*size; nvrtc.nvrtcGetPTX(prog, b)
            p.write_text(b.decode().strip("\0"))
        nvrtc.nvrtcDestroyProgram(prog)
    return p.name
spec = importlib.util.spec_from_file_location("tn", tree / "tests/test_nvrtc.py"); tn = importlib.util.module_from_spec(spec); spec.loader.exec_module(tn)
class K(contract.Kernel):
    def __init__(s, name): s.name = name
    def configure(s, **k): pass
    def resources(s): return {"registers": 32}
class P(contract.Program):
    def constant(s, name, nbytes): return tn.Memory(nbytes), ()
    def kernel(s, name): return K(name)
class Q(tn.Queue):
    def launch(s, *a): pass
class D(tn.Paper):
    def __init__(s, backend, arch):
        super().__init__(arch); s.backend = backend; s.kind = "gpu" if backend == "cuda" else "cpu"
        s.texts = []
    def build(s, text, options=()):
        named = [o.removeprefix("-arch=sm_") for o in options if o.startswith("-arch=sm_")]
        s.texts.append((text, named[0] if named else s.architecture, [o for o in options if not o.startswith("-arch")]))
        return P()
    def queue(s, profiling=False): return Q(s)
from roofbook.labs.lbm import native
for n in [n for n in dir(native) if n.startswith("loop_")]:
    setattr(native, n, lambda *a, **k: None)
rows = {}
seen = {}
for labname, lab in LABS.items():
    for v in lab.all_variants():
        if not v.source: continue
        name = f"{labname}/{v.name}"
        r = {"path": v.source.path.name, "backends": sorted(v.backends), "resolved": v.source.resolve(), "sha": v.source.sha256, "render": {}, "ptx": {}, "built": {}}
        hopper = min(v.architectures) >= 90
        for b in sorted(v.backends):
            if b == "host": continue
            r["render"][b] = v.source.render(b)
        # CUDA PTX of every text that can be CUDA
        if "cuda" in v.backends:
            for a in ("90a",) if hopper else (80, 90):
                r["ptx"][str(a)] = ptx(r["render"]["cuda"], a)
        for b in sorted(v.backends - {"host"}):
            for arch in ((80, 90) if b == "cuda" else (0,)):
                if b == "cuda" and arch not in v.architectures: continue
                got = []
                for case in tn.small(lab, v)[:2]:
                    d = D(b, arch)
                    c = Case(case.name, case.scale, case.params, min(case.units, 8))
                    try:
                        run = v.plan(d, v, c, lab.inputs(c, seed=1))
                        err = ""
                        try:
                            run.reset(); run.run()
                        except Exception as e: err = type(e).__name__
                    except Exception as e:
                        err = f"{type(e).__name__}: {e}"[:200]
                    for text, a, options in d.texts:
                        got.append({"case": case.name, "text": text, "options": options, "arch": str(a), "err": err, "ptx": ptx(text, a) if b == "cuda" else None})
                    if not d.texts: got.append({"case": case.name, "text": "", "err": err, "arch": "", "options": [], "ptx": None})
                r["built"][f"{b}-{arch}"] = got
        rows[name] = r
    print(labname, len(rows), flush=True)
(out / "rows.json").write_text(json.dumps(rows))
bad = {}
for n, r in rows.items():
    for k, g in r["built"].items():
        for x in g:
            if x["err"]: bad.setdefault(x["err"], []).append(f"{n} {k}")
for e, l in bad.items(): print(e, len(l), l[:3])
fails = [p for p in PTX.iterdir() if p.read_text().startswith("FAILED")]
print("rows", len(rows), "ptx", len(list(PTX.iterdir())), "failed ptx", len(fails), [f.read_text()[:200] for f in fails[:3]])
