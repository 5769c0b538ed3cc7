"""Finds labs by name. A lab is a package in `roofbook.labs`, so adding one touches no list."""

import importlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .. import labs
from ..errors import one_of

if TYPE_CHECKING:
    from .lab import Lab

PEAKS = "peaks"
"""The lab that measures the device itself: its rows are the peaks under which the other labs' times stand."""


def folders() -> dict[str, Path]:
    """The folder of each lab by its name, PEAKS included: of two with one name that which Python imports."""
    found: dict[str, Path] = {}
    for place in labs.__path__:
        for file in Path(place).glob("*/__init__.py"):
            found.setdefault(file.parent.name, file.parent)
    return found


def names() -> list[str]:
    """Names of all labs but PEAKS, in alphabetical order."""
    return sorted(folders().keys() - {PEAKS})


def environment() -> dict[str, str]:
    """What a process that starts in another folder needs to find the same labs."""
    return {"ROOFBOOK_LABS": os.pathsep.join(labs.__path__[1:])}


@lru_cache
def get(name: str) -> "Lab":
    """The lab of that name, PEAKS included. Errors: UsageError for a name that no lab has."""
    if name not in (*names(), PEAKS):
        raise one_of("lab", name, [*names(), PEAKS])
    lab: Lab = importlib.import_module(f"{labs.__name__}.{name}").LAB
    return lab
