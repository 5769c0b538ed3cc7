"""Readings: the row of a variant that counts, times that are refused, and ratios, by pairs of a round if possible."""

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.readings import Speedup, faster, fastest, newest
from roofbook.errors import UsageError
from roofbook.report.cell_format import ratio_cell

from ..report.inspection import line
from ..report.rows import ORDER, STARTED, frame, lab_rows, row


def test_the_newest_row_counts_even_when_it_failed() -> None:
    later = STARTED + pd.Timedelta(hours=1)
    rows = frame(row("a", 1e-3, started=later, status="failed", reason="build error"), row("a", 1e-3))
    assert newest(rows, "256x256")["a"].reason == "build error"


def test_ratio_above_one_is_faster_and_pairs_rounds() -> None:
    """The drift of 5 % is common to both rows of a round: only pairing makes 3 % visible."""
    side_by_side = frame(row("slow", 1.03e-3), row("fast", 1e-3, "slow"))
    table = report.ladder(CaseData(side_by_side, ["slow", "fast"], "256x256", bases=("slow",)))
    (ratio,) = table.frame[table.frame.variant == "fast"].to_dict("records")
    assert ratio["vs_parent"] == pytest.approx(1.03, rel=0.004) and not ratio["vs_parent_same"]
    assert ratio["vs_parent_how"] == "in one run" and "faster" in line(table, "fast")

    shuffled = frame(row("slow", 1.03e-3), row("fast", 1e-3, "slow", rounds=list(reversed(range(20)))))
    assert report.ladder(CaseData(shuffled, ["fast"], "256x256")).frame.vs_parent_same[0]

    apart = frame(row("slow", 1.03e-3), row("fast", 1e-3, "slow", run="20260102T100000Z-bbbbbb"))
    table = report.ladder(CaseData(apart, ["slow", "fast"], "256x256", bases=("slow",)))
    assert table.columns[2].small == "(across these runs)" and "same" in line(table, "fast")


def runs_of(name: str, *seconds: float, parent: str | None = None, **fields: object) -> list[dict[str, object]]:
    """Return one measurement in several runs, a day apart."""
    return [
        row(name, run_seconds, parent, run=f"run-{at}", started=STARTED + pd.Timedelta(days=at), **fields)
        for at, run_seconds in enumerate(seconds)
    ]


def test_a_step_that_is_faster_in_shared_rounds_is_the_fastest_though_another_machine_took_less_time() -> None:
    """All times of the machine of run-0 are 15 % shorter; only the older step ran there."""
    older = runs_of("older", 1.0e-3, 1.15e-3, 1.15e-3, 1.0e-3, 1.0e-3)
    newer = [dict(fields, variant="newer") for fields in runs_of("newer", 1.0e-3, 1.05e-3, 1.05e-3)[1:]]
    by_variant = newest(frame(*older, *newer), "256x256")
    assert by_variant["older"].median < by_variant["newer"].median
    assert fastest(by_variant.values()) == fastest(reversed(by_variant.values())) == by_variant["newer"]
    alone = newest(frame(*older, row("newer", 1.05e-3, run="elsewhere")), "256x256")
    assert fastest(alone.values()) == alone["older"], "without shared rounds the shorter median decides"
    assert fastest([]) is None


def host(name: str, threads: int = 16) -> str:
    """Return the provenance of a run on a host."""
    return json.dumps({"cpu": "a processor", "threads_usable": threads, "machine": name})


def apart(name: str, times: dict[str, list[float]]) -> list[dict[str, object]]:
    """Return runs of one variant that no other variant has. times: by the provenance of a host."""
    pairs = [(provenance, seconds) for provenance, runs in times.items() for seconds in runs]
    return [
        row(name, seconds, run=f"{name}-{at}", provenance=provenance, started=STARTED + pd.Timedelta(hours=at))
        for at, (provenance, seconds) in enumerate(pairs)
    ]


FAST, SLOW = host("fast"), host("slow")


@pytest.mark.parametrize(
    ("reference", "reading", "ratio", "is_restricted"),
    [
        ({FAST: [1e-3] * 3}, {FAST: [0.9e-3] * 3, SLOW: [1.3e-3] * 4}, 1 / 0.9, True),
        ({FAST: [0.9e-3] * 3, SLOW: [1.3e-3] * 4}, {FAST: [1e-3] * 3}, 0.9, True),
        ({FAST: [1e-3] * 3}, {host("fast", 4): [0.9e-3] * 3, SLOW: [1.3e-3] * 4}, 1 / 0.9, True),
        ({FAST: [1e-3] * 3}, {FAST: [0.9e-3] * 2, SLOW: [1.3e-3] * 4}, 1 / 1.3, False),
        ({FAST: [1e-3] * 3}, {SLOW: [1.3e-3] * 4}, 1 / 1.3, False),
        ({FAST: [1e-3] * 3}, {FAST: [0.9e-3] * 3}, 1 / 0.9, False),
    ],
)
def test_without_shared_rounds_runs_on_the_machines_of_both_count(
    reference: dict[str, list[float]], reading: dict[str, list[float]], ratio: float, is_restricted: bool
) -> None:
    """A host that only one of two measurements ran on is no difference of the kernels."""
    rows = newest(frame(*apart("reference", reference), *apart("reading", reading)), "256x256")
    speedup = faster(rows["reference"], rows["reading"])
    assert speedup and speedup.runs == 0 and speedup.estimate == pytest.approx(ratio, rel=0.01)
    assert speedup.how == "across runs" + ", on the machines of both" * is_restricted
    quick = "reference" if ratio < 1 else "reading"
    assert fastest(rows.values()) == fastest(reversed(rows.values())) == rows[quick]


def test_three_runs_make_an_interval_between_runs() -> None:
    """Each run is sure of its own 10 %, one time for the one, another for the other."""
    slow = runs_of("slow", 1.0e-3, 1.0e-3, 1.0e-3)
    rows = frame(
        *slow,
        *runs_of("fast", 0.9e-3, 1.1e-3, 0.9e-3, parent="slow"),
        *runs_of("best", 5e-4, 4.9e-4, 5.1e-4, parent="slow"),
    )
    by_variant = newest(rows, "256x256")
    assert [len(by_variant[name].runs) for name in ("slow", "fast", "best")] == [3, 3, 3] and by_variant[
        "best"
    ].samples == 60
    fast, best = (faster(by_variant["slow"], by_variant[name]) for name in ("fast", "best"))
    assert fast is not None and fast.word == "undecided" and fast.how == "" and fast.runs == 3
    assert best is not None and best.word == "faster" and best.low < 2 < best.high
    assert by_variant["best"].median == pytest.approx(5e-4, rel=0.01) and by_variant["best"].high > 5.1e-4
    table = report.ladder(CaseData(rows, ["slow", "fast", "best"], "256x256", bases=("slow",)))
    assert "3 runs" in line(table, "best") and "over 3 runs" in table.text and "in one run" not in table.text


def test_a_ratio_of_more_runs_than_three_is_between_runs() -> None:
    rows = frame(*runs_of("slow", 2e-3, 2.1e-3, 2.2e-3, 2e-3), *runs_of("fast", 1e-3, 1.1e-3, 1e-3, 1.1e-3))
    by_variant = newest(rows, "256x256")
    ratio = faster(by_variant["slow"], by_variant["fast"])
    assert ratio is not None and (ratio.runs, ratio.how) == (4, "")


def test_runs_that_both_have_count_and_a_run_of_one_alone_moves_no_ratio() -> None:
    rows = frame(*runs_of("slow", 1e-3, 1e-3, 1e-3), *runs_of("fast", 5e-4, 5e-4, 5e-4, 9e-4))
    by_variant = newest(rows, "256x256")
    ratio = faster(by_variant["slow"], by_variant["fast"])
    assert ratio is not None and ratio.runs == 3 and ratio.estimate == pytest.approx(2, rel=0.01)
    assert len(by_variant["fast"].runs) == 4 and by_variant["fast"].row["run"] == "run-3"


@pytest.mark.parametrize("fields", [{"cell_key": "of older code"}, {"env_key": "of another driver"}, {"error": 2e-6}])
def test_runs_of_other_code_another_environment_or_not_verified_do_not_count(fields: dict[str, object]) -> None:
    before, now = runs_of("fast", 5e-4, 9e-4)
    reading = newest(frame(before | fields, now), "256x256")["fast"]
    assert len(reading.runs) == 1 and reading.median == pytest.approx(9e-4, rel=0.01)


@pytest.mark.parametrize("extra", ['{"lbmpy": "2.0"}', '{"source": "digits"}', "{}"])
def test_runs_with_another_version_of_a_library_or_other_images_are_another_measurement(extra: str) -> None:
    before, now = runs_of("fast", 5e-4, 9e-4, extra='{"lbmpy": "2.1", "source": "clothes", "group": "64x4"}')
    assert len(newest(frame(before, now), "256x256")["fast"].runs) == 2
    reading = newest(frame(before | {"extra": extra}, now), "256x256")["fast"]
    assert len(reading.runs) == 1 and reading.median == pytest.approx(9e-4, rel=0.01)


def test_a_ratio_says_of_what_else_its_times_are_but_not_how_many_samples_there_were() -> None:
    def how(first: dict[str, str], second: dict[str, str]) -> str:
        by_variant = newest(
            frame(*runs_of("a", 1e-3, 1e-3, 1e-3, **first), *runs_of("b", 1e-4, 1e-4, 1e-4, **second)), "256x256"
        )
        ratio = faster(by_variant["a"], by_variant["b"])
        assert ratio is not None
        return ratio.how

    long, short = ({"policy": f'{{"budget_s": {limit}, "cache": "cold", "limit_s": {limit}}}'} for limit in (0.5, 0.05))
    assert how(long, short) == ""
    assert how(long, {"policy": '{"cache": "warm"}'}) == "another state of the caches"
    assert how({"extra": '{"source": "clothes"}'}, {"extra": '{"source": "digits"}'}) == "other images"
    assert how({"extra": '{"source": "clothes"}'}, {"extra": '{"torch": "2.11"}'}) == "", "what only one tells"


def test_a_control_is_shown_only_beside_its_variant_in_a_run() -> None:
    runs = runs_of("fused", 5e-4, 5e-4, 5e-4)
    again = runs_of("fused", 5e-4, 5e-4, role="again")
    assert list(newest(frame(*runs, *again), "256x256")) == ["fused", "fused (A/A control)"]
    elsewhere = [fields | {"run": f"other-{at}"} for at, fields in enumerate(again)]
    assert list(newest(frame(*runs, *elsewhere), "256x256")) == ["fused"]


def test_two_runs_say_what_holds_in_both() -> None:
    rows = frame(*runs_of("slow", 1e-3, 1e-3), *runs_of("fast", 5e-4, 2e-3, parent="slow"))
    ratio = faster(*(newest(rows, "256x256")[name] for name in ("slow", "fast")))
    assert ratio is not None and ratio.how == "in two runs" and ratio.word == "undecided"


def test_few_samples_are_counted_over_all_runs_that_the_brackets_hold() -> None:
    rows = frame(*runs_of("a", 1e-3, 1e-3, n=3))
    assert newest(rows, "256x256")["a"].few == "n = 6, range"


def test_parts_are_summed_run_by_run() -> None:
    facts = [
        '{"parts": {"op": [0.2], "copy": [0.1]}}',
        '{"parts": {"op": [0.4], "copy": [0.1]}}',
        '{"parts": {"op": [0.2], "copy": [0.2]}}',
    ]
    rows = [fields | {"extra": extra} for fields, extra in zip(runs_of("a", 1e-3, 1e-3, 1e-3), facts, strict=True)]
    reading = newest(frame(*rows), "256x256")["a"].parts_together(["op", "copy"])
    assert reading.median == pytest.approx(0.4 / 100) and len(reading.runs) == 3


def test_a_ratio_of_rows_timed_otherwise_says_so() -> None:
    rows = frame(row("a", 1e-3), row("b", 1e-4, "a", timed="kernel", policy='{"cache":"warm"}'))
    table = report.ladder(CaseData(rows, ["a", "b"], "256x256", bases=("a",)))
    assert "vs a" in table.text and table.columns[3].small == "(in one run, another state of the caches, another time)"


def test_same_only_where_the_interval_includes_one() -> None:
    rows = frame(row("a", 1e-3), row("b", 1e-3, "a"), row("c", 1.2e-3, "b"))
    table = report.ladder(CaseData(rows, ["a", "b", "c"], "256x256", bases=("a",)))
    assert "same" in line(table, "b") and "same" not in line(table, "c") and "slower" in line(table, "c")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_sample_that_is_no_time_is_refused(bad: float) -> None:
    samples = [0.1] * 9 + [bad]
    with pytest.raises(UsageError, match="samples_s"):
        report.ladder(CaseData(frame(row("a", 1e-3, samples_s=samples)), ["a"], "256x256"))


@pytest.mark.parametrize("bad", [None, 0, -5, 0.5])
def test_units_that_are_none_are_refused(bad: float | None) -> None:
    """As rows have them that another program made."""
    with pytest.raises(UsageError, match=r"a on 256x256: units is .*; a whole number above 0 is needed"):
        newest(frame(row("a", 1e-3, units=bad)), "256x256")


def test_unknown_case_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="256x256"):
        report.ladder(CaseData(lab_rows(), ORDER, "512x512"))


def test_rows_read_the_same_after_parquet(tmp_path: Path) -> None:
    rows = lab_rows()
    rows.to_parquet(tmp_path / "rows.parquet")
    again = pd.read_parquet(tmp_path / "rows.parquet")
    assert report.ladder(CaseData(again, ORDER, "256x256")).html == report.ladder(CaseData(rows, ORDER, "256x256")).html


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (0.98, 1.03, "same"),
        (1.0, 1.04, "same"),
        (1.0, 1.1, "undecided"),
        (0.9, 1.06, "undecided"),
        (0.5, 2.0, "undecided"),
        (0.0, math.inf, "undecided"),
    ],
)
def test_an_interval_around_1_is_the_same_within_the_equality_band_else_undecided(
    low: float, high: float, word: str
) -> None:
    cell = ratio_cell(Speedup(1.0, low, high, ""))
    assert cell.text == word and cell.small.startswith("[") and cell.css == "num same"


HOT = "hardware thermal slowdown"


def throttled(variant: str, hot: dict[int, str], parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a row of which some samples took ten times as long, for these reasons."""
    throttled_row = row(variant, 1e-3, parent, extra=json.dumps({"parts": {"copy": list(range(20))}}), **fields)
    throttled_row["samples_s"] = [
        seconds * (10 if HOT in hot.get(at, "") else 1) for at, seconds in enumerate(throttled_row["samples_s"])
    ]
    reasons = sorted({reason for text in hot.values() for reason in text.split(", ")})
    return throttled_row | {"throttle": reasons, "sample_throttle": [hot.get(at, "") for at in range(20)]}


def test_samples_of_a_device_that_slowed_itself_down_are_left_out_with_their_rounds_and_parts() -> None:
    rows = frame(throttled("a", {0: HOT, 7: f"software power cap, {HOT}", 8: "software power cap"}))
    reading = newest(rows)["a"]
    assert (reading.left_out, reading.slowed, len(reading.times)) == (2, 0, 18)
    assert reading.times == tuple(seconds / 100 for at, seconds in enumerate(rows["samples_s"][0]) if at not in (0, 7))
    remaining = [at for at in range(20) if at not in (0, 7)]
    assert (
        list(reading.row["rounds"]) == remaining
        and [round(100 * seconds) for seconds in reading.parts["copy"]] == remaining
    )
    assert len(rows["samples_s"][0]) == 20, "the row of the store is as it was"


def test_a_ratio_still_pairs_samples_of_one_round() -> None:
    """The drift of 5 % is common to a round: only pairing makes 3 % visible, and it must pair the remaining samples."""
    hot = {3: HOT, 4: HOT}
    slow = throttled("slow", {}) | {"samples_s": row("slow", 1.03e-3)["samples_s"]}
    by_variant = newest(frame(slow, throttled("fast", hot, "slow")))
    ratio = faster(by_variant["slow"], by_variant["fast"])
    assert ratio and ratio.how == "in one run" and ratio.estimate == pytest.approx(1.03, rel=0.004) and not ratio.same


def test_too_few_others_leave_all_samples_in_and_the_table_says_so() -> None:
    hot = dict.fromkeys(range(15), HOT)
    table = report.ladder(CaseData(frame(throttled("a", hot)), ["a"], "256x256", bases=("a",)))
    assert "20 \u00d7 100 <small>(15 throttled)" in line(table, "a")
    table = report.ladder(CaseData(frame(throttled("a", {9: HOT, 11: "power brake"})), ["a"], "256x256", bases=("a",)))
    assert "18 \u00d7 100 <small>(2 throttled left out)" in line(table, "a")
    assert "hardware thermal slowdown, power brake" in table.html
    capped = report.ladder(CaseData(frame(throttled("a", {9: "software power cap"})), ["a"], "256x256", bases=("a",)))
    assert "20 \u00d7 100<" in line(capped, "a") and "throttled" not in line(capped, "a")
    assert "software power cap" in capped.html, "marked"


def test_rows_from_before_samples_were_marked_read_as_they_did() -> None:
    old = row("a", 1e-3, throttle=[HOT])
    for null in (None, math.nan):
        assert newest(frame(old | {"sample_throttle": null}))["a"].times == newest(frame(old))["a"].times
