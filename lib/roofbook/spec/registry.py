"""Finds labs by name. A lab is a package in `roofbook.labs`, so adding one touches no list."""

import importlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .. import labs
from ..errors import one_of

if TYPE_CHECKING:
    from .lab import Lab

PEAKS = "peaks"
"""The lab that measures the device itself: its rows are the peaks under which the other labs' times stand."""


def names() -> list[str]:
    """Names of all labs but PEAKS, in alphabetical order."""
    found = {file.parent.name for folder in labs.__path__ for file in Path(folder).glob("*/__init__.py")}
    return sorted(found - {PEAKS})


@lru_cache
def get(name: str) -> "Lab":
    """The lab of that name, PEAKS included. Errors: UsageError for a name that no lab has."""
    if name not in (*names(), PEAKS):
        raise one_of("lab", name, [*names(), PEAKS])
    lab: Lab = importlib.import_module(f"{labs.__name__}.{name}").LAB
    return lab
