"""The problem: g += 1/sqrt(r above + b below), pass after pass; its inputs, its float64 answer and the bound of its error."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...spec.bands import by_bands
from ...spec.rounding import mean_square_over

Grid = NDArray[np.floating[Any]]
UNIT_ROUNDOFF = 2.0**-24
ROOT_ULPS = 4
"""What an inverse root may be off: 2 ulp by OpenCL's and CUDA's tables, and as much for 1/sqrt, which rounds twice."""

WIDE_OCTAVES = 10
"""r and b are spread over so many powers of two to either side of 1 where a variant is verified on small cases."""


def inputs(height: int, width: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """r and b, uniform on [0.25, 4), and g, N(0, 1): float32 (height, width)."""
    r, b, g = (np.empty((height, width), np.float32) for _ in range(3))

    def draw(rows: slice) -> None:
        random = np.random.default_rng((seed, rows.start))
        for grid in (r, b):
            grid[rows] = 0.25 + np.float32(3.75) * random.random(grid[rows].shape, np.float32)
        random.standard_normal(dtype=np.float32, out=g[rows])

    by_bands(height, width, draw)
    return {"r": r, "b": b, "g": g}


def widened(given: Mapping[str, Grid], most: int = 1 << 21) -> dict[str, Grid]:
    """Return inputs with every other element of r and b far from 1; those of a large grid, of more than `most`, as they are.

    Where the root is large, what it is off shows most; and a constant that is added to r + b shows where these are small.
    """
    if given["r"].size > most:
        return dict(given)
    random = np.random.default_rng(given["r"].size)
    spread = dict(given)
    for name in ("r", "b"):
        grid = given[name].copy()
        chosen = random.random(grid.shape) < 0.5
        grid[chosen] = np.exp2(random.uniform(-WIDE_OCTAVES, WIDE_OCTAVES, grid.shape))[chosen]
        spread[name] = grid
    return spread


def reference(r: Grid, b: Grid, g: Grid, passes: int) -> dict[str, Grid]:
    """`g` after that many passes and `root`, what each pass adds (0 on the first and last row): float64."""
    root, after = np.zeros(g.shape), np.array(g, np.float64)

    def inner(rows: slice) -> None:
        np.sqrt(r[:-2][rows].astype(np.float64) + b[2:][rows], out=root[1:-1][rows])
        np.divide(1, root[1:-1][rows], out=root[1:-1][rows])
        after[1:-1][rows] += passes * root[1:-1][rows]

    by_bands(len(g) - 2, g.shape[1], inner)
    return {"g": after, "root": root}


def bound(reference: Mapping[str, Grid], start: Grid, passes: int, root_ulps: float = ROOT_ULPS) -> Grid:
    """How far fp32 may be from the reference, by element; 0 on the first and last row, which no pass may touch.

    Each of the passes rounds a sum no larger than |g| + passes * root once, and adds a root that is off by `root_ulps`
    and by what the rounding of r + b makes of it: half its relative error.
    """
    limit = np.zeros(start.shape)

    def inner(rows: slice) -> None:
        root = reference["root"][1:-1][rows]
        sums = passes * (np.abs(start[1:-1][rows]) + passes * root)
        roots = passes * root * (2 * root_ulps + 0.5)
        limit[1:-1][rows] = UNIT_ROUNDOFF * (sums + roots)

    by_bands(len(start) - 2, start.shape[1], inner)
    return limit


def error_over_bound(g: Grid, reference: Mapping[str, Grid], limit: Grid) -> float:
    """The largest |error| / bound; infinite where a border changed, NaN where anything is NaN."""
    right = reference["g"]
    if g.shape != right.shape:
        raise ValueError(f"g must be {right.shape}, not {g.shape}")
    border = np.abs(g[[0, -1]] - right[[0, -1]]).max()

    def inner(rows: slice) -> float:
        return float(np.max(np.abs(g[1:-1][rows] - right[1:-1][rows]) / limit[1:-1][rows]))

    largest = float(np.max(by_bands(len(g) - 2, g.shape[1], inner)))
    return largest if border == 0 else float("nan") if np.isnan([border, largest]).any() else float("inf")


def mean_square(
    g: Grid, reference: Mapping[str, Grid], start: Grid, passes: int, root_rms: float = ROOT_ULPS / 2
) -> float:
    """Root mean square error of the inner rows over what is allowed: right where it is <= 1. NaN where anything is NaN.

    As in `bound`, of sums |g| + k root in pass k. Each adds the same root, so its roundings go one way while the sum keeps its
    exponent, and differ from element to element: uniform over a spacing, u / sqrt(3) of the sum at most. `root_rms` is the root
    mean square error of a root, in unit roundoffs: of one that is off by ROOT_ULPS at most, half of that number.
    """

    def inner(rows: slice) -> tuple[float, float]:
        root, first = reference["root"][1:-1][rows], start[1:-1][rows]
        error = g[1:-1][rows] - reference["g"][1:-1][rows]
        sums = np.abs(first) + (passes + 1) / 2 * root
        expected = UNIT_ROUNDOFF * passes * (sums / math.sqrt(3) + root_rms * root)
        return float(np.square(error).sum()), float(np.square(expected).sum())

    squares, expected = np.sum(by_bands(len(g) - 2, g.shape[1], inner), axis=0) / g[1:-1].size
    return mean_square_over(squares, expected, g[1:-1].size)
