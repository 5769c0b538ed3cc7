"""Ladders at a glance: one as a descent, and of many the first rung beside the fastest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING

from roofbook.errors import UsageError
from roofbook.report import units as show
from roofbook.report.cells import SAME, floor_of, ratio_cell, share_cell, where
from roofbook.report.html import Cell, Row, Table
from roofbook.report.readings import Ratio, Reading, faster, fastest, home_device, newest
from roofbook.report.svg import COLOURS, INK, Figure, finish, style
from roofbook.roofline import Bound

if TYPE_CHECKING:
    import pandas as pd

SIZE = 3.7, 2.5
"""Inches of a descent: two stand side by side, and on a phone one has the width to itself."""


def descent(
    rows: "pd.DataFrame", order: Sequence[str], *, case: str, bounds: Mapping[str, Bound] | None = None, title: str = ""
) -> Figure:
    """Time of each verified rung in ladder order, logarithmic, with the fastest so far, the fastest peer and the bound.

    rows: store rows of one lab (any cases); the newest of a variant counts. bounds: seconds per unit by dtype, and by the name
    of a variant that has one of its own; that of the fastest rung is drawn. Errors: UsageError where no rung of `order` has a
    verified time on the case.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    rungs, best, peer = _ranked(rows, order, case)
    times, at = [each.median for each in rungs], range(1, len(rungs) + 1)
    with style():
        drawing = Drawing(figsize=SIZE)
        ax = drawing.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set(yscale="log", xlim=(0.4, len(rungs) + 0.6))
        ax.grid(axis="y")
        ax.step(at, list(accumulate(times, min)), where="post", color=COLOURS["step"], lw=1.6, label="fastest so far")
        ax.plot(at, times, "o", color=COLOURS["step"], ms=5, label="step")
        if peer:
            ax.axhline(peer.median, color=COLOURS["peer"], lw=1.6, ls="--", label="fastest peer")
        if floor := floor_of(bounds, best):
            ax.axhline(floor.seconds, color=INK, lw=1.4, label="bound")
        lowest, highest = ax.get_ylim()
        ax.set_ylim(lowest / 1.3, highest)
        ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(lambda seconds, _: _tick(seconds))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("step of the ladder")
        ax.set_ylabel(f"time per {rungs[0].row['unit']}")
        ax.legend(loc="lower center", bbox_to_anchor=(0.45, 1.0), ncols=2, columnspacing=1.0, handlelength=1.4)
        return finish(drawing, title or f"The ladder on {case}")


def _tick(seconds: float) -> str:
    name, size = show.time_unit([seconds])
    return f"{show.tick(seconds / size)}{show.THIN}{name}"


@dataclass(frozen=True)
class Line:
    """One lab on one device: what `glance` tells of it. bounds: as `descent` takes them."""

    lab: str
    place: str
    rows: "pd.DataFrame"
    order: Sequence[str]
    case: str
    base: str
    bounds: Mapping[str, Bound]


COLUMNS = (
    Cell("On"), Cell("Baseline", "num"), Cell("Fastest kernel", "num"), Cell("vs baseline", "num"),
    Cell("Fastest peer", "num"), Cell("vs peer", "num"), Cell("Of the bound", "num"), Cell("Case"),
)  # fmt: skip
NOTES = (
    "The largest case that was measured. vs baseline, vs peer: how many times as fast the fastest kernel is. The pages of the "
    f"labs have the 95 % interval: {SAME}.",
    "Of the bound: the least time that the device's measured peaks allow in the precision of the fastest kernel, over its "
    "time. Above 100 % a measured peak is too low.",
)


def glance(lines: Sequence[Line], caption: str) -> Table:
    """Below each lab a line a device: its first rung, the fastest, and how these compare, with each other and the fastest peer.

    Errors: UsageError where no rung of a line has a verified time on its case.
    """
    import pandas as pd

    made, records = list[Row](), list[dict[str, object]]()
    for line in lines:
        if not records or records[-1]["lab"] != line.lab:
            made.append(Row([Cell(line.lab, span=len(COLUMNS))], "group"))
        rungs, best, peer = _ranked(line.rows, line.order, line.case)
        home = home_device(rungs)
        base = next((each for each in rungs if each.variant == line.base), None)
        to_base, to_peer = (faster(other, best) for other in (base, peer))
        cells = [
            Cell(line.place), _timed(base, home), _timed(best, home),
            _short(to_base, f"{line.base} has no time here"), _timed(peer, home),
            _short(to_peer, "no peer was measured"), share_cell(floor_of(line.bounds, best), best), Cell(line.case),
        ]  # fmt: skip
        made.append(Row(cells))
        records.append({
            "lab": line.lab, "place": line.place, "case": line.case, "base": line.base, "fastest": best.variant,
            "seconds": best.median, "peer": peer.variant if peer else None,
            "vs_base": to_base.estimate if to_base else None, "vs_peer": to_peer.estimate if to_peer else None,
        })  # fmt: skip
    return Table(caption, COLUMNS, made, pd.DataFrame(records), NOTES, "glance")


def _ranked(rows: "pd.DataFrame", order: Sequence[str], case: str) -> tuple[list[Reading], Reading, Reading | None]:
    """The verified rungs on a case in ladder order, the fastest of them, and the fastest peer."""
    found = newest(rows, case)
    good = [found[name] for name in order if name in found and found[name].ok]
    rungs = [each for each in good if each.role == "step"]
    best = fastest(rungs)
    if best is None:
        raise UsageError(f"no step of {', '.join(order)} has a verified time on {case}; measure the ladder first")
    return rungs, best, fastest(each for each in good if each.role == "peer")


def _short(ratio: Ratio | None, lack: str) -> Cell:
    """A ratio without its interval, which the tooltip has."""
    whole = ratio_cell(ratio, lack)
    told = " ".join(filter(None, (whole.text, whole.small, whole.title)))
    return replace(whole, text=whole.text.partition(" [")[0], small="", title=told if ratio else lack)


def _timed(reading: Reading | None, home: str) -> Cell:
    if reading is None:
        return Cell(show.DASH, "num")
    small = " ".join(filter(None, (reading.variant, where(reading, home))))
    return Cell(show.duration(reading.median), "num", f"run {reading.row['run']}", small=small)
