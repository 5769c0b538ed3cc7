"""What pages show of the devices on record, as HTML: drawn once, and again where the code or the records have changed.

It lies in _build/on-record, a file a lab; a lab's notebook shows it.
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ..paths import write_whole
from ..spec import registry
from ..spec.lab import Lab
from ..store.parquet import Store
from .manifest import records_key
from .recorded import sections

FOLDER = Path("_build", "on-record")


def shown(lab: Lab, store: Store, root: Path) -> str:
    """HTML: what the store has of a lab on recorded devices, each to open; as it was drawn last where nothing changed."""
    kept, mark = root / FOLDER / f"{lab.name}.html", _mark(store, lab.name)
    if _is_kept(root, store, lab.name):
        return kept.read_text(encoding="utf-8").removeprefix(mark)
    drawn = sections(lab, store)
    write_whole(kept, mark + drawn)
    return drawn


def draw(root: Path) -> None:
    """Draw the sections on record of those labs where the kept ones are not of today, on all cores.

    So no notebook has to wait for its own.
    """
    store = Store(root / "results")
    due = [lab for lab in (*registry.names(), registry.PEAKS) if not _is_kept(root, store, lab)]
    if due:
        with ProcessPoolExecutor(min(len(due), os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
            for done in [pool.submit(_draw, lab, root) for lab in due]:
                done.result()


def _draw(lab: str, root: Path) -> None:
    shown(registry.get(lab), Store(root / "results"), root)


def _is_kept(root: Path, store: Store, lab: str) -> bool:
    mark = _mark(store, lab)
    try:
        with (root / FOLDER / f"{lab}.html").open(encoding="utf-8") as kept:
            return kept.read(len(mark)) == mark
    except FileNotFoundError:
        return False


def _mark(store: Store, lab: str) -> str:
    return f"<!-- {records_key(store, lab)} -->\n"
