"""The stencil in PyTorch: what a user would write instead of a kernel. Compiled, a pass is one kernel; eager, three."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...peers.pytorch import Call


class Stencil(Call):
    """A unit is a pass over g (H, W), in place. `run` adds `units` passes to g as it was after `reset`."""

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


def one_pass(r: Any, b: Any, g: Any) -> None:
    """g += 1/sqrt(r above + b below), but for the first and last row."""
    g[1:-1] += (r[:-2] + b[2:]).rsqrt()
