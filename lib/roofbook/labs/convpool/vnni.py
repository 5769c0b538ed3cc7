"""Steps for CPUs with AVX-512 VNNI: vnni.k with every product, vnni_lists.k with lists of non-zero weights."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_constants import constants
from ...spec.kernel_run import Converting, ceil_div, require_instructions
from ...spec.plan import Case, Variant
from .plans import Convolution, bytes_of_int8, layer, must_fit_a_byte, nonzero_weights

NEAREST = 16 << 10
"""Bytes of planes that must stay in the nearest cache with sums and lists: half of 32 KiB, or a third of 48."""
ITEMS = 8
"""Least number of work-items a core, so that their shares are even."""


class Vnni(Converting, Convolution):
    """The dense layer by tiles of filters and pixels. Option `prepared`: operands are laid out once, not in each call."""

    kernel_name = "vnni"
    group = (1, 1)
    traffic = staticmethod(bytes_of_int8)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, "vnni")
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        tile = self.constants
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        filters = tile["TILES_I"] * tile["TILE_I"]
        self.pixels, self.starts = device.upload(np.zeros(tile["WORDS"], np.int32)), device.empty(4 * filters)
        self.taps = device.empty(4 * filters * tile["QUADS"] * tile["TAPS_2"])
        self.buffers += [self.pixels, self.starts, self.taps]

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        return tile["TILES_I"], tile["TILES_H"] * tile["TILES_W"]

    def convert(self) -> None:
        tile = self.constants
        self.queue.launch(self.to_pixels, (tile["QUADS"],), (1,), self.x, self.pixels)
        self.queue.launch(self.to_taps, (tile["TILES_I"],), (1,), self.weight, self.taps, self.starts)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.pixels, self.taps, self.starts, self.out)


class VnniLists(Converting, Convolution):
    """The layer by lists, four entries at a time. Option `prepared`: bytes and lists are made once, not in each call."""

    kernel_name = "vnni_lists"
    group = (1,)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; the input as bytes, and five bytes a non-zero weight, are written unless `prepared`, and read."""
        one, entries = layer(case), 5 * nonzero_weights(case)
        as_bytes, out = one.depth * one.size**2, 4 * one.filters * (one.size // 2) ** 2
        return as_bytes + entries + out if variant.options.get("prepared") else least + 2 * (as_bytes + entries)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        require_instructions(device, "vnni")
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        one, sizes = self.layer, constants(self.source)
        self.to_planes, self.build = self.program.kernel("to_planes"), self.program.kernel("build")
        self.planes = device.upload(np.zeros(sizes["PARTS"] * one.depth * sizes["PLANE"], np.uint8))
        self.places, self.values = (
            device.empty(4 * one.filters * sizes["ROOM"]),
            device.empty(one.filters * sizes["ROOM"]),
        )
        self.ends, self.starts = device.empty(4 * one.filters * sizes["CHUNKS"]), device.empty(4 * one.filters)
        self.maps = device.empty(4 * one.filters * sizes["MAP"])
        self.buffers += [self.planes, self.places, self.values, self.ends, self.starts, self.maps]

    def lay_out(self) -> tuple[int, ...]:
        one, knobs = self.layer, self.variant.text.settings
        cores = self.device.compute_units
        self.together = min(int(knobs["TOGETHER"]), max(1, one.filters // (ITEMS * cores)))
        row = one.size + one.kernel - 1
        self.vectors = min(int(knobs["VECTORS"]), ceil_div(one.size * row - one.kernel + 1, 64))
        turns = ceil_div(one.depth, max(1, NEAREST // (64 * self.vectors + (one.kernel - 1) * (row + 1))))
        self.chunk = 4 * ceil_div(one.depth, 4 * turns)
        return (ceil_div(one.filters, self.together),)

    def turned(self) -> dict[str, Any]:
        return {"TOGETHER": self.together, "CHUNK": self.chunk, "VECTORS": self.vectors}

    def convert(self) -> None:
        lists = self.places, self.values, self.ends, self.starts
        self.queue.launch(self.to_planes, (self.layer.depth,), (1,), self.x, self.planes)
        self.queue.launch(self.build, (self.layer.filters,), (1,), self.weight, *lists)

    def multiply(self) -> None:
        lists = self.places, self.values, self.ends, self.starts
        self.queue.launch(self.kernel, self.size, self.group, self.planes, *lists, self.maps, self.out)
