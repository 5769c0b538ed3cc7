"""Devices that readers of a lab's pages can choose, and the output of the lab's notebook on each of them.

_build/recorded has a folder for each lab, with `index.json`, the list of recorded devices, and for each of them a file with the
HTML of all cells, by the cell's key. The output on the machine that executed the notebook is in the executed notebook.
"""

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..escaping import file_name, script_json
from .notebook_cells import executed_cells

FOLDER = Path("_build", "recorded")
SCRIPTS = "_static/on-devices"
"""Folder of the site with a folder for each lab, and in it one for each page with the scripts of the devices."""
LARGE = "/large"
"""End of the name of a device at the large sizes."""


class DeviceChoice(NamedTuple):
    """A device by a backend at a scale, as an option for readers of a lab's page."""

    name: str
    """Name in addresses, such as `nvidia-h200/cuda`, with `/large` for the large sizes."""
    label: str

    @property
    def stem(self) -> str:
        """Name of its files, without an ending."""
        return self.name.replace("/", ".")

    @property
    def script(self) -> str:
        """Name of the script with the cells of a page on this device."""
        return f"{self.stem}.js"

    def script_of(self, case: str) -> str:
        """Return the name of the script with the parts of a page that belong to another case than the main one."""
        return f"{self.stem}.{file_name(case)}.js"


HERE = DeviceChoice("here", "This machine")
"""Choice of the machine that executed the notebook."""


def recorded_choices(root: Path, lab: str) -> list[DeviceChoice]:
    """Return the recorded devices of a lab, the best first; empty if nothing is recorded or drawn yet."""
    try:
        rows = json.loads((root / FOLDER / lab / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [DeviceChoice(*row) for row in rows]


def choices(root: Path, lab: str) -> list[DeviceChoice]:
    """Return the recorded devices of a lab, and this machine if it has executed the notebook."""
    return [*recorded_choices(root, lab), *([HERE] if raw_cells(root, lab, HERE) else [])]


def cells_file(root: Path, lab: str, choice: DeviceChoice) -> Path:
    """Return the file with the output of a lab's notebook on a device; it may not exist."""
    if choice != HERE:
        return root / FOLDER / lab / f"{choice.stem}.json"
    page_of_lab, other_page = root / "book" / "labs" / f"{lab}.ipynb", root / "book" / f"{lab}.ipynb"
    return other_page if other_page.exists() else page_of_lab


def raw_cells(root: Path, lab: str, choice: DeviceChoice) -> dict[str, str]:
    """Return the HTML that each cell of a lab's notebook outputs on a device, by the cell's key; empty without a file."""
    path = cells_file(root, lab, choice)
    return _read(path, path.stat().st_mtime_ns) if path.exists() else {}


@lru_cache(maxsize=32)
def _read(path: Path, written: int) -> dict[str, str]:
    content = json.loads(path.read_text(encoding="utf-8"))
    cells: dict[str, str] = executed_cells(content) if path.suffix == ".ipynb" else content
    return cells


def cells_script(name: str, places: Mapping[str, str]) -> str:
    """Return the script of a name that brings the HTML of places: a page opened as a file can load scripts, but no data."""
    return f"roofbookCells({script_json(name, dict(places))});\n"


def script_places(path: Path) -> dict[str, str]:
    """Return the HTML by place that a script brings; empty without a script."""
    if not path.exists():
        return {}
    text = path.read_text(encoding="utf-8")
    places: dict[str, str] = json.loads(f"[{text[text.index('(') + 1 : text.rindex(')')]}]")[1]
    return places
