"""What the store holds of a lab on one device, for whoever judges a published statement by it: readings by variant and case."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..devices.backends import has
from ..store.current import of_newest
from ..store.schema import PROFILE
from .readings import Reading, newest
from .roofline import read_peaks
from .store_devices import of_host

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab
    from .roofline import Peaks


class MissingData(Exception):
    """Why there is no number: a cell that was not measured, or failed."""


class NotApplicable(MissingData):
    """Why there can be none on this device."""


class Cells:
    """What the store holds of a lab on one device: the newest reading of each variant and case, and the device's peaks.

    rows: of this device by this backend and of its host. peaks: rows of the lab `peaks` of the device. profiles: what
    hardware counters counted on it. name: of the device. `others`: those of the store's other devices, and this one by other
    backends, for evidence that takes two.
    """

    def __init__(
        self,
        lab: "Lab",
        rows: "pd.DataFrame",
        peaks: "pd.DataFrame",
        profiles: "pd.DataFrame",
        *,
        backend: str,
        kind: str,
        name: str = "",
    ) -> None:
        self.lab, self.backend, self.kind, self.name = lab, backend, kind, name
        self.others: Sequence[Cells] = ()
        self._rows, self._peaks, self._profiles = rows, peaks, profiles
        self._found: dict[str, Mapping[str, Reading]] = {}

    def reading(self, variant: str, case: str) -> Reading:
        """A verified reading. Raises MissingData where there is none, NotApplicable where it is not for this backend."""
        known = self.lab.variant(variant)
        if not known.is_for(self.backend, self.kind) and not of_host(known):
            raise NotApplicable(f"{variant} is not for {self.backend}")
        if case not in self._found:
            self._found[case] = newest(self._rows[self._rows["case"] == case])
        reading = self._found[case].get(variant)
        if reading is None:
            raise MissingData(variant)
        if not reading.ok:
            raise MissingData(f"{variant} failed: {reading.reason}")
        return reading

    def counted(self, variant: str, case: str) -> Mapping[str, Any]:
        """What counters counted, as `counters.counted` has it. Raises MissingData where they did not."""
        if not has(self.backend, "counters"):
            raise NotApplicable("hardware counters need CUDA")
        reading = newest(self._profiles[self._profiles["case"] == case], roles=[PROFILE]).get(variant)
        if reading is None or not reading.ok:
            raise MissingData(f"counters of {variant}{f': {reading.reason}' if reading else ''}")
        return reading.facts

    def ran(self, variants: Iterable[str], case: str) -> dict[str, Reading]:
        """Readings by variant, without those that failed. Raises MissingData where one was never measured."""
        found = {}
        for variant in variants:
            try:
                found[variant] = self.reading(variant, case)
            except MissingData:
                if variant not in self._found.get(case, {}):
                    raise
        return found

    @cached_property
    def peaks(self) -> "Peaks":
        """Raises MissingData where a peak has no verified time."""
        try:
            return read_peaks(of_newest(self._peaks))
        except ValueError as why:
            raise MissingData(str(why)) from None
