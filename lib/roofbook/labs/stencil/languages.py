"""The stencil in today's languages: a kernel does all passes of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...peers.python_kernel import Numba, OneOutput, Triton, by_numba, by_triton, numba_array
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant, least_bytes, no_conditions


class AllPasses(OneOutput):
    """Base of both: the three grids on a device, and one launch a run."""

    output, launches = "g", 1
    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)


class TritonFused(Triton, AllPasses):
    """A program computes `block` elements of the inner rows, which are one range, by `warps` warps."""

    sources = (Path(__file__).with_name("triton_fused.py"),)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        height, width = inputs["g"].shape
        block, warps, count = variant.options["block"], variant.options["warps"], (height - 2) * width
        constants = (("WIDTH", width), ("PASSES", case.units), ("BLOCK", block))
        self.kernel = self.compiled(device, by_triton, ("*fp32", "*fp32", "*fp32", "i32"), constants, warps)
        self.group, self.size = (32 * warps,), (32 * warps * ceil_div(count, block),)
        grids = *self.upload(inputs["r"], inputs["b"]), self.written(inputs["g"])
        self.arguments = *grids, np.int32(count), *self.behind

    @staticmethod
    def function() -> Any:
        from . import triton_fused

        return triton_fused.fused


class NumbaFused(Numba, AllPasses):
    """A thread computes one element, in as many passes as the problem has."""

    sources = (Path(__file__).with_name("numba_fused.py"),)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        height, width = inputs["g"].shape
        self.kernel = self.compiled(device, by_numba, "void(float32[:,::1], float32[:,::1], float32[:,::1])")
        self.group, self.size = (128, 1), (128 * ceil_div(width, 128), height - 2)
        grids = *self.upload(inputs["r"], inputs["b"]), self.written(inputs["g"])
        self.arguments = tuple(argument for grid in grids for argument in numba_array(grid, height, width))

    @staticmethod
    def function() -> Any:
        from . import numba_fused

        return numba_fused.fused
