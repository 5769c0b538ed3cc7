"""The table of what busy cards of the host matter to a measurement. Serves the page on clusters."""

from collections.abc import Sequence
from dataclasses import replace

from ..analysis import format as show
from ..analysis.neighbours import BUSY, IDLE, IdleAgainstBusy
from ..store.schema import CONTROL
from .cell_format import ratio_cell, time_cell
from .html import Cell, Row, Table


def neighbours_table(found: Sequence[IdleAgainstBusy]) -> Table:
    """A line for each measurement that the store has beside idle cards and beside busy ones."""
    import pandas as pd

    name, unit = show.time_unit(one.median for each in found for one in (each.idle, each.busy))
    heads = [Cell("Measurement"), Cell("Device"), Cell(f"Beside idle cards ({name})", "num")]
    heads += [Cell(f"Beside a busy one ({name})", "num"), Cell("Idle against busy", "num")]
    lines, records = list[Row](), list[dict[str, object]]()
    for each in found:
        row, lost = each.idle.row, each.lost
        control = " (A/A control)" * (each.idle.role == CONTROL)
        what, device = (
            f"{row['lab']} {row['case']} {each.idle.variant}{control}",
            f"{row['device_name']}, {row['backend']}",
        )
        found_cells = (time_cell(each.idle, unit), time_cell(each.busy, unit), ratio_cell(lost))
        plain = [replace(cell, of="") for cell in found_cells]  # their cards are on the page of the lab
        lines.append(Row([Cell(what, "wrap"), Cell(device), *plain]))
        records.append({
            "lab": row["lab"], "case": row["case"], "variant": each.idle.variant, "role": each.idle.role,
            "device": device, "idle_seconds": each.idle.median, "idle_runs": len(each.idle.runs),
            "busy_seconds": each.busy.median, "busy_runs": len(each.busy.runs),
            "ratio": lost.estimate if lost else None,
            "ratio_low": lost.low if lost else None,
            "ratio_high": lost.high if lost else None,
        })  # fmt: skip
    notes = (
        f"Idle: no other card of the host was at work for more than {IDLE:g} % of the time, by NVML. Busy: another one was for "
        f"{BUSY:g} % at least, before the samples and after them. Both on the same card, by the same code.",
        "The ratio is across runs: above 1 where a busy neighbour costs time.",
    )
    units = {"idle_seconds": "s", "busy_seconds": "s"}
    return Table("A busy card beside the one that is measured", heads, lines, pd.DataFrame(records), notes, "", units)
