"""The report: what its tables may say, and that its figures fit any page. The rows are synthetic."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofbook import report
from roofbook.device import Span
from roofbook.errors import UsageError
from roofbook.lab import Series
from roofbook.report import svg, units
from roofbook.report.readings import Ratio, newest
from roofbook.report.series import cross
from roofbook.report.timeline import MOST, hidden
from roofbook.roofline import Bound, Peaks
from roofbook.store import State

STARTED = pd.Timestamp("2026-01-01T10:00:00Z")


def row(variant: str, seconds: float, parent: str | None = None, **other: Any) -> dict[str, Any]:
    """A verified row of 20 samples of 100 steps around `seconds` per step; noise is shared by all rows of a round."""
    count = other.pop("n", 20)
    run = other.pop("run", "20260101T100000Z-aaaaaa")
    drift = 1 + 0.05 * np.sin(np.arange(count)) + 0.002 * np.cos(7.0 * np.arange(count) + len(variant))
    made = {
        "run": run, "started": STARTED, "lab": "lbm", "variant": variant, "case": "256x256", "parent": parent,
        "scale": "quick", "role": "step", "axis": None, "point": None, "dtype": "float32", "device": "some-gpu",
        "device_name": "Some GPU", "device_kind": "gpu", "backend": "opencl", "policy": "{}", "timed": "loop",
        "unit": "step", "units": 100, "status": "ok", "reason": None, "samples_s": (100 * seconds * drift).tolist(),
        "rounds": list(range(count)), "flops": 6.5e6, "bytes": 4.7e6, "error": 1e-7, "bound": 1e-6, "extra": "{}",
        "provenance": "{}",
    }  # fmt: skip
    return made | other


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


ORDER = ["sequential", "port", "fused", "soa", "texture", "peer"]


def lab_rows() -> pd.DataFrame:
    return frame(
        row("sequential", 4.2e-3, device="some-cpu", device_name="Some CPU", backend="opencl"),
        row("port", 1.8e-4, "sequential"),
        row("port-again", 1.8e-4, "port", role="again"),
        row("fused", 1.1e-4, "port"),
        row("soa", 2.4e-5, "fused", status="failed", reason="wrong result: max error 3 > 1e-6"),
        row("peer", 3.1e-5, None, role="peer"),
    )


def line(table: report.Table, name: str) -> str:
    """The HTML of one line of a table."""
    found = re.search(rf'<tr[^>]*><th scope="row"[^>]*>{re.escape(name)}[ <].*?</tr>', table.html, re.DOTALL)
    assert found, name
    return found[0]


def test_ladder_says_what_it_must() -> None:
    bound = {"float32": Bound(2e-5, "memory", 4.26e12)}
    table = report.ladder(
        lab_rows(), ORDER, case="256x256", bound=bound, rate=(0.065536, "MLUPS"), elsewhere=["texture"],
        changes={"fused": "three kernels in one"},
    )  # fmt: skip
    assert "three kernels in one" in line(table, "fused")
    assert "not on this device" in line(table, "texture")
    why = {"texture": "needs a side that is a power of two"}
    assert why["texture"] in line(report.ladder(lab_rows(), ORDER, case="256x256", elsewhere=why), "texture")
    assert "control" in line(table, "port-again") and "same" in line(table, "port-again")
    assert "Some CPU" in line(table, "sequential") and "base" in line(table, "sequential")
    assert "across devices" in line(table, "port")
    frame_ = table.frame.set_index("variant")
    assert frame_.loc["fused", "vs_parent"] == pytest.approx(180 / 110, rel=0.01)
    assert frame_.loc["fused", "share"] == pytest.approx(20 / 110, rel=0.06)
    assert frame_.loc["fused", "rate"] == pytest.approx(0.065536 / 1.1e-4, rel=0.06)
    assert "best" in line(table, "peer")
    assert "Bound per step: float32 20.0\u2009\u00b5s, by memory (4.26\u2009TB/s)." in table.notes


def test_an_a_a_twin_of_the_same_name_is_held_against_its_variant() -> None:
    rows = frame(row("a", 1e-3), row("b", 5e-4, "a"), row("b", 5e-4, "a", role="again"))
    table = report.ladder(rows, ["a", "b"], case="256x256", base="a")
    assert table.frame.variant.tolist() == ["a", "b", "b (again)"]
    assert "same" in line(table, "b (again)") and "faster" in line(table, "b")


def test_failed_and_unverified_rows_never_show_a_number() -> None:
    nan = float("nan")
    rows = frame(
        row("a", 1e-3), row("b", 7.77e-4, "a", status="failed", reason="out of memory"),
        row("c", 7.77e-4, "b", error=2e-6), row("d", 7.77e-4, "c", error=nan), row("e", 7.77e-4, "d", bound=nan),
    )  # fmt: skip
    table = report.ladder(rows, ["a", "b", "c", "d", "e"], case="256x256", base="a")
    for name, why in [("b", "out of memory"), ("c", "allowed 1e-06"), ("d", "error nan"), ("e", "allowed nan")]:
        assert why in line(table, name) and "failed" in line(table, name)
        assert "777" not in line(table, name) and "\u00b5s" not in line(table, name)
    numbers = table.frame.set_index("variant")[["seconds", "low", "high", "vs_parent", "vs_base", "share", "error"]]
    assert numbers.loc[["b", "c", "d", "e"]].isna().all(axis=None)
    assert "777" not in table.text
    assert "out of memory" in report.failed(rows).html and len(report.failed(rows).frame) == 4
    chart = report.ladder_chart(rows, ["a", "b", "c"], case="256x256", base="a").svg
    assert "out of memory" in chart and "777" not in chart


def test_a_probe_that_computes_nothing_has_nothing_to_check() -> None:
    rows = frame(row("a", 1e-3), row("empty", 5e-4, "a", role="probe", error=math.nan, bound=math.nan))
    table = report.ladder(rows, ["a", "empty"], case="256x256", base="a")
    assert "nothing to check" in line(table, "empty") and table.frame.seconds.notna().all()


def test_the_newest_row_counts_even_when_it_failed() -> None:
    later = STARTED + pd.Timedelta(hours=1)
    rows = frame(row("a", 1e-3, started=later, status="failed", reason="build error"), row("a", 1e-3))
    assert newest(rows, "256x256")["a"].why == "build error"


def test_ratio_above_one_is_faster_and_pairs_rounds() -> None:
    """The drift of 5 % is common to both rows of a round: only pairing makes 1 % visible."""
    side_by_side = frame(row("slow", 1.01e-3), row("fast", 1e-3, "slow"))
    table = report.ladder(side_by_side, ["slow", "fast"], case="256x256", base="slow")
    (ratio,) = table.frame[table.frame.variant == "fast"].to_dict("records")
    assert ratio["vs_parent"] == pytest.approx(1.01, rel=0.004) and not ratio["vs_parent_same"]
    assert ratio["vs_parent_how"] == "" and "faster" in line(table, "fast")

    shuffled = frame(row("slow", 1.01e-3), row("fast", 1e-3, "slow", rounds=list(reversed(range(20)))))
    assert report.ladder(shuffled, ["fast"], case="256x256").frame.vs_parent_same[0]

    apart = frame(row("slow", 1.01e-3), row("fast", 1e-3, "slow", run="20260102T100000Z-bbbbbb"))
    table = report.ladder(apart, ["slow", "fast"], case="256x256", base="slow")
    assert "across runs" in line(table, "fast") and "same" in line(table, "fast")


def test_a_ratio_of_rows_timed_otherwise_says_so() -> None:
    rows = frame(row("a", 1e-3), row("b", 1e-4, "a", timed="kernel", policy='{"l2":"cold"}'))
    assert "other policy, other timed" in line(report.ladder(rows, ["a", "b"], case="256x256", base="a"), "b")


def test_same_only_where_the_interval_includes_one() -> None:
    rows = frame(row("a", 1e-3), row("b", 1e-3, "a"), row("c", 1.2e-3, "b"))
    table = report.ladder(rows, ["a", "b", "c"], case="256x256", base="a")
    assert "same" in line(table, "b") and "same" not in line(table, "c") and "slower" in line(table, "c")


@pytest.mark.parametrize("bad", [math.nan, math.inf, 0.0, -1.0])
def test_a_sample_that_is_no_time_is_refused(bad: float) -> None:
    samples = [0.1] * 9 + [bad]
    with pytest.raises(UsageError, match="samples_s"):
        report.ladder(frame(row("a", 1e-3, samples_s=samples)), ["a"], case="256x256")


def test_few_samples_give_a_range_and_the_table_says_so() -> None:
    table = report.ladder(frame(row("a", 1e-3, n=3)), ["a"], case="256x256", base="a")
    assert "n = 3, range" in line(table, "a") and any("fewer than 6" in note for note in table.notes)
    two = report.ladder(frame(row("a", 2e-3, n=2), row("b", 1e-3, "a", n=2)), ["a", "b"], case="256x256", base="a")
    assert "too few" in line(two, "b") and "inf" not in two.html and "\u221e" not in two.html


def test_unknown_case_lists_the_valid_ones() -> None:
    with pytest.raises(UsageError, match="256x256"):
        report.ladder(lab_rows(), ORDER, case="512x512")


def test_an_empty_store_makes_tables_not_errors() -> None:
    empty = pd.DataFrame()
    assert report.ladder(empty, ["a"], case="256x256").frame.status.tolist() == ["missing"]
    assert report.failed(empty).frame.empty and report.states([]).frame.empty
    with pytest.raises(UsageError, match="measure the ladder first"):
        report.ladder_chart(empty, ["a"], case="c")
    with pytest.raises(UsageError, match="measured: none"):
        report.line_sweep(empty, "wg")


def test_rows_read_the_same_after_parquet(tmp_path: Path) -> None:
    rows = lab_rows()
    rows.to_parquet(tmp_path / "rows.parquet")
    again = pd.read_parquet(tmp_path / "rows.parquet")
    assert report.ladder(again, ORDER, case="256x256").html == report.ladder(rows, ORDER, case="256x256").html


def test_html_is_escaped_and_semantic() -> None:
    nasty = '<script>"&'
    rows = frame(row(nasty, 1e-3), row("b", 1e-3, nasty, status="failed", reason="a < b & <img src=x>"))
    for table in (report.ladder(rows, [nasty, "b"], case="256x256", base=nasty), report.failed(rows)):
        assert "<script" not in table.html and "<img" not in table.html and "a &lt; b &amp;" in table.html
        root = ElementTree.fromstring(f"<div>{table.html}</div>")
        region = root.find("div")
        assert region is not None and region.get("role") == "region" and region.get("tabindex") == "0"
        assert root.find(".//caption") is not None
        assert all(cell.get("scope") in ("row", "col") for cell in root.iter("th"))
        width = len(root.findall(".//thead/tr/th"))
        for each in root.findall(".//tbody/tr"):
            assert sum(int(cell.get("colspan", 1)) for cell in each) == width
    chart = report.ladder_chart(rows, [nasty, "b"], case="256x256", base=nasty, title='a "title" <b>')
    ElementTree.fromstring(chart.html)


def test_text_is_aligned() -> None:
    lines = report.ladder(lab_rows(), ORDER, case="256x256").text.splitlines()
    head = next(text for text in lines if text.startswith("Variant"))
    end = head.index("Time per step (\u00b5s)") + len("Time per step (\u00b5s)")
    for name in ("port ", "fused ", "peer "):
        body = next(text for text in lines if text.startswith(name))
        assert body[end - 1] == "]" and body[end] == " "


def sweep_rows() -> pd.DataFrame:
    shapes = {"16x1": 2e-5, "2x8": 5e-5, "16x4": 2e-5, "2x4": 8e-5}
    points = [
        row(f"fused@wg={point}", time, "fused", role="sweep", axis="wg", point=point) for point, time in shapes.items()
    ]
    points[1] |= {"status": "failed", "reason": "work-group too large"}
    return frame(row("fused", 2.2e-5), *points)


def test_sweep_marks_every_point_that_ties_with_the_fastest() -> None:
    table = report.sweep(sweep_rows(), "wg", case="256x256")
    assert list(table.frame.point) == ["2x4", "2x8", "16x1", "16x4"]
    assert [name for name in table.frame.point if '<tr class="best"' in line(table, name)] == ["16x1", "16x4"]
    assert "too large" in line(table, "2x8")
    with pytest.raises(UsageError, match="fused over wg"):
        report.sweep(sweep_rows(), "tile", case="256x256")


def test_sweep_grid_and_heat_map() -> None:
    grid, reasons = report.sweep_grid(sweep_rows(), "wg", case="256x256")
    assert list(grid.index) == ["1", "4", "8"] and list(grid.columns) == ["2", "16"]
    assert math.isnan(grid.loc["8", "2"]) and reasons == {("8", "2"): "work-group too large"}
    figure = report.heat_map(grid, reasons=reasons)
    assert any("work-group too large" in note for note in figure.notes) and any("16 \u00d7" in n for n in figure.notes)
    with pytest.raises(UsageError, match="at least one time"):
        report.heat_map(grid * math.nan)


def shapes(*, columns: int, rows: int) -> pd.DataFrame:
    """A sweep over pairs such as '64x112x1/4x1', all slower than the last of the first column; half of them failed."""
    made = []
    for at in range(columns):
        for down in range(rows):
            point = f"64x112x{at + 1}/4x{down + 1}"
            each = row(f"a@size={point}", 1e-3 * (1 + at + rows - down), "a", role="sweep", axis="size", point=point)
            if at % 2:
                why = f"work-group of {2048 + down} work-items is over the limit of 1024"
                each |= {"status": "failed", "reason": why}
            made.append(each)
    return frame(*made)


def axes(figure: report.Figure) -> Any:
    (only,) = figure.drawing.axes
    return only


def labels(axis: Any) -> list[str]:
    return [label.get_text() for label in axis.get_ticklabels() if label.get_text()]


def test_long_labels_of_a_heat_map_go_down() -> None:
    grid, reasons = report.sweep_grid(shapes(columns=9, rows=3), "size", case="256x256")
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

    three, why = report.sweep_grid(shapes(columns=3, rows=3), "size", case="256x256")
    ax = axes(report.heat_map(three, reasons=why, xlabel="global", ylabel="local"))
    assert labels(ax.xaxis) == list(three.columns) and ax.get_xlabel() == "global", "three fit side by side"


def test_cells_that_are_not_in_the_sweep_stay_empty() -> None:
    rows = shapes(columns=2, rows=6)
    grid, reasons = report.sweep_grid(rows[rows.point != "64x112x2/4x1"], "size", case="256x256")
    figure = report.heat_map(grid, reasons=reasons)
    patches = axes(figure).patches
    assert len(patches) == 6 + 5 + 1 and sum(bool(patch.get_hatch()) for patch in patches) == 5
    assert figure.notes[1].startswith("5 of 11, such as ")


def test_reasons_that_differ_in_numbers_are_one_note() -> None:
    grid, reasons = report.sweep_grid(shapes(columns=9, rows=3), "size", case="256x256")
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

    for numbers, shown in (
        (range(32), [str(at) for at in range(0, 32, 2)]),
        ([1, 2, 4, 8, 16, 32, 64, 100, 128, 256, 512, 1024], [str(2**at) for at in range(11)]),
        ([0, 50, 88, 96, 98], ["0", "50", "88", "96"]),
    ):
        points = [row(f"a@at={at}", 1e-3, "a", role="sweep", axis="at", point=str(at)) for at in numbers]
        figure = report.line_sweep(frame(*points), "at")
        ax = axes(figure)
        assert labels(ax.xaxis) == shown
        renderer = FigureCanvasAgg(figure.drawing).get_renderer()
        boxes = [label.get_window_extent(renderer) for label in ax.xaxis.get_ticklabels() if label.get_text()]
        assert all(one.x1 < other.x0 for one, other in pairwise(boxes))
        assert len(ax.get_xticks()) + len(ax.get_xticks(minor=True)) == len(points), "a tick for every point"


def test_failed_points_of_a_line_share_a_note() -> None:
    points = [row(f"a@at={at}", 1e-3, "a", role="sweep", axis="at", point=str(at)) for at in range(32)]
    for each in points[1:]:
        each |= {"status": "failed", "reason": f"wrong result: error {each['point']}e-3, allowed 1e-06"}
    figure = report.line_sweep(frame(*points), "at")
    assert figure.notes[1:] == ("31 of 32, such as 256x256, at = 1: wrong result: error 1e-3, allowed 1e-06",)


def test_a_line_for_each_case_or_each_axis() -> None:
    rows = [row(f"a@{axis}={at}", at * 1e-6, "a", role="sweep", axis=axis, point=str(at), case=case)
            for axis in ("buffers", "integers") for at in (1, 4, 16) for case in ("one", "two")]  # fmt: skip
    by_case = report.line_sweep(frame(*rows), "buffers").svg
    assert ">one<" in by_case and ">two<" in by_case and ">buffers<" in by_case
    by_axis = report.line_sweep(frame(*rows), ["buffers", "integers"], case="one", xlabel="arguments").svg
    assert ">buffers<" in by_axis and ">integers<" in by_axis and ">arguments<" in by_axis


def test_leave_one_out_gives_the_worth_of_each_optimisation() -> None:
    rows = frame(row("best", 1e-4), row("best-no-soa", 5e-4, "best"), row("best-no-bits", 1e-4, "best"))
    table = report.leave_one_out(
        rows, {"SoA": "best-no-soa", "bits": "best-no-bits", "lists": "none"}, case="256x256", best="best"
    )
    assert table.frame.set_index("optimisation").loc["SoA", "worth"] == pytest.approx(5, rel=0.01)
    assert "same" in line(table, "bits") and "not measured" in line(table, "lists")


def test_published_beside_ours_marks_totals_as_extrapolated() -> None:
    published = pd.DataFrame(
        [
            {"table": "4", "variant": "fused kernels", "case": "256x256", "device": "Old GPU", "metric": metric,
             "unit": unit, "trial": "", "value": value, "seconds": seconds}
            for metric, unit, value, seconds in [("time", "s", 8.8, 8.8), ("speedup", "x", 1.75, math.nan),
                                                 ("rate", "GB/s", 443.0, math.nan)]
        ]
    )  # fmt: skip
    table = report.published_beside_ours(
        published, lab_rows(), {"fused kernels": "fused"}, units={"256x256": 80000}, source="a report"
    )
    time, speedup, rate = table.frame.to_dict("records")
    assert time["ours"] == pytest.approx(8.8, rel=0.06) and time["extrapolated"]
    assert (
        "extrapolated from 100 x step)" in table.html
        and "8.8\u2009s" in table.html
        and "443\u2009GB/s" in table.html
        and "Published: a report." in table.html
    )
    assert speedup["ours"] == pytest.approx(180 / 110, rel=0.01) and rate["status"] == "missing"
    exact = report.published_beside_ours(published, lab_rows(), {"fused kernels": "fused"}, units={"256x256": 100})
    assert "extrapolated" not in exact.html
    other = report.published_beside_ours(published, lab_rows(), {"fused kernels": "soa"})
    assert set(other.frame.status) == {"failed"} and "wrong result" in other.html


def test_a_published_rate_stands_beside_ours_in_the_same_unit_only() -> None:
    published = pd.DataFrame(
        [
            {"table": "1", "variant": variant, "case": "256x256", "device": "Old GPU", "metric": "rate", "unit": unit,
             "trial": "", "value": 2250.0, "seconds": math.nan}
            for variant, unit in [("fused", "GFLOP/s"), ("fused", "GB/s"), ("soa", "GFLOP/s"), ("none", "GFLOP/s")]
        ]
    )  # fmt: skip
    rows = lab_rows().assign(extra='{"rate_amount": 0.22, "rate_unit": "GFLOP/s"}')
    table = report.published_beside_ours(published, rows, {"fused": "fused", "soa": "soa"}, units={"256x256": 80000})
    ours = table.frame.iloc[0]
    assert table.frame.status.tolist() == ["ok", "missing", "failed", "missing"]
    assert ours.ours == pytest.approx(0.22 / 1.1e-4, rel=0.06) and ours.ours_low < ours.ours < ours.ours_high
    assert "\u2009GFLOP/s" in table.rows[0].cells[4].text and table.rows[0].cells[5].text == "–"
    assert "extrapolated" not in table.html, "a rate covers no number of steps"


def test_each_row_is_held_against_the_bound_of_its_own_dtype() -> None:
    """Tensor cores in fp16 would be far above fp32's roof, and right all the same; an fp32 rung there would be wrong."""
    rows = lab_rows().assign(
        dtype=lambda all: all["variant"].map({"fused": "float16", "peer": "int8"}).fillna("float32")
    )
    floors = {"float32": Bound(1.5e-4, "float32", 1e12, 6e13), "float16": Bound(1.1e-5, "float16", 1e12, 8e14)}
    table = report.ladder(rows, ["port", "fused", "peer"], case="256x256", bound=floors)
    shares = table.frame.set_index("variant").share
    assert shares["port"] == pytest.approx(150 / 180, rel=0.06) and shares["fused"] == pytest.approx(0.1, rel=0.06)
    assert math.isnan(shares["peer"]) and "it multiplies int8, whose roof was not measured" in line(table, "peer")
    assert table.notes[-2:] == [
        "Bound per step: float32 150\u2009\u00b5s, by arithmetic (60.0\u2009TFLOP/s); "
        "float16 11.0\u2009\u00b5s, by arithmetic (800\u2009TFLOP/s).",
        "No bound, for its roof was not measured: int8.",
    ]
    plain = report.ladder(lab_rows(), ["port", "fused"], case="256x256", bound=floors)
    assert "(above)" in line(plain, "fused") and "(above)" not in table.html
    assert "Of the bound" not in report.ladder(rows, ["port"], case="256x256").html


def test_trials_of_one_measurement_share_a_row_and_ours_is_held_against_their_median() -> None:
    published = pd.DataFrame(
        [
            {"table": "1", "variant": "best", "case": "256x256", "device": "Old GPU", "metric": "time", "unit": "s",
             "trial": trial, "value": value, "seconds": value}
            for trial, value in (("1", 9.0), ("2", 1.0), ("3", 2.0), ("", 5.0), ("", 6.0))
        ]
    )  # fmt: skip
    table = report.published_beside_ours(published, lab_rows(), {"best": "fused"}, units={"256x256": 1})
    said = [row.cells[3].text for row in table.rows]
    assert said == ["9, 1, 2\u2009s", "5\u2009s", "6\u2009s"] and table.rows[0].cells[2].text == "time, 3 trials"
    assert table.frame["value"].tolist() == [9, 1, 2, 5, 6], "no figure is lost"
    first = table.frame.iloc[0]
    assert first.published_over_ours == pytest.approx(2.0 / first.ours)


def test_a_published_device_may_have_run_something_else() -> None:
    """A report may print its sequential program's time beside each run: that row is held against our sequential one."""
    published = pd.DataFrame(
        [
            {"table": "1", "variant": "best", "case": "square", "device": device, "metric": "time", "unit": "s",
             "trial": "", "value": value, "seconds": value} for device, value in (("Old GPU", 0.2), ("host CPU", 24.0))
        ]
    )  # fmt: skip
    mapping = {"best": "fused", ("best", "host CPU"): "sequential", ("best", "Other GPU"): "port"}
    table = report.published_beside_ours(
        published, lab_rows(), mapping, cases={"square": "256x256"}, units={"256x256": 200}
    )
    assert table.frame.our_variant.tolist() == ["fused", "sequential"]
    assert table.frame.ours.tolist() == pytest.approx([200 * 1.1e-4, 200 * 4.2e-3], rel=0.06)
    assert table.frame.extrapolated.tolist() == [True, True]
    assert table.frame.our_device.tolist() == ["Some GPU", "Some CPU"]
    elsewhere = report.published_beside_ours(published, lab_rows(), {("best", "Other GPU"): "port"})
    assert elsewhere.frame.status.tolist() == ["missing", "missing"]


def test_states_and_card() -> None:
    cell = {"lab": "lbm", "variant": "a", "case": "c", "backend": "opencl", "device": "d"}
    table = report.states([cell | State("stale-code", "source changed")._asdict()])
    assert "state stale-code" in table.html and "source changed" in table.html and "1 stale-code" in table.notes[0]
    environment = {"device": {"device": "Some GPU", "driver": "1.2"}, "libraries": {"numpy": "2", "cupy": "13"}}
    git = {"commit": "0123456789abcdef", "dirty": True}
    provenance = {"environment": environment, "cpu": "Some CPU", "governor": None, "memory_bytes": 64e9, "git": git}
    facts = report.card(json.dumps(provenance), {"device": "auto", "scale": "quick", "remeasure": False}).frame
    assert dict(zip(facts.fact, facts.value, strict=True)) == {
        "device": "auto", "scale": "quick", "remeasure": "no", "driver": "1.2", "libraries": "numpy 2, cupy 13",
        "cpu": "Some CPU", "memory": "64.0\u2009GB", "commit": "0123456789ab with uncommitted changes",
    }  # fmt: skip


def even(variant: str, seconds: float, parent: str | None = None, **other: Any) -> dict[str, Any]:
    """A row of 20 samples that are all alike."""
    return row(variant, seconds, parent, samples_s=[100 * seconds] * 20, **other)


COPY = Peaks([(2**20, 9e12), (2**23, 8.7e12), (2**27, 4e12), (2**15, 90e12)], {"float32": 6e13})
RUNGS = ["cpu", "plain", "wide", "cached", "broken", "idle", "elsewhere", "missing", "library"]


def bandwidth_rows() -> pd.DataFrame:
    return frame(
        even("cpu", 1.0, bytes=2e9, device="some-cpu"),
        even("plain", 1e-3, "cpu", bytes=2e9),
        even("wide", 1e-3, "plain", bytes=3e9),
        row("cached", 1e-3, "wide", bytes=6e9),
        even("broken", 1e-3, "wide", status="failed", reason="wrong result: error 7.77, allowed 1"),
        even("idle", 1e-3, "wide", bytes=0.0),
        even("library", 1e-3, None, role="peer", bytes=4e9),
    )


def bandwidths(**other: Any) -> report.Figure:
    given: dict[str, Any] = {
        "case": "256x256",
        "working_set": 1e9,
        "order": RUNGS,
        "elsewhere": {"elsewhere": "no fp64"},
    }
    return report.bandwidth_chart(bandwidth_rows(), COPY, **given | other)


def test_bandwidth_is_the_variant_s_bytes_over_its_time_against_the_fastest_stream_of_this_size() -> None:
    thin, cached = units.THIN, newest(bandwidth_rows())["cached"]
    figure = bandwidths()
    ax = axes(figure)
    assert [patch.get_width() for patch in ax.patches] == pytest.approx([2000, 3000, 6 / cached.median, 4000])
    words = [text.get_text() for text in ax.texts]
    assert [each for each in words if each and "failed" not in each] == [
        "plain", f"2{thin}000{thin}GB/s \u00b7 50.0{thin}%", "wide", f"3{thin}000{thin}GB/s \u00b7 75.0{thin}%",
        "cached", f"{units.number(6 / cached.median)}{thin}GB/s \u00b7 {units.percent(6 / cached.median / 4000)}",
        "broken", "library", f"4{thin}000{thin}GB/s \u00b7 100{thin}%", f"fastest stream at this size: 4{thin}000{thin}GB/s",
    ]  # fmt: skip
    whiskers = [each for each in ax.containers if hasattr(each, "has_xerr")][2]
    assert [cap.get_xdata()[0] for cap in whiskers[1]] == pytest.approx([6 / cached.high, 6 / cached.low])
    (strong,) = (lines for lines in ax.collections if lines.get_linewidth() == 2.2)
    assert [segment[0][0] for segment in strong.get_segments()] == [4000] * 4, "beside each bar, none by a failure"
    assert f">stream up to 8{thin}MiB: 9{thin}000{thin}GB/s<" in figure.svg
    ax = axes(bandwidths(working_set=2**22))
    assert f"2{thin}000{thin}GB/s \u00b7 23.0{thin}%" in [text.get_text() for text in ax.texts]


def test_bandwidth_chart_says_what_it_leaves_out_and_what_a_bar_over_the_line_means() -> None:
    notes = bandwidths().notes
    assert "modelled, not counted" in notes[0]
    assert "over that line (here cached) means that a cache served" in notes[1] and "not the fastest" in notes[1]
    assert notes[2:] == (
        "Streams beyond the axis: up to 32\u2009KiB 90\u2009000\u2009GB/s.",
        "Measured on another device, so not drawn: cpu.",
        "Moves no bytes by its model, so not drawn: idle.",
        "No fp64 (elsewhere).",
        "Not measured: missing.",
    )
    assert "failed: wrong result: error 7.77" in bandwidths().svg and "777" not in bandwidths().svg
    assert "(here" not in bandwidths(order=["plain", "library"]).notes[1], "at the line is not over it"
    with pytest.raises(UsageError, match="no variant of broken, idle has a verified time and bytes on 256x256"):
        bandwidths(order=["broken", "idle"])


def told(variant: str, seconds: float = 1e-3, *, facts: dict[str, Any], **other: Any) -> dict[str, Any]:
    """A row that tells facts of its run."""
    return row(variant, seconds, extra=json.dumps(facts), **other)


def part_rows() -> pd.DataFrame:
    whole = {"op 1": [0.2] * 10 + [0.4] * 11, "copy": [0.0] * 21}
    return frame(
        told("plain", facts={"parts": whole, "accuracy": 0.88614, "images": 12000, "data": "fashion"}),
        told("short", facts={"parts": {"op 1": [0.3]}, "accuracy": 0.9}),
        told("wrong", facts={"parts": whole, "accuracy": 0.77}, error=2e-6),
    )


def test_parts_are_medians_per_unit_in_one_unit() -> None:
    order = ["plain", "short", "wrong", "absent", "elsewhere"]
    table = report.parts(
        part_rows(), order, case="256x256", parts=["op 1", "copy"],
        facts={"accuracy": "Accuracy", "images": "Images", "data": "Data"}, elsewhere=["elsewhere"],
    )  # fmt: skip
    assert [column.text for column in table.columns] == [
        "Variant", "op 1 (ms)", "copy (ms)", "Accuracy", "Images", "Data"
    ]  # fmt: skip
    said = {line.cells[0].text: line.cells for line in table.rows}
    thin = units.THIN
    assert [cell.text for cell in said["plain"]] == ["plain", "4.00", "0.00", "0.8861", f"12{thin}000", "fashion"]
    assert (
        said["plain"][1].title == "95 % interval [2.00, 4.00]" and said["short"][1].title == "n = 1, range [3.00, 3.00]"
    )
    assert [cell.text for cell in said["short"]] == ["short", "3.00", "–", "0.9000", "–", "–"]
    assert said["short"][2].title == "short has no such part" and said["short"][4].title == "short does not tell"
    assert "not verified" in said["wrong"][1].text and "0.77" not in table.html
    assert [said[name][1].text for name in ("absent", "elsewhere")] == ["not measured", "not on this device"]
    assert table.frame.loc[:1, "op 1"].tolist() == pytest.approx([4e-3, 3e-3])
    assert table.frame.loc[2:, ["op 1", "copy", "accuracy"]].isna().all(axis=None)
    assert table.frame.status.tolist() == ["ok", "ok", "failed", "missing", "missing"]
    unverified = newest(part_rows())["wrong"]
    assert not unverified.parts and not unverified.facts


@pytest.mark.parametrize("bad", [[], [0.1, math.nan], [-0.1], [math.inf]])
def test_a_part_that_is_no_time_is_refused(bad: list[float]) -> None:
    rows = frame(told("plain", facts={"parts": {"copy": bad}}))
    with pytest.raises(UsageError, match=r"plain on 256x256: part 'copy' holds \["):
        report.parts(rows, ["plain"], case="256x256", parts=["copy"])
    with pytest.raises(UsageError, match="no parts to show"):
        report.parts(rows, ["plain"], case="256x256", parts=[])


def test_resources_have_the_columns_that_some_variant_tells() -> None:
    cuda = {"group": "32x8", "groups": 51200, "registers": 37, "local_bytes": 2050, "spill_bytes": 0, "occupancy": 0.75}
    rows = frame(
        told("port", facts=cuda | {"groups_by_registers": 6}, backend="cuda"),
        told("host", facts={"private_bytes": 12, "local_bytes": 4}, device="cpu", device_name="Some CPU"),
        told("wrong", facts=cuda, error=2e-6),
        row("library", 1e-3, backend="cuda"),
    )
    table = report.resources(rows, ["port", "host", "wrong", "library"], case="256x256")
    assert [column.text for column in table.columns] == [
        "Variant", "Group", "Groups", "Registers", "Local memory (B)", "Spilled (B)", "Private memory (B)",
        "Groups by registers", "Occupancy",
    ]  # fmt: skip
    said = {line.cells[0].text: [cell.text for cell in line.cells[1:]] for line in table.rows}
    thin = units.THIN
    assert said["port"] == ["32x8", f"51{thin}200", "37", f"2{thin}050", "0", "–", "6", f"75.0{thin}%"]
    assert said["host"] == ["–", "–", "–", "4", "–", "12", "–", "–"] and "on Some CPU" in line(table, "host")
    assert said["library"] == ["–"] * 8 and said["wrong"] == ["failed: not verified: error 2e-06, allowed 1e-06"]
    assert [note.split(":")[0] for note in table.notes[1:]] == ["CUDA", "OpenCL"]
    assert table.frame.registers.tolist()[0] == 37 and table.frame.registers[1:].isna().all()
    only = report.resources(rows, ["host"], case="256x256")
    assert [note.split(":")[0] for note in only.notes[1:]] == ["OpenCL"] and len(only.columns) == 3
    with pytest.raises(UsageError, match="no verified variant on 256x256 tells what its kernel takes"):
        report.resources(rows, ["wrong", "library"], case="256x256")


def spans(queues: int, rounds: int, length: float = 1e-3) -> list[list[Any]]:
    """Rounds of copy, kernel, copy on queues in turn; on several, each kind waits for its engine alone."""
    free: dict[Any, float] = {}
    made: list[list[Any]] = []
    for at in range(rounds):
        queue = at % queues
        for what in ("to device", "kernel", "to host"):
            start = max(free.get(queue, 0.0), free.get(what, 0.0))
            free[queue] = free[what] = start + length
            made.append([queue, what, start, start + length])
    return made


def traced_rows(rounds: int = 10) -> pd.DataFrame:
    return frame(
        told("streams", facts={"timeline": spans(3, rounds)}),
        told("serial", facts={"timeline": spans(1, rounds)}),
        row("plain", 1e-3),
        told("wrong", facts={"timeline": spans(1, 2)}, error=2e-6),
    )


def bars(figure: report.Figure) -> dict[tuple[float, str], list[tuple[float, float]]]:
    """(height in the figure, colour) -> the bars there, start and end in ms."""
    from matplotlib.colors import to_hex

    found = {}
    for patch in axes(figure).patches:
        ends = patch.get_path().vertices
        key = round(float(ends[0, 1]), 6), to_hex(patch.get_edgecolor())
        found[key] = list(zip(ends[0::2, 0].tolist(), ends[1::2, 0].tolist(), strict=True))
    return found


def test_a_timeline_has_a_lane_for_each_queue_on_one_axis() -> None:
    figure = report.timeline(traced_rows(), ["serial", "streams"], case="256x256")
    kernels = [each for (_, colour), each in sorted(bars(figure).items()) if colour == svg.COLOURS["step"]]
    assert [len(each) for each in kernels] == [10, 4, 3, 3]
    assert kernels[0][:2] == [pytest.approx((1, 2)), pytest.approx((4, 5))]
    assert [each[0] for each in kernels[1:]] == [pytest.approx((at, at + 1)) for at in (1, 2, 3)]
    assert len(bars(figure)) == 3 * 4 and axes(figure).get_xlim() == pytest.approx((0, 30))
    words = [text.get_text() for text in axes(figure).texts]
    lanes = ["queue 0", "queue 1", "queue 2"]
    assert [each for each in words if each.startswith("queue")] == ["queue 0", *lanes]
    thin = units.THIN
    assert words[:2] == ["serial", f"30.0{thin}ms \u00b7 kernels during 0.00{thin}% of the copying"]
    assert "12.0" in words[4] and words[3] == "streams"
    assert [text.get_text() for text in axes(figure).get_legend().get_texts()][1] == "kernel"


def test_a_timeline_says_what_it_leaves_out() -> None:
    asked = ["streams", "plain", "wrong", "absent", "elsewhere"]
    figure = report.timeline(traced_rows(), asked, case="256x256", elsewhere=["elsewhere"])
    assert figure.notes[1:] == (
        "Tells no timeline: plain.",
        "wrong failed: not verified: error 2e-06, allowed 1e-06.",
        "Not on this device (elsewhere).",
        "Not measured: absent.",
    )
    with pytest.raises(UsageError, match="no verified run of plain, wrong on 256x256 tells a timeline"):
        report.timeline(traced_rows(), ["plain", "wrong"], case="256x256")


def test_of_a_long_run_the_beginning_is_drawn_and_said() -> None:
    figure = report.timeline(traced_rows(500), ["serial", "streams"], case="256x256")
    drawn = bars(figure)
    assert len(figure.svg) < 150_000 and sum(map(len, drawn.values())) <= 2 * MOST
    streams = sorted(start for start, *_ in (span[2:] for span in spans(3, 500)))
    assert axes(figure).get_xlim()[1] == pytest.approx(1e3 * streams[MOST])
    assert figure.notes[1].startswith("Drawn are the first ") and "serial and streams went on" in figure.notes[1]
    assert f"1.50{units.THIN}s" in [text.get_text() for text in axes(figure).texts][1], "the whole run's time"
    assert "Drawn" not in " ".join(report.timeline(traced_rows(), ["serial"], case="256x256").notes)


@pytest.mark.parametrize(
    "bad", [[0, "memset", 0, 1], [0, "kernel", 2, 1], [0, "kernel", -1, 1], [0, "kernel", 0, math.inf]]
)
def test_a_span_that_is_none_is_refused(bad: list[Any]) -> None:
    with pytest.raises(
        UsageError, match=r"odd on 256x256: timeline holds \[0, '.*what one of to device, kernel, to host"
    ):
        report.timeline(frame(told("odd", facts={"timeline": [bad]})), ["odd"], case="256x256")


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["to device", "kernel", "to host"]), st.integers(0, 20),
                          st.integers(0, 9)), max_size=9))  # fmt: skip
def test_hidden_copies_are_those_with_a_kernel_at_the_same_time(made: list[tuple[int, str, int, int]]) -> None:
    listed = [Span(queue, what, start, start + length) for queue, what, start, length in made]
    ticks = [{span.what for span in listed if span.start <= at < span.end} for at in range(30)]
    copying = [now for now in ticks if now - {"kernel"}]
    share = sum("kernel" in now for now in copying) / len(copying) if copying else math.nan
    assert hidden(listed) == pytest.approx(share, nan_ok=True)


ZEROS = Series(
    "zeros", "From where on do lists pay?", "zeros, %", ((0, "z0"), (50, "z50"), (80, "z80"), (90, "z90"), (98, "z98")),
    ("dense", "lists", "both"), (("lists", "dense"), ("both", "dense"), ("dense", "lists"), ("both", "lists")),
)  # fmt: skip


def series_rows() -> pd.DataFrame:
    """dense is level, lists halve at each point and cross it at x = 65; both is always twice as fast as dense."""
    made = []
    for at, (_, case) in enumerate(ZEROS.points):
        times = {"dense": 1e-3, "lists": 2.0 ** (1.5 - at) * 1e-3, "both": 5e-4}
        made += [even(name, seconds, case=case) for name, seconds in times.items()]
    made[-1] |= {"status": "failed", "reason": "out of memory"}
    return frame(*[each for each in made if (each["variant"], each["case"]) != ("both", "z50")])


def test_a_crossing_is_where_the_lines_meet_and_what_never_crosses_is_said() -> None:
    table = report.crossings(series_rows(), ZEROS, excused={("both", "z50"): "not on this case: no room"})
    assert table.frame.said.tolist() == [
        "faster from 65.0 on", "faster at every point", "faster up to 65.0", "faster up to 85.0",
    ]  # fmt: skip
    assert table.frame.crossings.tolist() == [pytest.approx([65]), [], pytest.approx([65]), pytest.approx([85])]
    assert table.frame.at_start.tolist() == pytest.approx([2**-1.5, 2, 2**1.5, 2**2.5])
    assert table.frame.at_end.tolist() == pytest.approx([2**2.5, math.nan, 2**-2.5, math.nan], nan_ok=True)
    last = table.rows[1].cells[-1]
    assert (last.text, last.title) == ("–", "both on z98: out of memory")
    assert "First vs second at 98" in table.html
    assert table.notes[-2:] == ["both on z50: not on this case: no room", "both on z98: out of memory"]


def test_a_series_is_a_line_a_variant_with_gaps_and_rings() -> None:
    figure = report.series(series_rows(), ZEROS)
    ax = axes(figure)
    lines = {each.get_label(): each[0].get_xydata() for each in ax.containers}
    assert list(lines) == list(ZEROS.variants) and ax.get_yscale() == "log" and ax.get_xscale() == "linear"
    assert lines["lists"][:, 1].tolist() == pytest.approx([2.0 ** (1.5 - at) * 1e3 for at in range(5)])
    assert np.isnan(lines["both"][:, 1]).tolist() == [False, True, False, False, True], "no line across what is missing"
    rings = [each.get_xydata()[0].tolist() for each in ax.lines if each.get_markersize() == 13]
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
    assert "lists on z0: not measured; dense on z0: not measured" in table.rows[0].cells[2].title
    assert table.notes[-1] == "Not measured (dense, lists, both)."


def noisy(variant: str, seconds: float, case: str) -> dict[str, Any]:
    """Samples that scatter by 10 %, differently from variant to variant."""
    drift = 1 + 0.1 * np.sin(np.arange(20) * (3.7 if variant == "dense" else 5.3))
    return row(variant, seconds, case=case, samples_s=(100 * seconds * drift).tolist())


def test_lines_that_are_the_same_cross_nowhere() -> None:
    flat = [noisy(name, 1e-3, case) for _, case in ZEROS.points for name in ("dense", "lists")]
    first = report.crossings(frame(*flat), ZEROS).frame.iloc[0]
    assert first.said == "the same at every point" and first.crossings == []
    some = [even("lists", 5e-4, case=case) if case == "z98" else noisy("lists", 1e-3, case) for _, case in ZEROS.points]
    first = report.crossings(frame(*[each for each in flat if each["variant"] == "dense"], *some), ZEROS).frame.iloc[0]
    assert first.said == "faster at 1 point; the same at 4" and first.crossings == []


@given(st.data())
def test_a_known_crossing_is_found(data: st.DataObject) -> None:
    """Two straight lines in log time over points at any distance: one crossing, wherever points lie."""
    log = data.draw(st.booleans())
    xs = sorted(data.draw(st.sets(st.integers(1, 1000), min_size=2, max_size=9)))
    places = [math.log(x) if log else float(x) for x in xs]
    meet = data.draw(st.floats(places[0], places[-1]))
    assume(all(abs(place - meet) > 1e-6 for place in places))
    slope = data.draw(st.sampled_from([-10.0, -0.1, 0.1, 2.0])) / (places[-1] - places[0])
    leads = [math.exp(slope * (place - meet)) for place in places]
    ratios = [Ratio(lead, lead, lead, False, "") for lead in leads]
    (found,) = cross(xs, ratios, log)
    assert found == pytest.approx(math.exp(meet) if log else meet, rel=1e-6)


@given(st.lists(st.sampled_from([-1.0, -0.01, 0.01, 1.0]), min_size=1, max_size=12))
def test_crossings_lie_between_points_that_surely_differ(leads: list[float]) -> None:
    """A lead of 0.01 is not sure: it makes no crossing of its own, however often it turns."""
    ratios = [Ratio(math.exp(each), 0.9, 1.1, abs(each) < 0.1, "") for each in leads]
    sure = [at for at, ratio in enumerate(ratios) if not ratio.same]
    turns = [(a, b) for a, b in pairwise(sure) if (leads[a] > 0) != (leads[b] > 0)]
    found = cross(list(range(len(leads))), ratios)
    assert len(found) == len(turns) and all(a < x < b for x, (a, b) in zip(found, turns, strict=True))


def test_several_crossings_are_told_in_turn() -> None:
    made = []
    for (_, case), lead in zip(ZEROS.points, (0.5, 2, 2, 0.5, 2), strict=True):
        made += [even("dense", 1e-3, case=case), even("lists", 1e-3 / lead, case=case)]
    table = report.crossings(frame(*made), ZEROS)
    assert table.frame.said[0] == "several: faster from 25.0, slower from 85.0, faster from 94.0"
    assert table.frame.said[2] == "several: slower from 25.0, faster from 85.0, slower from 94.0"


def test_points_far_apart_lie_on_a_logarithmic_axis_and_so_does_their_crossing() -> None:
    batches = Series("batch", "Which?", "images", ((10, "b10"), (1000, "b1000")), ("a", "b"), (("a", "b"),))
    made = [even(name, seconds, case=case) for case, *times in (("b10", 2e-3, 1e-3), ("b1000", 1e-3, 2e-3))
            for name, seconds in zip("ab", times, strict=True)]  # fmt: skip
    figure = report.series(frame(*made), batches)
    assert axes(figure).get_xscale() == "log"
    assert report.crossings(frame(*made), batches).frame.crossings[0] == pytest.approx([100])
    assert [each.get_xydata()[0, 0] for each in axes(figure).lines if each.get_markersize() == 13] == pytest.approx(
        [100]
    )


def published_rows(*figures: tuple[str, str, str, float, float]) -> pd.DataFrame:
    return pd.DataFrame(
        [{"table": "1", "variant": variant, "case": "", "device": "Old GPU", "metric": metric, "unit": unit, "trial": "",
          "value": value, "seconds": seconds} for variant, metric, unit, value, seconds in figures]
    )  # fmt: skip


def test_published_parts_and_facts_are_held_against_ours() -> None:
    nan = math.nan
    published = published_rows(
        ("net", "op time", "ms", 6.0, 6e-3), ("net", "free", "ms", 6.0, 6e-3), ("net", "accuracy", "", 0.86, nan),
        ("net", "occupancy", "%", 25.0, nan), ("net", "images", "", 6000, nan), ("net", "data", "", 1, nan),
        ("bad", "op time", "ms", 6.0, 6e-3), ("bad", "accuracy", "", 0.86, nan), ("none", "accuracy", "", 0.86, nan),
        ("net", "time", "ms", 6.0, 6e-3), ("net", "sum", "ms", 6.0, 6e-3), ("net", "half", "ms", 6.0, 6e-3),
        ("net", "stalls", "%", 6.0, nan), ("bad", "stalls", "%", 6.0, nan),
    )  # fmt: skip
    rows = part_rows()
    rows.loc[0, "extra"] = json.dumps(json.loads(rows.loc[0, "extra"]) | {"occupancy": 0.75})
    covers: dict[str, str | tuple[str, ...]] = {
        "op time": "op 1",
        "free": "free",
        "sum": ("op 1", "copy", "op 1"),
        "half": ("op 1", "free"),
    }
    asked = set()

    def part(*key: str) -> str | tuple[str, ...] | None:
        asked.add(key)
        return covers.get(key[-1])

    table = report.published_beside_ours(
        published, rows, {"net": "plain", "bad": "wrong"}, cases={"": "256x256"}, units={"256x256": 1000},
        parts=part,
        facts=lambda *key: key[-1] if key[-1] in ("accuracy", "occupancy", "images", "data") else None,
        lacks=lambda *key: "needs counters" if key[-1] == "stalls" else None,
    )  # fmt: skip
    assert table.frame.status.tolist() == [
        "ok",
        "missing",
        "ok",
        "ok",
        "ok",
        "missing",
        "failed",
        "failed",
        "missing",
        "ok",
        "ok",
        "missing",
        "missing",
        "missing",
    ]
    assert asked == set(published[["variant", "case", "metric"]].itertuples(index=False, name=None))
    one, _, accuracy, occupancy, images, _, _, _, _, whole, both, half, lack, _ = table.frame.itertuples()
    assert both.ours == pytest.approx(8.0) and both.ours_low == pytest.approx(4.0), "parts of the same sample add up"
    assert "'free'" in table.rows[-3].cells[4].title and math.isnan(half.ours) and math.isnan(lack.ours)
    assert [line.cells[4].text for line in table.rows[-2:]] == ["needs counters"] * 2, "whether it was measured or not"
    assert table.rows[-2].cells[7].text == units.DASH
    assert one.ours == pytest.approx(4.0) and one.published_over_ours == pytest.approx(6e-3 / 4.0)
    assert one.ours_low == pytest.approx(2.0) and one.extrapolated and "extrapolated from 100 x step" in table.html
    assert whole.ours == pytest.approx(1.0, rel=0.06), "a time that is no part is the whole"
    assert (accuracy.ours, occupancy.ours, images.ours) == (0.88614, 75, 12000)
    assert occupancy.published_over_ours == pytest.approx(1 / 3)
    thin = units.THIN
    assert [line.cells[4].text for line in table.rows[2:5]] == ["0.8861", f"75.00{thin}%", f"12{thin}000"]
    assert "'free'" in table.rows[1].cells[4].title and "'data'" in table.rows[5].cells[4].title
    assert table.rows[4].cells[5].text == "0.500" and table.rows[5].cells[5].text == "–"


def figures() -> dict[str, report.Figure]:
    rows = lab_rows()
    grid, reasons = report.sweep_grid(sweep_rows(), "wg", case="256x256")
    many, why = report.sweep_grid(shapes(columns=9, rows=9), "size", case="256x256")
    return {
        "bandwidth": bandwidths(),
        "heat of 81": report.heat_map(many, reasons=why),
        "ladder": report.ladder_chart(rows, ORDER, case="256x256", published=(6.5e-6, "Tesla V100")),
        "roofline": report.roofline_chart(rows, PEAKS, case="256x256", working_set=4.7e6),
        "roofs": report.roofline_chart(
            rows.assign(dtype=["float32", "tfloat32", "float16", "int8", "float16", "bfloat16"]),
            ROOFS,
            case="256x256",
            working_set=4.7e6,
            counted={"port": 9e6},
        ),
        "heat": report.heat_map(grid, reasons=reasons),
        "line": report.line_sweep(sweep_rows(), "wg"),
        "series": report.series(series_rows(), ZEROS),
        "timeline": report.timeline(traced_rows(), ["serial", "streams"], case="256x256"),
    }


PEAKS = Peaks([(2**20, 9e12), (2**23, 8.7e12), (2**30, 4.2e12)], {"float32": 6e13})
ROOFS = Peaks(PEAKS.bandwidth, {"float32": 6e13, "tfloat32": 4e14, "float16": 8e14, "bfloat16": 8e14, "int8": 1.5e15})


def test_figures_are_xml_with_unique_ids_and_no_hard_ink() -> None:
    made = figures()
    page = ElementTree.fromstring(f"<body>{''.join(figure.html for figure in made.values())}</body>")
    ids = [each.get("id") for each in page.iter() if each.get("id")]
    assert ids and len(ids) == len(set(ids))
    for name, figure in made.items():
        assert not re.search(r"#(0{3}|0{6}|f{3}|f{6}|010203)\b|\b(black|white)\b", figure.svg, re.IGNORECASE), name
        assert "currentColor" in figure.svg and "<style" not in figure.svg and "<text" in figure.svg
        refers = re.findall(r'(?:href="#|url\(#)([^")]+)', figure.svg)
        assert set(refers) <= set(ids)
        root = ElementTree.fromstring(figure.svg)
        assert root.get("role") == "img" and root.get("aria-label") == figure.title
        assert root.find("title") is not None and root.get("width") == "100%" and root.get("viewBox")


def test_figures_are_the_same_bytes_each_time() -> None:
    first, second = figures(), figures()
    assert all(first[name].svg == second[name].svg for name in first)


def test_letters_stay_legible_at_360_pixels() -> None:
    for name, figure in figures().items():
        width = float(ElementTree.fromstring(figure.svg).get("viewBox", "").split()[2])
        sizes = [float(size) for size in re.findall(r"font-size: ([\d.]+)px", figure.svg)]
        assert sizes and min(sizes) * 360 / width >= 6.5, name


def test_colours_show_on_light_and_dark_grounds() -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for colour in {*svg.COLOURS.values(), *svg.SERIES}:
        light, dark = 1.05 / (luminance(colour) + 0.05), (luminance(colour) + 0.05) / (luminance("#14181e") + 0.05)
        assert min(light, dark) >= 3, colour


def test_figures_save(tmp_path: Path) -> None:
    figure = figures()["line"]
    assert figure.save(tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert ElementTree.parse(figure.save(tmp_path / "a.svg")).getroot().tag == "{http://www.w3.org/2000/svg}svg"
    with pytest.raises(UsageError, match="png"):
        figure.save(tmp_path / "a.gif")


def test_ladder_chart_without_its_base_starts_at_the_first_variant() -> None:
    figure = report.ladder_chart(lab_rows(), ["port", "fused"], case="256x256", base="none")
    assert "over port" in figure.title
    with pytest.raises(UsageError, match="verified time"):
        report.ladder_chart(lab_rows(), ["soa"], case="256x256")


def test_code_blocks() -> None:
    block = report.html_diff("--- a\n+++ b\n-old <x>\n+new\n")
    assert 'class="highlight"' in block and 'class="gi"' in block and "&lt;x&gt;" in block and "<x>" not in block
    assert "no-diff" in report.html_diff("")
    assert 'class="kt"' in report.html_source("float a;", "opencl") and "plain" in report.html_source(
        "plain", "nonsense"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.0123"), (1.234, "1.23"), (9.996, "10.0"), (99.96, "100"), (1234, "1\u2009230"), (0, "0.00"),
     (12345678, "1.23e+07"), (math.nan, "\u2013"), (-2.5, "\u22122.50"),
     (999.6, "1\u2009000"), (3.2e-8, "3.20e\u221208")],
)  # fmt: skip
def test_three_significant_digits(value: float, text: str) -> None:
    assert units.number(value) == text


def test_intervals_and_factors() -> None:
    assert units.interval(12.34, 12.11, 12.58) == "12.3 [12.1, 12.6]"
    assert units.interval(12345, 12251, 12449) == "12\u2009300 [12\u2009300, 12\u2009400]"
    assert units.factor(1.0042, 1.0013, 1.0071) == "1.004 [1.001, 1.007]"
    assert units.factor(1.31, 1.28, 1.34) == "1.31 [1.28, 1.34]"


def test_one_unit_a_column() -> None:
    assert units.time_unit([2e-6, 4e-2]) == ("\u00b5s", 1e-6)
    assert units.time_unit([2.0]) == ("s", 1.0) and units.time_unit([1e-3]) == ("ms", 1e-3)
    assert units.time_unit([3e-10]) == ("ns", 1e-9) and units.time_unit([]) == ("s", 1.0)
    assert units.quantity(4.26e12, "B/s") == "4.26\u2009TB/s" and units.duration(1.23e-5) == "12.3\u2009\u00b5s"
    sizes = [size for _, size in units.TIMES]
    assert all(a > b for a, b in pairwise(sizes))


# -- peers -------------------------------------------------------------------------------------------------------------


def peer_rows() -> pd.DataFrame:
    return frame(
        row("port", 4e-4), row("fused", 2e-4, "port"), row("tensor", 5e-5, "fused", dtype="float16"),
        row("fused", 2e-4, "port", role="again"), row("fused@wg=1", 1e-6, "fused", role="sweep"),
        row("probe", 1e-6, role="probe"), row("wrong", 1e-6, "fused", error=2e-6),
        row("library", 1e-4, role="peer"), row("half", 1e-4, role="peer", dtype="float16"),
        row("even", 2e-4, role="peer"), row("tf32", 1e-4, role="peer", dtype="tfloat32"),
        row("c", 8e-4, role="peer", device="some-cpu", device_name="Some CPU"),
        row("broken", 1e-4, role="peer", status="failed", reason="out of memory"),
    )  # fmt: skip


PEERS = ["library", "half", "even", "tf32", "c", "broken", "absent"]


def test_each_peer_is_held_against_the_best_rung_of_its_dtype_and_of_all() -> None:
    table = report.peers(peer_rows(), PEERS, case="256x256", elsewhere={"absent": "PyTorch is not installed"})
    found = table.frame.set_index("variant")
    assert found.rung[:5].fillna("").tolist() == ["fused", "tensor", "fused", "", "fused"]
    assert found.fastest[:5].tolist() == ["tensor"] * 5, "sweeps, probes and what is wrong are no rungs"
    assert found.ratio[["library", "half", "even", "c"]].tolist() == pytest.approx([0.5, 2, 1, 4], rel=0.02)
    assert found.ratio_of_fastest[:5].tolist() == pytest.approx([2, 2, 4, 2, 16], rel=0.02)
    assert found.seconds["library"] == pytest.approx(1e-4, rel=0.06) and found.dtype["half"] == "float16"
    assert "slower" in line(table, "library") and "faster" in line(table, "library")
    assert ">same" in line(table, "even") and line(table, "half").count("faster") == 2
    assert "no rung in this dtype has a time here" in line(table, "tf32") and ">tensor<" in line(table, "tf32")
    assert "Some CPU" in line(table, "c") and line(table, "c").count("(across devices)") == 2
    assert "failed: out of memory" in line(table, "broken") and "PyTorch is not installed" in line(table, "absent")
    assert found.status.tolist() == ["ok"] * 5 + ["failed", "missing"]


def test_a_peer_of_the_host_is_marked_also_where_most_peers_are_its() -> None:
    rows = peer_rows()
    on_host = rows["variant"] == "c"
    both = pd.concat([rows, rows[on_host].assign(variant="c too"), rows[on_host].assign(variant="c again")])
    table = report.peers(both, ["library", "c", "c too", "c again"], case="256x256")
    assert all("Some CPU" in line(table, name) for name in ("c", "c too", "c again"))
    assert "(on " not in line(table, "library")


def test_peers_stand_without_a_rung_and_without_rows() -> None:
    alone = report.peers(frame(row("library", 1e-4, role="peer")), ["library"], case="256x256")
    assert line(alone, "library").count("has a time here") == 4
    assert "not measured" in line(report.peers(frame(), ["library"], case="256x256"), "library")
    told = report.peers(
        frame(row("library", 1e-4, role="peer")), ["library"], case="256x256", changes={"library": "It does less."}
    )
    assert told.columns[-1].text == "What it is" and "It does less." in line(told, "library")
    with pytest.raises(UsageError, match="unknown case '8x8'; valid: 256x256"):
        report.peers(peer_rows(), PEERS, case="8x8")
