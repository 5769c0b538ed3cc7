"""What written pages take from the store as HTML, made again only where it would say something else.

The fragments lie in book/_generated: verdicts on claims, devices side by side, all labs at a glance.
"""

import json
from collections.abc import Collection, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.publication import publication
from ..analysis.verdicts import Judged, command, judged, only
from ..spec import registry
from ..spec.lab import Lab
from ..store.parquet import Store
from . import execute, front_page
from .experiment import Experiment
from .manifest import fragments_keys

if TYPE_CHECKING:
    from ..report import Table


def renew(root: Path) -> None:
    """Make the fragments of the checkout `root` that would say something else now."""
    folder, store = root / "book" / "_generated", Store(root / "results")
    folder.mkdir(exist_ok=True)
    made_from, keys = folder / "made-from.json", fragments_keys(root)
    before = _told(made_from)
    pages = [execute.page_of(root, root / "experiments" / f"{name}.ipynb") for name in registry.names()]
    executed = [page for page in pages if page.exists()]
    if before and any(page.stat().st_mtime >= made_from.stat().st_mtime for page in executed):
        before.pop("ends", None)
    due = {name for name, key in keys.items() if before.get(name) != key}
    if "compared" in due:
        _compare_devices(folder, store)
        for lab in (registry.get(name) for name in registry.names()):
            if publication(lab).evidence:
                found, cells = verdicts(lab, judged(lab, store))
                opened = f"<details><summary>{escape(cells.caption)}</summary>\n{cells.html}</details>\n"
                _renew(folder / f"{lab.name}-claims.html", found.html + opened)
    _glance(folder, root, store, executed, due)
    if due:
        made_from.write_text(json.dumps(keys))


def _told(made_from: Path) -> dict[str, str]:
    """The keys of the fragments that are there; none where the file that has them is missing or torn."""
    try:
        return dict(json.loads(made_from.read_text()))
    except (OSError, ValueError):
        return {}


def _glance(folder: Path, root: Path, store: Store, executed: Sequence[Path], due: Collection[str]) -> None:
    """The fragments of the first page; none where nothing was measured."""
    found = front_page.all_recorded(store) if {"ladders", "ends"} & set(due) else []
    if "ladders" in due:
        _renew(folder / "glance-ladders.html", front_page.ladders(found))
    if "ends" in due:
        notebooks = [root / "experiments" / page.name for page in executed]
        here = [Experiment(each.stem, execute.parameters_of(root, each), root) for each in notebooks]
        _renew(folder / "glance-ends.html", front_page.ends(found, here))


def verdicts(lab: Lab, lines: Sequence[Judged], on: str | None = None) -> "tuple[Table, Table]":
    """The verdicts on the claims of a lab's report, on one device or on all, and the cells behind them."""
    from ..report import behind, claims

    commands = {line.id: command(lab, publication(lab).evidence.get(line.id, ())) for line in lines}
    return claims(only(lines, on) if on else lines, lab.title), behind(lines, commands, lab.title)


def _compare_devices(folder: Path, store: Store) -> None:
    """The fragments of the page that compares devices; none where nothing is on record."""
    from ..analysis.comparison import SCALES, compared
    from ..report.comparison_table import cases, overview, picker

    made = [each for lab in registry.names() for scale in SCALES for each in compared(registry.get(lab), store, scale)]
    tables = "".join(table.html for table in overview(made))
    for name, text in (("pick", picker(made)), ("overview", tables), ("cells", cases(made))):
        _renew(folder / f"devices-{name}.html", text if made else "")


def _renew(path: Path, text: str) -> None:
    """Write a file that would say something else: a page is made again where one of its fragments is younger. No file of ''."""
    if not text:
        path.unlink(missing_ok=True)
    elif not path.exists() or path.read_text() != text:
        path.write_text(text)
