"""The published figures of a lab's report, each with our measurement that it is compared with."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .publication import publication

if TYPE_CHECKING:
    import pandas as pd

    from .lab_data import LabData

Part = Callable[[str, str, str], str | tuple[str, ...] | None]
Word = Callable[[str, str, str], str | None]


def _none(variant: str, case: str, metric: str) -> None:
    return None


@dataclass(frozen=True)
class PublishedFigures:
    """Figures as printed, with our figures to compare them with."""

    table: "pd.DataFrame"
    """Figures from `published`, all or a part."""
    mapping: Mapping[Any, str | tuple[str, str]]
    """Published variant -> our variant; or (variant, device) -> ours, if another program ran on that device.

    Ours is (variant, baseline) if the published speedup is over another baseline than our variant's parent.
    """
    cases: Mapping[str, str] = field(default_factory=dict)
    """Published case -> ours if they differ."""
    units: Mapping[str, int] = field(default_factory=dict)
    """Our case -> number of units (steps) that a published time covers; our time is multiplied by it."""
    measured: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """(published variant, case, metric) -> our figure as text, for figures that are no single measurement's."""
    part: Part = _none
    """(published variant, case, metric) -> the part of our run, or the parts, that is compared; None for the whole run."""
    fact: Word = _none
    """(published variant, case, metric) -> the fact of our run; a share is shown in per cent if the published unit is %."""
    lack: Word = _none
    """(published variant, case, metric) -> the reason why we have no figure, if `measured` has none."""
    unsized: frozenset[str] = frozenset()
    """Published cases of unknown size: ours may do more or less, so no ratio is taken."""
    stand_ins: Mapping[str, str] = field(default_factory=dict)
    """Our variant -> the one that stands in for it without a measurement."""

    in_c: Callable[[str], str | None] = lambda variant: None
    """Our variant -> the same step from a host program in C, as the report has it; None if there is none."""

    def ours(self, variant: str, device: str) -> str | tuple[str, str] | None:
        """Return our counterpart of a published variant on a device; None if there is none."""
        return self.mapping.get((variant, device), self.mapping.get(variant))

    @classmethod
    def of(cls, data: "LabData", table: "pd.DataFrame") -> "PublishedFigures":
        """Return the figures of a table that are compared with a lab's measurements on a device."""
        report = publication(data.lab)
        units = {case.name: int(case.params.get("iterations", 1)) for case in data.lab.cases("published")}
        counted = report.counted(data.measured)
        return cls(
            table,
            report.mapping(data.device),
            report.cases,
            units,
            counted,
            report.part,
            report.fact,
            report.lack,
            report.unsized,
            report.stand_ins,
            report.in_c,
        )
