"""Ladders at a glance: contents of a descent and of the table of ends, also if steps or peers are missing."""

import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Bound
from roofbook.errors import UsageError
from roofbook.report.ladder_descent import GlanceRow, glance_row

from .rows import ORDER, frame, lab_rows, row

FLOOR = Bound(2.2e-5, "memory", 1e12)


def drawn(rows: pd.DataFrame, floor: Bound | None = None) -> dict[str, list[float]]:
    """Return the values on the axes by the labels of the legend."""
    figure = report.descent(CaseData(rows, ORDER, "256x256", bounds={"float32": floor} if floor else None))
    (ax,) = figure.drawing.axes
    assert ax.get_yscale() == "log"
    (dots,) = ax.collections
    lines = {str(line.get_label()): np.asarray(line.get_ydata()).tolist() for line in ax.lines}
    return lines | {"a step": np.asarray(dots.get_offsets(), float)[:, 1].tolist()}


def test_a_descent_has_each_verified_rung_the_fastest_so_far_the_fastest_peer_and_the_bound() -> None:
    slower = row("texture", 2e-4, "fused")
    values = drawn(frame(*lab_rows().to_dict("records"), slower, row("slow peer", 1.0, role="peer")), FLOOR)
    assert values["a step"] == pytest.approx([4.2e-3, 1.8e-4, 1.1e-4, 2e-4], rel=0.06), "what failed has no time"
    assert values["fastest so far"] == [*values["a step"][:3], values["a step"][2]]
    assert values["fastest peer"] == pytest.approx([3.1e-5] * 2, rel=0.06) and values["bound"] == [2.2e-5] * 2


def test_a_descent_without_a_peer_or_a_bound_does_not_speak_of_them() -> None:
    assert drawn(frame(row("fused", 1e-4))).keys() == {"a step", "fastest so far"}
    with pytest.raises(UsageError, match=r"no step of sequential, .* has a verified time on 256x256"):
        report.descent(CaseData(frame(row("peer", 1e-4, role="peer")), ORDER, "256x256"))


def two_hosts(variant: str, seconds: list[float], parent: str | None = None) -> list[dict[str, Any]]:
    """Return rows of a variant in run-0, run-1 and so on: those after the third are on a slower host."""
    return [row(variant, time, parent, run=f"run-{at}") for at, time in enumerate(seconds)]


def test_a_descent_and_the_table_of_ends_name_ratios_that_their_times_contradict() -> None:
    rows = frame(*two_hosts("sequential", [1e-4] * 3), *two_hosts("fused", [5e-5] * 3 + [8e-5] * 4, "sequential"))
    data = CaseData(rows, ORDER, "256x256")
    (note,) = report.descent(data).notes
    assert note.startswith(
        "Dividing two times gives another ratio for fused vs sequential (1.25, not 2.00). A ratio compares"
    )
    ends = glance_row("One", "Some GPU, OpenCL", data)
    assert ends.cells[3].small == "sequential (the times alone give 1.25)" and "times" not in ends.cells[5].small
    assert report.descent(CaseData(lab_rows(), ORDER, "256x256")).notes == ()
    assert "times" not in line("One", lab_rows()).cells[3].small


def line(lab: str, rows: pd.DataFrame, place: str = "Some GPU, OpenCL", floor: Bound | None = FLOOR) -> GlanceRow:
    data = CaseData(rows, ORDER, "256x256", bounds={"float32": floor} if floor else {})
    return glance_row(lab, place, data)


def test_the_ends_of_each_ladder_stand_below_their_lab() -> None:
    table = report.glance(
        [line("One", lab_rows()), line("One", lab_rows(), place="B"), line("Two", lab_rows())], "Ends"
    )
    texts = [[cell.text for cell in table_row.cells] for table_row in table.rows]
    assert [line_texts[0] for line_texts in texts] == ["One", "Some GPU, OpenCL", "B", "Two", "Some GPU, OpenCL"]
    assert [table_row.css for table_row in table.rows] == ["group", "", "", "group", ""]
    first = table.rows[1].cells
    assert [cell.small for cell in first[1:3]] == ["sequential (on the host)", "fused"]
    assert first[4].small == "peer" and first[-1].text == "256x256" and first[6].text.startswith("19.9")
    assert re.fullmatch(r"38\.\d \[3\d\.\d, 4\d\.\d\]", first[3].text) and first[3].small == "sequential (on the host)"
    assert re.fullmatch(r"0\.28\d \[0\.2\d+, 0\.2\d+\]", first[5].text) and "slower" in first[5].css
    assert list(table.frame["fastest"]) == ["fused"] * 3 and table.frame["vs_peer"][0] == pytest.approx(0.28, abs=0.01)
    assert (table.frame["vs_base_low"] < table.frame["vs_base"]).all()
    assert (table.frame["vs_base_high"] > table.frame["vs_base"]).all()
    assert table.html.count("<tr") == 6 and 'colspan="6"' in table.html and "One" in table.text


def test_the_next_base_stands_in_for_one_without_a_time() -> None:
    rows = [row("sequential", 4e-3), row("by-c", 1e-3, "sequential"), row("fused", 1e-4)]
    failed = [rows[0], row("by-c", 1e-3, status="failed", reason="no C compiler"), rows[2]]
    lines = [
        glance_row(
            "One",
            "A GPU",
            CaseData(frame(*rows), ["sequential", "by-c", "fused"], "256x256", ("by-c", "sequential")),
        )
        for rows in (rows, failed)
    ]
    table = report.glance(lines, "Ends")
    assert [table_row.cells[1].small for table_row in table.rows[1:]] == ["by-c", "sequential"]
    assert list(table.frame["base"]) == ["by-c", "sequential"]
    assert list(table.frame["vs_base"]) == pytest.approx([10, 40], rel=0.06)


def test_a_ladder_without_its_base_a_peer_or_a_bound_has_dashes_that_say_why() -> None:
    (group, only) = report.glance([line("One", frame(row("fused", 1e-4)), floor=None)], "Ends").rows
    assert [cell.text for cell in only.cells[1:7]] == ["–", "100 µs".replace(" ", "\u202f"), "–", "–", "–", "–"]
    assert (only.cells[3].small, only.cells[5].small) == (
        "(sequential has no time here)",
        "(no peer was measured on this device)",
    )
    assert group.cells[0].text == "One"
    with pytest.raises(UsageError, match="no step"):
        report.glance([line("One", frame(row("peer", 1e-4, role="peer")))], "Ends")
