"""Figures of sweeps: over one number as lines, over two as a heat map."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, faster, fastest, newest, points_in_order
from ..analysis.sentences import joined, ratio_words
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .bars import MEDIAN_WHISKERS, bar, cross, heading, lanes, legend, vertical_line
from .effect_style import EFFECT_COLOURS, effect_of, shown_effect
from .figure import COLOURS, FONT, INK, NIGHT, PAPER, WIDTH, Figure, add_tips, describe, finish, style
from .html import StandingNote
from .ladder_table import sweep_readings
from .line_chart import SLANTED, add_line, finish_axes, line_axes, time_point
from .variant_style import style_at

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]?\d+)?|\bnan\b|\binf\b")
MOST_NAMED, MOST_KINDS = 3, 4  # most points and kinds of reasons in notes; others are counted
AXIS_CHARACTERS = 48  # characters that fit below the axis of a line figure


def line_sweep(rows: "pd.DataFrame", axis: str, *, title: str = "", notes: Sequence[str] = ()) -> Figure:
    """Draw time per unit over the points of a 1-D sweep, a line with intervals for each case.

    rows: store rows; those of role sweep with this axis count. Points that are numbers lie to scale (logarithmic from a factor
    of 8 on), others side by side. A failed point is a cross at the bottom, its reason a note. Errors: UsageError without such
    a sweep, or without a verified time.
    """
    sweep_rows = rows[(rows["role"] == "sweep") & (rows["axis"] == axis)] if len(rows) else rows
    if sweep_rows.empty:
        measured_axes = sorted(set(rows["axis"].dropna())) if len(rows) else []
        raise UsageError(f"no sweep over {axis}; measured: {', '.join(measured_axes) or 'none'}")
    points = points_in_order(str(point) for point in sweep_rows["point"])
    places, kind = _positions(points)
    lines = {
        str(name): [
            reading for _, one_line in group.groupby("device", sort=False) for reading in newest(one_line).values()
        ]
        for name, group in sweep_rows.groupby("case", sort=False)
    }
    good = [reading for readings in lines.values() for reading in readings if reading.ok]
    if not good:
        raise UsageError(f"no point of the sweep over {axis} has a verified time")
    name, size = show.time_unit(reading.median for reading in good)
    spans_decades = max(reading.median for reading in good) / min(reading.median for reading in good) > 20
    with style():
        ax = line_axes(xscale="log" if kind == "log" else "linear", yscale="log" if spans_decades else "linear")
        failures, courses, contradictions = {}, [], []
        for number, (label, readings) in enumerate(lines.items()):
            readings.sort(key=lambda reading: points.index(str(reading.row["point"])))
            timed = [(str(reading.row["point"]), reading) for reading in readings if reading.ok]
            line = [time_point(places[point], reading, size, f"{label}, {point}") for point, reading in timed]
            add_line(ax, label, line, **style_at(number).of())
            courses += [line_description(label, [(point, reading.median) for point, reading in timed])] * bool(timed)
            contradictions += median_notes(dict(timed), f"{label}, " * (len(lines) > 1))
            for reading in (reading for reading in readings if not reading.ok):
                point = str(reading.row["point"])
                mark = {"color": COLOURS["failed"], "ms": 7, "mew": 1.8, "transform": ax.get_xaxis_transform()}
                (cross,) = ax.plot(places[point], 0.02, "x", **mark)
                add_tips(cross, f"{label}, {point}: {reading.reason}")
                failures[f"{label}, {reading.row['axis']} = {point}"] = reading.reason
        if not spans_decades:
            ax.set_ylim(bottom=0)
        labels = points if kind == "words" else fitting_labels(points, places, log=kind == "log")
        slanted = kind == "words" and sum(map(len, points)) > AXIS_CHARACTERS - 3
        columns = min(3, len(lines)) if len(lines) > 1 else 0
        unit = good[0].row["unit"]
        ylabel = f"time per {unit}, {name}"
        finish_axes(ax, places, labels, axis, ylabel, slanted=slanted, columns=columns)
        reasons = reason_notes(failures, sum(map(len, lines.values())))
        return finish(
            ax.figure,
            title or f"Time per {unit} over {axis}",
            [StandingNote(f"Whiskers: {CONFIDENCE} interval of the median."), *contradictions, *notes, *reasons],
            description=describe(ax.figure, "; ".join(courses)),
            records=[
                {
                    "case": label, axis: reading.row["point"], "seconds": reading.median, "low": reading.low,
                    "high": reading.high,
                }
                for label, readings in lines.items()
                for reading in readings
                if reading.ok
            ],
        )  # fmt: skip


def line_description(name: str, points: Sequence[tuple[str, float]]) -> str:
    """Return a line in words: its first, least and last time. points: (label, seconds)."""
    (first, start), (least_point, least), (last, end) = points[0], min(points, key=lambda point: point[1]), points[-1]
    parts = [f"{show.duration(start)} at {first}"]
    parts += [f"least {show.duration(least)} at {least_point}"] * (
        show.duration(least) not in map(show.duration, (start, end))
    )
    parts += [f"{show.duration(end)} at {last}"] * (last != first)
    return f"{name}: {', '.join(parts)}"


def median_notes(readings: Mapping[str, Reading], case: str = "") -> list[str]:
    """Return a note on the points whose time contradicts their ratio to the fastest point; none if there are none.

    Points are measured in different runs, and a run on a slower machine makes the median of its points longer. readings: by
    point; those without a time are left out. case: beginning of the note, such as '256x256, '.
    """
    first = fastest(readings.values())
    pairs = [
        (ratio.basis, f"{ratio_words(ratio)} {point}")
        for point, reading in readings.items()
        if first and reading is not first and (ratio := faster(reading, first)) and ratio.contradicts(reading, first)
    ]
    best = next((point for point, reading in readings.items() if reading is first), "")
    notes = []
    for basis in dict.fromkeys(basis for basis, _ in pairs):
        ratios = [words for own_basis, words in pairs if own_basis == basis]
        subject = "The ratio" if len(ratios) == 1 else "Each ratio"
        notes.append(
            f"{case}{best} is {joined(ratios)}. {subject} {basis}; the times are medians of all runs of each point."
        )
    return notes


def _positions(points: Sequence[str]) -> tuple[dict[str, float], str]:
    """Return the x of each point, and the kind of the x axis: linear, log, or words side by side."""
    try:
        numbers = {point: float(point) for point in points}
    except ValueError:
        return {point: float(index) for index, point in enumerate(points)}, "words"
    return numbers, "log" if is_logarithmic(numbers.values()) else "linear"


def is_logarithmic(numbers: Collection[float]) -> bool:
    """Return whether an axis through these numbers is logarithmic: all above 0, and a factor of 8 or more between them."""
    return min(numbers) > 0 and max(numbers) / min(numbers) >= 8


def fitting_labels(points: Sequence[str], places: Mapping[str, float], log: bool) -> list[str]:
    """Return the points whose labels fit below the axis, each clear of the previous one."""
    positions = {point: math.log(places[point]) if log else places[point] for point in points}
    gap = (positions[points[-1]] - positions[points[0]]) / AXIS_CHARACTERS * (max(map(len, points)) + 0.5)
    chosen = [points[0]]
    for point in points[1:]:
        if positions[point] - positions[chosen[-1]] >= gap:
            chosen.append(point)
    return chosen


def reason_notes(reasons: Mapping[str, str], tried: int) -> list[str]:
    """Return a note for each kind of reason why there is no time; reasons that differ only in numbers are one kind.

    reasons: name of the failed -> reason. tried: how many were tried.
    """
    kinds: dict[str, dict[str, str]] = {}
    for name, reason in reasons.items():
        kinds.setdefault(NUMBER.sub("0", reason), {})[name] = reason
    by_frequency = sorted(kinds.values(), key=len, reverse=True)
    notes = []
    for kind in by_frequency[:MOST_KINDS]:
        first, reason = next(iter(kind.items()))
        is_one_reason = len(set(kind.values())) == 1
        subject = ", ".join(kind) if is_one_reason and len(kind) <= MOST_NAMED else f"{len(kind)} of {tried}"
        notes.append(f"{subject}: {reason}" if is_one_reason else f"{subject}, such as {first}: {reason}")
    unlisted = sum(map(len, by_frequency[MOST_KINDS:]))
    return notes + [f"{unlisted} of {tried}: other reasons, listed among the failures."] * bool(unlisted)


def sweep_kind(points: Collection[str]) -> str:
    """Return how the points of a sweep are drawn: `line` over a number, `map` over two, else `bars`, one for each point.

    >>> sweep_kind(["1", "2", "4"]), sweep_kind(["1x1", "1x2", "2x1", "2x2"]), sweep_kind(["1x1", "2x2", "4x4"])
    ('line', 'map', 'bars')
    """
    if all(NUMBER.fullmatch(point) for point in points):
        return "line"
    pairs = [point.split("/" if "/" in point else "x") for point in points]
    if any(len(pair) != 2 for pair in pairs):
        return "bars"
    across, down = (len({pair[side] for pair in pairs}) for side in (0, 1))
    return "map" if min(across, down) > 1 and 2 * len(pairs) > across * down else "bars"


def point_bars(data: CaseData, axis: str, *, title: str = "", notes: Sequence[str] = ()) -> Figure:
    """Draw the time of each point of a sweep as a bar, with its interval; its colour compares it with the swept variant.

    Errors: UsageError without such a sweep, or without a verified time.
    """
    readings, parent = sweep_readings(data.rows, axis, data.case)
    good = {point: reading for point, reading in readings.items() if reading.ok}
    if not good:
        raise UsageError(f"no point of the sweep over {axis} has a verified time")
    name, size = show.time_unit(reading.median for reading in good.values())
    unit = next(iter(good.values())).row["unit"]
    effects = {point: effect_of(reading, data.readings) for point, reading in good.items()}
    first = fastest(good.values())
    best = next(point for point, reading in good.items() if reading is first)
    with style():
        ax = lanes(len(readings), (0.0, 1.06 * max(reading.high for reading in good.values()) / size))
        for lane, (point, reading) in enumerate(readings.items()):
            heading(ax, lane, point, show.duration(reading.median) if reading.ok else "", point == best)
            if not reading.ok:
                cross(ax, lane, point, reading.reason)
                continue
            tip = f"{point}: {show.duration(reading.median)}, {effects[point]} {'as' if effects[point] == 'same' else 'than'}"
            whiskers = (reading.low / size, reading.high / size)
            bar(ax, lane, reading.median / size, EFFECT_COLOURS[effects[point]], "step", f"{tip} {parent}", whiskers)
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick))
        ax.set_xlabel(f"time per {unit}, {name}")
        legend(ax, (), effects=effects.values(), short=True)
        all_notes = [
            StandingNote(MEDIAN_WHISKERS),
            f"Colours compare a point with {parent}, which the sweep starts from. Bold: the fastest point.",
            *median_notes(good),
            *notes,
        ]
        words = "; ".join(f"{point} {show.duration(reading.median)}" for point, reading in good.items())
        records = [
            {
                axis: point, "compared_with": parent, "effect": effects[point], "seconds": reading.median,
                "low": reading.low, "high": reading.high,
            }
            for point, reading in good.items()
        ]  # fmt: skip
        described = describe(ax.figure, f"bars of time: {words}; fastest: {best}", with_texts=False)
        return finish(
            ax.figure, title or f"{parent}: sweep of {axis} on {data.case}", all_notes, (), described, records
        )


def worth_bars(data: CaseData, without: Mapping[str, str], best: str) -> Figure:
    """Draw the worth of each optimisation of the best version: its time without it over its time with it.

    without: optimisation -> name of the variant that is `best` without it. A bar's colour says whether the optimisation makes
    it faster. Errors: UsageError if `best` or all the others have no verified time.
    """
    readings = data.readings
    with_all = readings.get(best)
    ratios = {
        label: ratio
        for label, name in without.items()
        if with_all and with_all.ok and name in readings and (ratio := faster(readings[name], with_all))
    }
    if not ratios:
        raise UsageError(f"no optimisation of {best} was left out on {data.case} with a verified time")
    ends = [end for ratio in ratios.values() for end in (ratio.estimate, ratio.high) if math.isfinite(end)]
    effects = {label: shown_effect(ratio.word) for label, ratio in ratios.items()}
    with style():
        ax = lanes(len(ratios), (0.0, 1.06 * max(*ends, 1.0)))
        for lane, (label, ratio) in enumerate(ratios.items()):
            heading(ax, lane, label, f"{show.factor(ratio.estimate)}\u00d7")
            whiskers = (ratio.low, ratio.high) if math.isfinite(ratio.high) else None
            text = show.factor(ratio.estimate, ratio.low, ratio.high)
            tip = f"{label}: {best} is {text} times as fast as without it"
            bar(ax, lane, ratio.estimate, EFFECT_COLOURS[effects[label]], "step", tip, whiskers)
        vertical_line(ax, 1.0, range(len(ratios)), color=INK, lw=1.2, alpha=0.6)
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick) + "\u00d7")
        ax.set_xlabel(f"times as fast as {best} without it")
        legend(ax, (), effects=effects.values(), short=True)
        notes: list[str] = [StandingNote(f"Whiskers: {CONFIDENCE} interval of the ratio.")]
        missing = [label for label in without if label not in ratios]
        notes += [f"Without a time: {', '.join(missing)}."] * bool(missing)
        words = "; ".join(f"{label} {show.factor(ratio.estimate)}" for label, ratio in ratios.items())
        records = [
            {
                "optimisation": label,
                "effect": effects[label],
                "worth": ratio.estimate,
                "low": ratio.low,
                "high": ratio.high,
            }
            for label, ratio in ratios.items()
        ]
        described = describe(ax.figure, f"bars, as many times as fast as without it: {words}", with_texts=False)
        title = f"What each optimisation is worth in {best}, on {data.case}"
        return finish(ax.figure, title, notes, (), described, records)


def sweep_grid(
    data: CaseData, axis: str, skip_reasons: Mapping[str, str] | None = None
) -> "tuple[pd.DataFrame, dict[tuple[str, str], str]]":
    """Return a sweep whose points are pairs ('16x4', '64x112x16/4x8x2') as a frame of seconds per unit for `heat_map`.

    Its index is the second part, its columns the first. Also return the reasons of cells without a time, including those of
    `skip_reasons` (point -> reason why it was not tried). Errors: UsageError if a point is no pair.
    """
    import pandas as pd

    readings, _ = sweep_readings(data.rows, axis, data.case)
    skipped = skip_reasons or {}
    pairs = {point: point.split("/" if "/" in point else "x") for point in (*readings, *skipped)}
    not_pairs = [point for point, pair in pairs.items() if len(pair) != 2]
    if not_pairs:
        raise UsageError(f"point {not_pairs[0]!r} of the sweep over {axis!r} is no pair such as '16x4' or '64x112/4x8'")
    across = points_in_order(pair[0] for pair in pairs.values())
    down = points_in_order(pair[1] for pair in pairs.values())
    frame = pd.DataFrame(math.nan, index=down, columns=across)
    reasons = {}
    for point, reading in readings.items():
        first, second = pairs[point]
        frame.loc[second, first] = reading.median
        if not reading.ok:
            reasons[second, first] = reading.reason
    return frame, {**reasons, **{(pairs[point][1], pairs[point][0]): reason for point, reason in skipped.items()}}


class TimeGrid(NamedTuple):
    """A 2-D sweep as a heat map shows it."""

    frame: "pd.DataFrame"
    """Seconds per unit by row and column, NaN where there is no time."""
    reasons: Mapping[tuple[str, str], str]
    """(row, column) -> reason why there is no time."""
    best: tuple[int, int]
    """Numbers of the row and the column with the shortest time."""
    xlabel: str
    ylabel: str

    @property
    def times(self) -> "NDArray[np.float64]":
        """The seconds as an array."""
        times: NDArray[np.float64] = self.frame.to_numpy(float)
        return times

    @property
    def shortest(self) -> float:
        """The shortest time in seconds."""
        return float(self.times[self.best])

    def fitting(self) -> "TimeGrid":
        """Return the grid, its sides exchanged if the columns' labels are longer and do not fit side by side."""
        columns, rows = longest_label(self.frame.columns), longest_label(self.frame.index)
        if columns <= rows or _fits_across(columns, len(self.frame.columns)):
            return self
        reasons = {(column, row): reason for (row, column), reason in self.reasons.items()}
        return TimeGrid(self.frame.T, reasons, self.best[::-1], self.ylabel, self.xlabel)


def heat_map(
    frame: "pd.DataFrame",
    *,
    reasons: Mapping[tuple[str, str], str] | None = None,
    xlabel: str = "",
    ylabel: str = "",
    title: str = "",
    notes: Sequence[str] = (),
) -> Figure:
    """Draw the times of a 2-D sweep: seconds per unit by (index, column), the fastest framed, failed cells hatched.

    reasons: (index, column) -> reason why there is no time; cells that are merely absent stay empty. Colours are logarithmic.
    Columns and rows are exchanged if the columns' labels are longer and do not fit side by side. Errors: UsageError if every
    cell is empty.
    """
    import numpy as np
    from matplotlib.figure import Figure as Drawing

    times, reasons = frame.to_numpy(float), reasons or {}
    if not np.isfinite(times).any():
        raise UsageError("a heat map needs at least one time; every cell is empty")
    row, column = (int(number) for number in np.unravel_index(np.nanargmin(times), times.shape))
    grid = TimeGrid(frame, reasons, (row, column), xlabel, ylabel)
    unit, unit_s = show.time_unit([grid.shortest])
    fastest_text = f"{_pair(frame.columns[column], frame.index[row])}, {show.duration(grid.shortest)}"
    failures = {_pair(column, row): reason for (row, column), reason in reasons.items()}
    all_notes = [
        f"Medians in {unit}, darker is slower; framed: the shortest, {fastest_text}.",
        *notes,
        *reason_notes(failures, int(np.isfinite(times).sum()) + len(reasons)),
    ]
    grid = grid.fitting()
    with style():
        drawing = Drawing(figsize=(WIDTH, min(8.0, 0.42 * len(grid.frame.index) + 1.1)))
        ax = drawing.add_subplot()
        _add_tiles(ax, grid, unit_s)
        _label_sides(ax, grid)
        described = map_description(grid, fastest_text)
        return finish(drawing, title or "Time of each shape", all_notes, (), described, map_records(grid))


def _add_tiles(ax: Any, grid: TimeGrid, unit_s: float) -> None:
    """Draw a tile with its time for each cell that has one, a hatched tile for each that failed, and a frame around the best.

    unit_s: the unit of the times, in seconds.
    """
    import numpy as np
    from matplotlib.patches import Rectangle

    times, columns = grid.times, len(grid.frame.columns)
    colour_of = tile_colours(times)
    longest = max(len(show.number(time / unit_s)) for time in times[np.isfinite(times)])
    size = FONT - 1 if columns * longest <= 54 else FONT - 2.5
    for (row, column), time in np.ndenumerate(times):
        names = str(grid.frame.index[row]), str(grid.frame.columns[column])
        point = _pair(names[1], names[0])
        tile: dict[str, Any] = {"xy": (column + 0.03, row + 0.04), "width": 0.94, "height": 0.92}
        if math.isfinite(time):
            colour = colour_of(time)
            add_tips(ax.add_patch(Rectangle(**tile, color=colour, lw=0)), f"{point}: {show.duration(float(time))}")
            weight = "bold" if (row, column) == grid.best else "normal"
            middle: dict[str, Any] = {"ha": "center", "va": "center", "size": size, "weight": weight}
            ax.text(column + 0.5, row + 0.52, show.number(time / unit_s), color=text_colour(colour), **middle)
        elif names in grid.reasons:
            hatched = Rectangle(**tile, facecolor="none", hatch="////", edgecolor=COLOURS["failed"], lw=0.6)
            add_tips(ax.add_patch(hatched), f"{point}: {grid.reasons[names]}")
    row, column = grid.best
    ax.add_patch(Rectangle((column + 0.02, row + 0.02), 0.96, 0.96, fill=False, edgecolor=INK, lw=2.6))


def tile_colours(times: "NDArray[np.float64]") -> Callable[[float], str]:
    """Return the function from a time to its tile's colour: darker is slower, and equal ratios are equal steps."""
    import numpy as np
    from matplotlib.colors import LinearSegmentedColormap, LogNorm, to_hex

    ramp = LinearSegmentedColormap.from_list("roofbook", ["#cfe3f5", "#7fb1de", "#3d7fc1", "#1f4f86", "#14325a"])
    low, high = float(np.nanmin(times)), float(np.nanmax(times))
    norm = LogNorm(low, high if high > low else low * 1.01)
    return lambda time: to_hex(ramp(norm(time)))


def text_colour(tile_colour: str) -> str:
    """Return the colour of a text that can be read on a tile: light on a dark one."""
    from matplotlib.colors import to_rgb

    luminance = sum(part * share for part, share in zip(to_rgb(tile_colour), (0.3, 0.59, 0.11), strict=True))
    return PAPER if luminance < 0.55 else NIGHT


def _label_sides(ax: Any, grid: TimeGrid) -> None:
    """Set the axes of a heat map to its tiles, with a label for each column and row, and for both sides."""
    frame = grid.frame
    rows, columns = frame.shape
    ax.set(xlim=(0, columns), ylim=(rows, 0))
    slanted = not _fits_across(longest_label(frame.columns), columns)
    middles = [number + 0.5 for number in range(columns)]
    ax.set_xticks(middles, [str(label) for label in frame.columns], **(SLANTED if slanted else {}))
    ax.set_yticks([number + 0.5 for number in range(rows)], [str(label) for label in frame.index])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_xlabel(grid.xlabel or str(frame.columns.name or ""))
    ax.set_ylabel(grid.ylabel or str(frame.index.name or ""), labelpad=8)


def longest_label(labels: Iterable[object]) -> int:
    """Return the number of characters of the longest label."""
    return max(len(str(label)) for label in labels)


def _fits_across(characters: int, columns: int) -> bool:
    """Return whether the labels of so many columns fit side by side below the axis."""
    return (characters + 1) * columns <= AXIS_CHARACTERS


def map_description(grid: TimeGrid, fastest_text: str) -> str:
    """Return a heat map in words: the labels of both sides, the fastest point and the longest time."""
    sides = [
        f"{label or side}: {', '.join(map(str, points))}"
        for side, label, points in (
            ("across", grid.xlabel, grid.frame.columns),
            ("down", grid.ylabel, grid.frame.index),
        )
    ]
    longest = max(time for time in grid.times.flat if math.isfinite(time))
    return f"Heat map; {'; '.join(sides)}; fastest: {fastest_text}; slowest: {show.duration(float(longest))}"


def map_records(grid: TimeGrid) -> list[dict[str, Any]]:
    """Return a record for each time of a heat map: the labels of its column and row, and the seconds."""
    import numpy as np

    frame, across, down = grid.frame, grid.xlabel or "across", grid.ylabel or "down"
    return [
        {across: frame.columns[column], down: frame.index[row], "seconds": float(time)}
        for (row, column), time in np.ndenumerate(grid.times)
        if math.isfinite(time)
    ]


def _pair(first: str, second: str) -> str:
    r"""Return a point of two parts: '16 \u00d7 4', '64x112x16 / 4x8x2'."""
    return f"{first} / {second}" if "x" in f"{first}{second}" else f"{first} \u00d7 {second}"
