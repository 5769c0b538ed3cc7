"""Writes the pages beside the story of each lab as notebooks, for the builder and for plain Sphinx."""

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
"""Of a builder's environment: whoever started it writes the pages itself, before it tells it to build."""


def write_pages(book: Path) -> None:
    """Write the pages beside the story of each lab that has run, as notebooks, where they would be others than they are.

    Where devices are recorded their outputs lie in scripts, those of this machine too: then a page is the same after each run.
    """
    for story in sorted((book / "labs").glob("*.ipynb")):
        try:
            outputs = not choices(book.parent, story.stem)
            made = lab_pages.side_pages(json.loads(story.read_text(encoding="utf-8")), story.stem, outputs=outputs)
        except (ValueError, KeyError, TypeError):
            continue  # whoever reads the story says what is wrong with it
        for name in lab_pages.SPREAD:
            path = book / "labs" / story.stem / f"{name}.ipynb"
            if name not in made:
                path.unlink(missing_ok=True)
            elif not path.exists() or path.read_text(encoding="utf-8") != made[name]:
                path.parent.mkdir(exist_ok=True)
                write_whole(path, made[name])


def write_before_reading(app: Sphinx) -> None:
    """For a builder that nobody prepares the pages for, as plain Sphinx. Two at once would take away each other's files."""
    if os.environ.get(PREPARED):
        return
    write_pages(Path(app.srcdir))
    render_local.draw(Path(app.srcdir).parent)
