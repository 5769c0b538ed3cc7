"""Return values of plans and labs are checked at once: a mistake fails its own variant, with the reason."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofbook.measure.checked_runnable import (
    MOST_FACTS,
    BadValue,
    check_of,
    checked_runnable,
    facts_of,
    outputs_of,
    parts_of,
    plain_text,
    seconds_of,
)
from roofbook.measure.measurement import Measurement
from roofbook.measure.row import reason_without_times

from .made_up import Bench, Made, made


class Number(float):
    """A number of a class of its own."""


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"n": np.int64(3), "share": np.float32(0.5), "fits": np.bool_(True)}, {"n": 3, "share": 0.5, "fits": True}),
        ({"sizes": np.arange(3), "shape": (1, 2)}, {"sizes": [0, 1, 2], "shape": [1, 2]}),
        ({"inner": {"n": np.uint8(7)}, "none": None, "own": Number(2)}, {"inner": {"n": 7}, "none": None, "own": 2.0}),
        ({"library": "x\udcff\x1b[2J\ny"}, {"library": "x? [2J y"}),
    ],
)  # fmt: skip
def test_facts_become_json_values(facts: Mapping[str, Any], expected: Mapping[str, Any]) -> None:
    facts_found = facts_of(facts)
    assert facts_found == expected and json.loads(json.dumps(facts_found, allow_nan=False)) == expected


RING: dict[str, Any] = {}
RING["ring"] = RING


@pytest.mark.parametrize(
    "facts",
    [
        None, [], "x", {1: 2}, {"x": object()}, {"x": b"y"}, {"x": 1j}, {"x": math.nan}, {"x": np.float64("inf")},
        {"x": {2: 3}},
        {"x": 1 << 70}, {"x": "y" * 10_000, **{f"x{n}": "y" * 400 for n in range(MOST_FACTS // 400)}}, {"parts": {}}, RING,
        {"x": np.array([1j])}, {"x": np.datetime64("2026-01-01")},
    ],
)  # fmt: skip
def test_a_value_that_json_lacks_is_refused_as_a_fact(facts: Any) -> None:
    with pytest.raises(BadValue):
        facts_of(facts)


@pytest.mark.parametrize(
    "seconds", [0, 0.0, -1e-9, math.nan, math.inf, -math.inf, "1", None, True, 1j, np.zeros(2), 10**400]
)
def test_a_sample_that_is_no_time_is_refused(seconds: Any) -> None:
    with pytest.raises(BadValue):
        seconds_of(seconds, "it")


@pytest.mark.parametrize("seconds", [1, 0.5, np.float32(0.5), np.int64(2), np.array(0.25)])
def test_a_time_is_a_number_of_any_type(seconds: Any) -> None:
    assert seconds_of(seconds, "it") == float(seconds) and type(seconds_of(seconds, "it")) is float


def test_parts_are_seconds_by_name_and_may_be_zero() -> None:
    assert parts_of({"copy": np.float64(0.0), "op": 1}) == {"copy": 0.0, "op": 1.0}
    for parts in (None, {"copy": -1.0}, {"copy": math.nan}, {1: 1.0}, {"copy": "1"}):
        with pytest.raises(BadValue):
            parts_of(parts)


def test_outputs_are_arrays_of_real_numbers_by_name() -> None:
    assert outputs_of({"g": np.ones(3), "n": np.int32(2)})["n"].shape == ()
    for outputs in (
        None,
        {},
        [np.ones(3)],
        {"g": [1.0]},
        {"g": np.array(["a"])},
        {"g": np.array([None])},
        {"g": np.ones(2) * 1j},
    ):
        with pytest.raises(BadValue):
            outputs_of(outputs)


def test_a_check_is_an_error_a_tolerance_and_words() -> None:
    assert check_of((np.float32(0.5), 1, "x\udcff")) == (0.5, 1.0, "x?")
    assert math.isnan(check_of((math.nan, 1.0, "x")).error), "that is wrong, and told as wrong"
    bad: list[Any] = [
        None,
        (0.1, 0.5),
        (0.1, 0.5, 3),
        ("0.1", 0.5, "x"),
        (-1.0, 0.5, "x"),
        (0.1, math.inf, "x"),
        (0.1, -1.0, "x"),
    ]
    for values in [*bad, (-math.inf, 0.5, "x"), (True, 0.5, "x"), (np.ones(2), 0.5, "x"), (0.1, 1j, "x")]:
        with pytest.raises(BadValue):
            check_of(values)


def test_a_text_is_one_plain_line() -> None:
    assert plain_text("a\n\tb\x00\u202ec\ud800") == "a b c?"
    assert len(plain_text("x" * 10_000)) == 500 and plain_text("x" * 10_000).endswith("...")


@pytest.mark.parametrize("thing", [None, {}, "plan", object()])
def test_a_plan_that_is_no_runnable_is_refused(thing: Any) -> None:
    with pytest.raises(BadValue, match="not a Runnable"):
        checked_runnable(thing)


# -- from a plan to its row --------------------------------------------------------------------------------------------


class Changed(Made):
    """A plan whose behaviour a test changes by setting `change` on this class."""

    change: Callable[[Any], None]

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        type(self).change(self)


def running(self: Any, **returns: Any) -> None:
    """Let methods return these values, once the run has done its work."""
    values = {name: value if callable(value) else lambda value=value: value for name, value in returns.items()}
    if run := values.pop("run", None):
        own_run = self.run

        def run_and_return() -> Any:
            own_run()
            return run()

        self.run = run_and_return
    for name, value in values.items():
        setattr(self, name, value)


def other_parts(self: Any) -> None:
    def run() -> None:
        self.parts = {f"part {self.runs}": 0.1}

    running(self, run=run)


def only_timed(self: Any) -> None:
    if self.timed:
        running(self, outputs=7)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda plan: running(plan, run=0.0), "what run() returned is 0 s; a time is finite and above 0"),
        (lambda plan: running(plan, run=-1e-6), "what run() returned is -1e-06 s; a time is finite and above 0"),
        (lambda plan: running(plan, run=math.nan), "what run() returned is nan s; a time is finite and above 0"),
        (lambda plan: running(plan, run="soon"), "what run() returned is 'soon', not a number"),
        (
            lambda plan: setattr(plan, "parts", {"copy": math.inf}),
            "part 'copy' is inf s; a time is finite and not below 0",
        ),
        (other_parts, "a run has the parts ['part "),
        (lambda plan: running(plan, facts={"x": object()}), "fact 'x' is object, which JSON does not have"),
        (
            lambda plan: running(plan, outputs={"values": [1.0]}),
            "output 'values' is list, not an array of real numbers",
        ),
        (
            lambda plan: running(plan, outputs={"values": np.ones((8, 8))}),
            "output 'values' has the shape (8, 8); right is (8,)",
        ),
        (only_timed, "outputs() returned 7, not arrays by name"),
        (lambda plan: setattr(plan, "units", 0), "units of a run are 0, not a whole number above 0"),
    ],
)
def test_a_mistake_costs_its_own_row(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, change: Callable[[Any], None], reason: str
) -> None:
    monkeypatch.setattr(Changed, "change", change, raising=False)
    bench(made("a"), replace(made("b", "a"), plan=Changed), made("c", "a"))
    row = bench.row("b")
    assert row["status"] == "failed" and f"not accepted: {reason}" in row["reason"], row["reason"]
    assert row["samples_s"] == row["wall_s"] == row["rounds"] == []
    for name in "ac":
        assert bench.row(name)["status"] == "ok" and len(bench.row(name)["samples_s"]) == 12


def test_numpy_numbers_in_facts_are_stored(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Changed, "change", lambda plan: running(plan, facts={"registers": np.int64(3)}), raising=False)
    bench(made("a"), replace(made("b", "a"), plan=Changed))
    assert bench.row("b")["status"] == "ok" and json.loads(bench.row("b")["extra"])["registers"] == 3


@pytest.mark.parametrize("when", ["trial close", "timed close"])
def test_a_close_that_raises_costs_its_own_row(bench: Bench, when: str) -> None:
    bench(made("a"), made("b", "a", fails={when: RuntimeError("no context of \udcff")}), made("c", "a"))
    assert "RuntimeError: no context of ?" in bench.row("b")["reason"] and bench.row("b")["status"] == "failed"
    assert bench.row("a")["status"] == bench.row("c")["status"] == "ok"


def test_a_lab_whose_check_says_nothing_fails_its_variants(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bench.lab, "check", lambda *_: None)
    bench(made("a"))
    assert bench.row("a")["reason"].startswith("not accepted: the lab's check returned None")


def test_a_row_has_no_times_that_are_none(bench: Bench) -> None:
    for samples, walls, reason in (
        ([1.0, 0.0], [1.0, 1.0], "a sample of 0 s"),
        ([1.0], [math.inf], "a sample of inf s"),
        ([1.0, 1.0], [1.0], "1 and 2 numbers"),
    ):  # fmt: skip
        measurement = Measurement(made("a"), "step", bench.device, "opencl", samples=samples, walls=walls)
        assert reason in str(reason_without_times(measurement))
    assert (
        reason_without_times(Measurement(made("a"), "step", bench.device, "opencl", samples=[1.0], walls=[1.0])) is None
    )
