"""Execution of notebooks by papermill into pages of the book, in this process. Each case is measured in a process of its own.

A page is replaced at the end, atomically: a crash leaves the earlier one. The manifest records all inputs of a page, so that an
unchanged page is not made again.
"""

import json
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import Failed, UsageError
from ..paths import scratch_folder
from ..spec import registry
from . import notebook_cells
from .input_hashes import InputHashes, lasting
from .lab_pages import pages_of
from .manifest import Manifest

logging.getLogger("papermill").addHandler(logging.NullHandler())  # its messages arrive as exceptions


class NotebookFailed(Failed):
    """A cell raised an error that no reader could have caused.

    The message is one line, with the path of the partly executed notebook.
    """


def execute(
    root: Path, notebook: Path, parameters: Mapping[str, Any] | None = None, *, page: Path | None = None
) -> Path:
    """Execute `notebook` with `parameters` in the checkout `root`; return the executed copy.

    The copy is written to `page`, by default to the book's page (`page_of`), which the manifest then records. A terminal shows
    the current measurement.
    Raise UsageError if a cell raised it (bad parameters), NotebookFailed for any other exception in a cell.
    """
    import papermill
    from papermill.exceptions import PapermillExecutionError

    from . import inprocess_engine

    if not notebook.exists():
        raise UsageError(f"there is no notebook {notebook}; a lab has one of its own name in experiments/")
    check_notebook(notebook)
    parameters = dict(parameters or {})
    stopped_at = root / "_build" / "partial" / notebook.name
    stopped_at.parent.mkdir(parents=True, exist_ok=True)
    # Inputs are hashed before the execution: an edit during it leaves the page stale.
    now = InputHashes(root)
    made_from = now.page(notebook, parameters)
    with scratch_folder(stopped_at.parent) as scratch:  # another process may execute the same notebook
        partial = scratch / notebook.name
        try:
            papermill.execute_notebook(
                notebook,
                partial,
                parameters=parameters,
                engine_name=inprocess_engine.NAME,
                kernel_name="python3",
                language="python",
                cwd=root,
                progress_bar=False,
                request_save_on_cell_execute=False,  # saving would write the whole notebook before and after each cell
            )
        except PapermillExecutionError as error:
            if error.ename == UsageError.__name__:
                raise UsageError(error.evalue) from None
            message = " ".join(str(error.evalue).split())[:200]
            os.replace(partial, stopped_at)
            raise NotebookFailed(
                f"{notebook.name}, {_place(error, stopped_at)}: {error.ename}: {message}"
                f" (executed so far: {stopped_at.relative_to(root)})"
            ) from None
        if page:
            page.parent.mkdir(parents=True, exist_ok=True)
            os.replace(partial, page)
            return page
        made_from["store"] = now.runs_of_page(notebook.stem, parameters)  # includes the new measurements
        page, text = page_of(root, notebook), partial.read_text(encoding="utf-8")
        Manifest(root).write(page, text, made_from, lasting(parameters))
        return page


def _place(error: Any, executed: Path) -> str:
    """Return the cell of papermill's error, and its line if known, as numbered in the executed notebook."""
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    added = sum("injected-parameters" in cell["metadata"].get("tags", []) for cell in cells)
    lines = re.findall(r"Cell In\[\d+\], line (\d+)", re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback)))
    line = f", line {lines[-1]}" if lines else ""
    return f"cell {error.cell_index + 1 - added}{line}"


def check_notebook(path: Path) -> None:
    """Raise UsageError for a file that is no notebook, and for a lab's notebook with the tag of an unknown page."""
    import nbformat

    try:
        cells = nbformat.read(path, as_version=4)["cells"]
        if path.stem in registry.names():
            pages_of(cells)
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None
    except OSError:
        raise
    except Exception as error:  # nbformat and its validator raise half a dozen kinds
        raise UsageError(f"{path} is no notebook: {' '.join(str(error).split())[:200]}") from None


def declared_parameters(notebook: Path) -> set[str]:
    """Return the names that the cells tagged `parameters` of a notebook assign; empty for a file that is no notebook."""
    try:
        return notebook_cells.declared_parameters(json.loads(notebook.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):  # `execute` says what is wrong
        return set()


def notebooks(root: Path) -> list[Path]:
    """Return all notebooks, the peaks first: the others show their measurements."""
    paths = (root / "experiments").glob("*.ipynb")
    return sorted(paths, key=lambda path: (path.stem != registry.PEAKS, path.name))


def page_of(root: Path, notebook: Path) -> Path:
    """Return the path of the executed copy of `notebook`: in book/labs for a lab, otherwise in book/."""
    folder = root / "book"
    return (folder / "labs" if notebook.stem in registry.names() else folder) / notebook.name


def stale(
    root: Path, notebook: Path, parameters: Mapping[str, Any] | None = None, now: InputHashes | None = None
) -> list[str]:
    """Return reasons why executing `notebook` with `parameters` on this machine would give another page; empty if it would
    not.

    The reasons are those of `Manifest.stale`. now: hashes to share among several pages.
    """
    made_from = (now or InputHashes(root)).page(notebook, parameters or {})
    return Manifest(root).stale(page_of(root, notebook), made_from)


def parameters_of(root: Path, notebook: Path) -> dict[str, Any]:
    """Return the parameters that the page of `notebook` was executed with, to make it again; empty if they are unknown.

    If the manifest does not record the page as it is, they are read from papermill's metadata in it.
    """
    page = page_of(root, notebook)
    recorded = Manifest(root).parameters(page)
    return lasting(_left_by_papermill(page)) if recorded is None else recorded


def parameters_text(parameters: Mapping[str, Any]) -> str:
    """Return parameters as text for a message, such as `scale quick, device auto`."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def _left_by_papermill(page: Path) -> dict[str, Any]:
    try:
        metadata = json.loads(page.read_text(encoding="utf-8"))["metadata"]["papermill"]
        return {} if metadata.get("exception") else dict(metadata["parameters"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}
