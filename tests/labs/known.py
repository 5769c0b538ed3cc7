"""Cells of a lab of which some are measured, as the sentences of its page ask for them."""

from __future__ import annotations

from roofbook.report.prose import NOT_MEASURED
from roofbook.spec.lab import Lab


class Known:
    """A time or a ratio says in words of what it is; the first of `measured` is the fastest.

    Of the peers the first one is.
    """

    def __init__(self, lab: Lab, *measured: str) -> None:
        self.lab, self.measured = lab, measured
        self.cases = lab.cases("test")

    def value(self, variant: str, case: str | None = None) -> str:
        return f"the time of {variant} on {case}" if variant in self.measured else NOT_MEASURED

    def times(self, variant: str, reference: str, case: str | None = None) -> str:
        both = {variant, reference} <= set(self.measured)
        return f"so much over on {case}" if both else f"{NOT_MEASURED} against"

    def fastest(self, case: str) -> str:
        return self.measured[0] if self.measured else self.lab.best

    def fastest_peer(self, case: str) -> str | None:
        peers = {peer.name for peer in self.lab.peers}
        return next((name for name in self.measured if name in peers), None)
