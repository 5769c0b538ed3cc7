"""The tensor-core steps: lay out the operands for TMA, whose maps the driver encodes, then multiply."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...devices.hopper import COMPILER_OPTIONS, tensor_map
from ...spec.kernel_run import Converting, ceil_div
from ...spec.lab import Case, Variant
from .plans import Convolution, layer, operand_bytes, too_large_for_a_box

DEPTH, TILE_I, TILE_H, TILE_W, STAGES = 64, 128, 8, 32, 4
"""Channels, filters, rows and columns of a block, and its stages of shared memory: the constants of tensor.cu."""


class Tensor(Converting, Convolution):
    """The layer on Hopper's tensor cores. Option `prepared`: operands are converted once, not in each call."""

    kernel_name = "tensor"
    group: tuple[int, ...] = (384, 1, 1)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; operands are multiplied in one part of two bytes or two, which a call that lays them out writes."""
        assert variant.source is not None
        operands = operand_bytes(layer(case))
        laid_out = operands * ((int(variant.source.settings.get("PRODUCTS", 1)) + 1) // 2) // 2
        return least - operands + (laid_out if variant.options.get("prepared") else operands + 2 * laid_out)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        layer, knobs = self.layer, self.source.settings
        parts = (int(knobs.get("PRODUCTS", 1)) + 1) // 2
        rows, columns = layer.x_shape[1:]
        taps, channels = layer.kernel**2, DEPTH * ceil_div(layer.channels, DEPTH)
        filters = 2 * TILE_I * ceil_div(layer.filters, 2 * TILE_I)
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        self.pixels = device.empty(2 * parts * rows * columns * channels)
        self.taps = device.empty(2 * parts * taps * filters * channels)
        half = str(knobs["ELEMENT"]) == "f16"
        maps = (
            tensor_map(self.taps, (channels, filters, parts * taps), (DEPTH, self.filters_fetched(), 1), half),
            self.pixel_map_of((channels, columns, rows, parts), half),
        )
        self.weight_map, self.pixel_map = (device.upload(np.frombuffer(encoded, np.uint8)) for encoded in maps)
        self.buffers += [self.pixels, self.taps, self.weight_map, self.pixel_map]
        self.pixel_size = (256 * ceil_div(columns, 32), rows, channels // DEPTH)
        self.tap_size = (256 * filters, channels // DEPTH)
        self.kernel.configure(dynamic_local_bytes=self.stages() + 1024)

    def blocks(self) -> int:
        """Return the number of blocks in a cluster."""
        assert self.variant.source is not None
        return int(self.variant.source.settings["BLOCKS"])

    def filters_fetched(self) -> int:
        """Return the number of filters whose weights a block fetches at once."""
        return TILE_I // (2 if self.blocks() > 2 else 1)

    def pixel_map_of(self, sizes: tuple[int, int, int, int], half: bool) -> bytes:
        """Encode the map of the pixels (channels, columns, rows, parts), with the box that a block fetches at once."""
        return tensor_map(self.pixels, sizes, (DEPTH, TILE_W, TILE_H // (2 if self.blocks() > 1 else 1), 1), half)

    def stages(self) -> int:
        """Return the bytes of shared memory for fetched operands."""
        return STAGES * 2 * DEPTH * (TILE_I + TILE_H * TILE_W)

    def lay_out(self) -> tuple[int, ...]:
        layer, down = self.layer, max(1, self.blocks() // 2)
        filters = 2 * ceil_div(layer.filters, 2 * TILE_I)
        return 384 * filters, ceil_div(layer.width, TILE_W), down * ceil_div(layer.height, down * TILE_H)

    def build_options(self) -> tuple[str, ...]:
        return COMPILER_OPTIONS

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixel_size, (256, 1, 1), self.x, self.pixels)
        self.queue.launch(self.to_taps, self.tap_size, (256, 1), self.weight, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.weight_map, self.pixel_map, self.bias, self.out)


class Columns(Tensor):
    """Fetches pixels for a column of taps at once. Option `persistent`: at most as many clusters as the device holds."""

    group = (384,)

    def filters_fetched(self) -> int:
        return TILE_I // 2

    def pixel_map_of(self, sizes: tuple[int, int, int, int], half: bool) -> bytes:
        return tensor_map(self.pixels, sizes, (DEPTH, TILE_W, TILE_H + self.layer.kernel - 1, 1), half)

    def stages(self) -> int:
        return 230400

    def lay_out(self) -> tuple[int, ...]:
        layer = self.layer
        tiles = (
            2 * ceil_div(layer.filters, 2 * TILE_I) * ceil_div(layer.width, TILE_W) * ceil_div(layer.height, 2 * TILE_H)
        )
        if self.variant.options.get("persistent"):
            tiles = min(tiles, self.device.compute_units // 2)
        return (384 * 2 * tiles,)


class Window(Columns):
    """Fetches pixels for all taps at once, column by column."""

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return too_large_for_a_box(layer(case), 11)

    def pixel_map_of(self, sizes: tuple[int, int, int, int], half: bool) -> bytes:
        channels, columns, rows, _ = sizes
        halo = self.layer.kernel - 1
        box, strides = (DEPTH, TILE_H + halo, TILE_W + halo), (2 * channels * columns, 2 * channels)
        return tensor_map(self.pixels, (channels, rows, columns), box, half, strides)
