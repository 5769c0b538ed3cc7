"""The labs: every folder here is one. Found by name, so adding a lab touches no list."""

import importlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import one_of

if TYPE_CHECKING:
    from ..lab import Lab


CEILINGS = "peaks"


def names() -> list[str]:
    """Names of all labs, in alphabetical order."""
    return sorted(file.parent.name for file in Path(__file__).parent.glob("*/__init__.py"))


@lru_cache
def get(name: str) -> "Lab":
    """The lab of that name, or the ceilings by theirs, which are measured like one."""
    if name == CEILINGS:
        from ..peaks import LAB

        return LAB
    if name not in names():
        raise one_of("lab", name, [*names(), CEILINGS])
    lab: Lab = importlib.import_module(f".{name}", __package__).LAB
    return lab
