"""Published figures and ours: each is compared with its own counterpart and unit, and marked for its kind."""

import json
import math
import re
from typing import Any

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis import format
from roofbook.analysis.published_figures import PublishedFigures

from .rows import lab_rows, part_rows


def test_published_beside_ours_marks_totals_as_extrapolated() -> None:
    published = pd.DataFrame(
        [
            {"table": "4", "variant": "fused kernels", "case": "256x256", "device": "Old GPU", "metric": metric,
             "unit": unit, "trial": "", "value": value, "seconds": seconds}
            for metric, unit, value, seconds in [("time", "s", 8.8, 8.8), ("speedup", "x", 1.75, math.nan),
                                                 ("rate", "GB/s", 443.0, math.nan)]
        ]
    )  # fmt: skip
    table = report.published(
        PublishedFigures(published, {"fused kernels": "fused"}, units={"256x256": 80000}), lab_rows()
    )
    time, speedup, rate = table.frame.to_dict("records")
    assert time["ours"] == pytest.approx(8.8, rel=0.06) and time["extrapolated"]
    assert (
        "extrapolated from 100 x step)" in table.html and "8.8\u202fs" in table.html and "443\u202fGB/s" in table.html
    )
    assert speedup["ours"] == pytest.approx(180 / 110, rel=0.01) and rate["status"] == "missing"
    exact = report.published(
        PublishedFigures(published, {"fused kernels": "fused"}, units={"256x256": 100}), lab_rows()
    )
    assert "extrapolated" not in exact.text
    mapped = report.published(PublishedFigures(published, {"fused kernels": "soa"}), lab_rows())
    assert set(mapped.frame.status) == {"failed"} and "wrong result" in mapped.html


def test_another_step_stands_beside_a_figure_by_its_name_until_the_reports_own_is_measured() -> None:
    published = pd.DataFrame(
        [
            {"table": "4", "variant": "their kernel", "case": "256x256", "device": "Old GPU", "metric": metric, "unit": unit,
             "trial": "", "value": 8.8, "seconds": 8.8}
            for metric, unit in [("time", "s"), ("speedup", "x")]
        ]
    )  # fmt: skip
    stood_in = PublishedFigures(published, {"their kernel": ("theirs", "fused")}, stand_ins={"theirs": "tiled"})
    rows = lab_rows()
    table = report.published(stood_in, rows.assign(variant=rows.variant.replace("port", "tiled")))
    assert table.frame.our_variant.tolist() == ["tiled"] * 2 and set(table.frame.status) == {"ok"}
    assert table.html.count("(tiled)") == 2
    table = report.published(stood_in, rows.assign(variant=rows.variant.replace("port", "theirs")))
    assert table.frame.our_variant.tolist() == ["theirs"] * 2 and "(tiled)" not in table.html


def test_a_published_rate_stands_beside_ours_in_the_same_unit_only() -> None:
    published = pd.DataFrame(
        [
            {"table": "1", "variant": variant, "case": "256x256", "device": "Old GPU", "metric": "rate", "unit": unit,
             "trial": "", "value": 2250.0, "seconds": math.nan}
            for variant, unit in [("fused", "GFLOP/s"), ("fused", "GB/s"), ("soa", "GFLOP/s"), ("none", "GFLOP/s")]
        ]
    )  # fmt: skip
    rows = lab_rows().assign(extra='{"rate_amount": 0.22, "rate_unit": "GFLOP/s"}')
    table = report.published(
        PublishedFigures(published, {"fused": "fused", "soa": "soa"}, units={"256x256": 80000}), rows
    )
    ours = table.frame.iloc[0]
    assert table.frame.status.tolist() == ["ok", "missing", "failed", "missing"]
    assert ours.ours == pytest.approx(0.22 / 1.1e-4, rel=0.06) and ours.ours_low < ours.ours < ours.ours_high
    assert "\u202fGFLOP/s" in table.rows[0].cells[4].text and table.rows[0].cells[5].text == "–"
    assert "extrapolated" not in table.text, "a rate covers no number of steps"


def test_trials_of_one_measurement_share_a_row_and_ours_is_held_against_their_median() -> None:
    published = pd.DataFrame(
        [
            {"table": "1", "variant": "best", "case": "256x256", "device": "Old GPU", "metric": "time", "unit": "s",
             "trial": trial, "value": value, "seconds": value}
            for trial, value in (("1", 9.0), ("2", 1.0), ("3", 2.0), ("", 5.0), ("", 6.0))
        ]
    )  # fmt: skip
    table = report.published(PublishedFigures(published, {"best": "fused"}, units={"256x256": 1}), lab_rows())
    texts = [row.cells[3].text for row in table.rows]
    assert texts == ["9, 1, 2\u202fs", "5\u202fs", "6\u202fs"] and table.rows[0].cells[2].text == "time, 3 trials"
    assert table.frame["value"].tolist() == [9, 1, 2, 5, 6], "no figure is lost"
    first = table.frame.iloc[0]
    assert first.published_over_ours == pytest.approx(2.0 / first.ours)


def test_a_published_device_may_have_run_something_else() -> None:
    """A report may print its sequential program's time beside each run: that row is compared with our sequential one."""
    published = pd.DataFrame(
        [
            {"table": "1", "variant": "best", "case": "square", "device": device, "metric": "time", "unit": "s",
             "trial": "", "value": value, "seconds": value} for device, value in (("Old GPU", 0.2), ("host CPU", 24.0))
        ]
    )  # fmt: skip
    mapping = {"best": "fused", ("best", "host CPU"): "sequential", ("best", "Other GPU"): "port"}
    table = report.published(
        PublishedFigures(published, mapping, cases={"square": "256x256"}, units={"256x256": 200}), lab_rows()
    )
    assert table.frame.our_variant.tolist() == ["fused", "sequential"]
    assert table.frame.ours.tolist() == pytest.approx([200 * 1.1e-4, 200 * 4.2e-3], rel=0.06)
    assert table.frame.extrapolated.tolist() == [True, True]
    assert table.frame.our_device.tolist() == ["Some GPU", "Some CPU"]
    unsized = PublishedFigures(
        published, mapping, {"square": "256x256"}, {"256x256": 200}, unsized=frozenset(["square"])
    )
    of_any_size = report.published(unsized, lab_rows())
    assert of_any_size.frame.ours.tolist() == table.frame.ours.tolist()
    assert table.frame.published_over_ours.notna().all() and of_any_size.frame.published_over_ours.isna().all()
    assert "states no size" in of_any_size.notes[-2] and not any("no size" in note for note in table.notes)
    elsewhere = report.published(PublishedFigures(published, {("best", "Other GPU"): "port"}), lab_rows())
    assert elsewhere.frame.status.tolist() == ["missing", "missing"]


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
    keys = set()

    def part(*key: str) -> str | tuple[str, ...] | None:
        keys.add(key)
        return covers.get(key[-1])

    table = report.published(
        PublishedFigures(
            published,
            {"net": "plain", "bad": "wrong"},
            cases={"": "256x256"},
            units={"256x256": 1000},
            part=part,
            fact=lambda *key: key[-1] if key[-1] in ("accuracy", "occupancy", "images", "data") else None,
            lack=lambda *key: "needs counters" if key[-1] == "stalls" else None,
        ),
        rows,
    )
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
    assert keys == set(published[["variant", "case", "metric"]].itertuples(index=False, name=None))
    one, _, accuracy, occupancy, images, _, _, _, _, total, sum_of_two, half, lack, _ = table.frame.itertuples()
    assert sum_of_two.ours == pytest.approx(8.0) and sum_of_two.ours_low == pytest.approx(4.0), (
        "parts of the same sample add up"
    )
    assert "'free'" in table.rows[-3].cells[4].small and math.isnan(half.ours) and math.isnan(lack.ours)
    assert [line.cells[4].text for line in table.rows[-2:]] == ["needs counters"] * 2, "whether it was measured or not"
    assert table.rows[-2].cells[7].text == format.DASH
    assert one.ours == pytest.approx(4.0) and one.published_over_ours == pytest.approx(6e-3 / 4.0)
    assert one.ours_low == pytest.approx(2.0) and one.extrapolated and "extrapolated from 100 x step" in table.html
    assert total.ours == pytest.approx(1.0, rel=0.06), "a time that is no part is the whole"
    assert (accuracy.ours, occupancy.ours, images.ours) == (0.88614, 75, 12000)
    assert math.isnan(occupancy.published_over_ours), "twice the accuracy is not twice as fast"
    thin = format.THIN
    assert [line.cells[4].text for line in table.rows[2:5]] == ["0.8861", f"75.00{thin}%", f"12{thin}000"]
    assert "'free'" in table.rows[1].cells[4].small and "'data'" in table.rows[5].cells[4].small
    assert table.rows[4].cells[5].text == table.rows[5].cells[5].text == "–"


def test_each_table_of_a_report_unfolds_below_a_line_that_says_what_is_in_it() -> None:
    def figure(table: str, variant: str, seconds: float, device: str = "Old GPU") -> dict[str, Any]:
        return {"table": table, "variant": variant, "case": "256x256", "device": device, "metric": "time", "unit": "s",
                "trial": "", "value": seconds, "seconds": seconds}  # fmt: skip

    figures = [figure("4", "fused", 2e-2), figure("4", "none", 1.0), figure("text", "port", 9e-3, "Older GPU")]
    names = {"fused": "fused", "port": "port"}
    table = report.published(PublishedFigures(pd.DataFrame(figures), names, units={"256x256": 100}), lab_rows())
    assert [part.summary for part in table.parts] == [
        "Table 4: 2 figures, 1 measured here, published / measured 1.81",
        "Text: 1 figure, all measured here, published / measured 0.498",
    ]
    first, last = re.findall(r"<details.*?</details>", table.html, re.DOTALL)
    assert first.startswith("<details open><summary>Table 4: 2 figures") and last.startswith("<details><summary>Text")
    assert "published on Old GPU; measured on Some GPU" in first and '<th scope="col">Measured on' not in table.html
    assert "Older GPU" in last and "port" in last and "port" not in first
    assert table.html.count('class="csv"') == 1 and len(table.frame) == 3 and "Old GPU" in table.text
    once = report.published(PublishedFigures(pd.DataFrame(figures[:2]), names, units={"256x256": 100}), lab_rows())
    assert "<details" not in once.html and "Measured on" in once.html


def test_where_ours_is_slower_or_differs_twofold_the_number_says_why() -> None:
    published = pd.DataFrame(
        [
            {"table": "4", "variant": "fused kernels", "case": "256x256", "device": device, "metric": "time", "unit": "s",
             "trial": "", "value": value, "seconds": value}
            for value, device in [(8.0, "Old GPU"), (12.0, "Old GPU"), (80.0, "")]
        ]
    )  # fmt: skip
    figures = PublishedFigures(published, {"fused kernels": "fused"}, units={"256x256": 80000})
    slower, alike, faster = (row.cells[5] for row in report.published(figures, lab_rows()).rows)
    assert "theirs is of a Old GPU" in slower.small and "we do not know why ours is slower" in slower.small
    assert alike.small == "" and "the report names no device" in faster.small and "slower" not in faster.small
    in_c = PublishedFigures(
        published,
        {"fused kernels": "fused"},
        units={"256x256": 80000},
        in_c=lambda name: "soa" if name == "fused" else None,
    )
    rows = lab_rows()
    rows = pd.concat([rows, even_soa(rows)], ignore_index=True)
    slower, *_ = (row.cells[5] for row in report.published(in_c, rows).rows)
    assert "our launches come from Python" in slower.small and "from a loop in C, as in the report" in slower.small


def even_soa(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of `fused` as rows of `soa` that take half the time."""
    copied = rows[(rows["variant"] == "fused") & (rows["case"] == "256x256")].copy()
    copied["variant"], copied["run"] = "soa", "20990101T000000Z-ffffff"
    copied["started"] = rows["started"].max() + pd.Timedelta(days=1)
    copied["samples_s"] = [[sample / 2 for sample in samples] for samples in copied["samples_s"]]
    return copied


def test_times_unlike_the_published_ones_are_listed_slower_ones_first() -> None:
    figures = pd.DataFrame(
        [
            {"table": "4", "variant": "fused kernels", "case": "256x256", "device": "Old GPU", "metric": "time",
             "unit": "s", "trial": "", "value": seconds, "seconds": seconds}
            for seconds in (0.015, 0.001, 1.0, 0.1, math.nan)
        ]
    )  # fmt: skip
    ours = PublishedFigures(figures, {"fused kernels": "fused"}, units={"256x256": 100})
    unlike = report.unlike_published(ours, lab_rows())
    assert [record["value"] for record in unlike.table.frame.to_dict("records")] == [0.001, 1.0, 0.1]
    assert (unlike.slower, unlike.faster, unlike.ratio_count) == (1, 2, 4)
    assert unlike.table.html.count("theirs is of a Old GPU") == 3
    alike = report.unlike_published(PublishedFigures(figures[:1], ours.mapping, units=ours.units), lab_rows())
    assert not alike.table.rows and alike.ratio_count == 1
