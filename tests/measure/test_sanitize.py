"""`roofbook check` finds a barrier that was taken out, and an access out of bounds, with the kernel's own lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import time
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.often import often

from roofbook import labs, paths
from roofbook.devices import cuda, nvrtc, opencl
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import UsageError
from roofbook.measure import sanitize, sanitizer_record, sanitizer_worker
from roofbook.measure.sanitize import CheckedVariant
from roofbook.process_tree import PatientClock
from roofbook.report import sanitizer_checks, sanitizer_text
from roofbook.spec import registry
from roofbook.spec.source import line_directives

from .. import mutants
from .counters.made_up import Gpu

Command = Callable[..., tuple[int, str, str]]
KERNELS = paths.LIBRARY / "labs" / "lbm"
FLAWED = """
from dataclasses import replace
from pathlib import Path
from roofbook.labs.lbm import LAB as RIGHT
from roofbook.spec.source import Source

TREE = RIGHT.variant("tree")

class Flawed(type(RIGHT)):
    name, sweeps, peers = "flawed", (), ()
    ladder = tuple(
        replace(TREE, name=folder.name, parent=None, source=Source.of(folder / "fused.k", **dict(TREE.source.knobs)))
        for folder in sorted(Path(__file__).parent.glob("*/"))
        if (folder / "fused.k").exists()
    )

LAB = Flawed()
"""
"""A lab outside of the library: `lbm`'s variant `tree`, once for each folder with its kernels."""
ENDED = """
import os, sys
from dataclasses import replace
from pathlib import Path
from roofbook.labs.lbm import LAB as RIGHT
from roofbook.spec.source import Source

TREE = RIGHT.variant("tree")

class Bad(TREE.plan):
    def __init__(self, *arguments):
        HOW

SOURCE = Source.of(Path(__file__).with_name("fused.k"), **dict(TREE.source.knobs))

class Ended(type(RIGHT)):
    name, sweeps, peers = "ended", (), ()
    ladder = tuple(
        replace(TREE, name=name, parent=None, source=SOURCE, plan=Bad if name == "bad" else TREE.plan)
        for name in ("one", "bad", "two")
    )

LAB = Ended()
"""
"""A lab outside of the library whose second variant does not get as far as a kernel."""
FLAWS = {
    "right": None,
    "no-barrier": ("reduce_tree.inc", "    }\n    BARRIER();", "    }"),
    "diverging": ("reduce_tree.inc", "    }\n    BARRIER();", "      BARRIER();\n    }"),
    "too-far": ("fused.k", "PUT(8, i, g8);", "PUT(8, i + nx * ny, g8);"),
}
"""Variant to (file, old text, new text) of the planted mistake."""


@pytest.fixture(scope="module")
def oclgrind() -> None:
    try:
        sanitize.find_oclgrind()
    except UsageError as none:
        pytest.skip(str(none))


@pytest.fixture(scope="module")
def folder(oclgrind: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The lab `flawed`, which this process and those that it starts know."""
    place = tmp_path_factory.mktemp("labs") / "flawed"
    place.mkdir()
    (place / "__init__.py").write_text(FLAWED)
    for name, change in FLAWS.items():
        (place / name).mkdir()
        for pattern in ("*.k", "*.h", "*.inc"):
            for path in KERNELS.glob(pattern):
                shutil.copy(path, place / name)
        if change:
            mutants.change(place / name, *change)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labs, "__path__", [*labs.__path__, str(place.parent)])
        yield place
    registry.get.cache_clear()
    sys.modules.pop("roofbook.labs.flawed", None)


@pytest.fixture(scope="module")
def checked(request: pytest.FixtureRequest, folder: Path) -> dict[str, CheckedVariant]:
    """Return Oclgrind's findings in each variant of `flawed`; the right one's only if the test of it runs."""
    lab = registry.get("flawed")
    chosen = sanitize.choose(lab, "all", None, "test", host_cpu())
    if "not thorough" in request.config.option.markexpr:
        chosen = [one for one in chosen if one[0].name != "right"]
    return {variant_check.variant.name: variant_check for variant_check in sanitize.check(lab, chosen, host_cpu())}


def lines(variant_check: CheckedVariant) -> dict[str, set[str]]:
    """Return, for each kind of defect, the source lines where it was found."""
    texts: dict[str, set[str]] = {}
    for finding in variant_check.defects:
        for place in finding.places:
            text = Path(place.file).read_text().splitlines()[place.line - 1].strip()
            texts.setdefault(finding.kind, set()).add(f"{Path(place.file).parent.name}/{Path(place.file).name}: {text}")
    return texts


@pytest.mark.thorough
def test_a_kernel_without_a_mistake_is_clean(checked: dict[str, CheckedVariant]) -> None:
    variant_check = checked["right"]
    assert (
        variant_check.clean
        and variant_check.outcome["error"] <= variant_check.outcome["tolerance"]
        and variant_check.outcome["optimised"]
        and variant_check.tool.startswith("Oclgrind ")
    )


def test_a_barrier_that_was_taken_out_is_a_race_at_its_line(checked: dict[str, CheckedVariant]) -> None:
    variant_check = checked["no-barrier"]
    assert lines(variant_check).keys() == {"read-write data race in local memory"}
    adding = "no-barrier/reduce_tree.inc: speeds[lane] += speeds[lane + reach];"
    assert adding in lines(variant_check)["read-write data race in local memory"]
    assert {finding.kernel for finding in variant_check.defects} == {"fused"} and not variant_check.clean


def test_a_barrier_that_some_work_items_miss_is_found(checked: dict[str, CheckedVariant]) -> None:
    missed = "barrier that not all work-items of a group reach"
    assert lines(checked["diverging"])[missed] == {"diverging/reduce_tree.inc: BARRIER();"}


def test_a_write_out_of_bounds_is_found_at_its_line(checked: dict[str, CheckedVariant]) -> None:
    variant_check = checked["too-far"]
    assert lines(variant_check) == {
        "write of 4 bytes out of bounds in global memory": {"too-far/fused.k: PUT(8, i + nx * ny, g8);"}
    }
    assert "wrong result" in str(variant_check.reason)


def test_the_command_prints_findings_with_their_lines(folder: Path, command: Command) -> None:
    code, out, err = command("check", "flawed", "no-barrier")
    place = folder / "no-barrier" / "reduce_tree.inc"
    number = place.read_text().splitlines().index("      speeds[lane] += speeds[lane + reach];") + 1
    assert (code, err) == (1, "") and "read-write data race in local memory, in kernel fused" in out
    assert f"  {place}:{number}: speeds[lane] += speeds[lane + reach];\n" in out
    assert "no-barrier on 40x24 by Oclgrind" in out


def test_the_ends_of_a_launch_stand_for_it_and_nothing_is_compared(folder: Path, command: Command) -> None:
    code, out, err = command("check", "flawed", "right", "--ends")
    assert (code, err) == (0, "")
    assert out.startswith("right on 40x24 by Oclgrind")
    assert " ".join(out.split()).endswith(": nothing found; its result was not compared")


# -- Oclgrind ----------------------------------------------------------------------------------------------------------


def test_oclgrind_is_no_device_to_measure(oclgrind: None) -> None:
    assert all(opencl.SIMULATOR not in device.identity()["platform"] for device in opencl.devices())


CONDITIONS = """
__kernel void choose(__global const float *x, __global float *out, int n, float one, float two) {
  const int4 both = (n == 22 ? ~0 : 0) & (vload4(0, x) > 1.3f);
  vstore4(both ? (float4)(one) : (float4)(0.0f), 0, out);
  vstore4(both ? (float4)(two) : (float4)(0.0f), 1, out);
}
"""
"""Kernel with the test that `vectors` of `lbm` uses to decide which cells are pushed; no pointer in it is unaligned."""


def test_oclgrind_extends_the_sign_of_conditions_wrongly_where_code_is_optimised(oclgrind: None) -> None:
    """Why `simulate` computes a wrong result once more. Where this fails, Oclgrind has been put right."""
    simulators = opencl.simulators()
    if not simulators:
        pytest.skip("PyOpenCL's loader lists no Oclgrind")
    sums = {}
    for device in (simulators[0], host_cpu()):
        for options in ((), sanitizer_worker.UNOPTIMISED):
            queue, x = device.queue(), device.upload(np.array([1, 1.5, 1, 2], np.float32))
            out = device.empty(32)
            kernel = device.build(CONDITIONS, options).kernel("choose")
            queue.launch(kernel, (1,), (1,), x, out, np.int32(22), np.float32(0.1), np.float32(0.3))
            sums[device, options] = queue.read(out, np.empty(8, np.float32))
    right = np.array([0, 0.1, 0, 0.1, 0, 0.3, 0, 0.3], np.float32)
    wrong = [key for key, values in sums.items() if not np.array_equal(values, right)]
    assert wrong == [(simulators[0], ())]


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("os.kill(os.getpid(), 11)", "Oclgrind crashed by SIGSEGV (no message); it was at: plan"),
        ("os.kill(os.getpid(), 40)", "Oclgrind crashed by SIGRTMIN+6 (no message); it was at: plan"),
        ("print('said', flush=True); os._exit(0)", "Oclgrind ended with exit code 0 (said); it was at: plan"),
        ("write(variant='tree', result=1); sys.exit(3)", "Oclgrind ended with exit code 3 (no message); it was at: plan"),
    ],
)  # fmt: skip
def test_a_variant_that_ends_the_process_costs_no_other(
    oclgrind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, reason: str
) -> None:
    """The interpreter crashes in the second variant; the findings of the others are complete."""
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, os, sys\n"
        "order = json.loads(sys.argv[-1])\n"
        "def write(**message):\n"
        "    print(json.dumps(message), file=open(order['out'], 'a'))\n"
        "for name, *_ in order['chosen']:\n"
        "    print(order['mark'] + name, file=sys.stderr, flush=True)\n"
        "    write(variant=name, stage='plan')\n"
        f"    if name == 'soa':\n        {end}\n"
        "    result = {'error': 0.5, 'tolerance': 1.0, 'compared': 'x', 'tool': 'Oclgrind 1', 'optimised': True}\n"
        "    write(variant=name, result=result)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    lab = registry.get("lbm")
    case = lab.case("40x24", "test")
    done = list(sanitize.check(lab, [(lab.variant(name), case) for name in ("fused", "soa", "tree")], host_cpu()))
    assert [(variant_check.variant.name, variant_check.clean) for variant_check in done] == [
        ("fused", True),
        ("soa", False),
        ("tree", True),
    ]
    assert done[1].failure == reason
    assert "nothing found" not in sanitizer_text.summary(
        done[1]
    ) and "not checked to its end; Oclgrind" in sanitizer_text.summary(done[1])


def test_a_tool_that_never_ends_is_ended(oclgrind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as it hangs, here: a test waits for no limit."""
    script = tmp_path / "python"
    script.write_text(
        f"#!{sys.executable}\n"
        "import json, sys, time\n"
        "order = json.loads(sys.argv[-1])\n"
        "name = order['chosen'][0][0]\n"
        "print(order['mark'] + name, file=sys.stderr, flush=True)\n"
        "print(json.dumps({'variant': name, 'stage': 'run'}), file=open(order['out'], 'a'), flush=True)\n"
        f"open({str(tmp_path / 'hangs')!r}, 'w')\n"
        "time.sleep(3600)\n"
    )
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    monkeypatch.setattr(PatientClock, "is_over", lambda clock: (tmp_path / "hangs").exists())
    monkeypatch.setattr(PatientClock, "SLICE_S", 0.05)
    lab = registry.get("lbm")
    (variant_check,) = sanitize.check(lab, [(lab.variant("fused"), lab.case("40x24", "test"))], host_cpu())
    assert variant_check.failure == "Oclgrind did not end within 3600 s; it was at: run" and not variant_check.clean


@pytest.mark.parametrize(
    "how",
    often(["os._exit(0)", "raise RuntimeError('no context')", "sys.exit()"], lambda how: how == "os._exit(0)"),
)
def test_a_plan_that_ends_its_process_costs_no_other(
    oclgrind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command, how: str
) -> None:
    """By a lab of one's own, from the command to Oclgrind and back."""
    folder = tmp_path / "labs" / "ended"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(ENDED.replace("HOW", how))
    for name in (
        "fused.k",
        *(path.name for path in KERNELS.glob("*.inc")),
        *(path.name for path in KERNELS.glob("*.h")),
    ):
        shutil.copy(KERNELS / name, folder)
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(folder.parent)])
    try:
        code, out, err = command("check", "ended", "all", "--device", host_cpu().spec)
    finally:
        registry.get.cache_clear()
        sys.modules.pop("roofbook.labs.ended", None)
    printed = " ".join(out.split())
    assert (code, err) == (1, "") and "bad on 40x24 by Oclgrind" in printed and "not checked to its end" in printed
    for name in ("one", "two"):
        assert re.search(rf"{name} on 40x24 by Oclgrind [\d.]+: nothing found; its result is right", printed), printed


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

DIED = """========= Error: process didn't terminate successfully
=========     The application may have hit an error when dereferencing Unified Memory from the host. Please rerun the application under cuda-gdb or a host debugger to catch host side errors.
========= Target application returned an error
========= ERROR SUMMARY: 0 errors
"""  # noqa: E501
"""Output of compute-sanitizer for a process that crashed while Python shut down."""
RIGHT = {"error": 0.5, "tolerance": 1.0, "compared": "x", "tool": "compute-sanitizer", "optimised": True}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    device = Gpu()
    monkeypatch.setattr("roofbook.devices.cuda.devices", lambda: [device])
    return device


@pytest.fixture
def sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any] | None], Path]:
    """Return a function that makes a compute-sanitizer: it logs its arguments, reports a race, and writes a worker's answer."""
    script = tmp_path / sanitize.SANITIZER

    def make(answer: dict[str, Any] | None, summary: str = "========= ERROR SUMMARY: 0 errors", code: int = 0) -> Path:
        script.write_text(
            f"#!{sys.executable}\n"
            "import json, sys\n"
            f"place = {str(KERNELS / 'reduce_tree.inc')!r}\n"
            f"told = {answer!r}\n"
            "open(__file__ + '.calls', 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
            "print('========= COMPUTE-SANITIZER')\n"
            "if 'racecheck' in sys.argv:\n"
            "    print(f'========= Error: Race reported between Read access at fused+0x90 in {place}:12')\n"
            "    print(f'=========     and Write access at fused+0xb0 in {place}:12 [508 hazards]')\n"
            "order = json.loads(sys.argv[-1])\n"
            "if told:\n"
            "    record = {'variant': order['chosen'][0][0], 'result': told}\n"
            "    open(order['out'], 'w').write(json.dumps(record) + '\\n')\n"
            "else:\n"
            "    sys.exit('no driver')\n"
            f"print({summary!r})\n"
            f"sys.exit({code})\n"
        )
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
        return script.with_name(f"{script.name}.calls")

    return make


def test_a_cuda_device_is_watched_by_each_tool(gpu: Gpu, sanitizer: Callable[..., Path], command: Command) -> None:
    calls = sanitizer(RIGHT)
    code, out, err = command("check", "lbm", "tree", "--device", "cuda:0")
    assert (code, err) == (1, "") and out.startswith(
        "read-write data race in shared memory, in kernel fused, 508 times\n"
    )
    assert "  lib/roofbook/labs/lbm/reduce_tree.inc:12: " in out
    assert "tree on 40x24 by compute-sanitizer: 1 finding; its result is right" in out
    orders = [json.loads(line) for line in calls.read_text().splitlines()]
    assert sorted(call[call.index("--tool") + 1] for call in orders) == sorted(sanitize.TOOLS), "side by side"
    order = json.loads(orders[0][-1])
    assert (order["lab"], order["chosen"], order["device"]) == ("lbm", [["tree", "40x24", "test"]], "cuda:0")


def test_a_process_that_tells_nothing_is_a_failure(gpu: Gpu, sanitizer: Callable[..., Path], command: Command) -> None:
    sanitizer(None)
    code, out, _ = command("check", "lbm", "tree", "--device", "cuda:0")
    assert code == 1 and "the process under memcheck ended with exit code 1 (no driver)" in " ".join(out.split())


@pytest.mark.parametrize(
    ("result", "summary", "words"),
    [
        (RIGHT, "", "memcheck printed no summary: it did not come to its end"),
        ({**RIGHT, "error": "none"}, "========= ERROR SUMMARY: 0 errors", "the process under memcheck ended with exit code 0"),
        ({**RIGHT, "more": 1}, "========= ERROR SUMMARY: 0 errors", "the process under memcheck ended with exit code 0"),
    ],
)  # fmt: skip
def test_a_tool_without_its_last_word_and_a_result_that_is_none_are_failures(
    gpu: Gpu, sanitizer: Callable[..., Path], command: Command, result: dict[str, Any], summary: str, words: str
) -> None:
    sanitizer(result, summary)
    code, out, _ = command("check", "lbm", "tree", "--device", "cuda:0")
    printed = " ".join(out.split())
    assert code == 1 and words in printed and "nothing found" not in printed and "not checked to its end" in printed


def test_a_process_that_dies_after_its_result_is_not_checked_to_its_end(
    gpu: Gpu, sanitizer: Callable[..., Path], command: Command
) -> None:
    """As compute-sanitizer reports it: with a summary without errors, and the number of the signal as its exit code."""
    sanitizer(RIGHT, DIED, 11)
    code, out, _ = command("check", "lbm", "tree", "--device", "cuda:0")
    printed = " ".join(out.split())
    assert code == 1 and "nothing found" not in printed
    words = "tree on 40x24 by compute-sanitizer: not checked to its end, 1 finding before; the process under memcheck"
    assert words in printed
    assert "ended with exit code 11" in printed


def test_kernels_keep_their_lines_for_compute_sanitizer(monkeypatch: pytest.MonkeyPatch) -> None:
    options_of_build = []
    monkeypatch.setattr(cuda.CudaDevice, "__init__", lambda self, index: None)
    monkeypatch.setattr(cuda.CudaDevice, "build", lambda self, text, options: options_of_build.append(options))
    sanitizer_worker.LinedDevice(0).build("", ("-arch=sm_90a",))
    assert options_of_build == [("-arch=sm_90a", "-lineinfo")]


def test_nvrtc_takes_the_lines_of_the_kernels_own_files() -> None:
    source = registry.get("lbm").variant("tree").source
    assert source
    with line_directives():
        text = source.render("cuda")
    try:
        ptx = nvrtc.compile_cuda(text, 80, ("-lineinfo",)).ptx
    except Unsupported as none:
        pytest.skip(str(none))
    assert all(f'"{KERNELS / name}"' in ptx for name in ("fused.k", "reduce_tree.inc"))


SEVERAL = """
import json, os, sys, time
if sys.argv[1] == "--version":
    print("NVIDIA (R) Compute Sanitizer\\nVersion 2025.3.0.0 (build 1)")
    sys.exit()
order, tool = json.loads(sys.argv[-1]), sys.argv[sys.argv.index("--tool") + 1]
names = [name for name, _, _ in order["chosen"]]
open(__file__ + ".calls", "a").write(json.dumps([tool, names]) + "\\n")
raced = False
for name in names:
    print(order["mark"] + name, file=sys.stderr, flush=True)
    what = ACTS.get(f"{tool} {name}", ACTS.get(name))
    write = lambda message: print(json.dumps({"variant": name, **message}), file=open(order["out"], "a"), flush=True)
    write({"stage": "run"})
    if what == "hang":
        time.sleep(3600)
    if what == "crash":
        os._exit(11)
    raced |= what == "race"
    write({"result": RESULT | ({"error": 2.0} if what == "wrong" or (what == "wrong beside others" and names[1:]) else {})})
if raced:
    print("========= Error: Race reported between Read access at fused+0x90 in LINE:12")
    print("=========     and Write access at fused+0xb0 in LINE:12 [2 hazards]")
print("========= ERROR SUMMARY: 0 errors")
"""
"""A compute-sanitizer whose variants act as ACTS says, by variant or by tool and variant."""


@pytest.fixture
def several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, str]], Callable[[str], list[Any]]]:
    """Return a function that makes a compute-sanitizer by its acts, and returns one that lists a tool's processes."""

    def make(acts: dict[str, str]) -> Callable[[str], list[Any]]:
        script = tmp_path / sanitize.SANITIZER
        text = SEVERAL.replace("ACTS", repr(acts)).replace("RESULT", repr(RIGHT))
        script.write_text(f"#!{sys.executable}{text.replace('LINE', str(KERNELS / 'reduce_tree.inc'))}")
        script.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")

        def processes(tool: str) -> list[Any]:
            calls = map(json.loads, Path(f"{script}.calls").read_text().splitlines())
            return [names for of_tool, names in calls if of_tool == tool]

        return processes

    return make


def checked_on_gpu(gpu: Gpu, names: list[str], **options: Any) -> dict[str, CheckedVariant]:
    lab = registry.get("lbm")
    cells = [(lab.variant(name), lab.case("40x24", "test")) for name in names]
    return {check.variant.name: check for check in sanitize.check(lab, cells, gpu, **options)}


STEPS = ["fused", "soa", "tree", "in-place"]


def test_variants_without_a_finding_share_a_process(gpu: Gpu, several: Callable[..., Any]) -> None:
    processes = several({})
    checks = checked_on_gpu(gpu, STEPS)
    assert list(checks) == STEPS and all(check.clean for check in checks.values())
    assert all(processes(tool) == [STEPS] for tool in sanitize.TOOLS)


def test_more_variants_than_a_process_takes_are_checked_by_several_at_a_time(
    gpu: Gpu, several: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitize, "MOST_TOGETHER", 3)
    processes = several({"tree": "race"})
    checks = checked_on_gpu(gpu, STEPS, jobs=4)
    assert list(checks) == STEPS and [name for name in STEPS if not checks[name].clean] == ["tree"]
    assert processes("memcheck").count(STEPS[3:]) == 1 and STEPS[:3] in processes("memcheck")


def test_a_finding_is_that_of_the_one_variant_that_has_it_alone(gpu: Gpu, several: Callable[..., Any]) -> None:
    processes = several({"racecheck tree": "race"})
    checks = checked_on_gpu(gpu, STEPS)
    assert [name for name in STEPS if not checks[name].clean] == ["tree"]
    assert checks["tree"].tools["racecheck"].defects.total() == 2 and not checks["tree"].tools["memcheck"].defects
    assert processes("memcheck") == [STEPS]
    assert sorted(processes("racecheck")) == sorted([STEPS, STEPS[:2], STEPS[2:], ["tree"], ["in-place"]])


def test_a_wrong_result_is_confirmed_alone(gpu: Gpu, several: Callable[..., Any]) -> None:
    processes = several({"initcheck soa": "wrong"})
    checks = checked_on_gpu(gpu, STEPS)
    assert [name for name in STEPS if not checks[name].clean] == ["soa"]
    assert "wrong result" in str(checks["soa"].reason) and processes("initcheck") == [STEPS, ["soa"]]
    several({"initcheck soa": "wrong beside others"})
    assert all(check.clean for check in checked_on_gpu(gpu, STEPS).values())


def test_a_variant_that_ends_a_process_under_one_tool_costs_no_other(gpu: Gpu, several: Callable[..., Any]) -> None:
    several({"synccheck soa": "crash"})
    checks = checked_on_gpu(gpu, STEPS)
    assert [name for name in STEPS if not checks[name].clean] == ["soa"]
    text = sanitizer_text.summary(checks["soa"])
    assert "not checked to its end; the process under synccheck ended with exit code 11" in text


def test_a_variant_that_never_ends_is_named_with_its_tool_and_costs_no_other(
    gpu: Gpu, several: Callable[..., Any]
) -> None:
    processes = several({"racecheck soa": "hang"})
    checks = checked_on_gpu(gpu, STEPS, limit_s=1.5, jobs=2)
    assert [name for name in STEPS if not checks[name].clean] == ["soa"]
    assert checks["soa"].reason == "the process under racecheck did not end within 1.5 s; it was at: run"
    assert sorted(processes("racecheck")) == [STEPS, ["fused", "tree", "in-place"], ["soa"]]
    assert "4 variants are clean; wrong or not checked to the end: soa" in sanitizer_text.summary_of_all(
        [*checks.values()]
    )


def test_processes_that_run_end_where_a_check_is_abandoned(
    gpu: Gpu, several: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with Ctrl-C: the others do not run to their limit."""
    monkeypatch.setattr(sanitize, "MOST_TOGETHER", 1)
    several({"soa": "hang"})
    lab = registry.get("lbm")
    cells = [(lab.variant(name), lab.case("40x24", "test")) for name in ("fused", "soa")]
    checks = sanitize.check(lab, cells, gpu, jobs=8)
    assert isinstance(checks, Generator) and next(checks).variant.name == "fused"
    start = time.monotonic()
    checks.close()
    assert time.monotonic() - start < 30


@pytest.fixture
def two_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = registry.get("lbm")
    monkeypatch.setattr(lab, "ladder", tuple(v for v in lab.ladder if v.name in ("fused", "tree")))
    monkeypatch.setattr(registry, "names", lambda: ["lbm"])
    monkeypatch.setattr(registry, "PEAKS", "lbm")


def test_all_labs_are_checked_by_one_command_which_keeps_the_results(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path
) -> None:
    several({"racecheck tree": "race"})
    folder = tmp_path / "results" / "checks"
    code, out, err = command("check", "all", "all", "--device", "cuda:0", "--jobs", "2", "--out", str(folder))
    assert (code, err) == (1, "") and out.splitlines()[-1].endswith("4 variants are clean; with findings: tree, tree")
    assert "fused on 40x24 by compute-sanitizer: nothing found" in out
    record = json.loads((folder / "lbm.json").read_text())
    assert (record["lab"], record["sanitizer"], record["limit_s"]) == ("lbm", "2025.3.0.0", 3600)
    assert record["device"] == gpu.identity() and record["git"]["commit"]
    clean: dict[str, list[Any]] = {tool: [] for tool in sanitize.TOOLS}
    assert record["variants"]["fused"]["tools"] == clean and record["variants"]["fused"]["wrong"] is None
    line = "labs/lbm/reduce_tree.inc:12"
    kind = "read-write data race in shared memory"
    finding = {"kind": kind, "kernel": "fused", "lines": [line], "count": 2}
    assert record["variants"]["tree"]["tools"] == clean | {"racecheck": [finding]}
    html = sanitizer_checks.checks(folder.parent)
    assert "2025.3.0.0" in html and kind in html and record["git"]["commit"][:10] in html
    labs, _ = sanitizer_checks.read(folder.parent)
    assert [(lab.checked, lab.clean, len(lab.steps)) for lab in labs] == [(["fused", "tree"], 1, 2)] * 2


def test_a_kernel_that_changed_since_is_not_checked(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path
) -> None:
    several({"memcheck fused": "wrong"})
    code, _, _ = command("check", "lbm", "all", "--device", "cuda:0", "--out", str(tmp_path / "checks"))
    path = tmp_path / "checks" / "lbm.json"
    record = json.loads(path.read_text())
    assert code == 1 and record["variants"]["fused"]["wrong"].startswith("wrong result")
    record["variants"]["tree"]["source_sha256"] = "of another text"
    path.write_text(json.dumps(record))
    lab = sanitizer_checks.read(tmp_path)[0][0]
    assert "Not checked in lbm with the kernel of today: tree." in sanitizer_checks.checks(tmp_path)
    assert (lab.checked, lab.clean) == (["fused"], 0) and lab.reports[0].text.startswith("wrong result")


def test_without_a_file_the_page_has_no_table(tmp_path: Path) -> None:
    assert sanitizer_checks.checks(tmp_path) == ""


CHECK_ALL = ["check", "lbm", "all", "--device", "cuda:0", "--out"]


@pytest.fixture
def record(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path
) -> tuple[Path, dict[str, Any]]:
    """Return the file that a check without findings wrote, and its content."""
    several({})
    assert command(*CHECK_ALL, str(tmp_path / "checks"))[0] == 0
    path = tmp_path / "checks" / "lbm.json"
    return path, json.loads(path.read_text())


DAMAGED: dict[str, Callable[[dict[str, Any]], Any]] = {
    "a list": lambda record: [record],
    "another lab": lambda record: record | {"lab": "cnn"},
    "another field": lambda record: record | {"author": "<b>"},
    "a field less": lambda record: {name: value for name, value in record.items() if name != "time"},
    "a number as a device": lambda record: record | {"device": 1},
    "HTML as a commit": lambda record: record | {"git": record["git"] | {"commit": "<script>alert(1)</script>"}},
    "a number as a time": lambda record: record | {"time": 1e308},
    "a time without a zone": lambda record: record | {"time": "2026-11-29"},
    "a limit of NaN": lambda record: record | {"limit_s": float("nan")},
    "a variant that is a text": lambda record: record | {"variants": {"fused": "clean"}},
    "no tool": lambda record: of_fused(record, tools={}),
    "a tool less": lambda record: of_fused(record, tools={"memcheck": []}),
    "a finding that is a number": lambda record: of_fused(record, tools={tool: [1] for tool in sanitize.TOOLS}),
    "another scale": lambda record: of_fused(record, scale="quick"),
    "half a character": lambda record: of_fused(record, wrong="\udc80"),
    "a huge text": lambda record: of_fused(record, wrong="x" * 10**6),
}
"""Changes to a record that `roofbook check --out` cannot have written."""


def of_fused(record: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a record with other fields of its variant `fused`."""
    return record | {"variants": record["variants"] | {"fused": record["variants"]["fused"] | fields}}


CONTENTS: dict[str, bytes] = {
    "not UTF-8": b"\xff\xfe{}", "empty": b"", "half": b'{"lab": "lbm"', "deep": b"[" * 100_000, "large": b" " * (9 << 20),
    "many digits": b"1" * 10_000,
}  # fmt: skip


@pytest.mark.parametrize("name", [*DAMAGED, *CONTENTS, "a folder", "a dangling link", "a pipe"])
def test_a_file_that_is_no_record_is_named_on_the_page_and_not_replaced(
    record: tuple[Path, dict[str, Any]], command: Command, name: str
) -> None:
    path, content = record
    path.unlink()
    if name == "a folder":
        path.mkdir()
    elif name == "a pipe":
        os.mkfifo(path)
    elif name == "a dangling link":
        path.symlink_to("none")
    else:
        path.write_bytes(CONTENTS[name] if name in CONTENTS else json.dumps(DAMAGED[name](content)).encode())
    html = sanitizer_checks.checks(path.parents[1])
    assert (
        "Left out, as <code>roofbook check --out</code> did not write it: lbm.json" in html
        and "<script>alert" not in html
    )
    before = path.lstat()
    code, out, err = command(*CHECK_ALL, str(path.parent))
    assert (code, out) == (2, "") and err.startswith(f"error: {path} is no record of checks: ") and err.count("\n") == 1
    assert path.lstat() == before


def test_texts_of_a_record_are_text_on_the_page(record: tuple[Path, dict[str, Any]]) -> None:
    path, content = record
    hostile = "<script>alert(1)</script>"
    finding = {"kind": hostile, "kernel": hostile, "lines": [], "count": 1}
    changed = of_fused(
        content, wrong=hostile, tools={tool: [finding] for tool in sanitize.TOOLS} | {"memcheck": hostile}
    )
    changed |= {"sanitizer": hostile, "device": content["device"] | {"model": hostile}}
    changed["variants"] |= {hostile: changed["variants"]["fused"], "unrolled": changed["variants"]["fused"]}
    path.write_text(json.dumps(changed))
    html = sanitizer_checks.checks(path.parents[1])
    assert "<script>" not in html and "&lt;script&gt;" in html and "unrolled" not in html


def test_a_record_without_a_commit_or_a_limit_is_read(record: tuple[Path, dict[str, Any]]) -> None:
    path, content = record
    path.write_text(json.dumps(content | {"git": None, "limit_s": None}))
    assert "unknown commit" in sanitizer_checks.checks(path.parents[1])


@pytest.mark.parametrize("stops", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_check_that_stops_replaces_no_record_of_more_variants(
    record: tuple[Path, dict[str, Any]], command: Command, monkeypatch: pytest.MonkeyPatch, stops: Any
) -> None:
    path, content = record
    unfinished = path.with_name("lbm.unfinished.json")
    whole, tools_check = path.read_bytes(), sanitize.check

    def stopping(*arguments: Any, **options: Any) -> Iterator[CheckedVariant]:
        yield next(tools_check(*arguments, **options))
        raise stops

    with monkeypatch.context() as patch:
        patch.setattr(sanitize, "check", stopping)
        code, _, err = command(*CHECK_ALL, str(path.parent))
        words = (
            f"stopped; the results so far are in {path.parent}\n" if code == 130 else "error: No space left on device\n"
        )
        assert code in (2, 130) and err == words and path.read_bytes() == whole
        assert list(json.loads(unfinished.read_text())["variants"]) == ["fused"]
        path.unlink()
        command(*CHECK_ALL, str(path.parent))
        assert list(json.loads(path.read_text())["variants"]) == ["fused"] and not unfinished.exists()
    assert command(*CHECK_ALL, str(path.parent))[0] == 0
    assert json.loads(path.read_text())["variants"].keys() == content["variants"].keys()
    assert [file.name for file in path.parent.iterdir()] == ["lbm.json"]


def test_one_check_at_a_time_writes_to_a_folder(record: tuple[Path, dict[str, Any]], command: Command) -> None:
    path, _ = record
    with sanitizer_record.writing(path.parent, [registry.get("lbm")]):
        code, out, err = command(*CHECK_ALL, str(path.parent))
    assert (code, out) == (2, "") and err.startswith(f"error: another check writes to {path.parent}: ")
    assert command(*CHECK_ALL, str(path.parent))[0] == 0


@pytest.mark.parametrize("out", ["file", "file/below", "closed", "closed/below", "link", ""])
def test_a_folder_that_cannot_be_written_is_one_line_before_anything_is_checked(
    gpu: Gpu, several: Callable[..., Any], two_steps: None, command: Command, tmp_path: Path, out: str
) -> None:
    several({})
    (tmp_path / "file").touch()
    (tmp_path / "closed").mkdir(0o500)
    (tmp_path / "link").symlink_to("link")
    if os.getuid() == 0 and out.startswith("closed"):
        pytest.skip("root may write anywhere")
    code, printed, err = command(*CHECK_ALL, str(tmp_path / out) if out else "")
    assert (code, printed) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert not (tmp_path / f"{sanitize.SANITIZER}.calls").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        *(["lbm", "all", "--jobs", jobs] for jobs in ("0", "x", "-1", "1.5", "65", "")),
        *(["lbm", "all", "--limit", limit] for limit in ("-1", "nan", "0", "x", "")),
        ["no-lab", "all"], ["lbm", "no-variant"], ["all", "all", "16ch-16x28-k5"], ["all", "all", "40x24"],
        ["lbm", "all", "40x24", "--out", "checks"], ["lbm", "all", "--scale", "quick", "--out", "checks"],
    ],
)  # fmt: skip
def test_bad_input_is_one_line_before_anything_is_checked(
    gpu: Gpu, several: Callable[..., Any], command: Command, tmp_path: Path, arguments: list[str]
) -> None:
    several({})
    code, out, err = command("check", *arguments, "--device", "cuda:0")
    assert (code, out) == (2, "") and err.startswith("error: ") and err.count("\n") == 1
    assert not (tmp_path / f"{sanitize.SANITIZER}.calls").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["all", "tree"], "with `all` for LAB, VARIANT must be `all` too"),
        (["lbm", "tree", "--out", "checks"], "--out needs `all` for VARIANT and a CUDA device"),
        (
            ["lbm", "all", "--out", "checks", "--device", host_cpu().spec],
            "--out needs `all` for VARIANT and a CUDA device",
        ),
    ],
)
def test_what_keeps_no_results_is_one_line(gpu: Gpu, command: Command, arguments: list[str], words: str) -> None:
    device = [] if "--device" in arguments else ["--device", "cuda:0"]
    code, out, err = command("check", *arguments, *device)
    assert (code, out) == (2, "") and words in err and err.count("\n") == 1


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["lbm", "tre"], "did you mean 'tree'?"),
        (["lbm", "graph"], "graph cannot be checked: it has no OpenCL form; name a CUDA device"),
        (["lbm", "openmp"], "openmp cannot be checked: it has no kernel of ours"),
        (["lbm", "bit-neighbours"], "bit-neighbours cannot be checked: not on this case: a side is not a power of two"),
        (["lbm", "tree", "128x1x1"], "unknown case '128x1x1'; valid: 40x24"),
        (["lbm", "tree", "--device", "cuda:7"], "unknown device 'cuda:7'"),
    ],
)
def test_a_mistake_is_one_line(command: Command, arguments: list[str], words: str) -> None:
    code, out, err = command("check", *arguments, *([] if "--device" in arguments else ["--device", host_cpu().spec]))
    assert (code, out) == (2, "") and words in err and err.startswith("error: ") and err.count("\n") == 1


def test_a_missing_tool_is_one_line_that_says_how_to_get_it(
    gpu: Gpu, command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(sanitize, "PACKAGE", "no-such-package-of-oclgrind")
    monkeypatch.setattr(sanitize, "SANITIZER_PATHS", (str(tmp_path / "none"),))
    monkeypatch.setenv("PATH", str(tmp_path))
    for device, words in (
        (host_cpu().spec, "`pip install no-such-package"),
        ("cuda:0", "install NVIDIA's CUDA toolkit"),
    ):
        code, out, err = command("check", "lbm", "tree", "--device", device)
        assert (code, out) == (2, "") and words in err and err.startswith("error: no ") and err.count("\n") == 1
    assert command("check", "lbm", "tree", "--device", "cuda:0", "--ends")[0] == 2
