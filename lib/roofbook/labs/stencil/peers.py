"""The peers of the stencil: PyTorch, where a pass is three kernels, or one if compiled; and a page of C with OpenMP."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...peers import openmp
from ...peers.pytorch import Call
from ...spec.plan import Case, Variant, least_bytes
from .problem import PUBLISHED_PASSES


class TorchStencil(Call):
    """The stencil in PyTorch. A unit is a pass over g (H, W), in place; `run` adds `units` passes to g."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes of a pass; roots are written and read as well unless the pass is one kernel."""
        return least * PUBLISHED_PASSES * (1 if variant.options["compile"] else 2)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        self.r, self.b, self.g = (self.tensor(inputs[name]) for name in "rbg")
        self.g_start = self.g.clone()
        self.one_pass = self.compiled(one_pass)

    def poison(self) -> None:
        self.g.copy_(self.g_start)

    def compute(self) -> None:
        self.one_pass(self.r, self.b, self.g)

    def result(self) -> dict[str, np.ndarray]:
        return {"g": self.array(self.g)}


class Fused(TorchStencil):
    """The stencil in PyTorch with all passes of a run in one function."""

    traffic = staticmethod(least_bytes)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        self.all_passes = self.compiled(all_passes)

    def _submit(self) -> None:
        self.all_passes(self.r, self.b, self.g, self.units)


class OpenMP(openmp.CProgram):
    """The stencil in C with OpenMP, all passes of a run at once (openmp.c)."""

    sources = (Path(__file__).with_name("openmp.c"),)
    function = "stencil"

    traffic = staticmethod(least_bytes)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        self.r, self.b, self.g_start = (np.ascontiguousarray(inputs[name], np.float32) for name in "rbg")

    def reset(self) -> None:
        self.g = self.g_start.copy()

    def run(self) -> None:
        self.call(*self.g.shape, self.units, self.r, self.b, self.g)

    def outputs(self) -> dict[str, np.ndarray]:
        return {"g": self.g.astype(np.float64)}


def one_pass(r: Any, b: Any, g: Any) -> None:
    """Add 1/sqrt(r above + b below) to each element of g, except in the first and last row."""
    g[1:-1] += (r[:-2] + b[2:]).rsqrt()


def all_passes(r: Any, b: Any, g: Any, passes: int) -> None:
    """Do `one_pass` so many times, with the root computed once, because r and b do not change."""
    root, inner = (r[:-2] + b[2:]).rsqrt(), g[1:-1]
    for _ in range(passes):
        inner = inner + root
    g[1:-1] = inner
