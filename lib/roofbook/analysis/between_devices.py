"""Evidence that takes two devices: cells of one beside those of another of the store, by the same backend.

Beside evidence.py, whose kinds have one device each.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .claim_data import Cells, MissingData, NotApplicable
from .evidence import Evidence, Finding, ratio

if TYPE_CHECKING:
    from ..spec.lab import Lab

CONSUMER, DATA_CENTRE = "consumer card", "data-centre card"
LINES = {
    CONSUMER: re.compile(r"\b(GeForce|TITAN|Radeon (RX|VII)|Arc)\b", re.I),
    DATA_CENTRE: re.compile(r"\b(Tesla|Instinct|Data Cent(er|re) GPU)\b|\bNVIDIA (GB|GH|A|B|H|L|P|V)\d+[A-Z]?\b", re.I),
}
"""What a card is sold as -> the words that its maker puts into the name of each such card, which every row carries."""


def sold_as(name: str) -> str | None:
    """CONSUMER or DATA_CENTRE by a device's name; None for neither, such as a workstation's card or a CPU."""
    return next((line for line, words in LINES.items() if words.search(name)), None)


@dataclass(frozen=True)
class ConsumerCard(Evidence):
    """How many times as fast a consumer card is as a data-centre card, with the same kernel by the same backend.

    The statement is that there is such a pair. So of all pairs that a device makes with the others of the store, the one
    counts that speaks most for it.
    """

    variant: str
    case: str
    remark: str = ""

    @property
    def basis(self) -> str:
        return (
            f"{self.variant} on a data-centre card over that on a consumer card, as their names tell, by one backend; of all"
            " such pairs of a device the one that speaks most for the claim"
        )

    def variants(self, lab: "Lab") -> tuple[str, ...]:
        return (self.variant,)

    def find(self, cells: Cells) -> Finding:
        line = sold_as(cells.name)
        if cells.kind != "gpu":
            raise NotApplicable("the claim is about cards")
        if line is None:
            raise NotApplicable(f"{cells.name} is neither a consumer card nor a data-centre card by its name")
        wanted = DATA_CENTRE if line == CONSUMER else CONSUMER
        others = [each for each in cells.others if each.backend == cells.backend and sold_as(each.name) == wanted]
        if not others:
            raise NotApplicable(f"no {wanted} in the store by this backend")
        own, pairs, lacking = cells.reading(self.variant, self.case), [], []
        for other in others:
            try:
                theirs = other.reading(self.variant, self.case)
            except MissingData as why:
                lacking.append(f"{why} on {other.name}")
                continue
            sides = (own, theirs) if line == DATA_CENTRE else (theirs, own)
            pairs.append(ratio(*sides, how=f"beside {other.name}"))
        if not pairs:
            raise MissingData("; ".join(lacking))
        return max(pairs, key=lambda pair: (pair.low, pair.estimate))
