"""A drawing in stages: parts of it come, go and move from one stage to the next, as one SVG with a still.

The motion is CSS within the SVG. So a saved file moves by itself, and its still is printed. On a page of the site
_assets/animations.js plays it or goes through its stages; without a script, the page shows the last stage.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...escaping import escape
from ..figure import COLOURS, svg_of
from ..html import csv_link, csv_of

INK = "currentColor"
FIRST, SECOND = COLOURS["to device"], COLOURS["to host"]
"""Colours of data that move: they show no effect, so they are none of those in effect_style.py."""
SECONDS = 3.0
"""Duration of a stage."""
CHANGE = 0.35
"""Share of a stage in which parts move to their places in it; they rest for the others."""

Offset = tuple[float, float]
_STAY: Offset = (0.0, 0.0)


@dataclass(frozen=True)
class Stage:
    """A stage of an animation: a sentence or two, and numbers in it by name, which readers take away as CSV."""

    caption: str
    numbers: Mapping[str, float] = field(default_factory=dict)


class Scene:
    """A drawing of parts, in pixels. Parts that are drawn later cover earlier ones.

    Each part takes `during`, the stages that show it (default: all), and `offsets`, by which it is moved from a stage on.
    """

    def __init__(self, width: int, height: int, stage_count: int) -> None:
        self.width, self.height, self.stage_count = width, height, stage_count
        self._parts: list[str] = []
        self._rules: dict[str, str] = {}

    def box(
        self,
        corner: tuple[float, float],
        size: tuple[float, float],
        colour: str = INK,
        *,
        filled: float = 0.0,
        dashed: bool = False,
        during: range | None = None,
        offsets: Mapping[int, Offset] | None = None,
    ) -> None:
        """Draw a rectangle. filled: opacity of its ground."""
        dashes = ' stroke-dasharray="4 3"' * dashed
        self._add(
            f'<rect x="{_n(corner[0])}" y="{_n(corner[1])}" width="{_n(size[0])}" height="{_n(size[1])}" '
            f'stroke="{colour}" fill="{colour}" fill-opacity="{filled}"{dashes}/>',
            during,
            offsets,
        )

    def cells(
        self,
        corner: tuple[float, float],
        cell: float,
        rows: int,
        columns: int,
        colour: str = INK,
        *,
        during: range | None = None,
        offsets: Mapping[int, Offset] | None = None,
    ) -> None:
        """Draw a grid of square cells, tinted."""
        (x, y), wide, high = corner, cell * columns, cell * rows
        lines = "".join(
            [f"M{_n(x)} {_n(y + cell * row)}h{_n(wide)}" for row in range(rows + 1)]
            + [f"M{_n(x + cell * column)} {_n(y)}v{_n(high)}" for column in range(columns + 1)]
        )
        self._add(
            f'<rect x="{_n(x)}" y="{_n(y)}" width="{_n(wide)}" height="{_n(high)}" fill="{colour}" fill-opacity=".18"/>'
            f'<path d="{lines}" stroke="{colour}" stroke-width=".6" fill="none"/>',
            during,
            offsets,
        )

    def text(
        self,
        at: tuple[float, float],
        words: str,
        colour: str = INK,
        *,
        anchor: str = "start",
        during: range | None = None,
    ) -> None:
        """Write a line of text."""
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self._add(f'<text x="{_n(at[0])}" y="{_n(at[1])}" fill="{colour}"{place}>{escape(words)}</text>', during, None)

    def arrow(
        self, start: tuple[float, float], end: tuple[float, float], colour: str = INK, *, during: range | None = None
    ) -> None:
        """Draw an arrow along an axis or slanted."""
        (x0, y0), (x1, y1) = start, end
        length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
        along = ((x1 - x0) / length * 6, (y1 - y0) / length * 6)
        left = (x1 - along[0] - along[1] / 2, y1 - along[1] + along[0] / 2)
        right = (x1 - along[0] + along[1] / 2, y1 - along[1] - along[0] / 2)
        tail, tip, barb, other_barb = (f"{_n(x)} {_n(y)}" for x, y in (start, end, left, right))
        path = f"M{tail}L{tip}M{barb}L{tip}L{other_barb}"
        self._add(f'<path d="{path}" stroke="{colour}" stroke-width="1.4" fill="none"/>', during, None)

    def svg(self, title: str, description: str) -> str:
        """Return the drawing with its last stage as the still."""
        duration = f"{SECONDS * self.stage_count:g}s"
        rules = "".join(
            f".{name}{{animation:{name} {duration} ease-in-out infinite}}@keyframes {name}{{{frames}}}"
            for name, frames in self._rules.items()
        )
        # A saved file stands alone; on a page the site's own style sheet says when there is motion.
        still = (
            "@media (prefers-reduced-motion:reduce){:root.roofbook-figure *{animation:none}}"
            "@media print{.roofbook-figure *{animation:none}}"
        )
        return svg_of(
            (self.width, self.height), title, description, f"<style>{rules}{still}</style>{''.join(self._parts)}"
        )

    def _add(self, markup: str, during: range | None, offsets: Mapping[int, Offset] | None) -> None:
        """Add a part: in a group with its motion, if it has some."""
        states = self._states(during, offsets or {})
        if len(set(states)) == 1 and states[-1] == (True, _STAY):
            self._parts.append(markup)
            return
        frames = self._frames(states)
        name = "m" + hashlib.sha256(frames.encode()).hexdigest()[:6]
        self._rules[name] = frames
        is_shown, (x, y) = states[-1]
        still = ' opacity="0"' * (not is_shown) + f' transform="translate({_n(x)} {_n(y)})"' * ((x, y) != _STAY)
        self._parts.append(f'<g class="{name}"{still}>{markup}</g>')

    def _states(self, during: range | None, offsets: Mapping[int, Offset]) -> list[tuple[bool, Offset]]:
        """Return whether a part is shown, and its offset, at each stage."""
        states, offset = [], _STAY
        for stage in range(self.stage_count):
            offset = offsets.get(stage, offset)
            states.append((during is None or stage in during, offset))
        return states

    def _frames(self, states: Sequence[tuple[bool, Offset]]) -> str:
        """Return the keyframes through these states, which loop: the last one jumps back to the first."""
        frames = [(0.0, states[0])]
        for stage, (before, state) in enumerate(pairwise(states), 1):
            if before != state:
                frames += [(stage, before), (stage + CHANGE, state)]
        frames.append((float(self.stage_count), states[-1]))
        return "".join(
            f"{_n(100 * at / self.stage_count)}%{{opacity:{int(is_shown)};transform:translate({_n(x)}px,{_n(y)}px)}}"
            for at, (is_shown, (x, y)) in frames
        )


def _n(number: float) -> str:
    """Return a number to a tenth of a pixel, short."""
    return f"{round(number, 1):g}"


@dataclass(frozen=True)
class Animation:
    """An animation of a technique, with the numbers of a step of a lab."""

    technique: str
    """Key of the technique that it explains."""
    title: str
    description: str
    """Text for readers who do not see it: the scene; the captions of its stages are text below it."""
    stages: Sequence[Stage]
    scene: Scene = field(repr=False)

    @property
    def svg(self) -> str:
        """The drawing, which moves where CSS may."""
        return self.scene.svg(self.title, self.description)

    @property
    def csv(self) -> str:
        """The stages with their captions and numbers."""
        import pandas as pd

        lines = [
            {"stage": number, "caption": stage.caption, **stage.numbers} for number, stage in enumerate(self.stages, 1)
        ]
        return csv_of(pd.DataFrame(lines), {})

    @property
    def html(self) -> str:
        """A <figure> of the site: the drawing, its stages as a list, and its title. Without a script it is a still."""
        captions = "".join(f"<li>{escape(stage.caption)}</li>" for stage in self.stages)
        still = SECONDS * (len(self.stages) - 0.2)
        return (
            f'<figure class="roofbook animation" style="--still: -{still:g}s" data-stage-seconds="{SECONDS:g}">\n'
            f'{self.svg}\n<ol class="animation-stages">{captions}</ol>\n'
            f"<figcaption>{escape(self.title)}{csv_link(self.title, self.csv)}</figcaption>\n</figure>"
        )
