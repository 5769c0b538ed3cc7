"""The ladder as bars, also where its base was not measured."""

import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.errors import UsageError

from .rows import frame, lab_rows, row


def test_ladder_chart_without_its_base_starts_at_the_first_variant() -> None:
    figure = report.ladder_chart(CaseData(lab_rows(), ["port", "fused"], "256x256", bases=("none",)))
    assert "over port" in figure.title
    with pytest.raises(UsageError, match="verified time"):
        report.ladder_chart(CaseData(lab_rows(), ["soa"], "256x256"))


def test_the_first_base_that_has_a_bar_is_what_the_bars_are_over() -> None:
    def drawn(order: list[str]) -> report.Figure:
        return report.ladder_chart(CaseData(lab_rows(), order, "256x256", bases=("soa", "sequential", "port")))

    figure = drawn(["sequential", "port", "fused", "soa"])
    assert "over sequential" in figure.title and "Speedups are over sequential: soa has no bar here." in figure.notes
    assert "over port" in drawn(["port", "fused"]).title, "the base is not among what is drawn"
    chart = report.ladder_chart(CaseData(lab_rows(), ["sequential", "fused"], "256x256"))
    assert not any("Speedups are over" in note for note in chart.notes)


def test_a_ratio_of_too_few_rounds_is_a_bar_without_whiskers() -> None:
    few, enough = (
        report.ladder_chart(
            CaseData(
                frame(row("a", 1e-5, n=3), row("b", 2e-6, n=3, rounds=rounds)), ["a", "b"], "256x256", bases=("a",)
            )
        ).svg
        for rounds in ([2, 3, 4], [0, 1, 2])
    )
    assert "5.21×" in few and few.count("<path") < enough.count("<path")
