"""Figures of sweeps: labels stay legible, each failed point is marked, and its reason is said once."""

import math
import re
from itertools import pairwise
from typing import Any

import pandas as pd
import pytest
from matplotlib.colors import to_hex

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.errors import UsageError
from roofbook.report.bars import THICK
from roofbook.report.effect_style import EFFECT_COLOURS

from .inspection import axes
from .rows import STARTED, frame, row, shapes, sweep_rows


def test_sweep_grid_and_heat_map() -> None:
    grid, reasons = report.sweep_grid(CaseData(sweep_rows(), [], "256x256"), "wg")
    assert list(grid.index) == ["1", "4", "8"] and list(grid.columns) == ["2", "16"]
    assert math.isnan(grid.loc["8", "2"]) and reasons == {("8", "2"): "work-group too large"}
    figure = report.heat_map(grid, reasons=reasons)
    assert any("work-group too large" in note for note in figure.notes) and any("16 \u00d7" in n for n in figure.notes)
    with pytest.raises(UsageError, match="at least one time"):
        report.heat_map(grid * math.nan)


def test_points_that_are_no_numbers_are_bars_in_the_colours_of_their_effects() -> None:
    figure = report.point_bars(CaseData(sweep_rows(), ["fused"], "256x256"), "wg")
    bars = [patch for patch in axes(figure).patches if patch.get_height() == THICK]
    assert [to_hex(bar.get_facecolor()) for bar in bars] == [
        EFFECT_COLOURS[word] for word in ("slower", "faster", "faster")
    ]
    assert [record["wg"] for record in figure.records] == ["2x4", "16x1", "16x4"]
    assert {record["compared_with"] for record in figure.records} == {"fused"}
    assert "failed: work-group too large" in figure.svg and any("Bold: the fastest point" in n for n in figure.notes)
    with pytest.raises(UsageError, match="no single sweep"):
        report.point_bars(CaseData(sweep_rows(), ["fused"], "256x256"), "tile")


def of_several_runs(points: dict[str, list[float]], name: str = "wg") -> Any:
    """Return rows of a sweep: of each point its times in run-0, run-1 and so on."""
    rows = [
        row(
            f"fused@{name}={point}", seconds, "fused", role="sweep", axis=name, point=point, run=f"run-{at}",
            started=STARTED + pd.Timedelta(days=at),
        )
        for point, times in points.items()
        for at, seconds in enumerate(times)
    ]  # fmt: skip
    return frame(*[row("fused", 2e-5, run=f"run-{at}") for at in range(5)], *rows)


OTHER_RUNS = {"1x4": [1.0e-5] * 2, "4x1": [1.02e-5] * 2, "2x1": [1.0e-5] * 2 + [2e-5] * 3}
"""The runs after the second are on a slower machine, and one point alone was measured there."""


def test_a_point_whose_time_is_of_slower_runs_has_a_note_with_its_ratio() -> None:
    data = CaseData(of_several_runs(OTHER_RUNS), ["fused"], "256x256")
    said = "1x4 is as fast [1.00, 1.00] as 2x1. The ratio pairs samples of the same round; the times are medians of all runs"
    readings, _ = report.sweep_readings(data.rows, "wg", "256x256")
    (note,) = report.median_notes(readings)
    assert re.sub(r"\[.*?\]", "[1.00, 1.00]", note) == f"{said} of each point."
    assert note in report.point_bars(data, "wg").notes
    assert report.median_notes({point: readings[point] for point in ("1x4", "4x1")}) == []
    numbers = {point.partition("x")[0]: times for point, times in OTHER_RUNS.items()}
    line = report.line_sweep(of_several_runs(numbers, "length"), "length")
    assert any("as 2. The ratio pairs samples" in text for text in line.notes)
    assert report.median_notes({}) == []


def test_bold_is_the_point_that_is_fastest_in_shared_rounds_not_the_one_with_a_run_on_a_quicker_machine() -> None:
    quicker = {"1x4": [1.1e-5] * 2 + [0.9e-5] * 3, "4x1": [1.0e-5] * 2}
    figure = report.point_bars(CaseData(of_several_runs(quicker), ["fused"], "256x256"), "wg")
    assert "fastest: 4x1" in figure.svg


def test_the_worth_of_an_optimisation_is_blue_if_it_is_faster_with_it() -> None:
    rows = frame(
        row("best", 1e-4), row("no-soa", 5e-4, "best"), row("no-bits", 1e-4, "best"), row("no-ifs", 5e-5, "best")
    )
    data = CaseData(rows, [], "256x256")
    without = {"SoA": "no-soa", "bits": "no-bits", "ifs": "no-ifs", "lists": "none"}
    figure = report.worth_bars(data, without, "best")
    assert [record["effect"] for record in figure.records] == ["faster", "same", "slower"]
    assert [record["worth"] for record in figure.records] == pytest.approx([5, 1, 0.5], rel=0.01)
    assert "Without a time: lists." in figure.notes
    with pytest.raises(UsageError, match=r"no optimisation of best was left out on 256x256 with a verified time"):
        report.worth_bars(data, {"lists": "none"}, "best")


def labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels() if label.get_text()]


def test_long_labels_of_a_heat_map_go_down() -> None:
    grid, reasons = report.sweep_grid(CaseData(shapes(columns=9, rows=3), [], "256x256"), "size")
    assert list(grid.index) == ["4x1", "4x2", "4x3"] and list(grid.columns)[:2] == ["64x112x1", "64x112x2"]
    figure = report.heat_map(grid, reasons=reasons, xlabel="global", ylabel="local")
    ax = axes(figure)
    assert labels(ax.yaxis) == list(grid.columns) and labels(ax.xaxis) == list(grid.index)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("local", "global")
    hatched = {(patch.get_x() // 1, patch.get_y() // 1) for patch in ax.patches if patch.get_hatch()}
    assert hatched == {(down, at) for at in (1, 3, 5, 7) for down in range(3)}
    assert "64x112x1 / 4x3" in figure.notes[0]
    (framed,) = (patch for patch in ax.patches if patch.get_linewidth() > 2)
    assert (framed.get_x() // 1, framed.get_y() // 1) == (2, 0)

    three, reasons_of_three = report.sweep_grid(CaseData(shapes(columns=3, rows=3), [], "256x256"), "size")
    ax = axes(report.heat_map(three, reasons=reasons_of_three, xlabel="global", ylabel="local"))
    assert labels(ax.xaxis) == list(three.columns) and ax.get_xlabel() == "global", "three fit side by side"


def test_cells_that_are_not_in_the_sweep_stay_empty() -> None:
    rows = shapes(columns=2, rows=6)
    grid, reasons = report.sweep_grid(CaseData(rows[rows.point != "64x112x2/4x1"], [], "256x256"), "size")
    figure = report.heat_map(grid, reasons=reasons)
    patches = axes(figure).patches
    assert len(patches) == 6 + 5 + 1 and sum(bool(patch.get_hatch()) for patch in patches) == 5
    assert figure.notes[1].startswith("5 of 11, such as ")


def test_reasons_that_differ_in_numbers_are_one_note() -> None:
    grid, reasons = report.sweep_grid(CaseData(shapes(columns=9, rows=3), [], "256x256"), "size")
    (note,) = report.heat_map(grid, reasons=reasons).notes[1:]
    assert note == "12 of 27, such as 64x112x2 / 4x1: work-group of 2048 work-items is over the limit of 1024"
    same = dict.fromkeys(reasons, "out of memory")
    assert report.heat_map(grid, reasons=same).notes[1:] == ("12 of 27: out of memory",)
    words = ["alpha", "beta", "gamma", "delta", "epsilon"]
    many = {key: f"wrong {words[min(at, 4)]}" for at, key in enumerate(reversed(reasons))}
    notes = report.heat_map(grid, reasons=many).notes[1:]
    assert notes[0].startswith("8 of 27: wrong epsilon") and notes[1] == "64x112x8 / 4x3: wrong alpha"
    assert notes[-1] == "1 of 27: other reasons, listed among the failures." and len(notes) == 5
    assert "wrong delta" not in " ".join(notes)


def test_labels_of_a_line_stay_clear_of_each_other() -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    for numbers, ticks in (
        (range(32), [str(at) for at in range(0, 32, 2)]),
        ([1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 512, 1024], [str(2**at) for at in range(11)]),
        ([0, 50, 88, 96, 98], ["0", "50", "88", "96"]),
    ):
        points = [row(f"a@at={at}", 1e-3, "a", role="sweep", axis="at", point=str(at)) for at in numbers]
        figure = report.line_sweep(frame(*points), "at")
        ax = axes(figure)
        assert labels(ax.xaxis) == ticks
        renderer = FigureCanvasAgg(figure.drawing).get_renderer()
        boxes = [label.get_window_extent(renderer) for label in ax.xaxis.get_ticklabels() if label.get_text()]
        assert all(left.x1 < right.x0 for left, right in pairwise(boxes))
        assert len(ax.get_xticks()) + len(ax.get_xticks(minor=True)) == len(points), "a tick for every point"


def test_failed_points_of_a_line_share_a_note() -> None:
    points = [row(f"a@at={at}", 1e-3, "a", role="sweep", axis="at", point=str(at)) for at in range(32)]
    for point in points[1:]:
        point |= {"status": "failed", "reason": f"wrong result: error {point['point']}e-3, allowed 1e-06"}
    figure = report.line_sweep(frame(*points), "at")
    assert figure.notes[1:] == ("31 of 32, such as 256x256, at = 1: wrong result: error 1e-3, allowed 1e-06",)


def test_a_line_for_each_case() -> None:
    rows = [row(f"a@{axis}={at}", at * 1e-6, "a", role="sweep", axis=axis, point=str(at), case=case)
            for axis in ("buffers", "integers") for at in (1, 4, 16) for case in ("one", "two")]  # fmt: skip
    by_case = report.line_sweep(frame(*rows), "buffers").svg
    assert ">one<" in by_case and ">two<" in by_case and ">buffers<" in by_case
    assert ">integers<" not in by_case, "another sweep"
