"""Cells of a notebook: which of them hold parameters, their keys, and their outputs."""

import re
from collections.abc import Mapping
from typing import Any

from ..paths import cache_key

PARAMETER_TAGS = {"parameters", "injected-parameters"}


def has_parameters(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell holds parameters."""
    return bool(PARAMETER_TAGS & set(cell["metadata"].get("tags", [])))


def cells_of(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells, without those of parameters."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and not has_parameters(cell)]


def key_of(cell: Mapping[str, Any]) -> str:
    """Return a key of a cell's text."""
    return cache_key("".join(cell["source"]))[:12]


def outputs_of(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a cell's outputs, without blank ones such as that of a progress bar that has erased itself."""
    return [output for output in cell.get("outputs", []) if not _is_blank(output)]


def _is_blank(output: Mapping[str, Any]) -> bool:
    text = "".join(output.get("text", "")) if output.get("output_type") == "stream" else "shown"
    return not re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).strip()
