"""Table of the changes of a lab's measurements over time, for a terminal: all versions, or only those with another time."""

from collections.abc import Iterable, Sequence
from functools import partial
from operator import attrgetter

from ..analysis import format as show
from ..analysis.history import KEY, commit_of, key_of
from ..analysis.stretches import Stretch
from ..measure.stats import CONFIDENCE
from ..store.schema import CONTROL
from .cards_page import KINDS
from .cell_format import INTERVAL_WORDS
from .columns import Column, Fields, attributes, interval_fields, table
from .history_tables import NO_CHANGE
from .html import Cell, Table


def versions_tables(histories: Iterable[Sequence[Stretch]], lab: str, *, every: bool) -> tuple[list[Table], list[str]]:
    """Return a table for each device, backend and scale, and notes on all of them.

    histories: stretches of each measurement, the oldest first; without any there are no notes. every: list all of them;
    otherwise only those whose time differs from the previous one beyond the noise. Frames have all digits.
    """
    shown_by_device: dict[tuple[str, ...], list[Stretch]] = {}
    measurements = count = changes = 0
    for history in histories:
        measurements, count = measurements + 1, count + len(history)
        changes += sum(stretch.changed for stretch in history)
        for stretch in history:
            if every or stretch.changed:
                shown_by_device.setdefault(key_of(stretch.oldest)[2:5], []).append(stretch)
    if not measurements:
        return [], []
    counted = f"{show.several(measurements, 'measurement')} in {show.several(count, 'version')}"
    notes = [f"{counted}; {show.several(changes, 'change')} beyond the noise."]
    if shown_by_device:
        notes.append(f"Ratios with their {CONFIDENCE} interval; {INTERVAL_WORDS}.")
        notes.append("'these runs': of one or two runs on a side, so another may differ by more.")
    else:
        notes.append(NO_CHANGE)
    return [
        table(f"{lab} on {', '.join(device_parts)}", COLUMNS, shown, css="history")
        for device_parts, shown in shown_by_device.items()
    ], notes


def _name(stretch: Stretch) -> str:
    variant, case, *_, role = key_of(stretch.oldest)
    return f"{variant} on {case}{' (A/A control)' if role == CONTROL else ''}"


def _ratio(stretch: Stretch) -> str | Cell:
    if not (ratio := stretch.ratio):
        return "no time" if stretch.reason else ""
    text = show.factor(ratio.estimate, ratio.low, ratio.high) if stretch.changed else ratio.word
    return Cell(text, "num", small=f"({ratio.how})" if ratio.how else "")


def _why(stretch: Stretch) -> str:
    reasons = [f"{KINDS[change.kind]}: {change.text}" for change in stretch.changes]
    return "; ".join([*reasons, *[stretch.reason] * bool(stretch.reason)])


def _commit(stretch: Stretch) -> str | None:
    return commit_of(stretch.oldest)


def _identity(number: int, stretch: Stretch) -> str:
    return key_of(stretch.oldest)[number]


_IDENTITY: Fields[Stretch] = {name: partial(_identity, number) for number, name in enumerate((*KEY, "role"))}
COLUMNS: Sequence[Column[Stretch]] = (
    Column("Measurement", _name, fields=_IDENTITY),
    Column(
        "Since (UTC)",
        lambda stretch: f"{stretch.oldest['started']:%Y-%m-%d %H:%M}",
        fields={"since": lambda stretch: stretch.oldest["started"], "run": lambda stretch: stretch.oldest["run"]},
    ),
    Column("Commit", lambda stretch: (_commit(stretch) or "")[:10], fields={"commit": _commit}),
    Column("Runs", lambda stretch: str(stretch.runs), "num", {"runs": attrgetter("runs")}),
    Column(
        "Time",
        lambda stretch: "failed" if stretch.reason else show.duration(stretch.median),
        "num",
        {"seconds": attrgetter("median")},
        "s",
    ),
    Column(
        "Times as fast as before",
        _ratio,
        "num",
        {**interval_fields("ratio", attrgetter("ratio")), **attributes(attrgetter("ratio"), {"word": "word"})},
    ),
    Column("Why", _why, "wrap", {"changed": attrgetter("changed"), "why": _why}),
)
