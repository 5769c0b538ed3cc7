"""The steps with Hopper's own tensor instructions: operands laid out for TMA, then one kernel in clusters."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device
from ...devices.hopper import tensor_map
from ...spec.kernel_run import Converting, ceil_div
from ...spec.lab import Case, Variant
from .plans import Convolution, bytes_of_int8, must_fit_a_byte

TILE_I, SLICE = 64, 128
SHARED_BYTES = 230400
"""Filters of a block, channels of a slice, and a block's bytes of shared memory: constants of the kernels."""


class Boxes(Converting, Convolution):
    """Base of these steps: a block uses one box of the input for all taps. Operands are `prepared`."""

    kernel_name = "tensor"
    height: int
    """Number of rows of outputs that a block computes."""
    width = 8

    traffic = staticmethod(bytes_of_int8)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        one = self.layer
        side, self.slices, self.taps_2 = one.size + one.kernel - 1, ceil_div(one.depth, SLICE), one.kernel**2
        self.filters = TILE_I * ceil_div(one.filters, TILE_I)
        self.pixels = device.empty(side**2 * self.slices * SLICE)
        self.taps = device.empty(self.taps_2 * self.filters * self.slices * SLICE)
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        self.pixels_size, self.taps_size = (
            (256 * ceil_div(side, 32), side, self.slices),
            (128 * self.filters, self.slices),
        )
        box = (SLICE // 2, self.width + one.kernel - 1, self.height + one.kernel - 1)
        self.pixel_map = self.map(self.pixels, (side, side), box)
        self.buffers += [self.pixels, self.taps]
        self.weights = self.weight_argument()
        self.kernel.configure(dynamic_local_bytes=SHARED_BYTES + 1024)

    @abstractmethod
    def weight_argument(self) -> Buffer:
        """Return the kernel's argument for the weights: TMA's map, or the buffer."""

    def map(self, buffer: Buffer, sizes: tuple[int, int], box: tuple[int, int, int]) -> Buffer:
        """Encode TMA's map of channels by `sizes`, with the box that it fetches. To TMA two channels are one value."""
        described = tensor_map(buffer, (self.slices * SLICE // 2, *sizes), box, True)
        self.buffers.append(on_device := self.device.upload(np.frombuffer(described, np.uint8)))
        return on_device

    def tiles(self) -> int:
        """Return the number of tiles of a map, one a block."""
        return ceil_div(self.layer.size, self.width) * ceil_div(self.layer.size, self.height)

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixels_size, (256, 1, 1), self.x, self.pixels)
        self.queue.launch(self.to_taps, self.taps_size, (128, 1), self.weight, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.weights, self.pixel_map, self.out)


class Window(Boxes):
    """Clusters of eight blocks, which share the same filters."""

    group = (192, 1)
    height = 8

    def lay_out(self) -> tuple[int, ...]:
        return 192 * 8 * ceil_div(self.tiles(), 8), ceil_div(self.layer.filters, TILE_I)

    def weight_argument(self) -> Buffer:
        return self.map(self.taps, (self.filters, self.taps_2), (SLICE // 2, TILE_I, 1))


class SplitK(Boxes):
    """Clusters of two blocks, each of which computes half of the products."""

    group = (160, 1)
    height = 16

    def lay_out(self) -> tuple[int, ...]:
        return 160 * 2 * self.tiles(), ceil_div(self.layer.filters, TILE_I)

    def weight_argument(self) -> Buffer:
        return self.taps
