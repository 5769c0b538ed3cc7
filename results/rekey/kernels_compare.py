"""compare.py BEFORE_DIR AFTER_DIR [-v]: classify."""
import json, re, sys, collections, difflib
from pathlib import Path
a, b = Path(sys.argv[1]), Path(sys.argv[2]); verbose = "-v" in sys.argv
A, B = json.loads((a/"rows.json").read_text()), json.loads((b/"rows.json").read_text())
def strip(t):
    out = re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', lambda m: m[0] if m[0][0]=='"' else " ", t, flags=re.S)
    return re.sub(r"\s+", "", out)
def toks(t):
    out = re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', lambda m: m[0] if m[0][0]=='"' else " ", t, flags=re.S)
    return re.findall(r'"(?:\\.|[^"\\])*"|\w+|[^\w\s]', out)
def same(x, y):
    if strip(x) == strip(y): return "a"
    p, q = toks(x), toks(y)
    if len(p) == len(q):
        f, g = {}, {}
        ok = True
        for s, t in zip(p, q):
            if s[0].isalpha() or s[0] == "_":
                if f.setdefault(s, t) != t or g.setdefault(t, s) != s: ok = False; break
            elif s != t: ok = False; break
        if ok: return "b"
    return "c"
ptxc = {}
def ptx(d, n):
    k = (d, n)
    if k not in ptxc:
        t = (d/"ptx"/n).read_text()
        t = re.sub(r"//[^\n]*", "", t)
        t = "\n".join(re.sub(r"\s+", " ", l).strip() for l in t.splitlines())
        ptxc[k] = re.sub(r"\n+", "\n", t)
    return ptxc[k]
def again(text, arch):
    from cuda.bindings import nvrtc
    found = set()
    for _ in range(8):
        _, prog = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", 0, [], [])
        nvrtc.nvrtcCompileProgram(prog, 2, [b"--std=c++17", f"--gpu-architecture=compute_{arch}".encode()])
        _, size = nvrtc.nvrtcGetPTXSize(prog); z = b" "*size; nvrtc.nvrtcGetPTX(prog, z); nvrtc.nvrtcDestroyProgram(prog)
        x = re.sub(r"//[^\n]*", "", z.decode().strip("\0")); x = "\n".join(re.sub(r"\s+", " ", l).strip() for l in x.splitlines())
        found.add(re.sub(r"\n+", "\n", x))
    return found
notes = []
table, bad = {}, []
nptx = nbuilt = 0
only = [k for k in A if k in B] if len(B) < len(A) else list(A)
if set(A) - set(B) and len(B) >= len(A)*0.99: bad.append(f"missing {set(A)-set(B)}")
for n in only:
    x, y = A[n], B[n]
    kinds = [same(x["resolved"], y["resolved"])] + [same(x["render"][k], y["render"][k]) for k in x["render"]]
    if set(x["render"]) != set(y["render"]): bad.append(f"{n} backends")
    peq = True
    for arch in x["ptx"]:
        nptx += 1
        if ptx(a, x["ptx"][arch]) != ptx(b, y["ptx"][arch]): peq = False; bad.append(f"{n} PTX {arch}")
    for k in x["built"]:
        g, h = x["built"][k], y["built"][k]
        if len(g) != len(h): bad.append(f"{n} built {k} count {len(g)} {len(h)} {[z['err'] for z in h][:2]}"); continue
        for u, v in zip(g, h):
            nbuilt += 1
            if (u["case"], u["options"], u["arch"], u["err"]) != (v["case"], v["options"], v["arch"], v["err"]): bad.append(f"{n} built {k} {u['err']} / {v['err']}")
            s = same(u["text"], v["text"])
            kinds.append(s)
            if u["ptx"] and ptx(a, u["ptx"]) != ptx(b, v["ptx"]):
                first, second = again(u["text"], u["arch"]), again(v["text"], v["arch"])
                if first & second: notes.append(f"{n} {k} {u['case']}: NVRTC gives {len(first | second)} codes for the same text from run to run; the sets agree in {len(first & second)}"); continue
                peq = False; bad.append(f"{n} built PTX {k} {u['case']}")
    kind = max(kinds)
    cu = x["path"].endswith(".cu")
    if not cu and kind != "a": bad.append(f"{n} neutral kernel text differs: {kind}")
    if kind == "c" and (not peq or not cu): bad.append(f"{n} kind c without PTX")
    table[n] = (kind, x["path"], y["path"], x["sha"], y["sha"])
counts = collections.Counter(t[0] for t in table.values())
sources = {}
for n, t in table.items(): sources.setdefault(A[n]["sha"], set()).add(t[0])
scount = collections.Counter(max(s) for s in sources.values())
lines = [f"variants {len(table)}: (a) identical but for comments and white space {counts['a']}, (b) renamed identifiers only {counts['b']}, (c) text changed, PTX equal {counts['c']}",
         f"distinct sources {len(sources)}: (a) {scount['a']}, (b) {scount['b']}, (c) {scount['c']}",
         f"PTX compared of shown texts: {nptx}; texts that plans build compared (with PTX where CUDA): {nbuilt}", f"differences that should not be: {len(bad)}", *bad, *notes, ""]
for n, t in sorted(table.items()): lines.append(f"{t[0]}  {n:60} {t[1]:24} {t[2]:24} {t[3][:16]} {t[4][:16]}")
(b.parent/"proof.txt").write_text("\n".join(lines)+"\n")
print("\n".join(lines[:40 if verbose else 24])[:6000])
