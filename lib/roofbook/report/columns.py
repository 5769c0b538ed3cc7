"""A table by its columns: each says its head, what it shows of a reading, and the fields it adds to the table's frame."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from ..analysis.readings import Reading, Speedup
from .cell_format import commit_notes, compiler_notes, row_without_time, throttle_notes
from .html import MORE, Cell, Row, Table


@dataclass(frozen=True)
class Column:
    """One column. names: the fields in `Table.frame` that `values` gives, in this order; none for a column of words alone."""

    head: Cell
    cell: Callable[[Reading], Cell]
    names: tuple[str, ...] = ()
    values: Callable[[Reading], Sequence[Any]] = lambda _: ()
    always: Callable[[str], Cell] | None = None
    """What it says by the line's name alone: so it stands also beside a reason why there is no time."""
    unit: str = ""
    """Of its fields that are no ratios, as `Table.units` has it."""
    more: bool = False
    """Whether a page shows it only when asked for all columns."""

    @staticmethod
    def of(
        name: str,
        head: Cell,
        cell: Callable[[Reading], Cell],
        value: Callable[[Reading], Any],
        more: bool = False,
        unit: str = "",
    ) -> "Column":
        """A column of one field."""
        return Column(head, cell, (name,), lambda reading: (value(reading),), more=more, unit=unit)


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
    """A table of these lines. One without a verified time says why across the columns before the first that stands `always`
    or is shown only when asked for; the others of it are empty.

    first: the head of the lines' own heads.
    """
    import pandas as pd

    rows, records = [], []
    for line in lines:
        reading = line.reading
        record = _identity(line) | dict(line.fields or {})
        if reading is None or not reading.ok:
            rows.append(_without_time(line, columns))
        else:
            rows.append(Row([line.head, *(_marked(column.cell(reading), column) for column in columns)], line.css))
            for column in columns:
                record |= dict(zip(column.names, column.values(reading), strict=True))
        records.append(record)
    own = dict.fromkeys(name for line in lines for name in line.fields or {})
    fields = [*own, *IDENTITY, *(name for column in columns for name in column.names)]
    heads = [Cell(first), *(_marked(column.head, column) for column in columns)]
    shown = [line.reading for line in lines if line.reading]
    notes = [*notes, *throttle_notes(shown), *commit_notes(shown), *compiler_notes(shown)]
    units = {name: column.unit for column in columns for name in column.names}
    return Table(caption, heads, rows, pd.DataFrame(records, columns=fields), notes, css, units)


def _marked(cell: Cell, column: Column) -> Cell:
    return replace(cell, css=f"{cell.css} {MORE}".strip()) if column.more else cell


def _without_time(line: Line, columns: Sequence[Column]) -> Row:
    """The reason once; a span ends where columns begin that a page hides, so that what it shows stays below its heads."""
    cells: list[Cell] = []
    row: Row | None = None
    for (own, _), group in groupby(columns, key=lambda column: (column.always, column.more)):
        span = list(group)
        if own:
            cells += [_marked(own(line.variant), column) for column in span]
        elif row is None:
            row = row_without_time([], line.reading, len(span), line.lack)
            cells += row.cells
        else:
            cells.append(_marked(Cell("", span=len(span)), span[0]))
    return Row([line.head, *cells], row.css if row else "")


def _identity(line: Line) -> dict[str, Any]:
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
    more: bool = False,
) -> Column:
    """A column of ratios: the estimate as `name`, its interval, whether it counts as none, and how it was taken."""

    def values(reading: Reading) -> Sequence[Any]:
        found = ratio(reading)
        return (found.estimate, found.low, found.high, found.same, found.how) if found else (None,) * len(RATIO_FIELDS)

    return Column(head, cell, tuple(f"{name}{ending}" for ending in RATIO_FIELDS), values, more=more)
