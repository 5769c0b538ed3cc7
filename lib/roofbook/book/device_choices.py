"""Devices that readers of a lab's pages can choose, with the output of each page on each device: files in _build/recorded.

Each lab has a folder with `index.json`, the list of recorded devices, and a folder for each of its pages. That holds one script
for each device, which a browser loads when a reader chooses it, and one for the machine that executed the notebook. Output of
other cases than the main one has a script for each device and case.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..escaping import script_json
from ..paths import write_whole
from .case_markup import split_cases
from .lab_pages import STORY, pages_of
from .notebook_cells import key_of

FOLDER = Path("_build", "recorded")


LARGE = "/large"
"""End of the name of a device at the large sizes."""


class DeviceChoice(NamedTuple):
    """A device by a backend at a scale, as an option for readers of a lab's page."""

    name: str
    """Name in addresses, such as `nvidia-h200/cuda`, with `/large` for the large sizes."""
    label: str

    @property
    def script(self) -> str:
        """Name of the device's script."""
        return f"{self.stem}.js"

    def script_of(self, case: str) -> str:
        """Return the name of the script for one case: cases other than the main one may be too large for the device's
        script.
        """
        return f"{self.stem}.{re.sub(r'[^a-zA-Z0-9-]+', '_', case)}.js"

    @property
    def stem(self) -> str:
        """Name of its files, without an ending."""
        return self.name.replace("/", ".")


HERE = DeviceChoice("here", "This machine")
"""Choice of the machine that executed the notebook."""


def choices(root: Path, lab: str) -> list[DeviceChoice]:
    """Return the recorded devices of a lab, the best first; empty if nothing is recorded or drawn yet."""
    try:
        rows = json.loads((root / FOLDER / lab / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [DeviceChoice(*row) for row in rows]


def page_cells(root: Path, lab: str, choice: DeviceChoice, page: str = STORY) -> dict[str, str]:
    """Return the HTML of each cell of a lab's page on a device, by the cell's key."""
    text = (root / FOLDER / lab / page / choice.script).read_text(encoding="utf-8")
    cells: dict[str, str] = json.loads(f"[{text[text.index('(') + 1 : text.rindex(')')]}]")[2]
    return cells


def show_script(lab: str, name: str, cells: Mapping[str, str]) -> str:
    """Return the script that puts a device's output into the cells of a page.

    A page opened as a file can load scripts, but no data.
    """
    return f"roofbookShow({script_json(lab, name, dict(cells))});\n"


def write_scripts(
    root: Path, lab: str, choice: DeviceChoice, notebook: Mapping[str, Any], html_by_key: Mapping[str, str]
) -> list[Path]:
    """Write the output of each page of a lab's notebook on a device; return the paths.

    Each page has a script, and one more for each case that is not the main one. html_by_key: HTML of the cells.
    """
    by_page: dict[str, dict[str, str]] = {STORY: {}}
    for page, cell in pages_of(notebook["cells"]):
        if (key := key_of(cell)) in html_by_key:
            by_page.setdefault(page, {})[key] = html_by_key[key]
    written = {}
    for page, html_of_page in by_page.items():
        folder = root / FOLDER / lab / page
        has_main = any(" data-main" in html for html in html_of_page.values())  # the main case stays in the page
        cells, html_by_case = split_cases(html_of_page, choice.script_of, every_case=has_main)
        written[folder / choice.script] = show_script(lab, choice.name, cells)
        for case, placeholders in html_by_case.items():
            arguments = script_json(lab, choice.name, case, placeholders)
            written[folder / choice.script_of(case)] = f"roofbookShowCase({arguments});\n"
    for path, text in written.items():
        write_whole(path, text)
    return list(written)


def local_choice(root: Path, lab: str, page: str = STORY) -> DeviceChoice | None:
    """Return the choice of the machine that executed the notebook; None if none has, or if no device is recorded."""
    return HERE if (root / FOLDER / lab / page / HERE.script).exists() and choices(root, lab) else None


def copy_scripts(root: Path, target: Path) -> None:
    """Copy changed scripts of devices into the site."""
    for path in (root / FOLDER).glob("*/*/*.js"):
        copy = target / path.relative_to(root / FOLDER)
        if not copy.exists() or (copy.stat().st_mtime_ns, copy.stat().st_size) != (
            path.stat().st_mtime_ns,
            path.stat().st_size,
        ):
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
