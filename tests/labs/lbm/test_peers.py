"""lbmpy's kernels against the float64 reference, on the CPU and on NVIDIA GPUs, and their messages when they cannot run.

Kernels generated for a GPU are also compiled for the CPU, and host memory takes the place of the GPU's.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import BuildFailed, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.labs.lbm import LAB, peers
from roofbook.labs.lbm.problem import Params, bound, bound_av_vels, error, error_av_vels, initial, reference
from roofbook.spec.lab import by_make
from roofbook.spec.plan import Case, Variant

needs_lbmpy = pytest.mark.skipif(peers.Lbmpy.missing() is not None, reason=str(peers.Lbmpy.missing()))

SIZES = ["1x2", "5x4", "16x3", "17x9", "33x130", "40x24"]
PATTERNS = ["pull", "push", "aa", "esotwist", "esopull", "esopush"]


def problem(size: str, accel: float = 0.1, omega: float = 1.7) -> dict[str, Any]:
    """Return a problem with a strong drive, obstacles at random (a third of row ny-2 among them), and a noisy start."""
    nx, ny = map(int, size.split("x"))
    draw = np.random.default_rng(nx * 1000 + ny)
    obstacles = draw.random((ny, nx)) < 0.25
    obstacles[ny - 2, ::3] = True
    obstacles[ny - 1, 0] = obstacles[ny - 2, nx // 2] = False
    params = Params(nx, ny, 1, 10, 0.1, accel, omega)
    start = initial(params, np.float32) * draw.uniform(0.9, 1.1, (9, ny, nx)).astype(np.float32)
    return {"params": params, "obstacles": obstacles, "f": start}


def case_of(inputs: dict[str, Any], steps: int) -> Case:
    params = inputs["params"]
    return Case(f"{params.nx}x{params.ny}", "test", {**asdict(params), "check_steps": steps}, steps)


def peer(name: str, plan: Any, **options: Any) -> Variant:
    return Variant(name, None, None, plan, "", "", role="peer", options=options)


# -- places to run -----------------------------------------------------------------------------------------------------


class Memory:
    """Buffer in host memory: NaN before it is written."""

    def __init__(self, nbytes: int) -> None:
        self.memory = np.full(nbytes, 0xFF, np.uint8)

    def release(self) -> None:
        self.memory = np.empty(0, np.uint8)


class Paper:
    """Stand-in for a CUDA device and its queue. Recorded work is done when the graph is launched."""

    stream = nullcontext()

    def queue(self) -> Paper:
        return self

    def empty(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def upload(self, array: np.ndarray) -> Memory:
        buffer = self.empty(array.nbytes)
        self.write(buffer, array)
        return buffer

    def write(self, buffer: Memory, array: np.ndarray) -> None:
        buffer.memory[:] = array.ravel().view(np.uint8)

    def read(self, buffer: Memory, array: np.ndarray) -> np.ndarray:
        array.ravel().view(np.uint8)[:] = buffer.memory
        return array

    def record(self, submit: Callable[[], None]) -> Any:
        return SimpleNamespace(launch=submit)


class Jit:
    """C++ compiler without optimisation, whose kernels have the attributes of a GPU's."""

    def __init__(self, folder: Path) -> None:
        info = importlib.import_module("pystencils.jit.cpu.compiler_info").CompilerInfo
        jit = importlib.import_module("pystencils.jit").CpuJit
        self.jit = jit(info.get_default(optlevel="0"), objcache=folder)

    def compile(self, kernel: Any) -> Any:
        loaded = self.jit.compile(kernel)
        loaded.raw_kernel = SimpleNamespace(kernel=None, attributes=dict.fromkeys(TOLD, 0))
        return loaded


TOLD = ("num_regs", "local_size_bytes", "shared_size_bytes", "const_size_bytes", "max_threads_per_block")


@pytest.fixture
def paper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Paper:
    importlib.import_module("lbmpy")  # which looks at the class when it is imported
    ps = importlib.import_module("pystencils")
    config = ps.CreateKernelConfig

    def for_this_cpu(target: Any, **options: Any) -> Any:
        return config(target=ps.Target.GenericCPU, jit=Jit(tmp_path), **options)

    monkeypatch.setattr(ps, "CreateKernelConfig", for_this_cpu)
    monkeypatch.setattr(peers, "for_gpu", peers.for_gpu.__wrapped__)
    return Paper()


@pytest.fixture
def card(device: Any) -> Any:
    if device.backend != "cuda":
        pytest.skip("lbmpy runs on NVIDIA's GPUs by CUDA")
    return device


def run(variant: Variant, place: Any, inputs: dict[str, Any], steps: int, times: int = 1) -> dict[str, np.ndarray]:
    """Return outputs after `times` runs, one after another, from a second reset."""
    runnable = variant.plan(place, variant, case_of(inputs, steps), inputs)
    runnable.reset()
    runnable.run()
    runnable.reset()
    if not variant.options.get("bare"):
        assert np.isnan(runnable.outputs()["av_vels"]).all()
    for _ in range(times):
        runnable.run()
    outputs = runnable.outputs()
    assert runnable.facts()["lbmpy"]
    runnable.close()
    return outputs


def agrees(variant: Variant, place: Any, inputs: dict[str, Any], runs: tuple[tuple[int, int], ...]) -> None:
    """Assert that all runs (steps, times) are within the bounds, and that a bare one leaves out obstacles and drive."""
    bare = variant.options.get("bare")
    problem = {**inputs, "params": replace(inputs["params"], accel=0.0), "obstacles": inputs["obstacles"] & False}
    right = problem if bare else inputs
    for steps, times in runs:
        outputs = run(variant, place, inputs, steps, times)
        f, av_vels = reference(right["params"], right["obstacles"], steps * times, right["f"])
        assert outputs["f"].dtype == np.float64
        assert error(outputs["f"], f) <= bound(steps * times), f"{steps} steps, {times} times"
        if bare:
            assert "av_vels" not in outputs
        else:
            fluid = int((~right["obstacles"]).sum())
            expected = av_vels[-steps:]
            assert error_av_vels(outputs["av_vels"], expected) <= bound_av_vels(av_vels, fluid), f"{steps}, {times}"


RUNS = ((7, 1), (4, 2), (3, 2), (1, 3))
"""(steps, times): the second run goes on from where the first ended, after an odd step too."""


# -- right -------------------------------------------------------------------------------------------------------------


@needs_lbmpy
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("bare", [False, True])
def test_it_lies_within_the_bounds_on_the_cpu(bare: bool, size: str) -> None:
    agrees(peer("cpu", peers.OnCpu, bare=bare), host_cpu(), problem(size), RUNS)


@needs_lbmpy
@pytest.mark.parametrize(
    ("pattern", "bare"), [*((pattern, False) for pattern in PATTERNS), ("pull", True), ("aa", True)]
)
def test_what_is_generated_for_a_gpu_lies_within_the_bounds(paper: Paper, pattern: str, bare: bool) -> None:
    for size in ("1x2", "5x4", "17x9") if pattern in ("aa", "pull") else ("17x9",):
        agrees(peer("gpu", peers.OnGpu, pattern=pattern, block=(32, 4), bare=bare), paper, problem(size), RUNS)


@needs_lbmpy
@pytest.mark.gpu
@pytest.mark.parametrize("bare", [False, True])
def test_it_lies_within_the_bounds_on_a_gpu(card: Any, bare: bool) -> None:
    for pattern, block, size in product(PATTERNS, [(64, 1), (32, 4), (256, 1)], ["5x4", "33x130"]):
        agrees(peer("gpu", peers.OnGpu, pattern=pattern, block=block, bare=bare), card, problem(size), RUNS)


@needs_lbmpy
@pytest.mark.parametrize("plan", [peers.OnCpu, peers.OnGpu], ids=lambda plan: plan.__name__)
def test_a_push_that_would_empty_a_population_is_refused(request: pytest.FixtureRequest, plan: Any) -> None:
    """With accel = 1 the noise decides, cell by cell, whether there is enough to take from."""
    inputs = problem("64x32", accel=1.0, omega=1.0)
    before = inputs["f"][[3, 6, 7], 30][:, ~inputs["obstacles"][30]] > 0.1 * np.array([[1 / 9], [1 / 36], [1 / 36]])
    assert 0.05 < before.all(axis=0).mean() < 0.5, "some cells are pushed, most are not"
    place = host_cpu() if plan is peers.OnCpu else request.getfixturevalue("paper")
    agrees(peer("drive", plan, pattern="aa", block=(64, 1)), place, inputs, ((2, 1), (1, 2)))


@needs_lbmpy
@pytest.mark.parametrize("plan", [peers.OnCpu, peers.OnGpu], ids=lambda plan: plan.__name__)
def test_a_run_goes_through_no_cell_by_numpy(request: pytest.FixtureRequest, plan: Any) -> None:
    """Work that a user of lbmpy has not in each run is not in its time, such as counting the fluid cells."""
    inputs = problem("40x24")
    place = host_cpu() if plan is peers.OnCpu else request.getfixturevalue("paper")
    runnable = plan(place, peer("lean", plan, pattern="aa", block=(64, 1)), case_of(inputs, 2), inputs)
    runnable.reset()
    start, runnable.start, runnable.fluid = runnable.start, None, None
    runnable.run()
    runnable.start = start
    assert np.isfinite(runnable.outputs()["av_vels"]).all()
    runnable.close()


@needs_lbmpy
def test_the_labs_own_rows_pass_the_labs_own_check(request: pytest.FixtureRequest) -> None:
    inputs = problem("40x24")
    case = case_of(inputs, 6)
    expected = LAB.reference(case, inputs)
    outputs = {}
    for name in ("lbmpy-cpu", "lbmpy", "lbmpy-bare"):
        variant = LAB.variant(name)
        place = host_cpu() if variant.backends == {"host"} else request.getfixturevalue("paper")
        outputs[name] = run(variant, place, inputs, 6)
        measured, allowed, _ = LAB.check(case, variant, outputs[name], expected)
        assert measured <= allowed, f"{name}: {measured:.3g}"
    bare, full = LAB.variant("lbmpy-bare"), LAB.variant("lbmpy")
    for variant, wrong in ((bare, outputs["lbmpy"]), (full, {**outputs["lbmpy"], **outputs["lbmpy-bare"]})):
        measured, allowed, _ = LAB.check(case, variant, wrong, expected)
        assert measured > 100 * allowed, "a flow around obstacles is not one without"


def test_each_row_says_what_it_leaves_out() -> None:
    rows = [v for v in LAB.peers if isinstance(v.plan, type) and issubclass(v.plan, peers.Lbmpy)]
    assert [v.name for v in rows] == ["lbmpy-cpu", "lbmpy", "lbmpy-bare"]
    for peer_row in rows:
        left_out = all(word in peer_row.change for word in ("no obstacles", "no drive", "no mean speeds"))
        assert left_out == bool(peer_row.options.get("bare"))


def test_rows_of_a_grid_begin_where_vectors_like_it() -> None:
    for planes, rows, columns in ((9, 5, 7), (1, 3, 130), (9, 66, 66)):
        grid = peers.aligned(planes, rows, columns)
        assert grid.shape == (planes, rows, columns) and not grid.any()
        starts = [grid[k, y, 1:].ctypes.data % 64 for k in range(planes) for y in range(rows)]
        assert not any(starts) and grid.strides[2] == 4
        grid[0] = 1
        assert not grid[1:].any()


# -- clean, absent or refused ------------------------------------------------------------------------------------------


@needs_lbmpy
def test_it_leaves_subnormals_alone() -> None:
    run(peer("cpu", peers.OnCpu), host_cpu(), problem("5x4"), 1)
    assert np.float32(1e-40) * np.float32(0.5) != 0


def test_the_lab_imports_without_it() -> None:
    code = "import sys, roofbook.labs.lbm; sys.exit(bool({'lbmpy', 'pystencils', 'sympy', 'cupy'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize(("module", "package"), [("lbmpy", "lbmpy"), ("cpuinfo", "py-cpuinfo")])
def test_a_missing_package_is_an_excuse(monkeypatch: pytest.MonkeyPatch, module: str, package: str) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name != module or None)
    reason = f"{package} is not installed: pip install 'roofbook[peers]'"
    assert peers.Lbmpy.missing() == reason
    case = LAB.cases("test")[0]
    assert {LAB.skip_reason(LAB.variant(name), case) for name in ("lbmpy-cpu", "lbmpy", "lbmpy-bare")} == {
        by_make(reason)
    }
    assert LAB.skip_reason(LAB.variant("openmp"), case) is None
    with pytest.raises(Unsupported, match=re.escape(reason)):
        peers.OnCpu(host_cpu(), LAB.variant("lbmpy-cpu"), case, LAB.inputs(case, 1))


@needs_lbmpy
def test_another_lbmpy_than_it_knows_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("pystencils.AddReductionAssignment")
    monkeypatch.setattr(peers, "for_cpu", peers.for_cpu.__wrapped__)
    with pytest.raises(
        Unsupported, match=r"^lbmpy [\d.]+ does not load: cannot import name 'AddReductionAssignment' from "
    ):
        run(peer("cpu", peers.OnCpu), host_cpu(), problem("5x4"), 1)


@needs_lbmpy
def test_a_missing_compiler_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    info = importlib.import_module("pystencils.jit.cpu.compiler_info").CompilerInfo
    monkeypatch.setattr(info, "get_available_compilers", lambda: ())
    for name in ("for_cpu", "_compiler"):
        monkeypatch.setattr(peers, name, getattr(peers, name).__wrapped__)
    with pytest.raises(Unsupported, match=r"^lbmpy finds no C\+\+ compiler: install g\+\+ or clang\+\+$"):
        run(peer("cpu", peers.OnCpu), host_cpu(), problem("5x4"), 1)


@needs_lbmpy
def test_a_compiler_that_refuses_is_said_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    jit = importlib.import_module("pystencils.jit").CpuJit
    monkeypatch.setattr(jit, "compile", refuse)
    with pytest.raises(BuildFailed, match=r"^a\.cpp:4:10: fatal error: Python\.h: No such file or directory$"):
        run(peer("cpu", peers.OnCpu), host_cpu(), problem("5x4"), 1)


def refuse(jit: Any, kernel: Any) -> Any:
    error = importlib.import_module("pystencils.jit.error").JitError
    raise error(
        "Compilation failed\nCompiler arguments: -O3\na.cpp:4:10: fatal error: Python.h: No such file or directory\n"
    )
