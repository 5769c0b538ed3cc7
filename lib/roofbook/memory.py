"""Garbage collection and freed memory of processes that do one thing and end: collected seldom, kept in the process."""

import contextlib
import ctypes
import gc

THRESHOLDS = 200_000, 20, 100
"""Arguments of gc.set_threshold. By default Python collects every few hundred objects, which takes a tenth of the time; these
thresholds cost a few megabytes."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Parameters of glibc's mallopt."""


def collect_seldom() -> None:
    """Have this process collect cyclic garbage seldom."""
    gc.set_threshold(*THRESHOLDS)


def keep_freed() -> None:
    """Have glibc keep freed memory in the process: new pages from the system take longer than to check an array."""
    with contextlib.suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        allocator.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
