"""Outputs of a lab's notebook on a recorded device, as HTML by cell: the cells are run over the device's rows.

They run in this process, without a kernel. The outputs on the machine that executed the notebook are in the executed notebook.
"""

import ast
import contextlib
import dis
import io
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..analysis.provenance_check import counts, machines
from ..analysis.recorded import RecordedData
from ..errors import Failed, UserFacingError
from ..escaping import escape
from ..paths import LIBRARY
from ..spec import registry
from ..spec.lab import Case
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
            "the lab's results beyond times are computed on the machine that executes the notebook. Where that has happened, "
            f"it is on this page under Device, {HERE.label}"
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


class _Library:
    """Stand-in for the package `roofbook` in a notebook: it opens the page of the recorded device."""

    def __init__(self, page: RecordedPage) -> None:
        self._page = page

    def open(self, lab: str, *_: object, **__: object) -> RecordedPage:
        """Return the page. Raises _NotReplayed for another lab than that of the page."""
        if lab != self._page.data.lab.name:
            raise _NotReplayed(f"it opens another lab, {lab}")
        return self._page


class _Replay:
    """Runs a notebook's cells over recorded rows, with one namespace for all cells."""

    def __init__(self, page: RecordedPage, notebook: Mapping[str, Any]) -> None:
        self._page = page
        self._names: dict[str, Any] = {}
        self._absent = {"get_ipython", "In", "Out"}
        """Names defined where the notebook is executed, but not here: parameters, missing packages, names of cells that were
        not repeated.
        """
        for cell in notebook["cells"]:
            if cell["cell_type"] == "code" and has_parameters(cell):
                self._absent |= _bound([ast.parse("".join(cell["source"]))])

    def run(self, number: int, code: str) -> list[dict[str, Any]]:
        """Return the outputs of a cell. number: its place in the notebook, from 1.

        A cell that cannot be repeated gets a note. Raise ReplayFailed for an error in the book's code, or in a line that calls
        the lab.
        """
        file, printed = f"cell {number}", io.StringIO()
        try:
            tree = ast.parse(code, file)
        except SyntaxError as error:
            return [{"data": _bundle(_note(f"line {error.lineno} is no plain Python"))}]
        bundles_shown: list[tuple[dict[str, str], bool]] = []

        def display(*objects: Any, **_: Any) -> None:
            bundles_shown.extend((_bundle(thing), isinstance(thing, Note)) for thing in objects if thing is not None)

        self._names["display"] = display
        done = 0
        try:
            with contextlib.redirect_stdout(printed):
                for done, statement in enumerate(tree.body):
                    is_result = done == len(tree.body) - 1 and not code.rstrip().endswith(";")
                    self._execute(statement, file, display if is_result else None)
        except UserFacingError as user_error:
            display(Note(str(user_error)))
            self._absent |= _bound(tree.body[done:])
        except Exception as error:
            statement = tree.body[done]
            if (reason := self._why_not(error, statement)) is None:
                raise ReplayFailed(self._complaint(error, file, statement)) from error
            display(_note(reason))
            self._absent |= _bound(tree.body[done:])
        text = [{"text": printed.getvalue()}] * bool(printed.getvalue())
        bundles, notes = (
            [bundle for bundle, _ in bundles_shown],
            [bundle for bundle, is_note in bundles_shown if is_note],
        )
        return text + [
            {"data": bundle}
            for position, bundle in enumerate(bundles)
            if bundle not in notes or bundle not in bundles[:position]
        ]

    def _execute(self, statement: ast.stmt, file: str, show: Callable[[Any], None] | None) -> None:
        """Run a statement. show: function called with the value of an expression."""
        if isinstance(statement, ast.Import | ast.ImportFrom):
            self._import(statement)
        elif isinstance(statement, ast.Expr) and show:
            show(eval(compile(ast.Expression(statement.value), file, "eval"), self._names))
        else:
            exec(compile(ast.Module([statement], []), file, "exec"), self._names)

    def _import(self, statement: ast.Import | ast.ImportFrom) -> None:
        """Run an import. `roofbook`, its `open` and `display` are those of the recorded page.

        A name that this machine does not have is absent, unless it is one of this package.
        """
        library = _Library(self._page)
        stand_ins = {f"{PACKAGE.__name__}.open": library.open, "IPython.display.display": self._names["display"]}
        for alias in statement.names:
            name = alias.asname or alias.name.partition(".")[0]
            path = f"{statement.module}.{alias.name}" if isinstance(statement, ast.ImportFrom) else alias.name
            try:
                exec(compile(ast.Module([_of_alias(statement, alias)], []), "import", "exec"), self._names)
            except ImportError as error:
                if str(error.name).startswith(PACKAGE.__name__):
                    raise
                self._absent.add(name)
            if self._names.get(name) is PACKAGE:
                self._names[name] = library
            elif path in stand_ins:
                self._names[name] = stand_ins[path]

    def _why_not(self, error: Exception, statement: ast.stmt) -> str | None:
        """Return why a cell cannot be repeated here; None for an error that ends the build."""
        if isinstance(error, _NotReplayed):
            return str(error)
        if _frames_of_book(error) or (isinstance(error, ImportError) and str(error.name).startswith(PACKAGE.__name__)):
            return None
        if isinstance(error, NameError) and error.name in self._absent:
            return f"`{error.name}` is known only where the notebook is executed"
        if isinstance(error, AttributeError) and isinstance(error.obj, RecordedPage | _Library):
            owner, real = ("lab", Experiment) if error.obj is self._page else (PACKAGE.__name__, PACKAGE)
            is_known = hasattr(real, error.name or "") or (real is Experiment and error.name in _of_each_experiment())
            return f"`{owner}.{error.name}` needs a device to measure on" if is_known else None
        words = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        if isinstance(error, NameError) or any(self._names.get(word) is self._page for word in words):
            return None
        return f"{type(error).__name__}: {error}"

    def _complaint(self, error: Exception, file: str, statement: ast.stmt) -> str:
        cell_lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
        line, of_book = (cell_lines or [statement.lineno])[-1], _frames_of_book(error)
        source_line = f" ({of_book[-1]})" if of_book else ""
        message = " ".join(str(error).split())[:200]
        lab, device = self._page.data.lab.name, self._page.data.store_device
        return f"{lab}.ipynb, {file}, line {line}, on {device}: {type(error).__name__}: {message}{source_line}"


def _of_each_experiment() -> set[str]:
    """Return the attributes that `Experiment.__init__` sets: the class does not have them."""
    return {step.argval for step in dis.get_instructions(Experiment.__init__) if step.opname == "STORE_ATTR"}


def _of_alias(statement: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    """Return an import of one of the names that a statement imports."""
    if isinstance(statement, ast.Import):
        return ast.copy_location(ast.Import([alias]), statement)
    return ast.copy_location(ast.ImportFrom(statement.module, [alias], statement.level), statement)


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


def _bound(statements: Sequence[ast.AST]) -> set[str]:
    """Return the names that statements bind."""
    names = set[str]()
    for node in (node for statement in statements for node in ast.walk(statement)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
    return names


def _bundle(output: Any) -> dict[str, str]:
    """Return the MIME bundle of an object that a notebook displays."""
    kinds = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_"}
    methods = {kind: getattr(output, method) for kind, method in kinds.items() if hasattr(output, method)}
    if not methods:
        return {"text/plain": repr(output)}
    return next(({kind: text} for kind, draw in methods.items() if (text := draw())), {})
