"""CSV files of tables in a site: a table holds its CSV as a data: address, which would make pages large.

Output of a device may be brought by a script to pages in different folders. So links to the files
begin with SITE until `with_root` or book/_assets/devices-of-page.js replaces it by the path to the site's root.
"""

import re
import shutil
from collections.abc import Collection, Mapping
from html import unescape
from pathlib import Path
from urllib.parse import quote, unquote

from ..paths import write_whole

FOLDER = "tables"
"""Folder in the site."""
DRAWN = Path("_build", "tables")
"""Folder of recorded devices' files in a checkout, with one folder per lab and in it one per device."""
SITE = "site:/"

_LINK = re.compile(r'download="([^"]*)\.csv" href="data:text/csv;charset=utf-8,([^"]*)"')


def split_files(html: str, *folders: str) -> tuple[str, dict[str, str]]:
    """Return HTML whose tables link to files in FOLDER/`folders`, and these files by name, which begins with the folders'
    names.
    """
    files: dict[str, str] = {}
    lead = "".join(f"{name}-" for name in folders)

    def link(match: re.Match[str]) -> str:
        text, number = unquote(unescape(match[2])), 1
        while files.setdefault(name := f"{lead}{match[1]}{f'-{number}' * (number > 1)}.csv", text) != text:
            number += 1
        return f'download href="{SITE}{quote("/".join((FOLDER, *folders, name)))}"'

    return _LINK.sub(link, html), files


def split_files_of_cells(cells: Mapping[str, str], *folders: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the cells of a page with links to files in FOLDER/`folders`, by their keys, and these files by name."""
    separator = "<!-- a cell -->"
    html, files = split_files(separator.join(cells.values()), *folders)
    return dict(zip(cells, html.split(separator), strict=True)) if cells else {}, files


def with_root(html: str, to_root: str) -> str:
    """Return HTML with the links of a page from which `to_root`, such as '../', leads to the site's root."""
    return html.replace(f'href="{SITE}', f'href="{to_root}')


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write these files into a folder and remove all other CSV files. Unchanged files keep their time."""
    for old in folder.glob("*.csv"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        if not (path := folder / name).exists() or path.read_text(encoding="utf-8") != text:
            write_whole(path, text)


def keep_only(root: Path, lab: str, devices: Collection[str]) -> None:
    """Remove the files of a lab on other devices."""
    for folder in (root / DRAWN / lab).glob("*"):
        if folder.name not in devices:
            shutil.rmtree(folder)


def copy_files(root: Path, site: Path) -> None:
    """Copy changed files of recorded devices into the site."""
    for path in (root / DRAWN).rglob("*.csv"):
        target = site / FOLDER / path.relative_to(root / DRAWN)
        if not target.exists() or _stamp(target) != _stamp(path):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, target)


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_mtime_ns, stat.st_size
