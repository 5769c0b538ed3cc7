"""Small labs: launches by the names of arguments, and a tolerance that follows from the operations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook import labs
from roofbook.devices.contract import Device
from roofbook.errors import UsageError
from roofbook.measure.placement import target_of
from roofbook.spec import registry
from roofbook.spec.kernel_lab import KernelLab
from roofbook.spec.kernel_launch import evaluate, signature
from roofbook.spec.magnitude import magnitudes
from roofbook.spec.source import Source

from .. import mutants

SMOOTH = '''"""Differences along rows."""
import numpy as np
from roofbook.spec.kernel_lab import KernelLab, Step

class Differences(KernelLab):
    dimensions = ("rows", "columns")
    scales = {"test": [(9, 70), (3, 8)]}
    reads = {"x": ("rows", "columns"), "shift": "1"}
    writes = {"x": ("rows", "columns"), "count": "rows"}
    steps = (
        Step("rows", None, "A row for each work-item.", "The baseline.", work_items="rows"),
        Step("lanes", "rows", "Two rows for each work-item.", "Fewer work-items.", work_items="rows / LANES",
             defines={"LANES": 2}, group=(4,)),
    )

    def draw(self, random, name, shape):
        return np.array([3], np.int32) if name == "shift" else super().draw(random, name, shape)

    def compute(self, x, shift, rows):
        out = x.copy()
        out[:, 1:] = 2 * x[:, 1:] - x[:, :-1]
        return {"x": out, "count": np.arange(rows) + shift[0]}

    def operations(self, rows, columns):
        return 2 * rows * columns

LAB = Differences()
'''
KERNEL = """// Differences.
//
// Knob LANES: rows of a work-item
// Knob COLUMNS: length of a row
#ifndef LANES
#define LANES 1
#endif
#ifndef COLUMNS
#define COLUMNS 8
#endif
KERNEL void mine(GLOBAL const int *RESTRICT shift, int rows, GLOBAL float *x, GLOBAL int *count) {
  for (int row = GLOBAL_ID(0) * LANES; row < rows && row < (GLOBAL_ID(0) + 1) * LANES; row++) {
    for (int j = COLUMNS - 1; j > 0; j--) x[row * COLUMNS + j] = 2 * x[row * COLUMNS + j] - x[row * COLUMNS + j - 1];
    count[row] = row + shift[0];
  }
}
"""

Made = Callable[..., KernelLab]


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """Function that writes a lab `mine` with other words in its text or its kernel, and loads it."""

    def write(*changes: tuple[str, str]) -> KernelLab:
        folder = tmp_path / "mine"
        folder.mkdir()
        for file, text in (("__init__.py", SMOOTH), ("mine.k", KERNEL)):
            for words, instead in changes:
                text = text.replace(words, instead)
            (folder / file).write_text(text)
        monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(tmp_path)])
        registry.get.cache_clear()
        lab = registry.get("mine")
        assert isinstance(lab, KernelLab)
        return lab

    yield write
    sys.modules.pop("roofbook.labs.mine", None)
    registry.get.cache_clear()


def test_a_lab_in_few_lines_runs_right_on_each_device(made: Made, device: Device) -> None:
    lab = made()
    assert (lab.name, lab.title, lab.best, lab.bases) == ("mine", "Mine", "lanes", ("rows",))
    assert [case.name for case in lab.cases("test")] == ["9x70", "3x8"] and lab.case("5x6").params["columns"] == 6
    for variant in lab.ladder:
        target = target_of(variant, device)
        assert target
        for case in ("9x70", "3x8", "1x1"):
            assert mutants.verdict(lab, variant, case, target, {}) is None


def test_wrong_outputs_of_each_kind_are_refused(made: Made) -> None:
    lab = made()
    case = lab.case("9x70", "test")
    inputs = lab.inputs(case, 1)
    right = lab.reference(case, inputs)
    outputs = {"x": right["x"].astype(np.float32).astype(np.float64), "count": right["count"]}
    mutants.all_refused(lambda wrong: lab.check(case, lab.variant("rows"), wrong, right), outputs, 1e-4)
    halves = {**outputs, "x": outputs["x"].astype(np.float16).astype(np.float64)}
    error, limit, name = lab.check(case, lab.variant("rows"), halves, right)
    assert error > 20 * limit and "x" in name


def test_work_is_counted_by_the_arrays(made: Made) -> None:
    lab = made()
    work = lab.work(lab.case("9x70"))
    assert (work.flops, work.bytes, work.footprint) == (1260, 4 * (2 * 630 + 9 + 1), 4 * (630 + 9 + 1))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([("2 * rows * columns", "0")], "it counts no operations: return their number in `operations`, or state a `tolerance`"),
        ([("int rows, ", "int lines, ")], "mine.k, mine: lines is none of the lab's scalars or dimensions, rows, columns"),
        ([("GLOBAL int *count", "GLOBAL int *counts")], "counts is none of the lab's reads or writes, x, shift, count"),
        ([("KERNEL void mine(", "KERNEL void more(int n) {}\nKERNEL void other(")], "has no kernel mine; it has more, other"),
        ([('"lanes", "rows"', '"lanes", "lines"')], "step lanes: its parent lines must be a step before it"),
        ([("GLOBAL float *x", "GLOBAL struct s *x")], "has none of the types float, double"),
    ],
)  # fmt: skip
def test_a_slip_is_named(made: Made, changes: list[tuple[str, str]], message: str) -> None:
    with pytest.raises(UsageError, match=rf"^lab mine.*{message}"):
        made(*changes)


def test_a_tolerance_is_stated_where_none_can_be_derived(made: Made) -> None:
    lab = made(("2 * x[:, 1:]", "np.sqrt(x[:, 1:])"))
    case = lab.case("9x70")
    with pytest.raises(UsageError, match=r"lab mine: no magnitude of sqrt; .*: state a `tolerance`"):
        lab.reference(case, {**lab.inputs(case, 1), "x": np.ones((9, 70), np.float32)})
    lab.tolerance = 1e-3
    right = lab.reference(case, {**lab.inputs(case, 1), "x": np.ones((9, 70), np.float32)})
    off = {"x": right["x"] + 2e-3, "count": right["count"]}
    error, limit, _ = lab.check(case, lab.variant("rows"), off, right)
    assert error == pytest.approx(2 * limit)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x, y: x - y,
        lambda x, y: x @ y.T - 2 * x.mean(),
        lambda x, y: np.where(np.ones(x.shape, bool), x, -3 * y),
        lambda x, y: np.dot(-x, y.T) / -2,
        lambda x, y: np.einsum("ij,kj->ik", x, y) - np.diff(np.pad(x, 1), axis=0)[:6, 1:7].sum(),
    ],
)
def test_magnitudes_are_at_least_those_of_any_signs(compute: Callable[..., Any]) -> None:
    random = np.random.default_rng(5)
    x, y = random.standard_normal((2, 6, 6))
    bound = magnitudes(lambda **given: {"out": compute(**given)}, {"x": x, "y": y})["out"]
    for _ in range(20):
        signs = random.choice([-1.0, 1.0], (2, 6, 6))
        assert np.all(np.abs(compute(x * signs[0], y * signs[1])) <= bound * (1 + 1e-12))


def test_a_step_has_what_its_parent_has(made: Made) -> None:
    last = 'defines={"LANES": 2}, group=(4,)),'
    lab = made(
        (last, f'{last}\n        Step("wide", "lanes", "Four rows.", "Fewer.", defines={{"LANES": 4}}),\n'
         '        Step("flat", "wide", "One axis more.", "Nothing.", work_items=("rows", "1")),')
    )  # fmt: skip
    wide, flat = lab.variant("wide"), lab.variant("flat")
    assert wide.options["group"] == (4,) and wide.options["launch"].work_items == "rows / LANES"
    assert wide.differs == ("source",) and flat.differs == ("options",) and flat.text.settings["LANES"] == 4
    assert "group" not in flat.options, "a group of one axis is none of two"


def test_a_sum_may_have_errors_by_each_of_its_additions(made: Made) -> None:
    lab = made(("2 * rows * columns", "2 * rows * columns * 100"))
    case = lab.case("9x70")
    assert lab.operations_per_output(**case.params) == pytest.approx(2 * 630 * 100 / (630 + 9))
    right = lab.reference(case, lab.inputs(case, 1))
    outputs = {"x": right["x"] * (1 + 100 * 2.0**-24), "count": right["count"]}
    error, limit, name = lab.check(case, lab.variant("rows"), outputs, right)
    assert error > limit and name.startswith("root mean square"), "errors of one sign in all elements are no roundings"
    one = {**outputs, "x": right["x"].copy()}
    one["x"][3, 3] *= 1 + 100 * 2.0**-24
    error, limit, _ = lab.check(case, lab.variant("rows"), one, right)
    assert error <= limit, "one element may have it"


def test_expressions_are_of_sizes_alone() -> None:
    assert evaluate("(n + 1) / 4 * m - 2 // 2 % 5", {"n": 8, "m": 2}) == 5
    for text in ("n ** 2", "__import__('os')", "k", "n.real", "1.5", "n /", "n / 0"):
        with pytest.raises(UsageError, match=r"is no expression of|has no value"):
            evaluate(text, {"n": 8})


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("s.cu", 'extern "C" __global__ void __launch_bounds__(64, 2) s(const float4 *__restrict__ x, unsigned int n) {}'),
        ("s.cl", "__kernel __attribute__((reqd_work_group_size(64, 1, 1))) void s(__global const float4 *x, uint n) {}"),
        ("s.k", "KERNEL_OF(64, 4) void s(GLOBAL const float4 *RESTRICT x /* (in) */, unsigned int n) {}"),
    ],
)  # fmt: skip
def test_signatures_of_all_languages(tmp_path: Path, file: str, text: str) -> None:
    (tmp_path / file).write_text(text)
    x, n = signature(Source.of(tmp_path / file), "s")
    assert (x.name, x.dtype, x.is_array) == ("x", np.float32, True)
    assert (n.name, n.dtype, n.is_array) == ("n", np.uint32, False)
