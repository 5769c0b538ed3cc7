"""Buttons of pages that run a lab's steps in the reader's browser: the element of book/_assets/run-buttons.js, and its steps.

kernels_page.py writes the scripts of the steps into RUNS, with an index by which other pages know them.
"""

import json
from pathlib import Path
from typing import Any

from ..escaping import escape

RUNS = Path("_build", "runs")
"""Folder of a checkout with a folder for each lab: the scripts of its steps, and INDEX."""
INDEX = "index.json"
"""File in the folder of a lab's runs with the names of its steps, and a hash of their scripts."""
RUN_SCRIPTS = "_static/runs"
"""Folder of the site with these folders."""


def run_buttons(to_root: str, attributes: str = "") -> str:
    """Return the element of the script that adds buttons to steps. to_root: from the page to the root of the site."""
    static = f"{to_root}_static"
    return f'<script src="{static}/run-buttons.js?v=" data-run="{static}/run-here.js?v="{attributes} defer></script>'


def story_run_buttons(root: Path, lab: str, to_root: str) -> str:
    """Return the script of the buttons at the steps of a lab's story; '' if none of its steps runs in a browser."""
    index = run_index(root, lab)
    names = " ".join(index.get("steps", ()))
    address = f"{to_root}{RUN_SCRIPTS}/{lab}/{{}}.js?v={index.get('version')}"
    return run_buttons(to_root, f' data-steps="{escape(names)}" data-script="{escape(address)}"') if names else ""


def run_index(root: Path, lab: str) -> dict[str, Any]:
    """Return the names of a lab's steps that run in a browser, and the hash of their scripts; {} before they are written."""
    path = root / RUNS / lab / INDEX
    index: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return index
