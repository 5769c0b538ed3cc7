"""The tables of `roofbook history`: changes beyond the noise or all versions, by device, each with its cause."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from roofbook.analysis.stretches import Stretch, stretches
from roofbook.report.versions_table import versions_tables

from ..analysis.test_stretches import as_table
from .rows import row


def taken(day: int, seconds: float, **fields: Any) -> dict[str, Any]:
    """Return a row of a day of January, by the code of its `key`."""
    key = fields.pop("key", "old")
    columns = {
        "cell_key": key,
        "source_sha256": key,
        "env_key": "e",
        "provenance": '{"git": {"commit": "abcdef0123456"}}',
    }
    when = {"run": f"2026010{day}T000000Z-aaaaaa", "started": pd.Timestamp(f"2026-01-0{day}T10:00:00Z")}
    return row(fields.pop("variant", "fused"), seconds, **(columns | when | fields))


@pytest.fixture
def histories() -> list[list[Stretch]]:
    slower = [*(taken(day, 1e-3) for day in (1, 2, 3)), *(taken(day, 2e-3, key="new") for day in (4, 5, 6))]
    even = [taken(1, 1e-3, variant="soa"), taken(2, 1e-3, variant="soa", key="new")]
    failed = taken(3, 1e-3, variant="soa", key="newer", status="failed", reason="out of memory")
    on_cpu = taken(1, 1e-3, device="some-cpu")
    return list(stretches(as_table([*slower, *even, failed, on_cpu])))


def test_changes_alone_are_listed_with_their_cause(histories: list[list[Stretch]]) -> None:
    (table,), notes = versions_tables(histories, "Some lab", every=False)
    assert table.caption == "Some lab on some-gpu, opencl, quick"
    (line,) = table.rows
    texts = [cell.text for cell in line.cells]
    assert texts[:5] == ["fused on 256x256", "2026-01-04 10:00", "abcdef0123", "3", "2.01\u202fms"]
    assert texts[5].startswith("0.500 [") and texts[6] == "code: the kernel's source changed"
    assert table.frame["word"].tolist() == ["slower"] and table.frame["ratio"].iloc[0] == pytest.approx(0.5)
    assert notes[0] == "3 measurements in 6 versions; 1 change beyond the noise."


def test_all_versions_are_listed_device_by_device_failed_ones_too(
    histories: list[list[Stretch]],
) -> None:
    tables, _ = versions_tables(histories, "Some lab", every=True)
    assert [len(table.rows) for table in tables] == [5, 1]
    lines = {(cells[0].text, cells[1].text): cells for cells in (line.cells for line in tables[0].rows)}
    assert lines["soa on 256x256", "2026-01-02 10:00"][5].text == "undecided"
    failed = lines["soa on 256x256", "2026-01-03 10:00"]
    assert (failed[4].text, failed[5].text) == ("failed", "no time") and failed[6].text.endswith("; out of memory")


def test_nothing_that_changed_is_said_in_a_line(histories: list[list[Stretch]]) -> None:
    still = [history for history in histories if history[0].oldest["variant"] == "soa"]
    tables, notes = versions_tables(still, "Some lab", every=False)
    assert not tables and notes[1] == "No measurement changed beyond its noise."
