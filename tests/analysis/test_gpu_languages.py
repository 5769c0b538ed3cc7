"""One GPU by several backends, from made-up rows: ratios by rounds, the cost of checks, and the fragment of the page."""

import re
from pathlib import Path

import pytest

from roofbook.analysis import comparison
from roofbook.analysis.gpu_languages import MeasuredStep, steps_by_gpu
from roofbook.analysis.recorded import recorded
from roofbook.analysis.store_devices import StoreDevice
from roofbook.book import fragments
from roofbook.report.gpu_languages_table import of_lab, overview
from roofbook.spec import registry
from roofbook.store.parquet import Store

from .test_comparison import CUDA, GRID, H200, OPENCL, POCL, row, store

WEBGPU = StoreDevice("nvidia-h200", "webgpu", H200, "gpu")
UNCHECKED = StoreDevice("nvidia-h200", "webgpu-unchecked", H200, "gpu")
TOGETHER = "20260102T100000Z-abcdef"


def together(folder: Path) -> Store:
    """Return a store with two steps by four backends in one run, one more by WebGPU alone, and a CPU's rows."""
    times = {CUDA: 1e-5, OPENCL: 1e-5, WEBGPU: 2e-5, UNCHECKED: 1.25e-5}
    rows = [
        row(name, seconds, device, run=TOGETHER, cell_key=f"{name} {device.backend}")
        for name in ("fused", "soa")
        for device, seconds in times.items()
    ]
    rows += [row("flat-grid", 1e-5, WEBGPU, run=TOGETHER), row("fused", 1e-3, POCL, cell_key="of the CPU")]
    rows += [
        row("in-place", 1e-5, run=TOGETHER),
        row("in-place", 1e-5, WEBGPU, run=TOGETHER, status="failed", reason="it is wrong"),
    ]
    return store(folder, *rows)


@pytest.fixture
def steps(tmp_path: Path) -> list[MeasuredStep]:
    ((device, found),) = steps_by_gpu(together(tmp_path)).items()
    assert device == CUDA
    return found


def test_each_step_with_a_time_by_both_is_compared_in_the_same_rounds(steps: list[MeasuredStep]) -> None:
    assert [(step.variant, step.case) for step in steps] == [("fused", GRID), ("soa", GRID)]
    ratio, checks = steps[0].ratio("webgpu"), steps[0].cost_of_checks
    assert ratio and ratio.estimate == pytest.approx(0.5) and ratio.runs == 1 and ratio.how == "in one run"
    assert checks and checks.estimate == pytest.approx(1.6) and checks.low <= 1.6 <= checks.high


def test_the_tables_say_what_the_checks_cost(steps: list[MeasuredStep]) -> None:
    table = overview(steps)
    (line,) = table.frame.to_dict("records")
    assert line["webgpu"] == pytest.approx(0.5) and line["webgpu_unchecked"] == pytest.approx(0.8)
    assert line["opencl"] == pytest.approx(1.0) and line["steps"] == 2
    assert "of 2 measurements: 2 slower" in table.notes[0]
    assert "has 0.500 of CUDA's speed, without them 0.800" in table.notes[1]
    assert "a step takes 10.0 µs longer" in table.notes[2], "both steps differ by as much: a launch costs it"
    by_step = of_lab(steps).frame.set_index("variant")
    assert by_step.loc["soa", "without_checks"] == pytest.approx(1.6)
    assert by_step.loc["soa", "longer"] == pytest.approx(1e-5, rel=1e-3)
    assert by_step.loc["soa", "seconds"] == pytest.approx(1e-5, rel=1e-3)


def test_the_device_without_checks_is_on_no_other_page(tmp_path: Path) -> None:
    filled, lab = together(tmp_path), registry.get("lbm")
    backends = {record.store_device.backend for record in recorded(lab, filled)}
    assert backends == {"cuda", "opencl", "webgpu"}
    (case,) = comparison.compared(lab, filled, "published")
    names = [str(pair) for pair in case.ratios]
    assert names[:2] == [f"{H200}: OpenCL vs CUDA", f"{H200}: WebGPU vs CUDA"]
    assert case.ratios[comparison.DevicePair(WEBGPU, CUDA)]["fused"].word == "slower"


def test_webgpu_is_compared_with_opencl_where_there_is_no_cuda(tmp_path: Path) -> None:
    filled = store(tmp_path, row("fused", 1e-5, OPENCL, run=TOGETHER), row("fused", 2e-5, WEBGPU, run=TOGETHER))
    assert list(steps_by_gpu(filled)) == [OPENCL]
    assert [str(pair) for pair in comparison.pairs([OPENCL, WEBGPU])] == [f"{H200}: WebGPU vs OpenCL"]


def test_the_fragment_is_empty_without_rows_and_has_a_table_for_each_lab_with_them(tmp_path: Path) -> None:
    assert fragments._gpu_languages(store(tmp_path / "none")) == ""
    html = fragments._gpu_languages(together(tmp_path / "some"))
    assert len(re.findall("<table", html)) == 2 and "step by step: 2 measurements" in html
