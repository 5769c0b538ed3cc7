"""The ladder as a bar chart: how many times as fast as the base each variant is."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..analysis import format as show
from ..analysis.case_data import CaseData, over_another
from ..analysis.readings import Reading, faster, home_of
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .cell_format import device_note, run_notes
from .figure import COLOURS, FONT, INK, WIDTH, Figure, add_tips, finish, style
from .variant_style import styles_of

MEDIAN_WHISKERS = f"Whiskers: {CONFIDENCE} interval of the median."


def ladder_chart(data: CaseData, title: str = "") -> Figure:
    """Draw the speedup over the base, a bar for each variant in ladder order, with its interval and its time.

    The axis is logarithmic if the bars span more than a factor of 20. If no base has a bar, the first variant with one is the
    base. Errors: UsageError if no variant has a verified time.
    """
    from matplotlib.ticker import LogLocator, NullLocator

    readings, case, order = data.readings, data.case, data.drawn
    names = [name for name in order if name in readings]
    good = [name for name in names if readings[name].ok]
    if not good:
        failed = "; ".join(f"{name} failed: {readings[name].reason}" for name in names) or "measure the ladder first"
        raise UsageError(f"no variant of {', '.join(order)} has a verified time on {case}; {failed}")
    base = next((name for name in data.bases if name in good), good[0])
    home = home_of([readings[name] for name in good])
    speed = {name: _speedup(readings[base], readings[name]) for name in good}
    ends = [end for triple in speed.values() for end in triple if 0 < end < math.inf]
    log = max(ends) / min(ends) > 20
    left = (1.0 if min(ends) >= 1 else min(ends) / 1.2) if log else 0.0
    right = max(ends) ** 1.04 * 1.08 if log else max(ends) * 1.06
    styles, per = styles_of(data), readings[base].row["unit"]
    with style():
        ax = lanes(len(names), (left, right), log=log)
        for lane, name in enumerate(names):
            reading = readings[name]
            if not reading.ok:
                heading(ax, lane, name)
                cross(ax, lane, name, reading.reason)
                continue
            estimate, low, high = speed[name]
            has_interval = name != base and math.isfinite(high) and low > 0
            interval = (estimate, low, high) if has_interval else (estimate,)
            number, space, brackets = show.factor(*interval).partition(" ")
            speedup = "base" if name == base else f"{number}\u00d7{space}{brackets}"
            heading(
                ax,
                lane,
                f"{name} {device_note(reading, home)}".rstrip(),
                f"{speedup} \u00b7 {show.duration(reading.median)}",
            )
            start = max(left, 1.0) if log else 0.0
            whiskers = (low, high) if has_interval else None
            ratio = f"{show.factor(*interval)} times as fast as {base}" if name != base else speedup
            tip = f"{name}: {ratio}; {show.duration(reading.median)} per {per}"
            bar(ax, lane, estimate, styles[name].colour, reading.role, tip, whiskers, start)
            if name == base and log:
                ax.plot([1], [lane + 0.18], marker="D", ms=6, color=styles[name].colour, clip_on=False)
        barred = [lane for lane, name in enumerate(names) if name in good]
        vertical_line(ax, 1.0, barred, color=INK, lw=1.2, alpha=0.6)
        if log:
            ax.xaxis.set_major_locator(LogLocator(10))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick) + "\u00d7")
        ax.set_xlabel(f"times as fast as {base}" + (", logarithmic" if log else ""))
        legend(ax, {readings[name].role for name in good if name != base})
        notes = [f"Whiskers: {CONFIDENCE} interval of the ratio. Times are medians per {per}."]
        notes += over_another(base, data.bases, "has no bar here")
        notes += [*run_notes(readings[name] for name in good), *absences(order, readings, data.skip_reasons)]
        return finish(ax.figure, title or f"Speedup of each variant over {base} on {case}", notes)


def lanes(count: int, ends: tuple[float, float], *, log: bool = False, flagged: bool = False) -> Any:
    """Return axes with a lane for each of `count` bars below a line of text; flagged: with room for a `flag`."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import NullLocator

    drawing = Drawing(figsize=(WIDTH, 0.46 * count + (1.15 if flagged else 0.8)))
    ax = drawing.add_axes((0.02, 0.0, 0.96, 1.0))
    ax.set(xscale="log" if log else "linear", xlim=ends, ylim=(count - 0.45, -0.75))
    ax.yaxis.set_major_locator(NullLocator())
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    return ax


def heading(ax: Any, lane: int, name: str, text: str = "") -> None:
    """Write the text above a bar: the variant's name, and its speedup at the right."""
    words: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center"}
    ax.text(0, lane - 0.24, name, ha="left", **words)
    ax.text(1, lane - 0.24, text, ha="right", size=FONT - 0.5, **words)


def cross(ax: Any, lane: int, name: str, reason: str) -> None:
    """Draw a cross and the reason, in place of the bar of a variant that failed."""
    across = ax.get_yaxis_transform()
    (mark,) = ax.plot(
        [0.01], [lane + 0.18], "x", transform=across, color=COLOURS["failed"], ms=7, mew=2, clip_on=False, zorder=1
    )  # the zorder of bars, so that the keyboard visits both in order
    add_tips(mark, f"{name}: failed: {reason}")
    ax.text(0.035, lane + 0.18, f"failed: {_shortened(reason, 76)}", transform=across, va="center", size=FONT - 1.5)


HATCHES = {"peer": "////", "dsl": "\\\\\\\\", "probe": "....", "again": "xxxx"}
"""Hatches of bars that are no step of the ladder, by role."""


def bar(
    ax: Any,
    lane: int,
    end: float,
    colour: str,
    role: str,
    tip: str,
    whiskers: tuple[float, float] | None,
    start: float = 0.0,
) -> None:
    """Draw a bar and its interval, as `Axes.barh` and `Axes.errorbar` do, but faster, since no axis is fitted.

    tip: the bar in words.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    hatch = HATCHES.get(role)
    rectangle = Rectangle((start, lane), end - start, 0.36, fc=colour, lw=0, hatch=hatch, clip_on=False)
    add_tips(ax.add_patch(rectangle), tip)
    if whiskers:
        ax.add_line(Line2D(whiskers, [lane + 0.18] * 2, color=INK, lw=1, marker="|", ms=5, mew=1, clip_on=False))


def vertical_line(ax: Any, x: float, barred: Sequence[int], **line_style: Any) -> None:
    """Draw a vertical line that crosses the bars of the lanes `barred` and leaves out the text between them."""
    ax.vlines(
        [x] * len(barred),
        [lane - 0.04 for lane in barred],
        [lane + 0.4 for lane in barred],
        clip_on=False,
        **line_style,
    )


def flag(ax: Any, x: float, barred: Sequence[int], label: str, colour: str) -> None:
    """Draw a strong vertical line with a label above the first lane."""
    vertical_line(ax, x, barred, color=colour, lw=2.2)
    ax.annotate(
        label, (x, -0.62), (0, 4), ha=_label_alignment(ax, x), textcoords="offset points", annotation_clip=False
    )
    ax.plot([x], [-0.6], marker="v", ms=6, color=colour, clip_on=False)


def absences(order: Sequence[str], readings: Collection[str], skip_reasons: Mapping[str, str]) -> list[str]:
    """Return a note for each reason why variants of `order` have no bar. skip_reasons: variant -> why it cannot be measured."""
    absent = {name: skip_reasons[name] for name in order if name in skip_reasons}
    missing = [name for name in order if name not in readings and name not in absent]
    reasons = absent | dict.fromkeys(missing, "not measured")
    return [
        f"{', '.join(name for name in reasons if reasons[name] == reason)} – {reason}."
        for reason in dict.fromkeys(reasons.values())
    ]


def _speedup(base: Reading, reading: Reading) -> tuple[float, float, float]:
    """Return (estimate, low, high) of the speedup over the base; exactly 1 for the base itself."""
    ratio = None if base is reading else faster(base, reading)
    return (ratio.estimate, ratio.low, ratio.high) if ratio else (1.0, 1.0, 1.0)


def _shortened(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _label_alignment(ax: Any, x: float) -> str:
    """Return the alignment of a label at `x` that keeps it inside the figure."""
    part = ax.transAxes.inverted().transform(ax.transData.transform((x, 0)))[0]
    return "left" if part < 0.3 else "right" if part > 0.7 else "center"


def legend(ax: Any, roles: Collection[str], lines: Sequence[Any] = ()) -> None:
    """Draw a legend under the axis: `lines`, and the hatches of bars if there are several roles."""
    from matplotlib.patches import Patch

    words = {
        "step": "step of the ladder",
        "peer": "peer (library or program)",
        "dsl": "kernel in Triton or Numba",
        "probe": "probe",
        "again": "A/A control",
    }
    present = [role for role in words if role in roles]
    faces = [
        Patch(fc=COLOURS["base"], lw=0, hatch=HATCHES.get(role), label=words[role])
        for role in present
        if len(present) > 1
    ]
    handles = [*lines, *faces]
    if handles:
        below = 46 / (72 * ax.figure.get_figheight())  # points under the axis, clear of its label
        ax.legend(
            handles=handles,
            ncols=2 if lines else 3,
            loc="upper center",
            bbox_to_anchor=(0.5, -below),
            handlelength=1.0,
            columnspacing=1.2,
        )
