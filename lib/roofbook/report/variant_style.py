"""Look of a line among others: its marker and dashes. Colours say slower, same, faster and peer alone (effect_style.py)."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .effect_style import EFFECT_COLOURS, PEER
from .figure import INK

MARKERS = "osD^vP*"
DASHES: Sequence[Any] = ("-", (0, (5, 2)), (0, (1.5, 1.5)), (0, (7, 2, 1.5, 2)))


@dataclass(frozen=True)
class LineStyle:
    """A marker, whether it is hollow, and the dashes of its line: so a marker can be used twice."""

    marker: str
    hollow: bool
    dashes: Any

    def of(self, *, peer: bool = False) -> dict[str, Any]:
        """Return the matplotlib arguments of a line in this style, in the colour of a peer or in the page's ink."""
        colour = EFFECT_COLOURS[PEER] if peer else INK
        return {"color": colour, "marker": self.marker, "mfc": "none" if self.hollow else colour, "ls": self.dashes}


def style_at(position: int) -> LineStyle:
    """Return the style of the line at a position. The first 28 all differ."""
    return LineStyle(
        MARKERS[position % len(MARKERS)], position // len(MARKERS) % 2 == 1, DASHES[position % len(DASHES)]
    )


def styles_in_order(order: Sequence[str]) -> dict[str, LineStyle]:
    """Return the style of each line by its name, in an order that is the same in all figures of a lab."""
    return {name: style_at(position) for position, name in enumerate(order)}
