"""Tables as a list of columns and a list of rows: a column has its head, the cell of a row, and fields of the frame."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, Generic, TypeVar

from ..analysis import format as show
from ..analysis.readings import Reading, Speedup
from .cell_format import (
    commit_notes,
    compiler_notes,
    ratio_cell,
    ratio_head,
    row_without_time,
    samples_cell,
    throttle_notes,
    time_cell,
    usual_how,
)
from .html import ON_DEMAND, Cell, Row, Table

T = TypeVar("T")
Record = Mapping[str, Any]
"""Row of a table whose frame has the same fields."""
Fields = Mapping[str, Callable[[T], Any]]
"""Fields of a frame by name, each with the function that reads it from a row."""


@dataclass(frozen=True)
class Column(Generic[T]):
    """One column of a table with rows of type T: all that the table has of it.

    head, cell: a text stands for a cell with the classes `css`.
    """

    head: str | Cell
    cell: Callable[[T], str | Cell]
    css: str = ""
    """Classes of the head and of cells that are texts: 'num' for figures, which are aligned right, 'wrap' for long texts."""
    fields: Fields[T] = field(default_factory=dict)
    unit: str = ""
    """Unit of the column's fields, if they are no ratios, as in `Table.units`."""
    on_demand: bool = False
    """Whether a page shows the column only when asked for all columns."""
    always: Callable[[str], Cell] | None = None
    """Cell made from the line's variant alone, so that lines without a time have it too."""

    @property
    def head_cell(self) -> Cell:
        return self.finished(self.head)

    def cell_of(self, row: T) -> Cell:
        return self.finished(self.cell(row))

    def finished(self, cell: str | Cell) -> Cell:
        """Return a cell with the classes of this column."""
        cell = Cell(cell, self.css) if isinstance(cell, str) else cell
        return replace(cell, css=f"{cell.css} {ON_DEMAND}".strip()) if self.on_demand else cell

    def record(self, row: T) -> dict[str, Any]:
        """Return the fields of a row."""
        return {name: read(row) for name, read in self.fields.items()}


def table(
    caption: str,
    columns: Sequence[Column[T]],
    rows: Iterable[T],
    notes: Sequence[str] = (),
    css: str = "",
    *,
    records: Iterable[Record] | None = None,
    units: Mapping[str, str] | None = None,
    fields: Sequence[str] | None = None,
    marks: Callable[[T], str] = lambda _: "",
) -> Table:
    """Return a table with a line for each row.

    records: lines of the frame, by default the fields of the columns for each row. units: of the records' fields. fields: the
    frame's columns, if not all records have all of them. marks: the CSS classes of a row.
    """
    rows = list(rows)
    if records is None:
        records = [_joined(column.record(row) for column in columns) for row in rows]
        fields = fields or [name for column in columns for name in column.fields]
    return Table(
        caption,
        [column.head_cell for column in columns],
        [Row([column.cell_of(row) for column in columns], marks(row)) for row in rows],
        list(records),
        notes,
        css,
        {name: column.unit for column in columns for name in column.fields} | dict(units or {}),
        fields=fields,
    )


def _joined(records: Iterable[Record]) -> dict[str, Any]:
    return {name: cell for record in records for name, cell in record.items()}


@dataclass(frozen=True)
class Line:
    """One line of a table of readings: its head, its reading or the reason why it has none, and its CSS classes."""

    head: Cell
    variant: str
    reading: Reading | None
    lack: str = "not measured"
    css: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the frame besides the columns' fields, also of a line without a time."""


IDENTITY_FIELDS = ("variant", "parent", "role", "status", "reason", "device", "run")
"""Fields of the frame that every line has."""


def table_of_readings(
    caption: str, first: str, columns: Sequence[Column[Reading]], lines: Sequence[Line], notes: Sequence[str], css: str
) -> Table:
    """Return a table of these lines. A line without a verified time has the reason instead.

    The reason spans the columns up to the first that has `always` or is shown on demand; cells after that are empty.
    first: head of the first column, which holds the lines' heads.
    """
    rows, records = [], []
    for line in lines:
        reading = line.reading
        records.append(_identity_fields(line) | dict(line.fields))
        if reading is None or not reading.ok:
            rows.append(_reason_row(line, columns))
        else:
            rows.append(
                Row([line.head, *(column.cell_of(reading) for column in columns)], line.css, variant=line.variant)
            )
            records[-1] |= _joined(column.record(reading) for column in columns)
    field_names = dict.fromkeys(name for line in lines for name in line.fields)
    fields = [*field_names, *IDENTITY_FIELDS, *(name for column in columns for name in column.fields)]
    readings = [line.reading for line in lines if line.reading]
    notes = [*notes, *throttle_notes(readings), *commit_notes(readings), *compiler_notes(readings)]
    units = {name: column.unit for column in columns for name in column.fields}
    heads = [Cell(first), *(column.head_cell for column in columns)]
    return Table(caption, heads, rows, records, notes, css, units, fields=fields)


def _reason_row(line: Line, columns: Sequence[Column[Reading]]) -> Row:
    """Return a row with its reason once. The reason ends at columns that a page hides, so that cells stay below their heads."""
    cells: list[Cell] = []
    row: Row | None = None
    for (by_name, _), group in groupby(columns, key=lambda column: (column.always, column.on_demand)):
        span = list(group)
        if by_name:
            cells += [column.finished(by_name(line.variant)) for column in span]
        elif row is None:
            row = row_without_time([], line.reading, len(span), line.lack)
            cells += row.cells
        else:
            cells.append(span[0].finished(Cell("", span=len(span))))
    return Row([line.head, *cells], row.css if row else "", variant=line.variant)


def _identity_fields(line: Line) -> dict[str, Any]:
    reading = line.reading
    if reading is None:
        return {"variant": line.variant, "status": "missing", "reason": line.lack}
    return {
        "variant": line.variant, "parent": reading.parent, "role": reading.role, "device": reading.row["device"],
        "run": reading.row["run"], "status": "ok" if reading.ok else "failed", "reason": reading.reason or None,
    }  # fmt: skip


def attributes(read: Callable[[T], Any], names: Mapping[str, str]) -> Fields[T]:
    """Return fields from the attributes of what `read` makes of a row; they are None where it makes None.

    names: field -> attribute.
    """

    def attribute(name: str, row: T) -> Any:
        return getattr(read(row), name, None)

    return {field_name: partial(attribute, name) for field_name, name in names.items()}


def interval_fields(name: str, read: Callable[[T], Any]) -> Fields[T]:
    """Return three fields: an estimate and the ends of its interval."""
    return attributes(read, {name: "estimate", f"{name}_low": "low", f"{name}_high": "high"})


def row_fields(*names: str) -> Fields[Reading]:
    """Return fields that are those of the reading's row of the store."""
    return {name: partial(_row_field, name) for name in names}


def _row_field(name: str, reading: Reading) -> Any:
    return reading.row.get(name)


def ratio_column(
    name: str,
    head: str,
    rows: Iterable[T],
    ratio: Callable[[T], Speedup | None],
    instead: Callable[[T], str] = lambda _: "",
    on_demand: bool = False,
) -> Column[T]:
    """Return a column of ratios: the estimate as `name`, its interval, whether it counts as none, and how it was taken.

    rows: those with a ratio; the head says how most ratios were taken. instead: a row's word in place of its ratio.
    """
    rows = list(rows)  # kept, since their ids name them
    ratios = {id(row): ratio(row) for row in rows}
    how = usual_how(ratios.values())

    def of_row(row: T) -> Speedup | None:
        return ratios[id(row)]

    def cell(row: T) -> Cell:
        word = instead(row)
        return Cell(word, "num base") if word else ratio_cell(of_row(row), head_how=how)

    fields = {**interval_fields(name, of_row), **attributes(of_row, {f"{name}_same": "same", f"{name}_how": "how"})}
    return Column(ratio_head(head, how), cell, fields=fields, on_demand=on_demand)


def time_column(unit: str, scale: tuple[str, float], head: str = "Time per {unit} ({name})") -> Column[Reading]:
    """Return the column of the median with its interval. scale: name of the column's unit, and its seconds."""
    fields = attributes(lambda reading: reading, {"seconds": "median", "low": "low", "high": "high"})
    text = head.format(unit=unit, name=scale[0])
    return Column(text, lambda reading: time_cell(reading, scale[1]), "num", fields, f"s per {unit}")


def samples_column() -> Column[Reading]:
    """Return the column of the samples: how many in how many runs, and how many units each of them repeats."""
    fields: Fields[Reading] = {
        "n": lambda reading: reading.samples,
        "units": lambda reading: reading.units,
        "runs": lambda reading: len(reading.runs),
    }
    return Column("Samples", samples_cell, "num", fields, on_demand=True)


def text_column(head: str, name: str, text: Callable[[T], str], css: str = "") -> Column[T]:
    """Return a column of texts, which are the field `name`."""
    return Column(head, text, css, {name: text})


def number_column(
    head: str, name: str, read: Callable[[T], float], size: float = 1.0, unit: str = "", on_demand: bool = False
) -> Column[T]:
    """Return a column of numbers in units of `size`, with a dash for unknown ones, which are the field `name`."""
    return Column(head, lambda row: show.number(read(row) / size), "num", {name: read}, unit, on_demand)


def count_column(head: str, name: str, count: Callable[[T], int]) -> Column[T]:
    """Return a column of whole numbers, which are the field `name`."""
    return Column(head, lambda row: show.number(count(row), places=0), "num", {name: count})
