"""What the page of history shows, and the list of a lab's measurements by device: made from the cards that are drawn."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..escaping import escape, markdown, raw_html
from ..report import history_tables as tables
from ..spec import registry
from . import card_links
from .device_choices import HERE
from .input_hashes import InputHashes
from .manifest import Manifest

RECORDED, OURS = ("summary", "changed", "runs", "commits"), ("here",)
"""The parts of the page: what is recorded changes seldom, what this machine measured with each new measurement."""


def renew(root: Path, manifest: Manifest, now: InputHashes) -> None:
    """Make what would say something else now, from the cards as they are."""
    scripts = card_links.scripts(root)
    for names, make, own in ((RECORDED, recorded, False), (OURS, here, True)):
        chosen = [each for each in scripts if (each.stem == HERE.name) == own]
        made_from = now.cards(chosen)
        paths = {name: root / "book" / "_generated" / f"history-{name}.html" for name in names}
        if any(manifest.stale(path, made_from) for path in paths.values()):
            told = [card_links.read_cards(root, each.parent.name, each.stem) for each in chosen]
            for name, text in make(told).items():
                manifest.write(paths[name], text, made_from)
    for lab in registry.names():
        mine = [each for each in scripts if each.parent.name == lab]
        page, made_from = root / "book" / "labs" / lab / "measurements.md", now.cards(mine)
        if manifest.stale(page, made_from):
            manifest.write(page, listed([card_links.read_cards(root, lab, each.stem) for each in mine]), made_from)


def recorded(told: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By its name each part of the page that is of recorded devices, as HTML; '' where none is. told: of their cards."""
    cards = tables.read_cards(told)
    if not cards:
        return dict.fromkeys(RECORDED, "")
    return {
        "summary": tables.summary(cards).html,
        "changed": tables.changes(cards, "Changed beyond the noise on recorded devices").html,
        "runs": tables.run_spread(cards).html,
        "commits": tables.commits(cards).html,
    }


def here(told: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """The part that is of this machine, as HTML; '' where it has measured nothing. told: of its cards."""
    cards = tables.read_cards(told)
    if not cards:
        return dict.fromkeys(OURS, "")
    changed = tables.changes(cards, "Changed beyond the noise on this machine")
    summary = f"{_several(len(changed.rows), 'change')} beyond the noise"
    folded = f"<details><summary>{summary}</summary>\n{changed.html}</details>\n" if changed.rows else changed.html
    return {"here": tables.summary(cards).html + folded}


def listed(told: Sequence[Mapping[str, Any]]) -> str:
    """The page of a lab's measurements, as Markdown: a link a device. '' where there are none."""
    if not told:
        return ""
    ordered = sorted(told, key=lambda each: (each["name"] == HERE.name, -len(each["cards"])))
    items = "".join(
        f'<li><a href="measurements/{escape(each["name"])}.html">{escape(each["on"])}</a>:'
        f" {_several(len(each['cards']), 'measurement')}</li>"
        for each in ordered
    )
    about = str(told[0]["title"]).partition(":")[0]
    return f"""# {markdown(about)}: measurements

Each number of this lab opens the card of its measurement: samples, interval, runs, commits, machines, and the command that
measures it again. Here are all cards, device by device. The page on [history](../../history.md) says which of them changed, and
why.

{raw_html(f"<ul>{items}</ul>")}"""


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
