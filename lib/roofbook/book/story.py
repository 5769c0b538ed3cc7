"""A lab's notebook as it reads on a device: what each of its cells shows there, as HTML.

On a recorded device the cells are run over its rows, without a kernel and in the builder's own process. On the machine that
executed the notebook they show what papermill has left in it.
"""

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.recorded import RecordedData
from ..analysis.traced import counts, machines
from ..errors import UserFacingError
from ..escaping import escape
from ..spec.lab import Case
from ..store.current import of_newest
from ..store.parquet import Store
from .device_choices import HERE
from .notebook_cells import cells_of, has_parameters, key_of, outputs_of
from .page import Note, Page


def told(notebook: Mapping[str, Any], data: RecordedData, store: Store) -> dict[str, str]:
    """By the key of each cell of code, what it shows of a lab on a recorded device."""
    lab, names = RecordedPage(data, store), dict[str, Any]()
    return {key_of(cell): _joined(_run("".join(cell["source"]), lab, names)) for cell in cells_of(notebook)}


def executed(notebook: Mapping[str, Any]) -> dict[str, str]:
    """The same of an executed notebook; nothing of one whose cells have not run."""
    found = {key_of(cell): _joined(outputs_of(cell)) for cell in cells_of(notebook)}
    return found if any(found.values()) else {}


def unmeasured(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """The page of a notebook that this machine has not executed: its cells without what they would show."""
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            cells.append(cell)
        elif not has_parameters(cell):
            cells.append(cell | {"outputs": [], "execution_count": None})
    return {**notebook, "cells": cells}


class RecordedPage(Page):
    """A recorded device in the place of this machine: what a notebook calls `lab`. It measures nothing."""

    def __init__(self, data: RecordedData, store: Store) -> None:
        self._data, self._store = data, store

    @property
    def data(self) -> RecordedData:
        return self._data

    @property
    def store(self) -> Store:
        return self._store

    @property
    def cases(self) -> list[Case]:
        return list(self.data.cases)

    def measure(self) -> None:
        """Nothing is measured."""

    def demonstration(self) -> Note:
        return Note(
            "what the lab shows beyond times is computed on the machine that executes the notebook. Where that has happened, "
            f"it is on this page under Device, {HERE.label}"
        )

    def _repr_html_(self) -> str:
        data = self.data
        run, measured = data.rows.iloc[-1], data.rows.drop_duplicates(["variant", "case", "role"], keep="last")
        said = f"{len(measured)} measurements, the newest of {run['started']:%Y-%m-%d}, at scale {data.scale}"
        faults = counts(measured.to_dict("records"))
        said += "".join(f", {number} of them not traced to their code ({why})" for why, number in faults.items())
        several = len(machines(of_newest(data.rows)))  # of all runs that a figure is of
        apart = f" The runs are of {several} machines or GPUs; the card of a number says which." * bool(several)
        return f'<p class="recorded-run"><strong>{escape(str(data.place))}</strong>: {escape(said + "." + apart)}</p>'


def _run(code: str, lab: RecordedPage, names: dict[str, Any]) -> list[dict[str, Any]]:
    """The outputs of a cell. What a recorded device cannot do has none."""
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
                value = eval(compile(ast.Expression(line.value), "story", "eval"), names)
                shown += [value] if value is not None else []
            else:
                exec(compile(ast.Module([line], []), "story", "exec"), names)
    except UserFacingError as why:
        shown.append(Note(str(why)))
    except Exception:  # a cell of the reader's own, of what only a measured lab has
        return []
    bundles = [_bundle(each) for each in shown if each is not None]
    notes = [_bundle(each) for each in shown if isinstance(each, Note)]
    return [{"data": each} for at, each in enumerate(bundles) if each not in notes or each not in bundles[:at]]


def _opens(line: ast.stmt) -> bool:
    """Whether a line is `lab = roofbook.open(...)`."""
    return isinstance(line, ast.Assign) and ast.unparse(line.value).startswith("roofbook.open(")


def _bundle(shown: Any) -> dict[str, str]:
    for kind, method in (("text/html", "_repr_html_"), ("text/markdown", "_repr_markdown_")):
        if text := getattr(shown, method, lambda: None)():
            return {kind: text}
    return {}


def _joined(outputs: Sequence[Mapping[str, Any]]) -> str:
    """The outputs of a cell as one HTML."""
    from markdown_it import MarkdownIt

    parts = []
    for output in outputs:
        data = output.get("data", {})
        if "text/html" in data:
            parts.append("".join(data["text/html"]))
        elif "text/markdown" in data:
            parts.append(MarkdownIt().render("".join(data["text/markdown"])))
        elif text := "".join(output.get("text", "") or data.get("text/plain", "")).strip():
            parts.append(f"<pre>{escape(text)}</pre>")
    return "\n".join(parts)
