"""The host's processors, as this process may use them."""

import os


def processors() -> int:
    """Return how many processors this process may use: inside most containers and jobs fewer than the host has."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processors_of_this_process() -> set[int] | None:
    """Return the numbers of the processors that this process may use; None if the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
