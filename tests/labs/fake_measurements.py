"""Stand-in for a lab's measurements, for the sentences of its page: some variants are measured."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from roofbook import report
from roofbook.analysis.answers import Rival
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.readings import Reading
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.report import Table
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Case


class FakeMeasurements(Measured):
    """Stand-in for measurements: a time or a ratio names its variants; the first of `measured` is the fastest.

    The fastest peer is the first in `measured` as well.
    """

    def __init__(self, lab: Lab, *measured: str) -> None:
        self.lab, self.measured = lab, measured
        self.most = len(lab.cases("test"))

    @property
    def cases(self) -> Sequence[Case]:
        """Return the first cases, as many as sentences name."""
        return self.lab.cases("test")[: self.most]

    def time_text(self, variant: str, case: str | None = None) -> str:
        return f"the time of {variant} on {case}" if variant in self.measured else NOT_MEASURED

    def ratio_text(self, variant: str, reference: str, case: str | None = None) -> str:
        has_both = {variant, reference} <= set(self.measured)
        return f"so much over on {case}" if has_both else f"{NOT_MEASURED} against"

    def seconds(self, variant: str, case: str) -> float | None:
        return 1.0 if variant in self.measured else None

    def base(self, case: str) -> str:
        return next((name for name in self.lab.headline if name in self.measured), self.lab.headline[0])

    def runs_phrase(self, variant: str, case: str) -> str:
        return "here"

    def fastest(self, case: str) -> str:
        return self.measured[0] if self.measured else self.lab.best

    def shorter_elsewhere(self, case: str) -> list[str]:
        return []

    def fastest_peer(self, case: str) -> str | None:
        peers = {peer.name for peer in self.lab.peers}
        return next((name for name in self.measured if name in peers), None)

    def rivals(self, case: str) -> list[Rival]:
        """Return the fastest peer, under equal conditions."""
        name = self.fastest_peer(case)
        return [Rival(cast(Reading, SimpleNamespace(variant=name)), None)] if name else []


def demonstration_table(lab: Lab, device: Any) -> Table:
    """Return the lab's demonstration as its page shows it."""
    outcomes = publication(lab).demonstration(device)
    assert outcomes
    return report.demonstration(outcomes)
