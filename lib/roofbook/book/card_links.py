"""Links from each number of the site to the card of its measurement, and the files of the cards.

Part of the site's Sphinx extension. measurements.py draws the cards.
"""

import json
import re
from collections.abc import Iterable
from functools import cache, lru_cache, partial
from html import unescape
from pathlib import Path
from typing import Any

from ..escaping import escape, script_json
from ..paths import write_whole
from .device_choices import HERE

FOLDER = Path("_build", "measurements")
CALL = "roofbookCards"
"""JavaScript function that a script of cards calls."""
DIALOGS = ".cards.js"
"""End of the name of the script with the HTML of a device's cards, which _assets/card.js shows in dialogs."""
_CARD = re.compile(r'<section class=measured id="([^"]*)">.*?</section>', re.S)
_MACHINE = re.compile(r"<div class=machine id=machine-(\d+)>.*?</div>", re.S)


def files(root: Path) -> list[Path]:
    """Return the files of all cards."""
    return sorted(path for path in (root / FOLDER).glob("*/*") if path.suffix in (".html", ".js"))


def scripts(root: Path) -> list[Path]:
    """Return the script of each lab's cards on each device, recorded devices first."""
    paths = (root / FOLDER).glob("*/*.js")
    return sorted(paths, key=lambda path: (path.stem == HERE.name, path))


def has_cards(root: Path, lab: str, name: str) -> bool:
    """Return whether a lab's cards on a device have been drawn."""
    return all((root / FOLDER / lab / f"{name}.{kind}").exists() for kind in ("js", "html"))


def keep_only(root: Path, lab: str, names: Iterable[str]) -> None:
    """Remove the cards of a lab on devices other than these."""
    current = {*names, HERE.name}
    for path in (root / FOLDER / lab).glob("*"):
        if path.name.rpartition(".")[0] not in current:
            path.unlink()


def ids(root: Path, lab: str, name: str) -> frozenset[str]:
    """Return the ids of a lab's measurements on a device that have a card."""
    path = root / FOLDER / lab / f"{name}.js"
    return _ids(path, path.stat().st_mtime_ns) if path.exists() else frozenset()


@lru_cache(maxsize=256)
def _ids(path: Path, written: int) -> frozenset[str]:
    return frozenset(card["id"] for card in _read_cards(path)["cards"])


def read_cards(root: Path, lab: str, name: str) -> dict[str, Any]:
    """Return the contents of the script of a lab's cards on a device. Raise OSError if there is none."""
    return _read_cards(root / FOLDER / lab / f"{name}.js")


def _read_cards(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    cards: dict[str, Any] = json.loads(text[len(CALL) + 1 : text.rindex(")")])
    return cards


OF = re.compile(r'(<(?:t[dh]|span)\b[^>]*?) data-of="([^"]*)"([^>]*>)([^<]+)')
"""Table cell, or piece of a sentence, that names the measurement of its number."""


def linked(body: str, to_root: str, root: Path, device: str = "") -> str:
    """Return HTML in which each number that names a measurement with a card below `root` links to that card.

    to_root: address of the site's root, seen from the page. A name with # includes lab and device, such as
    `lbm/nvidia-h200.cuda#fused~128x128`; another is of `device`, such as `lbm/nvidia-h200.cuda`.

    In a table row only the first link to a card has an address; the others are completed by _assets/card.js, since all their
    addresses were a quarter of a page.
    """
    ids_of = cache(partial(ids, root))
    first: tuple[int, str] = (-1, "")  # (start of a table row, target of its link)

    def link(match: re.Match[str]) -> str:
        nonlocal first
        before, name, after, text = match.groups()
        prefix, _, measurement = name.rpartition("#")
        lab, _, stem = (prefix or device).partition("/")
        if unescape(measurement) not in ids_of(lab, stem):
            return f"{before}{after}{text}"
        target = f"{to_root}labs/{lab}/measurements/{stem}.html#{measurement}"
        row = body.rfind("<tr", 0, match.start())
        address = f' href="{target}"'
        if row > body.rfind("</tr>", 0, match.start()):
            if first == (row, target):
                address = ""
            elif first[0] != row:
                first = (row, target)
        return f'{before}{after}<a class="of"{address}>{text.rstrip()}</a>{text[len(text.rstrip()) :]}'

    return OF.sub(link, body)


def copy_cards(root: Path, site: Path, repository: str) -> None:
    """Copy changed cards into the site and remove obsolete ones. repository: its address, or ''."""
    from ..report.cards_page import COMMIT

    commit_link = re.compile(rf'<a href="{COMMIT}[0-9a-f]*">(.*?)</a>')
    targets = set[Path]()
    for path in files(root):
        text = path.read_text(encoding="utf-8")
        if path.suffix == ".html":
            text = (
                text.replace(f'"{COMMIT}', f'"{escape(repository)}/commit/')
                if repository
                else commit_link.sub(r"\1", text)
            )
        elif repository:
            text = text.replace(f"{CALL}({{", f'{CALL}({{"repository":{json.dumps(repository)},', 1)
        target = site / "labs" / path.parent.name / "measurements" / path.name
        copies = {target: text}
        if path.suffix == ".html":
            cards = {unescape(match[1]): match[0] for match in _CARD.finditer(text)}
            machines = {match[1]: match[0] for match in _MACHINE.finditer(text)}
            copies[target.with_name(path.stem + DIALOGS)] = f"{CALL}({script_json(cards, machines)});\n"
        for copy, content in copies.items():
            targets.add(copy)
            if not copy.exists() or copy.read_text(encoding="utf-8") != content:
                write_whole(copy, content)
    for obsolete in set(site.glob("labs/*/measurements/*")) - targets:
        obsolete.unlink()
