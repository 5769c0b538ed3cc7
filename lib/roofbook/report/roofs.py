"""The roofline figure: the rate of each variant under the measured peaks of its device, each dtype under its own roof."""

import math
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, fastest, home_of, newest, number_field, text_field
from ..analysis.roofline import work_unit
from ..errors import UsageError
from ..measure.stats import LEAST
from .bars import address_of
from .cell_format import launch_notes
from .effect_style import EFFECT_COLOURS, effect_of, legend_marks
from .figure import COLOURS, FONT, INK, WIDTH, Figure, add_tips, describe, finish, style
from .html import StandingNote

DASHES = (
    (0, (5, 2)),
    (0, (1.5, 1.5)),
    (0, (6, 2, 1.5, 2)),
    (0, (9, 3)),
)  # dashes of the other memory levels' diagonals
STYLES: Mapping[str, tuple[str, Any]] = {  # dtype -> (marker, dashes of its roof)
    "float32": ("o", "-"),
    "float64": ("X", (0, (9, 2))),
    "tfloat32": ("^", (0, (5, 1.5))),
    "float16": ("s", (0, (1.2, 1.2))),
    "bfloat16": ("D", (0, (5, 1.5, 1.2, 1.5))),
    "int8": ("v", (0, (5, 1.5, 1.2, 1.5, 1.2, 1.5))),
    "int32": ("P", (0, (2.5, 1.2))),
}
OTHER_STYLE = ("h", (0, (9, 2, 1.2, 2)))
LETTER, LINE = 0.56 * (FONT - 1) / 72, (FONT + 2) / 72  # width of a label's letter and height of its line, in inches
LEFT, BOTTOM, ACROSS, UP = 0.12, 0.12, 0.86, 0.85  # position and size of the axes, as shares of the drawing
FOOT = 0.03  # share of the axes' height that stays free below the names


@dataclass(frozen=True)
class Spot:
    """Position of a verified variant: FLOP/B by modelled and by counted bytes, and FLOP/s with its interval."""

    dtype: str
    x: float
    counted: float | None
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Frame:
    """Layout of the figure in decades (powers of ten).

    left, right, bottom, top: limits of the axes. column: x at which the names begin. lid: highest y of a name. corner: x at
    which the roofs' labels end. places: dtype -> y of its roof's label. height: of the axes, in inches.
    """

    left: float
    right: float
    bottom: float
    top: float
    column: float
    lid: float
    corner: float
    places: Mapping[str, float]
    height: float

    @property
    def scale(self) -> float:
        """Inches per decade on the y axis."""
        return self.height / (self.top - self.bottom)


def roofline_chart(data: CaseData) -> Figure:
    """Draw rate over arithmetic intensity, both logarithmic: a diagonal for each memory level, a flat roof for each dtype.

    The newest verified row of each step and peer with `flops` and `bytes` per unit is a marker with its interval: its shape
    is that of the dtype, its colour that of its effect over its parent. Rows from another device than most are left out. Arrows
    lead to the fastest step, and names are those of the steps on this way that gain most, and of the fastest peer: the others
    have theirs where a reader points. The diagonal of the working set is strong. Counted bytes make a second, hollow marker.
    `warnings` lists points above their diagonal or roof.

    Errors: UsageError without measured peaks, without a variant to draw, if no dtype of the variants has a measured peak,
    and for a count below 0.
    """
    from matplotlib.figure import Figure as Drawing

    if data.peaks is None:
        raise UsageError("no roofline: a peak of this device has no verified time; `roofbook run peaks` measures it")
    case, peaks, counted = data.case, data.peaks, data.counted_bytes
    readings = newest(data.rows, case, ["step", "peer"])
    ready = [name for name in data.order if name in readings and readings[name].ok and _has_work(readings[name])]
    home = home_of([readings[name] for name in ready])
    names = [name for name in ready if home.has(readings[name])]
    if not names:
        raise UsageError(f"no verified variant on {case} has FLOPs and bytes to place on a roofline")
    away = [name for name in ready if name not in names]
    spots = {name: _spot(readings[name], counted.get(name)) for name in names}
    present = {spot.dtype for spot in spots.values()}
    dtypes = [*(dtype for dtype in STYLES if dtype in present), *sorted(present - set(STYLES))]
    tops = {dtype: peaks.flops[dtype] for dtype in dtypes if dtype in peaks.flops}
    if not tops:
        raise UsageError(f"no peak of {', '.join(dtypes)} measured; peaks of: {', '.join(peaks.flops) or 'none'}")
    slope, levels = peaks.bandwidth_for(data.working_set), peaks.levels()
    slopes = {f"memory at this size: {show.quantity(slope, 'B/s')}": slope} | {
        f"up to {binary_size(level.size)}: {show.quantity(level.bandwidth, 'B/s')}": level.bandwidth
        for level in levels
        if abs(level.bandwidth / slope - 1) > 0.05
    }
    warnings = _warnings(spots, tops, slope, levels[-1].bandwidth)
    labels = {
        dtype: f"{dtype}: {show.quantity(top, work_unit(dtype) + '/s')}\nridge {show.number(top / slope)}"
        for dtype, top in sorted(tops.items(), key=lambda roof: roof[1])
    }
    way = data.way_to_fastest(names)
    named = names_shown(names, readings, way)
    effects = {name: effect_of(readings[name], data.readings) for name in names}
    frame = _frame(spots, named, tops, slope, max(slopes.values()), labels)
    with style():
        drawing = Drawing(figsize=(WIDTH, frame.height / UP))
        ax = drawing.add_axes((LEFT, BOTTOM, ACROSS, UP))
        ax.set(xscale="log", yscale="log")
        ax.set(xlim=(10**frame.left, 10**frame.right), ylim=(10**frame.bottom, 10**frame.top))
        _diagonals(ax, frame, slopes, slope, max(tops.values()))
        _roofs(ax, frame, tops, labels, slope, max(slopes.values()))
        _arrows(ax, spots, way)
        tips = {name: _tip(name, spot, tops, slope) for name, spot in spots.items()}
        for name, spot in spots.items():
            failed = any(name in names for names in warnings)
            colour = COLOURS["failed"] if failed else EFFECT_COLOURS[effects[name]]
            _marker(ax, spot, colour, tips[name], address_of(readings[name]))
        _names(ax, frame, {name: spots[name] for name in named})
        _label_axes(ax, dtypes, min(tops.values()))
        has_counted = any(spot.counted for spot in spots.values())
        _legends(ax, dtypes, tops, has_counted, frame.height, effects.values())
        reached = [tips[name] for name in named] + [tips[name] for name in names if name not in named]
        description = describe(drawing, f"reached: {'; '.join(reached)}", with_texts=False)
        notes = [
            *_notes(spots, tops, way, named),
            *launch_notes("Launch", data.bounds, [readings[name] for name in names]),
            *[f"Measured on another device, so not drawn: {', '.join(away)}."] * bool(away),
        ]
        records = _records(spots, readings, effects, tops, slope)
        return finish(drawing, f"Roofline of {case}", notes, list(warnings.values()), description, records)


def _label_axes(ax: Any, dtypes: Sequence[str], lowest_roof: float) -> None:
    """Label both axes, with the units of work of these dtypes and the prefix of the lowest roof."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    letter, unit = show.prefix([lowest_roof])
    works = list(dict.fromkeys(work_unit(dtype) for dtype in dtypes))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda tick, _: show.tick(tick)))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda tick, _: show.tick(tick / unit)))
    ax.xaxis.set_major_locator(LogLocator(10, numticks=6))
    for side in (ax.xaxis, ax.yaxis):
        side.set_minor_locator(NullLocator())
    ax.grid(True)
    ax.set_xlabel(f"arithmetic intensity, {' or '.join(f'{work}/B' for work in works)}")
    ax.set_ylabel(" or ".join(f"{letter}{work}/s" for work in works))


def _notes(spots: Mapping[str, Spot], tops: Mapping[str, float], way: Sequence[str], named: Sequence[str]) -> list[str]:
    """Return the notes that explain the points. way: names of the steps that arrows join. named: names on the figure."""
    notes: list[str] = [
        StandingNote(
            "Work is modelled, not counted: the fewest FLOPs and bytes that the algorithm needs. If the lab models "
            "variants separately, the bytes are those that the variant's data flow moves. More modelled traffic moves a "
            "point left; work beyond the model moves it down."
        )
    ]
    if way:
        notes.append(f"Arrows: the ladder's way from {way[0]} to its fastest step, {way[-1]}.")
    if len(named) < len(spots):
        notes.append("Other points have their names where you point at them.")
    if any(spot.counted for spot in spots.values()):
        notes.append(
            StandingNote(
                "Hollow: the same variant by the bytes that hardware counters saw at the device's memory. They lie left of "
                "the modelled point if more bytes were moved than modelled, and right of it if a cache served a part."
            )
        )
    if bare := [f"{name} ({spot.dtype})" for name, spot in spots.items() if spot.dtype not in tops]:
        notes.append(f"Peak of its precision not measured, so only memory bounds it here: {', '.join(bare)}.")
    return notes


def _records(
    spots: Mapping[str, Spot], readings: Mapping[str, Reading], effects: Mapping[str, str], tops: Mapping[str, float],
    slope: float,
) -> list[dict[str, Any]]:  # fmt: skip
    """Return the figure's numbers, a record for each point. slope: bytes/s at the working set."""
    return [
        {
            "variant": name, "role": readings[name].role, "parent": readings[name].parent, "effect": effects[name],
            "dtype": spot.dtype, "flop_per_byte": spot.x, "flop_per_byte_counted": spot.counted, "flop_per_s": spot.y,
            "low": spot.low, "high": spot.high, "roof": min(tops.get(spot.dtype, math.inf), spot.x * slope),
        }
        for name, spot in spots.items()
    ]  # fmt: skip


MOST_NAMES = 10
"""Most names on a roofline."""


def names_shown(names: Sequence[str], readings: Mapping[str, Reading], way: Sequence[str]) -> list[str]:
    """Return the names that a roofline shows: all if they are few, else some steps of the way and the fastest peer.

    Of the way these are the first step, the fastest, and those between that gain most over the step before them.
    """
    if len(names) <= MOST_NAMES:
        return list(names)
    fastest_step = fastest(readings[name] for name in names if readings[name].role == "step")
    path = list(way) or ([fastest_step.variant] if fastest_step else [])
    gains = {name: readings[before].median / readings[name].median for before, name in pairwise(path)}
    between = sorted(path[1:-1], key=lambda name: -gains[name])[: MOST_NAMES - 3]
    peer = fastest(readings[name] for name in names if readings[name].role == "peer")
    chosen = {*path[:1], *path[-1:], *between, peer.variant if peer else ""}
    return [name for name in names if name in chosen]


def _tip(name: str, spot: Spot, tops: Mapping[str, float], slope: float) -> str:
    unit, bound = work_unit(spot.dtype), min(tops.get(spot.dtype, math.inf), spot.x * slope)
    reached = f"{show.quantity(spot.y, f'{unit}/s')} at {show.number(spot.x)} {unit}/B"
    return f"{name}: {reached}, {show.percent(spot.y / bound)} of the roof above it ({spot.dtype})"


def _has_work(reading: Reading) -> bool:
    return number_field(reading.row, "flops") > 0 and number_field(reading.row, "bytes") > 0


def _spot(reading: Reading, counted: float | None) -> Spot:
    """Return the position of a verified reading. counted: bytes per unit; 0 (all from a cache) has no place on the axis."""
    if counted is not None and not (math.isfinite(counted) and counted >= 0):
        raise UsageError(f"{reading.variant}: {counted} bytes counted; a finite number of at least 0 is needed")
    flops = number_field(reading.row, "flops")
    return Spot(
        str(text_field(reading.row, "dtype")),
        flops / number_field(reading.row, "bytes"),
        flops / counted if counted else None,
        *(flops / seconds for seconds in (reading.median, reading.high, reading.low)),
    )


def _warnings(
    spots: Mapping[str, Spot], tops: Mapping[str, float], case_slope: float, memory: float
) -> dict[tuple[str, ...], str]:
    """Return a warning for each group of variants above the same bound, by their names.

    Modelled bytes are bounded by the diagonal `case_slope`, counted bytes by that of the device's memory. A dtype
    without a measured peak has the diagonals alone. A rate within LEAST times the bound is noise.
    """
    warnings, groups = {}, defaultdict[tuple[bool, float], list[str]](list)
    for name, spot in spots.items():
        modelled = min(tops.get(spot.dtype, math.inf), spot.x * case_slope)
        counted = spot.counted * memory if spot.counted else math.inf
        if spot.y > LEAST * min(modelled, counted):
            groups[counted < modelled, min(modelled, counted)].append(name)
    for (by_count, rate), names in groups.items():
        basis, wrong = ("", "the peaks, the work or the working set are")
        if by_count:
            basis, wrong = " by the bytes counted", "the peaks, the time or the count is"
        unit = f"{work_unit(spots[names[0]].dtype)}/s"
        reached = ", ".join(f"{name} {show.quantity(spots[name].y, unit)}" for name in names)
        warnings[tuple(names)] = f"Above the bound of {show.quantity(rate, unit)}{basis}: {reached}: {wrong} wrong."
    return warnings


def _frame(
    spots: Mapping[str, Spot],
    named: Sequence[str],
    tops: Mapping[str, float],
    slope: float,
    steepest: float,
    labels: Mapping[str, str],
) -> Frame:
    """Return a layout with room for points, ridges, names and labels.

    Names are right of the points and below the case's diagonal; the roofs' labels are left of all diagonals.
    """
    xs = [math.log10(x) for spot in spots.values() for x in (spot.x, spot.counted) if x]
    ys = [math.log10(spot.y) for spot in spots.values()]
    roofs = [math.log10(tops[dtype]) for dtype in labels]
    top = max(*roofs, *ys) + 0.3
    bottom = min(min(ys) - 0.45, roofs[0] - 0.6, top - 2.1)  # at least two powers of ten, so that the axis can be read
    column = max(max(xs) + 0.28, bottom + 0.8 * (top - bottom) - math.log10(slope))
    for ridge in (roof - math.log10(slope) for roof in roofs):  # a ridge is clear of the names or right of their start
        column = ridge + 0.28 if column - 0.28 < ridge <= column else column
    lid = min(roofs[-1], column + math.log10(slope))
    height = max(3.6, (1.1 * len(named) + 1.2) * LINE / ((lid - bottom) / (top - bottom) - FOOT))
    gap = 2.2 * LINE / height * (top - bottom)
    places = spread_apart(roofs, gap, bottom + gap / 2, top - gap / 2)
    corner = min(places) - gap / 2 - math.log10(steepest) - 0.06
    label = LETTER * max(len(line) for text in labels.values() for line in text.split("\n"))
    name = min(2.5, LETTER * max(len(name) for name in named))  # a longer name may leave the axes
    lefts, rights = (
        ((min(xs) - 0.75, 0.0), (corner, label)),
        ((roofs[-1] - math.log10(slope) + 0.3, 0.0), (column, name)),
    )
    spans = [(right - left, WIDTH * ACROSS - a - b) for left, a in lefts for right, b in rights]
    across = min(room / decades for decades, room in spans if decades > 0)  # inches per decade
    left, right = min(x - room / across for x, room in lefts), max(x + room / across for x, room in rights)
    return Frame(left, right, bottom, top, column, lid, corner, dict(zip(labels, places, strict=True)), height)


def _diagonals(ax: Any, frame: Frame, slopes: Mapping[str, float], case_slope: float, top: float) -> None:
    """Draw the bandwidth of each memory level up to the highest roof. Levels right of the case's own stop before the names."""
    for number, (label, slope) in enumerate(slopes.items()):
        end = top / slope if slope >= case_slope else min(top / slope, 10 ** (frame.column - 0.14))
        ends = [10**frame.left, end]
        width, dashes = (2.2, "-") if slope == case_slope else (1.2, DASHES[(number - 1) % len(DASHES)])
        ax.plot(ends, [x * slope for x in ends], color=INK, lw=width, ls=dashes, label=label)


def _roofs(
    ax: Any, frame: Frame, tops: Mapping[str, float], labels: Mapping[str, str], slope: float, steepest: float
) -> None:
    """Draw for each dtype a flat roof from the steepest diagonal on, its label, and a plumb line from its ridge.

    A roof whose ridge is left of the names stops before them; a plumb line right of them ends above them.
    """
    for dtype, label in labels.items():
        top, start, ridge = tops[dtype], tops[dtype] / steepest, tops[dtype] / slope
        is_beyond_names = ridge > 10**frame.column
        end, foot = (frame.right, frame.lid) if is_beyond_names else (frame.column - 0.14, frame.bottom)
        ax.plot([start, 10**end], [top, top], color=INK, lw=2.0, ls=_style(dtype)[1])
        ax.plot([ridge] * 2, [10**foot, top], color=INK, lw=0.8, ls=(0, (2, 3)), alpha=0.6)
        spot = 10**frame.corner, 10 ** frame.places[dtype]
        ax.plot([spot[0], start], [spot[1], top], color=INK, lw=0.6, alpha=0.35)
        ax.annotate(label, spot, (-3, 0), textcoords="offset points", ha="right", va="center", size=FONT - 1)


def _marker(ax: Any, spot: Spot, colour: str, tip: str, link: str) -> None:
    shape = _style(spot.dtype)[0]
    if spot.counted:
        ax.plot([spot.x, spot.counted], [spot.y] * 2, color=colour, lw=0.8)
        (hollow,) = ax.plot([spot.counted], [spot.y], shape, ms=6, mfc="none", color=colour, ls="none")
        add_tips(
            hollow,
            f"{tip.partition(':')[0]}: {show.number(spot.counted)} {work_unit(spot.dtype)}/B by the bytes counted",
        )
    # Drawn as by `Axes.errorbar`, which takes milliseconds for each.
    ax.plot([spot.x] * 2, [spot.low, spot.high], marker="_", ms=5, mew=1.0, lw=1.3, color=colour)
    (mark,) = ax.plot([spot.x], [spot.y], shape, ms=6, color=colour)
    add_tips(mark, tip, links=[link])


def _style(dtype: str) -> tuple[str, Any]:
    return STYLES.get(dtype, OTHER_STYLE)


def _legends(
    ax: Any, dtypes: Sequence[str], tops: Mapping[str, float], counted: bool, height: float, effects: Collection[str]
) -> None:
    """Draw the legend of the diagonals above the axes; below them those of effects, and of markers and roofs if several."""
    from matplotlib.lines import Line2D

    def entry(label: str, dtype: str, roof: bool = False, **line_style: Any) -> Line2D:
        shape, dashes = _style(dtype)
        return Line2D(
            [], [], color=INK, lw=1.6, marker=shape, ms=6, ls=dashes if roof else "none", label=label, **line_style
        )

    ax.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, borderaxespad=0.2, columnspacing=1.2)
    entries = [entry(dtype, dtype, dtype in tops) for dtype in dtypes] * (len(dtypes) > 1)
    if counted:
        entries += [entry("bytes modelled", dtypes[0]), entry("bytes counted", dtypes[0], mfc="none")]
    marks = legend_marks(effects)
    rows = 0.0
    for handles, columns in ((marks, 2), (entries, len(entries) if len(entries) <= 4 else -(-len(entries) // 2))):
        if handles:
            ax.figure.legend(
                handles=handles, loc="upper left", bbox_to_anchor=(-0.1, (-0.5 - rows * LINE) / height),
                bbox_transform=ax.transAxes, ncols=columns, borderaxespad=0.0, columnspacing=1.2, handlelength=2.6,
            )  # fmt: skip
            rows += 1.2 * -(-len(handles) // columns)


def _arrows(ax: Any, spots: Mapping[str, Spot], way: Sequence[str]) -> None:
    """Draw a curved arrow from each step of the way to the next, left of the markers."""
    for before, name in pairwise(way):
        ax.annotate(
            "",
            (spots[name].x, spots[name].y),
            (spots[before].x, spots[before].y),
            zorder=1.5,  # below the markers, which are to be clicked
            arrowprops={
                "arrowstyle": "-|>",
                "color": INK,
                "alpha": 0.7,
                "lw": 1.0,
                "shrinkA": 3,
                "shrinkB": 4,
                "connectionstyle": f"arc3,rad={-0.45 if spots[name].y >= spots[before].y else 0.45}",
            },
        )


def _names(ax: Any, frame: Frame, spots: Mapping[str, Spot]) -> None:
    """Write the names in a column right of the points, each as near to its point as possible, tied to it by a thin line."""
    gap = LINE / frame.scale
    ordered = sorted(spots, key=lambda name: spots[name].y)
    low = frame.bottom + FOOT * (frame.top - frame.bottom) + 0.6 * gap
    heights = spread_apart([math.log10(spots[name].y) for name in ordered], gap, low, frame.lid - 0.6 * gap)
    x = 10**frame.column
    for name, y in zip(ordered, heights, strict=True):
        ax.plot([spots[name].x, x / 1.06], [spots[name].y, 10**y], color=INK, lw=0.6, alpha=0.35, zorder=1)
        ax.text(x, 10**y, name, va="center", ha="left", size=FONT - 1)


def spread_apart(wishes: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Return values at least `gap` apart, in the order of the sorted `wishes`, with the least squared distance from these.

    They are then moved into [low, high]; if that is too short for them, they go below `low`.
    """
    blocks: list[tuple[float, int]] = []  # pool adjacent violators: (mean of wish - rank * gap, number of wishes)
    for rank, wish in enumerate(wishes):
        mean, count = wish - rank * gap, 1
        while blocks and blocks[-1][0] >= mean:
            block_mean, size = blocks.pop()
            mean, count = (mean * count + block_mean * size) / (count + size), count + size
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    last = len(wishes) - 1
    raised = [max(mean, low) + rank * gap for rank, mean in enumerate(means)]
    return [min(height, high - (last - rank) * gap) for rank, height in enumerate(raised)]


def binary_size(size: float) -> str:
    """Return a working set in binary units, as caches are sized."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{show.tick(size / factor)}{show.THIN}{unit}"
    return f"{show.tick(size)}{show.THIN}B"
