"""What tests ask of other processes: their state, and to reach one."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 500.0


def state(process: int) -> str:
    """As the system has it: `T` for one that is stopped, `Z` for one that has died."""
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]


def until(condition: Callable[[], bool]) -> None:
    """Wait until it is so; a test fails where it does not come to pass. The limit is for what hangs, not for what is slow."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it did not come to pass"
        time.sleep(0.01)
