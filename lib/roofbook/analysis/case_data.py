"""One case of a lab on one device, as every table and figure of it takes it."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

from ..spec.lab import unlike
from .readings import Reading, fastest, newest, text_field
from .roofline import Bound, Peaks

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class CaseData:
    """Rows of one lab, those of other cases too, and what a report needs to know of the lab and the device beside them."""

    rows: "pd.DataFrame"
    order: Sequence[str]
    """Names of the ladder in its order, libraries behind it."""
    case: str
    bases: Sequence[str] = ("sequential",)
    """What every speedup is over: of these the first that has a time here."""
    bounds: Mapping[str, Bound] | None = None
    """The least seconds per unit by dtype, and by the name of a variant with a bound of its own; None: no such column."""
    changes: Mapping[str, str] = field(default_factory=dict)
    """Variant -> what it changes, in words."""
    rate: tuple[float, str] | None = None
    """(amount of one unit, name of the rate): the rate is amount / seconds."""
    skip_reasons: Mapping[str, str] = field(default_factory=dict)
    """Variant -> why it is not measured here."""
    probes: frozenset[str] = frozenset()
    """Variants that show a cost and compute nothing: figures leave them out."""
    peers: Sequence[str] = ()
    """Names of the libraries among `order`."""
    peaks: Peaks | None = None
    """The device's measured peaks; None where one has no verified time."""
    working_set: float = math.nan
    """Bytes that the case keeps in use: they pick the level of the memory."""
    roles: tuple[str, ...] | None = None
    """Of the rows that count; None: all but those of hardware counters."""
    cache_note: str = ""
    """As `Lab.cache_note`."""
    same_code: Mapping[str, str] = field(default_factory=dict)
    """Variant -> why `compiler` makes the same machine code of it as of its parent."""
    compiler: str = ""
    """That of the device, by its name in `Variant.same_code`; '' for another."""
    counted_bytes: Mapping[str, float] = field(default_factory=dict)
    """Variant -> bytes per unit that hardware counters saw at the device's memory."""
    exact_as: Mapping[str, str] = field(default_factory=dict)
    """Variant -> the type whose plain steps are as exact, where that is not its own: as `Lab.exact_as`."""
    conditions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Variant -> in what its result or time is unlike that of a plain step: as `Lab.conditions`, of those that have some."""
    lab_order: Sequence[str] = ()
    """`order` of the whole lab, however few are asked for: by it figures know a variant's colour."""

    @cached_property
    def readings(self) -> dict[str, Reading]:
        """The newest reading of each variant. Errors: UsageError for an unknown case or a sample that is no time."""
        return newest(self.rows, self.case, self.roles)

    @cached_property
    def base(self) -> str:
        """The variant that every speedup is over; where none of `bases` has a verified time, the first of them."""
        return next((each.variant for each in self.verified(self.bases)), self.bases[0])

    def precision(self, reading: Reading) -> str:
        """By which a reading is compared with libraries: the type whose plain steps are as exact."""
        return self.exact_as.get(str(reading.row["variant"])) or text_field(reading.row, "dtype") or "float32"

    def unlike(self, one: str, other: str) -> tuple[list[str], list[str]]:
        """The conditions of one variant alone, and those of the other alone, as `spec.lab.unlike` has them."""
        return unlike(self.conditions.get(one, ()), self.conditions.get(other, ()))

    def nearest(self, reading: Reading, steps: Iterable[Reading]) -> Reading | None:
        """Of verified readings in the same precision those least unlike this one, and of them the fastest; None: of none."""

        def rank(each: Reading) -> tuple[int, float]:
            return sum(map(len, self.unlike(each.variant, reading.variant))), each.median

        alike = [each for each in steps if each.ok and self.precision(each) == self.precision(reading)]
        return min(alike, key=rank, default=None)

    @property
    def stands_in(self) -> list[str]:
        """A note where the base is not the one that comes first."""
        return over_another(self.base, self.bases, "has no time here")

    @property
    def drawn(self) -> list[str]:
        """The variants that figures show."""
        return [name for name in self.order if name not in self.probes]

    def verified(self, names: Sequence[str]) -> list[Reading]:
        """Those of `names` that have a verified time, in their order."""
        return [self.readings[name] for name in names if name in self.readings and self.readings[name].ok]

    def unit(self, names: Sequence[str]) -> str:
        """What a time is per, such as `step`, by the rows of `names`."""
        return next((str(self.readings[name].row["unit"]) for name in names if name in self.readings), "unit")

    def ranked(self) -> tuple[list[Reading], Reading | None, Reading | None]:
        """Return the verified steps and bases in ladder order, the fastest step, and the fastest peer on that step's device."""
        good = self.verified(self.order)
        rungs = [each for each in good if each.role in ("step", "base")]
        best = fastest(each for each in rungs if each.role == "step")
        return rungs, best, fastest(peers_on(best.row["device"], good)) if best else None

    def with_order(self, order: Sequence[str]) -> "CaseData":
        """The same with other variants, or the same in another order."""
        return replace(self, order=order)

    def alone(self) -> "CaseData":
        """The same with the rows of its case alone, all that tables and figures of a case are made from."""
        return replace(self, rows=self.rows[self.rows["case"] == self.case])

    def over(self, bases: Sequence[str]) -> "CaseData":
        """The same with speedups over other bases."""
        return replace(self, bases=bases)


def peers_on(device: str, readings: Iterable[Reading]) -> list[Reading]:
    """Return the verified peers on a device, whichever backend calls them: a program of the host is no peer of a GPU."""
    return [
        reading for reading in readings if reading.ok and reading.role == "peer" and reading.row["device"] == device
    ]


def over_another(base: str, bases: Sequence[str], lack: str) -> list[str]:
    """A note that speedups are over `base`, where that is not the first of `bases`, which `lack` says why."""
    return [f"Speedups are over {base}: {bases[0]} {lack}."] * (base != bases[0])
