"""Finds labs by name. A lab is a package in `roofbook.labs`, so adding one touches no list."""

import importlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .. import labs
from ..errors import UsageError, UserFacingError, is_ctrl_c, one_of

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


def useless_folders() -> str:
    """Return what is wrong with folders that ROOFBOOK_LABS names: they are not there, or hold no lab; '' for none."""
    named = [Path(place) for place in labs.__path__[1:]]
    missing = [str(place) for place in named if not place.is_dir()]
    labless = [str(place) for place in named if place.is_dir() and not any(place.glob("*/__init__.py"))]
    said = [f"ROOFBOOK_LABS names no folder: {', '.join(missing)}"] * bool(missing)
    right = "it is to hold a folder for each lab, with __init__.py"
    said += [f"ROOFBOOK_LABS names a folder without labs: {', '.join(labless)}; {right}"] * bool(labless)
    return "; ".join(said)


def names() -> list[str]:
    """Names of all labs but PEAKS, in alphabetical order."""
    return sorted(folders().keys() - {PEAKS})


def environment() -> dict[str, str]:
    """What a process that starts in another folder needs to find the same labs."""
    return {"ROOFBOOK_LABS": os.pathsep.join(labs.__path__[1:])}


@lru_cache
def get(name: str) -> "Lab":
    """The lab of that name, PEAKS included. Errors: UsageError for a name that no lab has, and for one that cannot be read."""
    known = folders()
    if name not in known:
        if useless := useless_folders():
            raise UsageError(f"there is no lab {name!r}; {useless}")
        raise one_of("lab", name, [*names(), PEAKS])
    try:
        lab: Lab = importlib.import_module(f"{labs.__name__}.{name}").LAB
        _check(lab)
        if lab.name != name:
            right = f"a lab is named as its folder is, {name!r}, since its rows and pages are kept under that name"
            raise ValueError(f"it calls itself {lab.name!r}; {right}")
    except UserFacingError as error:
        raise UsageError(f"lab {name}: {_where(error, known[name])}{error}") from error
    except Exception as error:
        if is_ctrl_c(error):
            raise
        raise UsageError(f"lab {name} in {known[name]}: {_where(error, known[name])}{_said(error)}") from error
    return lab


def _check(lab: "Lab") -> None:
    """ValueError for names that stand for nothing, or for two things."""
    from collections import Counter

    variants = lab.all_variants()
    names = Counter(each.name for each in variants)
    if twice := [name for name, times in names.items() if times > 1]:
        raise ValueError(f"two variants are named {', '.join(twice)}")
    if lost := [f"{each.parent!r} of {each.name}" for each in lab.ladder if each.parent and each.parent not in names]:
        raise ValueError(f"no variant is the parent {', '.join(lost)}")


def _where(error: BaseException, folder: Path) -> str:
    """The lab's own line where it came to that: `ladder.py, line 40: `."""
    import traceback

    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '?').name}, line {error.lineno}: "
    lines = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(folder)
    ]
    return f"{Path(lines[-1].filename).name}, line {lines[-1].lineno}: " if lines else ""


def _said(error: Exception) -> str:
    words = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return words if isinstance(error, ValueError) else f"{type(error).__name__}: {words}"
