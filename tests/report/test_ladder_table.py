"""The ladder, the sweep and the worth of each optimisation: the contents of a line, and no number of an unverified row."""

import json
import math
import re
from typing import Any

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.readings import newest
from roofbook.analysis.roofline import Bound
from roofbook.errors import UsageError
from roofbook.spec.rounding import TIMES_ACCURATE

from .inspection import line
from .rows import ORDER, frame, lab_rows, row, sweep_rows


def test_ladder_says_what_it_must() -> None:
    bound = {"float32": Bound(2e-5, "memory", 4.26e12)}
    table = report.ladder(
        CaseData(
            lab_rows(),
            ORDER,
            "256x256",
            bounds=bound,
            rate=(0.065536, "MLUPS"),
            skip_reasons={"texture": "not on this device"},
            changes={"fused": "three kernels in one"},
        )
    )
    assert "three kernels in one" in line(table, "fused")
    assert "not on this device" in line(table, "texture")
    reasons = {"texture": "needs a side that is a power of two"}
    assert reasons["texture"] in line(
        report.ladder(CaseData(lab_rows(), ORDER, "256x256", skip_reasons=reasons)), "texture"
    )
    assert "control" in line(table, "port-again") and "same" in line(table, "port-again")
    assert "(on the host)" in line(table, "sequential") and "base" in line(table, "sequential")
    assert table.notes[-1] == "The host: Some CPU."
    assert "across devices" in line(table, "port")
    frame_ = table.frame.set_index("variant")
    assert frame_.loc["fused", "vs_parent"] == pytest.approx(180 / 110, rel=0.01)
    assert frame_.loc["fused", "share"] == pytest.approx(20 / 110, rel=0.06)
    assert frame_.loc["fused", "rate"] == pytest.approx(0.065536 / 1.1e-4, rel=0.06)
    assert "best" in line(table, "peer")
    assert "Bound per step: float32 20.0\u202f\u00b5s, by memory (4.26\u202fTB/s)." in table.notes


def test_an_a_a_twin_of_the_same_name_is_held_against_its_variant() -> None:
    rows = frame(row("a", 1e-3), row("b", 5e-4, "a"), row("b", 5e-4, "a", role="again"))
    table = report.ladder(CaseData(rows, ["a", "b"], "256x256", bases=("a",)))
    assert table.frame.variant.tolist() == ["a", "b", "b (A/A control)"]
    assert "same" in line(table, "b (A/A control)") and "faster" in line(table, "b")


@pytest.mark.parametrize(("reason", "base", "note"), [("", "by-c", False), ("no C compiler", "sequential", True)])
def test_a_base_without_a_time_is_replaced_by_the_next_and_a_note_says_so(reason: str, base: str, note: bool) -> None:
    by_c = row("by-c", 1e-3, "sequential", status="failed" if reason else "ok", reason=reason or None)
    rows = frame(row("sequential", 4e-3), by_c, row("fused", 1e-4))
    table = report.ladder(CaseData(rows, ["sequential", "by-c", "fused"], "256x256", bases=("by-c", "sequential")))
    assert f"vs {base}" in [head.text for head in table.columns]
    assert ("Speedups are over sequential: by-c has no time here." in table.notes) == note
    assert table.frame.set_index("variant").loc["fused", "vs_base"] == pytest.approx(40 if reason else 10, rel=0.06)


def test_failed_and_unverified_rows_never_show_a_number() -> None:
    nan = float("nan")
    rows = frame(
        row("a", 1e-3), row("b", 7.77e-4, "a", status="failed", reason="out of memory"),
        row("c", 7.77e-4, "b", error=2e-6), row("d", 7.77e-4, "c", error=nan), row("e", 7.77e-4, "d", bound=nan),
    )  # fmt: skip
    table = report.ladder(CaseData(rows, ["a", "b", "c", "d", "e"], "256x256", bases=("a",)))
    for name, reason in [("b", "out of memory"), ("c", "allowed 1e-06"), ("d", "error nan"), ("e", "allowed nan")]:
        assert reason in line(table, name) and "failed" in line(table, name)
        assert "777" not in line(table, name) and "\u00b5s" not in line(table, name)
    numbers = table.frame.set_index("variant")[["seconds", "low", "high", "vs_parent", "vs_base", "error"]]
    assert numbers.loc[["b", "c", "d", "e"]].isna().all(axis=None)
    assert "777" not in table.text
    assert "out of memory" in report.failed(rows).html and len(report.failed(rows).frame) == 4
    chart = report.ladder_chart(CaseData(rows, ["a", "b", "c"], "256x256", bases=("a",))).svg
    assert "out of memory" in chart and "777" not in chart


def test_a_probe_that_computes_nothing_has_nothing_to_check() -> None:
    rows = frame(row("a", 1e-3), row("empty", 5e-4, "a", role="probe", error=math.nan, bound=math.nan))
    table = report.ladder(CaseData(rows, ["a", "empty"], "256x256", bases=("a",)))
    assert "nothing to check" in line(table, "empty") and table.frame.seconds.notna().all()


def test_a_native_function_that_lost_accuracy_says_how_many_times_as_much() -> None:
    extra = json.dumps({"error_is": f"largest error, {TIMES_ACCURATE}"})
    rows = frame(
        row("a", 1e-3), row("native", 5e-4, "a", error=29.5, bound=196.0, extra=extra),
        row("wider", 4e-4, "a", error=121.0, bound=196.0, extra=extra),
        row("other", 4e-4, "a", error=121.0, bound=196.0),
    )  # fmt: skip
    table = report.ladder(CaseData(rows, ["a", "native", "wider", "other"], "256x256", bases=("a",)))
    assert "✓ 0.15" in line(table, "native") and "(29.5 × accurate)" in line(table, "native")
    assert "× accurate" not in line(table, "a") + line(table, "other")
    (note,) = [note for note in table.notes if note.startswith("× accurate")]
    assert "29.5 to 121 times" in note and "196 times is accepted" in note
    plain = report.ladder(CaseData(frame(row("a", 1e-3)), ["a"], "256x256", bases=("a",)))
    assert not any("× accurate" in note for note in plain.notes)


def test_few_samples_give_a_range_and_the_table_says_so() -> None:
    table = report.ladder(CaseData(frame(row("a", 1e-3, n=3)), ["a"], "256x256", bases=("a",)))
    assert "n = 3, range" in line(table, "a") and any("fewer than 6" in note for note in table.notes)
    two = report.ladder(
        CaseData(frame(row("a", 2e-3, n=2), row("b", 1e-3, "a", n=2)), ["a", "b"], "256x256", bases=("a",))
    )
    assert "too few" in line(two, "b") and "inf" not in two.html and "\u221e" not in two.html


def test_an_empty_store_makes_tables_not_errors() -> None:
    empty = pd.DataFrame()
    assert report.ladder(CaseData(empty, ["a"], "256x256")).frame.status.tolist() == ["missing"]
    assert report.failed(empty).frame.empty and report.states([]).frame.empty
    with pytest.raises(UsageError, match="measure the ladder first"):
        report.ladder_chart(CaseData(empty, ["a"], "c"))
    with pytest.raises(UsageError, match="measured: none"):
        report.line_sweep(empty, "wg")


def test_sweep_marks_every_point_that_ties_with_the_fastest() -> None:
    table = report.sweep(CaseData(sweep_rows(), [], "256x256"), "wg")
    assert list(table.frame.point) == ["2x4", "2x8", "16x1", "16x4"]
    assert [name for name in table.frame.point if '<tr class="best"' in line(table, name)] == ["16x1", "16x4"]
    assert "too large" in line(table, "2x8")
    with pytest.raises(UsageError, match="fused over wg"):
        report.sweep(CaseData(sweep_rows(), [], "256x256"), "tile")


DIVIDED = "Dividing two times gives another ratio for "
BASIS = (
    ". A ratio compares two variants in the same rounds, or on the machines of both; "
    "a time is the median of all runs of its variant."
)


def in_runs(variant: str, seconds: list[float], parent: str | None = None, **fields: Any) -> list[dict[str, Any]]:
    """Return rows of a variant in run-0, run-1 and so on."""
    return [row(variant, time, parent, run=f"run-{at}", **fields) for at, time in enumerate(seconds)]


TWO_HOSTS = [*in_runs("port", [1e-4, 1e-4, 1e-4]), *in_runs("fused", [5e-5] * 3 + [8e-5] * 4, "port")]
"""Runs after the third are on a slower host, and one step alone was measured there."""


def test_ratios_that_the_times_of_a_ladder_contradict_are_named_with_both() -> None:
    table = report.ladder(CaseData(frame(*TWO_HOSTS), ORDER, "256x256"))
    assert table.frame.set_index("variant")["vs_parent"]["fused"] == pytest.approx(2, rel=0.02)
    assert f"{DIVIDED}fused vs port (1.25, not 2.00){BASIS}" in table.notes, "once, though port is also the base"
    equal = [*in_runs("port", [1e-4] * 3), *in_runs("fused", [1e-4] * 3 + [1.62e-4] * 4, "port")]
    table = report.ladder(CaseData(frame(*equal), ORDER, "256x256"))
    assert f"{DIVIDED}fused vs port (0.617, not 'same'){BASIS}" in table.notes


def test_a_ladder_whose_times_give_its_ratios_has_no_note_on_them() -> None:
    same_runs = [*in_runs("port", [1e-4] * 3), *in_runs("fused", [5e-5] * 3, "port")]
    for rows in (frame(*same_runs), lab_rows()):
        assert DIVIDED not in " ".join(report.ladder(CaseData(rows, ORDER, "256x256")).notes)


def test_the_largest_contradictions_of_a_ladder_are_named_and_the_others_counted() -> None:
    steps = [f"step-{number}" for number in range(6)]
    slow = [in_runs(step, [5e-5] * 3 + [6e-5 + 1e-5 * number] * 4, "port") for number, step in enumerate(steps)]
    rows = frame(*in_runs("port", [1e-4] * 3), *(slow_row for of_step in slow for slow_row in of_step))
    table = report.ladder(CaseData(rows, ["port", *steps], "256x256"))
    (note,) = (note for note in table.notes if note.startswith(DIVIDED))
    assert re.findall(r"step-\d", note) == ["step-5", "step-4", "step-3"] and "and 3 others. A ratio" in note


def test_contradictions_are_named_at_tables_of_sweeps_and_of_what_is_left_out_as_well() -> None:
    points = [
        *in_runs("fused@wg=1", [5e-5] * 3, "fused", role="sweep", axis="wg", point="1"),
        *in_runs("fused@wg=2", [1e-4] * 3 + [2e-4] * 4, "fused", role="sweep", axis="wg", point="2"),
    ]
    table = report.sweep(CaseData(frame(row("fused", 1e-4), *points), ["fused"], "256x256"), "wg")
    assert f"{DIVIDED}fused@wg=2 vs fused@wg=1 (0.250, not 0.500){BASIS}" in table.notes
    data = CaseData(frame(*TWO_HOSTS), ORDER, "256x256")
    table = report.leave_one_out(data, {"all": "port"}, "fused")
    assert f"{DIVIDED}fused vs port (1.25, not 2.00){BASIS}" in table.notes


def test_leave_one_out_gives_the_worth_of_each_optimisation() -> None:
    rows = frame(row("best", 1e-4), row("best-no-soa", 5e-4, "best"), row("best-no-bits", 1e-4, "best"))
    table = report.leave_one_out(
        CaseData(rows, [], "256x256"), {"SoA": "best-no-soa", "bits": "best-no-bits", "lists": "none"}, "best"
    )
    assert table.frame.set_index("optimisation").loc["SoA", "worth"] == pytest.approx(5, rel=0.01)
    assert "same" in line(table, "bits") and "not measured" in line(table, "lists")


def test_each_row_is_held_against_the_bound_of_its_own_dtype() -> None:
    """Tensor cores in fp16 would be far above fp32's roof, and right all the same; an fp32 step there would be wrong."""
    rows = lab_rows().assign(
        dtype=lambda rows: rows["variant"].map({"fused": "float16", "peer": "int8"}).fillna("float32")
    )
    floors = {"float32": Bound(1.5e-4, "float32", 1e12, 6e13), "float16": Bound(1.1e-5, "float16", 1e12, 8e14)}
    table = report.ladder(CaseData(rows, ["port", "fused", "peer"], "256x256", bounds=floors))
    shares = table.frame.set_index("variant").share
    assert shares["port"] == pytest.approx(150 / 180, rel=0.06) and shares["fused"] == pytest.approx(0.1, rel=0.06)
    assert math.isnan(shares["peer"]) and "%" not in line(table, "peer")
    assert table.notes[-2:] == [
        "Bound per step: float32 150\u202f\u00b5s, by arithmetic (60.0\u202fTFLOP/s); "
        "float16 11.0\u202f\u00b5s, by arithmetic (800\u202fTFLOP/s).",
        "No bound, because the peak was not measured: int8.",
    ]
    plain = report.ladder(CaseData(lab_rows(), ["port", "fused"], "256x256", bounds=floors))
    fused = re.sub(r"<[^>]+>", " ", line(plain, "fused"))
    assert " above " in fused and "%" not in fused and "above" not in table.html, "no share of what is no bound"
    share = plain.frame.set_index("variant").share["fused"]
    (note,) = [note for note in plain.notes if note.startswith("'above'")]
    assert (
        note.endswith(f"less work is done than is counted. How many times as fast: fused {share:.2f}\u00d7.")
        and share > 1.3
    )


@pytest.mark.parametrize(("share", "text"), [(0.994, "99.4"), (1.004, "100"), (1.02, "above")])
def test_a_share_above_the_whole_is_shown_where_it_may_be_noise_alone(share: float, text: str) -> None:
    rows = frame(row("fused", 1e-4))
    (reading,) = newest(rows).values()
    floors = {"float32": Bound(share * reading.median, "float32", 1e12, 6e13)}
    table = report.ladder(CaseData(rows, ["fused"], "256x256", bounds=floors))
    cell_text = (
        table.rows[0].cells[[column.text for column in table.columns].index("Of the bound")].text.split("\u202f")[0]
    )
    assert cell_text == text and any("'above'" in note for note in table.notes) == (text == "above")


def test_where_no_bound_is_known_there_is_no_column_of_shares() -> None:
    rows = lab_rows()
    assert "Of the bound" not in report.ladder(CaseData(rows, ["port"], "256x256")).html


def test_what_timed_launches_find_in_the_cache_is_a_note_where_the_policy_does_not_tell() -> None:
    data = CaseData(lab_rows(), ORDER, "256x256", cache_note="Op time is warm.")
    assert "Op time is warm." in report.ladder(data).notes
    assert not [note for note in report.ladder(CaseData(lab_rows(), ORDER, "256x256")).notes if "warm" in note]


def test_what_is_its_parents_machine_code_says_so_where_it_was_measured() -> None:
    rows = frame(row("a", 2e-3), row("b", 1e-3, "a"), row("c", 1e-3, "b"))
    same = {"b": "registers have no address", "elsewhere": "it is"}
    table = report.ladder(CaseData(rows, ["a", "b", "c"], "256x256", bases=("a",), same_code=same, compiler="NVRTC"))
    (note,) = (line_note for line_note in table.notes if "machine code" in line_note)
    assert note == (
        "In the tests of this book NVRTC makes one machine code of a variant and its parent, always or at times. Where it"
        " does, the two are the same program: b and a, since registers have no address."
    )
    elsewhere = report.ladder(
        CaseData(rows, ["a", "b", "c"], "256x256", bases=("a",), same_code={"elsewhere": "it is"})
    )
    assert not any("machine code" in line_note for line_note in elsewhere.notes)


def test_a_control_is_held_against_the_bound_of_its_step() -> None:
    """The bound of a step on two GPUs is half as long as on one; the control is the same step."""
    rows = frame(row("a", 1e-3), row("b", 5e-4, "a"), row("b", 5e-4, "a", role="again"))
    floors = {"float32": Bound(8e-4, "float32", 1e12, 6e13), "b": Bound(4e-4, "float32", 2e12, 1.2e14)}
    table = report.ladder(CaseData(rows, ["a", "b"], "256x256", bases=("a",), bounds=floors))
    share = table.frame.set_index("variant").share
    assert share["b (A/A control)"] == pytest.approx(share["b"]) and share["b"] == pytest.approx(0.8, rel=0.06)
    assert not any(note.startswith("'above'") for note in table.notes)


def test_a_step_that_needs_certain_hardware_says_so_below_its_name() -> None:
    table = report.ladder(CaseData(lab_rows(), ORDER, "256x256", marks={"fused": ("sm_90", "tensor cores")}))
    heads = {line.cells[0].text: line.cells[0].small for line in table.rows}
    assert heads["fused"] == "sm_90 \u00b7 tensor cores" and heads["port"] == ""
    assert [line.variant for line in table.rows][:2] == ["sequential", "port"]
