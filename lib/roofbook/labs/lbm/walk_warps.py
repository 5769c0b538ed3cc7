"""The pass of several time steps by single warps, for CUDA: a lane has two columns, neighbours trade by shuffles."""

from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device, Kernel
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.prediction import FEW_PERCENT, about
from ...spec.source import Source
from .on_chip import WARP, Strips

HERE = Path(__file__).parent
COLUMNS_OF_A_WARP = 2 * WARP
EDGE_PERCENT = 200
"""Pieces of the strips at the edges of the grid, in per cent of the other strips': turns with walls take longer."""


class WalkWarps(Strips):
    """Warps that walk down strips of 64 columns on their own and take each row several steps further."""

    kernel_name = "walk_warps"
    steps_of_a_pass = 6
    """Number of steps of a pass. Six need about 195 registers a lane."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least / cls.steps_of_a_pass

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        if case.params["nx"] % 2:
            return "not on this case: rows of an odd number of cells"
        least = cls.steps_of_a_pass + constants(variant.text)["DEEP"] - 1
        is_short = min(case.params["nx"], case.params["ny"]) < least
        return f"not on this case: a side is shorter than {least} cells" if is_short else None

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        """Return the steps of two passes at least, and of whole ones."""
        return max(2, ceil_div(case.units, cls.steps_of_a_pass)) * cls.steps_of_a_pass

    def ready(self, kernel: Kernel, steps: int) -> Kernel:
        return kernel

    def lay_out(self) -> None:
        """Cut the grid into strips of columns, and these into as many pieces of rows as there are warps at once."""
        steps = self.steps_of_a_pass
        self.most, self.group_size = min(self.units, steps), WARP
        self.own = COLUMNS_OF_A_WARP - 2 * (steps + steps % 2)
        self.strips, most_pieces = ceil_div(self.params.nx, self.own), ceil_div(self.params.ny, 8)
        edges, warps = min(2, self.strips), constants(self.variant.text)["WARPS"] * self.device.compute_units
        for self.pieces in range(most_pieces, 0, -1):
            self.edge_pieces = min(most_pieces, ceil_div(self.pieces * EDGE_PERCENT, 100))
            self.groups = edges * self.edge_pieces + (self.strips - edges) * self.pieces
            if self.groups <= warps:
                break
        self.local, self.size = (WARP,), (WARP * self.groups,)

    def knobs_for(self, steps: int) -> dict[str, Any]:
        return {
            "NX": self.params.nx, "NY": self.params.ny, "STEPS": steps, "OWN": self.own, "PIECES": self.pieces,
            "EDGE_PIECES": self.edge_pieces, "OMEGA": f"{float(self.params.omega)!r}f",
        }  # fmt: skip

    def submit(self) -> None:
        self.launch_accelerate(0)
        step, none = 0, np.float32(0)
        for number, (kernel, steps) in enumerate(self.passes):
            push = (none, none) if number + 1 == len(self.passes) else (self.w1, self.w2)
            self.queue.launch(kernel, self.size, self.local, *self.grids_of(number), self.obstacles, self.sums,
                              np.int32(step), self.w1, self.w2, *push)  # fmt: skip
            step += steps
        self.add_up(0, self.units)


class WalkShared(WalkWarps):
    """Warps that keep their older rows in shared memory, so that more warps run at once. A pass has one step more."""

    steps_of_a_pass = 7
    """Number of steps of a pass. Seven need about 160 registers a lane. A warp then owns 48 columns, whole sectors."""


WALK = Source.of(
    HERE / "walk_warps.cu", CONSTANTS="HOISTED", LAYOUT="SOA", GRID="ONE", SOLID="char", NX=128, NY=128, STEPS=6, OWN=52,
    PIECES=8, EDGE_PIECES=12, OMEGA="1.85f",
)  # fmt: skip
STEPS = (
    Variant(
        "walk-warps", "walk-momentum", WALK, WalkWarps,
        "A warp walks alone, with two columns a lane in registers: neighbours trade by shuffles, steps are one row apart.",
        "No shared memory between steps, no barrier: 69 instructions a cell, not 92, but 1.29 times the cells, not 1.15. Warps "
        "never wait together, so as few cycles stay empty: 75 us at 4096x4096 instead of 103.",
        differs=("source", "plan"), shows={"walk_warps": r"shfl"}, predicts={"large": about(1.4)},
    ),
    Variant(
        "walk-velocity", "walk-warps", WALK.with_knobs(ARITHMETIC="VELOCITY"), WalkWarps,
        "The equilibrium by momentum and velocity: five operations of a cell's sixty less, but all wait for the reciprocal.",
        "Two cells a lane and two warps a scheduler fill the wait. 57 instructions of 930 a turn are saved: 6 % at most.",
        predicts=FEW_PERCENT,
    ),
    Variant(
        "walk-shared", "walk-velocity",
        WALK.with_knobs(ARITHMETIC="VELOCITY", OLDER="SLOTS", STEPS=7, OWN=48), WalkShared,
        "A lane keeps older rows in shared memory instead of registers. So three warps a scheduler fit, and a pass has seven "
        "steps.",
        "Two warps a scheduler leave many issue slots empty. With three, a thread has 168 registers, and the parent "
        "needs about 195. Shared memory takes the place of six registers a step, and no lane waits for another: 0.92 of the "
        "time.",
        differs=("source", "plan"), predicts={"large": FEW_PERCENT},
    ),
)  # fmt: skip
