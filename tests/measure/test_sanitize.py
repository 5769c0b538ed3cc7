"""`roofbook check` finds a barrier that was taken out, and an access out of bounds, with the kernel's own lines."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.often import often

from roofbook import labs, paths, process_tree
from roofbook.devices import cuda, nvrtc, opencl
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import UsageError
from roofbook.measure import sanitize, sanitizer_worker
from roofbook.measure.sanitize import CheckedVariant
from roofbook.process_tree import PatientClock
from roofbook.report import sanitizer_text
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

    def cases(self, scale):
        (case,) = super().cases(scale)
        return [replace(case, name="20x12", params={**case.params, "nx": 20, "ny": 12})]

LAB = Flawed()
"""
"""A lab outside of the library: `lbm`'s variant `tree`, once for each folder with its kernels, on a case that Oclgrind
interprets soon."""
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

    def cases(self, scale):
        (case,) = super().cases(scale)
        return [replace(case, name="20x12", params={**case.params, "nx": 20, "ny": 12})]

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
    with pytest.MonkeyPatch.context() as patch:
        for name, value in readers_variables(folder).items():
            patch.setenv(name, value)
        return {variant_check.variant.name: variant_check for variant_check in sanitize.check(lab, chosen, host_cpu())}


def readers_variables(folder: Path) -> dict[str, str]:
    """Return variables of Oclgrind that would hide its reports, if they reached it."""
    return {"OCLGRIND_LOG": str(folder / "reports"), "OCLGRIND_NUM_THREADS": "0"}


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


def test_no_variable_of_the_reader_hides_a_report(folder: Path, checked: dict[str, CheckedVariant]) -> None:
    assert all(variant_check.defects for name, variant_check in checked.items() if name != "right")
    assert not (folder / "reports").exists()


def test_the_command_prints_findings_with_their_lines(
    folder: Path, checked: dict[str, CheckedVariant], command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        sanitize, "check", lambda lab, cells, *_, **options: iter([checked[variant.name] for variant, _ in cells])
    )
    code, out, err = command("check", "flawed", "no-barrier")
    place = folder / "no-barrier" / "reduce_tree.inc"
    number = place.read_text().splitlines().index("      speeds[lane] += speeds[lane + reach];") + 1
    assert (code, err) == (1, "") and "read-write data race in local memory, in kernel fused" in out
    assert f"  {place}:{number}: speeds[lane] += speeds[lane + reach];\n" in out
    assert "no-barrier on 20x12 by Oclgrind" in out


def test_the_ends_of_a_launch_stand_for_it_and_nothing_is_compared(folder: Path, command: Command) -> None:
    code, out, err = command("check", "flawed", "right", "--ends")
    assert (code, err) == (0, "")
    assert out.startswith("right on 20x12 by Oclgrind")
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


@pytest.fixture
def check_by_worker(
    oclgrind: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., list[sanitize.CheckedVariant]]:
    """Return a function that checks steps of lbm by a worker of this code, which has its `order` and a right `result`."""
    script = tmp_path / "python"

    def check(code: str, *names: str) -> list[sanitize.CheckedVariant]:
        script.write_text(
            f"#!{sys.executable} -IS\n"
            "import json, os, sys, time\n"
            "order = json.loads(sys.argv[-1])\n"
            "result = {'error': 0.5, 'tolerance': 1.0, 'compared': 'x', 'tool': 'Oclgrind 1', 'optimised': True}\n"
            "def write(**message):\n"
            "    print(json.dumps(message), file=open(order['out'], 'a'), flush=True)\n"
            f"{code}"
        )
        script.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(script))
        lab = registry.get("lbm")
        case = lab.case("40x24", "test")
        return list(sanitize.check(lab, [(lab.variant(name), case) for name in names], host_cpu()))

    return check


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
    check_by_worker: Callable[..., list[sanitize.CheckedVariant]], end: str, reason: str
) -> None:
    """The interpreter crashes in the second variant; the findings of the others are complete."""
    code = (
        "for name, *_ in order['chosen']:\n"
        "    print(order['mark'] + name, file=sys.stderr, flush=True)\n"
        "    write(variant=name, stage='plan')\n"
        f"    if name == 'soa':\n        {end}\n"
        "    write(variant=name, result=result)\n"
    )
    done = check_by_worker(code, "fused", "soa", "tree")
    assert [(variant_check.variant.name, variant_check.clean) for variant_check in done] == [
        ("fused", True),
        ("soa", False),
        ("tree", True),
    ]
    assert done[1].failure == reason
    assert "nothing found" not in sanitizer_text.summary(
        done[1]
    ) and "not checked to its end; Oclgrind" in sanitizer_text.summary(done[1])


@pytest.mark.parametrize(
    ("act", "reason"),
    [
        ("write(variant=name, result={'reason': ' ', 'tool': 'x', 'optimised': True}); sys.exit(3)",
         "Oclgrind ended with exit code 3 (no message)"),
        ("write(variant=name, result={**result, 'tolerance': None}); sys.exit(3)",
         "Oclgrind ended with exit code 3 (no message)"),
        ("print('x' * 9999); write(variant=name, result=result); sys.exit()",
         "it printed more than 32 MiB, so reports are missing"),
        ("print('\tKernel: k\\n' * 99 + chr(0) + '\x1b[2J'); sys.exit(3)", "Oclgrind ended with exit code 3 ([2J)"),
        ("print('OCLGRIND FATAL ERROR\\n\x1b[2J'); write(variant=name, result=result)", "Oclgrind cannot run it: [2J"),
    ],
)  # fmt: skip
def test_what_a_kernel_prints_or_writes_costs_no_other_variant(
    check_by_worker: Callable[..., list[sanitize.CheckedVariant]],
    monkeypatch: pytest.MonkeyPatch,
    act: str,
    reason: str,
) -> None:
    """The process of the last variant ends before it names it, as one without memory does."""
    code = (
        "for name, *_ in order['chosen']:\n"
        "    if order['chosen'][0][0] == 'tree':\n"
        "        sys.exit('no memory')\n"
        "    print(order['mark'] + name, file=sys.stderr, flush=True)\n"
        "    if name == 'soa':\n"
        f"        {act}\n"
        "        time.sleep(0.2)\n"
        "        sys.exit()\n"
        "    write(variant=name, result=result)\n"
    )
    monkeypatch.setattr(process_tree, "MOST_OUTPUT", 2000)
    monkeypatch.setattr(os, "read", partial(lambda read, file, size: read(file, min(size, 1000)), os.read))
    done = check_by_worker(code, "fused", "soa", "tree")
    assert [check.clean for check in done] == [True, False, False]
    assert [check.failure for check in done[1:]] == [reason, "Oclgrind ended with exit code 1 (no memory)"]
    assert all("not checked to its end" in sanitizer_text.summary(check) for check in done[1:])


def test_a_tool_that_never_ends_is_ended(
    check_by_worker: Callable[..., list[sanitize.CheckedVariant]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As soon as it hangs, here: a test waits for no limit."""
    code = (
        "name = order['chosen'][0][0]\n"
        "print(order['mark'] + name, file=sys.stderr, flush=True)\n"
        "write(variant=name, stage='run')\n"
        f"open({str(tmp_path / 'hangs')!r}, 'w')\n"
        "time.sleep(3600)\n"
    )
    monkeypatch.setattr(PatientClock, "is_over", lambda clock: (tmp_path / "hangs").exists())
    monkeypatch.setattr(PatientClock, "SLICE_S", 0.05)
    (variant_check,) = check_by_worker(code, "fused")
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
    assert (code, err) == (1, "") and "bad on 20x12 by Oclgrind" in printed and "not checked to its end" in printed
    for name in ("one", "two"):
        assert re.search(rf"{name} on 20x12 by Oclgrind [\d.]+: nothing found; its result is right", printed), printed


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

DIED = """========= Error: process didn't terminate successfully
=========     The application may have hit an error when dereferencing Unified Memory from the host. Please rerun the application under cuda-gdb or a host debugger to catch host side errors.
========= Target application returned an error
========= ERROR SUMMARY: 0 errors
"""  # noqa: E501
"""Output of compute-sanitizer for a process that crashed while Python shut down."""
RIGHT = {"error": 0.5, "tolerance": 1.0, "compared": "x", "tool": "compute-sanitizer", "optimised": True}


@pytest.fixture
def sanitizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Any] | None], Path]:
    """Return a function that makes a compute-sanitizer: it logs its arguments, reports a race, and writes a worker's answer."""
    script = tmp_path / sanitize.SANITIZER

    def make(answer: dict[str, Any] | None, summary: str = "========= ERROR SUMMARY: 0 errors", code: int = 0) -> Path:
        script.write_text(
            f"#!{sys.executable} -IS\n"
            "import json, sys\n"
            f"place = {str(KERNELS / 'reduce_tree.inc')!r}\n"
            f"answer = {answer!r}\n"
            "open(__file__ + '.calls', 'a').write(json.dumps(sys.argv[1:]) + '\\n')\n"
            "print('========= COMPUTE-SANITIZER')\n"
            "if 'racecheck' in sys.argv:\n"
            "    print(f'========= Error: Race reported between Read access at fused+0x90 in {place}:12')\n"
            "    print(f'=========     and Write access at fused+0xb0 in {place}:12 [508 hazards]')\n"
            "order = json.loads(sys.argv[-1])\n"
            "if answer:\n"
            "    record = {'variant': order['chosen'][0][0], 'result': answer}\n"
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
