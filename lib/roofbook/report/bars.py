"""The ladder as bars: how many times faster than the base each variant is."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from roofbook.errors import UsageError
from roofbook.report import units as show
from roofbook.report.readings import Reading, faster, newest
from roofbook.report.svg import COLOURS, FONT, INK, WIDTH, Figure, finish, style

if TYPE_CHECKING:
    import pandas as pd


def ladder_chart(
    rows: "pd.DataFrame",
    order: Sequence[str],
    *,
    case: str,
    base: str = "sequential",
    published: tuple[float, str] | None = None,
    elsewhere: Collection[str] | Mapping[str, str] = (),
    title: str = "",
) -> Figure:
    """Speedup over the base, one bar a variant in ladder order, with its interval and its time.

    published: (seconds per unit, label) of the best published figure, drawn as a line. The axis is logarithmic where
    the bars span more than a factor of 20. Without a time for `base` the first variant with one takes its place.
    """
    from matplotlib.figure import Figure as Drawing
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    found = newest(rows, case)
    names = [name for name in order if name in found]
    good = [name for name in names if found[name].ok]
    if not good:
        raise UsageError(f"no variant of {', '.join(order)} has a verified time on {case}; measure the ladder first")
    if base not in good:
        base = good[0]
    speed = {name: _speedup(found[base], found[name]) for name in good}
    line = found[base].median / published[0] if published else math.nan
    ends = [each for triple in speed.values() for each in triple if math.isfinite(each)] + ([line] if published else [])
    log = max(ends) / min(ends) > 20
    left = (1.0 if min(ends) >= 1 else min(ends) / 1.2) if log else 0.0
    right = max(ends) ** 1.04 * 1.08 if log else max(ends) * 1.06
    with style():
        drawing = Drawing(figsize=(WIDTH, 0.46 * len(names) + (1.15 if published else 0.8)))
        ax = drawing.add_axes((0.02, 0.0, 0.96, 1.0))
        ax.set(xscale="log" if log else "linear", xlim=(left, right), ylim=(len(names) - 0.45, -0.75))
        across = ax.get_yaxis_transform()
        for at, name in enumerate(names):
            reading = found[name]
            ax.text(0, at - 0.24, name, transform=across, va="center", ha="left")
            if not reading.ok:
                ax.plot([0.01], [at + 0.18], "x", transform=across, color=COLOURS["failed"], ms=7, mew=2, clip_on=False)
                ax.text(
                    0.035,
                    at + 0.18,
                    f"failed: {_short(reading.why, 60)}",
                    transform=across,
                    va="center",
                    size=FONT - 1.5,
                )
                continue
            estimate, low, high = speed[name]
            role = "base" if name == base else reading.role
            start = max(left, 1.0) if log else 0.0
            ax.barh(at + 0.18, estimate - start, left=start, height=0.36, color=COLOURS.get(role, COLOURS["step"]))
            if name == base and log:
                ax.plot([1], [at + 0.18], marker="D", ms=6, color=COLOURS["base"], clip_on=False)
            elif name != base and math.isfinite(high) and low > 0:
                ax.errorbar(estimate, at + 0.18, xerr=[[estimate - low], [high - estimate]], ecolor=INK, elinewidth=1)
            said_speed = "base" if name == base else f"{show.number(estimate)}\u00d7"
            said = f"{said_speed} \u00b7 {show.duration(reading.median)}"
            ax.text(1, at - 0.24, said, transform=across, va="center", ha="right", size=FONT - 0.5)
        beside = [(at - 0.04, at + 0.4) for at in range(len(names))]  # lines keep off the words above each bar
        ax.vlines([1.0] * len(names), *zip(*beside, strict=True), color=INK, lw=1.2, alpha=0.6)
        if published:
            ax.vlines([line] * len(names), *zip(*beside, strict=True), color=COLOURS["published"], lw=2.2)
            label = f"published: {published[1]}, {show.number(line)}\u00d7"
            side = _towards(line, left, right, log)
            ax.annotate(label, (line, -0.62), (0, 4), ha=side, textcoords="offset points", annotation_clip=False)
            ax.plot([line], [-0.6], marker="v", ms=6, color=COLOURS["published"], clip_on=False)
        if log:
            ax.xaxis.set_major_locator(LogLocator(10))
            ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: show.tick(at) + "\u00d7"))
        ax.yaxis.set_major_locator(NullLocator())
        ax.grid(axis="x")
        ax.spines["left"].set_visible(False)
        ax.set_xlabel(f"times faster than {base}" + (", logarithmic" if log else ""))
        _roles(ax, {("base" if name == base else found[name].role) for name in good})
        absent = elsewhere if isinstance(elsewhere, Mapping) else dict.fromkeys(elsewhere, "not on this device")
        missing = [name for name in order if name not in found and name not in absent]
        notes = [f"Whiskers: 95 % interval of the ratio. Times are medians per {found[base].row['unit']}."]
        notes += _absent({name: why for name, why in absent.items() if name in order})
        notes += [f"Not measured: {', '.join(missing)}."] * bool(missing)
        return finish(drawing, title or f"Speedup of each variant over {base} on {case}", notes)


def _absent(why: Mapping[str, str]) -> list[str]:
    """A note for each reason why variants have no bar."""
    return [
        f"{reason[:1].upper()}{reason[1:]} ({', '.join(name for name in why if why[name] == reason)})."
        for reason in dict.fromkeys(why.values())
    ]


def _speedup(base: Reading, own: Reading) -> tuple[float, float, float]:
    """(estimate, low, high) of the speedup over the base; exactly 1 for the base itself."""
    ratio = None if base is own else faster(base, own)
    return (ratio.estimate, ratio.low, ratio.high) if ratio else (1.0, 1.0, 1.0)


def _short(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "\u2026"


def _towards(x: float, left: float, right: float, log: bool) -> str:
    """Which side of `x` a label hangs on so that it stays inside the figure."""
    part = math.log(x / left) / math.log(right / left) if log else (x - left) / (right - left)
    return "left" if part < 0.3 else "right" if part > 0.7 else "center"


def _roles(ax: Any, roles: Collection[str]) -> None:
    """A legend of bar colours, where there is more than the base and the ladder to tell apart."""
    from matplotlib.patches import Patch

    words = {
        "step": "rung of the ladder",
        "peer": "what a user would pick instead",
        "probe": "probe",
        "again": "A/A control",
    }
    shown = [role for role in words if role in roles]
    if len(shown) > 1:
        below = 46 / (72 * ax.figure.get_figheight())  # points under the axis, clear of its label
        ax.legend(
            handles=[Patch(color=COLOURS[role], label=words[role]) for role in shown],
            ncols=3,
            loc="upper center",
            bbox_to_anchor=(0.5, -below),
            handlelength=1.0,
            columnspacing=1.2,
        )
