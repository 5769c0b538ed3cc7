"""The steps for CPUs with all time steps of a sample in one launch, whose work-items wait for each other (team.k)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.lab import Case, Variant
from ...spec.prediction import FASTER
from ...spec.source import Source
from .bands import KEPT, Rows, steps_of_a_launch, vector_of
from .plans import UNWRITTEN, Simulation


def steps_of_a_walk(nx: int, ny: int) -> int:
    """Return the number of steps that a work-item takes in one walk down its band.

    For a grid that fits the caches of two cores it is 2: the rows of the first step are read again from the innermost cache. A
    larger grid takes as many as a launch of `several-steps`: each walk reads and writes it once.
    """
    return 2 if 2 * 9 * 4 * nx * ny <= 2 * KEPT else steps_of_a_launch(nx)


class Team(Simulation):
    """One work-item per core, which keeps its band of rows in its cache from the first step to the last."""

    grids_needed = 0

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least / steps_of_a_walk(case.params["nx"], case.params["ny"])

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        """Return the steps of two walks at least."""
        return max(case.units, 2 * steps_of_a_walk(case.params["nx"], case.params["ny"]))

    @classmethod
    def run_options(cls, case: Case, device: Device) -> Mapping[str, Any] | None:
        return {}

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.kernel = self.program.kernel("team")
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
        self.counters = device.upload(np.zeros((3 + 2 * self.groups) * constants(self.source)["LINE"], np.int32))
        self.sums = device.empty(4 * self.groups * self.units)
        self.apart = self.source.settings["WAITS_FOR"] == "NEIGHBOURS"

    def lay_out(self) -> None:
        self.most = min(self.units, steps_of_a_walk(self.params.nx, self.params.ny))
        self.local, self.group_size = (1,), 1
        self.groups = self.device.compute_units
        self.size = (self.groups,)

    def knobs(self) -> dict[str, Any]:
        return {"NX": self.params.nx, "NY": self.params.ny, "STEPS": self.most, **vector_of(self.device)}

    def main_kernel(self) -> str:
        return "team"

    def reset(self) -> None:
        super().reset()
        self.queue.write(self.sums, np.full(self.groups * self.units, UNWRITTEN, np.float32))

    def run(self) -> None:
        source, target = (self.grids[number].buffers[0] for number in (self.now, 1 - self.now))
        self.queue.launch(
            self.kernel, self.size, self.local, source, target, self.obstacles, self.scratch, self.sums, self.counters,
            np.int32(self.units), self.omega, self.w1, self.w2,
        )  # fmt: skip
        self.now = (self.now + ceil_div(self.units, self.most)) % 2
        shape = (self.groups, self.units) if self.apart else (self.units, self.groups)
        sums = self.queue.read(self.sums, np.empty(shape, np.float32))
        self.av_vels[:] = sums.sum(axis=0 if self.apart else 1, dtype=np.float64) / self.fluid_cells

    def close(self) -> None:
        super().close()
        for buffer in (self.scratch, self.counters, self.sums):
            buffer.release()


TEAM = Source.of(
    Path(__file__).parent / "team.k", ARITHMETIC="PAIRS", CONSTANTS="HOISTED", NX=128, NY=128, STEPS=2
)  # fmt: skip
"""The kernel for a grid of 128x128; the plan sets the sizes of the case."""

STEPS = (
    Variant(
        "team", "paired", TEAM, Team,
        "One launch for all steps: work-items wait for each other, like threads of OpenMP, and keep their bands.",
        "No waits for launches, hardly a row is computed twice, and a small grid never leaves the cores' caches.",
        needs=frozenset({"cpu"}), kind="cpu", differs=("source", "plan"), predicts=FASTER,
    ),
    Variant(
        "team-neighbours", "team", TEAM.with_knobs(WAITS_FOR="NEIGHBOURS"), Team,
        "A work-item waits only for its neighbours, and shares no cache line with others.",
        "To wait for all, each core fetches a cache line from every other core, and always reads the driven row. "
        "Many cores gain without that, most of all on a small grid.",
        needs=frozenset({"cpu"}), kind="cpu", predicts={"small": FASTER},
    ),
)  # fmt: skip
