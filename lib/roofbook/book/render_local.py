"""Output of each lab on the machine that executed its notebook: one more device that readers may choose.

It is drawn if the executed notebook or the card of a measurement has changed, and is stored with the recorded devices.
"""

import hashlib
import json
from pathlib import Path

from . import card_links, lab_pages, table_files
from .device_choices import FOLDER, HERE, choices, write_scripts
from .manifest import Manifest


def draw(root: Path) -> None:
    """Write the output of each lab that has run here and has recorded devices; remove it for other labs."""
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
        if manifest.stale(script := folder / lab_pages.STORY / HERE.script, made_from):
            _remove(root, lab)
            _write(root, lab, executed)
            manifest.record(script, made_from)


def _write(root: Path, lab: str, executed: Path) -> None:
    from . import replay_notebook
    from .device_switch import finish_cells

    notebook = json.loads(executed.read_text(encoding="utf-8"))
    if not (html_by_key := replay_notebook.executed_outputs(notebook)):
        return
    html_by_key, files = table_files.split_files_of_cells(finish_cells(html_by_key), lab, HERE.name)
    table_files.write_files(root / table_files.DRAWN / lab / HERE.name, files)
    html_by_key = card_links.unlink_missing_cards(html_by_key, card_links.ids(root, lab, HERE.name))
    write_scripts(root, lab, HERE, notebook, html_by_key)


def _remove(root: Path, lab: str) -> None:
    for path in (root / FOLDER / lab).glob(f"*/{HERE.stem}.*js"):
        path.unlink()
    table_files.write_files(root / table_files.DRAWN / lab / HERE.name, {})


def _hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""
