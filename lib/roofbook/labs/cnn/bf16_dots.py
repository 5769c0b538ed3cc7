"""The step for CPUs with AVX-512 BF16: dot products of two bf16 (bf16_dots.k)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_run import require_instructions
from ...spec.plan import Case, Variant
from .plans import Convolution, layer, operand_bytes


class Bf16Dots(Convolution):
    """Operands are rounded to bf16 by two launches, and multiplied by a third; all are timed."""

    kernel_name = "bf16_dots"
    group = (1, 1)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; operands in bf16 are written and read as well."""
        return least + operand_bytes(layer(case))

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, "avx512-bf16")
        super().__init__(device, variant, case, inputs)
        tile = self.constants
        self.to_pixels, self.to_factors = self.program.kernel("to_pixels"), self.program.kernel("to_factors")
        self.pixels = device.upload(np.zeros(tile["WORDS"], np.int32))
        self.factors = device.empty(4 * tile["TILES_I"] * tile["TILE_I"] * tile["PAIRS"] * tile["TAPS_2"])
        self.buffers += [self.pixels, self.factors]

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        return tile["TILES_I"], tile["TILES_H"] * tile["TILES_W"]

    def submit(self) -> None:
        tile = self.constants
        self.queue.launch(self.to_pixels, (tile["PAIRS"],), (1,), self.x, self.pixels)
        self.queue.launch(self.to_factors, (tile["TILES_I"],), (1,), self.weight, self.factors)
        self.queue.launch(self.kernel, self.size, self.group, self.pixels, self.factors, self.bias, self.out)
