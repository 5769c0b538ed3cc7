"""Colour and marker of each variant: the same in all figures of a lab."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.case_data import CaseData

FIRST = "#85898f"
COLOURS = ("#0c6ccc", "#9c540c", "#3c7854", "#9c4890", "#009ccc", "#a89054")
"""Colours that readers who see no red or no green can tell apart too.

They are at least 20 apart in CIE Lab, also as Machado et al. (2009) simulate both, and 12 from the colours of failed variants
and of the first step. Their contrast is 3 on a light and on a dark ground.
"""
MARKERS = "osD^vP*"


@dataclass(frozen=True)
class VariantStyle:
    """A colour, a marker, and whether the marker is hollow and its line dashed: so a colour can be used twice."""

    colour: str
    marker: str
    hollow: bool

    @property
    def line(self) -> dict[str, Any]:
        """Return the matplotlib arguments of a line with markers in this style."""
        face = "none" if self.hollow else self.colour
        return {"color": self.colour, "marker": self.marker, "mfc": face, "ls": "--" if self.hollow else "-"}


def style_at(position: int) -> VariantStyle:
    """Return the style of the variant at `position` after the first one of its lab. The first 42 all differ."""
    return VariantStyle(
        COLOURS[position % len(COLOURS)], MARKERS[position % len(MARKERS)], position // len(COLOURS) % 2 == 1
    )


def styles_in_order(order: Sequence[str]) -> dict[str, VariantStyle]:
    """Return the style of each variant by name. order: the ladder, then the libraries; its first variant is grey."""
    return {
        name: style_at(position - 1) if position else VariantStyle(FIRST, "o", hollow=False)
        for position, name in enumerate(order)
    }


def styles_of(data: CaseData) -> dict[str, VariantStyle]:
    """Return the style of each variant of a case's lab, then of variants that the lab does not know."""
    return styles_in_order([*data.lab_order, *(name for name in data.order if name not in data.lab_order)])
