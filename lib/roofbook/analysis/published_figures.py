"""The published figures of a lab's report, and which of our measurements each of them is compared with."""

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
    """Figures as printed, and what of ours stands beside them."""

    table: "pd.DataFrame"
    """From `published`, whole or a part."""
    mapping: Mapping[Any, str | tuple[str, str]]
    """Published variant, or (variant, device) where a device ran something else -> our variant, or (ours, what a published
    speedup is over) where that is not our variant's parent."""
    cases: Mapping[str, str] = field(default_factory=dict)
    """Published case -> ours where they differ."""
    units: Mapping[str, int] = field(default_factory=dict)
    """Our case -> units (steps) that a published time covers; ours is multiplied up to it."""
    measured: Mapping[tuple[str, str, str], str] = field(default_factory=dict)
    """(published variant, case, metric) -> our figure as text, for figures that are no single measurement's."""
    part: Part = _none
    """(published variant, case, metric) -> the part of our run, or those whose sum, is compared with the published time; None
    for what the metric says of the run as a whole."""
    fact: Word = _none
    """The same -> the number among our run's facts; a share becomes per cent where the published unit is %."""
    lack: Word = _none
    """The same -> why there is no figure of ours where `measured` has none."""
    unsized: frozenset[str] = frozenset()
    """Published cases whose size is not known: ours may do more or less, so no ratio is taken."""

    def ours(self, variant: str, device: str) -> str | tuple[str, str] | None:
        """What stands beside a published variant on a device."""
        return self.mapping.get((variant, device), self.mapping.get(variant))

    @classmethod
    def of(cls, data: "LabData", table: "pd.DataFrame") -> "PublishedFigures":
        """Those of a lab on a device."""
        said = publication(data.lab)
        units = {case.name: int(case.params.get("iterations", 1)) for case in data.lab.cases("published")}
        counted = said.counted(data.measured)
        return cls(
            table, said.mapping(data.device), said.cases, units, counted, said.part, said.fact, said.lack, said.unsized
        )
