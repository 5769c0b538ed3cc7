"""Time over something of the case: lines with gaps, where two of them cross, and that none cross where they do not differ."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofbook import report
from roofbook.analysis.readings import Speedup
from roofbook.errors import UsageError
from roofbook.report.series import crossing_points
from roofbook.spec.lab import Series

from .inspection import axes
from .rows import ZEROS, even, frame, lab_rows, row, series_rows


def test_a_crossing_is_where_the_lines_meet_and_what_never_crosses_is_said() -> None:
    table = report.crossings(series_rows(), ZEROS, skipped={("both", "z50"): "not on this case: no room"})
    assert table.frame.said.tolist() == [
        "faster from 65.0 on", "faster at every point", "faster up to 65.0", "faster up to 85.0",
    ]  # fmt: skip
    assert table.frame.crossings.tolist() == [pytest.approx([65]), [], pytest.approx([65]), pytest.approx([85])]
    assert table.frame.at_start.tolist() == pytest.approx([2**-1.5, 2, 2**1.5, 2**2.5])
    assert table.frame.at_end.tolist() == pytest.approx([2**2.5, math.nan, 2**-2.5, math.nan], nan_ok=True)
    last = table.rows[1].cells[-1]
    assert last.text == "–", "notes say why"
    assert "First vs second at 98" in table.html
    assert table.notes[-2:] == ["both on z50: not on this case: no room", "both on z98: out of memory"]


def test_a_series_is_a_line_a_variant_with_gaps_and_rings() -> None:
    figure = report.series(series_rows(), ZEROS)
    ax = axes(figure)
    lines = {container.get_label(): container[0].get_xydata() for container in ax.containers}
    assert list(lines) == list(ZEROS.variants) and ax.get_yscale() == "log" and ax.get_xscale() == "linear"
    assert lines["lists"][:, 1].tolist() == pytest.approx([2.0 ** (1.5 - at) * 1e3 for at in range(5)])
    assert np.isnan(lines["both"][:, 1]).tolist() == [False, True, False, False, True], "no line across what is missing"
    rings = [line.get_xydata()[0].tolist() for line in ax.lines if line.get_markersize() == 13]
    assert rings[:2] == [pytest.approx([65, 1000]), pytest.approx([65, 1000])] and rings[2] == pytest.approx([85, 500])
    assert figure.title == ZEROS.question and "both on z98: out of memory" in figure.notes
    assert "both on z50: not measured" in figure.notes and ax.get_xlabel() == "zeros, %"
    with pytest.raises(UsageError, match="no point of the series over zeros has a verified time"):
        report.series(lab_rows(), ZEROS)
    with pytest.raises(UsageError, match="no point"):
        report.series(pd.DataFrame(), ZEROS)


def test_a_series_with_nothing_measured_still_has_its_crossings_to_find() -> None:
    table = report.crossings(pd.DataFrame(), ZEROS)
    assert [row.cells[2].text for row in table.rows] == ["–"] * 4
    assert table.notes[-1] == "dense, lists, both – not measured."


def noisy(variant: str, seconds: float, case: str) -> dict[str, Any]:
    """Samples that scatter by 10 %, differently from variant to variant."""
    drift = 1 + 0.1 * np.sin(np.arange(20) * (3.7 if variant == "dense" else 5.3))
    return row(variant, seconds, case=case, samples_s=(100 * seconds * drift).tolist())


def test_lines_that_are_the_same_cross_nowhere() -> None:
    flat = [noisy(name, 1e-3, case) for _, case in ZEROS.points for name in ("dense", "lists")]
    first = report.crossings(frame(*flat), ZEROS).frame.iloc[0]
    assert first.said == "undecided at every point" and first.crossings == []
    alike = [even(name, 1e-3, case=case) for _, case in ZEROS.points for name in ("dense", "lists")]
    assert report.crossings(frame(*alike), ZEROS).frame.iloc[0].said == "the same at every point"
    some = [even("lists", 5e-4, case=case) if case == "z98" else noisy("lists", 1e-3, case) for _, case in ZEROS.points]
    first = report.crossings(
        frame(*[fields for fields in flat if fields["variant"] == "dense"], *some), ZEROS
    ).frame.iloc[0]
    assert first.said == "faster at 1 point; undecided at 4" and first.crossings == []


@given(st.data())
def test_a_known_crossing_is_found(data: st.DataObject) -> None:
    """Two straight lines in log time over points at any distance: one crossing, wherever points lie."""
    log = data.draw(st.booleans())
    xs = sorted(data.draw(st.sets(st.integers(1, 1000), min_size=2, max_size=9)))
    places = [math.log(x) if log else float(x) for x in xs]
    meet = data.draw(st.floats(places[0], places[-1]))
    assume(all(abs(place - meet) > 1e-6 for place in places))
    slope = data.draw(st.sampled_from([-10.0, -1.0, 1.0, 2.0])) / (places[-1] - places[0])
    leads = [math.exp(slope * (place - meet)) for place in places]
    ratios = [Speedup(lead, lead, lead, "") for lead in leads]
    assume(not any(ratio.same for ratio in ratios))
    (crossing,) = crossing_points(xs, ratios, log)
    assert crossing == pytest.approx(math.exp(meet) if log else meet, rel=1e-6)


@given(st.lists(st.sampled_from([-1.0, -0.01, 0.01, 1.0]), min_size=1, max_size=12))
def test_crossings_lie_between_points_that_surely_differ(leads: list[float]) -> None:
    """A lead of 0.01 is not sure: it makes no crossing of its own, however often it turns."""
    ratios = [Speedup(math.exp(lead), math.exp(lead - 0.1), math.exp(lead + 0.1), "") for lead in leads]
    sure = [at for at, ratio in enumerate(ratios) if not ratio.same]
    turns = [(a, b) for a, b in pairwise(sure) if (leads[a] > 0) != (leads[b] > 0)]
    crossings = crossing_points(list(range(len(leads))), ratios)
    assert len(crossings) == len(turns) and all(a < x < b for x, (a, b) in zip(crossings, turns, strict=True))


def test_several_crossings_are_told_in_turn() -> None:
    listed = []
    for (_, case), lead in zip(ZEROS.points, (0.5, 2, 2, 0.5, 2), strict=True):
        listed += [even("dense", 1e-3, case=case), even("lists", 1e-3 / lead, case=case)]
    table = report.crossings(frame(*listed), ZEROS)
    assert table.frame.said[0] == "several: faster from 25.0, slower from 85.0, faster from 94.0"
    assert table.frame.said[2] == "several: slower from 25.0, faster from 85.0, slower from 94.0"


def test_points_far_apart_lie_on_a_logarithmic_axis_and_so_does_their_crossing() -> None:
    batches = Series("batch", "Which?", "images", ((10, "b10"), (1000, "b1000")), ("a", "b"), (("a", "b"),))
    listed = [even(name, seconds, case=case) for case, *times in (("b10", 2e-3, 1e-3), ("b1000", 1e-3, 2e-3))
            for name, seconds in zip("ab", times, strict=True)]  # fmt: skip
    figure = report.series(frame(*listed), batches)
    assert axes(figure).get_xscale() == "log"
    assert report.crossings(frame(*listed), batches).frame.crossings[0] == pytest.approx([100])
    assert [line.get_xydata()[0, 0] for line in axes(figure).lines if line.get_markersize() == 13] == pytest.approx(
        [100]
    )
