"""Two steps of a kernel in Triton or Numba, run without a GPU by the language's own interpreter, beside the reference.

`python -m tests.labs.lbm.step_in_python triton` prints the error over the tolerance; tests start it, since both languages read
the switch for their interpreter when they are imported.
"""

import sys
from dataclasses import asdict
from typing import Any

import numpy as np
from tests.peers.interpreted import Kernel

from roofbook.labs.lbm.lattice import LAB
from roofbook.labs.lbm.problem import Params, asymmetric, disturb, initial, with_thin_cells
from roofbook.spec.plan import Case

WIDTH = 8
"""Cells of a block."""


def step(language: str, params: Params, *arguments: np.ndarray | np.generic) -> None:
    """Run one step: source, target, obstacles, sums, done, number, omega, w1, w2."""
    blocks = -(-params.nx // WIDTH)
    if language == "triton":
        from roofbook.labs.lbm import triton_step

        types = "*fp32", "*fp32", "*i8", "*fp32", "*i32", "i32", "fp32", "fp32", "fp32"
        constants = {"NX": params.nx, "NY": params.ny, "BLOCK": WIDTH}
        Kernel(triton_step.step, types, constants)((blocks, params.ny), *arguments)
    else:
        from roofbook.labs.lbm import numba_step

        numba_step.BLOCK = WIDTH
        numba_step.step[(blocks, params.ny), (WIDTH, 1)](*arguments)


def ratio(language: str) -> float:
    """Return the error of two steps on a grid of awkward sides, over its tolerance."""
    params, obstacles = asymmetric(20, 7)
    f = initial(params, np.float32)
    disturb(f, 5, 0.1)
    inputs: dict[str, Any] = {"params": params, "obstacles": obstacles, "f": with_thin_cells(params, obstacles, f)}
    case, f = Case("20x7", "test", asdict(params), 2), inputs["f"].copy()
    w1, w2 = (np.float32(params.density * params.accel / part) for part in (9, 36))
    row, fluid = f[:, params.ny - 2], ~obstacles[params.ny - 2]
    push = fluid & (row[3] > w1) & (row[6] > w2) & (row[7] > w2)
    for direction, gain in ((1, w1), (5, w2), (8, w2), (3, -w1), (6, -w2), (7, -w2)):
        row[direction] += np.where(push, gain, np.float32(0))
    blocks = -(-params.nx // WIDTH) * params.ny
    grids, sums = [f, np.full_like(f, np.nan)], np.full(2 * blocks, np.nan, np.float32)
    shared = obstacles.astype(np.int8), sums, np.zeros(1, np.int32)
    for number, (first, second) in enumerate(((w1, w2), (np.float32(0), np.float32(0)))):
        source, target = grids[number % 2], grids[1 - number % 2]
        step(language, params, source, target, *shared, np.int32(number), np.float32(params.omega), first, second)
    speeds = sums.reshape(2, blocks).sum(axis=1, dtype=np.float64) / (~obstacles).sum()
    outputs = {"f": grids[0].astype(np.float64), "av_vels": speeds}
    error, tolerance, _ = LAB.check(case, LAB.variant("graph"), outputs, LAB.reference(case, inputs))
    return error / tolerance


if __name__ == "__main__":
    print(ratio(sys.argv[1]))
