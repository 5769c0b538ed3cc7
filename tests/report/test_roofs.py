"""The roofline figure: each dtype under its own roof, no words over each other, a warning above a roof. Synthetic rows."""

import math
import re
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from roofbook import report
from roofbook.analysis import format
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import GRAPH_NODE, Bound, LeastLaunch, Peaks
from roofbook.errors import UsageError
from roofbook.report.effect_style import LEGEND
from roofbook.report.figure import COLOURS
from roofbook.report.roofs import MOST_NAMES, STYLES, spread_apart

from .inspection import axes

CASE, LARGE, SMALL = "256x256", 1e9, 1e6
FLOPS = {"float32": 6.1e13, "tfloat32": 4e14, "float16": 7.9e14, "bfloat16": 7.8e14, "int8": 1.53e15}
PEAKS = Peaks([(2**20, 2.1e13), (2**25, 9e12), (2**32, 4e12)], FLOPS)
HOST = Peaks([(2**18, 9e10), (2**24, 3e10), (2**28, 1.2e10)], {"float32": 2.3e11, "float64": 1.1e11, "int32": 9e10})
WORK = 1e9


def rows(**spots: tuple[float, float, str]) -> pd.DataFrame:
    """Verified rows by name from (intensity in FLOP/B, rate in FLOP/s, dtype); each is the child of the one before."""
    listed, parent = [], None
    for name, (intensity, rate, dtype) in spots.items():
        listed.append({
            "run": "r", "started": pd.Timestamp("2026-01-01T10:00:00Z"), "variant": name, "case": CASE, "parent": parent,
            "role": "step", "dtype": dtype, "device": "gpu", "units": 1, "status": "ok", "samples_s": [WORK / rate] * 10,
            "flops": WORK, "bytes": WORK / intensity, "error": 0.0, "bound": 1.0,
        })  # fmt: skip
        parent = name
    return pd.DataFrame(listed)


def chart(table: pd.DataFrame, peaks: Peaks = PEAKS, **fields: Any) -> report.Figure:
    order = list(dict.fromkeys(table["variant"]))
    defaults: dict[str, Any] = {"order": order, "case": CASE, "peaks": peaks, "working_set": LARGE}
    return report.roofline_chart(CaseData(table, **defaults | fields))


def flats(figure: report.Figure) -> dict[float, tuple[float, float]]:
    """Height of each flat roof -> its ends."""
    lines = [line.get_xydata().tolist() for line in axes(figure).lines if line.get_linewidth() == 2.0]
    assert all(start[1] == end[1] for start, end in lines)
    return {start[1]: (start[0], end[0]) for start, end in lines}


def legend(figure: report.Figure) -> dict[str, Any]:
    """Return the lines of the legend below the axes, by their labels, but for those of the effects' colours."""
    lines = {str(line.get_label()): line for below in figure.drawing.legends for line in below.get_lines()}
    return {label: line for label, line in lines.items() if label not in LEGEND.values()}


def points(figure: report.Figure) -> list[Any]:
    """Return the markers of modelled bytes that a reader can point at."""
    with_tips = [line for line in axes(figure).lines if (line.get_gid() or "").startswith("tips:")]
    return [line for line in with_tips if line.get_markerfacecolor() != "none"]


def marker(figure: report.Figure, colour: str = "") -> list[Any]:
    """Markers of that colour, or of all: those of the points first, then hollow ones."""
    ax = axes(figure)
    drawn = [*points(figure), *(line for line in ax.lines if line.get_markerfacecolor() == "none")]
    return [line for line in drawn if line.get_color() == (colour or line.get_color())]


MIXED = {
    "plain": (50.0, 5e13, "float32"), "split": (50.0, 1.5e14, "tfloat32"), "half": (50.0, 1.8e14, "float16"),
    "brain": (50.0, 1.7e14, "bfloat16"), "bytes": (100.0, 3e14, "int8"),
}  # fmt: skip


def test_each_dtype_drawn_has_its_roof_its_ridge_and_its_own_style() -> None:
    figure = chart(rows(**MIXED))
    assert not figure.warnings
    drawn = flats(figure)
    assert sorted(drawn) == sorted(FLOPS.values()), "a roof for each dtype of the rows"
    for dtype, top in FLOPS.items():
        unit = "OP/s" if dtype == "int8" else "FLOP/s"
        assert f">{dtype}: {format.quantity(top, unit)}<" in figure.svg
        assert f">ridge {format.number(top / 4e12)}<" in figure.svg
        assert drawn[top][0] == pytest.approx(top / 2.1e13) and drawn[top][1] > top / 4e12
    assert {label: line.get_marker() for label, line in legend(figure).items()} == {
        dtype: shape for dtype, (shape, _) in STYLES.items() if dtype in FLOPS
    }
    shapes = [marker_.get_marker() for marker_ in points(figure)]
    assert shapes == [STYLES[dtype][0] for _, _, dtype in MIXED.values()]
    for styles in zip(*STYLES.values(), strict=True):
        assert len(set(map(str, styles))) == len(STYLES), "no two dtypes look alike without colour"
    assert axes(figure).get_ylabel() == "TFLOP/s or TOP/s" and "FLOP/B or OP/B" in axes(figure).get_xlabel()


def test_one_dtype_has_one_roof_and_needs_no_legend() -> None:
    figure = chart(rows(a=(0.2, 1e11, "float32"), b=(0.2, 5e11, "float32")))
    assert list(flats(figure)) == [6.1e13] and not legend(figure)
    assert "float16" not in figure.svg and axes(figure).get_ylabel() == "TFLOP/s"
    slopes = [line.get_label() for line in axes(figure).lines if not line.get_label().startswith("_")]
    thin = format.THIN
    assert slopes == [
        f"memory at this size: 4.00{thin}TB/s", f"up to 1{thin}MiB: 21.0{thin}TB/s", f"up to 32{thin}MiB: 9.00{thin}TB/s"
    ]  # fmt: skip


def test_a_note_says_that_an_empty_kernel_takes_longer_than_the_bound() -> None:
    table = rows(plain=(50.0, 5e13, "float32"))
    for launch, noted in ((LeastLaunch(GRAPH_NODE, 9e-7), True), (LeastLaunch(GRAPH_NODE, 1e-7), False), (None, False)):
        figure = chart(table, bounds={"float32": Bound(5e-7, "memory", launch=launch)})
        assert ("Launch: an empty kernel in a graph takes 900" in " ".join(figure.notes)) == noted


def test_a_dtype_without_a_measured_roof_is_bounded_by_memory_alone() -> None:
    without_int8 = Peaks(PEAKS.bandwidth, {"float32": 6.1e13})
    table = rows(plain=(50.0, 5e13, "float32"), half=(50.0, 1.8e14, "float16"), wrong=(50.0, 2.2e14, "float16"))
    figure = chart(table, without_int8)
    assert list(flats(figure)) == [6.1e13]
    assert [re.findall(r"\b(plain|half|wrong) [\d.]+", warning) for warning in figure.warnings] == [["wrong"]]
    assert "not measured, so only memory bounds it here: half (float16), wrong (float16)." in figure.notes[-1]
    assert legend(figure)["float16"].get_linestyle() == "None" != legend(figure)["float32"].get_linestyle()
    with pytest.raises(UsageError, match=r"no peak of float16 measured; peaks of: float32"):
        chart(table[1:], without_int8)
    with pytest.raises(UsageError, match=r"no peak of float32, float16 measured; peaks of: none"):
        chart(table, Peaks([(1.0, 4e12)]))


def test_a_point_is_held_against_the_roof_of_its_dtype_and_against_its_memory() -> None:
    """Tensor cores in fp16 are far above fp32's roof, and right all the same; an fp32 step there is wrong."""
    spots = {
        "low": (50.0, 6e13, "float32"),
        "high": (50.0, 1e14, "float32"),
        "higher": (50.0, 2e14, "float32"),
        "half": (50.0, 1e14, "float16"),
    }
    figure = chart(rows(**spots))
    thin = format.THIN
    assert figure.warnings == (
        f"Above the bound of 61.0{thin}TFLOP/s: high 100{thin}TFLOP/s, higher 200{thin}TFLOP/s: the peaks, the work or the"
        " working set are wrong.",
    )
    assert [line.get_xydata()[0][1] for line in marker(figure, COLOURS["failed"])] == [
        pytest.approx(1e14),
        pytest.approx(2e14),
    ]
    far = chart(rows(low=(1.0, 4.1e12, "float32")))
    assert far.warnings, "memory at this size delivers 4 TB/s"
    assert not chart(rows(low=(1.0, 4.1e12, "float32")), working_set=SMALL).warnings, "its caches more"


@settings(max_examples=50)
@given(st.floats(-3, 5), st.sampled_from(list(FLOPS)), st.floats(0.01, 1.0099) | st.floats(1.0101, 100))
def test_only_a_point_well_above_its_roof_warns_with_two_numbers_that_differ(
    log: float, dtype: str, share: float
) -> None:
    from roofbook.analysis.readings import newest
    from roofbook.report.roofs import _spot, _warnings

    x = 10**log
    roof = min(FLOPS[dtype], x * 4e12)
    spot = _spot(newest(rows(a=(x, share * roof, dtype)))["a"], None)
    (warned,) = _warnings({"a": spot}, FLOPS, 4e12, 4e12).values() or [""]
    assert bool(warned) == (share > 1.01)
    if warned:
        bound, reached = re.findall(r"([\d.\u202f]+\u202f[PTGMk]?(?:FL)?OP/s)", warned)
        assert bound != reached, "a warning that shows one number twice says nothing"


def test_bytes_counted_are_a_hollow_marker_at_the_same_height() -> None:
    table = rows(a=(10.0, 1e13, "float32"), b=(10.0, 2e13, "float32"), c=(10.0, 3e13, "float32"))
    figure = chart(table, counted_bytes={"a": WORK / 4, "b": WORK / 40, "c": 0.0, "unknown": 1.0})
    spots = [line.get_xydata()[0].tolist() for line in marker(figure)]
    assert spots[:3] == [pytest.approx([10, 1e13]), pytest.approx([10, 2e13]), pytest.approx([10, 3e13])]
    assert spots[3:] == [pytest.approx([4, 1e13]), pytest.approx([40, 2e13])], "0 bytes have no place on the axis"
    ties = [line.get_xydata().tolist() for line in axes(figure).lines if line.get_linewidth() == 0.8]
    assert [[10, 1e13], [4, 1e13]] in [[pytest.approx(end) for end in tie] for tie in ties]
    assert list(legend(figure)) == ["bytes modelled", "bytes counted"]
    assert [line.get_markerfacecolor() == "none" for line in legend(figure).values()] == [False, True]
    assert any(
        note.startswith("Hollow: the same variant by the bytes that hardware counters saw") for note in figure.notes
    )
    plain = chart(table)
    assert not legend(plain) and not any("Hollow" in note for note in plain.notes)
    left, right = axes(figure).get_xlim()
    assert left < 4 and right > 40 and not figure.warnings


def test_more_bytes_counted_than_memory_can_move_are_a_warning() -> None:
    table = rows(a=(10.0, 3e13, "float32"))
    for small in (LARGE, SMALL):  # whatever level holds the case: counters look at the device's memory
        (warning,) = chart(table, counted_bytes={"a": WORK / 7}, working_set=small).warnings
        assert warning.startswith("Above the bound of 28.0") and "by the bytes counted: a 30.0" in warning
    assert not chart(table, counted_bytes={"a": WORK / 8}).warnings


@pytest.mark.parametrize("count", [-1.0, math.nan, math.inf])
def test_a_count_that_is_none_is_refused(count: float) -> None:
    with pytest.raises(UsageError, match=r"a: \S+ bytes counted; a finite number of at least 0 is needed"):
        chart(rows(a=(10.0, 3e13, "float32")), counted_bytes={"a": count})


def test_a_variant_that_moves_more_lies_further_left() -> None:
    figure = chart(rows(lean=(2.0, 1e12, "float32"), heavy=(1.0, 1e12, "float32")))
    places = [point.get_xydata()[0].tolist() for point in points(figure)]
    assert places[0] == pytest.approx([2 * places[1][0], places[1][1]])
    assert "More modelled traffic moves a point left" in figure.notes[0]


def test_a_name_longer_than_the_figure_leaves_room_for_the_rest() -> None:
    ax = axes(chart(rows(**{"long" * 20: (10.0, 1e13, "float32")})))
    (label,) = (text for text in ax.texts if text.get_text().startswith("float32: "))
    assert label.get_window_extent().x0 > ax.get_window_extent().x0


def test_rows_from_another_device_are_named_not_drawn() -> None:
    table = rows(a=(1.0, 1e12, "float32"), b=(1.0, 2e12, "float32"), c=(1.0, 3e12, "float32"))
    table.loc[0, "device"] = "cpu"
    figure = chart(table)
    assert len(points(figure)) == 2 and figure.notes[-1] == "Measured on another device, so not drawn: a."


def test_names_on_the_roofline_keep_their_distance() -> None:
    places = spread_apart([0.0, 0.01, 0.02, 1.0], 0.1, -1.0, 2.0)
    assert all(b - a >= 0.1 - 1e-12 for a, b in pairwise(places))
    assert places[1] == pytest.approx(0.01) and places[3] == 1.0
    assert max(spread_apart([0.9, 0.95], 0.1, 0.0, 1.0)) <= 1.0 and min(spread_apart([-5.0, 3.0], 0.1, 0.0, 4.0)) >= 0.0


@settings(max_examples=6)
@given(
    st.lists(st.tuples(st.floats(-2, 4), st.floats(0.001, 1.2), st.integers(0, 4)), min_size=1, max_size=25),
    st.floats(0.01, 100),
    st.sampled_from([PEAKS, HOST]),
    st.sampled_from([LARGE, SMALL]),
)
@example([(-1.0, 0.9 + 0.001 * at, 0) for at in range(25)], 1.0, PEAKS, LARGE)
@example([(0.5, 0.2 + 0.04 * at, at) for at in range(25)], 2.0, HOST, SMALL)
@example([(2.0, 1.1, at) for at in range(5)], 0.5, PEAKS, SMALL)
@example([(3.9, 0.5, at) for at in range(5)], 1.0, PEAKS, LARGE)
def test_no_words_lie_over_others_or_over_a_roof(
    drawn: list[tuple[float, float, int]], counted: float, peaks: Peaks, working_set: float
) -> None:
    """Wherever the points lie: every name and every roof's label inside the axes, clear of each other and of the roofs."""
    bandwidth, dtypes, spots = peaks.bandwidth_for(working_set), list(peaks.flops), {}
    for at, (log, share, which) in enumerate(drawn):
        dtype = dtypes[which % len(dtypes)]
        spots[f"variant-{at}"] = (10**log, share * min(peaks.flops[dtype], 10**log * bandwidth), dtype)
    count = {"variant-0": counted * WORK / spots["variant-0"][0]}
    figure = chart(rows(**spots), peaks, working_set=working_set, counted_bytes=count)
    ax = axes(figure)
    texts = [text for text in ax.texts if text.get_text()]
    names = [text.get_text() for text in texts]
    shown = set(spots) & set(names)
    assert 1 <= len(shown) <= MOST_NAMES if len(spots) > MOST_NAMES else shown == set(spots)
    labelled = {name.split(":")[0] for name in names if ":" in name}
    assert labelled == {dtype for *_, dtype in spots.values()} and len(flats(figure)) == len(labelled)
    boxes = {text.get_text(): text.get_window_extent() for text in texts}
    frame = ax.get_window_extent()
    for name, box in boxes.items():
        assert frame.x0 - 1 <= box.x0 and box.x1 <= frame.x1 + 1, f"{name} leaves the axes"
        assert frame.y0 - 1 <= box.y0 and box.y1 <= frame.y1 + 1, f"{name} leaves the axes"
    for (first_name, first), (second_name, second) in combinations(boxes.items(), 2):
        clear = first.x1 <= second.x0 + 1 or second.x1 <= first.x0 + 1
        assert clear or first.y1 <= second.y0 + 3 or second.y1 <= first.y0 + 3, f"{first_name} lies over {second_name}"
    for line in (line for line in ax.lines if line.get_linewidth() > 1 and len(line.get_xydata()) == 2):
        start, end = line.get_xydata()
        for x, y in ax.transData.transform(np.geomspace(start, end, 300)):
            through = [name for name, box in boxes.items() if box.x0 < x < box.x1 and box.y0 + 1 < y < box.y1 - 1]
            assert not through, f"a diagonal or a roof runs through {through}"
