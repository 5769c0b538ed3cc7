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
TALL, LOW = 32, 16
"""Rows of outputs of a tile."""
PAIR = 2
"""Blocks of a cluster that has a place wherever two multiprocessors are free."""
FULL = 0.9
"""Share of the multiprocessors that are busy when the chip counts as full."""


class Parts(OperandTiles):
    """Operands laid out for plain copies, then one kernel in clusters of PARTS x SHARING blocks.

    TILE_H and PARTS follow from the layer. Tiles are TALL if clusters of PAIR blocks then fill the chip, and else LOW: a
    product on a tall tile reads its weights for more outputs. PARTS is the most blocks a tile of which all tiles' blocks have a
    multiprocessor each, and of which each has LEAST_STEPS steps or more.

    Tall tiles in larger clusters would leave multiprocessors idle: each block takes nearly all the shared memory of one, and
    an H200 does not hold enough such clusters of four to fill it. Where filters are so large that boxes of tall tiles leave no
    room for the weights of LEAST_STEPS steps, tiles are LOW.
    """

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        self.group = (self.items(), 1)
        return self.group[0] * tile["CLUSTER"] * ceil_div(tile["TILES"], tile["SHARING"]), self.tiles_of_filters()

    @cached_property
    def constants(self) -> Constants:
        return constants(self.variant.text.with_knobs(**self.sizes(), **self.turned()))

    def turned(self) -> dict[str, Any]:
        return self.tile_and_parts

    @cached_property
    def tile_and_parts(self) -> dict[str, int]:
        """Knobs TILE_H and PARTS."""
        tile, units = constants(self.variant.text.with_knobs(**self.sizes())), self.device.compute_units
        most = max(1, min(MOST_BLOCKS // tile["SHARING"], tile["STEPS"] // LEAST_STEPS))
        pair = max(1, min(most, PAIR // tile["SHARING"]))
        fit = constants(self.variant.text.with_knobs(**self.sizes(), TILE_H=TALL, PARTS=pair))["TILES_THAT_FIT"]
        height = TALL if fit >= LEAST_STEPS and self.whole_tiles(TALL) * pair >= FULL * units else LOW
        most = max(1, min(most, units // self.whole_tiles(height)))
        return {"TILE_H": height, "PARTS": max(parts for parts in (1, 2, 4, 8) if parts <= most)}

    def whole_tiles(self, height: int) -> int:
        """Return the number of blocks if each has a tile of `height` rows to itself."""
        tile = constants(self.variant.text.with_knobs(**self.sizes(), TILE_H=height))
        sharing = tile["SHARING"]
        return ceil_div(tile["TILES"], sharing) * sharing * ceil_div(self.layer.filters, tile["TILE_I"])

    def pixels_layout(self) -> tuple[int, int, int]:
        tile = self.constants
        return (
            tile["SLICES"] * tile["TILES"] * tile["BOX_BYTES"],
            tile["TILES"] * tile["COLUMN_BLOCKS"],
            tile["BOX_H"],
        )

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.taps, self.pixels, self.out)
