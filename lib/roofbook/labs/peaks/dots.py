"""Peaks of a CPU's products of small types: of dot products (dots.k), and of tiles by AMX (tiles.k)."""

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
    """Chains of dot products. A unit is one instruction of every chain. Options: `feature`; `element`, `s8` or `bf16`."""

    kernel_name = "dots"
    chains, sums, factor_bytes = CHAINS, LANES, 64
    """Chains a work-item, sums that an instruction adds to, and bytes of each of its factors."""
    products = 64
    """Products of an instruction, of bytes."""

    @classmethod
    def checked_units(cls, case: Case) -> int:
        return CHECKED_ROUNDS

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, variant.options["feature"])
        super().__init__(device, variant, case, inputs)
        encoded, _ = self.factors_of(variant, inputs)
        self.kernel = device.build(variant.text.render(device.backend)).kernel(self.kernel_name)
        self.items = ITEMS * device.compute_units
        kind = np.int32 if variant.options["element"] == "s8" else np.float32
        self.ends = np.zeros((self.items, self.chains, self.sums), kind)
        self.ends.view(np.uint8)[:] = 0xFF
        self.factors, self.out = device.upload(encoded), device.empty(self.ends.nbytes)
        self.buffers = [self.factors, self.out]
        self.amount = 2 * self.chains * self.items * self.products // ELEMENT_BYTES[variant.options["element"]]

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
        _, values = cls.factors_of(variant, inputs)
        return float((outputs["ends"] != case.units * cls.sums_of(*values)).sum()), 0.0, "sums that end elsewhere"

    @classmethod
    def factors_of(
        cls, variant: Variant, inputs: Mapping[str, Any]
    ) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
        """Return the two factors of an instruction as bytes, one after the other, and their values, a row for 64 bytes.

        They are small integers, the first without negative ones, so fp32 holds their sums, however many rounds are measured.
        """
        element, rows = variant.options["element"], cls.factor_bytes // 64
        integers = np.rint(inputs["numbers"][: 2 * rows, : 64 // ELEMENT_BYTES[element]]).clip(-2, 2)
        integers[:rows] = np.abs(integers[:rows])
        scale = 32 if element == "s8" else 1  # `encode` multiplies numbers by it
        encoded, values = encode(integers / scale, element)
        return encoded, (values[:rows], values[rows:])

    @classmethod
    def sums_of(cls, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the sums of an instruction's products, by lane."""
        return np.asarray((left * right).reshape(LANES, -1).sum(axis=1))


class Tiles(Dots):
    """Chains of products of tiles of 16 rows of 64 bytes."""

    kernel_name = "tiles"
    chains, sums, factor_bytes = 6, 16 * 16, 16 * 64
    products = 16 * 16 * 64

    @classmethod
    def sums_of(cls, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the sums by row of the left tile and column of the right one, whose rows hold words of four bytes."""
        return np.asarray(np.einsum("ijn,jkn->ik", left.reshape(16, 16, -1), right.reshape(16, 16, -1))).ravel()


ELEMENT_BYTES = {"s8": 1, "bf16": 2}
"""Bytes of a factor by element type."""
