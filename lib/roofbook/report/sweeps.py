"""Figures of sweeps: one number varied as lines, two as a heat map."""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import newest, points_in_order
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .figure import COLOURS, FONT, NIGHT, PAPER, SERIES, WIDTH, Figure, add_tips, describe, finish, style
from .html import StandingNote
from .ladder_table import swept

if TYPE_CHECKING:
    import pandas as pd

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?|\bnan\b|\binf\b")
NAMED, KINDS = 3, 4  # so many cells are named, so many kinds of reasons are told; the others are counted
ROOM = 48  # characters that fit below the axis of a line figure


def line_sweep(
    rows: "pd.DataFrame",
    axis: str | Sequence[str],
    *,
    series: str | None = None,
    case: str | None = None,
    title: str = "",
    xlabel: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """Time per unit over the points of a 1-D sweep, one line for each value of the column `series`, with intervals.

    rows: store rows; those of role sweep with this axis count. Several axes are a line each; for one, each case is.
    Points that are numbers lie to scale (logarithmic from a factor of 8 on), others side by side. A failed point is a
    cross at the foot, its reason a note.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    axes = [axis] if isinstance(axis, str) else list(axis)
    series = series or ("case" if len(axes) == 1 else "axis")
    mine = rows[(rows["role"] == "sweep") & rows["axis"].isin(axes)] if len(rows) else rows
    mine = mine if case is None or mine.empty else mine[mine["case"] == case]
    if mine.empty:
        known = sorted(set(rows["axis"].dropna())) if len(rows) else []
        where = f" on {case}" if case else ""
        raise UsageError(f"no sweep over {', '.join(axes)}{where}; measured: {', '.join(known) or 'none'}")
    points = points_in_order(str(point) for point in mine["point"])
    places, kind = _places(points)
    lines = {
        str(name): [each for _, own in group.groupby(["case", "device"], sort=False) for each in newest(own).values()]
        for name, group in mine.groupby(series, sort=False)
    }
    good = [reading for readings in lines.values() for reading in readings if reading.ok]
    if not good:
        raise UsageError(f"no point of the sweep over {', '.join(axes)} has a verified time")
    name, size = show.time_unit(reading.median for reading in good)
    wide = max(reading.median for reading in good) / min(reading.median for reading in good) > 20
    with style():
        drawing = Drawing(figsize=(WIDTH, 3.9))
        ax = drawing.add_subplot()
        ax.set(xscale="log" if kind == "log" else "linear", yscale="log" if wide else "linear")
        failures, said = {}, []
        for at, (label, readings) in enumerate(lines.items()):
            colour = SERIES[at % len(SERIES)]
            readings.sort(key=lambda reading: points.index(str(reading.row["point"])))
            ok = [reading for reading in readings if reading.ok]
            middle = [reading.median / size for reading in ok]
            arms = [
                [(reading.median - reading.low) / size for reading in ok],
                [(reading.high - reading.median) / size for reading in ok],
            ]
            mark = ax.errorbar(
                [places[str(reading.row["point"])] for reading in ok],
                middle,
                yerr=arms,
                color=colour,
                label=label,
                marker="osD^vP*"[at % 7],
                ms=5.5 if len(points) <= 20 else 4,
                elinewidth=1.1,
            )
            times = [(str(reading.row["point"]), reading.median) for reading in ok]
            add_tips(mark[0], *(f"{label}, {point}: {show.duration(seconds)}" for point, seconds in times))
            said += [course(label, times)] * bool(times)
            for reading in (each for each in readings if not each.ok):
                (cross,) = ax.plot(
                    places[str(reading.row["point"])],
                    0.02,
                    "x",
                    color=COLOURS["failed"],
                    ms=7,
                    mew=1.8,
                    transform=ax.get_xaxis_transform(),
                )
                add_tips(cross, f"{label}, {reading.row['point']}: {reading.reason}")
                failures[f"{label}, {reading.row['axis']} = {reading.row['point']}"] = reading.reason
        if not wide:
            ax.set_ylim(bottom=0)
        shown = points if kind == "words" else labelled(points, places, log=kind == "log")
        turned = kind == "words" and sum(map(len, points)) > ROOM - 3
        ax.set_xticks(
            [places[point] for point in shown],
            shown,
            rotation=45 if turned else 0,
            ha="right" if turned else "center",
            rotation_mode="anchor" if turned else "default",
        )
        ax.xaxis.set_minor_locator(FixedLocator([places[point] for point in points if point not in shown]))
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at)))
        ax.grid(True)
        ax.set_xlabel(xlabel or ", ".join(axes))
        ax.set_ylabel(f"time per {good[0].row['unit']}, {name}")
        if len(lines) > 1:
            ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(3, len(lines)), borderaxespad=0.2)
        return finish(
            drawing,
            title or f"Time per {good[0].row['unit']} over {', '.join(axes)}",
            [
                StandingNote(f"Whiskers: {CONFIDENCE} interval of the median."),
                *notes,
                *grouped(failures, sum(map(len, lines.values()))),
            ],
            description=describe(drawing, "; ".join(said)),
        )


def course(name: str, points: Sequence[tuple[str, float]]) -> str:
    """A line in words: what it starts, is least and ends at. points: the place of each, and seconds."""
    (first, start), (at, least), (last, end) = points[0], min(points, key=lambda point: point[1]), points[-1]
    said = [f"{show.duration(start)} at {first}"]
    said += [f"least {show.duration(least)} at {at}"] * (show.duration(least) not in map(show.duration, (start, end)))
    said += [f"{show.duration(end)} at {last}"] * (last != first)
    return f"{name}: {', '.join(said)}"


def _places(points: Sequence[str]) -> tuple[dict[str, float], str]:
    """Where each point lies on the x axis, and what that axis is: linear, log, or words side by side."""
    try:
        numbers = {point: float(point) for point in points}
    except ValueError:
        return {point: float(at) for at, point in enumerate(points)}, "words"
    return numbers, "log" if logarithmic(numbers.values()) else "linear"


def logarithmic(numbers: Collection[float]) -> bool:
    """Whether an axis through these is: all above 0, and a factor of 8 or more between them."""
    return min(numbers) > 0 and max(numbers) / min(numbers) >= 8


def labelled(points: Sequence[str], places: Mapping[str, float], log: bool) -> list[str]:
    """The points whose labels fit below the axis, each clear of the one before it."""
    at = {point: math.log(places[point]) if log else places[point] for point in points}
    gap = (at[points[-1]] - at[points[0]]) / ROOM * (max(map(len, points)) + 0.5)
    shown = [points[0]]
    for point in points[1:]:
        if at[point] - at[shown[-1]] >= gap:
            shown.append(point)
    return shown


def grouped(reasons: Mapping[str, str], of: int) -> list[str]:
    """Why there is no time, a note for each kind of reason: those that differ in their numbers alone are one.

    reasons: what failed -> why. of: how many were tried.
    """
    kinds: dict[str, dict[str, str]] = {}
    for name, why in reasons.items():
        kinds.setdefault(NUMBER.sub("0", why), {})[name] = why
    often = sorted(kinds.values(), key=len, reverse=True)
    notes = []
    for kind in often[:KINDS]:
        first, why = next(iter(kind.items()))
        alike = len(set(kind.values())) == 1
        who = ", ".join(kind) if alike and len(kind) <= NAMED else f"{len(kind)} of {of}"
        notes.append(f"{who}: {why}" if alike else f"{who}, such as {first}: {why}")
    rest = [name for kind in often[KINDS:] for name in kind]
    return notes + [f"{len(rest)} of {of}: other reasons, listed among the failures."] * bool(rest)


def sweep_grid(
    data: CaseData, axis: str, skip_reasons: Mapping[str, str] | None = None, variant: str | None = None
) -> "tuple[pd.DataFrame, dict[tuple[str, str], str]]":
    """A sweep whose points are pairs ('16x4', '64x112x16/4x8x2') as a frame of seconds per unit for `heat_map`.

    Its index is the second part, its columns the first; beside it the reasons of the cells that have no time, those of
    `skip_reasons` (point -> why it was not tried) among them. UsageError where a point is no pair.
    """
    import pandas as pd

    readings, _ = swept(data.rows, axis, data.case, variant)
    skipped = skip_reasons or {}
    pairs = {point: point.split("/" if "/" in point else "x") for point in (*readings, *skipped)}
    odd = [point for point, pair in pairs.items() if len(pair) != 2]
    if odd:
        raise UsageError(f"point {odd[0]!r} of the sweep over {axis!r} is no pair such as '16x4' or '64x112/4x8'")
    across = points_in_order(pair[0] for pair in pairs.values())
    down = points_in_order(pair[1] for pair in pairs.values())
    frame = pd.DataFrame(math.nan, index=down, columns=across)
    reasons = {}
    for point, reading in readings.items():
        first, second = pairs[point]
        frame.loc[second, first] = reading.median
        if not reading.ok:
            reasons[second, first] = reading.reason
    return frame, {**reasons, **{(pairs[point][1], pairs[point][0]): why for point, why in skipped.items()}}


def heat_map(
    frame: "pd.DataFrame",
    *,
    reasons: Mapping[tuple[str, str], str] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """Times of a 2-D sweep: seconds per unit by (index, column), the fastest framed, cells without a time hatched.

    reasons: (index, column) -> why there is no time; cells that are merely absent stay empty. Colours are logarithmic.
    Drawn with columns and rows exchanged where the columns' labels are the longer ones and do not fit side by side.
    """
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_hex, to_rgb
    from matplotlib.figure import Figure as Drawing
    from matplotlib.patches import Rectangle

    reasons = reasons or {}
    times = frame.to_numpy(float)
    if not np.isfinite(times).any():
        raise UsageError("a heat map needs at least one time; every cell is empty")
    best = np.unravel_index(np.nanargmin(times), times.shape)
    name, size = show.time_unit([float(times[best])])
    where = _pair(frame.columns[best[1]], frame.index[best[0]])
    said = [f"Medians in {name}, darker is slower; framed: the fastest, {where}, {show.duration(float(times[best]))}."]
    tried = int(np.isfinite(times).sum()) + len(reasons)
    said += notes
    said += grouped({_pair(column, row): why for (row, column), why in reasons.items()}, tried)
    across, down = (max(len(str(each)) for each in side) for side in (frame.columns, frame.index))
    if across > down and (across + 1) * len(frame.columns) > ROOM:
        frame, times, best, xlabel, ylabel = frame.T, times.T, best[::-1], ylabel, xlabel
        reasons, across = {(column, row): why for (row, column), why in reasons.items()}, down
    height, width = times.shape
    ramp = LinearSegmentedColormap.from_list("roofbook", ["#cfe3f5", "#7fb1de", "#3d7fc1", "#1f4f86", "#14325a"])
    low, high = float(np.nanmin(times)), float(np.nanmax(times))
    norm = LogNorm(low, high if high > low else low * 1.01)
    longest = max(len(show.number(time / size)) for time in times[np.isfinite(times)])
    small = FONT - 1 if width * longest <= 54 else FONT - 2.5
    with style():
        drawing = Drawing(figsize=(WIDTH, min(8.0, 0.42 * height + 1.1)))
        ax = drawing.add_subplot()
        ax.set(xlim=(0, width), ylim=(height, 0))
        for (row, column), time in np.ndenumerate(times):
            key = (str(frame.index[row]), str(frame.columns[column]))
            tile: dict[str, Any] = {"xy": (column + 0.03, row + 0.04), "width": 0.94, "height": 0.92}
            if math.isfinite(time):
                colour = to_hex(ramp(norm(time)))
                dark = sum(part * share for part, share in zip(to_rgb(colour), (0.3, 0.59, 0.11), strict=True)) < 0.55
                told = f"{_pair(str(frame.columns[column]), str(frame.index[row]))}: {show.duration(float(time))}"
                add_tips(ax.add_patch(Rectangle(**tile, color=colour, lw=0)), told)
                ax.text(
                    column + 0.5,
                    row + 0.52,
                    show.number(time / size),
                    ha="center",
                    va="center",
                    size=small,
                    color=PAPER if dark else NIGHT,
                    weight="bold" if (row, column) == best else "normal",
                )
            elif key in reasons:
                hatched = Rectangle(**tile, facecolor="none", hatch="////", edgecolor=COLOURS["failed"], lw=0.6)
                add_tips(ax.add_patch(hatched), f"{_pair(key[1], key[0])}: {reasons[key]}")
        ax.add_patch(
            Rectangle((best[1] + 0.02, best[0] + 0.02), 0.96, 0.96, fill=False, edgecolor=COLOURS["peer"], lw=2.6)
        )
        turned = (across + 1) * width > ROOM
        ax.set_xticks(
            [at + 0.5 for at in range(width)],
            [str(each) for each in frame.columns],
            rotation=45 if turned else 0,
            ha="right" if turned else "center",
            rotation_mode="anchor" if turned else "default",
        )
        ax.set_yticks([at + 0.5 for at in range(height)], [str(each) for each in frame.index])
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlabel(xlabel or str(frame.columns.name or ""))
        ax.set_ylabel(ylabel or str(frame.index.name or ""), labelpad=8)
        sides = [
            f"{label or side}: {', '.join(map(str, points))}"
            for side, label, points in (("across", xlabel, frame.columns), ("down", ylabel, frame.index))
        ]
        fastest = f"fastest: {where}, {show.duration(float(times[best]))}"
        slowest = f"slowest: {show.duration(high)}"
        described = f"Heat map; {'; '.join(sides)}; {fastest}; {slowest}"
        return finish(drawing, title or "Time of each shape", said, description=described)


def _pair(first: str, second: str) -> str:
    """A point of two parts: '16 \u00d7 4', '64x112x16 / 4x8x2'."""
    return f"{first} / {second}" if "x" in f"{first}{second}" else f"{first} \u00d7 {second}"
