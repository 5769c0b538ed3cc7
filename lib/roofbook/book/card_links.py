"""From each number of the site to the card of its measurement: links, and the files of the cards that join the site.

Part of the site's Sphinx extension. The cards themselves are drawn by measurements.py.
"""

import json
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from html import unescape
from pathlib import Path
from typing import Any

from ..escaping import escape
from ..paths import write_whole
from .device_choices import HERE

FOLDER = Path("_build", "measurements")
CALL = "roofbookCards"
"""What the script of cards calls."""


def files(root: Path) -> list[Path]:
    """Those of all cards."""
    return sorted(path for path in (root / FOLDER).glob("*/*") if path.suffix in (".html", ".js"))


def scripts(root: Path) -> list[Path]:
    """The script of each lab's cards on each device, those of recorded devices first."""
    found = (root / FOLDER).glob("*/*.js")
    return sorted(found, key=lambda path: (path.stem == HERE.name, path))


def drawn(root: Path, lab: str, name: str) -> bool:
    """Whether a lab's cards on a device are there."""
    return all((root / FOLDER / lab / f"{name}.{kind}").exists() for kind in ("js", "html"))


def keep_only(root: Path, lab: str, names: Iterable[str]) -> None:
    """Remove the cards of a lab on other devices than these."""
    kept = {*names, HERE.name}
    for path in (root / FOLDER / lab).glob("*"):
        if path.name.rpartition(".")[0] not in kept:
            path.unlink()


def ids(root: Path, lab: str, name: str) -> frozenset[str]:
    """The measurements of a lab on a device that have a card."""
    path = root / FOLDER / lab / f"{name}.js"
    return _ids(path, path.stat().st_mtime_ns) if path.exists() else frozenset()


@lru_cache(maxsize=64)
def _ids(path: Path, written: int) -> frozenset[str]:
    return frozenset(each["id"] for each in _told(path)["cards"])


def told(root: Path, lab: str, name: str) -> dict[str, Any]:
    """What the script of a lab's cards on a device tells. Errors: OSError where there is none."""
    return _told(root / FOLDER / lab / f"{name}.js")


def _told(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text[len(CALL) + 1 : text.rindex(")")])
    return found


OF = re.compile(r'(<(?:t[dh]|span)\b[^>]*?) data-of="([^"]*)"([^>]*>)([^<]+)')
"""A cell, or a piece of a sentence, that says of which measurement its number is."""


def known(cells: Mapping[str, str], found: Iterable[str]) -> dict[str, str]:
    """Cells' HTML in which only those numbers name a measurement that has a card."""
    names = {escape(each) for each in found}
    return {
        key: OF.sub(lambda match: match[0] if match[2] in names else match[1] + match[3] + match[4], html)
        for key, html in cells.items()
    }


DEVICE = re.compile(r'<div class="device-bar" data-lab="([^"]*)".*?data-script="([^"]*)\.js"', re.S)
"""Of a page of a lab, the bar with the device that it is of."""


def linked(body: str, to_root: str, root: Path, page: str = "") -> str:
    """A page in which each number that names a measurement links to its card. to_root: from the page to the site's root.

    A name with # says which lab and device it is of, such as `lbm/nvidia-h200.cuda#fused~128x128`; another is of the page's
    device, or of this machine where the page of a lab has no choice. page: its name. Without a card below `root` it is no link.
    In a row of a table the first number is the link to its card; others of that card name none, and _assets/card.js makes them
    links. All their addresses were a quarter of a page.
    """
    bar = DEVICE.search(body)
    own_lab = page.removeprefix("labs/").partition("/")[0]
    own_place = f"{bar[1]}/{bar[2]}" if bar else f"{own_lab}/{HERE.name}"

    first: tuple[int, str] = (-1, "")  # the link in the row that begins there

    def link(match: re.Match[str]) -> str:
        nonlocal first
        before, name, after, text = match.groups()
        place, _, own = name.rpartition("#")
        lab, _, device = (place or own_place).partition("/")
        if (place or not bar) and unescape(own) not in ids(root, lab, device):
            return f"{before}{after}{text}"
        to = f"{to_root}labs/{lab}/measurements/{device}.html#{own}"
        row = body.rfind("<tr", 0, match.start())
        if row > body.rfind("</tr>", 0, match.start()):
            if first == (row, to):
                return f'{before} data-of=""{after}{text}'
            first = (row, to) if first[0] != row else first
        return f'{before}{after}<a class="of" href="{to}">{text.rstrip()}</a>{text[len(text.rstrip()) :]}'

    return OF.sub(link, body)


def copy(root: Path, site: Path, repository: str) -> None:
    """Put the cards into the site, where they changed, and take away those that are gone. repository: its address, or ''."""
    from ..report.cards_page import COMMIT

    at = re.compile(rf'<a href="{COMMIT}[0-9a-f]*">(.*?)</a>')
    wanted = set[Path]()
    for path in files(root):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            text = text.replace(f'"{COMMIT}', f'"{escape(repository)}/commit/') if repository else at.sub(r"\1", text)
        elif repository:
            text = text.replace(f"{CALL}({{", f'{CALL}({{"repository":{json.dumps(repository)},', 1)
        to = site / "labs" / path.parent.name / "measurements" / path.name
        wanted.add(to)
        if not to.exists() or to.read_text(encoding="utf-8") != text:
            write_whole(to, text)
    for old in set(site.glob("labs/*/measurements/*")) - wanted:
        old.unlink()
