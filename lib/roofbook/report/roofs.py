"""The roofline figure: what each variant reaches under the measured peaks of its device, each dtype under its own."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, home_of, newest, number_field, text_field
from ..analysis.roofline import work_unit
from ..errors import UsageError
from ..measure.stats import LEAST
from .figure import COLOURS, FONT, INK, WIDTH, Figure, describe, finish, style, tell
from .html import Standing
from .variant_style import styles_of

DASHES = ((0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))  # of the other levels' diagonals
STYLES: Mapping[str, tuple[str, Any]] = {  # dtype -> its marker and the dashes of its roof
    "float32": ("o", "-"),
    "float64": ("X", (0, (9, 2))),
    "tfloat32": ("^", (0, (5, 1.5))),
    "float16": ("s", (0, (1.2, 1.2))),
    "bfloat16": ("D", (0, (5, 1.5, 1.2, 1.5))),
    "int8": ("v", (0, (5, 1.5, 1.2, 1.5, 1.2, 1.5))),
    "int32": ("P", (0, (2.5, 1.2))),
}
OTHER = ("h", (0, (9, 2, 1.2, 2)))
LETTER, LINE = 0.56 * (FONT - 1) / 72, (FONT + 2) / 72  # inches that a letter of a label takes, and a line of them
LEFT, BOTTOM, ACROSS, UP = 0.12, 0.12, 0.86, 0.85  # of the axes in the drawing
FOOT = 0.03  # of their height is left free below the names


@dataclass(frozen=True)
class Spot:
    """A verified variant: FLOP/B by the bytes modelled and by those counted, and FLOP/s with its interval."""

    dtype: str
    x: float
    counted: float | None
    y: float
    low: float
    high: float


@dataclass(frozen=True)
class Frame:
    """The layout, in decades: limits of the axes, where the names begin (`column`) and how high they may go (`lid`), where
    the roofs' labels end (`corner`) and how high each stands (`places`). height: inches of the axes."""

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
        """Inches a decade upwards."""
        return self.height / (self.top - self.bottom)


def roofline_chart(data: CaseData, title: str = "") -> Figure:
    """Rate over arithmetic intensity, both logarithmic: a diagonal a memory level, a flat roof and its ridge a dtype.

    The newest verified row of each step and peer with `flops` and `bytes` per unit is a marker with its interval, shaped by
    its dtype, in the colour of its variant, and arrows follow the ladder from parent to child, those on the way to the fastest
    step drawn strong; rows from another device than most are left out. The working
    set picks its own diagonal (drawn strong). Counted bytes make a second, hollow marker. A point above its diagonal or above
    the roof of its dtype is listed in the figure's `warnings`.

    Errors: UsageError without measured peaks, where there is nothing to place, where no dtype of it has a measured peak, for a
    count below 0.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import FuncFormatter, NullLocator

    if data.peaks is None:
        raise UsageError("no roofline: a peak of this device has no verified time")
    case, peaks, counted = data.case, data.peaks, data.counted_bytes
    found = newest(data.rows, case, ["step", "peer"])
    ready = [name for name in data.order if name in found and found[name].ok and _has_work(found[name])]
    home = home_of([found[name] for name in ready])
    names = [name for name in ready if home.has(found[name])]
    if not names:
        raise UsageError(f"no verified variant on {case} has FLOPs and bytes to place on a roofline")
    spots = {name: _spot(found[name], counted.get(name)) for name in names}
    known = {spot.dtype for spot in spots.values()}
    dtypes = [*(dtype for dtype in STYLES if dtype in known), *sorted(known - set(STYLES))]
    tops = {dtype: peaks.flops[dtype] for dtype in dtypes if dtype in peaks.flops}
    if not tops:
        raise UsageError(f"no peak of {', '.join(dtypes)} measured; peaks of: {', '.join(peaks.flops) or 'none'}")
    own, levels = peaks.bandwidth_for(data.working_set), peaks.levels()
    slopes = {f"memory at this size: {show.quantity(own, 'B/s')}": own} | {
        f"up to {binary(level.size)}: {show.quantity(level.bandwidth, 'B/s')}": level.bandwidth
        for level in levels
        if abs(level.bandwidth / own - 1) > 0.05
    }
    above = _above(spots, tops, own, levels[-1].bandwidth)
    labels = {
        dtype: f"{dtype}: {show.quantity(top, work_unit(dtype) + '/s')}\nridge {show.number(top / own)}"
        for dtype, top in sorted(tops.items(), key=lambda roof: roof[1])
    }
    letter, unit = show.prefix([min(tops.values())])
    works = list(dict.fromkeys(work_unit(dtype) for dtype in dtypes))
    frame = _frame(spots, tops, own, max(slopes.values()), labels)
    with style():
        drawing = Drawing(figsize=(WIDTH, frame.height / UP))
        ax = drawing.add_axes((LEFT, BOTTOM, ACROSS, UP))
        ax.set(xscale="log", yscale="log")
        ax.set(xlim=(10**frame.left, 10**frame.right), ylim=(10**frame.bottom, 10**frame.top))
        _diagonals(ax, frame, slopes, own, max(tops.values()))
        _roofs(ax, frame, tops, labels, own, max(slopes.values()))
        way = path(names, found)
        _arrows(ax, names, found, spots, way)
        looks = styles_of(data)
        tips = {name: _tip(name, spot, tops, own) for name, spot in spots.items()}
        for name, spot in spots.items():
            failed = any(name in names for names in above)
            _marker(ax, spot, COLOURS["failed"] if failed else looks[name].colour, tips[name])
        _names(ax, frame, spots)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at / unit)))
        for side in (ax.xaxis, ax.yaxis):
            side.set_minor_locator(NullLocator())
        ax.grid(True)
        ax.set_xlabel(f"arithmetic intensity, {' or '.join(f'{work}/B' for work in works)}")
        ax.set_ylabel(" or ".join(f"{letter}{work}/s" for work in works))
        hollow = [name for name, spot in spots.items() if spot.counted]
        _legends(ax, dtypes, tops, bool(hollow), frame.height)
        notes: list[str] = [
            Standing(
                "Work is modelled, not counted: the minimum of FLOPs that the algorithm needs, and of bytes that it needs "
                "or, where the lab models variants separately, that the variant's data flow moves. More modelled traffic "
                "moves a point left; work beyond the model moves it down."
            )
        ]
        notes += [f"Strong arrows: the ladder's way from {way[0]} to its fastest step, {way[-1]}."] if way else []
        notes += [
            Standing(
                "Hollow: the same variant by the bytes that hardware counters saw at the device's memory. They lie left of "
                "the modelled point if more bytes were moved than modelled, and right of it if a cache served a part."
            )
        ] * bool(hollow)
        bare = [f"{name} ({spot.dtype})" for name, spot in spots.items() if spot.dtype not in tops]
        notes += [f"Peak of its precision not measured, so only memory bounds it here: {', '.join(bare)}."] * bool(bare)
        away = [name for name in ready if name not in names]
        notes += [f"Measured on another device, so not drawn: {', '.join(away)}."] * bool(away)
        told = describe(drawing, f"reached: {'; '.join(tips.values())}")
        return finish(drawing, title or f"Roofline of {case}", notes, list(above.values()), told)


def path(names: Sequence[str], found: Mapping[str, Reading]) -> list[str]:
    """The ladder's way to the fastest step among `names`: of its parents those that are among them, the first in front.

    Empty where there is none but that step."""
    best = min(
        (found[name] for name in names if found[name].role == "step"), key=lambda each: each.median, default=None
    )
    way: list[str] = []
    name = best.variant if best else ""
    while name and name not in way:
        way.insert(0, name)
        name = (found[name].parent or "") if name in found else ""
    placed = [name for name in way if name in names]
    return placed if len(placed) > 1 else []


def _tip(name: str, spot: Spot, tops: Mapping[str, float], own: float) -> str:
    unit, bound = work_unit(spot.dtype), min(tops.get(spot.dtype, math.inf), spot.x * own)
    reached = f"{show.quantity(spot.y, f'{unit}/s')} at {show.number(spot.x)} {unit}/B"
    return f"{name}: {reached}, {show.percent(spot.y / bound)} of the roof above it ({spot.dtype})"


def _has_work(reading: Reading) -> bool:
    return number_field(reading.row, "flops") > 0 and number_field(reading.row, "bytes") > 0


def _spot(reading: Reading, counted: float | None) -> Spot:
    """Where a verified reading stands. counted: bytes per unit; 0 of them (all from a cache) has no place on the axis."""
    if counted is not None and not (math.isfinite(counted) and counted >= 0):
        raise UsageError(f"{reading.variant}: {counted} bytes counted; a finite number of at least 0 is needed")
    flops = number_field(reading.row, "flops")
    return Spot(
        str(text_field(reading.row, "dtype")),
        flops / number_field(reading.row, "bytes"),
        flops / counted if counted else None,
        *(flops / seconds for seconds in (reading.median, reading.high, reading.low)),
    )


def _above(
    spots: Mapping[str, Spot], tops: Mapping[str, float], own: float, memory: float
) -> dict[tuple[str, ...], str]:
    """By their names a warning for variants above the same bound: bytes modelled under the case's own diagonal, bytes counted
    under that of the device's memory. A dtype without a measured peak has the diagonals alone. LEAST above it is noise."""
    found, groups = {}, defaultdict[tuple[bool, float], list[str]](list)
    for name, spot in spots.items():
        modelled = min(tops.get(spot.dtype, math.inf), spot.x * own)
        counted = spot.counted * memory if spot.counted else math.inf
        if spot.y > LEAST * min(modelled, counted):
            groups[counted < modelled, min(modelled, counted)].append(name)
    for (by_count, rate), names in groups.items():
        by, wrong = ("", "the peaks, the work or the working set are")
        if by_count:
            by, wrong = " by the bytes counted", "the peaks, the time or the count is"
        unit = f"{work_unit(spots[names[0]].dtype)}/s"
        each = ", ".join(f"{name} {show.quantity(spots[name].y, unit)}" for name in names)
        found[tuple(names)] = f"Above the bound of {show.quantity(rate, unit)}{by}: {each}: {wrong} wrong."
    return found


def _frame(
    spots: Mapping[str, Spot],
    tops: Mapping[str, float],
    own: float,
    steepest: float,
    labels: Mapping[str, str],
) -> Frame:
    """Room for the points, the ridges, the names right of the points and below the case's diagonal, and the roofs' labels
    left of all diagonals."""
    xs = [math.log10(x) for spot in spots.values() for x in (spot.x, spot.counted) if x]
    ys = [math.log10(spot.y) for spot in spots.values()]
    roofs = [math.log10(tops[dtype]) for dtype in labels]
    top = max(*roofs, *ys) + 0.3
    bottom = min(min(ys) - 0.45, roofs[0] - 0.6, top - 2.1)  # two powers of ten at least, to read the axis by
    column = max(max(xs) + 0.28, bottom + 0.8 * (top - bottom) - math.log10(own))
    for ridge in (roof - math.log10(own) for roof in roofs):  # either clear of the names or beyond where they begin
        column = ridge + 0.28 if column - 0.28 < ridge <= column else column
    lid = min(roofs[-1], column + math.log10(own))
    height = max(3.6, (1.1 * len(spots) + 1.2) * LINE / ((lid - bottom) / (top - bottom) - FOOT))
    gap = 2.2 * LINE / height * (top - bottom)
    places = apart(roofs, gap, bottom + gap / 2, top - gap / 2)
    corner = min(places) - gap / 2 - math.log10(steepest) - 0.06
    label = LETTER * max(len(line) for text in labels.values() for line in text.split("\n"))
    name = min(2.5, LETTER * max(len(name) for name in spots))  # a longer one leaves the axes
    lefts, rights = ((min(xs) - 0.75, 0.0), (corner, label)), ((roofs[-1] - math.log10(own) + 0.3, 0.0), (column, name))
    spans = [(right - left, WIDTH * ACROSS - a - b) for left, a in lefts for right, b in rights]
    across = min(room / decades for decades, room in spans if decades > 0)  # inches a decade
    left, right = min(at - room / across for at, room in lefts), max(at + room / across for at, room in rights)
    return Frame(left, right, bottom, top, column, lid, corner, dict(zip(labels, places, strict=True)), height)


def _diagonals(ax: Any, frame: Frame, slopes: Mapping[str, float], own: float, top: float) -> None:
    """What each memory level delivers, up to the highest roof; those right of the case's own stop short of the names."""
    for at, (label, slope) in enumerate(slopes.items()):
        end = top / slope if slope >= own else min(top / slope, 10 ** (frame.column - 0.14))
        ends = [10**frame.left, end]
        width, dashes = (2.2, "-") if slope == own else (1.2, DASHES[(at - 1) % len(DASHES)])
        ax.plot(ends, [x * slope for x in ends], color=INK, lw=width, ls=dashes, label=label)


def _roofs(
    ax: Any, frame: Frame, tops: Mapping[str, float], labels: Mapping[str, str], own: float, steepest: float
) -> None:
    """A flat line a dtype from the steepest diagonal on, its label at the left end, and a plumb line from its ridge.

    One whose ridge lies left of the names stops short of them, and a plumb line right of that ends above them."""
    for dtype, label in labels.items():
        top, start, ridge = tops[dtype], tops[dtype] / steepest, tops[dtype] / own
        beyond = ridge > 10**frame.column
        end, foot = (frame.right, frame.lid) if beyond else (frame.column - 0.14, frame.bottom)
        ax.plot([start, 10**end], [top, top], color=INK, lw=2.0, ls=_style(dtype)[1])
        ax.plot([ridge] * 2, [10**foot, top], color=INK, lw=0.8, ls=(0, (2, 3)), alpha=0.6)
        at = 10**frame.corner, 10 ** frame.places[dtype]
        ax.plot([at[0], start], [at[1], top], color=INK, lw=0.6, alpha=0.35)
        ax.annotate(label, at, (-3, 0), textcoords="offset points", ha="right", va="center", size=FONT - 1)


def _marker(ax: Any, spot: Spot, colour: str, tip: str) -> None:
    shape = _style(spot.dtype)[0]
    if spot.counted:
        ax.plot([spot.x, spot.counted], [spot.y] * 2, color=colour, lw=0.8)
        (hollow,) = ax.plot([spot.counted], [spot.y], shape, ms=6, mfc="none", color=colour, ls="none")
        tell(
            hollow,
            f"{tip.partition(':')[0]}: {show.number(spot.counted)} {work_unit(spot.dtype)}/B by the bytes counted",
        )
    # As `Axes.errorbar` draws them, without the milliseconds that it takes for each.
    ax.plot([spot.x] * 2, [spot.low, spot.high], marker="_", ms=5, mew=1.0, lw=1.3, color=colour)
    (mark,) = ax.plot([spot.x], [spot.y], shape, ms=6, color=colour)
    tell(mark, tip)


def _style(dtype: str) -> tuple[str, Any]:
    return STYLES.get(dtype, OTHER)


def _legends(ax: Any, dtypes: Sequence[str], tops: Mapping[str, float], counted: bool, height: float) -> None:
    """The diagonals above the axes; below them, where there is more than one kind, what markers and flat lines mean."""
    from matplotlib.lines import Line2D

    def entry(label: str, dtype: str, roof: bool = False, **other: Any) -> Line2D:
        shape, dashes = _style(dtype)
        return Line2D(
            [], [], color=INK, lw=1.6, marker=shape, ms=6, ls=dashes if roof else "none", label=label, **other
        )

    ax.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, borderaxespad=0.2, columnspacing=1.2)
    entries = [entry(dtype, dtype, dtype in tops) for dtype in dtypes] * (len(dtypes) > 1)
    if counted:
        entries += [entry("bytes modelled", dtypes[0]), entry("bytes counted", dtypes[0], mfc="none")]
    if entries:
        many = len(entries)
        ax.figure.legend(
            handles=entries, loc="upper left", bbox_to_anchor=(-0.1, -0.5 / height), bbox_transform=ax.transAxes,
            ncols=many if many <= 4 else -(-many // 2), borderaxespad=0.0, columnspacing=1.2, handlelength=2.6,
        )  # fmt: skip


def _arrows(
    ax: Any, names: Sequence[str], found: Mapping[str, Reading], spots: Mapping[str, Spot], way: Sequence[str]
) -> None:
    """A curved arrow from each parent to its child, left of the markers so that a column of points stays legible; those along
    `way`, which may step over a parent that has no place, are strong."""
    before = dict(zip(way[1:], way, strict=False))
    for name in names:
        parent, strong = before.get(name) or found[name].parent or "", name in before
        if parent in spots:
            up = spots[name].y >= spots[parent].y
            ax.annotate(
                "",
                (spots[name].x, spots[name].y),
                (spots[parent].x, spots[parent].y),
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": INK,
                    "alpha": 0.85 if strong else 0.25,
                    "lw": 1.3 if strong else 0.8,
                    "shrinkA": 3,
                    "shrinkB": 4,
                    "connectionstyle": f"arc3,rad={-0.45 if up else 0.45}",
                },
            )


def _names(ax: Any, frame: Frame, spots: Mapping[str, Spot]) -> None:
    """Names in a column right of the points, each as near to its point as the others let it, tied by a thin line."""
    gap = LINE / frame.scale
    ordered = sorted(spots, key=lambda name: spots[name].y)
    low = frame.bottom + FOOT * (frame.top - frame.bottom) + 0.6 * gap
    at = apart([math.log10(spots[name].y) for name in ordered], gap, low, frame.lid - 0.6 * gap)
    x = 10**frame.column
    for name, y in zip(ordered, at, strict=True):
        ax.plot([spots[name].x, x / 1.06], [spots[name].y, 10**y], color=INK, lw=0.6, alpha=0.35, zorder=1)
        ax.text(x, 10**y, name, va="center", ha="left", size=FONT - 1)


def apart(wishes: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Places at least `gap` apart in the order of the sorted `wishes`, with the least squared distance from them; then
    moved into [low, high], `low` giving way where that is too short."""
    blocks: list[tuple[float, int]] = []  # pool adjacent violators: (mean of wish - rank * gap, how many)
    for rank, wish in enumerate(wishes):
        mean, count = wish - rank * gap, 1
        while blocks and blocks[-1][0] >= mean:
            other, size = blocks.pop()
            mean, count = (mean * count + other * size) / (count + size), count + size
        blocks.append((mean, count))
    means = [mean for mean, count in blocks for _ in range(count)]
    last = len(wishes) - 1
    raised = [max(mean, low) + rank * gap for rank, mean in enumerate(means)]
    return [min(place, high - (last - rank) * gap) for rank, place in enumerate(raised)]


def binary(size: float) -> str:
    """A working set in binary units, as caches are sized."""
    for unit, factor in (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10)):
        if size >= factor:
            return f"{show.tick(size / factor)}{show.THIN}{unit}"
    return f"{show.tick(size)}{show.THIN}B"
