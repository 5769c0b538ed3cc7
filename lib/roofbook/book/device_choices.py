"""The devices that a reader of a lab's pages may choose, and what each page shows on each: files in _build/recorded.

Of a lab that is a folder with `index.json`, which lists the recorded devices, and a folder for each of its pages. In that is a
script for each device, which a browser loads when a reader chooses it, and one for the machine that executed the notebook. What
is of one case each and comes with no page has a script for each device and case.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..escaping import script_json
from ..paths import write_whole
from .case_markup import others_apart
from .lab_pages import STORY, pages_of
from .notebook_cells import key_of

FOLDER = Path("_build", "recorded")


LARGE = "/large"
"""How the name ends of a device at the large sizes."""


class DeviceChoice(NamedTuple):
    """A device by a backend at a scale, as the reader of a lab's page may choose it."""

    name: str
    """In addresses, such as `nvidia-h200/cuda`, with `/large` where the sizes are the large ones."""
    label: str

    @property
    def script(self) -> str:
        """Its file."""
        return f"{self.stem}.js"

    def script_of(self, case: str) -> str:
        """The file of what a page shows of another case than the main one, where that is too much to come with the rest."""
        return f"{self.stem}.{re.sub(r'[^a-zA-Z0-9-]+', '_', case)}.js"

    @property
    def stem(self) -> str:
        """The name of its files."""
        return self.name.replace("/", ".")


HERE = DeviceChoice("here", "This machine")
"""The machine that executed the notebook."""


def choices(root: Path, lab: str) -> list[DeviceChoice]:
    """Those of a lab, the best first; none where nothing is recorded, or nothing is drawn yet."""
    try:
        listed = json.loads((root / FOLDER / lab / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return [DeviceChoice(*each) for each in listed]


def shown(root: Path, lab: str, choice: DeviceChoice, page: str = STORY) -> dict[str, str]:
    """By the key of a cell of a lab's page, what it shows there."""
    text = (root / FOLDER / lab / page / choice.script).read_text(encoding="utf-8")
    found: dict[str, str] = json.loads(f"[{text[text.index('(') + 1 : text.rindex(')')]}]")[2]
    return found


def script(lab: str, name: str, cells: Mapping[str, str]) -> str:
    """What a browser runs to have the cells of a page as they are on a device. A page of a folder may load it, unlike data."""
    return f"roofbookShow({script_json(lab, name, dict(cells))});\n"


def write_scripts(
    root: Path, lab: str, choice: DeviceChoice, notebook: Mapping[str, Any], shown: Mapping[str, str]
) -> list[Path]:
    """Write what each page of a lab's notebook shows on a device, by the keys of its cells: a script a page, and one for each
    case that is not the main one. Returns where.
    """
    by_page: dict[str, dict[str, str]] = {STORY: {}}
    for page, cell in pages_of(notebook["cells"]):
        if (key := key_of(cell)) in shown:
            by_page.setdefault(page, {})[key] = shown[key]
    written = {}
    for page, whole in by_page.items():
        folder = root / FOLDER / lab / page
        main = any(" data-main" in html for html in whole.values())  # which stays, so that there is something to see
        cells, of_case = others_apart(whole, choice.script_of, whole=main)
        written[folder / choice.script] = script(lab, choice.name, cells)
        for case, places in of_case.items():
            told = script_json(lab, choice.name, case, places)
            written[folder / choice.script_of(case)] = f"roofbookShowCase({told});\n"
    for path, text in written.items():
        write_whole(path, text)
    return list(written)


def on_this_machine(root: Path, lab: str, page: str = STORY) -> DeviceChoice | None:
    """The choice of the machine that executed the notebook; None where none has, or no device is recorded beside it."""
    return HERE if (root / FOLDER / lab / page / HERE.script).exists() and choices(root, lab) else None


def copy_scripts(root: Path, target: Path) -> None:
    """Copy the devices' scripts into the site, where they changed."""
    for path in (root / FOLDER).glob("*/*/*.js"):
        to = target / path.relative_to(root / FOLDER)
        if not to.exists() or (to.stat().st_mtime_ns, to.stat().st_size) != (
            path.stat().st_mtime_ns,
            path.stat().st_size,
        ):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
