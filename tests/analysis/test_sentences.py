"""Figures inside sentences: the words for two times, and figures that are left out."""

import re

import pandas as pd
import pytest

from roofbook.analysis.answers import answer
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.conclusions import fastest_step_sentence
from roofbook.analysis.lab_data import LabData
from roofbook.analysis.readings import fastest_first
from roofbook.analysis.sentences import NOT_COMPARED, NOT_MEASURED, ratio_text, shorter_medians, without_missing
from roofbook.report.answer_box import answer as answer_box
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case

from ..report.rows import STARTED, frame, row

CASE = "256x256"
NOISY = [1e-3 * factor for factor in (1.0, 1.4, 0.8, 1.3, 0.7, 1.2, 0.9, 1.5, 0.75, 1.1)]


@pytest.mark.parametrize(
    ("reference_row", "pattern"),
    [
        (row("other", 2e-6), r"in one run 5.\d+ \[4.\d+, 5.\d+\] times as slow as"),
        (row("other", 4e-5), r"in one run [34].\d+ \[3.\d+, 4.\d+\] times as fast as"),
        (row("other", 1e-5), r"in one run as fast \[0.9\d+, 1.0\d+\] as"),
        (row("other", 1e-5, samples_s=NOISY * 2), r"in one run within the noise \[0.\d+, 1.\d+\] of"),
        (row("other", 2e-6, rounds=list(range(19, 39))), r"\(too few samples to compare\) with"),
        (row("other", 2e-6, status="failed", reason="out of memory"), r"\(not measured\) against"),
    ],
)
def test_a_ratio_in_words_claims_no_more_than_its_interval(reference_row: dict[str, object], pattern: str) -> None:
    rows = frame(row("own", 1e-5), reference_row)
    assert re.fullmatch(pattern, ratio_text(rows, "own", "other", CASE)), ratio_text(rows, "own", "other", CASE)


def test_what_has_no_figure_is_left_out_of_a_sentence() -> None:
    assert (
        without_missing(["a is 2", f"b is {NOT_MEASURED}", f"c is {NOT_COMPARED} with d", "e is 3"], " and ")
        == "a is 2 and e is 3"
    )
    assert without_missing([f"b is {NOT_MEASURED}"]) == ""
    assert without_missing(()) == ""


@pytest.mark.parametrize(("runs", "phrase"), [(1, "in one run"), (2, "in two runs"), (3, "here")])
def test_the_fastest_kernel_is_so_in_the_runs_that_there_are(runs: int, phrase: str) -> None:
    lab = registry.get("lbm")
    rows = [row("fused", 1e-5, run=f"run-{at}", started=STARTED + pd.Timedelta(days=at)) for at in range(runs)]
    sentence = fastest_step_sentence(lab, Known(lab, frame(*rows)).measured, CASE)
    assert sentence.startswith(f"The fastest kernel {phrase} is `fused`: ")


def test_a_step_whose_median_is_shorter_over_other_runs_is_named_beside_the_fastest() -> None:
    """A page gave the fastest kernel 11.2 µs, and another line of its ladder 11.1 µs, without a word."""
    lab = registry.get("lbm")
    times = {"fused": [1.0e-5, 1.2e-5, 1.2e-5, 1.2e-5, 1.0e-5, 1.0e-5, 1.0e-5], "soa": [0, 1.1e-5, 1.1e-5, 1.1e-5]}
    rows = [
        row(name, seconds, run=f"run-{at}", started=STARTED + pd.Timedelta(days=at))
        for name, runs in times.items()
        for at, seconds in enumerate(runs)
        if seconds
    ]
    known, data = Known(lab, frame(*rows)), CaseData(frame(*rows), [*times], CASE)
    sentence = fastest_step_sentence(lab, known.measured, CASE)
    pattern = (
        r"`soa`: \S+\sµs per step\. `fused` has a shorter median, \S+\sµs, over other runs\. Where both ran, `soa` is 1"
    )
    assert re.search(pattern, sentence), sentence
    assert sentence.endswith("times as fast as it.")
    lab_answer = answer(lab, data)
    assert lab_answer and [rival.reading.variant for rival in lab_answer.shorter] == ["fused"]
    box = answer_box(data, lab_answer)
    assert (
        "<code>fused</code> has a shorter median" in box.html and "Where both ran, <code>soa</code> is 1.09" in box.html
    )
    assert [reading.variant for reading in fastest_first(data.readings.values())] == ["soa", "fused"]
    alone = Known(lab, frame(*rows[:7]))
    assert "shorter" not in fastest_step_sentence(lab, alone.measured, CASE)


def test_a_speedup_is_over_the_first_base_that_has_a_time() -> None:
    class Other(type(registry.get("lbm"))):  # type: ignore[misc]
        headline = ("by-c", "sequential")

    rows = [row("by-c", 1e-3), row("sequential", 4e-3), row("fused", 1e-5)]
    sentences = [
        fastest_step_sentence(Other(), Known(Other(), frame(*some)).measured, CASE)
        for some in (rows, rows[1:], rows[2:])
    ]
    assert re.search(r"in one run \d+ \[\d+, \d+\] times as fast as `by-c`\.$", sentences[0])
    assert re.search(r"in one run \d+ \[\d+, \d+\] times as fast as `sequential`\.$", sentences[1])
    assert sentences[2].endswith(" per step.")


class Known(LabData):
    """Rows that count, as they are."""

    peak_rows = peer_rows = profiles = frame()

    def __init__(self, lab: Lab, rows: pd.DataFrame) -> None:
        self.lab, self._rows = lab, rows

    @property
    def rows(self) -> pd.DataFrame:
        return self._rows

    def case(self, name: str | None = None) -> Case:
        return Case(str(name), "quick", {}, 1)


def test_several_steps_with_shorter_medians_are_named_in_one_sentence() -> None:
    steps = [
        ("`a`", "7.3 µs", "1.1 times as fast as"),
        ("`b`", "8.1 µs", "1.2 times as fast as"),
        ("`c`", "8.2 µs", "1.3 times as fast as"),
    ]
    assert shorter_medians("`best`", steps) == (
        "`a` (7.3 µs), `b` (8.1 µs) and `c` (8.2 µs) have shorter medians over other runs. Where both ran, `best` is "
        "1.1 times as fast as `a`, 1.2 times as fast as `b` and 1.3 times as fast as `c`."
    )
    assert shorter_medians("`best`", []) == ""
