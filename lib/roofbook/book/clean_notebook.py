"""Filter of git for notebooks: one that was run and saved in JupyterLab is committed as it was, without traces of the run.

Git runs this file as a program, with the notebook on standard input. `make` tells it to; .gitattributes names the files.
"""

import json
import sys
from typing import Any

KEPT_METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
"""Metadata of a notebook: the same for each, whatever kernel ran it."""
OWN_METADATA = ("tags",)
"""Metadata of a cell that its author wrote; editors and papermill add others, such as `scrolled` and times."""


def cleaned(text: str) -> str:
    """Return a notebook's text without outputs, counts, times and the names of kernels; other text unchanged."""
    try:
        notebook = json.loads(text)
        cells = [_cleaned_cell(cell) for cell in notebook["cells"]]
    except (ValueError, KeyError, TypeError, AttributeError):
        return text
    metadata = {**KEPT_METADATA, "language_info": {"name": "python"}}
    clean = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(clean, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def _cleaned_cell(cell: dict[str, Any]) -> dict[str, Any]:
    run: dict[str, Any] = {"outputs": [], "execution_count": None} if cell["cell_type"] == "code" else {}
    metadata = {name: cell["metadata"][name] for name in OWN_METADATA if name in cell["metadata"]}
    lines = "".join(cell["source"]).splitlines(keepends=True)
    return {**cell, **run, "metadata": metadata, "source": lines}


if __name__ == "__main__":
    sys.stdout.buffer.write(cleaned(sys.stdin.buffer.read().decode()).encode())
