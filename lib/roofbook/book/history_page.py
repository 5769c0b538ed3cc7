"""Page of history, and the list of a lab's measurements by device, both made from the cards."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..analysis import format as show
from ..escaping import escape, markdown, raw_html
from ..report import history_tables as tables
from ..spec import registry
from . import card_links
from .device_choices import HERE
from .input_hashes import InputHashes
from .manifest import Manifest

RECORDED, LOCAL = ("summary", "changed", "runs", "commits"), ("here",)
"""Parts of the page: recorded devices change seldom, this machine with each measurement."""


def update(root: Path, manifest: Manifest, now: InputHashes) -> None:
    """Make the stale parts of the page from the current cards."""
    scripts = card_links.scripts(root)
    for names, make, is_local in ((RECORDED, recorded, False), (LOCAL, local, True)):
        chosen = [path for path in scripts if (path.stem == HERE.name) == is_local]
        made_from = now.cards(chosen)
        paths = {name: root / "book" / "_generated" / f"history-{name}.html" for name in names}
        if any(manifest.stale(path, made_from) for path in paths.values()):
            card_files = [card_links.read_cards(root, path.parent.name, path.stem) for path in chosen]
            for name, text in make(card_files).items():
                manifest.write(paths[name], text, made_from)
    for lab in registry.names_of_site():
        lab_scripts = [path for path in scripts if path.parent.name == lab]
        page, made_from = root / "book" / "labs" / lab / "measurements.md", now.cards(lab_scripts)
        if manifest.stale(page, made_from):
            manifest.write(
                page,
                measurements_page([card_links.read_cards(root, lab, path.stem) for path in lab_scripts]),
                made_from,
            )


def recorded(card_files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return each part of the page about recorded devices as HTML, by name; '' if nothing is recorded. card_files: contents."""
    cards = tables.read_cards(card_files)
    if not cards:
        return dict.fromkeys(RECORDED, "")
    return {
        "summary": tables.summary(cards).html,
        "changed": tables.changes(cards, "Changed beyond the noise on recorded devices").html,
        "runs": tables.run_spread(cards).html,
        "commits": tables.commits(cards).html,
    }


def local(card_files: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the part of the page about this machine as HTML; '' if it has measured nothing."""
    cards = tables.read_cards(card_files)
    if not cards:
        return dict.fromkeys(LOCAL, "")
    changes = tables.changes(cards, "Changed beyond the noise on this machine")
    summary = f"{show.several(len(changes.rows), 'change')} beyond the noise"
    folded = f"<details><summary>{summary}</summary>\n{changes.html}</details>\n" if changes.rows else changes.html
    return {"here": tables.summary(cards).html + folded}


def measurements_page(card_files: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of a lab's measurements as Markdown: a link for each device; '' without any."""
    if not card_files:
        return ""
    ordered = sorted(
        card_files, key=lambda cards_of_device: (cards_of_device["name"] == HERE.name, -len(cards_of_device["cards"]))
    )
    items = "".join(
        f'<li><a href="measurements/{escape(cards_of_device["name"])}.html">{escape(cards_of_device["on"])}</a>:'
        f" {show.several(len(cards_of_device['cards']), 'measurement')}</li>"
        for cards_of_device in ordered
    )
    about = str(card_files[0]["title"]).partition(":")[0]
    return f"""# {markdown(about)}: measurements

Each number of this lab opens the card of its measurement: samples, interval, runs, commits, machines, and the command that
measures it again. Here are all cards, device by device. The page on [history](../../history.md) says which of them changed, and
why.

{raw_html(f"<ul>{items}</ul>")}"""
