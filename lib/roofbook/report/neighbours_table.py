"""Table of the time that a measurement loses beside busy cards of its host. Serves the page on clusters."""

from collections.abc import Sequence
from dataclasses import replace

from ..analysis import format as show
from ..analysis.neighbours import BUSY, IDLE, IdleAgainstBusy
from ..store.schema import CONTROL
from .cell_format import ratio_cell, time_cell
from .columns import Column, interval_fields, table, text_column
from .html import Cell, Table


def neighbours_table(pairs: Sequence[IdleAgainstBusy]) -> Table:
    """Return a table with a line for each measurement that was taken beside idle cards and beside busy ones."""
    name, unit = show.time_unit(reading.median for pair in pairs for reading in (pair.idle, pair.busy))

    def plain(cell: Cell) -> Cell:
        return replace(cell, card_id="")  # no link: cards are on the lab's page

    def measurement(pair: IdleAgainstBusy) -> str:
        row, control = pair.idle.row, " (A/A control)" * (pair.idle.role == CONTROL)
        return f"{row['lab']} {row['case']} {pair.idle.variant}{control}"

    def device(pair: IdleAgainstBusy) -> str:
        return f"{pair.idle.row['device_name']}, {pair.idle.row['backend']}"

    columns: list[Column[IdleAgainstBusy]] = [
        Column("Measurement", measurement, "wrap", {
            "lab": lambda pair: pair.idle.row["lab"], "case": lambda pair: pair.idle.row["case"],
            "variant": lambda pair: pair.idle.variant, "role": lambda pair: pair.idle.role,
        }),
        text_column("Device", "device", device),
        Column(f"Beside idle cards ({name})", lambda pair: plain(time_cell(pair.idle, unit)), "num", {
            "idle_seconds": lambda pair: pair.idle.median, "idle_runs": lambda pair: len(pair.idle.runs),
        }),
        Column(f"Beside a busy one ({name})", lambda pair: plain(time_cell(pair.busy, unit)), "num", {
            "busy_seconds": lambda pair: pair.busy.median, "busy_runs": lambda pair: len(pair.busy.runs),
        }),
        Column(
            "Idle against busy", lambda pair: plain(ratio_cell(pair.lost)), "num",
            interval_fields("ratio", lambda pair: pair.lost),
        ),
    ]  # fmt: skip
    notes = (
        f"Idle: no other card of the host was at work for more than {IDLE:g} % of the time, by NVML. Busy: another one was "
        f"for at least {BUSY:g} %, before the samples and after them. Both are of the same card and the same code.",
        "The ratio is across runs: above 1 where a busy neighbour costs time.",
    )
    units = {"idle_seconds": "s", "busy_seconds": "s"}
    return table("A busy card beside the one that is measured", columns, pairs, notes, units=units)
