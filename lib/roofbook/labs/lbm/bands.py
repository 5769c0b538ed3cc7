"""The steps for CPUs: a band of rows for each core, and several time steps in one launch (bands.k).

Rows that two bands need are computed by both.
"""

import math
from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.prediction import FASTER
from ...spec.source import Source
from .grid import Grid
from .plans import UNWRITTEN, Simulation

AWAY = 16384
"""Number of cells that a core computes, roughly, in the time of a launch."""


KEPT = 1 << 20
"""Number of bytes of earlier steps' rows that a core's cache holds."""
ENOUGH = 8
"""Number of steps in a launch beyond which reading and writing a large grid costs little."""


@cache
def longest_vector() -> int:
    """Return the number of cells in the longest vector; a row has so many more on either side."""
    return constants(BANDS)["WIDTH"]


def steps_of_a_launch(nx: int) -> int:
    """Return the number of steps in a launch with which a step costs least.

    A step's costs are its share of the launch and the neighbours' rows that are computed again: in cells of a core's time
    AWAY / steps and about steps * nx. A grid that no cache holds is read and written once a launch, so at least ENOUGH steps
    are taken if the cache keeps three rows of each step. The result is at least 2.
    """
    lanes = longest_vector()
    three_rows = 3 * 9 * 4 * (ceil_div(nx, lanes) + 2) * lanes
    return max(2, round(math.sqrt(AWAY / nx)), min(ENOUGH, 1 + KEPT // three_rows))


def vector_of(device: Device) -> dict[str, int]:
    """Return the knob for the vectors of a CPU: as many lanes as a register."""
    lanes = longest_vector()
    return {"LANES": lanes if device.vector_floats >= lanes else lanes // 2}


class Rows(Grid):
    """The populations on a device, row by row: nine directions a row, each with `longest_vector` more cells at both ends."""

    def __init__(self, device: Device, nx: int, ny: int) -> None:
        self.nx, self.lanes = nx, longest_vector()
        self.across = ceil_div(nx, self.lanes) * self.lanes
        self.shape = (ny, 9, self.across + 2 * self.lanes)
        self.queue = device.queue()
        self.buffers = [device.empty(4 * math.prod(self.shape))]

    def write(self, f: np.ndarray) -> None:
        """Set the grid from f (9, ny, nx)."""
        laid = np.zeros(self.shape, np.float32)
        rows, start, end = f.transpose(1, 0, 2), self.lanes, self.lanes + self.nx
        laid[:, :, start:end] = rows
        laid[:, :, start - 1], laid[:, :, end] = rows[:, :, -1], rows[:, :, 0]
        self.queue.write(self.buffers[0], laid)

    def read(self) -> np.ndarray:
        """Return f (9, ny, nx), float64."""
        laid = self.queue.read(self.buffers[0], np.empty(self.shape, np.float32))
        return laid[:, :, self.lanes : self.lanes + self.nx].transpose(1, 0, 2).astype(np.float64)


class BandedRows(Simulation):
    """Base of the plans with one work-item per core, each with a band of rows that it walks down, several steps at a time."""

    grids_needed = 0
    kernel_name: str

    @classmethod
    @abstractmethod
    def steps_of_a_walk(cls, variant: Variant, nx: int, ny: int) -> int:
        """Return the number of steps that a work-item takes in one walk down its band."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; each walk reads and writes the grid once."""
        return least / cls.steps_of_a_walk(variant, case.params["nx"], case.params["ny"])

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        """Return the steps of two walks at least."""
        return max(case.units, 2 * cls.steps_of_a_walk(variant, case.params["nx"], case.params["ny"]))

    @classmethod
    def run_options(cls, case: Case, device: Device) -> Mapping[str, Any] | None:
        return {}

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.kernel = self.program.kernel(self.kernel_name)
        nx, ny = self.params.nx, self.params.ny
        rows = Rows(device, nx, ny)
        self.grids = [rows, Rows(device, nx, ny)]
        walls = np.ones((ny, rows.across), np.int8)
        walls[:, :nx] = inputs["obstacles"]
        self.obstacles.release()
        self.obstacles = device.upload(walls)
        _, directions, stride = rows.shape
        floats_of_a_group = (1 + 3 * (self.most - 1)) * directions * stride + rows.lanes * self.most
        self.scratch = device.empty(4 * self.groups * floats_of_a_group)
        self.sums = device.empty(4 * self.groups * self.units)

    def lay_out(self) -> None:
        self.most = min(self.units, self.steps_of_a_walk(self.variant, self.params.nx, self.params.ny))
        self.local, self.group_size = (1,), 1
        self.groups = self.device.compute_units
        self.size = (self.groups,)

    def knobs(self) -> dict[str, Any]:
        return {"NX": self.params.nx, "NY": self.params.ny, "STEPS": self.most, **vector_of(self.device)}

    def main_kernel(self) -> str:
        return self.kernel_name

    def reset(self) -> None:
        super().reset()
        self.queue.write(self.sums, np.full(self.groups * self.units, UNWRITTEN, np.float32))

    def read_speeds(self, by_group: bool = False) -> None:
        """Read the partial sums of all steps. by_group: those of a group lie side by side, not those of a step."""
        shape = (self.groups, self.units) if by_group else (self.units, self.groups)
        sums = self.queue.read(self.sums, np.empty(shape, np.float32))
        self.av_vels[:] = sums.sum(axis=0 if by_group else 1, dtype=np.float64) / self.fluid_cells

    def close(self) -> None:
        super().close()
        self.scratch.release()
        self.sums.release()


class Bands(BandedRows):
    """A launch for each walk. Option `steps`: number of steps in a launch; by default the best."""

    kernel_name = "bands"

    @classmethod
    def steps_of_a_walk(cls, variant: Variant, nx: int, ny: int) -> int:
        return int(variant.options.get("steps") or steps_of_a_launch(nx))

    def run(self) -> None:
        for step in range(0, self.units, self.most):
            source, target = (self.grids[number].buffers[0] for number in (self.now, 1 - self.now))
            self.queue.launch(
                self.kernel, self.size, self.local, source, target, self.obstacles, self.scratch, self.sums, np.int32(step),
                np.int32(min(self.most, self.units - step)), self.omega, self.w1, self.w2,
            )  # fmt: skip
            self.now = 1 - self.now
        self.read_speeds()


BANDS = Source.of(Path(__file__).parent / "bands.k", CONSTANTS="HOISTED", NX=128, NY=128, STEPS=1)
"""The kernel for a grid of 128x128; the plan sets the sizes of the case."""

STEPS = (
    Variant(
        "bands", "vectors", BANDS, Bands,
        "A work-item per core walks down a band of rows, as many cells at a time as a register holds (its parent: sixteen). "
        "Each row has periodic copies at both ends.",
        "One work-item per core instead of hundreds: a launch costs half as much, arithmetic aside.",
        needs=frozenset({"cpu"}), kind="cpu", options={"steps": 1},
        differs=("source", "plan", "options"), predicts={"small": FASTER},
    ),
    Variant(
        "several-steps", "bands", BANDS, Bands,
        "Several steps in one launch, each a row behind the step before; rows that two neighbours need are computed twice.",
        "A small grid saves launches. A large one is read and written once in several steps, and its rows stay in the cache.",
        needs=frozenset({"cpu"}), kind="cpu", differs=("options",), predicts=FASTER,
    ),
    Variant(
        "paired", "several-steps", BANDS.with_knobs(ARITHMETIC="PAIRS"), Bands,
        "Opposite directions share terms that differ only in sign; one division instead of two.",
        "Three fifths of the operations are left. They take most of the time, now that launches and memory do not.",
        needs=frozenset({"cpu"}), kind="cpu", predicts=FASTER,
    ),
)  # fmt: skip
