"""How a variant is drawn: one colour and one marker, the same in all figures of its lab, for whoever compares two of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..analysis.case_data import CaseData

FIRST = "#85898f"
COLOURS = ("#0c6ccc", "#9c540c", "#3c7854", "#9c4890", "#009ccc", "#a89054")
"""Told apart by who sees no red or no green too: 20 apart in CIE Lab, also as Machado et al. (2009) simulate both, and 12 from
the colours of what failed and of the first step; with a contrast of 3 on a light and on a dark ground."""
MARKERS = "osD^vP*"


@dataclass(frozen=True)
class Look:
    """A colour, a marker, and whether it is drawn hollow on a dashed line, as where colours are used for another time."""

    colour: str
    marker: str
    again: bool

    @property
    def line(self) -> dict[str, Any]:
        """The look of a line with markers, as matplotlib wants it."""
        face = "none" if self.again else self.colour
        return {"color": self.colour, "marker": self.marker, "mfc": face, "ls": "--" if self.again else "-"}


def look(at: int) -> Look:
    """That of the variant at this place behind the first of its lab. No two of the first 42 are alike."""
    return Look(COLOURS[at % len(COLOURS)], MARKERS[at % len(MARKERS)], at // len(COLOURS) % 2 == 1)


def looks(order: Sequence[str]) -> dict[str, Look]:
    """By name the looks of a lab's variants: of its ladder in its order, the first of which is grey, then of libraries."""
    return {name: look(at - 1) if at else Look(FIRST, "o", again=False) for at, name in enumerate(order)}


def looks_of(data: CaseData) -> dict[str, Look]:
    """Those of a case's lab; of variants that it does not know, behind them."""
    return looks([*data.lab_order, *(name for name in data.order if name not in data.lab_order)])
