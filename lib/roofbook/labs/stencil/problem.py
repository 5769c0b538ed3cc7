"""The problem: g += 1/sqrt(r above + b below), pass after pass. Its inputs, its float64 answer and the bounds of its error."""

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
"""Allowed error of an inverse root, in ulps: the tables of OpenCL and CUDA give 2 for rsqrt, and 1/sqrt rounds twice."""

PUBLISHED_PASSES = 23
"""Number of passes of a run."""

WIDE_OCTAVES = 10
"""Powers of two to either side of 1 over which r and b are spread when a variant is verified on small cases."""


def inputs(height: int, width: int, seed: int) -> dict[str, NDArray[np.float32]]:
    """Draw r and b uniformly from [0.25, 4), and g from N(0, 1): float32 (height, width)."""
    r, b, g = (np.empty((height, width), np.float32) for _ in range(3))

    def draw(rows: slice) -> None:
        random = np.random.default_rng((seed, rows.start))
        for grid in (r, b):
            grid[rows] = 0.25 + np.float32(3.75) * random.random(grid[rows].shape, np.float32)
        random.standard_normal(dtype=np.float32, out=g[rows])

    by_bands(height, width, draw)
    return {"r": r, "b": b, "g": g}


def widened(grids: Mapping[str, Grid], largest_size: int = 1 << 21) -> dict[str, Grid]:
    """Return inputs with about half of the elements of r and b far from 1; grids of more than `largest_size` stay as they are.

    A small r + b has a large root, whose error shows most. It also shows a constant that a kernel adds to r + b by mistake.
    """
    if grids["r"].size > largest_size:
        return dict(grids)
    random = np.random.default_rng(grids["r"].size)
    spread = dict(grids)
    for name in ("r", "b"):
        grid = grids[name].copy()
        chosen = random.random(grid.shape) < 0.5
        grid[chosen] = np.exp2(random.uniform(-WIDE_OCTAVES, WIDE_OCTAVES, grid.shape))[chosen]
        spread[name] = grid
    return spread


def reference(r: Grid, b: Grid, g: Grid, passes: int) -> dict[str, Grid]:
    """Return `g` after so many passes, and `root`, the addend of each pass (0 on the first and last row): float64."""
    root, after = np.zeros(g.shape), np.array(g, np.float64)

    def inner(rows: slice) -> None:
        np.sqrt(r[:-2][rows].astype(np.float64) + b[2:][rows], out=root[1:-1][rows])
        np.divide(1, root[1:-1][rows], out=root[1:-1][rows])
        after[1:-1][rows] += passes * root[1:-1][rows]

    by_bands(len(g) - 2, g.shape[1], inner)
    return {"g": after, "root": root}


def bound(reference: Mapping[str, Grid], start: Grid, passes: int, root_ulps: float = ROOT_ULPS) -> Grid:
    """Return the largest allowed error of each element in fp32; 0 on the first and last row, which no pass may touch.

    Each pass rounds once, a sum no larger than |g| + passes * root. The root that it adds is off by `root_ulps`, and by half
    the relative error of the rounded r + b.
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
    """Return the largest |error| / bound: infinite if a border changed, NaN if anything is NaN."""
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
    """Return the root mean square error of the inner rows over the allowed one: right if it is <= 1, NaN if anything is NaN.

    The roundings are those of `bound`: pass k has the sum |g| + k root. Each pass adds the same root, so an element's roundings
    go one way while its sum keeps its exponent. They differ from element to element: uniform over a spacing, u / sqrt(3) of the
    sum at most. `root_rms` is the root mean square error of a root, in unit roundoffs; by default half of ROOT_ULPS.
    """

    def inner(rows: slice) -> tuple[float, float]:
        root, first = reference["root"][1:-1][rows], start[1:-1][rows]
        error = g[1:-1][rows] - reference["g"][1:-1][rows]
        sums = np.abs(first) + (passes + 1) / 2 * root
        expected = UNIT_ROUNDOFF * passes * (sums / math.sqrt(3) + root_rms * root)
        return float(np.square(error).sum()), float(np.square(expected).sum())

    squares, expected = np.sum(by_bands(len(g) - 2, g.shape[1], inner), axis=0) / g[1:-1].size
    return mean_square_over(squares, expected, g[1:-1].size)
