"""Steps on the tensor cores of any NVIDIA GPU since Ampere, in both languages: warps.k, with its products in PTX."""

from collections.abc import Mapping
from typing import Any

from ...devices.contract import Device
from ...spec.kernel_run import Converting, ceil_div, require_ptx
from ...spec.plan import Case, Variant
from .plans import Convolution, bytes_of_int8, layer, must_fit_a_byte


class Warps(Converting, Convolution):
    """The layer by warps' products in int8. Option `prepared`: operands are laid out once, not in each call."""

    kernel_name = "tensor"
    traffic = staticmethod(bytes_of_int8)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return "not on this case: filters larger than 5x5" if layer(case).kernel > 5 else None

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_ptx(device, 80)
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        tile, side = self.constants, self.layer.size + self.layer.kernel - 1
        pixels, taps = 2 * tile["CHUNKS"] * side**2, tile["TILES_I"] * tile["CHUNKS"] * tile["TAPS_2"]
        self.to_pixels, self.to_fragments = self.program.kernel("to_pixels"), self.program.kernel("to_fragments")
        self.pixel_size, self.fragment_size = (
            (256 * ceil_div(values, 256),) for values in (pixels, taps * tile["STEP"])
        )
        self.pixels, self.fragments = (
            device.empty(16 * pixels),
            device.empty(16 * (taps + tile["AHEAD"]) * tile["STEP"]),
        )
        self.buffers += [self.pixels, self.fragments]

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        self.group = (tile["ITEMS"],)
        return (tile["ITEMS"] * tile["TILES_I"] * tile["TILES_W"] * tile["TILES_H"],)

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixel_size, (256,), self.x, self.pixels)
        self.queue.launch(self.to_fragments, self.fragment_size, (256,), self.weight, self.fragments)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.fragments, self.pixels, self.out)
