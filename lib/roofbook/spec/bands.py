"""NumPy by bands of rows, on all cores: references and checks of grids that no cache holds."""

from collections.abc import Callable
from typing import TypeVar

from ..devices.host import processors

T = TypeVar("T")
ELEMENTS = 1 << 17
"""Of a band, about: a handful of float64 arrays of that size stay in a core's second-level cache or near it."""


def by_bands(height: int, width: int, work: Callable[[slice], T]) -> list[T]:
    """`work(rows)` for bands that together are all rows of a grid, in their order; NumPy lets other threads run meanwhile."""
    rows = max(1, ELEMENTS // max(width, 1))
    slices = [slice(start, min(start + rows, height)) for start in range(0, height, rows)]
    if len(slices) == 1:
        return [work(slices[0])]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(processors()) as pool:
        return list(pool.map(work, slices))
