"""First figure of a lab's page: the ladder as a descent, each step at its time. It is HTML: phones show its words in full size.

Without JavaScript it is a still whose points link to the steps; book/_assets/story.js lets a reader go through it step by step.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, faster
from ..analysis.sentences import effect_text
from ..escaping import escape
from ..spec.step_marks import hardware_of
from .cell_format import bound_of
from .html import Html, csv_link, csv_of
from .ladder_descent import ranked
from .ladder_table import MARK

WIDE, NARROW, HEIGHT = 800, 300, 250
"""Width of the drawing on a desktop and on a phone, and its height, in pixels."""
LETTER, LINE = 7.2, 17
"""Width of a letter and height of a line of the labels, in pixels."""

_Box = tuple[float, float, float, float]
"""Left, top, right and bottom of a rectangle, in pixels."""

SQUARES = "Squares need one architecture or units that not all devices have. "


@dataclass(frozen=True)
class Opening:
    """The figure as HTML. A notebook shows a sentence in its place."""

    html: Html
    text: str

    def _repr_html_(self) -> str:
        return str(self.html)

    def __repr__(self) -> str:
        return self.text


@dataclass(frozen=True)
class _Point:
    """A step in the figure. across, down: its place, from 0 to 1."""

    reading: Reading
    across: float
    down: float
    gain: float
    """How many times as fast as the fastest step before it; at most 1 if it is not the fastest so far."""

    @property
    def is_late(self) -> bool:
        """Whether it is in the right half, where its name stands left of it."""
        return self.across > 0.5


@dataclass(frozen=True)
class _Level:
    """A time as a line across the figure, with words at its left end. css: its class. down: its place, from 0 to 1."""

    css: str
    down: float
    words: str
    is_above: bool
    """Whether the words stand above the line, not below it."""
    name: str = ""
    """The rest of the words, which a phone may leave out."""
    is_named_on_phones: bool = True

    def box(self, width: int) -> _Box:
        """Return the place of its words on a drawing of this width, in pixels."""
        top = HEIGHT * self.down - LINE * self.is_above
        letters = len(self.words) + len(self.name) * (width != NARROW or self.is_named_on_phones)
        return 0, top, LETTER * letters + 8, top + LINE

    def html(self) -> str:
        name = escape(self.name) if self.is_named_on_phones else f'<span class="wide">{escape(self.name)}</span>'
        words = f"<small>{escape(self.words)}{name}</small>"
        return f'<u class="{self.css}{" above" * self.is_above}" style="top:{_percent(self.down)}">{words}</u>'


def opening(data: CaseData) -> Opening:
    """Draw the time of each verified step on a logarithmic axis in ladder order, the fastest so far as a line, and the bound.

    The steps with the largest gains are named, as many as fit. Errors: UsageError if no step is verified on the case.
    """
    steps, best, peer = ranked(data)
    floor = bound_of(data.bounds, best)
    marks = [floor.seconds] if floor else []
    times = [*(reading.median for reading in steps), *marks, *([peer.median] if peer else [])]
    low, high = math.log10(min(times)), math.log10(max(times))
    extent = max(high - low, 0.3)
    highest, lowest = high + 0.06 * extent, low - 0.14 * extent  # with room for a name below the lowest point

    def down(seconds: float) -> float:
        return (highest - math.log10(seconds)) / (highest - lowest)

    points, fastest = list[_Point](), math.inf
    for number, reading in enumerate(steps):
        across = (number + 0.5) / len(steps)
        gain = fastest / reading.median if math.isfinite(fastest) else math.inf
        points.append(_Point(reading, across, down(reading.median), gain))
        fastest = min(fastest, reading.median)
    sentence = _sentence(data, steps, best, peer)
    levels = list[_Level]()
    if floor:
        bound = _Level("bound", down(floor.seconds), f"bound, {show.duration(floor.seconds)}", is_above=False)
        levels.append(_on_the_freer_side(bound, points, levels))
    if peer:
        fastest_peer = _Level("peer", down(peer.median), "fastest peer", is_above=True, name=f", {peer.variant}")
        levels.append(_on_the_freer_side(fastest_peer, points, levels))
    lines = "".join(level.html() for level in levels)
    ticks = "".join(
        f'<s style="top:{_percent(down(10.0**power))}"><small>{escape(_tick(power))}</small></s>'
        for power in range(math.ceil(lowest), math.floor(highest) + 1)
    )
    dots = "".join(_dot(point, data, best) for point in points)
    drawing = (
        f'<div class="opening-plot">{_path(points)}{ticks}{lines}{_labels(points, best, levels)}'
        f'<ol aria-label="Steps of the ladder, by time">{dots}</ol></div>'
    )
    figure = (
        f'<figure class="opening on-site" hidden>\n{drawing}\n<figcaption>{escape(sentence)} Each point is a step of the '
        "ladder; the line is the fastest so far. Filled: faster than the step that it changes; hollow: not. "
        f"{SQUARES * any(hardware_of(data.marks.get(reading.variant, ())) for reading in steps)}The axis is logarithmic."
        f"{csv_link(f'the ladder of {data.case} as a descent', _csv(points))}"
        "</figcaption>\n</figure>"
    )
    note = "On the site a figure of the ladder stands here; in a notebook, lab.descent() draws one."
    return Opening(Html(f'{figure}<details class="in-notebook"><summary>{note}</summary></details>'), note)


def _csv(points: Sequence[_Point]) -> str:
    """Return the points as CSV: each step with its time in seconds, and its ratio to the fastest step before it."""
    import pandas as pd

    records = [
        {
            "step": point.reading.variant,
            "parent": point.reading.parent,
            "seconds": point.reading.median,
            "low": point.reading.low,
            "high": point.reading.high,
            "times_as_fast_as_the_fastest_before": point.gain,
        }
        for point in points
    ]
    return csv_of(pd.DataFrame(records), {})


def _sentence(data: CaseData, steps: Sequence[Reading], best: Reading, peer: Reading | None) -> str:
    """Return the figure in a sentence."""
    first, unit = steps[0], str(best.row["unit"])
    words = (
        f"{data.case}: from {show.duration(first.median)} per {unit} ({first.variant}) to {show.duration(best.median)} "
        f"({best.variant}) in {len(steps)} steps"
    )
    ratio = faster(peer, best)
    if peer and ratio:
        text, ends = effect_text(ratio)
        words += (
            f"; the fastest peer, {peer.variant}, takes {show.duration(peer.median)}: ours is {text} {ends}".rstrip()
        )
    return f"{words}."


def _dot(point: _Point, data: CaseData, best: Reading) -> str:
    """Return a point as an item of a list, which links to its step; that of the fastest step says so."""
    reading = point.reading
    parent = data.readings.get(reading.parent or "")
    ratio = faster(parent, reading) if parent and parent.ok else None
    words = (
        " ".join(effect_text(ratio)).strip() + f" as {reading.parent}" if ratio and ratio.word != "undecided" else ""
    )
    needs = data.marks.get(reading.variant, ())
    needed = f"needs {' and '.join(needs)}" if needs else ""
    name = escape(f"{reading.variant}: {', '.join(filter(None, [show.duration(reading.median), words, needed]))}")
    css = (ratio.word if ratio else "first") + " special" * bool(hardware_of(needs))
    time = f'data-time="{escape(show.duration(reading.median))}"'
    time += f' data-needs="{escape(MARK.join(needs))}"' * bool(needs) + " data-fastest" * (reading is best)
    return (
        f'<li style="left:{_percent(point.across)};top:{_percent(point.down)}"><a class="{css}" title="{name}" '
        f'aria-label="{name}" data-step="{escape(reading.variant)}" {time} '
        f'href="#step-{escape(reading.variant)}"></a></li>'
    )


def _path(points: Sequence[_Point]) -> str:
    """Return the line of the fastest time so far."""
    at = points[0].down
    commands = [f"M0 {100 * at:.2f}"]
    for point in points:
        if point.down > at:
            at = point.down
            commands.append(f"H{100 * point.across:.2f}V{100 * at:.2f}")
    commands.append("H100")
    return (
        '<svg viewBox="0 0 100 100" preserveAspectRatio="none" aria-hidden="true">'
        f'<path d="{"".join(commands)}" vector-effect="non-scaling-stroke"/></svg>'
    )


def _on_the_freer_side(level: _Level, points: Sequence[_Point], others: Sequence[_Level]) -> _Level:
    """Return the level with its words on the side of its line where they cover less: as it is, if both sides are equal.

    First no words of `others` should be covered, then as few points as possible: on a phone, then on a desktop. A phone leaves
    the name out if it covers points on both sides.
    """

    def covered(candidate: _Level) -> tuple[int, int, int]:
        words, dots = [0, 0], [0, 0]
        for at, width in enumerate((NARROW, WIDE)):
            box = candidate.box(width)
            is_cut = box[1] < 0 or box[3] > HEIGHT
            words[at] = is_cut + sum(_overlap(box, other.box(width)) for other in others)
            dots[at] = sum(_overlap(box, dot) for dot in _boxes_of_points(points, width))
        return sum(words), dots[0], dots[1]

    sides = level, replace(level, is_above=not level.is_above)
    return min(*sides, *(replace(side, is_named_on_phones=False) for side in sides), key=covered)


def _labels(points: Sequence[_Point], best: Reading, levels: Sequence[_Level]) -> str:
    """Return the names of the steps that gained most, as many as fit on a desktop; those that fit on a phone have a class."""
    order = sorted(points, key=lambda point: (point.reading is not best, point is not points[0], -point.gain))
    chosen = [point for point in order if point.gain > 1 or point.reading is best]
    wide, narrow = (_fitting(chosen, points, levels, width) for width in (WIDE, NARROW))
    return "".join(_label(point, "both" if id(point) in narrow else "wide") for point in chosen if id(point) in wide)


def _label(point: _Point, css: str) -> str:
    side, share = ("right", 1 - point.across) if point.is_late else ("left", point.across)
    return (
        f'<span aria-hidden="true" class="{css}{" before" * point.is_late}" '
        f'style="{side}:{_percent(share)};top:{_percent(point.down)}">{escape(point.reading.variant)}</span>'
    )


def _boxes_of_points(points: Sequence[_Point], width: int) -> list[_Box]:
    """Return the places of the points on a drawing of this width."""
    return [(x - 4, y - 4, x + 4, y + 4) for x, y in ((width * p.across, HEIGHT * p.down) for p in points)]


def _fitting(chosen: Sequence[_Point], points: Sequence[_Point], levels: Sequence[_Level], width: int) -> set[int]:
    """Return the ids of the points whose names fit on a drawing of this width, the first ones before the others.

    A name stands right of its point and above it in the left half, and left of it and below in the right half.
    """
    boxes = [*_boxes_of_points(points, width), *(level.box(width) for level in levels)]
    fitting = set()
    for point in chosen:
        x, y, long = width * point.across, HEIGHT * point.down, LETTER * len(point.reading.variant) + 8
        box = (x - long, y + 5, x - 3, y + 5 + LINE) if point.is_late else (x + 3, y - 5 - LINE, x + long, y - 5)
        inside = box[0] >= 0 and box[2] <= width and box[1] >= 0 and box[3] <= HEIGHT
        if inside and not any(_overlap(box, other) for other in boxes):
            boxes.append(box)
            fitting.add(id(point))
    return fitting


def _overlap(one: _Box, other: _Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _tick(power: int) -> str:
    name, size = show.time_unit([10.0**power])
    return f"{show.tick(10.0**power / size)}{show.THIN}{name}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f}%"
