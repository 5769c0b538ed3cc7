"""What written pages take from the store as HTML, made again only where it would say something else.

The fragments lie in book/_generated: verdicts on claims, devices side by side, all labs at a glance.
"""

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from ..analysis.publication import publication
from ..analysis.recorded import RecordedData
from ..analysis.verdicts import Judged, command, judged, only
from ..spec import registry
from ..spec.lab import Lab
from ..store.parquet import Store
from . import execute, front_page
from .dependencies import Dependencies
from .experiment import Experiment
from .manifest import Manifest

if TYPE_CHECKING:
    from ..report import Table


def renew(root: Path) -> None:
    """Make the fragments of the checkout `root` that would say something else now. One that has nothing to say is no file."""
    folder, store = root / "book" / "_generated", Store(root / "results")
    manifest, now = Manifest(root), Dependencies(root)
    folder.mkdir(exist_ok=True)

    devices, made_from = [folder / f"devices-{name}.html" for name in ("pick", "overview", "cells")], now.comparison()
    if any(manifest.stale(path, made_from) for path in devices):
        for path, text in zip(devices, _devices_compared(store), strict=True):
            manifest.write(path, text, made_from)

    for lab in map(registry.get, registry.names()):
        path, made_from = folder / f"{lab.name}-claims.html", now.verdicts(lab.name)
        if publication(lab).evidence and manifest.stale(path, made_from):
            manifest.write(path, _verdicts(lab, store), made_from)

    shown = [(folder / "glance-ladders.html", now.ladders(), front_page.ladders)]
    executed = [notebook for notebook in execute.notebooks(root) if _has_page_of_lab(root, notebook)]
    pages = {notebook.stem: manifest.made_from(execute.page_of(root, notebook)) for notebook in executed}

    def ends(found: "Sequence[RecordedData]") -> str:
        here = [Experiment(each.stem, execute.parameters_of(root, each), root) for each in executed]
        return front_page.ends(found, here)

    shown.append((folder / "glance-ends.html", now.ends(pages), ends))
    due = [each for each in shown if manifest.stale(each[0], each[1])]
    recorded = front_page.all_recorded(store) if due else []
    for path, made_from, make in due:
        manifest.write(path, make(recorded), made_from)


def _has_page_of_lab(root: Path, notebook: Path) -> bool:
    return notebook.stem in registry.names() and execute.page_of(root, notebook).exists()


def verdicts(lab: Lab, lines: Sequence[Judged], on: str | None = None) -> "tuple[Table, Table]":
    """The verdicts on the claims of a lab's report, on one device or on all, and the cells behind them."""
    from ..report import behind, claims

    commands = {line.id: command(lab, publication(lab).evidence.get(line.id, ())) for line in lines}
    return claims(only(lines, on) if on else lines, lab.title), behind(lines, commands, lab.title)


def _verdicts(lab: Lab, store: Store) -> str:
    found, cells = verdicts(lab, judged(lab, store))
    return f"{found.html}<details><summary>{escape(cells.caption)}</summary>\n{cells.html}</details>\n"


def _devices_compared(store: Store) -> Sequence[str]:
    """Of the page that compares devices: what to pick from, the overview, all cases; '' each where nothing is recorded."""
    from ..analysis.comparison import compared, scales
    from ..report.comparison_table import cases, overview, picker

    at = scales(store)
    made = [
        each for lab in map(registry.get, registry.names()) for scale in at(lab) for each in compared(lab, store, scale)
    ]
    if not made:
        return "", "", ""
    return picker(made), "".join(table.html for table in overview(made)), cases(made)
