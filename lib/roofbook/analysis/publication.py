"""A lab's statements about the report that it comes from: evidence for its claims, its figures' counterparts, conclusions.

A lab defines them in `publication.py` of its folder, as PUBLICATION. A lab without that file makes no statements.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .conclusions import conclusions
from .evidence import Evidence

if TYPE_CHECKING:
    import pandas as pd

    from ..devices.contract import Device
    from ..spec.lab import Lab
    from .lab_data import Measured

Pairs = Sequence[tuple[str, Sequence[tuple[str, str]]]]
"""(heading of a change, pairs (step, step compared with) that show it), one for each change."""


@dataclass(frozen=True)
class Demonstration:
    """A table that a lab shows besides times. `numbers` has the heads of the columns of numbers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    numbers: frozenset[str]
    frame: "pd.DataFrame"
    notes: Sequence[str] = ()


class Publication:
    """A lab's statements about its report. Defaults state nothing."""

    evidence: Mapping[str, tuple[Evidence, ...]] = {}
    """Evidence for each claim, by the claim's id in results/published/claims/NAME.csv."""
    cases: Mapping[str, str] = {}
    """Case name in results/published -> case name of the lab, if they differ."""
    unsized: frozenset[str] = frozenset()
    """Case names in results/published whose size the report does not state: no ratio is taken of their times and ours."""
    stand_ins: Mapping[str, str] = {}
    """Variant that figures are mapped to -> the variant beside them on a device that has no measurement of the former."""
    whys: Mapping[str, Mapping[str, str]] = {}
    """Causes of effects that refuted a prediction, by step and then by scope, as `predictions.Whys`; without a full stop.

    A cause names its evidence: counters, the compiled code, or another measurement. If there is none, it says which would tell.
    """
    pairs: Pairs = ()
    """Steps that the lab's page compares with each other, in addition to each step with its parent."""

    same_launches: Mapping[str, Sequence[str]] = {}
    """Kernel in a language of today -> steps that launch as it does, its parent left out: those that it could be level with."""

    def __init__(self, lab: "Lab") -> None:
        self.lab = lab

    def mapping(self, device: "Device") -> Mapping[Any, str | tuple[str, str]]:
        """Return the mapping of a published variant, or (variant, device), to ours, or to (ours, published baseline)."""
        return {variant.published: variant.name for variant in self.lab.all_variants() if variant.published}

    def part(self, variant: str, case: str, metric: str) -> str | tuple[str, ...] | None:
        """Return the part of our run that a published time covers, or the parts whose sum it is; None for the time of the lab.

        A name that our runs do not have means that we have no such time.
        """
        return None

    def in_c(self, variant: str) -> str | None:
        """Return the variant that is the same step from a host program in C; None if there is none."""
        return None

    def fact(self, variant: str, case: str, metric: str) -> str | None:
        """Return the fact of our runs that a published figure of `metric` is compared with; None if there is none.

        A figure published in % is compared with a share from 0 to 1.
        """
        return None

    def lack(self, variant: str, case: str, metric: str) -> str | None:
        """Return why we can have no figure for a published one, such as `needs hardware counters`; None if we can."""
        return None

    def counted(self, measured: "Measured") -> Mapping[tuple[str, str, str], str]:
        """Return (published variant, case, metric) -> our figure as text, for figures that are no single measured time.

        Figures that need a measurement that was not made are left out.
        """
        return {}

    def finding(self, measured: "Measured") -> str:
        """Return the answer to the question with which the lab's page begins, as Markdown; '' if it was not measured."""
        return ""

    def summary(self, measured: "Measured") -> str:
        """Return the lab's conclusions as Markdown; every number comes from `measured`."""
        return conclusions(self.lab, measured)

    def demonstration(self, device: "Device") -> Demonstration | None:
        """Return a table of a further property, such as a conserved quantity, computed now on `device`; None for none.

        It is the result of the function `demonstration` in the lab's module of this name.
        """
        if not _has_module(self.lab, "demonstration"):
            return None
        demonstrate: Callable[[Device], Demonstration] = import_module(
            f"{self.lab.package}.demonstration"
        ).demonstration
        return demonstrate(device)


def _has_module(lab: "Lab", name: str) -> bool:
    """Return whether a lab's folder has a module of a name."""
    return Path(inspect.getfile(type(lab))).with_name(f"{name}.py").is_file()


@lru_cache
def publication(lab: "Lab") -> Publication:
    """Return the publication of a lab."""
    if not _has_module(lab, "publication"):
        return Publication(lab)
    declared: Publication = import_module(f"{lab.package}.publication").PUBLICATION
    return declared
