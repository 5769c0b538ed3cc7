"""One colour for slower, same, faster and peer, in every figure and table.

Readers who see no red or no green tell them apart: they are at least 25 apart in CIE Lab, also as Machado et al. (2009)
simulate both. Their contrast is 3 on a light and on a dark ground.
"""

from collections.abc import Collection, Mapping
from typing import Any

from ..analysis.readings import Reading, faster
from ..measure.stats import Relation

PEER, START = "peer", "start"
EFFECT_COLOURS: Mapping[str, str] = {
    "slower": "#e0561c",
    "same": "#85898f",
    "faster": "#0c6cf0",
    PEER: "#9653ac",
    START: "#85898f",
}
"""Colour of a mark by its effect, the relation of a step to its parent. A step without a parent is grey."""
LEGEND: Mapping[str, str] = {
    "faster": "faster than its parent",
    "same": "same, undecided, or no parent here",
    "slower": "slower than its parent",
    PEER: "peer",
}
"""Effects in the words of legends."""


def shown_effect(relation: Relation) -> str:
    """Return the effect whose colour a relation has: an undecided one has that of no effect."""
    return "same" if relation == "undecided" else relation


def effect_of(reading: Reading, readings: Mapping[str, Reading]) -> str:
    """Return the effect of a verified reading: `peer` for another program, `start` for a base or without a verified parent.

    readings: all readings of the case, in which the parent is looked up.
    """
    if reading.role in ("peer", "dsl"):
        return PEER
    if reading.role == "base":
        return START
    ratio = faster(readings.get(reading.parent or ""), reading)
    return shown_effect(ratio.word) if ratio else START


def legend_marks(effects: Collection[str], *, short: bool = False) -> list[Any]:
    """Return the marks of a legend for those effects that a figure shows, in the order of LEGEND.

    short: with a word for each.
    """
    from matplotlib.lines import Line2D

    present = {"same" if effect == START else effect for effect in effects}
    return [
        Line2D([], [], marker="s", ls="none", ms=6, color=EFFECT_COLOURS[effect], label=effect if short else label)
        for effect, label in LEGEND.items()
        if effect in present
    ]
