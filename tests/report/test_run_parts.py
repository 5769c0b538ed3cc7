"""Facts of runs besides their time: its parts, numbers, and the resources that their kernels take of the device."""

import json
import math
from typing import Any

import pytest

from roofbook import report
from roofbook.analysis import format
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.readings import newest
from roofbook.errors import UsageError
from roofbook.report.html import ON_DEMAND

from .inspection import line
from .rows import frame, part_rows, row, row_with_facts


def test_parts_are_medians_per_unit_in_one_unit() -> None:
    order = ["plain", "short", "wrong", "absent", "elsewhere"]
    table = report.parts(
        CaseData(part_rows(), order, "256x256", skip_reasons={"elsewhere": "not on this device"}),
        ["op 1", "copy"],
        facts={"accuracy": "Accuracy", "images": "Images", "data": "Data"},
    )
    assert [column.text for column in table.columns] == [
        "Variant", "op 1 (ms)", "copy (ms)", "Accuracy", "Images", "Data"
    ]  # fmt: skip
    cells_by_name = {line.cells[0].text: line.cells for line in table.rows}
    thin = format.THIN
    assert [cell.text for cell in cells_by_name["plain"]] == [
        "plain", "4.00 [2.00, 4.00]", "0.00 [0.00, 0.00]", "0.8861", f"12{thin}000", "fashion"
    ]  # fmt: skip
    assert [cell.text for cell in cells_by_name["short"]] == ["short", "3.00 [3.00, 3.00]", "–", "0.9000", "–", "–"]
    assert cells_by_name["short"][1].small == "(n = 1, range)"
    assert "not verified" in cells_by_name["wrong"][1].text and "0.77" not in table.html
    assert [cells_by_name[name][1].text for name in ("absent", "elsewhere")] == ["not measured", "not on this device"]
    assert table.frame.loc[:1, "op 1"].tolist() == pytest.approx([4e-3, 3e-3])
    assert table.frame.loc[2:, ["op 1", "copy", "accuracy"]].isna().all(axis=None)
    assert table.frame.status.tolist() == ["ok", "ok", "failed", "missing", "missing"]
    unverified = newest(part_rows())["wrong"]
    assert not unverified.parts and not unverified.facts


@pytest.mark.parametrize("bad", [[], [0.1, math.nan], [-0.1], [math.inf]])
def test_a_part_that_is_no_time_is_refused(bad: list[float]) -> None:
    rows = frame(row_with_facts("plain", facts={"parts": {"copy": bad}}))
    with pytest.raises(UsageError, match=r"plain on 256x256: part 'copy' holds \["):
        report.parts(CaseData(rows, ["plain"], "256x256"), ["copy"])
    with pytest.raises(UsageError, match="no parts to show"):
        report.parts(CaseData(rows, ["plain"], "256x256"), [])


def test_resources_have_the_columns_that_some_variant_tells() -> None:
    cuda = {
        "group": "32x8", "groups": 51200, "registers": 37, "local_bytes": 2050, "spill_bytes": 0, "occupancy": 0.75,
        "occupancy_by": "driver",
    }  # fmt: skip
    rows = frame(
        row_with_facts("port", facts=cuda | {"groups_by_registers": 6}, backend="cuda"),
        row_with_facts("host", facts={"private_bytes": 12, "local_bytes": 4}, device="cpu", device_name="Some CPU"),
        row_with_facts("wrong", facts=cuda, error=2e-6),
        row("library", 1e-3, backend="cuda"),
    )
    table = report.resources(CaseData(rows, ["port", "host", "wrong", "library"], "256x256"))
    assert [column.text for column in table.columns] == [
        "Variant", "Group", "Registers", "Local memory (B)", "Spilled (B)", "Occupancy", "Groups", "Private memory (B)",
        "Groups by registers",
    ]  # fmt: skip
    assert [ON_DEMAND in column.css for column in table.columns] == [False] * 6 + [True] * 3
    texts_by_name = {line.cells[0].text: [cell.text for cell in line.cells[1:]] for line in table.rows}
    thin = format.THIN
    assert texts_by_name["port"] == ["32x8", "37", f"2{thin}050", "0", f"75.0{thin}%", f"51{thin}200", "–", "6"]
    assert texts_by_name["host"] == ["–", "–", "4", "–", "–", "–", "12", "–"] and "on Some CPU" in line(table, "host")
    assert texts_by_name["library"] == ["–"] * 8 and texts_by_name["wrong"] == [
        "failed: not verified: error 2e-06, allowed 1e-06",
        "",
    ]
    assert [note.split(":")[0] for note in table.notes[1:]] == ["CUDA", "OpenCL", "Occupancy is as the driver counts."]
    assert table.frame.registers.tolist()[0] == 37 and table.frame.registers[1:].isna().all()
    only = report.resources(CaseData(rows, ["host"], "256x256"))
    assert [note.split(":")[0] for note in only.notes[1:]] == ["OpenCL"] and len(only.columns) == 3
    with pytest.raises(UsageError, match="no verified variant on 256x256 reports the resources of its kernel"):
        report.resources(CaseData(rows, ["wrong", "library"], "256x256"))


def test_occupancy_of_an_older_row_is_counted_again_where_the_row_has_what_it_takes() -> None:
    """An older rule took the registers of a multiprocessor for one pool: 5 groups of 160 where 4 fit."""
    limits = {"groups_by_local_memory": 228, "groups_by_work_items": 12}
    old = {"registers": 80, "local_bytes": 0, "groups_by_registers": 5, **limits, "occupancy": 25 / 64}
    device: dict[str, Any] = {
        "provenance": json.dumps({"environment": {"device": {"device": "NVIDIA H200, sm_90"}}}),
        "backend": "cuda",
    }
    rows = frame(
        row_with_facts("old", facts=old | {"group": "160x1"}, **device),
        row_with_facts("groupless", facts=old, **device),
        row_with_facts(
            "new",
            facts=old | {"group": "160", "groups_by_registers": 4, "occupancy": 0.3125, "occupancy_by": "driver"},
            **device,
        ),
    )
    table = report.resources(CaseData(rows, ["old", "groupless", "new"], "256x256"))
    facts = table.frame.set_index("variant")
    assert facts.groups_by_registers.tolist() == [4, 5, 4]
    assert facts.occupancy.tolist() == [0.3125, 25 / 64, 0.3125]
    assert [note for note in table.notes if note.startswith("Occupancy")] == [
        "Occupancy by the rule of cuda_occupancy.h: old.",
        "Occupancy as the driver counts: new.",
    ]
    assert [note for note in table.notes if "older rule" in note] == [
        "By an older rule, which took all registers for one pool: the groups by registers of groupless."
    ]
