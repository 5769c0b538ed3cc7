"""Runs NumPy on all cores, by bands of rows. Serves references and checks of grids that no cache holds."""

from collections.abc import Callable
from typing import TypeVar

from ..devices.host import processors

T = TypeVar("T")
ELEMENTS = 1 << 17
"""Approximate elements of a band: a handful of float64 arrays of this size fit into a core's second-level cache or nearly."""


def by_bands(height: int, width: int, work: Callable[[slice], T]) -> list[T]:
    """Call `work(rows)` for each band of rows of a grid, in threads, and return the results in the order of the rows.

    Matrix products take one thread within a band: threads of NumPy's library would wait for each other in a loop.
    """
    rows = max(1, ELEMENTS // max(width, 1))
    slices = [slice(start, min(start + rows, height)) for start in range(0, height, rows)]
    if len(slices) == 1:
        return [work(slices[0])]
    from concurrent.futures import ThreadPoolExecutor

    from threadpoolctl import threadpool_limits

    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(processors()) as pool:
        return list(pool.map(work, slices))
