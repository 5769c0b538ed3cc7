"""What pages show of recorded devices, as HTML: drawn once, and again where the code or the records have changed.

It lies in _build/recorded, a file a lab; a lab's notebook shows it.
"""

import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from ..spec import registry
from ..spec.lab import Lab
from ..store.parquet import Store
from .dependencies import Dependencies
from .manifest import Manifest
from .recorded_page import sections

FOLDER = Path("_build", "recorded")


def shown(lab: Lab, store: Store, root: Path) -> str:
    """HTML: what the store has of a lab on recorded devices, each to open; as it was drawn last where nothing changed."""
    kept, manifest = root / FOLDER / f"{lab.name}.html", Manifest(root)
    made_from = Dependencies(root).recorded(lab.name, store)
    if not manifest.stale(kept, made_from):
        return kept.read_text(encoding="utf-8")
    drawn = sections(lab, store)
    manifest.write(kept, drawn, made_from)
    return drawn


def stale(root: Path) -> list[str]:
    """The labs whose sections are not of today's code and records."""
    store, manifest, now = Store(root / "results"), Manifest(root), Dependencies(root)
    labs = [*registry.names(), registry.PEAKS]
    return [lab for lab in labs if manifest.stale(root / FOLDER / f"{lab}.html", now.recorded(lab, store))]


def draw(root: Path) -> None:
    """Draw the sections of those labs where they are stale, on all cores. So no notebook has to wait for its own."""
    if due := stale(root):
        with ProcessPoolExecutor(min(len(due), os.cpu_count() or 1), multiprocessing.get_context("spawn")) as pool:
            for done in [pool.submit(_draw, lab, root) for lab in due]:
                done.result()


def _draw(lab: str, root: Path) -> None:
    shown(registry.get(lab), Store(root / "results"), root)
