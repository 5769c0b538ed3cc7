"""Steps of the ladders by several backends on one GPU, as ratios to the GPU's main backend. Serves the page on WebGPU.

The ratio without WebGPU's run-time checks is among them: it tells how much of a difference they are.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..devices.backends import CUDA, OPENCL, WEBGPU, WEBGPU_UNCHECKED
from ..spec import registry
from ..store.todays_code import rows_of_today
from .readings import Reading, Speedup, faster, newest
from .store_devices import StoreDevice, card_of

if TYPE_CHECKING:
    import pandas as pd

    from ..spec.lab import Lab
    from ..store.parquet import Store

SCALES = ("published", "large")
REFERENCES = (CUDA.name, OPENCL.name)
"""Backends that others are compared with; the first one that a GPU has is taken."""


class MeasuredStep(NamedTuple):
    """A step on a case of a lab, by the backends that measured it on one GPU."""

    lab: "Lab"
    scale: str
    case: str
    variant: str
    device: StoreDevice
    """The GPU, by the backend that the others are compared with."""
    readings: Mapping[str, Reading]
    """Verified readings by backend."""

    @property
    def reference(self) -> Reading | None:
        return self.readings.get(self.device.backend)

    def ratio(self, backend: str, to: str = "") -> Speedup | None:
        """Return how many times as fast a backend is as the reference, or as the backend `to`."""
        reading = self.readings.get(backend)
        return faster(self.readings.get(to or self.device.backend), reading) if reading else None

    @property
    def cost_of_checks(self) -> Speedup | None:
        """Speedup of WebGPU without its run-time checks over WebGPU with them."""
        return self.ratio(WEBGPU_UNCHECKED.name, WEBGPU.name)

    @property
    def extra_seconds(self) -> float:
        """Difference of the median times per unit, WebGPU minus the reference; NaN without one of them."""
        if self.reference is None or WEBGPU.name not in self.readings:
            return math.nan
        return self.readings[WEBGPU.name].median - self.reference.median

    @property
    def card(self) -> str:
        """The measurement by the reference, as `card_of` names it; '' without one."""
        return card_of(self.lab.name, self.device.id, self.scale, self.reference.id) if self.reference else ""


def steps_by_gpu(store: "Store") -> dict[StoreDevice, list[MeasuredStep]]:
    """Return the steps of each GPU that were measured by WebGPU and by a backend of REFERENCES, lab by lab, case by case."""
    by_gpu: dict[StoreDevice, list[MeasuredStep]] = {}
    for lab in map(registry.get, registry.names_of_site()):
        for scale in SCALES:
            rows = rows_of_today(lab, store, scale=scale, parts=("recorded",), role="step", device_kind="gpu")
            for slug in sorted(rows[rows["backend"] == WEBGPU.name]["device"].unique()):
                for step in _steps_of_gpu(lab, scale, rows[rows["device"] == slug]):
                    by_gpu.setdefault(step.device, []).append(step)
    return by_gpu


def _steps_of_gpu(lab: "Lab", scale: str, rows: "pd.DataFrame") -> list[MeasuredStep]:
    """Return the steps of one GPU's rows that have a time by WebGPU and by the reference."""
    by_backend = {backend: of_backend for backend, of_backend in rows.groupby("backend")}
    reference = next((backend for backend in REFERENCES if backend in by_backend), None)
    if reference is None:
        return []
    row = by_backend[reference].iloc[-1]
    device = StoreDevice(str(row["device"]), reference, str(row["device_name"]), "gpu")
    steps = []
    for case in lab.cases(scale):
        readings = {
            backend: newest(of_backend, case.name)
            for backend, of_backend in by_backend.items()
            if case.name in set(of_backend["case"])
        }
        for variant in lab.ladder:
            verified = {
                backend: by_name[variant.name]
                for backend, by_name in readings.items()
                if variant.name in by_name and by_name[variant.name].ok
            }
            if {WEBGPU.name, reference} <= verified.keys():
                steps.append(MeasuredStep(lab, scale, case.name, variant.name, device, verified))
    return steps


def mean_ratio(steps: Sequence[MeasuredStep], backend: str) -> float | None:
    """Return the geometric mean of a backend's ratios to the reference; None without any."""
    ratios = [ratio.estimate for step in steps if (ratio := step.ratio(backend))]
    return math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else None
