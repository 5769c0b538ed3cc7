"""A tuned space as a figure and a table: points from rows, the best in the picture, and replays with seeds."""

from __future__ import annotations

import pytest

from roofbook.analysis.tuned_space import TunedSpace, tuned_spaces
from roofbook.report.effect_style import EFFECT_COLOURS
from roofbook.report.tuned_space_figure import parallel_coordinates, strategies_table

from .rows import frame, row


def point(knobs: str, values: str, seconds: float, **fields: object) -> dict[str, object]:
    settings = ",".join(f"{knob}={value}" for knob, value in zip(knobs.split(","), values.split(","), strict=True))
    return row(
        f"strips@{settings}",
        seconds,
        "strips",
        role="sweep",
        axis=knobs,
        point=values,
        lab="convpool",
        **{"n": 1, **fields},
    )


@pytest.fixture(scope="module")
def space() -> TunedSpace:
    rows = frame(
        row("strips", 5e-4, n=1, lab="convpool"),
        point("CHUNK", "16", 9e-4),
        point("CHUNK", "16", 4e-4),  # a later measurement
        point("CHUNK,PARTS", "16,1", 1e-4),
        point("PARTS", "1", 3e-4),
        point("PARTS", "2", 1e-9, status="failed", reason="wrong result", samples_s=[], rounds=[]),
        row("gone@A=1,B=2", 1e-4, n=1, role="sweep", axis="A,B", point="1,2", lab="convpool"),
    )
    (space,) = tuned_spaces(rows)
    return space


def test_a_knob_that_a_name_leaves_out_has_the_steps_value(space: TunedSpace) -> None:
    assert (space.lab, space.step, space.case, space.device) == ("convpool", "strips", "256x256", "Some GPU")
    assert [tuple(values.values()) for values, _ in space.results] == [
        ("48", "4"),
        ("16", "4"),
        ("16", "1"),
        ("48", "1"),
        ("48", "2"),
    ]
    assert list(space.values) == ["CHUNK", "PARTS"]
    assert [round(1e5 * seconds) for _, seconds in space.timed] == [10, 30, 40, 50]


def test_the_figure_names_knobs_values_and_the_fastest_point(space: TunedSpace) -> None:
    figure = parallel_coordinates(space)
    for text in ("CHUNK", "PARTS", "48", "time, "):
        assert f">{text}" in figure.svg
    assert "the fastest point: CHUNK = 16, PARTS = 1" in figure.svg
    assert figure.svg.count(EFFECT_COLOURS["faster"]) == 1, "one of four right points is the fastest"
    assert figure.notes[0] == "Blue: the fastest 1 of 4 right points. 1 points failed."


def test_replays_count_points_until_the_fastest(space: TunedSpace) -> None:
    assert space.evaluations("exhaustive") == [3] * 20
    drawn = space.evaluations("random")
    assert drawn == space.evaluations("random") and 1 == min(drawn) < max(drawn) <= 5
    table = strategies_table([space])
    assert [cell.text for cell in table.rows[0].cells][:3] == ["convpool strips, 256x256, Some GPU", "5", "3"]
