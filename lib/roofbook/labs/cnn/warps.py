"""Steps on the tensor cores of any NVIDIA GPU since Ampere, in both languages: warps.k, with its products in PTX."""

from collections.abc import Mapping
from typing import Any

from ...devices.contract import Device
from ...spec.kernel_run import Converting, ceil_div, require_ptx
from ...spec.plan import Case, Variant
from .plans import Convolution, layer, operand_bytes

PARTS = {"SPLIT": 2}
"""Number of parts of an operand, by the knob OPERANDS; 1 otherwise."""
BYTES = {"TF32": 4}
"""Bytes of a part of an operand, by the knob OPERANDS; 2 otherwise."""


class Warps(Converting, Convolution):
    """The layer by warps' products. Option `prepared`: operands are laid out once, not in each call."""

    kernel_name = "tensor"

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return "not on this case: filters larger than 5x5" if layer(case).kernel > 5 else None

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; a call that lays out the operands reads them, and writes them in their parts, besides."""
        knob, operands = variant.text.settings["OPERANDS"], operand_bytes(layer(case))
        laid_out = operands * PARTS.get(str(knob), 1) * BYTES.get(str(knob), 2) // 4
        return least - operands + (laid_out if variant.options.get("prepared") else operands + 2 * laid_out)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_ptx(device, 80)
        super().__init__(device, variant, case, inputs)
        tile = self.constants
        pixels = 2 * tile["CHUNKS"] * self.layer.x_shape[1] * self.layer.x_shape[2]
        steps = tile["TILES_I"] * tile["STEPS"]
        self.to_pixels, self.to_fragments = self.program.kernel("to_pixels"), self.program.kernel("to_fragments")
        self.pixel_size, self.fragment_size = (
            (256 * ceil_div(values, 256),) for values in (pixels, steps * tile["STEP"])
        )
        self.pixels = device.empty(16 * tile["PARTS"] * pixels)
        self.fragments = device.empty(16 * steps * tile["STEP"])
        self.buffers += [self.pixels, self.fragments]

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        self.group = (self.items,)
        return (self.items * tile["TILES_I"] * tile["TILES_W"] * tile["TILES_H"],)

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixel_size, (256,), self.x, self.pixels)
        self.queue.launch(self.to_fragments, self.fragment_size, (256,), self.weight, self.fragments)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.fragments, self.pixels, self.bias, self.out)
