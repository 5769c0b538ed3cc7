"""A device's measured peaks: a table beside theoretical figures, and bandwidth over the working set."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from operator import itemgetter
from typing import TYPE_CHECKING

from ..analysis import format as show
from ..analysis.readings import Reading, cases_of, newest, number_field
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .cell_format import run_notes, time_cell
from .columns import Column, Fields, Line, count_column, table, table_of_readings, text_column
from .figure import FONT, INK, Figure, describe, finish, style
from .html import Cell, Table
from .line_chart import Point, add_line, finish_axes, line_axes
from .roofs import binary_size
from .variant_style import style_at

if TYPE_CHECKING:
    import pandas as pd


def peaks(rows: "pd.DataFrame", device: str, changes: Mapping[str, str]) -> Table:
    """Return a table with a line for each variant and case of lab `peaks`, in order: the measured and the theoretical figure.

    Theoretical figures need properties that the device reports. rows: of one device by one backend, all runs of each variant
    and case. changes: variant -> what it does. A peak whose units move or compute something is a rate; any other is the time
    of a unit.
    """
    sizes = len(set(rows[rows["bytes"] > 0]["bytes"])) > 1 if len(rows) else False
    readings = [reading for case in cases_of(rows) for reading in newest(rows, case).values()]
    served_by_cache = _bytes_served_by_caches(readings)

    def line(reading: Reading) -> Line:
        name, case = str(reading.row["variant"]), str(reading.row["case"])
        description = changes.get(name, name).rstrip(".")
        head = Cell(f"{description}, {case}" if sizes and reading.row["bytes"] else description)
        return Line(head, name, reading, fields={"peak": name, "case": case})

    def is_cached(reading: Reading) -> bool:
        rate = reading.facts.get("theory")
        return bool(rate and reading.row["bytes"] and reading.facts["amount"] <= served_by_cache.get(rate, 0))

    def theory(reading: Reading) -> float | None:
        return None if is_cached(reading) else reading.facts.get("theory")

    def theoretical(reading: Reading) -> Cell:
        rate, (words, unit) = theory(reading), _unit(reading)
        if not rate:
            return Cell(show.DASH, "num", small="(from a cache)" * is_cached(reading))
        return Cell(f"{show.number(rate / unit)}{show.THIN}{words}", "num")

    def share(reading: Reading) -> str | Cell:
        rate = theory(reading)
        return Cell(show.percent(_rate(reading)[0] / rate), "num", card_id=reading.id) if rate else show.DASH

    def theory_text(reading: Reading) -> Cell:
        return Cell(reading.facts["theory_is"] if theory(reading) else show.DASH, "wrap")

    estimates: Fields[Reading] = {
        "estimate": lambda reading: _rate(reading)[0],
        "low": lambda reading: _rate(reading)[1],
        "high": lambda reading: _rate(reading)[2],
        "unit": lambda reading: reading.facts["rate"] or "s",
        "samples": lambda reading: reading.samples,
        "units": lambda reading: reading.units,
    }
    columns: list[Column[Reading]] = [
        Column("Name", lambda reading: str(reading.row["variant"]), always=Cell),
        Column("Measured", _measured, "num", estimates),
        Column("Theoretical", theoretical, "num", {"on_paper": theory}),
        Column("Share", share, "num"),
        Column("Theoretical is", theory_text, on_demand=True),
    ]
    notes = [f"Median and its {CONFIDENCE} interval; bounds use the fastest sample.", *run_notes(readings)]
    if any(reading.ok and theory(reading) for reading in readings):
        notes += [
            "Theoretical: from the clock, unit count and width that the driver reports. 'All columns' shows each calculation."
        ]
    caption = f"Measured peaks of {device}"
    return table_of_readings(caption, "Peak", columns, list(map(line, readings)), notes, "peaks")


def _rate(reading: Reading) -> tuple[float, float, float]:
    """Return the rate of a peak with its interval; for a peak whose units move and compute nothing the time of a unit."""
    amount = reading.facts["amount"]
    if not amount:
        return reading.median, reading.low, reading.high
    return amount / reading.median, amount / reading.high, amount / reading.low


def _unit(reading: Reading) -> tuple[str, float]:
    """Return the unit of a peak's numbers in words, and its size."""
    prefix = show.prefix if reading.facts["amount"] else show.time_unit
    letter, size = prefix([_rate(reading)[0]])
    return letter + reading.facts["rate"], size


def _measured(reading: Reading) -> Cell:
    words, unit = _unit(reading)
    text = show.interval(*(end / unit for end in _rate(reading)))
    return Cell(f"{text}{show.THIN}{words}", "num", card_id=reading.id)


def peak_times(measured: Mapping[str, "pd.DataFrame"], case: str, changes: Mapping[str, str], *, caption: str) -> Table:
    """Return a table with a line for each peak of one case whose units are times, on each device.

    measured: device, as a reader knows it -> its rows of lab `peaks`, all runs of each variant. changes: variant -> what it
    does.
    """
    readings_by_device = {
        device: newest(rows, case) if case in cases_of(rows) else {} for device, rows in measured.items()
    }
    rows_of_peaks = [
        (device, readings[name])
        for name in changes
        for device, readings in readings_by_device.items()
        if name in readings and readings[name].ok
    ]
    letter, unit = show.time_unit(reading.median for _, reading in rows_of_peaks)
    columns: list[Column[tuple[str, Reading]]] = [
        text_column("Name", "peak", lambda row: row[1].variant),
        Column("What", lambda row: changes[row[1].variant].rstrip("."), "wrap"),
        text_column("Device", "device", itemgetter(0), "wrap"),
        Column(
            f"Time ({letter})", lambda row: replace(time_cell(row[1], unit), card_id=""), "num",
            {"seconds": lambda row: row[1].median}, "s",
        ),
        count_column("Runs", "runs", lambda row: len(row[1].runs)),
    ]  # fmt: skip
    notes = [
        f"Median and its {CONFIDENCE} interval, of the newest measurement on each device. A device without a line was not "
        "measured, or lacks the feature.",
        *run_notes(reading for _, reading in rows_of_peaks),
    ]
    return table(caption, columns, rows_of_peaks, notes)


ACTIONS = ("read", "copy", "write")
"""Streams that the figure of bandwidths shows."""


def bandwidths(rows: "pd.DataFrame", device: str) -> Figure:
    """Draw bytes/s over the working set, a line for each of ACTIONS; each level of the memory is a step.

    rows: of lab `peaks`, one device by one backend. Errors: UsageError if none of them has a verified row.
    """
    lines: dict[str, list[tuple[float, Reading]]] = {}
    for case in cases_of(rows):
        for name, reading in newest(rows, case).items():
            if name in ACTIONS and reading.ok:
                lines.setdefault(name, []).append((number_field(reading.row, "bytes"), reading))
    if not lines:
        raise UsageError(f"no stream of {device} has a verified time")
    theoretical = next(
        (reading.facts["theory"] for line in lines.values() for _, reading in line if "theory" in reading.facts), None
    )
    sizes = sorted({size for line in lines.values() for size, _ in line})
    with style():
        ax = line_axes(xscale="log")
        top, descriptions = 0.0, list[str]()
        for number, name in enumerate(action for action in ACTIONS if action in lines):
            points = [_point(name, size, reading) for size, reading in sorted(lines[name], key=itemgetter(0))]
            add_line(ax, name, points, **style_at(number).of())
            highest = max(points, key=lambda point: (point.y, point.x))
            descriptions.append(f"{name}: at most {show.number(highest.y)} GB/s, at {binary_size(highest.x)}")
            top = max(top, *(point.high for point in points))
        if theoretical:
            ax.axhline(theoretical / 1e9, color=INK, lw=1.2, ls=(0, (5, 2)))
            ax.annotate(
                f"memory, theoretical: {show.quantity(theoretical, 'B/s')}", (1, theoretical / 1e9), (-2, 4),
                ha="right", size=FONT - 1, xycoords=("axes fraction", "data"), textcoords="offset points",
            )  # fmt: skip
            top = max(top, theoretical / 1e9)
        ax.set_ylim(0, 1.08 * top)
        places = {binary_size(size): size for size in sizes}
        finish_axes(ax, places, list(places), "working set", "GB/s", slanted=True, columns=3)
        notes = [
            f"Whiskers: {CONFIDENCE} interval of the median. Working set and bytes of a copy are those of both buffers.",
            "Caches are as the previous passes left them: a cache serves every working set that fits into it.",
        ]
        description = describe(ax.figure, "; ".join(descriptions))
        records = [
            {"stream": name, "bytes": size, "seconds": reading.median, "low": reading.low, "high": reading.high}
            for name, line in lines.items()
            for size, reading in line
        ]
        title = f"Bandwidth of {device} by working set"
        return finish(ax.figure, title, notes, description=description, records=records)


def _point(name: str, size: float, reading: Reading) -> Point:
    """Return the rate of a stream over a working set, in GB/s."""
    rate, low, high = (size / seconds / 1e9 for seconds in (reading.median, reading.high, reading.low))
    return Point(size, rate, low, high, f"{name}, {binary_size(size)}: {show.number(rate)} GB/s")


def _bytes_served_by_caches(readings: Iterable[Reading]) -> Mapping[float, float]:
    """Return the most bytes that a cache serves, by the theoretical rate of the memory behind it.

    A stream faster than that rate is served by a cache, and so are slower streams of as many bytes or fewer. They have no
    share of the memory's rate.
    """
    served_by_cache: dict[float, float] = {}
    for reading in readings:
        rate = reading.facts.get("theory") if reading.ok and reading.row["bytes"] else None
        if rate and reading.facts["amount"] > rate * reading.median:
            served_by_cache[rate] = max(reading.facts["amount"], served_by_cache.get(rate, 0))
    return served_by_cache
