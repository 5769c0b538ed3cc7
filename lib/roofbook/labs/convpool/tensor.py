"""Plans of the steps with Hopper's own tensor instructions: operands laid out for TMA, then one kernel in clusters."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device
from ...devices.hopper import tensor_map
from ...spec.kernel_run import Converting, ceil_div
from ...spec.plan import Case, Variant
from .plans import Convolution, bytes_of_int8, filters_too_large, must_fit_a_byte


class OperandTiles(Converting, Convolution):
    """Base of plans with two kernels that lay the operands out for copies to shared memory. Operands are `prepared`."""

    kernel_name = "tensor"
    traffic = staticmethod(bytes_of_int8)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return filters_too_large(case)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        tile, filters = self.constants, self.tiles_of_filters() * self.constants["TILE_I"]
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        pixels_bytes, blocks, rows = self.pixels_layout()
        self.pixels = device.empty(pixels_bytes)
        self.taps = device.empty(tile["STEPS"] * filters * tile["SLICE"])
        self.buffers += [self.pixels, self.taps]
        self.pixels_group, self.taps_group = (self.items("to_pixels"), 1, 1), (self.items("to_taps"), 1)
        self.pixels_size = self.pixels_group[0] * blocks, rows, tile["SLICES"]
        self.taps_size = self.taps_group[0] * filters, tile["SLICES"]
        self.kernel.configure(dynamic_local_bytes=tile["SHARED_BYTES"] + tile["SWIZZLE_BLOCK"])

    @abstractmethod
    def pixels_layout(self) -> tuple[int, int, int]:
        """Return the bytes of the input as laid out, and the columns and rows of blocks that lay out a slice of channels."""

    def tiles_of_filters(self) -> int:
        """Return the number of tiles of filters."""
        return ceil_div(self.layer.filters, self.constants["TILE_I"])

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixels_size, self.pixels_group, self.x, self.pixels)
        self.queue.launch(self.to_taps, self.taps_size, self.taps_group, self.weight, self.taps)


class Boxes(OperandTiles):
    """Base of the plans in which TMA fetches boxes of pixels by a map of the tensor. A block uses a box for all taps."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        side, border = self.padded_side(), self.layer.kernel - 1
        height, width = self.tile_sides()
        box = self.constants["SLICE"] // 2, width + border, height + border
        self.pixel_map = self.map(self.pixels, (side, side), box)
        self.weights = self.weight_argument()

    def padded_side(self) -> int:
        """Return the side of a map with its border."""
        return self.layer.size + self.layer.kernel - 1

    def pixels_layout(self) -> tuple[int, int, int]:
        side = self.padded_side()
        return side**2 * self.constants["SLICES"] * self.constants["SLICE"], ceil_div(side, 32), side

    @abstractmethod
    def tile_sides(self) -> tuple[int, int]:
        """Return the rows and columns of outputs that a block computes."""

    @abstractmethod
    def weight_argument(self) -> Buffer:
        """Return the kernel's argument for the weights: TMA's map, or the buffer."""

    def map(self, buffer: Buffer, sizes: tuple[int, int], box: tuple[int, int, int]) -> Buffer:
        """Encode TMA's map of channels by `sizes`, with the box that it fetches. To TMA two channels are one value."""
        described = tensor_map(buffer, (self.constants["SLICES"] * self.constants["SLICE"] // 2, *sizes), box, True)
        self.buffers.append(on_device := self.device.upload(np.frombuffer(described, np.uint8)))
        return on_device

    def tiles(self) -> int:
        """Return the number of tiles of a map, one a block."""
        height, width = self.tile_sides()
        return ceil_div(self.layer.size, width) * ceil_div(self.layer.size, height)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.weights, self.pixel_map, self.out)


class Window(Boxes):
    """Clusters of eight blocks, which share the same filters."""

    def lay_out(self) -> tuple[int, ...]:
        self.group, blocks = (self.items(), 1), self.constants["BLOCKS"]
        return self.group[0] * blocks * ceil_div(self.tiles(), blocks), self.tiles_of_filters()

    def tile_sides(self) -> tuple[int, int]:
        return self.constants["TILE"], self.constants["TILE"]

    def weight_argument(self) -> Buffer:
        tile = self.constants
        return self.map(self.taps, (tile["PADDED_FILTERS"], tile["TAPS_2"]), (tile["SLICE"] // 2, tile["TILE_I"], 1))


class SplitK(Boxes):
    """Clusters of two blocks, each of which computes half of the products."""

    def lay_out(self) -> tuple[int, ...]:
        self.group = (self.items(), 1)
        return self.group[0] * self.constants["HALVES"] * self.tiles(), self.tiles_of_filters()

    def tile_sides(self) -> tuple[int, int]:
        return self.constants["TILE_H"], self.constants["TILE_W"]

    def weight_argument(self) -> Buffer:
        return self.taps
