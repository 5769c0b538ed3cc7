"""The labs: each folder here that holds a package is one, and `peaks` measures the device itself.

Labs of your own may lie elsewhere: in the folder labs/ of a project, in folders that ROOFBOOK_LABS names, separated as in PATH,
and in installed packages, whose entry points of the group `roofbook.labs` name them.
"""

import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from ..paths import project_root

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "roofbook.labs"
"""Group of entry points. The name of one is its lab's, and its value the lab's package: `saxpy = "my_package.saxpy"`."""


def _folders_elsewhere() -> list[str]:
    """Return the folders that ROOFBOOK_LABS names, and that of the project around the current folder if it has labs."""
    named = [name for name in os.environ.get("ROOFBOOK_LABS", "").split(os.pathsep) if name]
    folders = [os.path.abspath(os.path.expanduser(name)) for name in named]
    try:
        own = project_root() / "labs"
    except OSError:  # the current folder was removed
        return folders
    return list(dict.fromkeys([*folders, str(own)] if any(own.glob("*/__init__.py")) else folders))


@cache
def entries() -> dict[str, "EntryPoint"]:
    """Return the entry points of installed labs by name."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def folder_of(entry: "EntryPoint") -> Path:
    """Return the folder of an installed lab. Raise ImportError if there is none."""
    from importlib.util import find_spec

    spec = find_spec(entry.module)
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"{entry.module!r}, which its entry point names, is no installed package")
    return Path(next(iter(spec.submodule_search_locations)))


class _InstalledLabs:
    """Imports an installed lab as roofbook.labs.NAME, as all others are imported."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        package, _, lab = name.rpartition(".")
        if package != __name__ or lab not in entries():
            return None
        from importlib.util import spec_from_file_location

        folder = folder_of(entries()[lab])
        return spec_from_file_location(name, folder / "__init__.py", submodule_search_locations=[str(folder)])


__path__ = [*__path__, *_folders_elsewhere()]
sys.meta_path.append(_InstalledLabs)  # after Python's own: a lab in one of the folders comes first
