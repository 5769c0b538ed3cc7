"""The table of a device's measured ceilings: copy bandwidth by working set, and fp32 arithmetic."""

import json
from typing import TYPE_CHECKING

from roofbook.report import units as show
from roofbook.report.html import Cell, Row, Table
from roofbook.report.readings import Reading, read

if TYPE_CHECKING:
    import pandas as pd


def ceilings(rows: "pd.DataFrame", device: str) -> Table:
    """rows: the newest rows of lab `peaks` on one device. One line a working set, smallest first, then arithmetic."""
    import pandas as pd

    lines, records = [], []
    for row in rows.sort_values(["bytes", "case"]).to_dict("records"):
        reading = read(row)
        what = "copy, working set" if row["variant"] == "copy" else "fp32 multiply-adds in"
        name = f"{what} {row['case']}"
        if not reading.ok:
            lines.append(Row([Cell(name), Cell(f"failed: {reading.why}", "reason", span=2)], "failed"))
            continue
        amount = row["bytes"] or json.loads(row["extra"])["flops_per_unit"]
        rate, low, high = (amount / seconds / 1e9 for seconds in (reading.median, reading.high, reading.low))
        unit = "GB/s" if row["bytes"] else "GFLOP/s"
        lines.append(Row([Cell(name), Cell(show.interval(rate, low, high), "num"), Cell(unit)]))
        records.append({"ceiling": name, "rate": rate, "low": low, "high": high, "unit": unit, **_samples(reading)})
    columns = [Cell("Ceiling"), Cell("Rate", "num"), Cell("")]
    notes = [
        "Median of the samples and its 95 % interval; bounds are held against the fastest sample.",
        "A copy with a working set of n bytes reads n/2 and writes n/2.",
    ]
    return Table(f"What {device} was measured to do", columns, lines, pd.DataFrame(records), notes, "ceilings")


def _samples(reading: Reading) -> dict[str, int]:
    return {"samples": len(reading.times), "units": reading.units}
