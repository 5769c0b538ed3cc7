"""The step for CPUs with AMX: amx.k, with every product in tiles of bytes."""

from collections.abc import Mapping
from typing import Any

from ...devices.contract import Device
from ...spec.kernel_run import Converting, require_instructions
from ...spec.plan import Case, Variant
from .plans import Convolution, bytes_of_int8, must_fit_a_byte


class Amx(Converting, Convolution):
    """The dense layer by tiles of filters and pixels. Option `prepared`: operands are laid out once, not in each call."""

    kernel_name = "amx"
    group = (1, 1)
    traffic = staticmethod(bytes_of_int8)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, "amx-int8")
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        sizes = self.constants
        self.rows = self.layer.size + self.layer.kernel - 1
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        self.pixels = device.empty(4 * sizes["BLOCKS"] * self.rows * sizes["TILE"] * sizes["PITCH"])
        self.taps = device.empty(4 * sizes["TILES_I"] * sizes["BLOCKS"] * sizes["TAPS_2"] * sizes["TILE"] ** 2)
        self.buffers += [self.pixels, self.taps]

    def lay_out(self) -> tuple[int, ...]:
        return self.constants["PLACES"], self.constants["TILES_I"] // 2

    def convert(self) -> None:
        blocks = self.constants["BLOCKS"]
        self.queue.launch(self.to_pixels, (blocks, self.rows), (1, 1), self.x, self.pixels)
        self.queue.launch(self.to_taps, (self.constants["TILES_I"], blocks), (1, 1), self.weight, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.pixels, self.taps, self.out)
