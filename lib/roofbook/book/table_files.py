"""The CSV of tables as files of a site: a table holds its own as a data: address, which a page need not carry.

A page of the site may lie in a folder, and what it shows on a device may come by a script, which its file's place does not
tell. So a link begins with SITE until `at` or book/_assets/devices-of-page.js puts the way to the site's root in its place.
"""

import re
import shutil
from collections.abc import Collection, Mapping
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote

from ..paths import write_whole

FOLDER = "tables"
"""Of the site."""
DRAWN = Path("_build", "tables")
"""In a checkout, of those on recorded devices: a folder a lab, in it a folder a device."""
SITE = "site:/"

_LINK = re.compile(r'download="([^"]*)\.csv" href="data:text/csv;charset=utf-8,([^"]*)"')


def apart(html: str, *folders: str) -> tuple[str, dict[str, str]]:
    """HTML whose tables link to files in FOLDER/`folders`, and these files by name: it begins with the names of the folders."""
    files: dict[str, str] = {}
    lead = "".join(f"{name}-" for name in folders)

    def linked(found: re.Match[str]) -> str:
        text, number = unquote(unescape(found[2])), 1
        while files.setdefault(name := f"{lead}{found[1]}{f'-{number}' * (number > 1)}.csv", text) != text:
            number += 1
        return f'download href="{SITE}{quote("/".join((FOLDER, *folders, name)))}"'

    return _LINK.sub(linked, html), files


def of_cells(cells: Mapping[str, str], *folders: str) -> tuple[dict[str, str], dict[str, str]]:
    """The same of the cells of a page, by their keys."""
    between = "<!-- a cell -->"
    whole, files = apart(between.join(cells.values()), *folders)
    return dict(zip(cells, whole.split(between), strict=True)) if cells else {}, files


def at(html: str, to_root: str) -> str:
    """HTML on a page from which `to_root`, such as '../', leads to the site's root."""
    return html.replace(f'href="{SITE}', f'href="{to_root}')


def write(folder: Path, files: Mapping[str, str]) -> None:
    """Let a folder hold these files and no others; one that is as it should be stays."""
    for old in folder.glob("*.csv"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        if not (path := folder / name).exists() or path.read_text(encoding="utf-8") != text:
            write_whole(path, text)


def only(root: Path, lab: str, devices: Collection[str]) -> None:
    """Remove what was drawn of a lab on other devices."""
    for folder in (root / DRAWN / lab).glob("*"):
        if folder.name not in devices:
            shutil.rmtree(folder)


def copy(root: Path, site: Path) -> None:
    """The files of recorded devices join the site, where they changed."""
    for path in (root / DRAWN).rglob("*.csv"):
        to = site / FOLDER / path.relative_to(root / DRAWN)
        own, known = path.stat(), to.stat() if to.exists() else None
        if known is None or (known.st_mtime_ns, known.st_size) != (own.st_mtime_ns, own.st_size):
            to.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, to)
