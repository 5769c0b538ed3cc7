"""Plan of the steps in which blocks of a cluster share the products of a tile, and its weights."""

from functools import cached_property
from typing import Any

from ...spec.kernel_constants import Constants, constants
from ...spec.kernel_run import ceil_div
from .tensor import OperandTiles

MOST_BLOCKS = 8
"""Blocks of a cluster that every Hopper GPU accepts."""
LEAST_STEPS = 4
"""Steps of a part. The products of four steps take as long as the exchange of the sums."""


class Parts(OperandTiles):
    """Operands laid out for plain copies, then one kernel in clusters of PARTS x SHARING blocks.

    PARTS follows from the layer: the most blocks a tile of which all tiles' blocks have a multiprocessor each, and of which
    each has LEAST_STEPS steps or more.
    """

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

    def pixels_layout(self) -> tuple[int, int, int]:
        tile = self.constants
        return (
            tile["SLICES"] * tile["TILES"] * tile["BOX_BYTES"],
            tile["TILES"] * tile["COLUMN_BLOCKS"],
            tile["BOX_H"],
        )

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.taps, self.pixels, self.out)
