"""What the pages of each lab show on the machine that executed its notebook: one more device that their reader may choose.

It is drawn where the executed notebook or a card of a measurement is another now, and lies beside the recorded devices.
"""

import hashlib
import json
from pathlib import Path

from . import card_links, lab_pages, table_files
from .device_choices import FOLDER, HERE, choices, write_scripts
from .manifest import Manifest


def draw(root: Path) -> None:
    """Write it for each lab that has run here and has recorded devices; take it away where that is no longer so."""
    book, manifest = root / "book", Manifest(root)
    for folder in sorted((root / FOLDER).glob("*/")):
        lab = folder.name
        executed = next(
            (path for path in (book / "labs" / f"{lab}.ipynb", book / f"{lab}.ipynb") if path.exists()), None
        )
        if executed is None or not choices(root, lab):
            _remove(root, lab)
            continue
        cards = root / card_links.FOLDER / lab / HERE.script
        made_from = {"page": _hash(executed), "cards": _hash(cards)}
        if manifest.stale(thing := folder / lab_pages.STORY / HERE.script, made_from):
            _remove(root, lab)
            _write(root, lab, executed)
            manifest.record(thing, made_from)


def _write(root: Path, lab: str, executed: Path) -> None:
    from . import replay_notebook
    from .device_switch import finish_cells

    notebook = json.loads(executed.read_text(encoding="utf-8"))
    if not (shown := replay_notebook.executed_outputs(notebook)):
        return
    shown, files = table_files.of_cells(finish_cells(shown), lab, HERE.name)
    table_files.write(root / table_files.DRAWN / lab / HERE.name, files)
    shown = card_links.unlink_missing_cards(shown, card_links.ids(root, lab, HERE.name))
    write_scripts(root, lab, HERE, notebook, shown)


def _remove(root: Path, lab: str) -> None:
    for path in (root / FOLDER / lab).glob(f"*/{HERE.stem}.*js"):
        path.unlink()
    table_files.write(root / table_files.DRAWN / lab / HERE.name, {})


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
