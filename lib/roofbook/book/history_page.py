"""What the page of history shows, and the list of a lab's measurements by device: made from the cards that are drawn."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ..report import history_tables as tables
from ..spec import registry
from . import card_links
from .dependencies import Dependencies
from .device_choices import HERE
from .manifest import Manifest

PARTS = ("summary", "changed", "here", "runs", "commits")


def renew(root: Path, manifest: Manifest, now: Dependencies) -> None:
    """Make what would say something else now, from the cards as they are."""
    made_from = now.cards()
    paths = {part: root / "book" / "_generated" / f"history-{part}.html" for part in PARTS}
    pages = {lab: root / "book" / "labs" / lab / "measurements.md" for lab in registry.names()}
    if not any(manifest.stale(path, made_from) for path in (*paths.values(), *pages.values())):
        return
    told = [card_links.told(root, path.parent.name, path.stem) for path in card_links.scripts(root)]
    for part, text in parts(told).items():
        manifest.write(paths[part], text, made_from)
    for lab, page in pages.items():
        manifest.write(page, listed([each for each in told if each["lab"] == lab]), made_from)


def parts(told: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """By its name each part of the page of history as HTML; '' of what there is nothing to say."""
    recorded = tables.all_shown(each for each in told if each["name"] != HERE.name)
    here = tables.all_shown(each for each in told if each["name"] == HERE.name)
    if not recorded and not here:
        return dict.fromkeys(PARTS, "")
    mine = tables.changed(here, "Changed beyond the noise on this machine")
    summary = f"{_several(len(mine.rows), 'change')} on the machine that built this copy"
    folded = f"<details><summary>{summary}</summary>\n{mine.html}</details>\n"
    return {
        "summary": tables.summary([*recorded, *here]).html,
        "changed": tables.changed(recorded, "Changed beyond the noise on recorded devices").html,
        "here": folded if mine.rows else "",
        "runs": tables.between_runs([*recorded, *here]).html,
        "commits": tables.commits([*recorded, *here]).html,
    }


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
    return f"""# {about}: measurements

Each number of this lab opens the card of its measurement: samples, interval, runs, commits, machines, and the command that
measures it again. Here are all cards, device by device. The page on [history](../../history.md) says which of them changed, and
why.

```{{raw}} html
<ul>{items}</ul>
```
"""


def _several(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
