"""The last steps for GPUs: several steps an exchange, the whole grid on the chip, several steps a pass over memory.

All take several steps in a launch. The first two are for grids that fit the multiprocessors, the last for larger ones.
"""

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...devices.contract import Device, Kernel, Unsupported
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.prediction import FEW_PERCENT, up_to
from ...spec.source import Source
from .grid import indexed_sums
from .plans import KeptPartials

HERE = Path(__file__).parent
BLOCKS_AT_MOST = 128
"""Largest number of blocks: fewer than these GPUs have multiprocessors, so that all run at once, one on each."""
LOCAL_BYTES = 227 << 10
"""Largest shared memory of a block, in bytes."""
WARP = 32


class Tiling(NamedTuple):
    """The partition of a grid in deep_halo.cu: a block's tile, and the steps of a round."""

    tile_x: int
    tile_y: int
    depth: int

    @property
    def wide(self) -> int:
        return self.tile_x + 2 * self.depth

    @property
    def cells(self) -> int:
        """Number of cells in a tile with its halo."""
        return self.wide * (self.tile_y + 2 * self.depth)

    @property
    def threads(self) -> int:
        """Number of threads that have a cell."""
        return ceil_div(self.cells, WARP) * WARP

    @property
    def local_bytes(self) -> int:
        """Bytes of shared memory: two copies of eight populations, with a ring beyond their ends; speeds of two rounds."""
        return 4 * (2 * 8 * (self.threads + 2 * (self.wide + 1)) + 2 * self.depth * self.threads)

    @property
    def cost(self) -> float:
        """Modelled time of a step, in units of the time in which a multiprocessor computes a warp's cells.

        The unit is about 25 ns on Hopper, and about 20 without branches. Besides its cells a step takes three units, and an
        exchange forty.
        """
        rows = [self.tile_y + 2 * ring for ring in range(self.depth)]
        return (40 + 3 * self.depth + self.wide * sum(rows) / WARP) / self.depth

    @property
    def exchanged(self) -> int:
        """Number of cells that a block sends in a round, plus those that it receives."""
        inner = max(0, self.tile_x - 2 * self.depth) * max(0, self.tile_y - 2 * self.depth)
        return self.tile_x * self.tile_y - inner + self.cells - self.tile_x * self.tile_y


def _tilings(nx: int, ny: int) -> Iterator[Tiling]:
    for tile_x in (side for side in range(1, nx + 1) if nx % side == 0):
        for tile_y in (side for side in range(1, ny + 1) if ny % side == 0):
            if nx // tile_x * (ny // tile_y) <= BLOCKS_AT_MOST:
                for depth in range(2, min(8, tile_x, tile_y) + 1):
                    tiling = Tiling(tile_x, tile_y, depth)
                    if tiling.threads + WARP <= 1024:
                        yield tiling


@lru_cache
def tiling_of(nx: int, ny: int) -> Tiling | None:
    """Return the tiling with the least cost; None if the grid with halos does not fit BLOCKS_AT_MOST blocks."""
    return min(_tilings(nx, ny), key=lambda tiling: tiling.cost, default=None)


class RowCut(NamedTuple):
    """The partition of a grid in resident.cu: rows of a block, threads of a block."""

    rows: int
    threads: int

    def local_bytes(self, nx: int) -> int:
        return 4 * (6 * self.rows - 4) * nx


@lru_cache
def rows_of(nx: int, ny: int) -> RowCut | None:
    """Return the fewest rows of a block, four at least, with which the grid fits BLOCKS_AT_MOST blocks; None if it does not.

    A thread has sixteen cells at most: more do not fit its registers.
    """
    for rows in range(4, ny + 1):
        if ny % rows == 0 and ny // rows <= BLOCKS_AT_MOST:
            for threads in range(512, 0, -WARP):
                cut = RowCut(rows, threads)
                if nx % threads == 0 and nx // threads * rows <= 16 and cut.local_bytes(nx) <= LOCAL_BYTES:
                    return cut
            return None
    return None


class SeveralSteps(KeptPartials):
    """Base of these plans: launches of several steps after one of accelerate_flow."""

    kernel_name = ""

    @classmethod
    @abstractmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes of a step; each of these plans has its own model."""

    run_options = staticmethod(indexed_sums)

    def accelerator(self) -> Source:
        return Source.of(HERE / "in_place.k", LAYOUT="SOA", COUNT_CELLS=0, PARTIALS="KEPT", SOLID="char")

    def kernel_names(self) -> tuple[str, ...]:
        return (self.kernel_name,)

    def main_kernel(self) -> str:
        return self.kernel_name

    def turns(self) -> int:
        """Return how often the grids are swapped in a run."""
        return 0

    def run(self) -> None:
        start = self.now
        super().run()
        self.now = (start + self.turns()) % 2


class OneLaunch(SeveralSteps):
    """All steps in one launch, whose blocks wait for each other."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        if reason := self.refusal(case, variant):
            raise Unsupported(reason)
        super().__init__(device, variant, case, inputs)
        (self.kernel,) = self.kernels
        self.kernel.configure(cooperative=True, dynamic_local_bytes=self.local_bytes())
        self.halo = device.upload(np.zeros(self.words(), np.int64))
        self.tag = 1

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        fits = cls.blocks_for(case.params["nx"], case.params["ny"])
        return None if fits else "not on this case: the blocks that run at once do not hold the grid"

    @classmethod
    def run_options(cls, case: Case, device: Device) -> Mapping[str, Any] | None:
        """Return the options; None if blocks would wait for others that do not run."""
        return {} if cls.blocks_for(case.params["nx"], case.params["ny"]) <= device.compute_units else None

    @classmethod
    @abstractmethod
    def blocks_for(cls, nx: int, ny: int) -> int:
        """Return the number of blocks that must run at once; 0 if the grid does not fit."""

    @abstractmethod
    def local_bytes(self) -> int:
        """Return the bytes of shared memory that a block keeps."""

    @abstractmethod
    def words(self) -> int:
        """Return the number of words of 8 bytes in the buffer for exchanges."""

    def close(self) -> None:
        super().close()
        self.halo.release()


class DeepHalo(OneLaunch):
    """Blocks take several steps between two exchanges, and compute some of their neighbours' cells for that."""

    kernel_name = "deep_halo"

    def lay_out(self) -> None:
        tiling = tiling_of(self.params.nx, self.params.ny)
        assert tiling
        self.tiling, self.groups = tiling, self.blocks_for(self.params.nx, self.params.ny)
        self.group_size = tiling.threads + WARP
        self.local, self.size = (self.group_size,), (self.group_size * self.groups,)

    @classmethod
    def blocks_for(cls, nx: int, ny: int) -> int:
        tiling = tiling_of(nx, ny)
        return nx * ny // (tiling.tile_x * tiling.tile_y) if tiling else 0

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes that blocks exchange in a step, on average: three words of 16 bytes a cell."""
        nx, ny = case.params["nx"], case.params["ny"]
        tiling = tiling_of(nx, ny)
        return 48 * tiling.exchanged * cls.blocks_for(nx, ny) / tiling.depth if tiling else least

    def knobs(self) -> dict[str, Any]:
        tile_x, tile_y, depth = self.tiling
        return {"NX": self.params.nx, "NY": self.params.ny, "TILE_X": tile_x, "TILE_Y": tile_y, "DEPTH": depth}

    def local_bytes(self) -> int:
        return self.tiling.local_bytes

    def words(self) -> int:
        return 2 * 3 * 2 * self.params.nx * self.params.ny

    def turns(self) -> int:
        return 1

    def submit(self) -> None:
        self.launch_accelerate(0)
        source, target = self.grids[self.now].arguments, self.grids[1 - self.now].arguments
        self.queue.launch(self.kernel, self.size, self.local, *source, *target, self.obstacles, self.sums, self.halo,
                          np.int32(self.tag), np.int32(self.units), self.omega, self.w1, self.w2)  # fmt: skip
        self.tag += ceil_div(self.units, self.tiling.depth)  # tags only ever rise, so nothing is cleared between runs
        self.add_up(0, self.units)


class DeepHaloBranchless(DeepHalo):
    """Blocks with several steps between two exchanges, without branches that divide a warp."""

    kernel_name = "deep_halo_branchless"


class Resident(OneLaunch):
    """Blocks that keep their rows in shared memory and registers from the first step to the last."""

    kernel_name = "resident"
    grids_needed = 1

    def lay_out(self) -> None:
        cut = rows_of(self.params.nx, self.params.ny)
        assert cut
        blocks = self.params.ny // cut.rows
        self.cut, self.group_size, self.groups = cut, cut.threads, blocks * cut.threads // WARP
        self.local, self.size = (cut.threads,), (cut.threads * blocks,)

    @classmethod
    def blocks_for(cls, nx: int, ny: int) -> int:
        cut = rows_of(nx, ny)
        return ny // cut.rows if cut else 0

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes that blocks exchange in a step: six words of 8 bytes a column and block, written and read."""
        return 2 * 6 * 8 * case.params["nx"] * cls.blocks_for(case.params["nx"], case.params["ny"]) or least

    def knobs(self) -> dict[str, Any]:
        return {"NX": self.params.nx, "NY": self.params.ny, "ROWS": self.cut.rows, "THREADS": self.cut.threads}

    def local_bytes(self) -> int:
        return self.cut.local_bytes(self.params.nx)

    def words(self) -> int:
        return 6 * self.params.nx * self.params.ny // self.cut.rows

    def submit(self) -> None:
        self.launch_accelerate(0)
        self.queue.launch(self.kernel, self.size, self.local, *self.grids[0].arguments, self.obstacles, self.sums, self.halo,
                          np.int32(self.tag), np.int32(self.units), self.omega, self.w1, self.w2)  # fmt: skip
        self.tag += self.units + 1
        self.add_up(0, self.units)


THREADS_OF_A_STRIP = 384
"""Number of threads in a block. A multiprocessor has two blocks: with four steps a pass their registers and rows fit."""
BLOCKS_OF_STRIPS = 2
"""Number of blocks on a multiprocessor, which the kernel requires of the compiler."""
STEPS_OF_A_PASS = 4


class Strips(SeveralSteps):
    """Blocks that walk down strips of columns and take each row several steps further."""

    kernel_name = "strips"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least / STEPS_OF_A_PASS

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        is_short = min(case.params["nx"], case.params["ny"]) < STEPS_OF_A_PASS
        return "not on this case: a side is shorter than a pass has steps" if is_short else None

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        """Return the steps of two passes at least."""
        return max(case.units, 2 * STEPS_OF_A_PASS)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        if reason := self.refusal(case, variant):
            raise Unsupported(reason)
        super().__init__(device, variant, case, inputs)
        (full_pass,), remaining = self.kernels, self.units % self.most
        self.passes: list[tuple[Kernel, int]] = [(self.ready(full_pass, self.most), self.most)] * (
            self.units // self.most
        )
        if remaining:
            program = device.build(self.source.with_knobs(**self.knobs_for(remaining)).render(device.backend))
            self.passes.append((self.ready(program.kernel(self.kernel_name), remaining), remaining))

    def ready(self, kernel: Kernel, steps: int) -> Kernel:
        """Configure the kernel's shared memory for the rows between its steps: the last four of each, six populations."""
        kernel.configure(dynamic_local_bytes=max(16, 4 * (steps - 1) * 4 * 6 * (self.group_size + 2)))
        return kernel

    def lay_out(self) -> None:
        self.cut(STEPS_OF_A_PASS, THREADS_OF_A_STRIP, BLOCKS_OF_STRIPS)
        self.groups = self.strips * self.pieces * self.group_size // WARP

    def cut(self, steps: int, most_items: int, groups_at_once: int) -> None:
        """Cut the grid into strips of columns and pieces of rows, one for each group.

        steps: those of a pass. groups_at_once: groups on a multiprocessor.
        """
        nx, ny = self.params.nx, self.params.ny
        self.most = min(self.units, steps)
        halo_columns = 2 * (steps - 1)
        self.group_size = min(most_items, ceil_div(nx + halo_columns, WARP) * WARP)
        self.strips = ceil_div(nx, self.group_size - halo_columns)
        self.own = ceil_div(nx, self.strips)
        fitting = max(1, groups_at_once * self.device.compute_units // self.strips)
        self.pieces = min(fitting, ceil_div(ny, 8))
        self.local, self.size = (self.group_size, 1), (self.group_size * self.strips, self.pieces)

    def knobs(self) -> dict[str, Any]:
        return self.knobs_for(self.most)

    def knobs_for(self, steps: int) -> dict[str, Any]:
        return {
            "NX": self.params.nx, "NY": self.params.ny, "STEPS": steps, "THREADS": self.group_size, "OWN": self.own,
        }  # fmt: skip

    def turns(self) -> int:
        return len(self.passes)

    def submit(self) -> None:
        self.launch_accelerate(0)
        step, none = 0, np.float32(0)
        for number, (kernel, steps) in enumerate(self.passes):
            push = (none, none) if number + 1 == len(self.passes) else (self.w1, self.w2)
            self.queue.launch(kernel, self.size, self.local, *self.grids_of(number), self.obstacles, self.sums, np.int32(step),
                              self.omega, self.w1, self.w2, *push)  # fmt: skip
            step += steps
        self.add_up(0, self.units)


def _source(file: str, **sizes: int) -> Source:
    """Return a kernel for some sizes; the plan sets the sizes of the case."""
    return Source.of(HERE / file, CONSTANTS="HOISTED", LAYOUT="SOA", GRID="ONE", SOLID="char", **sizes)


TILED = {"NX": 128, "NY": 128, "TILE_X": 16, "TILE_Y": 8, "DEPTH": 4}
DEEP_HALO = _source("deep_halo.cu", **TILED)
BRANCHLESS = _source("deep_halo_branchless.cu", **TILED, PAUSE=0)
ON_CHIP = _source("resident.cu", NX=1024, NY=1024, ROWS=8, THREADS=512)
STEPS = (
    Variant(
        "strips", "flat-grid", _source("strips.cu", NX=128, NY=128, STEPS=4, THREADS=160, OWN=128), Strips,
        "Four steps in a pass over memory: blocks walk down strips of columns, each step two rows behind the one before.",
        "A quarter of the bytes: more than twice as fast if memory was the bound, until arithmetic becomes the bound.",
        differs=("source", "plan"),
    ),
    Variant(
        "deep-halo", "tagged-halo", DEEP_HALO, DeepHalo,
        "Blocks have tiles, with a halo as wide as the number of steps between two exchanges. A word of 16 bytes carries three "
        "populations and the number of the exchange.",
        "An exchange takes longer than a step's arithmetic. Several steps now share one, at the price of computing halo cells.",
        needs=frozenset({"cooperative"}), differs=("source", "plan"),
    ),
    Variant(
        "on-chip", "tagged-halo", ON_CHIP, Resident,
        "A grid that fills the chip: a block keeps its rows in shared memory and registers, one copy of each cell.",
        "No population goes to memory and back. Only arithmetic is left: a third of the time that the L2 allows.",
        needs=frozenset({"cooperative"}), differs=("source", "plan"),
    ),
    Variant(
        "deep-halo-momentum", "deep-halo", DEEP_HALO.with_knobs(ARITHMETIC="MOMENTUM"), DeepHalo,
        "The equilibrium as a function of momentum: two thirds of the operations, and few of them wait for the reciprocal.",
        "Half of a step is arithmetic, and half of that waits for other arithmetic: a scheduler has four warps.",
        needs=frozenset({"cooperative"}), predicts=up_to(1.25),
    ),
    Variant(
        "deep-halo-branchless", "deep-halo-momentum", BRANCHLESS, DeepHaloBranchless,
        "No branch divides a warp: a solid cell reads its populations from opposite directions.",
        "The slowest block sets the pace. It is one with walls, which cost ten selects per cell.",
        needs=frozenset({"cooperative"}), differs=("source", "plan"),
    ),
    Variant(
        "deep-halo-pause", "deep-halo-branchless", BRANCHLESS.with_knobs(PAUSE=200), DeepHaloBranchless,
        "A block polls its neighbours only after all its threads have sent, and 200 clock cycles later.",
        "Polling before the data has arrived delays the data.",
        needs=frozenset({"cooperative"}), predicts=FEW_PERCENT,
    ),
    Variant(
        "on-chip-momentum", "on-chip", ON_CHIP.with_knobs(ARITHMETIC="MOMENTUM"), Resident,
        "The equilibrium as a function of momentum, as in `deep-halo-momentum`, with a grid that fills the chip.",
        "Here instructions bound a step, and a fifth of them are saved.",
        needs=frozenset({"cooperative"}), predicts=up_to(1.25),
    ),
    Variant(
        "on-chip-velocity", "on-chip-momentum", ON_CHIP.with_knobs(ARITHMETIC="VELOCITY"), Resident,
        "The equilibrium by momentum and velocity: five operations of a cell's sixty less, but all wait for the reciprocal.",
        "83 instructions a cell instead of 88. A thread has sixteen cells, whose operations fill each other's waits: 5 %.",
        needs=frozenset({"cooperative"}), predicts=FEW_PERCENT,
    ),
    Variant(
        "on-chip-no-waits", "on-chip-velocity", ON_CHIP.with_knobs(ARITHMETIC="VELOCITY", LEFT_OUT="WAITS"), Resident,
        "A block takes the words that its neighbours left, of whichever step. All arithmetic and all accesses are left. "
        "Results are right for one step.",
        "The time that is left is that of the cells. The rest of the parent's time is waits for neighbours.",
        role="probe", needs=frozenset({"cooperative"}),
    ),
)  # fmt: skip
