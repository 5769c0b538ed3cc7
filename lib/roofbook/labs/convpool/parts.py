"""Plan of the steps in which blocks of a cluster share the products of a tile, and its weights."""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from ...devices.contract import Device
from ...spec.kernel_constants import Constants, constants
from ...spec.kernel_run import Converting, ceil_div
from ...spec.plan import Case, Variant
from .plans import Convolution, bytes_of_int8, filters_too_large, must_fit_a_byte

MOST_BLOCKS = 8
"""Blocks of a cluster that every Hopper GPU accepts."""
LEAST_STEPS = 4
"""Steps of a part. The products of four steps take as long as the exchange of the sums."""


class Parts(Converting, Convolution):
    """Operands laid out for plain copies, then one kernel in clusters of PARTS x SHARING blocks. Operands are `prepared`.

    PARTS follows from the layer: the most blocks a tile of which all tiles' blocks have a multiprocessor each, and of which
    each has LEAST_STEPS steps or more.
    """

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
        self.pixels = device.empty(tile["SLICES"] * tile["TILES"] * tile["BOX_BYTES"])
        self.taps = device.empty(tile["STEPS"] * filters * tile["SLICE"])
        self.buffers += [self.pixels, self.taps]
        self.pixels_group, self.taps_group = (self.items("to_pixels"), 1, 1), (self.items("to_taps"), 1)
        blocks = tile["TILES"] * tile["COLUMN_BLOCKS"]
        self.pixels_size = self.pixels_group[0] * blocks, tile["BOX_H"], tile["SLICES"]
        self.taps_size = self.taps_group[0] * filters, tile["SLICES"]
        self.kernel.configure(dynamic_local_bytes=tile["SHARED_BYTES"] + tile["SWIZZLE_BLOCK"])

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        self.group = (self.items(), 1)
        return self.group[0] * tile["CLUSTER"] * ceil_div(tile["TILES"], tile["SHARING"]), self.tiles_of_filters()

    @cached_property
    def constants(self) -> Constants:
        return constants(self.variant.text.with_knobs(**self.sizes(), **self.turned()))

    def turned(self) -> dict[str, Any]:
        return {"PARTS": self.blocks_of_tile}

    @cached_property
    def blocks_of_tile(self) -> int:
        """Number of blocks that share the steps of a tile."""
        tile = constants(self.variant.text.with_knobs(**self.sizes()))
        blocks = (
            ceil_div(tile["TILES"], tile["SHARING"]) * tile["SHARING"] * ceil_div(self.layer.filters, tile["TILE_I"])
        )
        most = min(self.device.compute_units // blocks, MOST_BLOCKS // tile["SHARING"], tile["STEPS"] // LEAST_STEPS)
        return max(parts for parts in (1, 2, 4, 8) if parts <= max(1, most))

    def tiles_of_filters(self) -> int:
        """Return the number of tiles of filters."""
        return ceil_div(self.layer.filters, self.constants["TILE_I"])

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixels_size, self.pixels_group, self.x, self.pixels)
        self.queue.launch(self.to_taps, self.taps_size, self.taps_group, self.weight, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.taps, self.pixels, self.out)
