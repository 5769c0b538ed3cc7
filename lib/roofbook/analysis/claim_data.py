"""Measurements of a lab on one device by variant and case, from which the claims of a report are judged."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..devices.backends import has
from ..store.schema import PROFILE
from ..store.todays_code import newest_measurements
from .readings import Reading, newest
from .roofline import read_peaks
from .store_devices import of_host

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab
    from .roofline import Peaks


class MissingData(Exception):
    """A number is missing since a variant was not measured, or failed."""


class NotApplicable(MissingData):
    """There can be no such number on this device."""


class ClaimData:
    """The store's measurements of a lab on one device: the newest reading of each variant and case, and the device's peaks.

    rows: of this device by this backend, and of its host. peaks: the device's rows of the lab `peaks`. profiles: the device's
    rows of hardware counters. name: the device's. `other_devices`: the same of the store's other devices, and of this one by
    other backends, for evidence that needs two.
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
        self.other_devices: Sequence[ClaimData] = ()
        self._rows, self._peaks, self._profiles = rows, peaks, profiles
        self._readings: dict[str, Mapping[str, Reading]] = {}

    def reading(self, variant: str, case: str) -> Reading:
        """Return a verified reading. Errors: MissingData without one; NotApplicable if this backend cannot run the variant."""
        spec = self.lab.variant(variant)
        if not spec.is_for(self.backend, self.kind) and not of_host(spec):
            raise NotApplicable(f"{variant} is not for {self.backend}")
        if case not in self._readings:
            self._readings[case] = newest(self._rows[self._rows["case"] == case])
        reading = self._readings[case].get(variant)
        if reading is None:
            raise MissingData(variant)
        if not reading.ok:
            raise MissingData(f"{variant} failed: {reading.reason}")
        return reading

    def counted(self, variant: str, case: str) -> Mapping[str, Any]:
        """Return the counters of a variant, as from `counters.counters_of`. Errors: MissingData without a profiled run."""
        if not has(self.backend, "counters"):
            raise NotApplicable("hardware counters need CUDA")
        reading = newest(self._profiles[self._profiles["case"] == case], roles=[PROFILE]).get(variant)
        if reading is None or not reading.ok:
            raise MissingData(f"counters of {variant}{f': {reading.reason}' if reading else ''}")
        return reading.facts

    def ran(self, variants: Iterable[str], case: str) -> dict[str, Reading]:
        """Return readings by variant, without those that failed. Errors: MissingData if one was never measured."""
        readings = {}
        for variant in variants:
            try:
                readings[variant] = self.reading(variant, case)
            except MissingData:
                if variant not in self._readings.get(case, {}):
                    raise
        return readings

    @cached_property
    def peaks(self) -> "Peaks":
        """The device's peaks. Errors: MissingData if a peak has no verified time."""
        try:
            return read_peaks(newest_measurements(self._peaks))
        except ValueError as error:
            raise MissingData(str(error)) from None
