"""The fastest verified kernel as a file that the judge accepts, as a call on arrays, and in a front of time and error."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import roofbook
from roofbook.analysis import best_kernels
from roofbook.analysis.best_kernels import Ranked, front, judged_file, ranking
from roofbook.book.experiment import Experiment
from roofbook.devices.find import open_device
from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.spec.submission import submission_of
from roofbook.store.parquet import Store

from ..conftest import Command

CASE = "10x1032"


@pytest.fixture(scope="module")
def place(unmeasured: Callable[[], Path]) -> Path:
    """A checkout whose store has three kernels of the stencil; one of them runs all passes in one launch."""
    root = unmeasured()
    parameters = {
        "device": "opencl:0",
        "cases": [CASE],
        "variants": ["checked", "float4", "fused"],
        "scale": "test",
        "budget_s": 1e-6,
        "results": str(root / "results"),
    }
    Experiment("stencil", parameters, root).bring_up_to_date()
    return root


@pytest.mark.thorough
def test_the_file_of_the_fastest_that_a_head_can_say_is_judged_right(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    lab, device = registry.get("stencil"), open_device("opencl:0")
    case, store = lab.case(CASE), Store(place / "results")
    ranked = ranking(lab, store, device, case)
    assert {kernel.variant.name for kernel in ranked} == {"checked", "float4", "fused"}
    ordered = sorted(ranked, key=lambda kernel: kernel.variant.name != "fused")
    kernel, text, reasons = judged_file(lab, device, case, ordered)
    assert kernel.variant.name in ("checked", "float4")
    assert (
        reasons[0]
        == "fused cannot be said in a file: its 23 units have 1 launches in all, and a head says those of each unit"
    )
    assert submission_of(text).launches[0].arguments[:3] == ("r", "b", "g")
    (place / "best.cl").write_text(text)
    options = ("--case", CASE, "--no-time", "--device", "opencl:0", "--against", kernel.variant.name)
    assert f"roofbook judge stencil FILE --against {kernel.variant.name}\n" in text
    code, out, err = command("judge", "stencil", "best.cl", *options)
    assert code == 0 and "right on " in out and CASE in out, err


def test_a_point_of_a_sweep_of_a_probe_is_no_kernel_of_the_ranking(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab, device = registry.get("stencil"), open_device("opencl:0")
    case, store, role = lab.case(CASE), Store(place / "results"), "probe"
    ladder = tuple(replace(step, role=role) if step.name == "float4" else step for step in lab.ladder)
    monkeypatch.setattr(lab, "ladder", ladder)
    assert {kernel.variant.name for kernel in ranking(lab, store, device, case)} == {"checked", "fused"}
    lbm = registry.get("lbm")
    assert lbm.is_probe(lbm.variant("c-host@step=no-compute")) and not lbm.is_probe(lbm.variant("c-host@step=fused"))


def test_a_text_that_the_judge_refuses_is_not_given(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lab, device = registry.get("stencil"), open_device("opencl:0")
    case, store = lab.case(CASE), Store(place / "results")
    ranked = [kernel for kernel in ranking(lab, store, device, case) if kernel.variant.name == "checked"]
    wrong = "// launch f(r, b, g): 1; group 1\n__kernel void f(__global float *r, __global float *b, __global float *g) {}\n"
    monkeypatch.setattr(best_kernels, "_text", lambda *_: wrong)
    with pytest.raises(
        UsageError,
        match=r"^checked cannot be said in a file: the judge refuses it: .*; `--as pyopencl` prints a call of the fastest$",
    ):
        judged_file(lab, device, case, ranked)


def test_a_call_on_pyopencl_arrays_returns_the_right_outputs(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    import pyopencl as cl
    import pyopencl.array

    kernel = roofbook.best("stencil", CASE, "opencl:0")
    lab, case = kernel.lab, kernel.case
    assert kernel.error <= kernel.tolerance and kernel.variant.name in repr(kernel)
    queue = cl.CommandQueue(cl.create_some_context(False))
    for seed in (5, 6):
        inputs = lab.inputs(case, seed)
        outputs = kernel(**{name: cl.array.to_device(queue, array) for name, array in inputs.items()})
        assert isinstance(outputs["g"], cl.array.Array) and outputs["g"].dtype == np.float32
        right = {**lab.reference(case, inputs), **lab.device_losses(kernel.device, kernel.variant)}
        error, tolerance, _ = lab.check(case, kernel.variant, {"g": outputs["g"].get().astype(float)}, right)
        assert error <= tolerance
        assert np.array_equal(kernel(**inputs)["g"], outputs["g"].get())
    with pytest.raises(UsageError, match="the arrays are r, b, g, not r"):
        kernel(r=inputs["r"])
    with pytest.raises(UsageError, match=r"r is float32 \(10, 1032\), not float64 \(10, 1032\)"):
        kernel(**{**inputs, "r": inputs["r"].astype(float)})
    kernel.close()


def test_the_command_lists_the_fastest_and_a_program_that_calls_it(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    code, out, err = command("best", "stencil", CASE, "--device", "opencl:0")
    assert code == 0 and "of 3 kernels:" in out and re.search(r"error \S+ of at most 1", " ".join(out.split())), err
    code, out, err = command("best", "stencil", CASE, "--device", "opencl:0", "--as", "pyopencl", "--out", "call.py")
    assert (code, out) == (0, ""), err
    run = subprocess.run([sys.executable, "call.py"], cwd=place, capture_output=True, text=True, timeout=500)
    assert run.returncode == 0 and run.stdout.startswith("<stencil "), run.stderr
    code, _, err = command("best", "stencil", "9x1000", "--device", "opencl:0")
    assert code == 2 and "no kernel of stencil was measured on 9x1000" in err and "roofbook run stencil" in err


def ranked(name: str, seconds: float, *conditions: str) -> Ranked:
    reading: Any = SimpleNamespace(median=seconds)
    variant: Any = SimpleNamespace(name=name)
    return Ranked(variant, reading, conditions)


def test_a_less_exact_kernel_is_listed_only_if_it_is_faster() -> None:
    kernels = [
        ranked("halves", 1.0, "rounds operands to fp16"), ranked("plain", 3.0), ranked("slow", 4.0),
        ranked("brains", 2.0, "rounds operands to bf16"), ranked("tf32", 3.5, "rounds operands to TF32"),
    ]  # fmt: skip
    kernels.sort(key=lambda kernel: kernel.reading.median)
    assert [kernel.variant.name for kernel in front(kernels)] == ["plain", "brains", "halves"]
