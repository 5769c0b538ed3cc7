"""Helpers for tests of other processes: read a process's state, and wait for one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 500.0
"""Seconds after which a process counts as hanging; a slow one is never so slow."""


def state(process: int) -> str:
    """Return the state of a process as Linux names it: `T` is stopped, `Z` and `X` are dead."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def has_ended(process: int) -> bool:
    """Return whether a process is dead or gone. Between two looks at it the system may have removed it."""
    try:
        return state(process) in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds, and fail the test after PATIENCE_S. The limit is far above any slow machine's time."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)
