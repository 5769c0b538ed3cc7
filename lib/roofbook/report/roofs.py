"""The roofline figure: what each variant reaches under the measured ceilings of its device."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from roofbook.errors import UsageError
from roofbook.report import units as show
from roofbook.report.readings import Reading, home_device, newest, said, value
from roofbook.report.svg import COLOURS, FONT, INK, WIDTH, Figure, finish, style
from roofbook.roofline import Peaks

if TYPE_CHECKING:
    import pandas as pd

DASHES = ((0, (5, 2)), (0, (1.5, 1.5)), (0, (6, 2, 1.5, 2)), (0, (9, 3)))  # of the other levels' roofs


def roofline_chart(
    rows: "pd.DataFrame",
    peaks: Peaks,
    *,
    case: str,
    working_set: float,
    order: Sequence[str] = (),
    dtype: str = "float32",
    title: str = "",
) -> Figure:
    """Rate over arithmetic intensity, both logarithmic: a diagonal a memory level, the peak of `dtype`, the ridge.

    rows: store rows with `flops` and `bytes` per unit; the newest verified one of each variant in `order` (all rungs
    and peers without one) is a marker with its interval, and arrows follow the ladder from parent to child; rows from
    another device than most are left out. working_set: bytes of the case, which picks its own roof (drawn strong). A
    point above that roof is listed in the figure's `warnings`.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import FuncFormatter, NullLocator

    if dtype not in peaks.flops:
        raise UsageError(f"no peak of {dtype} measured; peaks of: {', '.join(peaks.flops) or 'none'}")
    found = newest(rows, case, ["step", "peer"])
    ready = [name for name in (order or found) if name in found and found[name].ok and _has_work(found[name])]
    home = home_device([found[name] for name in ready])
    names = [name for name in ready if found[name].row["device"] == home]
    if not names:
        raise UsageError(f"no verified variant on {case} has FLOPs and bytes to place on a roofline")
    spots = {name: _spot(found[name]) for name in names}
    top, own = peaks.flops[dtype], peaks.bandwidth_for(working_set)
    other = [name for name in names if said(found[name].row, "dtype") != dtype]
    spared = set(other)  # these roofs are not theirs
    above = {
        name: min(top, x * own) for name, (x, y, _, _) in spots.items() if name not in spared and y > min(top, x * own)
    }
    warnings = [
        f"{name} lies above its roof ({show.quantity(spots[name][1], 'FLOP/s')} against "
        f"{show.quantity(roof, 'FLOP/s')}): the peaks, the work or the working set are wrong."
        for name, roof in above.items()
    ]
    levels = [level for level in peaks.levels() if abs(level.bandwidth / own - 1) > 0.05]
    xs, ys = [spot[0] for spot in spots.values()], [spot[1] for spot in spots.values()]
    column, left = math.log10(max(xs)) + 0.28, math.log10(min(xs)) - 0.75
    right = max(math.log10(top / own) + 0.55, 2 * column - left)
    bottom, ceiling = math.log10(min(ys)) - 0.45, math.log10(max(top, *ys)) + 0.3
    bottom = min(bottom, ceiling - 2.1)  # two powers of ten at least, to read the axis by
    height = max(4.3, 0.2 * len(names) + 2.4)
    letter, unit = show.prefix([top])
    with style():
        drawing = Drawing(figsize=(WIDTH, height))
        ax = drawing.add_axes((0.12, 0.12, 0.86, 0.85))
        ax.set(xscale="log", yscale="log", xlim=(10**left, 10**right), ylim=(10**bottom, 10**ceiling))
        _roof(ax, own, top, f"memory at this size: {show.quantity(own, 'B/s')}", 2.2, "-")
        for at, level in enumerate(levels):
            label = f"up to {binary(level.size)}: {show.quantity(level.bandwidth, 'B/s')}"
            _roof(ax, level.bandwidth, top, label, 1.2, DASHES[at % len(DASHES)])
        steepest = max([own, *(level.bandwidth for level in levels)])
        ax.plot([top / steepest, 10**right], [top, top], color=INK, lw=2.2)
        ax.plot([top / own] * 2, [10**bottom, top], color=INK, lw=0.8, ls=(0, (2, 3)), alpha=0.6)
        words: dict[str, Any] = {"textcoords": "offset points", "size": FONT - 1}
        ax.annotate(f"{dtype}: {show.quantity(top, 'FLOP/s')}", (10**right, top), (-2, 4), ha="right", **words)
        ax.annotate(f"ridge {show.number(top / own)}", (top / own, 10**bottom), (4, 5), **words)
        _arrows(ax, names, found, spots)
        for name, (x, y, low, high) in spots.items():
            colour = COLOURS["failed" if name in above else found[name].role]
            ax.errorbar(x, y, yerr=[[y - low], [high - y]], fmt="o", ms=6, color=colour, ecolor=colour, elinewidth=1.3)
        lid = min(math.log10(top), column + math.log10(own)) if not above else ceiling
        _names(ax, spots, 10**column, (bottom + 0.07 * (ceiling - bottom), lid), height * 0.85 / (ceiling - bottom))
        ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at / unit)))
        for side in (ax.xaxis, ax.yaxis):
            side.set_minor_locator(NullLocator())
        ax.grid(True)
        ax.set_xlabel("arithmetic intensity, FLOP/B")
        ax.set_ylabel(f"{letter}FLOP/s")
        ax.legend(loc="lower left", bbox_to_anchor=(-0.1, 1.0), ncols=2, borderaxespad=0.2, columnspacing=1.2)
        notes = [
            "Work is modelled, not counted: FLOPs that the algorithm needs at least, bytes that it or, where the lab tells "
            "variants apart, the variant's data flow moves at least. More bytes by the model put a point further left; "
            "work beyond the model puts it lower."
        ]
        notes += [
            f"The roofs are of {dtype}; not under them, for they multiply other numbers: {', '.join(other)}."
        ] * bool(other)
        away = [name for name in ready if name not in names]
        notes += [f"Measured on another device, so not drawn: {', '.join(away)}."] * bool(away)
        return finish(drawing, title or f"Roofline of {case}", notes, warnings)


def _has_work(reading: Reading) -> bool:
    return value(reading.row, "flops") > 0 and value(reading.row, "bytes") > 0


def _spot(reading: Reading) -> tuple[float, float, float, float]:
    """(FLOP/B, FLOP/s, low, high) of a verified reading."""
    flops = value(reading.row, "flops")
    return flops / value(reading.row, "bytes"), flops / reading.median, flops / reading.high, flops / reading.low


def _roof(ax: Any, bandwidth: float, top: float, label: str, width: float, dashes: Any) -> None:
    """A diagonal from the left edge to where it meets the peak of arithmetic."""
    left = ax.get_xlim()[0]
    ends = [left, max(left, top / bandwidth)]
    ax.plot(ends, [x * bandwidth for x in ends], color=INK, lw=width, ls=dashes, label=label)


def _arrows(
    ax: Any, names: Sequence[str], found: dict[str, Reading], spots: dict[str, tuple[float, float, float, float]]
) -> None:
    """A curved arrow from each parent to its child, left of the markers so that a column of points stays legible."""
    for name in names:
        parent = found[name].parent
        if parent in spots:
            up = spots[name][1] >= spots[parent][1]
            ax.annotate(
                "",
                spots[name][:2],
                spots[parent][:2],
                arrowprops={
                    "arrowstyle": "-|>",
                    "color": INK,
                    "alpha": 0.45,
                    "lw": 0.9,
                    "shrinkA": 3,
                    "shrinkB": 4,
                    "connectionstyle": f"arc3,rad={-0.45 if up else 0.45}",
                },
            )


def _names(
    ax: Any, spots: dict[str, tuple[float, float, float, float]], x: float, span: tuple[float, float], scale: float
) -> None:
    """Names in a column right of the points, each as near to its point as the others let it, tied by a thin line.

    span: lowest and highest place in decades; scale: inches a decade.
    """
    gap = (FONT + 2) / 72 / scale
    ordered = sorted(spots, key=lambda name: spots[name][1])
    at = apart([math.log10(spots[name][1]) for name in ordered], gap, span[0] + 0.6 * gap, span[1] - 0.6 * gap)
    for name, y in zip(ordered, at, strict=True):
        ax.plot([spots[name][0], x / 1.06], [spots[name][1], 10**y], color=INK, lw=0.6, alpha=0.35, zorder=1)
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
