"""Series of an experiment over cases that no scale lists: planned, measured and shown apart from the ladder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import pytest

from roofbook.book.experiment import Experiment
from roofbook.book.page import Note
from roofbook.errors import UsageError
from roofbook.report.html import Table
from roofbook.spec.lab import Lab, Series

from .opening import Open, drawn

WIDTHS = Series(
    "width", "From which width on?", "width, cells", ((24, "24x24"), (40, "40x24"), (56, "56x24")),
    ("fused", "soa", "bit-neighbours"), (("soa", "fused"), ("bit-neighbours", "fused")),
)  # fmt: skip


@pytest.fixture
def lab_with_series(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Give the lab a series over three cases, of which the scale lists only one."""
    (case,) = lab.cases("test")
    widths = {"24x24": 24, "56x24": 56}

    def sized(name: str, scale: str) -> Any:
        return replace(case, name=name, params={**case.params, "nx": widths[name]}) if name in widths else None

    monkeypatch.setattr(lab, "sized", sized)
    monkeypatch.setattr(
        lab, "series", lambda scale: (WIDTHS, replace(WIDTHS, axis="again", variants=("soa",), against=()))
    )
    return lab


def planned_cells(experiment: Experiment) -> list[tuple[str, str]]:
    return [(cell.case.name, cell.variant.name) for cell in experiment.plan()]


def test_cells_of_a_series_are_planned_once_after_the_ladders(open_lab: Open, lab_with_series: Lab) -> None:
    ladder = [("40x24", name) for name in ("sequential", "fused", "soa")]
    everything = open_lab(variants=["sequential", "fused", "soa", "bit-neighbours"])
    series_cells = [("24x24", "fused"), ("24x24", "soa"), ("56x24", "fused"), ("56x24", "soa")]
    assert planned_cells(everything) == ladder + series_cells and [case.name for case in everything.cases] == ["40x24"]
    assert planned_cells(open_lab(variants=["soa"])) == [("40x24", "soa"), ("24x24", "soa"), ("56x24", "soa")]
    assert planned_cells(open_lab(variants=["sequential"])) == [("40x24", "sequential")]
    assert planned_cells(open_lab(variants=["sequential", "soa"], cases=["56x24"])) == [
        ("56x24", "sequential"), ("56x24", "soa")
    ]  # fmt: skip


def test_a_series_is_measured_and_shown_and_adds_no_case_to_the_ladder(open_lab: Open, lab_with_series: Lab) -> None:
    experiment = open_lab(variants=["sequential", "fused", "soa"])
    assert "7 measurements taken" in experiment.measure()
    assert {cell.state for cell in experiment.plan()} == {"fresh"} and "0 measurements taken" in experiment.measure()
    assert set(experiment.data.rows["case"]) == {"40x24", "24x24", "56x24"}
    chart = experiment.series_chart("width").html
    assert ">fused<" in chart and ">soa<" in chart and ">width, cells<" in chart and WIDTHS.question in chart
    assert "bit-neighbours – not on this case: a side is not a power of two." in chart
    table = cast(Table, experiment.crossings("width"))
    assert table.frame["first"].tolist() == ["soa", "bit-neighbours"] and table.frame.at_start.notna().tolist() == [
        True,
        False,
    ]
    assert any("a side is not a power of two" in note for note in table.notes)
    assert "24x24" not in experiment.ladder().html and "24x24" not in experiment.steps("fused")
    assert experiment.data.case().name == "40x24" and experiment.data.case("24x24").params["nx"] == 24
    assert experiment.data.measured.time_text("soa", "56x24") != "(not measured)" and experiment.data.measured.seconds(
        "soa", "56x24"
    )
    assert (
        experiment.data.measured.seconds("sequential", "56x24") is None
        and experiment.data.measured.seconds("soa", "elsewhere") is None
    )
    with pytest.raises(UsageError, match="unknown series 'height'; valid: width, again"):
        experiment.series_chart("height")
    with pytest.raises(UsageError, match=r"unknown case of this experiment '48x24' .*; valid: 40x24, 24x24, 56x24"):
        experiment.data.case("48x24")


def test_a_cell_of_a_series_that_was_measured_alone_is_fresh_on_the_page(open_lab: Open, lab_with_series: Lab) -> None:
    single_cell = open_lab(variants=["soa"], cases=["56x24"])
    assert "1 measurement taken" in single_cell.measure()
    page = open_lab(variants=["fused", "soa"])
    fresh = [(cell.case.name, cell.variant.name) for cell in page.plan() if cell.state == "fresh"]
    assert fresh == [("56x24", "soa")] and single_cell.plan()[0].cell_key in {cell.cell_key for cell in page.plan()}
    assert page.data.measured.seconds("soa", "56x24")


def test_a_series_can_be_drawn_without_measurements(open_lab: Open, lab_with_series: Lab) -> None:
    experiment = open_lab()
    assert isinstance(drawn(experiment.series_chart("width")), Note)
    assert [row.cells[2].text for row in cast(Table, experiment.crossings("width")).rows] == ["\u2013", "\u2013"]


@pytest.mark.thorough
def test_the_figure_of_a_sweep_has_only_the_cases_of_the_ladder(
    open_lab: Open, lab_with_series: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = [variant.name for variant in lab_with_series.sweeps[1].variants[:2]]
    monkeypatch.setattr(lab_with_series, "series", lambda scale: (replace(WIDTHS, variants=tuple(points), against=()),))
    experiment = open_lab(variants=points)
    experiment.measure()
    assert "24x24" in set(experiment.data.rows["case"])
    assert ">24x24<" not in experiment.line_sweep("wg").html
