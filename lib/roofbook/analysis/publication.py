"""What a lab says of the report that it comes from: evidence for its claims, where its figures belong, and conclusions.

A lab has it in `publication.py` of its folder, as PUBLICATION; one without that file has none of it.
"""

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .evidence import Evidence
from .sentences import conclusions

if TYPE_CHECKING:
    import pandas as pd

    from ..devices.contract import Device
    from ..spec.lab import Lab
    from .lab_data import Measured

Pairs = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""What changes, and the pairs (step, compared with) that show it."""


@dataclass(frozen=True)
class Demonstration:
    """A table of what a lab shows beyond times. A column of numbers has its head in `numbers`."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str]
    frame: "pd.DataFrame"
    notes: Sequence[str] = ()


class Publication:
    """What a lab says of its report, beside what the lab measures. What is not overridden says nothing."""

    evidence: Mapping[str, tuple[Evidence, ...]] = {}
    """What tells of each claim, by its id in results/published/claims/NAME.csv."""
    cases: Mapping[str, str] = {}
    """Case name in results/published -> case name of the lab, where they differ."""
    unsized: frozenset[str] = frozenset()
    """Case names in results/published of which the report states no size: their times are in no ratio with ours."""
    pairs: Pairs = ()
    """Steps that the lab's page compares with each other, beside each step with its parent."""

    def __init__(self, lab: "Lab") -> None:
        self.lab = lab

    def mapping(self, device: "Device") -> Mapping[Any, str | tuple[str, str]]:
        """Published variant, or (variant, device) -> ours, or (ours, what a published speedup is over)."""
        return {variant.published: variant.name for variant in self.lab.all_variants() if variant.published}

    def part(self, variant: str, case: str, metric: str) -> str | tuple[str, ...] | None:
        """The part of our run that a published time covers, or those whose sum it is; None for what the lab times.

        A name that our runs do not have says that we have no such time.
        """
        return None

    def fact(self, variant: str, case: str, metric: str) -> str | None:
        """The number among our run's facts that a published figure of `metric` is compared with; None where none is.

        What is published in % is compared with a share from 0 to 1.
        """
        return None

    def lack(self, variant: str, case: str, metric: str) -> str | None:
        """Why no figure of ours can stand beside a published one, such as `needs hardware counters`; None where one can."""
        return None

    def counted(self, measured: "Measured") -> Mapping[tuple[str, str, str], str]:
        """(published variant, case, metric) -> ours as text, for published figures that are no single measured time.

        What would need a measurement that was not made is left out.
        """
        return {}

    def summary(self, measured: "Measured") -> str:
        """The lab's conclusions as Markdown; every number comes from `measured`."""
        return conclusions(self.lab, measured)

    def demonstration(self, device: "Device") -> Demonstration | None:
        """What the lab shows beyond times, such as a conserved quantity, computed now on `device`; None where it has none."""
        return None


@lru_cache
def publication(lab: "Lab") -> Publication:
    """That of a lab."""
    if not Path(inspect.getfile(type(lab))).with_name("publication.py").is_file():
        return Publication(lab)
    found: Publication = importlib.import_module(f"{lab.package}.publication").PUBLICATION
    return found
