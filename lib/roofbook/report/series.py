"""Time over something of the case, such as its sparsity: a line for each variant, and where two of them cross."""

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.readings import Reading, Speedup, faster, newest
from ..errors import UsageError
from ..measure import stats
from ..measure.stats import CONFIDENCE
from .bars import absences
from .cell_format import ratio_cell, ratio_head, run_notes, usual_how
from .figure import FONT, INK, WIDTH, Figure, describe, finish, style, tell
from .html import Cell, Row, Table
from .ladder_table import RATIO_NOTE, ROUND_NOTE
from .sweeps import course, grouped, labelled, logarithmic
from .variant_style import styles_in_order

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Series

Found = Mapping[tuple[str, str], Reading]
"""(variant, case) -> its newest reading."""
Skipped = Mapping[tuple[str, str], str]
"""(variant, case) -> why it cannot be measured there."""

MOST_NUMBERS = 5
"""Crossings in a figure that have their numbers beside them; the table of crossings has all."""


def series(
    rows: "pd.DataFrame",
    series: "Series",
    *,
    skipped: Skipped | None = None,
    title: str = "",
    lab_order: Sequence[str] = (),
) -> Figure:
    """Time per unit, logarithmic, over x, a line for each variant with intervals; crossings of `against` are ringed.

    lab_order: all variants of the lab, by which each has its colour; (): those of the series.

    rows: store rows; the newest of each variant and case of `series` count. A point without a verified time is a gap in
    its line, and a note says why. UsageError where no point has a time.
    """
    import numpy as np
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

    found = _readings(rows, series)
    good = [each for each in found.values() if each.ok]
    if not good:
        raise UsageError(f"no point of the series over {series.axis} has a verified time")
    xs = [x for x, _ in series.points]
    log = _log(series)
    name, size = show.time_unit(each.median for each in good)
    drawn = [variant for variant in series.variants if any(each.variant == variant for each in good)]
    look = styles_in_order([*lab_order, *(variant for variant in series.variants if variant not in lab_order)])
    said = []
    with style():
        drawing = Drawing(figsize=(WIDTH, 3.9))
        ax = drawing.add_subplot()
        ax.set(xscale="log" if log else "linear", yscale="log")
        for variant in drawn:
            times = [found.get((variant, case)) for _, case in series.points]
            line = [(each.median, each.low, each.high) if each else (math.nan,) * 3 for each in times]
            middle, low, high = (np.array(column) / size for column in zip(*line, strict=True))
            mark = ax.errorbar(
                xs, middle, yerr=[middle - low, high - middle], label=variant, elinewidth=1.1,
                ms=5.5 if len(xs) <= 20 else 4, **look[variant].line,
            )  # fmt: skip
            points = [(show.tick(x), each.median) for x, each in zip(xs, times, strict=True) if each and each.ok]
            tell(mark[0], *(f"{variant} at {x}: {show.duration(seconds)}" for x, seconds in points))
            said.append(course(variant, points))
        rings = [ring for pair in series.against for ring in _rings(found, series, *pair)]
        for x, seconds, rises in rings:
            ax.plot([x], [seconds / size], "o", ms=13, mfc="none", mec=INK, mew=1.2, zorder=3)
            words: dict[str, Any] = {"textcoords": "offset points", "size": FONT - 1.5}
            side = -1 if rises else 1  # the number stands clear of both lines
            words |= {"xytext": (7 * side, 6), "ha": "right" if rises else "left"}
            if len(rings) <= MOST_NUMBERS:
                ax.annotate(show.number(x), (x, seconds / size), **words)
        places = {show.tick(x): x for x in xs}
        shown = labelled(list(places), places, log)
        ax.set_xticks([places[text] for text in shown], shown)
        ax.xaxis.set_minor_locator(FixedLocator([x for text, x in places.items() if text not in shown]))
        ax.xaxis.set_minor_formatter(NullFormatter())
        wide = max(each.high for each in good) / min(each.low for each in good) > 100
        ax.yaxis.set_major_locator(LogLocator(10, subs=(1.0,) if wide else (1.0, 2.0, 5.0)))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at)))
        ax.grid(True)
        ax.set_xlabel(series.along)
        ax.set_ylabel(f"time per {good[0].row['unit']}, {name}, logarithmic")
        if len(drawn) > 1:
            columns = 3 if max(map(len, drawn)) < 16 else 2
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2)
        notes = [f"Whiskers: {CONFIDENCE} interval of the median." + " Rings mark crossings." * bool(series.against)]
        told = describe(drawing, "; ".join(said))
        return finish(drawing, title or series.question, notes + _gaps(found, series, skipped or {}), description=told)


def crossings(rows: "pd.DataFrame", series: "Series", *, skipped: Skipped | None = None, caption: str = "") -> Table:
    """For each pair of `series.against`: from which x on the first is the faster one, and their ratio at both ends.

    skipped: see `series`. `Table.frame` has the x of each crossing, a list, in `crossings`.
    """
    import pandas as pd

    skipped = skipped or {}
    found = _readings(rows, series)
    ends = (series.points[0], series.points[-1])
    lines, records = [], []
    for one, other in series.against:
        points, ratios = _compared(found, series, one, other)
        at = cross([x for x, _ in points], ratios, _log(series))
        said = Cell(_said(at, ratios)) if ratios else Cell(show.DASH, "absent")
        at_ends = [
            faster(found.get((other, case)), found[one, case]) if (one, case) in found else None for _, case in ends
        ]
        lines.append(([Cell(one), Cell(other), said], at_ends))
        records.append(
            {"first": one, "second": other, "said": said.text, "crossings": at}
            | {
                f"at_{end}{which}": number
                for end, ratio in zip(ENDS, at_ends, strict=True)
                for which, number in _ends_of(ratio).items()
            }
        )
    hows = [usual_how(at_ends[end] for _, at_ends in lines) for end in range(len(ends))]
    shown = [
        Row([*named, *(ratio_cell(each, head_how=how) for each, how in zip(at_ends, hows, strict=True))])
        for named, at_ends in lines
    ]
    columns = [Cell("First"), Cell("Second"), Cell("The first is")]
    columns += [ratio_head(f"First vs second at {show.tick(x)}", how) for (x, _), how in zip(ends, hows, strict=True)]
    notes = [
        f"Along the series: {series.along}. A crossing is interpolated linearly in the logarithm of time, between neighbouring "
        "points where both have a time.",
        f"A crossing is claimed only between points where the {CONFIDENCE} interval of the ratio shows a difference.",
        RATIO_NOTE,
        ROUND_NOTE,
        *run_notes(found.values()),
        *_gaps(found, series, skipped),
    ]
    names = ["first", "second", "said", "crossings", *(f"at_{end}{which}" for end in ENDS for which in _ends_of(None))]
    frame = pd.DataFrame(records, columns=names)
    return Table(caption or series.question, columns, shown, frame, notes, "crossings")


ENDS = ("start", "end")


def _ends_of(ratio: Speedup | None) -> dict[str, float]:
    """Return a ratio and the ends of its interval by the endings of their fields; NaN without one."""
    numbers = (ratio.estimate, ratio.low, ratio.high) if ratio else (math.nan,) * 3
    return dict(zip(("", "_low", "_high"), numbers, strict=True))


def cross(xs: Sequence[float], ratios: Sequence[Speedup], log: bool = False) -> list[float]:
    """The x at which the logarithm of a ratio, straight between the points over x (`log`: over its logarithm), passes 0.

    xs: increasing. Points at which the ratio is the `same` as 1 bend the line, but are no proof of a side: a crossing
    lies between two others, on opposite sides.
    """
    places = [math.log(x) if log else x for x in xs]
    lead = [math.log(ratio.estimate) for ratio in ratios]
    at = []
    for left, right in pairwise(at for at, ratio in enumerate(ratios) if not ratio.same):
        if (lead[left] > 0) != (lead[right] > 0):
            low = next(low for low in range(left, right) if (lead[low] > 0) != (lead[low + 1] > 0))
            part = lead[low] / (lead[low] - lead[low + 1])
            place = places[low] + part * (places[low + 1] - places[low])
            at.append(math.exp(place) if log else place)
    return at


def _said(at: Sequence[float], ratios: Sequence[Speedup]) -> str:
    """What the first of a pair is; the ratios are those of all points at which both have a time."""
    sure = ["faster" if ratio.estimate > 1 else "slower" for ratio in ratios if not ratio.same]
    counts = {word: sum(ratio.word == which for ratio in ratios) for word, which in OPEN.items()}
    rest = ", ".join(f"{word} at {count}" for word, count in counts.items() if count)
    if not sure:
        return next((f"{word} at every point" for word, count in counts.items() if count == len(ratios)), rest)
    where = [show.number(x) for x in at]
    if len(at) > 1:
        turned = ["slower" if (step % 2 == 0) == (sure[0] == "faster") else "faster" for step in range(len(at))]
        said = "several: " + ", ".join(f"{what} from {x}" for what, x in zip(turned, where, strict=True))
    elif at:
        said = f"faster from {where[0]} on" if sure[-1] == "faster" else f"faster up to {where[0]}"
    else:
        where_sure = f"{len(sure)} point{'s' * (len(sure) != 1)}" if rest else "every point"
        said = f"{sure[0]} at {where_sure}"
    return f"{said}; {rest}" if rest else said


OPEN: dict[str, stats.Relation] = {"the same": "same", "undecided": "undecided"}
"""What is said of points at which no side is faster, by what a ratio comes to."""


def _compared(found: Found, series: "Series", one: str, other: str) -> tuple[list[tuple[float, str]], list[Speedup]]:
    """The points at which both have a verified time, and how many times as fast as the other the one is there."""
    pairs = [(point, found.get((other, point[1])), found.get((one, point[1]))) for point in series.points]
    ratios = [(point, faster(reference, own)) for point, reference, own in pairs if own]
    both = [(point, ratio) for point, ratio in ratios if ratio]
    return [point for point, _ in both], [ratio for _, ratio in both]


def _rings(found: Found, series: "Series", one: str, other: str) -> list[tuple[float, float, bool]]:
    """(x, seconds) of each crossing, on the line of the first, and whether the upper of both lines rises there."""
    points, ratios = _compared(found, series, one, other)
    xs, cases, log = [x for x, _ in points], [case for _, case in points], _log(series)
    own, upper = ([max(found[each, case].median for each in pair) for case in cases] for pair in ((one,), (one, other)))
    rings = []
    for x in cross(xs, ratios, log):
        at = min(bisect_right(xs, x), len(xs) - 1)
        low, here, high = (math.log(each) if log else each for each in (xs[at - 1], x, xs[at]))
        seconds = own[at - 1] * (own[at] / own[at - 1]) ** ((here - low) / (high - low))
        rings.append((x, seconds, upper[at] > upper[at - 1]))
    return rings


def _log(series: "Series") -> bool:
    return logarithmic([x for x, _ in series.points])


def _absence(found: Found, variant: str, case: str, skipped: Skipped) -> str:
    """Why a point has no verified time; '' where it has."""
    reading = found.get((variant, case))
    return reading.reason if reading else skipped.get((variant, case), "not measured")


def _gaps(found: Found, series: "Series", skipped: Skipped) -> list[str]:
    """Notes on the points that have no verified time: variants that have none at all for one reason, then points."""
    nowhere: dict[str, str] = {}
    points: dict[str, str] = {}
    for variant in series.variants:
        whys = {f"{variant} on {case}": _absence(found, variant, case, skipped) for _, case in series.points}
        if len(set(whys.values())) == 1:
            nowhere[variant] = next(iter(whys.values()))
        else:
            points |= whys
    lacking = {variant: why for variant, why in nowhere.items() if why}
    rest = {point: why for point, why in points.items() if why}
    return absences(list(lacking), lacking, lacking) + grouped(rest, len(series.variants) * len(series.points))


def _readings(rows: "pd.DataFrame", series: "Series") -> dict[tuple[str, str], Reading]:
    mine = rows[rows["variant"].isin(series.variants)] if len(rows) else rows
    cases = [case for _, case in series.points if len(mine) and (mine["case"] == case).any()]
    return {(each.variant, case): each for case in cases for each in newest(mine, case).values()}
