"""Forest plots of a technique: each step that changes it, and how many times as fast as its parent it is wherever both ran.

Serves the pages about techniques. A step has a lane, a device a line in it, and a case a point with its interval.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from ..analysis import format as show
from ..analysis.store_devices import StoreDevice
from ..analysis.technique_effects import Effect, StepEffects
from ..devices.backends import CUDA
from ..measure.stats import CONFIDENCE, Relation
from ..spec.shared_names import described
from ..spec.step_marks import marks
from ..spec.techniques import Technique
from .effect_style import EFFECT_COLOURS, legend_marks, shown_effect
from .figure import FONT, INK, WIDTH, Figure, add_tips, finish, style

MOST_LANES = 8
"""Most steps of a figure of several labs: a technique with more has a figure for each lab."""
HEAD, LINE, FOOT, LEGEND = 0.25, 0.105, 0.06, 0.62
"""Heights in inches: of a lane's heading, of a device's line, of the space below a lane, and of the legend."""
LETTERS, LEAST_LETTERS = 70, 14
"""Letters that a lane's heading has room for, without its dash, and the fewest that describe a step."""
MARKERS = "osD^vPX"
"""Shapes of the devices' marks, one for each piece of hardware."""
TICKS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 100, 300, 1000)


class DeviceMark(NamedTuple):
    """Mark of a device: its shape is that of the hardware, and it is hollow for a backend that is not CUDA."""

    marker: str
    hollow: bool


def device_marks(devices: Sequence[StoreDevice]) -> dict[StoreDevice, DeviceMark]:
    """Return the mark of each device. Devices of one kind have one shape, if one is by CUDA it is filled."""
    by_cuda = {device.slug for device in devices if device.backend == CUDA.name}
    shapes = dict(zip(dict.fromkeys(device.slug for device in devices), MARKERS, strict=False))
    return {
        device: DeviceMark(shapes.get(device.slug, "o"), device.slug in by_cuda and device.backend != CUDA.name)
        for device in devices
    }


def figures_of(technique: Technique, steps: Sequence[StepEffects], devices: Sequence[StoreDevice]) -> list[Figure]:
    """Return the forest plots of a technique: one, or one for each lab if it has many steps.

    steps: those with effects, lab by lab. devices: all recorded ones, in the order of their marks. All figures of a technique
    have one axis.
    """
    ends = _ends([effect for step in steps for effect in step.effects])
    if len(steps) <= MOST_LANES:
        return [forest(technique, steps, device_marks(devices), ends, technique.name)] if steps else []
    by_lab = groupby(steps, lambda step: step.lab)
    return [
        forest(technique, list(lab_steps), device_marks(devices), ends, f"{technique.name}: {lab.title}")
        for lab, lab_steps in by_lab
    ]


def forest(
    technique: Technique,
    steps: Sequence[StepEffects],
    marks: Mapping[StoreDevice, DeviceMark],
    ends: tuple[float, float],
    title: str,
) -> Figure:
    """Draw the effects of steps: a lane for each, a line for each device, a point with its interval for each case.

    ends: limits of the axis, which is logarithmic. A point opens its step.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import FixedLocator, NullLocator

    several_labs = len({step.lab.name for step in steps}) > 1
    present = [device for device in marks if any(effect.device == device for step in steps for effect in step.effects)]
    lanes = [[device for device in present if any(e.device == device for e in step.effects)] for step in steps]
    height = sum(HEAD + LINE * len(devices) + FOOT for devices in lanes)
    with style():
        drawing = Drawing(figsize=(WIDTH, height + 0.5))
        ax = drawing.add_axes((0.02, 0.0, 0.96, 1.0))
        ax.set(xscale="log", xlim=ends, ylim=(height, 0))
        ax.yaxis.set_major_locator(NullLocator())
        ax.xaxis.set_major_locator(FixedLocator([tick for tick in TICKS if ends[0] <= tick <= ends[1]]))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(lambda tick, _: show.tick(tick) + "\u00d7")
        ax.grid(axis="x")
        ax.spines["left"].set_visible(False)
        top = 0.0
        for step, devices in zip(steps, lanes, strict=True):
            _lane_heading(ax, top + HEAD / 2, technique, step, several_labs)
            lines = {device: top + HEAD + LINE * (number + 0.5) for number, device in enumerate(devices)}
            bottom = top + HEAD + LINE * len(devices)
            ax.plot([1, 1], [top + HEAD - 0.03, bottom + 0.02], color=INK, lw=1.2, alpha=0.6)
            for device, y in lines.items():
                _points(ax, step, [effect for effect in step.effects if effect.device == device], y, marks[device])
            top = bottom + FOOT
        ax.set_xlabel("times as fast as the step before it, logarithmic")
        _legend(ax, steps, {device: marks[device] for device in present}, height)
        notes = [f"A point is a case; whiskers are the {CONFIDENCE} interval of the ratio."]
        notes += ["Steps with an asterisk change other techniques too."] * any(step.others(technique) for step in steps)
        return finish(drawing, title, notes, (), describe_effects(technique, steps), effect_records(steps))


def _ends(effects: Sequence[Effect]) -> tuple[float, float]:
    """Return the limits of an axis that has room for all estimates, and for 1; longer whiskers are cut."""
    estimates = [effect.ratio.estimate for effect in effects] or [1.0]
    return min(*estimates, 0.8) / 1.25, max(*estimates, 1.25) * 1.25


def _lane_heading(ax: Any, y: float, technique: Technique, step: StepEffects, several_labs: bool) -> None:
    """Write a step's name above its lane, with what it needs of a device, and its outcomes.

    A name that steps of several labs have is described, where labs stand beside each other.
    """
    words: dict[str, Any] = {"transform": ax.get_yaxis_transform(), "va": "center"}
    away = " (without it)" if step.takes_away(technique) else ""
    asterisk = " *" if step.others(technique) else ""
    lab = f"{step.lab.title}: " if several_labs else ""
    needs = f" ({', '.join(marks(step.step))})" if marks(step.step) else ""
    name = f"{lab}{step.step.name}{away}{asterisk}{needs}"
    room = LETTERS - len(name) - len(outcome_text(step))
    description = described(step.step, room) if several_labs and room >= LEAST_LETTERS else ""
    ax.text(0, y, f"{name} \u2013 {description}" if description else name, ha="left", **words)
    ax.text(1, y, outcome_text(step), ha="right", size=FONT - 1.5, **words)


def outcomes(counts: Counter[Relation]) -> dict[str, int]:
    """Return the number of measurements that are faster, the same or undecided, and slower."""
    return {
        "faster": counts["faster"],
        "same": counts["same"] + counts["undecided"],
        "slower": counts["slower"],
    }


def outcome_text(step: StepEffects) -> str:
    """Return in how many measurements a step is faster, the same and slower, such as '3 faster, 1 slower'."""
    return ", ".join(f"{count} {word}" for word, count in outcomes(step.counts).items() if count)


def _points(ax: Any, step: StepEffects, effects: Sequence[Effect], y: float, mark: DeviceMark) -> None:
    """Draw the points of a device's line, grouped by their colour."""
    from matplotlib.collections import LineCollection

    low_end, high_end = ax.get_xlim()
    by_effect: dict[str, list[Effect]] = {}
    for effect in sorted(effects, key=lambda effect: effect.ratio.estimate):
        by_effect.setdefault(shown_effect(effect.ratio.word), []).append(effect)
    for word, alike in by_effect.items():
        colour = EFFECT_COLOURS[word]
        whiskers = [(max(effect.ratio.low, low_end), min(effect.ratio.high, high_end)) for effect in alike]
        ax.add_collection(
            LineCollection([[(low, y), (high, y)] for low, high in whiskers], colors=colour, lw=1.0), autolim=False
        )
        (points,) = ax.plot(
            [effect.ratio.estimate for effect in alike], [y] * len(alike), mark.marker, ls="none", color=colour,
            mfc="none" if mark.hollow else colour, ms=4.4, mew=1.0, zorder=3,
        )  # fmt: skip
        link = story_address(step)
        add_tips(points, *(effect_sentence(step, effect) for effect in alike), links=[link] * len(alike))


def story_address(step: StepEffects) -> str:
    """Return the address of a step's place in its lab's story, seen from a technique's page."""
    return f"../labs/{step.lab.name}.html#step-{step.step.name}"


def effect_sentence(step: StepEffects, effect: Effect) -> str:
    """Return a point in words, such as 'cnn local-tile: 0.49 [0.48, 0.50] times as fast as fissioned on ...'."""
    ratio = effect.ratio
    factor = show.factor(ratio.estimate, ratio.low, ratio.high)
    factor = factor if math.isfinite(ratio.high) else show.factor(ratio.estimate)
    how = f" ({ratio.how})" if ratio.how else ""
    where = f"{effect.case}, {effect.device}"
    return (
        f"{step.lab.name} {step.step.name}: {ratio.word}, {factor} times as fast as {step.step.parent} on {where}{how}"
    )


def _legend(ax: Any, steps: Sequence[StepEffects], marks: Mapping[StoreDevice, DeviceMark], height: float) -> None:
    """Draw a legend above the lanes: the colours of the effects, then the shapes of the devices."""
    from matplotlib.lines import Line2D

    words = {shown_effect(word) for step in steps for word, count in step.counts.items() if count}
    shapes = [
        Line2D(
            [],
            [],
            marker=mark.marker,
            ls="none",
            ms=5,
            color=INK,
            mfc="none" if mark.hollow else INK,
            label=str(device),
        )
        for device, mark in marks.items()
    ]
    ax.legend(
        handles=[*legend_marks(words), *shapes], loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=2, borderaxespad=0.3,
        columnspacing=1.2, handletextpad=0.3, handlelength=1.2,
    )  # fmt: skip


def effect_records(steps: Sequence[StepEffects]) -> list[dict[str, Any]]:
    """Return a record for each measurement of the steps: step, parent, techniques, device, case, and the ratio."""
    return [
        {
            "lab": step.lab.name,
            "step": step.step.name,
            "parent": step.step.parent,
            "techniques": " ".join(f"{'-' * tag.taken_away}{tag.technique.key}" for tag in step.tags),
            "device": effect.device.name,
            "backend": effect.device.backend,
            "case": effect.case,
            "scale": effect.scale,
            "ratio": effect.ratio.estimate,
            "low": effect.ratio.low,
            "high": effect.ratio.high,
            "relation": effect.ratio.word,
            "runs": effect.ratio.runs,
        }
        for step in steps
        for effect in step.effects
    ]


def describe_effects(technique: Technique, steps: Sequence[StepEffects]) -> str:
    """Describe a forest plot for readers who cannot see it: for each step the outcomes and the range of its effect."""
    sentences = []
    for step in steps:
        ratios = [effect.ratio.estimate for effect in step.effects]
        with_others = ", with other techniques," if step.others(technique) else ""
        extent = (
            f"{show.factor(min(ratios))} to {show.factor(max(ratios))}" if len(ratios) > 1 else show.factor(ratios[0])
        )
        sentences.append(
            f"{step.lab.name} {step.step.name}{with_others} {extent} times as fast as {step.step.parent}: {outcome_text(step)}"
        )
    return f"Effect of {technique.name.lower()}. {'; '.join(sentences)}."
