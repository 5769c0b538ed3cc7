"""Ladders at a glance: a figure of one ladder's times, and a table of the first and the fastest step of many."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Home, Reading, Speedup, faster, home_of
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .bars import address_of
from .cell_format import (
    ABOVE_REASON,
    INTERVAL_WORDS,
    LAUNCH_NOTE,
    bound_of,
    device_note,
    ratio_cell,
    run_count_notes,
    share_cell,
    time_ratio_notes,
)
from .effect_style import EFFECT_COLOURS, PEER, effect_of, legend_marks
from .figure import INK, Figure, add_tips, describe, finish, style
from .html import ON_DEMAND, Cell, Row, Table

SIZE = 3.7, 2.5
"""Width and height of a descent in inches: two fit side by side, and on a phone each takes the full width."""


def descent(data: CaseData, title: str = "") -> Figure:
    """Draw the time of each verified step in ladder order, with the fastest so far, the fastest peer and the bound.

    The time axis is logarithmic. The bound is that of the fastest step. Errors: UsageError if no step is verified on the case.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    steps, best, peer = ranked(data)
    times, positions = [reading.median for reading in steps], range(1, len(steps) + 1)
    with style():
        drawing = Drawing(figsize=SIZE)
        ax = drawing.add_axes((0.0, 0.0, 1.0, 1.0))
        ax.set(yscale="log", xlim=(0.4, len(steps) + 0.6))
        ax.grid(axis="y")
        ax.step(
            positions, list(accumulate(times, min)), where="post", color=INK, lw=1.2, alpha=0.7, label="fastest so far"
        )
        effects = [effect_of(reading, data.readings) for reading in steps]
        dots = ax.scatter(positions, times, s=25, c=[EFFECT_COLOURS[effect] for effect in effects], zorder=2.5)
        numbered = zip(positions, steps, strict=True)
        tips = [f"step {number}, {step.variant}: {show.duration(step.median)}" for number, step in numbered]
        add_tips(dots, *tips, links=[address_of(step) for step in steps])
        if peer:
            ax.axhline(peer.median, color=EFFECT_COLOURS[PEER], lw=1.6, ls="--", label="fastest peer")
        if floor := bound_of(data.bounds, best):
            ax.axhline(floor.seconds, color=INK, lw=1.4, label="bound")
        lowest, highest = ax.get_ylim()
        ax.set_ylim(lowest / 1.3, highest)
        ax.yaxis.set_major_locator(LogLocator(10, numticks=6))
        ax.yaxis.set_minor_locator(NullLocator())
        ax.yaxis.set_major_formatter(lambda seconds, _: _tick(seconds))
        ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        ax.set_xlabel("step of the ladder")
        ax.set_ylabel(f"time per {steps[0].row['unit']}")
        lines, _ = ax.get_legend_handles_labels()
        handles = [*legend_marks(effects, short=True), *lines]
        ax.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=(0.45, 1.0),
            ncols=2,
            columnspacing=1.0,
            handlelength=1.4,
        )
        ends = [
            (reading.variant, show.duration(reading.median)) for reading in (steps[0], best, *([peer] if peer else []))
        ]
        kinds = zip(("first step", "fastest step", "fastest peer"), ends, strict=False)
        description = "; ".join(f"{kind}: {name}, {time}" for kind, (name, time) in kinds)
        records = [
            {"step": number, "variant": step.variant, "parent": step.parent, "effect": effect, "seconds": step.median}
            for number, (step, effect) in enumerate(zip(steps, effects, strict=True), 1)
        ]
        described = describe(drawing, description)
        notes = time_ratio_notes((data.readings.get(step.parent or ""), step) for step in steps)
        return finish(drawing, title or f"The ladder on {data.case}", notes, description=described, records=records)


def _tick(seconds: float) -> str:
    name, size = show.time_unit([seconds])
    return f"{show.tick(seconds / size)}{show.THIN}{name}"


NO_PEER = "(no peer was measured on this device)"
COLUMNS = (
    Cell("On"), Cell("Baseline", f"num {ON_DEMAND}"), Cell("Fastest step", "num"), Cell("vs baseline", "num"),
    Cell("Fastest peer", f"num {ON_DEMAND}"), Cell("vs peer", "num"), Cell("Of the bound", "num"), Cell("Case"),
)  # fmt: skip
NOTES = (
    "The largest case of the lab's page. vs baseline, vs peer: how many times as fast the fastest kernel is, with the "
    f"{CONFIDENCE} interval; {INTERVAL_WORDS}. A peer runs on the same device, whichever backend calls it.",
    "Of the bound: the least time that the device's measured peaks allow in the precision of the fastest kernel, over its "
    f"time. 'above': the kernel is faster than its bound: {ABOVE_REASON}. {LAUNCH_NOTE} A dash: no peak of that precision was "
    "measured by this backend.",
)


@dataclass(frozen=True)
class GlanceRow:
    """A row of the table `glance` as plain data, which `json` can write."""

    lab: str
    cells: Sequence[Cell]
    record: Mapping[str, Any]
    runs: Sequence[int]
    """Number of runs behind each time that the row shows."""


def glance_row(lab: str, device_label: str, data: CaseData) -> GlanceRow:
    """Return a lab's baseline and fastest step on a device, and their ratios to each other and to the fastest peer.

    lab: its title. device_label: the device in words. Errors: UsageError if no step has a verified time on the case.
    """
    _, best, peer = ranked(data)
    home = home_of([best])
    base = next(iter(data.verified([data.base])), None)
    to_base, to_peer = (faster(reference, best) for reference in (base, peer))
    cells = [
        Cell(device_label), _on_demand(_timed(base, home)), _timed(best, home),
        _ratio(to_base, base, best, _named(base, home) or f"({data.base} has no time here)"), _on_demand(_timed(peer, home)),
        _ratio(to_peer, peer, best, _named(peer, home) or NO_PEER), share_cell(bound_of(data.bounds, best), best),
        Cell(data.case),
    ]  # fmt: skip
    record = {
        "lab": lab, "place": device_label, "case": data.case, "base": data.base, "fastest": best.variant,
        "seconds": best.median, "peer": peer.variant if peer else None,
        **_fields("vs_base", to_base), **_fields("vs_peer", to_peer),
    }  # fmt: skip
    return GlanceRow(lab, cells, record, [len(reading.runs) for reading in (base, best, peer) if reading])


def glance(lines: Sequence[GlanceRow], caption: str) -> Table:
    """Return a table with one part per lab and one row per device."""
    rows, on_demand = list[Row](), sum(ON_DEMAND in column.css for column in COLUMNS)
    for previous, row in zip([None, *lines], lines, strict=False):
        if previous is None or previous.lab != row.lab:
            rows.append(Row([Cell(row.lab, span=len(COLUMNS) - on_demand), Cell("", ON_DEMAND, on_demand)], "group"))
        rows.append(Row(row.cells))
    notes = [*NOTES, *run_count_notes(number for row in lines for number in row.runs)]
    return Table(caption, COLUMNS, rows, [row.record for row in lines], notes, "glance", {"seconds": "s"})


def ranked(data: CaseData) -> tuple[list[Reading], Reading, Reading | None]:
    """Return `CaseData.ranked`. Errors: UsageError if no step is verified on the case."""
    steps, best, peer = data.ranked()
    if best is None:
        order = ", ".join(data.order)
        raise UsageError(f"no step of {order} has a verified time on {data.case}; measure the ladder first")
    return steps, best, peer


def _ratio(ratio: Speedup | None, reference: Reading | None, reading: Reading, over: str) -> Cell:
    """Return the cell of a ratio with its interval.

    Its small print names the reference, or says why there is no ratio, and whether the times of the row give another one.
    """
    cell = ratio_cell(ratio, head_how=ratio.how if ratio else "")
    if ratio and reference and ratio.contradicts(reference, reading):
        over = f"{over} (the times alone give {show.number(reference.median / reading.median)})"
    return replace(cell, small=f"{cell.small} {over}".strip())


def _fields(name: str, ratio: Speedup | None) -> dict[str, float | None]:
    """Return a ratio and the ends of its interval as fields of a frame."""
    ends = (ratio.estimate, ratio.low, ratio.high) if ratio else (None, None, None)
    return dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))


def _on_demand(cell: Cell) -> Cell:
    return replace(cell, css=f"{cell.css} {ON_DEMAND}")


def _named(reading: Reading | None, home: Home) -> str:
    return " ".join(filter(None, (reading.variant, device_note(reading, home)))) if reading else ""


def _timed(reading: Reading | None, home: Home) -> Cell:
    if reading is None:
        return Cell(show.DASH, "num")
    small = _named(reading, home)
    return Cell(show.duration(reading.median), "num", small=small, card_id=reading.id)
