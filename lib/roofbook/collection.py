"""How often Python looks for garbage in cycles: seldom, in a process that reads a store and draws pages, and then ends."""

import gc

THRESHOLDS = 200_000, 20, 100
"""Objects, and collections of the younger generation, after which Python looks through a generation. By its own it would do so
every few hundred objects, and spend a tenth of the time on it; these cost a few megabytes."""


def seldom() -> None:
    """Collect garbage seldom from now on, in all of this process."""
    gc.set_threshold(*THRESHOLDS)
