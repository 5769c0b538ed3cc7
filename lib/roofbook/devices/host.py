"""The host's processors, as this process may use them, and its standard error while a driver is at work."""

import os
from collections.abc import Iterator
from contextlib import contextmanager


def processors() -> int:
    """Return how many processors this process may use: inside most containers and jobs fewer than the host has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processors_of_this_process() -> set[int] | None:
    """Return the numbers of the processors that this process may use; None if the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None


@contextmanager
def quiet() -> Iterator[None]:
    """Silence drivers that print to file descriptor 2; their errors are in exceptions."""
    stderr_copy = os.dup(2)
    try:
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        os.dup2(stderr_copy, 2)
        os.close(stderr_copy)
