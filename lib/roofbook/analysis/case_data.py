"""Rows and settings of one case of a lab on one device, from which all tables and figures of the case are made."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..spec.plan import differing_conditions
from .readings import Reading, fastest, newest, rows_of_case, text_field
from .roofline import Bound, Peaks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CaseData:
    """The rows of a lab, other cases included, and all that a report of one case needs to know about lab and device."""

    rows: "pd.DataFrame"
    order: Sequence[str]
    """Names of the ladder's variants in its order, then the peers."""
    case: str
    bases: Sequence[str] = ("sequential",)
    """Baselines of the speedups; the first one with a time here is used."""
    bounds: Mapping[str, Bound] | None = None
    """Least seconds per unit by dtype, and by name for variants with a bound of their own; None hides the column."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """Variant -> its change, in words."""
    rate: tuple[float, str] | None = None
    """(amount of one unit, name of the rate): the rate is amount / seconds."""
    skip_reasons: Mapping[str, str] = field(default_factory=dict)
    """Variant -> the reason why it is not measured here."""
    probes: frozenset[str] = frozenset()
    """Variants that show a cost and compute nothing; figures leave them out."""
    peers: Sequence[str] = ()
    """Names of the peers among `order`."""
    peaks: Peaks | None = None
    """The device's measured peaks; None if one has no verified time."""
    working_set: float = math.nan
    """Bytes that the case keeps in use; they choose the level of the memory."""
    roles: tuple[str, ...] | None = None
    """Roles of the rows that count; None: all roles but that of hardware counters."""
    cache_note: str = ""
    """`Lab.cache_note`."""
    same_code: Mapping[str, str] = field(default_factory=dict)
    """Variant -> the reason why `compiler` makes the same machine code of it as of its parent."""
    compiler: str = ""
    """The device's compiler by its name in `Variant.same_code`; '' for another."""
    counted_bytes: Mapping[str, float] = field(default_factory=dict)
    """Variant -> bytes per unit that hardware counters saw at the device's memory."""
    exact_as: Mapping[str, str] = field(default_factory=dict)
    """Variant -> the type whose plain steps are as exact, as `Lab.exact_as`, if that is not its own."""
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variant -> the differences of its result or time from a plain step's, as `Lab.conditions`; only variants with some."""
    parents: Mapping[str, str] = field(default_factory=dict)
    """Variant -> its parent in the lab's ladder, also of variants without a time here."""
    marks: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variant of the ladder -> what it needs of a device, as `step_marks.marks` names it; only variants that need something."""

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """The newest reading of each variant. Errors: UsageError for an unknown case or a sample that is no time."""
        return newest(self.rows, self.case, self.roles)

    @cached_property
    def base(self) -> str:
        """Baseline of every speedup: the first of `bases` with a verified time, otherwise the first of them."""
        return next((reading.variant for reading in self.verified(self.bases)), self.bases[0])

    def precision(self, reading: Reading) -> str:
        """Return the precision in which a reading is compared with libraries: the type whose plain steps are as exact."""
        return self.exact_as.get(str(reading.row["variant"])) or text_field(reading.row, "dtype") or "float32"

    def unlike(self, first: str, second: str) -> tuple[list[str], list[str]]:
        """Return the conditions that only the first variant has, and those that only the second has."""
        return differing_conditions(self.conditions.get(first, ()), self.conditions.get(second, ()))

    def nearest(self, reading: Reading, steps: Iterable[Reading]) -> Reading | None:
        """Return the fastest verified reading of the same precision and of the fewest other conditions; None for none."""
        alike = {
            step.variant: (step, sum(map(len, self.unlike(step.variant, reading.variant))))
            for step in steps
            if step.ok and self.precision(step) == self.precision(reading)
        }
        fewest = min((count for _, count in alike.values()), default=0)
        return fastest(step for step, count in alike.values() if count == fewest)

    @property
    def stands_in(self) -> list[str]:
        """A note if the first baseline is replaced by another; [] otherwise."""
        return over_another(self.base, self.bases, "has no time here")

    @property
    def drawn(self) -> list[str]:
        """Names of the variants that figures show."""
        return [name for name in self.order if name not in self.probes]

    def verified(self, names: Sequence[str]) -> list[Reading]:
        """Return the readings of `names` that have a verified time, in their order."""
        return [self.readings[name] for name in names if name in self.readings and self.readings[name].ok]

    def unit(self, names: Sequence[str]) -> str:
        """Return the unit that a time is per, such as `step`, from the rows of `names`."""
        return next((str(self.readings[name].row["unit"]) for name in names if name in self.readings), "unit")

    def ranked(self) -> tuple[list[Reading], Reading | None, Reading | None]:
        """Return the verified steps and bases in ladder order, the fastest step, and the fastest peer on that step's device."""
        good = self.verified(self.order)
        steps_and_bases = [reading for reading in good if reading.role in ("step", "base")]
        best = fastest(reading for reading in steps_and_bases if reading.role == "step")
        return steps_and_bases, best, fastest(peers_on(best.row["device"], good)) if best else None

    def way_to_fastest(self, names: Sequence[str]) -> list[str]:
        """Return the ladder's way to the fastest step among `names`: its ancestors among them, the first ancestor first.

        It passes steps that are not among them. Empty if none of its ancestors is.
        """
        steps = (reading for reading in self.verified(names) if reading.role == "step")
        best = fastest(steps)
        way: list[str] = []
        name = best.variant if best else ""
        while name and name not in way:
            way.insert(0, name)
            reading = self.readings.get(name)
            name = self.parents.get(name) or (reading.parent if reading else None) or ""
        placed = [name for name in way if name in names]
        return placed if len(placed) > 1 else []

    def with_order(self, order: Sequence[str]) -> "CaseData":
        """Return this data with other variants, or with the variants in another order."""
        return replace(self, order=order)

    def alone(self) -> "CaseData":
        """Return this data with only the rows of its case, which are all that its tables and figures need."""
        return replace(self, rows=rows_of_case(self.rows, self.case))

    def over(self, bases: Sequence[str]) -> "CaseData":
        """Return this data with other baselines for its speedups."""
        return replace(self, bases=bases)


def peers_on(device: str, readings: Iterable[Reading]) -> list[Reading]:
    """Return the verified peers on a device, whichever backend calls them: a program of the host is no peer of a GPU."""
    return [
        reading for reading in readings if reading.ok and reading.role == "peer" and reading.row["device"] == device
    ]


def over_another(base: str, bases: Sequence[str], lack: str) -> list[str]:
    """Return a note that speedups are over `base`, if that is not the first of `bases`. lack: why the first is not used."""
    return [f"Speedups are over {base}: {bases[0]} {lack}."] * (base != bases[0])
