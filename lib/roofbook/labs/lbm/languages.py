"""The step of the lattice in today's languages: launches of one step, recorded once as a graph, as in the step `graph`."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device, Kernel, Program
from ...peers.python_kernel import Numba, Triton, by_numba, by_triton, numba_array
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.source import Source
from . import plans

AROUND = Source.of(
    Path(__file__).with_name("fused.k"), LAYOUT="SOA", GRID="ONE", COUNT_CELLS=0, REDUCE="TREE", PARTIALS="GRAPH",
    OBSTACLE="SELECT_BOTH", ACCELERATE="FUSED", CONSTANTS="HOISTED", SOLID="char",
)  # fmt: skip
"""Source of the step `graph`, whose grid, sums and accelerate_flow serve a step in another language."""


class _WithKernel(Program):
    """A program in which the kernel of a step is another one."""

    def __init__(self, program: Program, step: Kernel) -> None:
        self.program, self.step = program, step

    def kernel(self, name: str) -> Kernel:
        return self.step if name == "fused" else self.program.kernel(name)


class _Building:
    """A device that builds programs in which the kernel of a step is another one. In all else it is the given device."""

    def __init__(self, device: Device, step: Kernel) -> None:
        self._device, self._step = device, step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        return _WithKernel(self._device.build(text, options), self._step)


class Steps(plans.GraphedSteps):
    """Base of both: all other kernels, the grid and the sums are those of the step `graph`."""

    step: Kernel
    group: tuple[int, int]
    """Work-items of a block, in a row."""
    cells: int
    """Cells of a block."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        around: Any = _Building(device, self.step)
        super().__init__(around, replace(variant, source=AROUND), case, inputs)

    def lay_out(self) -> None:
        self.local, blocks = self.group, ceil_div(self.params.nx, self.cells)
        self.size = (blocks * self.group[0], self.params.ny)
        self.groups = blocks * self.params.ny

    def of_step(self, step: int, slot: tuple[Any, ...], last: bool) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the arrays and the numbers of a step's arguments."""
        done, number = slot
        none = np.float32(0)
        push = (none, none) if last else (self.w1, self.w2)
        return (*self.grids_of(step), self.obstacles, self.sums, done), (number, self.omega, *push)


class TritonSteps(Triton, Steps):
    """A program computes at most `cells` cells of a row, by `warps` warps."""

    sources = (Path(__file__).with_name("triton_step.py"),)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        params, warps = inputs["params"], variant.options["warps"]
        self.cells = min(variant.options["cells"], 1 << (params.nx - 1).bit_length())
        self.group = (32 * warps, 1)
        types = "*fp32", "*fp32", "*i8", "*fp32", "*i32", "i32", "fp32", "fp32", "fp32"
        constants = (("NX", params.nx), ("NY", params.ny), ("BLOCK", self.cells))
        self.step = self.compiled(device, by_triton, types, constants, warps)
        super().__init__(device, variant, case, inputs)

    @staticmethod
    def function() -> Any:
        from . import triton_step

        return triton_step.step

    def arguments(self, step: int, slot: tuple[Any, ...], last: bool) -> tuple[Any, ...]:
        arrays, numbers = self.of_step(step, slot, last)
        return *arrays, *numbers, *self.behind


class NumbaSteps(Numba, Steps):
    """A thread computes one cell."""

    sources = (Path(__file__).with_name("numba_step.py"),)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.group, self.cells = (128, 1), 128
        grid, numbers = "float32[:,:,::1]", "int32, float32, float32, float32"
        signature = f"void({grid}, {grid}, int8[:,::1], float32[::1], int32[::1], {numbers})"
        self.step = self.compiled(device, by_numba, signature)
        super().__init__(device, variant, case, inputs)

    @staticmethod
    def function() -> Any:
        from . import numba_step

        return numba_step.step

    def arguments(self, step: int, slot: tuple[Any, ...], last: bool) -> tuple[Any, ...]:
        (source, target, obstacles, sums, done), numbers = self.of_step(step, slot, last)
        rows = self.params.ny, self.params.nx
        grids = *numba_array(source, 9, *rows), *numba_array(target, 9, *rows)
        counts = *numba_array(sums, self.groups * self.units), *numba_array(done, 1)
        return *grids, *numba_array(obstacles, *rows, itemsize=1), *counts, *numbers
