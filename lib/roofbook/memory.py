"""How a process treats memory that it needs no more: seldom looked for, and kept. For processes that do one thing, and end."""

import contextlib
import ctypes
import gc

THRESHOLDS = 200_000, 20, 100
"""Objects, and collections of the younger generation, after which Python looks through a generation. By its own it would do so
every few hundred objects, and spend a tenth of the time on it; these cost a few megabytes."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""Of glibc's mallopt."""


def collect_seldom() -> None:
    """Look for garbage in cycles seldom from now on, in all of this process."""
    gc.set_threshold(*THRESHOLDS)


def keep_freed() -> None:
    """Let memory that is freed stay with the process: to be given pages anew takes longer than to check an array. By glibc."""
    with contextlib.suppress(OSError, AttributeError):
        allocator = ctypes.CDLL(None)
        allocator.mallopt(M_MMAP_THRESHOLD, 1 << 30)
        allocator.mallopt(M_TRIM_THRESHOLD, (1 << 31) - 1)
