"""The animation of the network's first layers, with the sizes of their kernel."""

from ...report.animations.staging import staging
from ...spec.kernel_constants import constants
from . import ladder

_SIZES = constants(ladder.TILED_HALO)
ANIMATIONS = {
    "tiled-halo": staging(
        rows=_SIZES["SIDE"],
        columns=_SIZES["SIDE"],
        taps=_SIZES["TAPS"],
        filters=1,
        work_items=(_SIZES["TILE_WIDTH"] + _SIZES["TAPS"] - 1) ** 2,
        plane="each channel",
        last_stage="Sums stay in registers, and each output is written once. The tiles of all channels were copied before.",
    ),
}
