"""Pages of labs that this machine has not measured yet: their notebooks with what is recorded, of the best device.

So a book is read while its labs run. A draft is a notebook whose cells were run over recorded rows, without a kernel; the
page that papermill makes takes its place.
"""

import ast
import json
import multiprocessing
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ProcessPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

from ..analysis.recorded import RecordedData, recorded
from ..errors import UserFacingError
from ..paths import write_whole
from ..report.html import Html
from ..spec import registry
from ..spec.lab import Case
from ..store.parquet import Store
from . import execute, recorded_html
from .page import Note
from .recorded_page import NOTHING, RecordedPage
from .sphinx_ext import PARAMETER_TAGS

WAITS = "It stands here as soon as this machine has run the lab"


def write(root: Path, notebooks: Iterable[Path]) -> None:
    """Write a draft of the page of each of these notebooks, on all cores."""
    due = list(notebooks)
    with ProcessPoolExecutor(min(len(due), os.cpu_count() or 1) or 1, multiprocessing.get_context("spawn")) as pool:
        for done in [pool.submit(_write, root, notebook) for notebook in due]:
            done.result()


def _write(root: Path, notebook: Path) -> None:
    made = draft(json.loads(notebook.read_text(encoding="utf-8")), registry.get(notebook.stem).name, root)
    write_whole(execute.page_of(root, notebook), json.dumps(made, indent=1) + "\n")


def draft(notebook: Mapping[str, Any], lab: str, root: Path) -> dict[str, Any]:
    """The notebook of a lab with the outputs of its cells over recorded rows; without them where nothing is recorded."""
    store = Store(root / "results")
    found = recorded(registry.get(lab), store)
    shown = _Draft(found[0], store, root) if found else None
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
        elif not PARAMETER_TAGS & set(cell["metadata"].get("tags", [])):
            cells.append(cell | {"outputs": [], "execution_count": None})
    if shown is None:
        first = next((at for at, cell in enumerate(cells) if cell["cell_type"] == "code"), len(cells))
        kept = [cell for cell in cells[first:] if cell["cell_type"] != "code"]
        cells = [*cells[:first], {"cell_type": "markdown", "metadata": {}, "source": f"*{WAITS}: {NOTHING}.*"}, *kept]
    else:
        names: dict[str, Any] = {}
        for cell in cells:
            if cell["cell_type"] == "code":
                cell["outputs"] = _run("".join(cell["source"]), shown, names)
    return {**notebook, "cells": cells}


class _Draft(RecordedPage):
    """A recorded device in the place of this machine: what a notebook calls `lab`."""

    def __init__(self, data: RecordedData, store: Store, root: Path) -> None:
        super().__init__(data, store)
        self.root = root

    @property
    def cases(self) -> list[Case]:
        return list(self.data.cases)

    def measure(self) -> Note:
        return Note(f"what this machine measures is not here yet. {WAITS}")

    def demonstration(self) -> Note:
        return Note(f"what the lab shows beyond times is computed on this machine. {WAITS}")

    def recorded(self) -> Html:
        return Html(recorded_html.shown(self.data.lab, self.store, self.root))

    def _repr_html_(self) -> str:
        place = f"<strong>{escape(str(self.data.place))}</strong>"
        said = f"This machine has not run the lab yet. Until then the page shows what is recorded of {place}."
        return f'<p class="draft">{said}</p>'


def _run(code: str, lab: _Draft, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell. What the draft cannot do has none."""
    shown: list[Any] = []
    names |= {"display": lambda *things: shown.extend(things)}
    try:
        tree = ast.parse(code)
        for at, line in enumerate(tree.body):
            if isinstance(line, ast.Import | ast.ImportFrom):
                continue
            if _opens(line):
                names["lab"] = lab
            elif isinstance(line, ast.Expr) and at == len(tree.body) - 1:
                value = eval(compile(ast.Expression(line.value), "draft", "eval"), names)
                shown += [value] if value is not None else []
            else:
                exec(compile(ast.Module([line], []), "draft", "exec"), names)
    except UserFacingError as why:
        shown.append(Note(str(why)))
    except Exception:  # a cell of the reader's own, of what only a measured lab has
        return []
    return [output for each in shown if (output := _output(each))]


def _opens(line: ast.stmt) -> bool:
    """Whether a line is `lab = roofbook.open(...)`."""
    return isinstance(line, ast.Assign) and ast.unparse(line.value).startswith("roofbook.open(")


def _output(shown: Any) -> dict[str, Any] | None:
    for kind, method in (("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_")):
        if text := getattr(shown, method, lambda: None)():
            return {
                "output_type": "display_data",
                "metadata": {},
                "data": {kind: text, "text/plain": repr(shown)[:200]},
            }
    return None
