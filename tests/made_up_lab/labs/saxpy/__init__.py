"""A vector plus a multiple of another (made up for the tests): from one work-item to one an element.

The smallest whole lab: an example for those who add one.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roofbook.devices.contract import Device
from roofbook.spec.kernel_run import KernelRun, ceil_div
from roofbook.spec.lab import Case, Lab, Sweep, Variant, Work, least_bytes, no_conditions
from roofbook.spec.source import Source

SEQUENTIAL = Source.of(Path(__file__).parent / "saxpy.k")
PARALLEL = SEQUENTIAL.with_knobs(WALK="EACH")
FACTOR = np.float32(1.5)
ELEMENTS = {"quick": 1 << 20, "published": 1 << 22, "large": 1 << 26, "test": 1000}


class Saxpy(KernelRun):
    """x, y and out on a device, and one launch."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        assert variant.source
        self.count = len(inputs["x"])
        one_per_item = variant.source.settings["WALK"] == "EACH"
        self.group = (variant.options.get("group", 64),) if one_per_item else (1,)
        self.size = (ceil_div(self.count, self.group[0]) * self.group[0],) if one_per_item else (1,)
        self.kernel = device.build(variant.source.render(device.backend)).kernel("saxpy")
        self.x, self.y, self.out = self.buffers = [device.upload(inputs[name]) for name in ("x", "y", "x")]

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.y, self.out, FACTOR, np.int32(self.count))

    def reset(self) -> None:
        self.queue.write(self.out, np.full(self.count, np.nan, np.float32))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.queue.read(self.out, np.empty(self.count, np.float32)).astype(np.float64)}


class Vectors(Lab):
    """The lab. A case is a number of elements."""

    name = "saxpy"
    title = "Saxpy"
    preferred_backend = "opencl"
    unit = "call"
    timed = "kernels"
    bases = ("sequential",)
    best = "parallel"
    ladder = (
        Variant("sequential", None, SEQUENTIAL, Saxpy, "One work-item walks all elements.", "The baseline: one core."),
        Variant(
            "parallel", "sequential", PARALLEL, Saxpy, "A work-item an element.", "All cores work, until memory is full.",
            published="one thread an element",
        ),
    )  # fmt: skip

    def __init__(self) -> None:
        self.sweeps = (
            Sweep("wg", "Which size of work-group?",
                  tuple(self.variant("parallel").at("wg", size, group=size) for size in (32, 128, 256))),
        )  # fmt: skip

    def cases(self, scale: str) -> Sequence[Case]:
        return [Case(f"n{ELEMENTS[scale]}", scale, {"elements": ELEMENTS[scale]}, units=1)]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        random = np.random.default_rng(seed)
        return {name: random.standard_normal(case.params["elements"], np.float32) for name in "xy"}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        x, y = (inputs[name].astype(np.float64) for name in "xy")
        return {"out": FACTOR * x + y, "bound": 2.0**-24 * (2 * np.abs(FACTOR * x) + np.abs(y)) + 1e-30}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        """A product and a sum, each rounded once."""
        over = np.abs(outputs["out"] - reference["out"]) / reference["bound"]
        return float(over.max()), 1.0, "largest error of an element, over its bound"

    def work(self, case: Case) -> Work:
        elements = case.params["elements"]
        return Work(2.0 * elements, 12.0 * elements, 12.0 * elements)


LAB = Vectors()
