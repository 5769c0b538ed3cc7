"""The ladder as a bar chart: how many times as fast as the base each variant is."""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..analysis import format as show
from ..analysis.case_data import CaseData, over_another
from ..analysis.readings import Reading, faster, home_of
from ..errors import UsageError
from ..measure.stats import CONFIDENCE
from .cell_format import device_note, run_notes
from .effect_style import EFFECT_COLOURS, PEER, START, effect_of, legend_marks
from .figure import COLOURS, FONT, INK, STEP_LINK, WIDTH, Figure, add_tips, describe, finish, style

MEDIAN_WHISKERS = f"Whiskers: {CONFIDENCE} interval of the median."


MOST_LANES = 34
"""Most bars of a figure that fits a screen; the steps beside the way to the fastest one then have a figure of their own."""


def ladder_chart(data: CaseData, title: str = "") -> Figure:
    """Draw the speedup over the base, a bar for each variant in ladder order, with its interval and its time.

    A bar's colour says whether its step is faster than its parent. The axis is logarithmic if the bars span more than a factor
    of 20. If no base has a bar, the first variant with one is the base. If there are too many bars for a screen, those of steps
    beside the ladder's way to the fastest step are in a fold. Errors: UsageError if no variant has a verified time.
    """
    names = [name for name in data.drawn if name in data.readings]
    way = set(data.way_to_fastest(names))
    aside = [
        name for name in names if name not in {*way, *data.bases, *data.peers} and data.readings[name].role == "step"
    ]
    if len(names) <= MOST_LANES or not way:
        return _chart(data, data.drawn, way, title)
    main = _chart(data, [name for name in data.drawn if name not in aside], way, title)
    base = next((name for name in data.bases if name in data.readings and data.readings[name].ok), None)
    beside = _chart(data, [*filter(None, [base]), *aside], way, f"Steps beside the way to the fastest on {data.case}")
    return replace(main, more=(f"{show.several(len(aside), 'step')} beside this way", beside))


def _chart(data: CaseData, order: Sequence[str], way: Collection[str], title: str) -> Figure:
    """Draw the bars of the variants in `order`; names on the way to the fastest step are bold."""
    from matplotlib.ticker import LogLocator, NullLocator

    readings, case = data.readings, data.case
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
    effects = {name: effect_of(readings[name], readings) for name in good}
    per, words, records = readings[base].row["unit"], list[str](), list[dict[str, Any]]()
    with style():
        ax = lanes(len(names), (left, right), log=log)
        for lane, name in enumerate(names):
            reading = readings[name]
            label = f"{name} {device_note(reading, home)}".rstrip()
            if not reading.ok:
                heading(ax, lane, label)
                cross(ax, lane, name, reading.reason)
                continue
            estimate, low, high = speed[name]
            has_interval = name != base and math.isfinite(high) and low > 0
            interval = (estimate, low, high) if has_interval else (estimate,)
            speedup = "base" if name == base else f"{show.factor(estimate)}\u00d7"
            heading(ax, lane, label, f"{speedup} \u00b7 {show.duration(reading.median)}", name in way)
            start = max(left, 1.0) if log else 0.0
            whiskers = (low, high) if has_interval else None
            ratio = f"{show.factor(*interval)} times as fast as {base}" if name != base else speedup
            tip = f"{name}: {ratio}; {show.duration(reading.median)} per {per}{_effect_words(effects[name], reading)}"
            colour = EFFECT_COLOURS[effects[name]]
            bar(ax, lane, estimate, colour, reading.role, tip, whiskers, start, address_of(reading))
            words.append(f"{name} {speedup}, {show.duration(reading.median)}")
            records.append(
                {
                    "variant": name, "role": reading.role, "parent": reading.parent, "effect": effects[name], "base": base,
                    "ratio": estimate, "low": low, "high": high, "seconds": reading.median,
                }
            )  # fmt: skip
            if name == base and log:
                ax.plot([1], [lane], marker="D", ms=6, color=EFFECT_COLOURS[effects[name]], clip_on=False)
        barred = [lane for lane, name in enumerate(names) if name in good]
        vertical_line(ax, 1.0, barred, color=INK, lw=1.2, alpha=0.6)
        if log:
            ax.xaxis.set_major_locator(LogLocator(10, numticks=4))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick) + "\u00d7")
        ax.set_xlabel(f"times as fast as {base}" + (", logarithmic" if log else ""))
        legend(ax, {readings[name].role for name in good if name != base}, effects=effects.values())
        notes = [f"Whiskers: {CONFIDENCE} interval of the ratio. Times are medians per {per}."]
        notes += ["Bold: the ladder's way to its fastest step."] * bool(set(names) & {*way})
        notes += over_another(base, data.bases, "has no bar here")
        notes += [*run_notes(readings[name] for name in good), *absences(order, readings, data.skip_reasons)]
        described = describe(ax.figure, f"bars, as many times as fast as {base}: {'; '.join(words)}", with_texts=False)
        heading_text = title or f"Speedup of each variant over {base} on {case}"
        return finish(ax.figure, heading_text, notes, (), described, records)


def address_of(reading: Reading) -> str:
    """Return the address of a reading's step on its lab's first page; '' for a start of the ladder and for no step of it."""
    return f"{STEP_LINK}{reading.variant}" if reading.role in ("step", "base") and reading.parent else ""


def _effect_words(effect: str, reading: Reading) -> str:
    """Return the effect of a bar's step in words, for its tip."""
    return (
        f"; {effect} {'as' if effect == 'same' else 'than'} {reading.parent}"
        if effect in ("slower", "same", "faster")
        else ""
    )


NAMES, VALUES = 0.31, 0.25  # shares of the width that names and values take
LANE = 0.215  # inches
THICK = 0.62  # of a lane


def lanes(count: int, ends: tuple[float, float], *, log: bool = False, flagged: bool = False) -> Any:
    """Return axes with a lane for each of `count` bars, between its name and its value; flagged: with room for a `flag`."""
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import NullLocator

    drawing = Drawing(figsize=(WIDTH, LANE * (count + 0.6) + (0.4 if flagged else 0)))
    ax = drawing.add_axes((NAMES, 0.0, 1 - NAMES - VALUES, 1.0))
    ax.set(xscale="log" if log else "linear", xlim=ends, ylim=(count - 0.4, -0.6 - (2 if flagged else 0)))
    ax.yaxis.set_major_locator(NullLocator())
    ax.grid(axis="x")
    ax.spines["left"].set_visible(False)
    return ax


def heading(ax: Any, lane: int, name: str, text: str = "", bold: bool = False) -> None:
    """Write the variant's name left of a bar, and its value right of it."""
    words: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center", "size": FONT - 1}
    ax.text(-0.025, lane, name, ha="right", weight="bold" if bold else "normal", **words)
    ax.text(1.025, lane, text, ha="left", **words)


def cross(ax: Any, lane: int, name: str, reason: str) -> None:
    """Draw a cross and the reason, in place of the bar of a variant that failed."""
    across = ax.get_yaxis_transform()
    (mark,) = ax.plot(
        [0.01], [lane], "x", transform=across, color=COLOURS["failed"], ms=7, mew=2, clip_on=False, zorder=1
    )  # the zorder of bars, so that the keyboard visits both in order
    add_tips(mark, f"{name}: failed: {reason}")
    ax.text(0.05, lane, f"failed: {_shortened(reason, 44)}", transform=across, va="center", size=FONT - 1.5)


HATCHES = {"dsl": "\\\\\\\\", "probe": "....", "again": "xxxx"}
"""Hatches of bars that are neither a step of the ladder nor a peer, by role."""


def bar(
    ax: Any,
    lane: int,
    end: float,
    colour: str,
    role: str,
    tip: str,
    whiskers: tuple[float, float] | None,
    start: float = 0.0,
    link: str = "",
) -> None:
    """Draw a bar and its interval, as `Axes.barh` and `Axes.errorbar` do, but faster, since no axis is fitted.

    tip: the bar in words. link: the address that it opens; '' for none.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle

    hatch = HATCHES.get(role)
    rectangle = Rectangle((start, lane - THICK / 2), end - start, THICK, fc=colour, lw=0, hatch=hatch, clip_on=False)
    add_tips(ax.add_patch(rectangle), tip, links=[link])
    if whiskers:
        ax.add_line(Line2D(whiskers, [lane] * 2, color=INK, lw=1, marker="|", ms=5, mew=1, clip_on=False))


def vertical_line(ax: Any, x: float, barred: Sequence[int], **line_style: Any) -> None:
    """Draw a vertical line that crosses the bars of the lanes `barred`."""
    ax.vlines(
        [x] * len(barred),
        [lane - 0.5 for lane in barred],
        [lane + 0.5 for lane in barred],
        clip_on=False,
        **line_style,
    )


def flag(ax: Any, x: float, barred: Sequence[int], label: str, colour: str) -> None:
    """Draw a strong vertical line with a label above the first lane."""
    vertical_line(ax, x, barred, color=colour, lw=2.2)
    ax.annotate(label, (x, -0.9), (0, 4), ha=_label_alignment(ax, x), textcoords="offset points", annotation_clip=False)
    ax.plot([x], [-0.8], marker="v", ms=6, color=colour, clip_on=False)


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


def legend(
    ax: Any,
    roles: Collection[str],
    lines: Sequence[Any] = (),
    effects: Collection[str] = (),
    *,
    short: bool = False,
) -> None:
    """Draw a legend under the axis: `lines`, the colours of effects, with a word each if `short`, and hatches of roles."""
    from matplotlib.patches import Patch

    words = {
        "dsl": "kernel in Triton, CuTe DSL or Numba",
        "probe": "probe",
        "again": "A/A control",
    }
    present = [role for role in words if role in roles]
    faces = [
        Patch(fc=EFFECT_COLOURS[PEER if role == "dsl" else START], lw=0, hatch=HATCHES.get(role), label=words[role])
        for role in present
    ]
    handles = [*lines, *legend_marks(effects, short=short), *faces]
    if handles:
        below = 46 / (72 * ax.figure.get_figheight())  # points under the axis, clear of its label
        ax.legend(
            handles=handles,
            ncols=2,
            loc="upper center",
            bbox_to_anchor=(0.35, -below),
            handlelength=1.0,
            columnspacing=1.2,
        )
