"""The table of several devices: a line for each time, the model beside it, and notes that say where it breaks."""

from __future__ import annotations

import math

import pytest

from roofbook.analysis.readings import newest
from roofbook.labs.lbm.scaling_table import scaling_table
from roofbook.report.html import Table
from roofbook.spec.lab import Series

from ...report.rows import even, frame, row

TIMES = {(1, 8): 2e-5, (1, 64): 16e-5, (2, 8): 4e-5, (2, 64): 10e-5}
ROWS = Series("rows", "From how many rows on?", "rows", ((8, "9x8"), (64, "9x64")), ("one", "two"))


def table(**broken: str) -> Table:
    listed = [even(f"on{n}", seconds, case=f"9x{rows}") for (n, rows), seconds in TIMES.items()]
    listed[-1] |= broken
    readings = {(n, rows): newest(frame(*listed), f"9x{rows}")[f"on{n}"] for n, rows in TIMES}
    return scaling_table(readings, ROWS)


def test_each_time_has_its_gain_its_efficiency_and_the_model_beside_it() -> None:
    scaling = table()
    frame_ = scaling.frame.set_index(["rows", "devices"])
    assert frame_.seconds.tolist() == pytest.approx([2e-5, 4e-5, 16e-5, 10e-5]), "by rows, then by devices"
    assert frame_.strong[64, 2] == pytest.approx(1.6) and math.isnan(frame_.weak[64, 2]), (
        "no time of one device on half"
    )
    row_s = 14e-5 / 56
    assert frame_.model_seconds[64, 2] == pytest.approx(4e-5 - 4 * row_s + 32 * row_s)
    assert frame_.model_error[64, 2] == pytest.approx(frame_.model_seconds[64, 2] / 10e-5 - 1)
    assert frame_.model_error.isna().tolist() == [True, True, True, False]
    texts = [[cell.text for cell in line.cells] for line in scaling.rows]
    assert texts[0][:3] == ["8", "1", "20.0"] and texts[0][-1] == "read from it" and texts[-1][-1].startswith("+10")
    (note,) = (note for note in map(str, scaling.notes) if note.startswith("By the model"))
    assert "2 devices are faster than one from about 24 rows on" in note


def test_a_model_that_is_far_from_a_measured_time_does_not_say_from_where_on_devices_pay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(TIMES, (2, 64), 8e-5)
    notes = [str(note) for note in table().notes]
    assert not any(note.startswith("By the model") for note in notes)
    assert any(note.startswith("With 2 devices it is off by up to 37.5") for note in notes)


def test_what_failed_is_left_out_and_without_a_second_grid_there_is_no_model() -> None:
    scaling = table(status="failed", reason="out of memory")
    assert scaling.frame.devices.tolist() == [1, 2, 1]
    alone = newest(frame(row("on1", 1e-5, case="9x8")), "9x8")["on1"]
    scaling = scaling_table({(1, 8): alone}, ROWS)
    assert scaling.frame.model_seconds.isna().all() and any(str(note).startswith("No model") for note in scaling.notes)
