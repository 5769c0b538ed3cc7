"""Evidence from two devices: measurements of one compared with those of another in the store, by the same backend.

The kinds of evidence in evidence.py need one device each.
"""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .claim_data import ClaimData, MissingData, NotApplicable
from .evidence import Evidence, Finding, ratio

if TYPE_CHECKING:
    from ..spec.lab import Lab

CONSUMER, DATA_CENTRE = "consumer card", "data-centre card"
LINES = {
    CONSUMER: re.compile(r"\b(GeForce|TITAN|Radeon (RX|VII)|Arc)\b", re.I),
    DATA_CENTRE: re.compile(r"\b(Tesla|Instinct|Data Cent(er|re) GPU)\b|\bNVIDIA (GB|GH|A|B|H|L|P|V)\d+[A-Z]?\b", re.I),
}
"""Market of a card -> the words that its maker puts into the name of each such card, which every row has."""


def sold_as(name: str) -> str | None:
    """Return CONSUMER or DATA_CENTRE by a device's name; None for neither, such as a workstation's card or a CPU."""
    return next((line for line, words in LINES.items() if words.search(name)), None)


@dataclass(frozen=True)
class ConsumerCard(Evidence):
    """How many times as fast a consumer card is as a data-centre card, with the same kernel by the same backend.

    The statement is that there is such a pair. So of all pairs of a device with the others of the store, the one that most
    supports the statement counts.
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

    def find(self, claim_data: ClaimData) -> Finding:
        line = sold_as(claim_data.name)
        if claim_data.kind != "gpu":
            raise NotApplicable("the claim is about cards")
        if line is None:
            raise NotApplicable(f"{claim_data.name} is neither a consumer card nor a data-centre card by its name")
        other_market = DATA_CENTRE if line == CONSUMER else CONSUMER
        other_cards = [
            card
            for card in claim_data.other_devices
            if card.backend == claim_data.backend and sold_as(card.name) == other_market
        ]
        if not other_cards:
            raise NotApplicable(f"no {other_market} in the store by this backend")
        reading, pairs, lacking = claim_data.reading(self.variant, self.case), [], []
        for card in other_cards:
            try:
                other_reading = card.reading(self.variant, self.case)
            except MissingData as error:
                lacking.append(f"{error} on {card.name}")
                continue
            sides = (reading, other_reading) if line == DATA_CENTRE else (other_reading, reading)
            pairs.append(ratio(*sides, how=f"beside {card.name}"))
        if not pairs:
            raise MissingData("; ".join(lacking))
        return max(pairs, key=lambda pair: (pair.low, pair.estimate))
