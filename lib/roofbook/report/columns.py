"""A table made of columns: each has a head, a cell for each reading, and fields for the table's frame."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..analysis.readings import Reading, Speedup
from .cell_format import commit_notes, compiler_notes, row_without_time, throttle_notes
from .html import ON_DEMAND, Cell, Row, Table


@dataclass(frozen=True)
class Column:
    """One column of a table.

    names: fields of `Table.frame` that `values` returns, in this order; none for a column of text alone.
    """

    head: Cell
    cell: Callable[[Reading], Cell]
    names: tuple[str, ...] = ()
    values: Callable[[Reading], Sequence[Any]] = lambda _: ()
    always: Callable[[str], Cell] | None = None
    """Cell made from the line's variant alone, so that lines without a time have it too."""
    unit: str = ""
    """Unit of the column's fields, if they are no ratios, as in `Table.units`."""
    on_demand: bool = False
    """Whether a page shows the column only when asked for all columns."""

    @staticmethod
    def of(
        name: str,
        head: Cell,
        cell: Callable[[Reading], Cell],
        value: Callable[[Reading], Any],
        on_demand: bool = False,
        unit: str = "",
    ) -> "Column":
        """Return a column of one field."""
        return Column(head, cell, (name,), lambda reading: (value(reading),), on_demand=on_demand, unit=unit)


@dataclass(frozen=True)
class Line:
    """One line of a table: its head, its reading or the reason why it has none, and its CSS classes."""

    head: Cell
    variant: str
    reading: Reading | None
    lack: str = "not measured"
    css: str = ""
    fields: Mapping[str, Any] | None = None
    """Fields of the frame besides the columns' fields, also of a line without a time."""


IDENTITY_FIELDS = ("variant", "parent", "role", "status", "reason", "device", "run")
"""Fields of the frame that every line has."""


def table_of_columns(
    caption: str, first: str, columns: Sequence[Column], lines: Sequence[Line], notes: Sequence[str], css: str
) -> Table:
    """Return a table of these lines. A line without a verified time has the reason instead.

    The reason spans the columns up to the first that has `always` or is shown on demand; cells after that are empty.
    first: head of the first column, which holds the lines' heads.
    """
    import pandas as pd

    rows, records = [], []
    for line in lines:
        reading = line.reading
        record = _identity_fields(line) | dict(line.fields or {})
        if reading is None or not reading.ok:
            rows.append(_reason_row(line, columns))
        else:
            rows.append(
                Row([line.head, *(_marked_on_demand(column.cell(reading), column) for column in columns)], line.css)
            )
            for column in columns:
                record |= dict(zip(column.names, column.values(reading), strict=True))
        records.append(record)
    field_names = dict.fromkeys(name for line in lines for name in line.fields or {})
    fields = [*field_names, *IDENTITY_FIELDS, *(name for column in columns for name in column.names)]
    heads = [Cell(first), *(_marked_on_demand(column.head, column) for column in columns)]
    readings = [line.reading for line in lines if line.reading]
    notes = [*notes, *throttle_notes(readings), *commit_notes(readings), *compiler_notes(readings)]
    units = {name: column.unit for column in columns for name in column.names}
    return Table(caption, heads, rows, pd.DataFrame(records, columns=fields), notes, css, units)


def _marked_on_demand(cell: Cell, column: Column) -> Cell:
    return replace(cell, css=f"{cell.css} {ON_DEMAND}".strip()) if column.on_demand else cell


def _reason_row(line: Line, columns: Sequence[Column]) -> Row:
    """Return a row with its reason once. The reason ends at columns that a page hides, so that cells stay below their heads."""
    cells: list[Cell] = []
    row: Row | None = None
    for (by_name, _), group in groupby(columns, key=lambda column: (column.always, column.on_demand)):
        span = list(group)
        if by_name:
            cells += [_marked_on_demand(by_name(line.variant), column) for column in span]
        elif row is None:
            row = row_without_time([], line.reading, len(span), line.lack)
            cells += row.cells
        else:
            cells.append(_marked_on_demand(Cell("", span=len(span)), span[0]))
    return Row([line.head, *cells], row.css if row else "")


def _identity_fields(line: Line) -> dict[str, Any]:
    reading = line.reading
    if reading is None:
        return {"variant": line.variant, "status": "missing", "reason": line.lack}
    return {
        "variant": line.variant, "parent": reading.parent, "role": reading.role, "device": reading.row["device"],
        "run": reading.row["run"], "status": "ok" if reading.ok else "failed", "reason": reading.reason or None,
    }  # fmt: skip


RATIO_FIELDS = ("", "_low", "_high", "_same", "_how")


def ratio_column(
    name: str,
    head: Cell,
    cell: Callable[[Reading], Cell],
    ratio: Callable[[Reading], Speedup | None],
    on_demand: bool = False,
) -> Column:
    """Return a column of ratios: the estimate as `name`, its interval, whether it counts as none, and how it was taken."""

    def values(reading: Reading) -> Sequence[Any]:
        speedup = ratio(reading)
        return (
            (speedup.estimate, speedup.low, speedup.high, speedup.same, speedup.how)
            if speedup
            else (None,) * len(RATIO_FIELDS)
        )

    return Column(head, cell, tuple(f"{name}{ending}" for ending in RATIO_FIELDS), values, on_demand=on_demand)
