"""The plan whose blocks keep their rows on the chip for all steps (persistent.cu)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device, Unsupported
from ...spec.plan import Case, Variant
from ...spec.source import Source
from .grid import cells, indexed_sums
from .plans import HERE, KeptPartials

CROSSING = 6
"""Number of populations of a column that cross the sides of its block, upwards and downwards."""


class Persistent(KeptPartials):
    """One launch for all steps: each block keeps its rows, and flags show its neighbours the number of its steps."""

    grids_needed = 1
    blocks_at_most = 128
    """Largest number of blocks: fewer than these GPUs have multiprocessors, so that all run at once."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes that neighbouring blocks exchange in a step."""
        if not (rows := rows_of_case(case)):
            return least
        word = 8 if variant.text.settings["EXCHANGE"] == "TAGS" else 4
        return float(2 * CROSSING * word * cells(case) // rows)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        if rows_of_case(case):
            return None
        return "not on this case: the grid does not fit the registers of one block per multiprocessor"

    @classmethod
    def run_options(cls, case: Case, device: Device) -> Mapping[str, Any] | None:
        """Return the options; None if blocks would wait for others that do not run."""
        at_once = case.params["ny"] // rows_of_case(case) <= device.compute_units
        return indexed_sums(case, device) if at_once else None

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.persistent = self.program.kernel("persistent")
        self.persistent.configure(cooperative=True)
        self.flags = device.upload(np.zeros(self.blocks, np.int32))
        self.halo = device.upload(np.zeros(2 * 6 * self.blocks * self.params.nx, np.int64))
        self.done = 0

    def knobs(self) -> dict[str, Any]:
        rows = rows_of_a_block(self.params.nx, self.params.ny, self.blocks_at_most)
        if not rows:
            raise Unsupported(
                f"{self.params.nx}x{self.params.ny} does not fit {self.blocks_at_most} blocks of 640 cells"
            )
        return {"NX": self.params.nx, "ROWS": rows}

    def lay_out(self) -> None:
        rows: int = self.knobs()["ROWS"]
        self.blocks = self.params.ny // rows
        self.local = (self.params.nx, rows)
        self.size = (self.params.nx * self.blocks, rows)
        self.groups = self.params.nx * self.params.ny // 32
        self.group_size = 64

    def accelerator(self) -> Source:
        return Source.of(HERE / "in_place.k", LAYOUT="SOA", COUNT_CELLS=0, PARTIALS="KEPT", SOLID="char")

    def kernel_names(self) -> tuple[str, ...]:
        return ("persistent",)

    def main_kernel(self) -> str:
        return "persistent"

    def submit(self) -> None:
        self.launch_accelerate(0)
        self.queue.launch(self.persistent, self.size, self.local, *self.grids[0].arguments, self.obstacles, self.sums,
                          self.halo, self.flags, np.int32(self.done), self.ny, np.int32(self.units), self.omega,
                          self.w1, self.w2)  # fmt: skip
        self.done += self.units + self.units % 2  # flags and tags only ever rise, so nothing is cleared between runs
        self.add_up(0, self.units)

    def run(self) -> None:
        super().run()
        self.now = 0


def rows_of_a_block(nx: int, ny: int, blocks: int) -> int:
    """Return the fewest rows with which the grid fits `blocks` blocks of at most 640 cells (48 KiB shared); 0 if it does not.

    There are two rows at least: a thread then waits for one neighbour, not for two in turn.
    """
    fits = (rows for rows in range(2, ny + 1) if ny % rows == 0 and ny // rows <= blocks and nx * rows <= 640)
    return next(fits, 0) if nx % 32 == 0 else 0


def rows_of_case(case: Case) -> int:
    """Return the rows of a block of Persistent; 0 if the grid does not fit."""
    return rows_of_a_block(case.params["nx"], case.params["ny"], Persistent.blocks_at_most)
