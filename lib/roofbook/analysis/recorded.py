"""Labs on recorded devices: the rows of a store by device and backend. The devices need not be present."""

import re
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..devices.contract import Buffer, Device, Program, Queue, Unsupported
from ..escaping import read_json
from ..measure.placement import target_of
from ..spec import registry
from ..spec.lab import Lab
from ..spec.plan import Case, Variant, missing
from ..store.files import StorePart
from ..store.parquet import Store
from ..store.schema import PROFILE
from ..store.todays_code import newest_measurements, rows_of_today, source_hashes
from .lab_data import LabData
from .store_devices import StoreDevice, peers_by_other_backends, rows_by_device

if TYPE_CHECKING:
    import pandas as pd


class RecordedDevice(Device):
    """A device known only from its rows; it runs nothing."""

    alike = sys.maxsize
    """Number of such devices in the machine. No row records it, so it counts as unlimited."""

    def __init__(self, device: StoreDevice, row: "pd.Series[Any]") -> None:
        self.backend, self.kind, self.name, self.spec = device.backend, device.kind, device.name, f"{device}, recorded"
        self._identity = (read_json(row["provenance"] or "{}").get("environment") or {}).get("device") or {}
        if match := re.search(r"\bsm_(\d+)\b", self._identity.get("device", "")):
            self.architecture = int(match[1])

    def identity(self) -> dict[str, str]:
        return dict(self._identity)

    def lacks_instructions(self, feature: str) -> str:
        return ""  # its rows tell

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        raise Unsupported(f"{self.spec} is not here")

    def empty(self, nbytes: int) -> Buffer:
        raise Unsupported(f"{self.spec} is not here")

    def queue(self, profiling: bool = False) -> Queue:
        raise Unsupported(f"{self.spec} is not here")


class RecordedData(LabData):
    """A lab on a recorded device, from rows whose kernel is that of today's code; the host's code may have changed since."""

    def __init__(
        self,
        lab: Lab,
        store_device: StoreDevice,
        store: Store,
        scale: str,
        rows: "pd.DataFrame",
        peer_rows: "pd.DataFrame",
        parts: Sequence[StorePart],
    ) -> None:
        self.lab, self.store_device, self.scale = lab, store_device, scale
        self._store, self._rows, self._peer_rows, self._parts = store, rows, peer_rows, parts
        # The host's rows are of another device or backend.
        device_rows = rows[(rows["backend"] == store_device.backend) & (rows["device"] == store_device.slug)]
        self.device = RecordedDevice(store_device, device_rows.iloc[-1])
        measured = set(device_rows["case"])
        self.cases = [case for case in lab.cases(scale) if case.name in measured]

    @property
    def rows(self) -> "pd.DataFrame":
        return self._rows

    @property
    def peer_rows(self) -> "pd.DataFrame":
        return self._peer_rows

    @cached_property
    def peak_rows(self) -> "pd.DataFrame":
        peaks = registry.get(registry.PEAKS)
        units = {case.name: case.units for case in peaks.cases(self.scale)}
        only = {"device": self.store_device.slug, "backend": self.store_device.backend}
        rows = rows_of_today(peaks, self._store, parts=self._parts, **only)
        rows = rows[[units.get(row.case) == row.units for row in rows.itertuples()]] if len(rows) else rows
        return newest_measurements(rows)

    @cached_property
    def profiles(self) -> "pd.DataFrame":
        device = self.store_device.slug
        return rows_of_today(self.lab, self._store, parts=self._parts, role=PROFILE, device=device)

    def skip_reasons(self, case: Case) -> dict[str, str]:
        """Return the reasons why variants were not measured on a case, by variant."""
        rows = self.rows_with_peers
        measured = set(rows[rows["case"] == case.name]["variant"])
        return {name: reason for name, reason in super().skip_reasons(case).items() if name not in measured}

    def skip_reason(self, variant: Variant, case: Case) -> str:
        """Return the reason why a variant was not measured on a case, or ''.

        A library or compiler that this machine lacks says nothing of the recorded one.
        """
        may_lack = variant in self.lab.peers or missing(variant)
        return "" if may_lack and target_of(variant, self.device) else super().skip_reason(variant, case)


_RECENT: dict[tuple[Any, ...], list[RecordedData]] = {}
_MOST = 32
"""Number of results that `recorded` caches: more than a book needs."""


def recorded(
    lab: Lab, store: Store, scale: str = "published", parts: Sequence[StorePart] = ("recorded",)
) -> list[RecordedData]:
    """Return a lab on each device and backend with measurements in these parts of the store.

    GPUs come first, then devices by the lab's preferred backend, then those with most variants. Results are cached while the
    files and the kernels are the same, since a dozen pages read them.
    """
    if store.storage.is_remote:  # not all of its files are here
        return _read(lab, store, scale, parts)
    kernels = (*source_hashes(lab).items(), *source_hashes(registry.get(registry.PEAKS)).items())
    key = (lab, store.address, scale, *parts, *kernels, *store.stamps(parts=parts))
    if key not in _RECENT:
        records = _read(lab, store, scale, parts)
        while len(_RECENT) >= _MOST:
            del _RECENT[next(iter(_RECENT))]
        _RECENT[key] = records
    return list(_RECENT[key])


def _read(lab: Lab, store: Store, scale: str, parts: Sequence[StorePart]) -> list[RecordedData]:
    rows = rows_of_today(lab, store, scale=scale, parts=parts)

    def order(record: RecordedData) -> tuple[bool, bool, int, str]:
        device = record.store_device
        preferred, measured = device.backend == lab.preferred_backend, record.rows["variant"].nunique()
        return device.kind != "gpu", not preferred, -measured, str(device)

    records = []
    for device, device_rows in rows_by_device(lab, rows):
        peer_rows = peers_by_other_backends(lab, rows, device_rows, device.slug)
        records.append(RecordedData(lab, device, store, scale, device_rows, peer_rows, parts))
    return sorted(records, key=order)
