"""The report's first program: two of five functions as kernels, and the grid copied to the device and back in each step.

The published tables do not say which two. Here they are those of the course's OpenCL program: accelerate_flow and propagate.
"""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...peers import cc, compilers
from ...spec.plan import Case, Variant
from .grid import one_core_steps, step_bytes
from .plans import UNWRITTEN, Simulation

HERE = Path(__file__).parent
FLAGS = ("-O3",)
"""Flags of the host's part, those of the course."""


class PartlyPorted(Simulation):
    """Two kernels on the device; rebound, collision and av_velocity in C on one core of the host.

    Raises cc.NoCompiler or cc.BuildFailed.
    """

    sources = (HERE / "partly_ported.c",)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; each of the two copies reads and writes all populations, too."""
        return step_bytes(case, variant, 9, 3, 4)

    timed_units = staticmethod(one_core_steps)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.accelerate, self.propagate = map(self.program.kernel, ("accelerate_flow", "propagate"))
        self.blocked = np.ascontiguousarray(inputs["obstacles"], np.uint8)
        self.cells = np.ascontiguousarray(self.start.transpose(1, 2, 0), np.float32)
        self.moved = np.empty_like(self.cells)
        self.rest_of_step = cc.build(self.sources[0], FLAGS).rest_of_step
        pointer = ctypes.c_void_p
        self.rest_of_step.argtypes = [ctypes.c_size_t, ctypes.c_float, pointer, pointer, pointer]
        self.rest_of_step.restype = ctypes.c_double

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why the host's part does not run on this machine; None if it does."""
        return cc.missing()

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()

    def main_kernel(self) -> str:
        return "propagate"

    def reset(self) -> None:
        super().reset()
        self.cells[:] = self.start.transpose(1, 2, 0)
        self.moved.fill(UNWRITTEN)

    def run(self) -> None:
        queue, (source, target) = self.queue, (grid.buffers[0] for grid in self.grids)
        on_host = [array.ctypes.data for array in (self.cells, self.moved, self.blocked)]
        for step in range(self.units):
            queue.write(source, self.cells)
            queue.launch(self.accelerate, (self.row,), (self.group_size,), source, self.obstacles,
                         self.nx, self.ny, self.w1, self.w2)  # fmt: skip
            queue.finish()
            queue.launch(self.propagate, self.size, self.local, source, target, self.nx, self.ny)
            queue.finish()
            queue.read(target, self.moved)
            self.av_vels[step] = self.rest_of_step(self.blocked.size, self.omega, *on_host)

    def outputs(self) -> dict[str, np.ndarray]:
        return {"f": self.cells.transpose(2, 0, 1).astype(np.float64), "av_vels": self.av_vels.copy()}

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "threads of the host": 1, "flags": " ".join(FLAGS)}
