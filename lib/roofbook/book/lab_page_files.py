"""Files of the pages besides the story of each lab, written as notebooks for the builder and plain Sphinx."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from ..paths import write_whole
from . import lab_pages, render_local
from .device_choices import choices

if TYPE_CHECKING:
    from sphinx.application import Sphinx

PREPARED = "ROOFBOOK_PREPARED"
"""Environment variable of a builder whose parent process writes the pages before the build begins."""


def write_pages(book: Path) -> None:
    """Write the reference pages of each lab that has run, as notebooks, where they change.

    If devices are recorded, all outputs are in scripts, so that a page is the same after each run.
    """
    for story in sorted((book / "labs").glob("*.ipynb")):
        try:
            outputs = not choices(book.parent, story.stem)
            texts = lab_pages.side_pages(json.loads(story.read_text(encoding="utf-8")), story.stem, outputs=outputs)
        except (ValueError, KeyError, TypeError):
            continue  # reading the story raises a better error
        for name in lab_pages.SPREAD:
            path = book / "labs" / story.stem / f"{name}.ipynb"
            if name not in texts:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_text(encoding="utf-8") != texts[name]:
                path.parent.mkdir(exist_ok=True)
                write_whole(path, texts[name])


def write_before_reading(app: Sphinx) -> None:
    """Write the pages when plain Sphinx builds.

    Skip it if the parent process does so: two writers would remove each other's files.
    """
    if os.environ.get(PREPARED):
        return
    write_pages(Path(app.srcdir))
    render_local.draw(Path(app.srcdir).parent)
