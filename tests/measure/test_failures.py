"""Nothing wrong is timed, and a failure stays one row with one line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from roofbook.devices import find as all_devices
from roofbook.devices.contract import BuildFailed, OutOfMemory, Unsupported
from roofbook.errors import UsageError
from roofbook.measure import verify
from roofbook.measure.case_run import measure_case
from roofbook.measure.placement import Setting
from roofbook.measure.verify import DeviceLost
from roofbook.peers import cc
from roofbook.spec.lab import Work
from roofbook.spec.plan import Case

from .made_up import CASE, QUIET, RIGHT, Bench, Device, Made, Toy, made


def off(index: int, by: float) -> np.ndarray:
    values = RIGHT.copy()
    values[index] += by
    return values


@pytest.mark.parametrize(
    ("value", "error"),
    [
        (off(3, np.nan), "nan"),
        (off(7, np.inf), "inf"),
        (off(0, -np.inf), "inf"),
        (off(5, 0.5001), "0.5"),
        (np.roll(RIGHT, 1), "7"),
        (np.zeros(8), "8"),
        (np.full(8, np.nan), "nan"),
    ],
    ids=["one NaN", "inf", "-inf", "over the tolerance", "off by one", "zeros", "nothing written"],
)
def test_a_wrong_result_is_a_failed_row_without_samples(bench: Bench, value: np.ndarray, error: str) -> None:
    bench(made("a"), made("b", "a", value=value.tolist()), made("c", "a"))
    row = bench.row("b")
    assert row["status"] == "failed" and row["samples_s"] == row["wall_s"] == row["rounds"] == []
    assert row["reason"].startswith(f"wrong result: error {error}")
    assert row["reason"].endswith(", allowed 0.5 (largest difference)")
    assert "b" not in bench.log.of("timed plan"), "what is wrong is not timed"
    assert "b" in bench.log.of("trial close")
    assert len(bench.row("a")["samples_s"]) == len(bench.row("c")["samples_s"]) == 12


def test_an_error_of_the_tolerance_passes_and_a_tolerance_that_is_nan_does_not(bench: Bench) -> None:
    assert bench(made("a", value=off(2, 0.5).tolist()))[0]["status"] == "ok"
    bench.lab.allowed = float("nan")
    assert bench(made("a"))[0]["status"] == "failed"


def test_a_wrong_shape_is_a_failed_row(bench: Bench) -> None:
    (row,) = bench(made("a", value=RIGHT[:7].tolist()))
    assert row["reason"] == "not accepted: output 'values' has the shape (7,); right is (8,)"
    assert bench.log.of("trial close") == ["a"]


@pytest.mark.parametrize("stage", ["plan", "timed run 6"])
def test_an_error_that_the_user_can_fix_ends_the_command(bench: Bench, stage: str) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        bench(made("a"), made("b", "a", fails={stage: UsageError("no such folder")}))


@pytest.mark.parametrize("stage", ["trial run", "timed run 1", "timed run 6"])
def test_a_device_that_answers_no_more_ends_the_case(bench: Bench, monkeypatch: pytest.MonkeyPatch, stage: str) -> None:
    """The row of the variant that did it is kept, and the samples of the others stay to go on with."""

    def refuse(self: object, array: object) -> None:
        raise DriverError("poisoned")

    error = DriverError("illegal address")
    true_step = Made.step

    def step(self: Made, stage: str) -> None:
        try:
            true_step(self, stage)
        except DriverError:
            monkeypatch.setattr(Device, "upload", refuse)
            raise

    monkeypatch.setattr(Made, "step", step)
    with pytest.raises(DeviceLost, match="poisoned"):
        bench(made("a"), made("b", "a", fails={stage: error}), made("c", "a"))
    assert [(row["variant"], row["reason"]) for row in bench.rows] == [("b", "DriverError: illegal address")]


class DriverError(Exception):
    """As a driver's binding raises it."""


DriverError.__module__ = "pyopencl._cl"

FAILURES = [
    ("plan", BuildFailed("line 3: error: what?\nline 4: error: more"), "does not build: line 3: error: what?"),
    ("trial run", OutOfMemory("64 bytes asked for"), "out of memory: 64 bytes asked for"),
    ("timed plan", OutOfMemory("96 bytes asked for"), "out of memory: 96 bytes asked for"),
    ("timed reset", MemoryError(), "out of memory: MemoryError"),
    ("trial outputs", MemoryError("no room"), "out of memory: no room"),
    ("run", Unsupported("this backend has no graphs"), "not supported here: this backend has no graphs"),
    ("timed run 1", DriverError("INVALID_WORK_GROUP_SIZE\n(at launch)"), "DriverError: INVALID_WORK_GROUP_SIZE"),
    ("timed facts", DriverError("LOST"), "DriverError: LOST"),
    ("timed run 6", DriverError("\nOUT_OF_RESOURCES"), "DriverError: OUT_OF_RESOURCES"),
    ("plan", cc.NoCompiler("no C compiler: install one"), "does not build: no C compiler: install one"),
    ("plan", cc.BuildFailed("cc exited with 1: error"), "does not build: cc exited with 1: error"),
]


@pytest.mark.parametrize(
    ("stage", "error", "reason"),
    FAILURES,
    ids=lambda parameter: parameter if isinstance(parameter, str) else type(parameter).__name__,
)
def test_a_failure_is_one_row_with_one_line_and_the_others_go_on(
    bench: Bench, stage: str, error: Exception, reason: str
) -> None:
    bench(made("a"), made("b", "a", fails={stage: error}), made("c", "a"))
    row = bench.row("b")
    assert (row["status"], row["reason"]) == ("failed", reason)
    assert row["samples_s"] == row["wall_s"] == row["rounds"] == []
    for name in "ac":
        assert bench.row(name)["status"] == "ok" and len(bench.row(name)["samples_s"]) == 12
    assert len(bench.rows) == 4, "three variants and the control"
    if stage in ("plan", "trial run", "timed plan", "timed reset"):
        assert "b" not in bench.log.of("timed run")


@pytest.mark.parametrize("stage", ["plan", "trial run", "trial outputs", "timed plan", "timed facts", "timed run 6"])
@pytest.mark.parametrize("error", [TypeError("takes 3"), AssertionError("turned"), KeyError("x"), RuntimeError("?")])
def test_an_error_of_no_known_kind_costs_its_own_row_too(bench: Bench, stage: str, error: Exception) -> None:
    """For example, a library lacks a symbol on this machine: the row names the error and the line of the project."""
    bench(made("a"), made("b", "a", fails={stage: error}), made("c", "a"))
    kind = re.escape(f"{type(error).__name__}: {error}")
    assert re.fullmatch(rf"{kind} \((verify|sampling)\.py, line \d+\)", bench.row("b")["reason"])
    assert all(bench.row(name)["status"] == "ok" for name in "ac")
    assert Counter(bench.log.of("timed close")) == Counter(bench.log.of("timed plan")) - Counter(
        {"b": 1} if stage in ("plan", "timed plan") else {}
    )


def test_a_run_that_would_take_too_long_is_not_begun(bench: Bench) -> None:
    bench(made("a"), made("b", "a", seconds=151), made("c", "a", seconds=149.0))
    assert bench.row("b")["reason"] == "out of time: a run of 10 x pass would take 151 s, the limit is 150 s"
    assert "b" not in bench.log.of("timed plan")
    assert bench.row("c")["status"] == "ok"


@pytest.mark.parametrize("role", ["step", "peer"])
@pytest.mark.parametrize(
    ("first", "then", "runs", "reason"),
    [
        (155.0, 149.0, 2, None),
        (155.0, 152.0, 2, "out of time: a run of 2 x pass would take 152 s, the limit is 150 s"),
        (161.0, 149.0, 1, "out of time: a run of 2 x pass would take 161 s, the limit is 150 s"),
    ],
)
def test_a_first_run_that_may_have_compiled_is_repeated(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, first: float, then: float, runs: int, reason: str | None, role: str
) -> None:
    """The repetition of one that cannot come under the limit would take minutes and tell nothing."""
    monkeypatch.setattr(Toy, "units", lambda *_: 2)
    bench(made("a", seconds=[factor * 5 for factor in (first, then)], role=role), policy=replace(QUIET, maximum=1))
    assert bench.row("a", role)["reason"] == reason
    samples_and_last = 2
    assert bench.log.of("trial run") == ["a"] * (runs if reason else runs + samples_and_last)


class Sizes(Toy):
    """Its published case is a thousand times its quick one."""

    def cases(self, scale: str) -> Sequence[Case]:
        return [replace(CASE, name=scale, scale=scale)]

    def work(self, case: Case) -> Work:
        return Work(flops=1e6 if case.scale == "quick" else 1e9, bytes=3.0, footprint=4.0)


@pytest.mark.parametrize(
    ("seconds", "compiles", "reason"),
    [
        (0.149, 0, None),
        (0.149, 5.0, None),
        (0.152, 0, "out of time: by its time on quick it would take about 152 s, the limit is 150 s"),
    ],
)
def test_a_loop_nest_on_one_core_is_judged_by_a_small_case(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, seconds: float, compiles: float, reason: str | None
) -> None:
    """The whole case would be run once to learn that it is too long."""
    monkeypatch.setattr(all_devices, "host_cpu", lambda: bench.device)
    bench.lab = Sizes()
    (case,) = bench.lab.cases("published")
    for options in ({"device": "host"}, {}):
        plain = made("a", seconds=seconds, compiles=compiles, **options)
        bench.lab.ladder, bench.rows = (plain,), []
        bench.log.clear()
        measure_case(Setting(bench.lab, case, bench.device, QUIET), [plain], run="r", keep=bench.rows.extend)
        assert bench.row("a")["reason"] == (reason if options else None)
    opened, closed = (len(bench.log.of(f"trial {stage}")) for stage in ("plan", "close"))
    assert opened == closed


def test_a_loop_nest_that_does_not_build_for_the_small_case_is_one_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(all_devices, "host_cpu", lambda: bench.device)
    bench(made("a"), made("b", "a", device="host", fails={"trial plan": BuildFailed("line 3")}))
    assert bench.row("b")["reason"] == "does not build: line 3" and bench.row("a")["status"] == "ok"


def test_a_compiler_in_the_first_run_does_not_count_as_its_time(bench: Bench) -> None:
    """A driver may compile when a kernel first runs: half a second for 2 units is no 25 minutes for 6000."""
    bench(made("a", seconds=0.1, compiles=30.0))
    assert bench.row("a")["status"] == "ok"
    assert bench.log.of("trial reset") == ["a", "a"], "poisoned again before the second run"


def test_a_library_that_cannot_be_mapped_is_reported_with_the_remedy() -> None:
    message = verify.describe_error(OSError("/tmp/x/fused.so: failed to map segment from shared object"))
    assert (
        "noexec" in message and "TMPDIR" in message and "noexec" not in verify.describe_error(OSError("no such file"))
    )
