"""Finds labs by name. A lab is a package in one of the folders of `roofbook.labs`, or an installed one; there is no list."""

import contextlib
import importlib
import os
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from .. import labs
from ..ctrl_c import is_ctrl_c
from ..errors import UsageError, UserFacingError, one_of
from ..paths import project_root

if TYPE_CHECKING:
    from .lab import Lab

PEAKS = "peaks"
"""Name of the lab that measures the device itself: its rows are the peaks in the bounds of the other labs."""


def _places() -> dict[str, list[Path]]:
    """Return name -> folders of all labs that have it, the one that Python imports first. An installed lab may be broken."""
    places: dict[str, list[Path]] = {}
    for folder in labs.__path__:
        for file in Path(folder).glob("*/__init__.py"):
            places.setdefault(file.parent.name, []).append(file.parent)
    for name, entry in labs.entries().items():
        same = places.setdefault(name, [])
        with contextlib.suppress(Exception):  # importing the lab says why
            same.append(labs.folder_of(entry))
    return {
        name: list({folder.resolve(): folder for folder in reversed(same)}.values())[::-1]
        for name, same in places.items()
    }


def folders() -> dict[str, Path]:
    """Return name -> folder of each lab, PEAKS included. If two have one name, it is the folder that Python imports."""
    return {name: same[0] for name, same in _places().items() if same}


def useless_folders() -> str:
    """Return a message about folders of ROOFBOOK_LABS that are missing or hold no lab; '' if all hold labs."""
    named = [Path(folder) for folder in labs.__path__[1:]]
    missing = [str(folder) for folder in named if not folder.is_dir()]
    labless = [str(folder) for folder in named if folder.is_dir() and not any(folder.glob("*/__init__.py"))]
    messages = [f"ROOFBOOK_LABS names no folder: {', '.join(missing)}"] * bool(missing)
    right = "it is to hold a folder for each lab, with __init__.py"
    messages += [f"ROOFBOOK_LABS names a folder without labs: {', '.join(labless)}; {right}"] * bool(labless)
    return "; ".join(messages)


def names() -> list[str]:
    """Return the names of all labs but PEAKS, in alphabetical order."""
    return sorted(_places().keys() - {PEAKS})


def names_with_peaks() -> list[str]:
    """Return the names of all labs in alphabetical order, then PEAKS."""
    return [*names(), PEAKS]


def names_of_site() -> list[str]:
    """Return the names of the labs that the site of the project around the current folder shows: its own, if it has some."""
    return names_in(project_root() / "labs") or names()


def names_in(folder: Path) -> list[str]:
    """Return the names of the labs in a folder that holds labs, in alphabetical order."""
    return sorted(name for name, places in _places().items() if any(place.parent == folder for place in places))


def environment() -> dict[str, str]:
    """Return the environment variables with which a process in another folder finds the same labs."""
    return {"ROOFBOOK_LABS": os.pathsep.join(labs.__path__[1:])}


@lru_cache
def get(name: str) -> "Lab":
    """Import the lab of a name, PEAKS included. Raise UsageError if no lab has this name, or if its code has a mistake."""
    places = _places()
    if name not in places:
        if useless := useless_folders():
            raise UsageError(f"there is no lab {name!r}; {useless}")
        raise one_of("lab", name, [*names(), PEAKS])
    if len(places[name]) > 1:
        first, second, *_ = places[name]
        raise UsageError(f"lab {name} in {second} has the name of the lab in {first}: rename its folder and the lab")
    try:
        folder = places[name][0] if places[name] else labs.folder_of(labs.entries()[name])
    except Exception as error:
        raise UsageError(f"lab {name}: {_message(error)}") from error
    try:
        lab: Lab = importlib.import_module(f"{labs.__name__}.{name}").LAB
        _check(lab)
        if lab.name != name:
            right = f"a lab is named as its folder is, {name!r}, since its rows and pages are kept under that name"
            raise ValueError(f"it calls itself {lab.name!r}; {right}")
    except UserFacingError as error:
        raise UsageError(f"lab {name}: {_line_of(error, folder)}{error}") from error
    except Exception as error:
        if is_ctrl_c(error):
            raise
        raise UsageError(f"lab {name} in {folder}: {_line_of(error, folder)}{_message(error)}") from error
    return lab


def usable() -> "tuple[list[Lab], list[str]]":
    """Return all labs but PEAKS, in alphabetical order, and a message for each that has a mistake."""
    usable_labs, errors = [], []
    for name in names():
        try:
            usable_labs.append(get(name))
        except UsageError as error:
            errors.append(str(error))
    return usable_labs, errors


def _check(lab: "Lab") -> None:
    """Raise ValueError for two variants of one name, a parent that is no variant, and a plan that is none or lacks a method."""
    from collections import Counter

    from .plan import Plan

    names = Counter(variant.name for variant in lab.all_variants())
    if repeated := [name for name, times in names.items() if times > 1]:
        raise ValueError(f"two variants are named {', '.join(repeated)}")
    if orphans := [f"{v.parent!r} of {v.name}" for v in lab.ladder if v.parent and v.parent not in names]:
        raise ValueError(f"no variant is the parent {', '.join(orphans)}")
    for variant in lab.all_variants():
        where = f"{getattr(variant.plan, '__qualname__', repr(variant.plan))}, the plan of {variant.name},"
        if not (isinstance(variant.plan, type) and issubclass(variant.plan, Plan)):
            raise ValueError(f"{where} is no class that derives from roofbook.spec.plan.Plan")
        if lacks := sorted(variant.plan.__abstractmethods__):
            raise ValueError(f"{where} lacks {', '.join(lacks)}: roofbook.spec.plan.Plan says what each returns")


def _line_of(error: BaseException, folder: Path) -> str:
    """Return the last line of a lab's code in the traceback, such as `ladder.py, line 40: `; '' if it has none."""
    import traceback

    if isinstance(error, SyntaxError):
        return f"{Path(error.filename or '?').name}, line {error.lineno}: "
    lines = [
        frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).is_relative_to(folder)
    ]
    return f"{Path(lines[-1].filename).name}, line {lines[-1].lineno}: " if lines else ""


def _message(error: Exception) -> str:
    """Return an error's message in one line, with the error's type unless it is ValueError."""
    words = " ".join(str(error.msg if isinstance(error, SyntaxError) else error).split())
    return words if isinstance(error, ValueError) else f"{type(error).__name__}: {words}"
