"""The step for CPUs with AMX: products of tiles of bf16 (amx_bf16.k)."""

from collections.abc import Mapping
from typing import Any

from ...devices.contract import Device
from ...spec.kernel_run import require_instructions
from ...spec.plan import Case, Variant
from .plans import Convolution, layer, operand_bytes


class AmxBf16(Convolution):
    """Operands are rounded to bf16 by two launches, and multiplied by a third; all are timed."""

    kernel_name = "amx_bf16"
    group = (1, 1)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; operands in bf16 are written and read as well."""
        return least + operand_bytes(layer(case))

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, "amx-bf16")
        super().__init__(device, variant, case, inputs)
        sizes = self.constants
        self.to_pixels, self.to_factors = self.program.kernel("to_pixels"), self.program.kernel("to_factors")
        self.pixels = device.empty(4 * sizes["BLOCKS"] * sizes["ROWS"] * sizes["TILE"] * sizes["PITCH"])
        self.factors = device.empty(4 * sizes["TILES_I"] * sizes["BLOCKS"] * sizes["TAPS_2"] * sizes["TILE"] ** 2)
        self.buffers += [self.pixels, self.factors]

    def lay_out(self) -> tuple[int, ...]:
        return self.constants["PLACES"], self.constants["TILES_I"] // 2

    def submit(self) -> None:
        sizes = self.constants
        self.queue.launch(self.to_pixels, (sizes["BLOCKS"], sizes["ROWS"]), (1, 1), self.x, self.pixels)
        self.queue.launch(self.to_factors, (sizes["TILES_I"], sizes["BLOCKS"]), (1, 1), self.weight, self.factors)
        self.queue.launch(self.kernel, self.size, self.group, self.pixels, self.factors, self.bias, self.out)
