"""The host's processors, as this process may use them."""

import os


def processors() -> int:
    """How many this process may use: fewer than there are inside most containers and jobs."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def processors_of_this_process() -> set[int] | None:
    """The numbers of those; None where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
