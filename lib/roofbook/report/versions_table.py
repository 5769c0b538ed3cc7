"""Table of the changes of a lab's measurements over time, for a terminal: all versions, or only those with another time."""

from collections.abc import Iterable, Sequence

from ..analysis import format as show
from ..analysis.history import Version, commit_of, oldest
from ..analysis.readings import text_field
from ..measure.stats import CONFIDENCE
from ..store.schema import CONTROL
from .cards_page import KINDS
from .cell_format import INTERVAL_WORDS
from .columns import Column, Record
from .history_tables import NO_CHANGE
from .html import Cell, Row, Table

KeyedVersion = tuple[tuple[str, ...], Version]
"""`history.key_of` of a measurement, and one of its versions."""


def versions_tables(
    histories: Iterable[tuple[tuple[str, ...], Sequence[Version]]], lab: str, *, every: bool
) -> tuple[list[Table], list[str]]:
    """Return a table for each device, backend and scale, and notes on all of them.

    histories: `history.key_of` and the versions of each measurement, the oldest first. They are read one by one, since those of
    a whole lab may take much memory; without any there are no notes. every: list all versions; otherwise only those whose time
    differs from the previous one beyond the noise. Frames have all digits.
    """
    import pandas as pd

    lines_by_device: dict[tuple[str, ...], list[tuple[Row, Record]]] = {}
    measurements = count = changes = 0
    for key, versions in histories:
        measurements, count = measurements + 1, count + len(versions)
        changes += sum(version.changed for version in versions)
        for version in versions:
            if every or version.changed:
                line = Row([column.cell_of((key, version)) for column in COLUMNS]), _record(key, version)
                lines_by_device.setdefault(key[2:5], []).append(
                    line
                )  # a version would hold all rows of its measurement
    if not measurements:
        return [], []
    counted = f"{_count_text(measurements, 'measurement')} in {_count_text(count, 'version')}"
    notes = [f"{counted}; {_count_text(changes, 'change')} beyond the noise."]
    if lines_by_device:
        notes.append(f"Ratios with their {CONFIDENCE} interval; {INTERVAL_WORDS}.")
        notes.append("'these runs': of one or two runs on a side, so another may differ by more.")
    else:
        notes.append(NO_CHANGE)
    return [
        Table(
            f"{lab} on {', '.join(device_parts)}",
            [column.head_cell for column in COLUMNS],
            [row for row, _ in lines],
            pd.DataFrame([record for _, record in lines]),
            css="history",
            units={"seconds": "s"},
        )
        for device_parts, lines in lines_by_device.items()
    ], notes


def _name(row: KeyedVersion) -> str:
    key = row[0]
    return f"{key[0]} on {key[1]}{' (A/A control)' if key[-1] == CONTROL else ''}"


def _ratio(row: KeyedVersion) -> str | Cell:
    version = row[1]
    if not (ratio := version.ratio):
        return "" if version.reading.ok else "no time"
    text = show.factor(ratio.estimate, ratio.low, ratio.high) if version.changed else ratio.word
    return Cell(text, "num", small=f"({ratio.how})" if ratio.how else "")


COLUMNS: Sequence[Column[KeyedVersion]] = (
    Column("Measurement", _name),
    Column("Since (UTC)", lambda row: f"{oldest(row[1].reading).row['started']:%Y-%m-%d %H:%M}"),
    Column("Commit", lambda row: (commit_of(oldest(row[1].reading).row) or "")[:10]),
    Column("Runs", lambda row: str(len(row[1].reading.runs)), "num"),
    Column("Time", lambda row: show.duration(row[1].reading.median) if row[1].reading.ok else "failed", "num"),
    Column("Times as fast as before", _ratio, "num"),
    Column("Why", lambda row: _why(row[1]), "wrap"),
)


def _why(version: Version) -> str:
    reasons = [f"{KINDS[change.kind]}: {change.text}" for change in version.changes]
    return "; ".join([*reasons, *[version.reading.reason] * (not version.reading.ok)])


def _record(key: tuple[str, ...], version: Version) -> Record:
    reading, ratio = version.reading, version.ratio
    first = oldest(reading).row
    identity = dict(zip(("variant", "case", "device", "backend", "scale", "role"), key, strict=True))
    numbers = {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high, "word": ratio.word} if ratio else {}
    return {
        **identity, "since": first["started"], "commit": commit_of(first), "runs": len(reading.runs), "seconds": reading.median,
        **numbers, "changed": version.changed, "why": _why(version), "run": text_field(first, "run"),
    }  # fmt: skip


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
