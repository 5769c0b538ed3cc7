"""Timeline of a run's queues: copies and kernels as bars on one time axis, a lane for each queue."""

import math
from collections.abc import Sequence
from typing import Any

from ...analysis import format as show
from ...analysis.case_data import CaseData
from ...analysis.lab_data import LabData
from ...analysis.readings import Reading
from ...analysis.sentences import joined
from ...devices.contract import Span
from ...errors import UsageError
from ...report.bars import absences
from ...report.figure import COLOURS, FONT, INK, WIDTH, Figure, add_tips, finish, style

KINDS = {
    "to device": (COLOURS["to device"], -0.055, 0.11, "copy to the device"),
    "kernel": (COLOURS["kernel"], 0.0, 0.22, "kernel"),
    "to host": (COLOURS["to host"], 0.055, 0.11, "copy to the host"),
}
"""Kind of span -> colour, offset and height in its lane in inches, and name in the legend."""
MOST_BARS = 90  # bars that can be told apart; of a longer run only the beginning is drawn
LANE, HEADING = 0.28, 0.3  # heights in inches


def timeline(data: LabData, *variants: str) -> Figure:
    """Draw one run of each of `variants` on the largest case. Errors: UsageError as in `timeline_chart`."""
    return timeline_chart(data.on(), [data.lab.variant(name).name for name in variants])


def timeline_chart(data: CaseData, variants: Sequence[str]) -> Figure:
    """Draw one run of each of `variants`: a lane for each queue, a bar for each kernel and copy, one axis in ms.

    The rows' `extra` holds `timeline`: [queue, what, start, end] in seconds, as `contract.Span`. The axis ends where the
    first run has done MOST spans; each heading describes its whole run. Errors: UsageError if no variant has a timeline, or a
    timeline holds no valid span.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.patches import Patch
    from matplotlib.ticker import NullLocator

    readings, case = data.readings, data.case
    traced = {name: spans for name in variants if name in readings and (spans := _spans(readings[name]))}
    if not traced:
        raise UsageError(f"no verified run of {', '.join(variants) or 'any variant'} on {case} has a timeline")
    ends = {name: max(span.end for span in spans) for name, spans in traced.items()}
    until = min([max(ends.values()), *(spans[MOST_BARS].start for spans in traced.values() if len(spans) > MOST_BARS)])
    height = sum(HEADING + LANE * len(_queues(spans)) for spans in traced.values())
    with style():
        drawing = Drawing(figsize=(WIDTH, height))
        ax = drawing.add_axes((0.12, 0.0, 0.86, 1.0))
        ax.set(xlim=(0, 1e3 * until), ylim=(height, 0))
        ax.yaxis.set_major_locator(NullLocator())
        ax.spines["left"].set_visible(False)
        ax.grid(axis="x")
        top = 0.0
        for name, spans in traced.items():
            _heading(ax, top + 0.6 * HEADING, name, _heading_text(spans, ends[name]))
            top += HEADING
            for queue in _queues(spans):
                own_spans = [span for span in spans if span.queue == queue and span.start < until]
                _lane(ax, top + LANE / 2, f"queue {queue}", own_spans)
                top += LANE
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick))
        ax.set_xlabel("time, ms")
        handles = [Patch(color=colour, label=label) for colour, _, _, label in KINDS.values()]
        below = 46 / (72 * height)  # points under the axis, clear of its label
        ax.legend(
            handles=handles, ncols=3, loc="upper center", bbox_to_anchor=(0.44, -below), handlelength=1.0,
            columnspacing=1.2,
        )  # fmt: skip
        notes = ["One run of each, from the events of the device's queues; copies are half bars."]
        cut = [name for name in traced if ends[name] > until]
        if cut:
            scope = "The figures above the lanes cover whole runs."
            notes.append(f"Only the first {show.duration(until)} are drawn; {joined(cut)} went on. {scope}")
        without_timeline = [name for name in variants if name in readings and readings[name].ok and name not in traced]
        notes += [f"No timeline: {', '.join(without_timeline)}."] * bool(without_timeline)
        notes += [
            f"{name} failed: {readings[name].reason}."
            for name in variants
            if name in readings and not readings[name].ok
        ]
        notes += absences(variants, readings, data.skip_reasons)
        records = [
            {"variant": name, "queue": span.queue, "what": span.what, "start_s": span.start, "end_s": span.end}
            for name, spans in traced.items()
            for span in spans
        ]
        return finish(drawing, f"Timeline of the queues on {case}", notes, records=records)


def overlap_share(spans: Sequence[Span]) -> float:
    """Return the share of the copying time in which a kernel runs too; NaN if nothing is copied."""
    edges = sorted(
        (seconds, step, span.what == "kernel") for span in spans for seconds, step in ((span.start, 1), (span.end, -1))
    )
    running, copying, both, previous = {True: 0, False: 0}, 0.0, 0.0, 0.0
    for seconds, step, kernel in edges:
        if running[False]:
            copying += seconds - previous
            both += (seconds - previous) * (running[True] > 0)
        running[kernel] += step
        previous = seconds
    return both / copying if copying else math.nan


def _spans(reading: Reading) -> list[Span]:
    """Return the spans of a run in the order of time."""
    spans = [Span(*fields) for fields in reading.facts.get("timeline", [])]
    for span in spans:
        if span.what not in KINDS or not 0 <= span.start <= span.end < math.inf:
            raise UsageError(
                f"{reading.variant} on {reading.row['case']}: timeline holds {list(span)}; a span is [queue, what, start, "
                f"end], what one of {', '.join(KINDS)}, in seconds"
            )
    return sorted(spans, key=lambda span: span.start)


def _queues(spans: Sequence[Span]) -> list[int]:
    return sorted({span.queue for span in spans})


def _heading_text(spans: Sequence[Span], end: float) -> str:
    share = overlap_share(spans)
    return show.duration(end) + (
        "" if math.isnan(share) else f" \u00b7 kernels during {show.percent(share)} of the copying"
    )


def _heading(ax: Any, y: float, name: str, text: str) -> None:
    across: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center"}
    ax.text(-0.13, y, name, ha="left", **across)
    ax.text(1, y, text, ha="right", size=FONT - 0.5, **across)


def _lane(ax: Any, y: float, label: str, spans: Sequence[Span]) -> None:
    """Draw the bars of one queue. All bars of a kind are one path of short thick lines, which keeps the SVG small."""
    from matplotlib.patches import PathPatch
    from matplotlib.path import Path

    ax.text(-0.02, y, label, transform=ax.get_yaxis_transform(), va="center", ha="right", size=FONT - 1.5)
    ax.axhline(y, color=INK, lw=0.6, alpha=0.3, zorder=1)
    for kind, (colour, offset, height, name) in KINDS.items():
        ends = [
            (1e3 * seconds, y + offset) for span in spans if span.what == kind for seconds in (span.start, span.end)
        ]
        if ends:
            path = Path(ends, [Path.MOVETO, Path.LINETO] * (len(ends) // 2))
            path.should_simplify = False
            bars = PathPatch(path, fill=False, edgecolor=colour, lw=72 * height, capstyle="butt", zorder=2)
            busy = sum(span.end - span.start for span in spans if span.what == kind)
            add_tips(
                ax.add_patch(bars), f"{label}, {name}: {len(ends) // 2} in the part drawn, {show.duration(busy)} in all"
            )
