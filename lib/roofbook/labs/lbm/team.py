"""The steps for CPUs with all time steps of a sample in one launch, whose work-items wait for each other (team.k)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.prediction import FASTER
from ...spec.source import Source
from .bands import KEPT, BandedRows, steps_of_a_launch


class Team(BandedRows):
    """One launch for all steps: each work-item keeps its band of rows in its cache from the first step to the last."""

    kernel_name = "team"

    @classmethod
    def steps_of_a_walk(cls, variant: Variant, nx: int, ny: int) -> int:
        """Return the number of steps of a walk.

        For a grid that fits the caches of two cores it is 2: the rows of the first step are read again from the innermost
        cache. A larger grid takes as many as a launch of `several-steps`: each walk reads and writes it once.
        """
        return 2 if 2 * 9 * 4 * nx * ny <= 2 * KEPT else steps_of_a_launch(nx)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.counters = device.upload(np.zeros((3 + 2 * self.groups) * constants(self.source)["LINE"], np.int32))
        self.apart = self.source.settings["WAITS_FOR"] == "NEIGHBOURS"

    def run(self) -> None:
        source, target = (self.grids[number].buffers[0] for number in (self.now, 1 - self.now))
        self.queue.launch(
            self.kernel, self.size, self.local, source, target, self.obstacles, self.scratch, self.sums, self.counters,
            np.int32(self.units), self.omega, self.w1, self.w2,
        )  # fmt: skip
        self.now = (self.now + ceil_div(self.units, self.most)) % 2
        self.read_speeds(by_group=self.apart)

    def close(self) -> None:
        super().close()
        self.counters.release()


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
