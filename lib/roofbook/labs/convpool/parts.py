"""Plan of the steps in which blocks of a cluster share the products of a tile, and its weights."""

from functools import cached_property
from typing import Any

from ...spec.kernel_constants import Constants, constants
from ...spec.kernel_run import ceil_div
from .tensor import OperandTiles

MOST_BLOCKS = 8
"""Blocks of a cluster that every Hopper GPU accepts."""
LEAST_STEPS = 4
"""Fewest steps of a part. The products of four steps take as long as the exchange of the sums."""
TALL, LOW = (32, 16), 8
"""Rows of outputs in a tile: in tall tiles, the tallest first, and in low ones."""
PAIR = 2
"""Blocks of the largest cluster that fits wherever two multiprocessors are free."""
FULL = 0.9
"""Share of busy multiprocessors from which on the chip counts as full."""


class Parts(OperandTiles):
    """Operands laid out for plain copies, then one kernel in clusters of PARTS x SHARING blocks.

    The layer decides TILE_H and PARTS. Tiles are TALL if clusters of PAIR blocks then fill the chip: a product on a taller tile
    reads its weights for more outputs. Otherwise they are LOW, so that there are more of them. PARTS is the number of blocks
    that share a tile. It is as large as possible, while each block still has a multiprocessor to itself, and LEAST_STEPS steps.

    Tall tiles have no larger clusters, since these may leave multiprocessors idle. If each block takes nearly all the shared
    memory of one, an H200 does not hold enough clusters of four to fill it. Nor are tiles TALL if their boxes leave no room for
    the weights of LEAST_STEPS steps.
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
        """Values of the knobs TILE_H and PARTS on this layer."""
        height = next((height for height in TALL if self.pairs_fill(height)), LOW)
        most = self.device.compute_units // self.whole_tiles(height)
        return {"TILE_H": height, "PARTS": self.most_parts(height, most)}

    def pairs_fill(self, height: int) -> bool:
        """Return whether tiles of `height` rows fill the chip in clusters of PAIR blocks, with room for weights and boxes."""
        sharing = self.of_height(height)["SHARING"]
        parts = self.most_parts(height, PAIR // sharing)
        fits = self.of_height(height, PARTS=parts)["STAGES_THAT_FIT"] >= LEAST_STEPS
        return fits and self.whole_tiles(height) * parts >= FULL * self.device.compute_units

    def most_parts(self, height: int, most: int) -> int:
        """Return the largest number of parts that a tile of `height` rows can have, at most `most`."""
        tile = self.of_height(height)
        most = min(most, MOST_BLOCKS // tile["SHARING"], tile["STEPS"] // LEAST_STEPS, tile["MOST_PARTS"])
        return max(parts for parts in (1, 2, 4, 8) if parts <= max(1, most))

    def whole_tiles(self, height: int) -> int:
        """Return the number of blocks if each has a tile of `height` rows to itself."""
        tile = self.of_height(height)
        sharing = tile["SHARING"]
        return ceil_div(tile["TILES"], sharing) * sharing * ceil_div(self.layer.filters, tile["TILE_I"])

    def of_height(self, height: int, **knobs: int) -> Constants:
        """Return the constants of the kernel's text with tiles of `height` rows."""
        return constants(self.variant.text.with_knobs(**self.sizes(), TILE_H=height, **knobs))

    def pixels_layout(self) -> tuple[int, int, int]:
        tile = self.constants
        return (
            tile["SLICES"] * tile["TILES"] * tile["BOX_BYTES"],
            tile["TILES"] * tile["COLUMN_BLOCKS"],
            tile["BOX_H"],
        )

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.taps, self.pixels, self.out)
