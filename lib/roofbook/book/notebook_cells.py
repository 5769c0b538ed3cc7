"""The cells of a notebook: which of them show something, what tells one from others, and what it has shown."""

import re
from collections.abc import Mapping
from typing import Any

from ..paths import cache_key

PARAMETER_TAGS = {"parameters", "injected-parameters"}


def has_parameters(cell: Mapping[str, Any]) -> bool:
    """Whether a cell is one of parameters."""
    return bool(PARAMETER_TAGS & set(cell["metadata"].get("tags", [])))


def cells_of(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The cells of code, but those of parameters."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and not has_parameters(cell)]


def key_of(cell: Mapping[str, Any]) -> str:
    """What tells a cell from others: its text."""
    return cache_key("".join(cell["source"]))[:12]


def outputs_of(cell: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a cell has shown, less what shows nothing, as a progress bar leaves it that has erased itself."""
    return [each for each in cell.get("outputs", []) if not _is_blank(each)]


def _is_blank(output: Mapping[str, Any]) -> bool:
    text = "".join(output.get("text", "")) if output.get("output_type") == "stream" else "shown"
    return not re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text).strip()
