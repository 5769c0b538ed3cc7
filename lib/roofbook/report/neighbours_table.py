"""Table of the time that a measurement loses beside busy cards of its host. Serves the page on clusters."""

from collections.abc import Sequence
from dataclasses import replace

from ..analysis import format as show
from ..analysis.neighbours import BUSY, IDLE, IdleAgainstBusy
from ..store.schema import CONTROL
from .cell_format import ratio_cell, time_cell
from .html import Cell, Row, Table


def neighbours_table(pairs: Sequence[IdleAgainstBusy]) -> Table:
    """Return a table with a line for each measurement that was taken beside idle cards and beside busy ones."""
    import pandas as pd

    name, unit = show.time_unit(reading.median for pair in pairs for reading in (pair.idle, pair.busy))
    heads = [Cell("Measurement"), Cell("Device"), Cell(f"Beside idle cards ({name})", "num")]
    heads += [Cell(f"Beside a busy one ({name})", "num"), Cell("Idle against busy", "num")]
    lines, records = list[Row](), list[dict[str, object]]()
    for pair in pairs:
        row, ratio = pair.idle.row, pair.lost
        control = " (A/A control)" * (pair.idle.role == CONTROL)
        measurement, device = (
            f"{row['lab']} {row['case']} {pair.idle.variant}{control}",
            f"{row['device_name']}, {row['backend']}",
        )
        numbers = (time_cell(pair.idle, unit), time_cell(pair.busy, unit), ratio_cell(ratio))
        plain = [replace(cell, card_id="") for cell in numbers]  # no link: cards are on the lab's page
        lines.append(Row([Cell(measurement, "wrap"), Cell(device), *plain]))
        records.append({
            "lab": row["lab"], "case": row["case"], "variant": pair.idle.variant, "role": pair.idle.role,
            "device": device, "idle_seconds": pair.idle.median, "idle_runs": len(pair.idle.runs),
            "busy_seconds": pair.busy.median, "busy_runs": len(pair.busy.runs),
            "ratio": ratio.estimate if ratio else None,
            "ratio_low": ratio.low if ratio else None,
            "ratio_high": ratio.high if ratio else None,
        })  # fmt: skip
    notes = (
        f"Idle: no other card of the host was at work for more than {IDLE:g} % of the time, by NVML. Busy: another one was for "
        f"{BUSY:g} % at least, before the samples and after them. Both on the same card, by the same code.",
        "The ratio is across runs: above 1 where a busy neighbour costs time.",
    )
    units = {"idle_seconds": "s", "busy_seconds": "s"}
    return Table("A busy card beside the one that is measured", heads, lines, pd.DataFrame(records), notes, "", units)
