"""Peaks of a CPU's dot products of small types (dots.k)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_run import require_instructions, resources
from ...spec.plan import Case, Variant
from .plans import CHAINS, CHECKED_ROUNDS, Outputs, Peak, encode

ITEMS = 64
"""Work-items a core."""
LANES = 16


class Dots(Peak):
    """Sixteen chains a work-item. A unit is one instruction of every chain. Options: `feature`; `element`, `s8` or `bf16`."""

    @classmethod
    def checked_units(cls, case: Case) -> int:
        return CHECKED_ROUNDS

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, variant.options["feature"])
        super().__init__(device, variant, case, inputs)
        encoded, _ = factors(variant, inputs)
        self.kernel = device.build(variant.text.render(device.backend)).kernel("dots")
        self.items = ITEMS * device.compute_units
        kind = np.int32 if variant.options["element"] == "s8" else np.float32
        self.ends = np.zeros((self.items, CHAINS, LANES), kind)
        self.ends.view(np.uint8)[:] = 0xFF
        self.factors, self.out = device.upload(encoded), device.empty(self.ends.nbytes)
        self.buffers = [self.factors, self.out]
        self.amount = 2 * CHAINS * self.items * 64 // ELEMENT_BYTES[variant.options["element"]]

    @property
    def rate(self) -> str:  # type: ignore[override]
        return "op/s" if self.variant.options["element"] == "s8" else "FLOP/s"

    def reset(self) -> None:
        self.queue.write(self.out, self.ends)

    def run(self) -> float:
        return self.queue.timed(lambda: self.queue.launch(
            self.kernel, (self.items,), (1,), self.factors, self.out, np.int32(self.units)
        ))  # fmt: skip

    def outputs(self) -> dict[str, np.ndarray]:
        return {"ends": self.queue.read(self.out, np.empty_like(self.ends))}

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), **resources(self.device, self.kernel, (1,))}

    @classmethod
    def judge(
        cls, case: Case, variant: Variant, outputs: Outputs, inputs: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        _, values = factors(variant, inputs)
        sums = case.units * values.prod(axis=0).reshape(LANES, -1).sum(axis=1)
        return float((outputs["ends"] != sums).sum()), 0.0, "sums that end elsewhere"


ELEMENT_BYTES = {"s8": 1, "bf16": 2}
"""Bytes of a factor by element type."""


def factors(variant: Variant, inputs: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Return two vectors of small integers as bytes (2, 64), and their values, the first without negative ones.

    Their sums of products are integers that fp32 holds, however many rounds are measured.
    """
    element = variant.options["element"]
    count = 64 // ELEMENT_BYTES[element]
    integers = np.rint(inputs["numbers"][:2, :count]).clip(-2, 2)
    integers[0] = np.abs(integers[0])
    scale = 32 if element == "s8" else 1  # `encode` multiplies numbers by it
    return encode(integers / scale, element)
