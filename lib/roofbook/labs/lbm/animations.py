"""The animations of the lattice, with the sizes that its plans choose for a published case."""

from ...report.animations.halo import halo_exchange
from ...report.animations.on_chip import grid_on_chip
from ...spec import registry
from .ladder import LADDER
from .persistent import CROSSING, Persistent, rows_of_case
from .problem import WEIGHTS
from .slabs import LEAVING, TWO, shares

CELL_BYTES = 4 * len(WEIGHTS)
_STEPS = {variant.name: variant for variant in LADDER}
_CASES = {case.name: case for case in registry.get("lbm").cases("published")}
_SMALL, _LARGE = _CASES["128x128"], _CASES["1024x1024"]
_COLUMNS, _ROWS = _SMALL.params["nx"], rows_of_case(_SMALL)
_BLOCKS = _SMALL.params["ny"] // _ROWS
ANIMATIONS = {
    "persistent": grid_on_chip(
        rows=_SMALL.params["ny"],
        columns=_COLUMNS,
        cell_bytes=CELL_BYTES,
        blocks=_BLOCKS,
        threads=_COLUMNS * _ROWS,
        exchanged_bytes=int(Persistent.traffic(_SMALL, _STEPS["persistent"], 0)),
        steps=_SMALL.units,
    ),
    "tagged-halo": halo_exchange(
        part="block",
        count=_BLOCKS,
        rows=_ROWS,
        columns=_COLUMNS,
        leaving=CROSSING // 2,
        word_bytes=8,
        sending="A word has a number of 4 bytes, and the number of its time step.",
        arrival="It reads a word again until this step's number is in it: no barrier over the grid.",
    ),
    "halo-by-host": halo_exchange(
        part="device",
        count=TWO["devices"],
        rows=len(shares(_LARGE.params["ny"], TWO["devices"])[0]),
        columns=_LARGE.params["nx"],
        leaving=LEAVING,
        word_bytes=4,
        sending="The host fetches them and sends them on; later steps leave it out.",
        arrival="Then the device's next time step may begin.",
    ),
}
