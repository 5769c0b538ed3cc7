"""Studies: notebooks about recorded rows of several labs, whose tables become fragments of written pages.

A study reads rows and measures nothing. Its cells run here without a kernel, as the build of a page needs them.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .notebook_cells import cells_of, has_parameters


def notebooks(root: Path) -> list[Path]:
    """Return the studies of the checkout `root`."""
    return sorted((root / "experiments" / "studies").glob("*.ipynb"))


def fragment_names(notebook: Path) -> list[str]:
    """Return the name of each code cell's fragment: study-ID.html, by the cell's id."""
    return [f"study-{cell['id']}.html" for cell in cells_of(_content(notebook))]


def fragments(notebook: Path, **parameters: Any) -> list[str]:
    """Run a study's cells with these parameters. Return the HTML that each code cell displays; '' for none."""
    content = _content(notebook)
    html: list[str] = []
    names: dict[str, Any] = {"display": lambda shown: html.append(shown.html)}
    exec("\n".join("".join(cell["source"]) for cell in content["cells"] if has_parameters(cell)), names)
    names |= parameters
    texts = []
    for cell in cells_of(content):
        html.clear()
        exec(compile("".join(cell["source"]), f"{notebook.name}, {cell['id']}", "exec"), names)
        texts.append("".join(html))
    return texts


def _content(notebook: Path) -> Mapping[str, Any]:
    content: Mapping[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    return content
