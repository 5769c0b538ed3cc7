"""Lines with intervals over a number: the parts that charts of bandwidths, series and sweeps share."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..analysis import format as show
from ..analysis.readings import Reading
from .figure import WIDTH, add_tips

SLANTED: Mapping[str, Any] = {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
"""Arguments of tick labels that are too long to stand side by side."""
MANY_POINTS = 20
"""Most points of a line whose markers have full size."""


class Point(NamedTuple):
    """A point of a line: its x, its y with the interval, and its tooltip. Without a y (NaN) the line has a gap."""

    x: float
    y: float
    low: float
    high: float
    tip: str


def time_point(x: float, reading: Reading | None, unit: float, name: str) -> Point:
    """Return a reading's time in units of `unit` seconds, with its name as a tooltip; a gap without a verified time."""
    if reading is None or not reading.ok:
        return Point(x, math.nan, math.nan, math.nan, "")
    tip = f"{name}: {show.duration(reading.median)}"
    return Point(x, reading.median / unit, reading.low / unit, reading.high / unit, tip)


def line_axes(**scales: str) -> Any:
    """Return the axes of a new drawing. scales: xscale and yscale."""
    from matplotlib.figure import Figure as Drawing

    ax = Drawing(figsize=(WIDTH, 3.9)).add_subplot()
    ax.set(**scales)
    return ax


def add_line(ax: Any, name: str, points: Sequence[Point], **line_style: Any) -> None:
    """Draw a line with markers, intervals and tooltips."""
    marker_size = 5.5 if len(points) <= MANY_POINTS else 4
    mark = ax.errorbar(
        [point.x for point in points],
        [point.y for point in points],
        yerr=[[point.y - point.low for point in points], [point.high - point.y for point in points]],
        label=name,
        elinewidth=1.1,
        ms=marker_size,
        **line_style,
    )
    add_tips(mark[0], *(point.tip for point in points if not math.isnan(point.y)))


def finish_axes(
    ax: Any,
    places: Mapping[str, float],
    labels: Sequence[str],
    xlabel: str,
    ylabel: str,
    *,
    slanted: bool = False,
    columns: int = 0,
) -> None:
    """Label the axes, and draw a legend above them in so many columns; none with 0.

    places: text of a point -> its x. labels: the texts that fit below the axis; other points have a small tick.
    """
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter

    ax.set_xticks([places[text] for text in labels], labels, **(SLANTED if slanted else {}))
    ax.xaxis.set_minor_locator(FixedLocator([x for text, x in places.items() if text not in labels]))
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda tick, _: show.tick(tick)))
    ax.grid(True)
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    if columns:
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1.0), ncols=columns, borderaxespad=0.2)
