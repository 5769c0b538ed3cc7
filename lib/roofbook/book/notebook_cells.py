"""Cells of a notebook: which of them hold parameters, their keys, their code as pages show it, and their outputs as HTML."""

import ast
import json
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from ..escaping import escape
from ..paths import cache_key

PARAMETER_TAGS = {"parameters", "injected-parameters"}
WIDTH = 88
"""Characters in a line of code that need no scrolling on a page."""
_TERMINAL_CODE = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def has_parameters(cell: Mapping[str, Any]) -> bool:
    """Return whether a cell holds parameters."""
    return bool(PARAMETER_TAGS & set(cell["metadata"].get("tags", [])))


def assigned_names(code: str) -> set[str]:
    """Return the names that a cell's code assigns outside of functions and classes; empty for code that is no Python.

    >>> sorted(assigned_names("device: str = 'auto'\\nwidth = height = 3"))
    ['device', 'height', 'width']
    """
    try:
        statements = ast.parse(code).body
    except SyntaxError:  # such as a magic of IPython
        return set()
    targets = [target for statement in statements if isinstance(statement, ast.Assign) for target in statement.targets]
    targets += [statement.target for statement in statements if isinstance(statement, ast.AnnAssign)]
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def declared_parameters(notebook: Mapping[str, Any]) -> set[str]:
    """Return the names that the cells tagged `parameters` assign."""
    cells = [cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])]
    return {name for cell in cells for name in assigned_names("".join(cell["source"]))}


def cells_of(notebook: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the code cells, without those of parameters."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code" and not has_parameters(cell)]


def key_of(cell: Mapping[str, Any]) -> str:
    """Return a key of a cell's text."""
    return cache_key("".join(cell["source"]))[:12]


def without_outputs(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Return a notebook without outputs and without cells of parameters."""
    cells = [
        cell if cell["cell_type"] != "code" else cell | {"outputs": [], "execution_count": None}
        for cell in notebook["cells"]
        if not has_parameters(cell)
    ]
    return {**notebook, "cells": cells}


def executed_cells(notebook: Mapping[str, Any]) -> dict[str, str]:
    """Return the HTML of each code cell of an executed notebook, by the cell's key; empty if no cell has an output."""
    html_by_key = {key_of(cell): outputs_html(cell.get("outputs", [])) for cell in cells_of(notebook)}
    return html_by_key if any(html_by_key.values()) else {}


def outputs_html(outputs: Sequence[Mapping[str, Any]]) -> str:
    """Return the outputs of a cell as HTML. An output of blanks alone, as a progress bar leaves it, gives none."""
    from markdown_it import MarkdownIt

    parts = []
    for output in outputs:
        bundle = {kind: "".join(text) for kind, text in output.get("data", {}).items() if isinstance(text, str | list)}
        if "text/html" in bundle:
            parts.append(bundle["text/html"])
        elif "text/markdown" in bundle:
            parts.append(MarkdownIt().render(bundle["text/markdown"]))
        elif "image/svg+xml" in bundle:
            parts.append(bundle["image/svg+xml"])
        elif "image/png" in bundle:
            parts.append(f'<img alt="" src="data:image/png;base64,{escape("".join(bundle["image/png"].split()))}">')
        elif text := _TERMINAL_CODE.sub("", "".join(output.get("text", "")) or bundle.get("text/plain", "")).strip():
            parts.append(f"<pre>{escape(text)}</pre>")
    return "\n".join(parts)


def compact(code: str) -> str:
    r"""Return the code of a cell that is one call with a list of names, on few lines: notebooks have one name per line.

    >>> print(compact('lab.steps(\n    "fused",\n    "soa",\n)'))
    lab.steps("fused", "soa")
    """
    try:
        (line,) = ast.parse(code).body
    except (SyntaxError, ValueError):
        return code
    call = line.value if isinstance(line, ast.Expr) else None
    if not isinstance(call, ast.Call) or not call.args or call.keywords:
        return code
    if not all(isinstance(argument, ast.Constant) for argument in call.args):
        return code
    start = f"{ast.unparse(call.func)}("
    names = ", ".join(json.dumps(argument.value) for argument in call.args if isinstance(argument, ast.Constant))
    if len(start) + len(names) < WIDTH:
        return f"{start}{names})"
    wrapped = textwrap.fill(names, WIDTH - 4, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return f"{start}\n{wrapped}\n)"
