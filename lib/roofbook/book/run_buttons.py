"""Buttons of pages that run a lab's steps in the reader's browser: the element of book/_assets/run-buttons.js, and its steps.

kernels_page.py writes the scripts of the steps into RUNS, with an index by which other pages know them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..escaping import escape

RUNS = Path("_build", "runs")
"""Folder of a checkout with a folder for each lab: the scripts of its steps, and INDEX."""
INDEX = "index.json"
"""File in the folder of a lab's runs: the names of its steps (`steps`) and of kernels to write (`holed`), and a hash of their
scripts (`version`)."""
HOLED = "exercise-"
"""Prefix of the scripts of kernels to write."""
RUN_SCRIPTS = "_static/runs"
"""Folder of the site with these folders."""


def run_buttons(to_root: str, attributes: str = "") -> str:
    """Return the element of the script that adds buttons to steps. to_root: from the page to the root of the site."""
    static = f"{to_root}_static"
    return f'<script src="{static}/run-buttons.js?v=" data-run="{static}/run-here.js?v="{attributes} defer></script>'


def run_index(root: Path, lab: str) -> dict[str, Any]:
    """Return what INDEX holds of a lab; {} before it is written."""
    path = root / RUNS / lab / INDEX
    index: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return index


def buttons_of(index: Mapping[str, Any], lab: str, to_root: str) -> str:
    """Return the script of the buttons on a page that is not that of the kernels; '' if no step of the lab runs in a browser.

    index: result of `run_index`.
    """
    names = " ".join(index.get("steps", ()))
    address = f"{to_root}{RUN_SCRIPTS}/{lab}/{{}}.js?v={index.get('version')}"
    return run_buttons(to_root, f' data-steps="{escape(names)}" data-script="{escape(address)}"') if names else ""
