"""The tensor-core steps: lay out the operands for TMA, whose maps the driver encodes, then multiply."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...devices.hopper import COMPILER_OPTIONS, tensor_map
from ...spec.kernel_run import Converting, ceil_div
from ...spec.plan import Case, Variant
from .plans import Convolution, layer, operand_bytes, too_large_for_a_box


class Tensor(Converting, Convolution):
    """The layer on Hopper's tensor cores. Option `prepared`: operands are converted once, not in each call."""

    kernel_name = "tensor"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; operands are multiplied in one part of two bytes or two, which a call that lays them out writes."""
        operands = operand_bytes(layer(case))
        laid_out = operands * ((int(variant.text.settings.get("PRODUCTS", 1)) + 1) // 2) // 2
        return least - operands + (laid_out if variant.options.get("prepared") else operands + 2 * laid_out)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        layer, tile = self.layer, self.constants
        parts, depth = tile["PARTS"], tile["DEPTH"]
        rows, columns = layer.x_shape[1:]
        taps, channels, filters = layer.kernel**2, tile["PADDED_CHANNELS"], tile["PADDED_FILTERS"]
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        self.pixels = device.empty(2 * parts * rows * columns * channels)
        self.taps = device.empty(2 * parts * taps * filters * channels)
        half = str(self.source.settings["ELEMENT"]) == "f16"
        maps = (
            tensor_map(self.taps, (channels, filters, parts * taps), (depth, self.filters_fetched(), 1), half),
            self.pixel_map_of((channels, columns, rows, parts), half),
        )
        self.weight_map, self.pixel_map = (device.upload(np.frombuffer(encoded, np.uint8)) for encoded in maps)
        self.buffers += [self.pixels, self.taps, self.weight_map, self.pixel_map]
        self.pixel_size = (256 * ceil_div(columns, 32), rows, channels // depth)
        self.tap_size = (256 * filters, channels // depth)
        self.kernel.configure(dynamic_local_bytes=self.stages() + 1024)

    def filters_fetched(self) -> int:
        """Return the number of filters whose weights a block fetches at once."""
        return self.constants["TILE_I"] // self.constants["WEIGHT_SHARE"]

    def pixel_map_of(self, sizes: tuple[int, int, int, int], half: bool) -> bytes:
        """Encode the map of the pixels (channels, columns, rows, parts), with the box that a block fetches at once."""
        tile = self.constants
        box = (tile["DEPTH"], tile["TILE_W"], tile["TILE_H"] // tile["PIXEL_SHARE"], 1)
        return tensor_map(self.pixels, sizes, box, half)

    def stages(self) -> int:
        """Return the bytes of shared memory for fetched operands."""
        return self.constants["STAGES"] * self.constants["STAGE_BYTES"]

    def lay_out(self) -> tuple[int, ...]:
        layer, tile, items = self.layer, self.constants, self.items
        self.group, down = (items, 1, 1), max(1, tile["BLOCKS"] // 2)
        filters = tile["PADDED_FILTERS"] // tile["TILE_I"]
        return (
            items * filters,
            ceil_div(layer.width, tile["TILE_W"]),
            down * ceil_div(layer.height, down * tile["TILE_H"]),
        )

    def build_options(self) -> tuple[str, ...]:
        return COMPILER_OPTIONS

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixel_size, (256, 1, 1), self.x, self.pixels)
        self.queue.launch(self.to_taps, self.tap_size, (256, 1), self.weight, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.weight_map, self.pixel_map, self.bias, self.out)


class Columns(Tensor):
    """Fetches pixels for a column of taps at once. Option `persistent`: at most as many clusters as the device holds."""

    def filters_fetched(self) -> int:
        return self.constants["TILE_I"] // 2

    def pixel_map_of(self, sizes: tuple[int, int, int, int], half: bool) -> bytes:
        tile = self.constants
        return tensor_map(
            self.pixels, sizes, (tile["DEPTH"], tile["TILE_W"], tile["TILE_H"] + self.layer.kernel - 1, 1), half
        )

    def stages(self) -> int:
        return self.constants["STAGES_BYTES"]

    def lay_out(self) -> tuple[int, ...]:
        self.group = (self.items,)
        return (2 * self.items * self.clusters(bool(self.variant.options.get("persistent"))),)


class Window(Columns):
    """Fetches pixels for all taps at once, column by column."""

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return too_large_for_a_box(layer(case), 11)

    def pixel_map_of(self, sizes: tuple[int, int, int, int], half: bool) -> bytes:
        channels, columns, rows, _ = sizes
        tile, halo = self.constants, self.layer.kernel - 1
        box = tile["DEPTH"], tile["TILE_H"] + halo, tile["TILE_W"] + halo
        strides = 2 * channels * columns, 2 * channels
        return tensor_map(self.pixels, (channels, rows, columns), box, half, strides)
