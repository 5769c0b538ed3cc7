"""Outputs of a lab's notebook on a recorded device, as HTML by cell: the cells are run over the device's rows.

They run in this process, without a kernel. The outputs on the machine that executed the notebook are in the executed notebook.
"""

import ast
import builtins
import contextlib
import io
import symtable
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import IPython.display

from ..analysis.provenance_check import counts, machines
from ..analysis.recorded import RecordedData
from ..errors import Failed, UserFacingError
from ..escaping import escape
from ..paths import LIBRARY
from ..spec import registry
from ..spec.plan import Case
from ..store.parquet import Store
from ..store.todays_code import newest_measurements
from .device_choices import HERE
from .experiment import Experiment
from .notebook_cells import has_parameters, key_of, outputs_html
from .page import Note, Page

PACKAGE = sys.modules[__name__.partition(".")[0]]
"""Package that a notebook imports: this one."""


def replay(notebook: Mapping[str, Any], data: RecordedData, store: Store) -> dict[str, str]:
    """Return the HTML of each code cell of a lab's notebook on a recorded device, by the cell's key.

    A cell that cannot be repeated there becomes a note. Raise ReplayFailed if the book's own code fails in a cell.
    """
    cells, html_by_key = _Replay(RecordedPage(data, store), notebook), {}
    for number, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code" and not has_parameters(cell):
            html_by_key[key_of(cell)] = outputs_html(cells.run(number, "".join(cell["source"])))
    return html_by_key


class RecordedPage(Page):
    """Page of a recorded device: the object that a notebook calls `lab`. It measures nothing."""

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
        """Do nothing: a recorded device is not measured."""

    def demonstration(self) -> Note:
        return Note(
            "these results are computed where the notebook runs, so a recorded device has none. Choose another device above: "
            f"{HERE.label}, if the list has it"
        )

    def _repr_html_(self) -> str:
        data = self.data
        run, measured = data.rows.iloc[-1], data.rows.drop_duplicates(["variant", "case", "role"], keep="last")
        summary = f"{len(measured)} measurements, the newest of {run['started']:%Y-%m-%d}, at scale {data.scale}"
        faults = counts(measured.to_dict("records"))
        summary += "".join(f", {number} of them not traced to their code ({fault})" for fault, number in faults.items())
        machine_count = len(machines(newest_measurements(data.rows)))  # over all runs that a figure shows
        if machine_count:
            summary += f". The runs are of {machine_count} machines or GPUs; the card of a number says which"
        return f'<p class="recorded-run"><strong>{escape(str(data.store_device))}</strong>: {escape(summary + ".")}</p>'


class ReplayFailed(Failed):
    """A cell failed on a recorded device by an error in the book's code. Names the notebook, cell, line and device."""


class _NotReplayed(Exception):
    """Reason why a cell cannot be repeated on a recorded device."""


class _StandIn:
    """Module as a notebook imports it: with other functions in place of some of its own."""

    def __init__(self, module: ModuleType, **functions: Callable[..., Any]) -> None:
        self._module = module
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)


class _Replay:
    """Runs a notebook's cells over recorded rows, with one namespace for all cells."""

    def __init__(self, page: RecordedPage, notebook: Mapping[str, Any]) -> None:
        self._page = page
        self._bundles: list[dict[str, str]] = []
        """Outputs of the cell that runs."""
        stand_ins = {
            PACKAGE.__name__: _StandIn(PACKAGE, open=self._open),
            "IPython.display": _StandIn(IPython.display, display=self._display),
        }

        def import_module(name: str, *options: Any) -> Any:
            module, has_list = __import__(name, *options), bool(options[2:] and options[2])
            return stand_ins.get(name if has_list else name.partition(".")[0], module)

        self._names: dict[str, Any] = {
            "__builtins__": {**vars(builtins), "__import__": import_module},
            "display": self._display,
        }
        self._bound = {"get_ipython", "In", "Out"}.union(*map(_bound_names, notebook["cells"]))
        """Names where the notebook is executed; parameters, and names of cells that were not repeated, are absent here."""

    def _open(self, lab: str, *_: object, **__: object) -> RecordedPage:
        """Return the page. Raise _NotReplayed for another lab than that of the page."""
        if lab != self._page.data.lab.name:
            raise _NotReplayed(f"it opens another lab, {lab}")
        return self._page

    def _display(self, *objects: Any, **_: Any) -> None:
        for output in objects:
            bundle = {} if output is None else _bundle(output)
            if bundle and not (isinstance(output, Note) and bundle in self._bundles):
                self._bundles.append(bundle)

    def run(self, number: int, code: str) -> list[dict[str, Any]]:
        """Return the outputs of a cell. number: its place in the notebook, from 1.

        A cell that cannot be repeated gets a note. Raise ReplayFailed for an error in the book's code, or in a line that calls
        the lab.
        """
        file, printed, self._bundles = f"cell {number}", io.StringIO(), []
        try:
            tree = ast.parse(code, file)
            statements = list(tree.body)
            has_result = statements and isinstance(statements[-1], ast.Expr) and not code.rstrip().endswith(";")
            result = tree.body.pop() if has_result else None
            lines_before = compile(tree, file, "exec")
            last = compile(ast.Expression(result.value), file, "eval") if isinstance(result, ast.Expr) else None
        except SyntaxError as error:
            return [{"data": _bundle(_note(f"line {error.lineno} is no plain Python"))}]
        try:
            with contextlib.redirect_stdout(printed):
                exec(lines_before, self._names)
                if last:
                    self._display(eval(last, self._names))
        except UserFacingError as user_error:
            self._display(Note(str(user_error)))
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            lines = [frame.lineno or 1 for frame in frames if frame.filename == file]
            if (reason := self._why_not(error, statements, lines[0])) is None:
                raise ReplayFailed(self._complaint(error, file, lines[-1])) from error
            self._display(_note(reason))
        text = [{"text": printed.getvalue()}] * bool(printed.getvalue())
        return text + [{"data": bundle} for bundle in self._bundles]

    def _why_not(self, error: Exception, statements: Sequence[ast.stmt], line: int) -> str | None:
        """Return why a cell cannot be repeated here; None for an error that ends the build. line: of the failed statement."""
        if isinstance(error, _NotReplayed):
            return str(error)
        if _frames_of_book(error):
            return None
        if isinstance(error, ImportError):
            return None if str(error.name).startswith(PACKAGE.__name__) else str(error)
        if isinstance(error, NameError):
            return f"`{error.name}` is known only where the notebook is executed" if error.name in self._bound else None
        if isinstance(error, AttributeError) and error.obj is self._page:
            is_known = hasattr(Experiment, error.name or "") or error.name in Experiment.__init__.__code__.co_names
            return f"`lab.{error.name}` needs a device to measure on" if is_known else None
        failed = next(statement for statement in statements if line <= (statement.end_lineno or line))
        words = {node.id for node in ast.walk(failed) if isinstance(node, ast.Name)}
        uses_lab = any(self._names.get(word) is self._page for word in words)
        return None if uses_lab else f"{type(error).__name__}: {error}"

    def _complaint(self, error: Exception, file: str, line: int) -> str:
        of_book = _frames_of_book(error)
        source_line = f" ({of_book[-1]})" if of_book else ""
        message = " ".join(str(error).split())[:200]
        lab, device = self._page.data.lab.name, self._page.data.store_device
        return f"{lab}.ipynb, {file}, line {line}, on {device}: {type(error).__name__}: {message}{source_line}"


def _note(reason: str) -> Note:
    return Note(f"this cell is not repeated for a recorded device: {reason}")


def _frames_of_book(error: Exception) -> list[str]:
    """Return the lines of the book's code, and of labs elsewhere, that an error came through: 'report/bars.py, line 51'."""
    lines = []
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename).resolve()
        folder = next(
            (folder for folder in (LIBRARY, *registry.folders().values()) if path.is_relative_to(folder)), None
        )
        if folder and path != Path(__file__).resolve():
            name = path.relative_to(LIBRARY if folder == LIBRARY else folder.parent)
            lines.append(f"{name}, line {frame.lineno}")
    return lines


def _bound_names(cell: Mapping[str, Any]) -> set[str]:
    """Return the names that a cell's lines bind, if they are plain Python."""
    try:
        code = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
        symbols = symtable.symtable(code, "cell", "exec").get_symbols()
    except SyntaxError:
        return set()
    return {symbol.get_name() for symbol in symbols if symbol.is_assigned() or symbol.is_imported()}


def _bundle(output: Any) -> dict[str, str]:
    """Return the MIME bundle of an object that a notebook displays."""
    kinds = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_"}
    methods = {kind: getattr(output, method) for kind, method in kinds.items() if hasattr(output, method)}
    if not methods:
        return {"text/plain": repr(output)}
    return next(({kind: text} for kind, draw in methods.items() if (text := draw())), {})
