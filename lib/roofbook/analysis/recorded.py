"""A lab on devices that need not be here: what the store has of it on each, by each backend."""

import re
import sys
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..devices.contract import Buffer, Device, Program, Queue, Unsupported
from ..escaping import read_json
from ..measure.placement import target_of
from ..peers import missing
from ..spec import registry
from ..spec.lab import Case, Lab, Variant
from ..store.current import matching_source, of_newest, sources
from ..store.files import Where
from ..store.parquet import Store
from ..store.schema import PROFILE
from .lab_data import LabData
from .store_devices import StoreDevice, peers_by_other_backends, rows_by_device

if TYPE_CHECKING:
    import pandas as pd


class RecordedDevice(Device):
    """A device that is known from its rows alone: it runs nothing."""

    alike = sys.maxsize
    """How many of it a machine had no row says."""

    def __init__(self, place: StoreDevice, row: "pd.Series[Any]") -> None:
        self.backend, self.kind, self.name, self.spec = place.backend, place.kind, place.name, f"{place}, recorded"
        self._identity = (read_json(row["provenance"] or "{}").get("environment") or {}).get("device") or {}
        if found := re.search(r"\bsm_(\d+)\b", self._identity.get("device", "")):
            self.architecture = int(found[1])

    def identity(self) -> dict[str, str]:
        return dict(self._identity)

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        raise Unsupported(f"{self.spec} is not here")

    def empty(self, nbytes: int) -> Buffer:
        raise Unsupported(f"{self.spec} is not here")

    def queue(self, profiling: bool = False) -> Queue:
        raise Unsupported(f"{self.spec} is not here")


class RecordedData(LabData):
    """A lab on a recorded device. Rows count whose kernel is that of today's code; the host's code may have changed since."""

    def __init__(
        self,
        lab: Lab,
        place: StoreDevice,
        store: Store,
        scale: str,
        rows: "pd.DataFrame",
        peer_rows: "pd.DataFrame",
        parts: Sequence[Where],
    ) -> None:
        self.lab, self.place, self.scale = lab, place, scale
        self._store, self._rows, self._peer_rows, self._parts = store, rows, peer_rows, parts
        own = rows[
            (rows["backend"] == place.backend) & (rows["device"] == place.device)
        ]  # and not its host's, by one backend
        self.device = RecordedDevice(place, own.iloc[-1])
        measured = set(rows["case"])
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
        known = {case.name: case.units for case in peaks.cases(self.scale)}
        only = {"device": self.place.device, "backend": self.place.backend}
        rows = matching_source(peaks, self._store.rows(registry.PEAKS, where=self._parts, **only))
        rows = rows[[known.get(row.case) == row.units for row in rows.itertuples()]] if len(rows) else rows
        return of_newest(rows)

    @cached_property
    def profiles(self) -> "pd.DataFrame":
        rows = self._store.rows(self.lab.name, where=self._parts, role=PROFILE, device=self.place.device)
        return matching_source(self.lab, rows)

    def skip_reasons(self, case: Case) -> dict[str, str]:
        """Why a variant was not measured there."""
        rows = self.rows_with_peers
        measured = set(rows[rows["case"] == case.name]["variant"])
        return {name: why for name, why in super().skip_reasons(case).items() if name not in measured}

    def skip_reason(self, variant: Variant, case: Case) -> str:
        """The same of one. What this machine lacks, a library or a compiler, says nothing of that one."""
        may_lack = variant in self.lab.peers or missing(variant)
        return "" if may_lack and target_of(variant, self.device) else super().skip_reason(variant, case)


_KNOWN: dict[tuple[Any, ...], list[RecordedData]] = {}
_MOST = 32
"""Labs at a scale, of some parts of the store, that are kept: more than a book asks for."""


def recorded(
    lab: Lab, store: Store, scale: str = "published", parts: Sequence[Where] = ("recorded",)
) -> list[RecordedData]:
    """A lab on each device by each backend of which these parts of the store have measurements.

    GPUs first, then those by the backend that the lab prefers, then those of which most variants were measured.

    What was found last is kept while the files and the kernels are the same: a dozen pages ask, and share what they read of it.
    """
    if store.storage.is_remote:  # whose files are not all here
        return _found(lab, store, scale, parts)
    kernels = (*sources(lab).items(), *sources(registry.get(registry.PEAKS)).items())
    asked = (lab, store.address, scale, *parts, *kernels, *store.stamps(parts))
    if asked not in _KNOWN:
        found = _found(lab, store, scale, parts)
        while len(_KNOWN) >= _MOST:
            del _KNOWN[next(iter(_KNOWN))]
        _KNOWN[asked] = found
    return list(_KNOWN[asked])


def _found(lab: Lab, store: Store, scale: str, parts: Sequence[Where]) -> list[RecordedData]:
    rows = matching_source(lab, store.rows(lab.name, scale=scale, where=parts))

    def order(each: RecordedData) -> tuple[bool, bool, int, str]:
        preferred, measured = each.place.backend == lab.preferred_backend, each.rows["variant"].nunique()
        return each.place.kind != "gpu", not preferred, -measured, str(each.place)

    made = [
        RecordedData(lab, place, store, scale, own, peers_by_other_backends(lab, rows, own, place.device), parts)
        for place, own in rows_by_device(lab, rows)
    ]
    return sorted(made, key=order)
