"""Figure and table of a tuned space: its points as lines over the knobs, and how many points each strategy needs."""

import importlib.util
import math
from collections.abc import Sequence

from ..analysis import format as show
from ..analysis.tuned_space import REPLAYS, TunedSpace
from ..measure.search_strategy import SAMPLERS
from .effect_style import EFFECT_COLOURS
from .figure import INK, WIDTH, Figure, describe, finish, style
from .html import Cell, Row, Table

MOST_LINES = 400
"""Largest number of points that are drawn, the fastest ones."""
BEST_SHARE = 0.05
"""Share of the points that are drawn as the best."""
REPLAYED = ("exhaustive", "random", "tpe")
"""Strategies that are replayed, those of Optuna only where it is installed."""


def parallel_coordinates(space: TunedSpace) -> Figure:
    """Draw each right point as a line over one axis for each knob, and one for the time."""
    from matplotlib.figure import Figure as Drawing

    timed, values = space.timed[:MOST_LINES], space.values
    best_count = max(1, round(BEST_SHARE * len(space.timed)))
    name, unit = show.time_unit([timed[0][1]])
    times = [seconds for _, seconds in timed]
    span = math.log(times[-1] / times[0]) or 1.0  # the last axis is logarithmic
    with style():
        drawing = Drawing(figsize=(WIDTH, 3.9))
        ax = drawing.add_subplot()
        axes = range(len(values) + 1)
        for number, (point, seconds) in reversed(list(enumerate(timed))):
            heights = [_height(values[knob], point[knob]) for knob in values]
            is_best = number < best_count
            ax.plot(
                axes, [*heights, math.log(seconds / times[0]) / span], lw=1.6 if is_best else 0.6, zorder=2 if is_best else 1,
                color=EFFECT_COLOURS["faster" if is_best else "same"], alpha=0.9 if is_best else 0.25,
            )  # fmt: skip
        for axis, of_knob in enumerate(values.values()):
            ax.axvline(axis, color=INK, lw=0.8)
            for value in of_knob:
                ax.text(axis + 0.04, _height(of_knob, value), value, fontsize=9, va="center")
        ax.axvline(len(values), color=INK, lw=0.8)
        for share in (0.0, 0.5, 1.0):
            label = show.number(times[0] * math.exp(share * span) / unit)
            ax.text(len(values) + 0.04, share, label, fontsize=9, va="center")
        ax.set_xticks(list(axes), [*values, f"time, {name}"])
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
        ax.set_xlim(-0.1, len(values) + 0.5)
        failed = len(space.results) - len(space.timed)
        notes = [f"Blue: the fastest {best_count} of {len(space.timed)} right points. {failed} points failed."]
        if len(timed) < len(space.timed):
            notes.append(f"Drawn: the fastest {MOST_LINES}.")
        fastest = ", ".join(f"{knob} = {value}" for knob, value in timed[0][0].items())
        return finish(
            drawing,
            f"{space.lab} {space.step} on {space.case}, {space.device}: one line a point",
            notes,
            description=describe(drawing, f"the fastest point: {fastest}, {show.duration(times[0])}"),
            records=[{**point, "seconds": seconds} for point, seconds in space.timed],
        )


def _height(values: Sequence[str], value: str) -> float:
    """Return the place of a value on its axis, from 0 to 1."""
    return values.index(value) / max(1, len(values) - 1)


def strategies_table(spaces: Sequence[TunedSpace]) -> Table:
    """Return a table of the median number of points that each strategy measures until one is within 1 % of the fastest."""
    has_optuna = importlib.util.find_spec("optuna") is not None
    strategies = [name for name in REPLAYED if name not in SAMPLERS or has_optuna]
    lines, rows = [], []
    for space in spaces:
        medians = {name: space.median_evaluations(name) for name in strategies}
        where = f"{space.lab} {space.step}, {space.case}, {space.device}"
        rows.append(
            Row([Cell(where), Cell(str(len(space.results)), "num"), *(Cell(f"{m:g}", "num") for m in medians.values())])
        )
        lines.append({"space": where, "points": len(space.results), **medians})
    notes = [f"Median over {REPLAYS} seeds, replayed from the stored times; a failed point counts as measured."]
    if not has_optuna:
        notes.append("Optuna is not installed where this page was made, so its samplers are left out.")
    columns = [Cell("Space"), Cell("Points", "num"), *(Cell(name, "num") for name in strategies)]
    return Table("Points measured until one is within 1 % of the fastest", columns, rows, lines, notes)
