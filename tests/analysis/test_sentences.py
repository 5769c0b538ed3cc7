"""Figures inside sentences: what is said of two times, and what is left out."""

import pytest

from roofbook.analysis.sentences import NOT_COMPARED, NOT_MEASURED, known, ratio_text

from ..report.rows import frame, row

CASE = "256x256"
NOISY = [1e-3 * each for each in (1.0, 1.4, 0.8, 1.3, 0.7, 1.2, 0.9, 1.5, 0.75, 1.1)]


@pytest.mark.parametrize(
    ("other", "said"),
    [
        (row("other", 2e-6), r"in this run 5.\d+ times as slow as"),
        (row("other", 4e-5), r"in this run [34].\d+ times as fast as"),
        (row("other", 1e-5), "in this run as fast as"),
        (row("other", 1e-5, samples_s=NOISY * 2), "in this run within the noise of"),
        (row("other", 2e-6, rounds=list(range(19, 39))), r"\(too few samples to compare\) with"),
        (row("other", 2e-6, status="failed", reason="out of memory"), r"\(not measured\) against"),
    ],
)
def test_a_ratio_in_words_claims_no_more_than_its_interval(other: dict[str, object], said: str) -> None:
    import re

    rows = frame(row("own", 1e-5), other)
    assert re.fullmatch(said, ratio_text(rows, "own", "other", CASE)), ratio_text(rows, "own", "other", CASE)


def test_what_has_no_figure_is_left_out_of_a_sentence() -> None:
    assert (
        known(["a is 2", f"b is {NOT_MEASURED}", f"c is {NOT_COMPARED} with d", "e is 3"], " and ")
        == "a is 2 and e is 3"
    )
    assert known([f"b is {NOT_MEASURED}"]) == ""
    assert known(()) == ""
