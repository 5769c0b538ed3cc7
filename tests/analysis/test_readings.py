"""Which row of a variant counts, what is refused as a time, and how two rows compare: by pairs of a round where they can."""

import math
from pathlib import Path

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.readings import Speedup, newest
from roofbook.errors import UsageError
from roofbook.report.cells import ratio_cell

from ..report.rows import ORDER, STARTED, frame, lab_rows, row
from ..report.shown import line


def test_the_newest_row_counts_even_when_it_failed() -> None:
    later = STARTED + pd.Timedelta(hours=1)
    rows = frame(row("a", 1e-3, started=later, status="failed", reason="build error"), row("a", 1e-3))
    assert newest(rows, "256x256")["a"].why == "build error"


def test_ratio_above_one_is_faster_and_pairs_rounds() -> None:
    """The drift of 5 % is common to both rows of a round: only pairing makes 1 % visible."""
    side_by_side = frame(row("slow", 1.01e-3), row("fast", 1e-3, "slow"))
    table = report.ladder(CaseData(side_by_side, ["slow", "fast"], "256x256", base="slow"))
    (ratio,) = table.frame[table.frame.variant == "fast"].to_dict("records")
    assert ratio["vs_parent"] == pytest.approx(1.01, rel=0.004) and not ratio["vs_parent_same"]
    assert ratio["vs_parent_how"] == "" and "faster" in line(table, "fast")

    shuffled = frame(row("slow", 1.01e-3), row("fast", 1e-3, "slow", rounds=list(reversed(range(20)))))
    assert report.ladder(CaseData(shuffled, ["fast"], "256x256")).frame.vs_parent_same[0]

    apart = frame(row("slow", 1.01e-3), row("fast", 1e-3, "slow", run="20260102T100000Z-bbbbbb"))
    table = report.ladder(CaseData(apart, ["slow", "fast"], "256x256", base="slow"))
    assert "across runs" in line(table, "fast") and "same" in line(table, "fast")


def test_a_ratio_of_rows_timed_otherwise_says_so() -> None:
    rows = frame(row("a", 1e-3), row("b", 1e-4, "a", timed="kernel", policy='{"l2":"cold"}'))
    assert "other policy, other timed" in line(report.ladder(CaseData(rows, ["a", "b"], "256x256", base="a")), "b")


def test_same_only_where_the_interval_includes_one() -> None:
    rows = frame(row("a", 1e-3), row("b", 1e-3, "a"), row("c", 1.2e-3, "b"))
    table = report.ladder(CaseData(rows, ["a", "b", "c"], "256x256", base="a"))
    assert "same" in line(table, "b") and "same" not in line(table, "c") and "slower" in line(table, "c")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_sample_that_is_no_time_is_refused(bad: float) -> None:
    samples = [0.1] * 9 + [bad]
    with pytest.raises(UsageError, match="samples_s"):
        report.ladder(CaseData(frame(row("a", 1e-3, samples_s=samples)), ["a"], "256x256"))


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
    cell = ratio_cell(Speedup(1.0, low, high, True, ""))
    assert cell.text == word and cell.small.startswith("[") and cell.css == "num same"
