"""Time over a property of the case, such as its sparsity: a line for each variant, and where two lines cross."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.readings import Reading, Speedup, faster, newest
from ..errors import UsageError
from ..measure import stats
from ..measure.stats import CONFIDENCE
from .bars import absences
from .cell_format import run_notes
from .columns import Column, ratio_column, table, text_column
from .figure import FONT, INK, Figure, describe, finish, style
from .html import Cell, Table
from .ladder_table import RATIO_NOTE, ROUND_NOTE
from .line_chart import add_line, finish_axes, line_axes, time_point
from .sweeps import fitting_labels, is_logarithmic, line_description, reason_notes
from .variant_style import styles_in_order

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Series

Readings = Mapping[tuple[str, str], Reading]
"""(variant, case) -> its newest reading."""
Skipped = Mapping[tuple[str, str], str]
"""(variant, case) -> reason why it cannot be measured there."""

MOST_NUMBERS = 5
"""Most crossings that a figure labels with their x; the table of crossings has them all."""


def series(
    rows: "pd.DataFrame",
    series: "Series",
    *,
    skipped: Skipped | None = None,
) -> Figure:
    """Draw time per unit, logarithmic, over x: a line for each variant with intervals; crossings of `against` are ringed.

    rows: store rows; the newest of each variant and case of `series` count. A point without a verified time is a gap in its
    line, and a note gives the reason. Errors: UsageError if no point has a time.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    readings = _newest_readings(rows, series)
    good = [reading for reading in readings.values() if reading.ok]
    if not good:
        raise UsageError(f"no point of the series over {series.axis} has a verified time")
    log = _is_logarithmic(series)
    name, size = show.time_unit(reading.median for reading in good)
    drawn = [variant for variant in series.variants if any(reading.variant == variant for reading in good)]
    styles = styles_in_order(series.variants)
    roles = {reading.variant: reading.role for reading in readings.values()}
    courses = []
    with style():
        ax = line_axes(xscale="log" if log else "linear", yscale="log")
        for variant in drawn:
            points = [
                time_point(x, readings.get((variant, case)), size, f"{variant} at {show.tick(x)}")
                for x, case in series.points
            ]
            add_line(ax, variant, points, **styles[variant].of(peer=roles[variant] in ("peer", "dsl")))
            timed = [(show.tick(point.x), point.y * size) for point in points if not math.isnan(point.y)]
            courses.append(line_description(variant, timed))
        rings = [ring for pair in series.against for ring in _rings(readings, series, *pair)]
        for x, seconds, rises in rings:
            ax.plot([x], [seconds / size], "o", ms=13, mfc="none", mec=INK, mew=1.2, zorder=3)
            words: dict[str, Any] = {"textcoords": "offset points", "size": FONT - 1.5}
            side = -1 if rises else 1  # the side on which the number is clear of both lines
            words |= {"xytext": (7 * side, 6), "ha": "right" if rises else "left"}
            if len(rings) <= MOST_NUMBERS:
                ax.annotate(show.number(x), (x, seconds / size), **words)
        spans_decades = max(reading.high for reading in good) / min(reading.low for reading in good) > 100
        ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0,) if spans_decades else (1.0, 2.0, 5.0)))
        ax.yaxis.set_minor_locator(NullLocator())
        places = {show.tick(x): x for x, _ in series.points}
        columns = (3 if max(map(len, drawn)) < 16 else 2) if len(drawn) > 1 else 0
        ylabel = f"time per {good[0].row['unit']}, {name}, logarithmic"
        labels = fitting_labels(list(places), places, log)
        finish_axes(ax, places, labels, series.along, ylabel, columns=columns)
        notes = [f"Whiskers: {CONFIDENCE} interval of the median." + " Rings mark crossings." * bool(series.against)]
        notes += ["Purple: peers."] * any(roles[variant] in ("peer", "dsl") for variant in drawn)
        records = [
            {
                "variant": variant, "role": roles[variant], series.axis: x, "case": case, "seconds": reading.median,
                "low": reading.low, "high": reading.high,
            }
            for variant in drawn
            for x, case in series.points
            if (reading := readings.get((variant, case))) and reading.ok
        ]  # fmt: skip
        description = describe(ax.figure, "; ".join(courses))
        return finish(
            ax.figure, series.question, notes + _gaps(readings, series, skipped or {}), (), description, records
        )


def crossings(rows: "pd.DataFrame", series: "Series", *, skipped: Skipped | None = None) -> Table:
    """Return a table with a line for each pair of `series.against`: where the first is faster, and their ratio at both ends.

    skipped: see `series`. `Table.frame` has the x of each crossing, a list, in `crossings`.
    """
    skipped = skipped or {}
    readings = _newest_readings(rows, series)

    def ratio_at(case: str, pair: tuple[str, str]) -> Speedup | None:
        first, second = pair
        return faster(readings.get((second, case)), readings[first, case]) if (first, case) in readings else None

    outcomes = {}
    for pair in series.against:
        points, ratios = _common_points(readings, series, *pair)
        crossing_xs = crossing_points([x for x, _ in points], ratios, _is_logarithmic(series))
        outcomes[pair] = crossing_xs, _outcome_text(crossing_xs, ratios) if ratios else ""
    columns: list[Column[tuple[str, str]]] = [
        text_column("First", "first", itemgetter(0)),
        text_column("Second", "second", itemgetter(1)),
        Column(
            "The first is",
            lambda pair: outcomes[pair][1] or Cell(show.DASH, "absent"),
            fields={"said": lambda pair: outcomes[pair][1] or show.DASH, "crossings": lambda pair: outcomes[pair][0]},
        ),
    ]
    for end, (x, case) in zip(ENDS, (series.points[0], series.points[-1]), strict=True):
        columns.append(
            ratio_column(f"at_{end}", f"First vs second at {show.tick(x)}", series.against, partial(ratio_at, case))
        )
    notes = [
        f"Along the series: {series.along}. A crossing is interpolated linearly in the logarithm of time, between neighbouring "
        "points where both have a time.",
        f"A crossing is claimed only between points where the {CONFIDENCE} interval of the ratio shows a difference.",
        RATIO_NOTE,
        ROUND_NOTE,
        *run_notes(readings.values()),
        *_gaps(readings, series, skipped),
    ]
    return table(series.question, columns, series.against, notes, "crossings")


ENDS = ("start", "end")
"""Names of the ends of a series in the fields of a frame."""


def crossing_points(xs: Sequence[float], ratios: Sequence[Speedup], log: bool = False) -> list[float]:
    """Return each x at which a ratio's logarithm, interpolated linearly over x (over its logarithm with `log`), passes 0.

    xs: increasing. Points at which the ratio is the `same` as 1 bend the line, but prove no side: a crossing lies between two
    other points, on opposite sides.
    """
    positions = [math.log(x) if log else x for x in xs]
    lead = [math.log(ratio.estimate) for ratio in ratios]
    crossing_xs = []
    for left, right in pairwise(index for index, ratio in enumerate(ratios) if not ratio.same):
        if (lead[left] > 0) != (lead[right] > 0):
            low = next(low for low in range(left, right) if (lead[low] > 0) != (lead[low + 1] > 0))
            part = lead[low] / (lead[low] - lead[low + 1])
            position = positions[low] + part * (positions[low + 1] - positions[low])
            crossing_xs.append(math.exp(position) if log else position)
    return crossing_xs


def _outcome_text(crossing_xs: Sequence[float], ratios: Sequence[Speedup]) -> str:
    """Describe where the first of a pair is faster. ratios: at all points at which both have a time."""
    sure = ["faster" if ratio.estimate > 1 else "slower" for ratio in ratios if not ratio.same]
    counts = {word: sum(ratio.word == relation for ratio in ratios) for word, relation in OPEN_RELATIONS.items()}
    open_points = ", ".join(f"{word} at {count}" for word, count in counts.items() if count)
    if not sure:
        return next((f"{word} at every point" for word, count in counts.items() if count == len(ratios)), open_points)
    numbers = [show.number(x) for x in crossing_xs]
    if len(crossing_xs) > 1:
        verdicts = [
            "slower" if (step % 2 == 0) == (sure[0] == "faster") else "faster" for step in range(len(crossing_xs))
        ]
        outcome = "several: " + ", ".join(f"{verdict} from {x}" for verdict, x in zip(verdicts, numbers, strict=True))
    elif crossing_xs:
        outcome = f"faster from {numbers[0]} on" if sure[-1] == "faster" else f"faster up to {numbers[0]}"
    else:
        at_points = show.several(len(sure), "point") if open_points else "every point"
        outcome = f"{sure[0]} at {at_points}"
    return f"{outcome}; {open_points}" if open_points else outcome


OPEN_RELATIONS: dict[str, stats.Relation] = {"the same": "same", "undecided": "undecided"}
"""Words for points at which neither variant is faster -> relation of their ratio."""


def _common_points(
    readings: Readings, series: "Series", first: str, second: str
) -> tuple[list[tuple[float, str]], list[Speedup]]:
    """Return the points at which both have a verified time, and how many times as fast the first is there."""
    pairs = [(point, readings.get((second, point[1])), readings.get((first, point[1]))) for point in series.points]
    ratios = [(point, faster(reference, reading)) for point, reference, reading in pairs if reading]
    compared = [(point, ratio) for point, ratio in ratios if ratio]
    return [point for point, _ in compared], [ratio for _, ratio in compared]


def _rings(readings: Readings, series: "Series", first: str, second: str) -> list[tuple[float, float, bool]]:
    """Return (x, seconds) of each crossing, on the line of the first, and whether the upper one of both lines rises there."""
    points, ratios = _common_points(readings, series, first, second)
    xs, cases, log = [x for x, _ in points], [case for _, case in points], _is_logarithmic(series)
    times_of_first, slower_times = (
        [max(readings[variant, case].median for variant in pair) for case in cases]
        for pair in ((first,), (first, second))
    )
    rings = []
    for x in crossing_points(xs, ratios, log):
        right = min(bisect_right(xs, x), len(xs) - 1)
        low, middle, high = (math.log(position) if log else position for position in (xs[right - 1], x, xs[right]))
        seconds = times_of_first[right - 1] * (times_of_first[right] / times_of_first[right - 1]) ** (
            (middle - low) / (high - low)
        )
        rings.append((x, seconds, slower_times[right] > slower_times[right - 1]))
    return rings


def _is_logarithmic(series: "Series") -> bool:
    return is_logarithmic([x for x, _ in series.points])


def _absence(readings: Readings, variant: str, case: str, skipped: Skipped) -> str:
    """Return why a point has no verified time; '' if it has one."""
    reading = readings.get((variant, case))
    return reading.reason if reading else skipped.get((variant, case), "not measured")


def _gaps(readings: Readings, series: "Series", skipped: Skipped) -> list[str]:
    """Return notes on points without a verified time: first variants that lack all for one reason, then single points."""
    reasons_by_variant: dict[str, str] = {}
    reasons_by_point: dict[str, str] = {}
    for variant in series.variants:
        reasons = {f"{variant} on {case}": _absence(readings, variant, case, skipped) for _, case in series.points}
        if len(set(reasons.values())) == 1:
            reasons_by_variant[variant] = next(iter(reasons.values()))
        else:
            reasons_by_point |= reasons
    lacking = {variant: reason for variant, reason in reasons_by_variant.items() if reason}
    lacking_points = {point: reason for point, reason in reasons_by_point.items() if reason}
    return absences(list(lacking), lacking, lacking) + reason_notes(
        lacking_points, len(series.variants) * len(series.points)
    )


def _newest_readings(rows: "pd.DataFrame", series: "Series") -> dict[tuple[str, str], Reading]:
    own_rows = rows[rows["variant"].isin(series.variants)] if len(rows) else rows
    cases = [case for _, case in series.points if len(own_rows) and (own_rows["case"] == case).any()]
    return {(reading.variant, case): reading for case in cases for reading in newest(own_rows, case).values()}
