"""A table by its columns: each says its head, what it shows of a reading, and the fields it adds to the table's frame."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.readings import Reading, Speedup
from .cells import commit_notes, no_time, throttle_notes
from .html import Cell, Row, Table


@dataclass(frozen=True)
class Column:
    """One column. names: the fields in `Table.frame` that `values` gives, in this order; none for a column of words alone."""

    head: Cell
    cell: Callable[[Reading], Cell]
    names: tuple[str, ...] = ()
    values: Callable[[Reading], Sequence[Any]] = lambda _: ()
    always: Callable[[str], Cell] | None = None
    """What it says by the line's name alone: so it stands also beside a reason why there is no time. Only of last columns."""

    @staticmethod
    def of(name: str, head: Cell, cell: Callable[[Reading], Cell], value: Callable[[Reading], Any]) -> "Column":
        """A column of one field."""
        return Column(head, cell, (name,), lambda reading: (value(reading),))


@dataclass(frozen=True)
class Line:
    """One line of a table: its head, its reading or why there is none, and what marks it."""

    head: Cell
    variant: str
    reading: Reading | None
    lack: str = "not measured"
    css: str = ""
    fields: Mapping[str, Any] | None = None
    """What the frame says of it beside its columns' fields, also where it has no time."""


IDENTITY = ("variant", "parent", "role", "status", "reason", "device", "run")
"""The fields that every line has in the frame."""


def by_columns(
    caption: str, first: str, columns: Sequence[Column], lines: Sequence[Line], notes: Sequence[str], css: str
) -> Table:
    """A table of these lines. One without a verified time says why across all columns but those that stand `always`.

    first: the head of the lines' own heads.
    """
    import pandas as pd

    kept = [column for column in columns if column.always]
    rows, records = [], []
    for line in lines:
        reading = line.reading
        record = _identity(line) | dict(line.fields or {})
        if reading is None or not reading.ok:
            row = no_time([line.head], reading, len(columns) - len(kept), line.lack)
            rows.append(Row([*row.cells, *(each.always(line.variant) for each in kept if each.always)], row.css))
        else:
            rows.append(Row([line.head, *(column.cell(reading) for column in columns)], line.css))
            for column in columns:
                record |= dict(zip(column.names, column.values(reading), strict=True))
        records.append(record)
    own = dict.fromkeys(name for line in lines for name in line.fields or {})
    fields = [*own, *IDENTITY, *(name for column in columns for name in column.names)]
    heads = [Cell(first), *(column.head for column in columns)]
    shown = [line.reading for line in lines if line.reading]
    notes = [*notes, *throttle_notes(shown), *commit_notes(shown)]
    return Table(caption, heads, rows, pd.DataFrame(records, columns=fields), notes, css)


def _identity(line: Line) -> dict[str, Any]:
    reading = line.reading
    if reading is None:
        return {"variant": line.variant, "status": "missing", "reason": line.lack}
    return {
        "variant": line.variant, "parent": reading.parent, "role": reading.role, "device": reading.row["device"],
        "run": reading.row["run"], "status": "ok" if reading.ok else "failed", "reason": reading.why or None,
    }  # fmt: skip


RATIO_FIELDS = ("", "_low", "_high", "_same", "_how")


def ratio_column(
    name: str, head: Cell, cell: Callable[[Reading], Cell], ratio: Callable[[Reading], Speedup | None]
) -> Column:
    """A column of ratios: the estimate as `name`, its interval, whether it counts as none, and how it was taken."""

    def values(reading: Reading) -> Sequence[Any]:
        found = ratio(reading)
        return (found.estimate, found.low, found.high, found.same, found.how) if found else (None,) * len(RATIO_FIELDS)

    return Column(head, cell, tuple(f"{name}{ending}" for ending in RATIO_FIELDS), values)
