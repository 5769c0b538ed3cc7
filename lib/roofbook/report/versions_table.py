"""What changed of a lab's measurements over time, for a terminal: a line a version, or only those whose time is another."""

from collections.abc import Mapping, Sequence

from ..analysis import format as show
from ..analysis.history import Version, commit_of, oldest
from ..analysis.readings import text_field
from ..measure.stats import CONFIDENCE
from ..store.schema import CONTROL
from .cards_page import KINDS
from .cell_format import INTERVAL_WORDS
from .history_tables import NOTHING
from .html import Cell, Row, Table

HEADS = ("Measurement", "Since (UTC)", "Commit", "Runs", "Time", "Times as fast as before", "Why")
NUMBERS = ("Runs", "Time", "Times as fast as before")


def versions_tables(
    found: Mapping[tuple[str, ...], Sequence[Version]], lab: str, *, every: bool
) -> tuple[list[Table], list[str]]:
    """A table for each device, backend and scale, and what holds of all of them, in sentences.

    found: versions of measurements by `history.key_of`, each measurement's oldest first. every: all versions; without it those
    alone whose time is another than before, beyond the noise. Frames have all digits.
    """
    shown: dict[tuple[str, ...], list[tuple[tuple[str, ...], Version]]] = {}
    for key, versions in found.items():
        for version in versions:
            if every or version.changed:
                shown.setdefault(key[2:5], []).append((key, version))
    moved = sum(version.changed for versions in found.values() for version in versions)
    count = sum(len(versions) for versions in found.values())
    told = f"{_several(len(found), 'measurement')} in {_several(count, 'version')}"
    notes = [f"{told}; {_several(moved, 'change')} beyond the noise."]
    if shown:
        notes.append(f"Ratios with their {CONFIDENCE} interval; {INTERVAL_WORDS}.")
        notes.append("'these runs': of one or two runs on a side, so another may differ by more.")
    else:
        notes.append(NOTHING)
    return [_table(f"{lab} on {', '.join(place)}", those) for place, those in shown.items()], notes


def _table(caption: str, those: Sequence[tuple[tuple[str, ...], Version]]) -> Table:
    import pandas as pd

    heads = [Cell(head, "num" if head in NUMBERS else "wrap" if head == "Why" else "") for head in HEADS]
    lines = [Row(_cells(key, version)) for key, version in those]
    frame = pd.DataFrame([_record(key, version) for key, version in those])
    return Table(caption, heads, lines, frame, (), "history", {"seconds": "s"})


def _cells(key: tuple[str, ...], version: Version) -> list[Cell]:
    reading, ratio = version.reading, version.ratio
    first = oldest(reading).row
    name = f"{key[0]} on {key[1]}{' (A/A control)' if key[-1] == CONTROL else ''}"
    how = ""
    if ratio:
        text = show.factor(ratio.estimate, ratio.low, ratio.high) if version.changed else ratio.word
        how = f"({ratio.how})" if ratio.how else ""
    else:
        text = "" if reading.ok else "no time"
    return [
        Cell(name),
        Cell(f"{first['started']:%Y-%m-%d %H:%M}"),
        Cell((commit_of(first) or "")[:10]),
        Cell(str(len(reading.runs)), "num"),
        Cell(show.duration(reading.median) if reading.ok else "failed", "num"),
        Cell(text, "num", small=how),
        Cell(_why(version), "wrap"),
    ]


def _why(version: Version) -> str:
    told = [f"{KINDS[each.kind]}: {each.text}" for each in version.changes]
    return "; ".join([*told, *[version.reading.reason] * (not version.reading.ok)])


def _record(key: tuple[str, ...], version: Version) -> dict[str, object]:
    reading, ratio = version.reading, version.ratio
    first = oldest(reading).row
    named = dict(zip(("variant", "case", "device", "backend", "scale", "role"), key, strict=True))
    numbers = {"ratio": ratio.estimate, "low": ratio.low, "high": ratio.high, "word": ratio.word} if ratio else {}
    return {
        **named, "since": first["started"], "commit": commit_of(first), "runs": len(reading.runs), "seconds": reading.median,
        **numbers, "changed": version.changed, "why": _why(version), "run": text_field(first, "run"),
    }  # fmt: skip


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
