"""Executes a notebook by papermill into a page of the book: one process each, over IPC, by this very interpreter.

The page is replaced at the end and at once: a crash leaves the earlier one. What a page was made from is kept in its
metadata, so that a page whose sources did not change is not made again.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ..errors import Failed, UsageError
from ..measure import progress
from ..spec import registry
from .manifest import lasting, source_key, store_key

METADATA = "roofbook"
logging.getLogger("papermill").addHandler(logging.NullHandler())  # what it has to say comes as an exception


class NotebookFailed(Failed):
    """A cell raised what no reader could have caused: one line, and where the partly executed notebook lies."""


def execute(
    root: Path,
    notebook: Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    page: Path | None = None,
) -> Path:
    """Execute `notebook` with `parameters` in the checkout `root`; return the executed copy.

    The copy lands at `page` (book/labs/NAME.ipynb unless given). A terminal shows meanwhile what is being measured.
    Raises UsageError where a cell did (bad parameters), NotebookFailed for any other exception in a cell.
    """
    import nbformat
    import papermill
    from jupyter_core.utils import ensure_event_loop
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if not notebook.exists():
        raise UsageError(f"there is no notebook {notebook}; a lab has one of its own name in experiments/")
    parameters = dict(parameters or {})
    page = page or page_of(root, notebook)
    page.parent.mkdir(parents=True, exist_ok=True)
    partial = root / "_build" / "partial" / page.name
    partial.parent.mkdir(parents=True, exist_ok=True)
    # What the page depends on, read before: an edit made meanwhile leaves the page stale.
    key = source_key(root, notebook, parameters)
    # Short: the path of a socket has at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="roofbook-", ignore_cleanup_errors=True) as scratch:
        now, log = Path(scratch, "progress"), Path(scratch, "log")
        try:
            with log.open("wb") as complaints, progress.follow(now, progress.Line(notebook.stem)):
                papermill.execute_notebook(
                    notebook,
                    partial,
                    parameters=parameters,
                    kernel_name="python3",
                    language="python",
                    cwd=root,
                    progress_bar=False,
                    kernel_manager_class=_kernel_manager_class(
                        Path(scratch), stderr=complaints, env={**os.environ, progress.VARIABLE: str(now)}
                    ),
                )
        except KeyboardInterrupt:
            # The request that was interrupted ends in an error that nobody awaits any more: asyncio is not to print it.
            ensure_event_loop().set_exception_handler(lambda *_: None)
            raise
        except DeadKernelError:
            said = [text for text in log.read_text(errors="replace").splitlines() if text.strip()] or ["without a word"]
            raise NotebookFailed(f"{notebook.name}: its process died: {said[-1]}") from None
        except PapermillExecutionError as error:
            if error.ename == UsageError.__name__:
                raise UsageError(error.evalue) from None
            line = " ".join(str(error.evalue).split())[:200]
            raise NotebookFailed(
                f"{notebook.name}, cell {error.cell_index + 1}: {error.ename}: {line}"
                f" (executed so far: {partial.relative_to(root)})"
            ) from None
    executed = nbformat.read(partial, as_version=4)
    executed.metadata[METADATA] = {
        "source_key": key,
        "store_key": store_key(root, notebook.stem, parameters),
        "parameters": lasting(parameters),
    }
    nbformat.write(executed, partial)
    os.replace(partial, page)
    return page


def notebooks(root: Path) -> list[Path]:
    """All notebooks, that of the ceilings first: what it measures the others show."""
    found = (root / "experiments").glob("*.ipynb")
    return sorted(found, key=lambda path: (path.stem != registry.PEAKS, path.name))


def page_of(root: Path, notebook: Path) -> Path:
    """Where the executed copy of `notebook` lives in the book: a lab's in labs/, any other beside the written pages."""
    folder = root / "book"
    return (folder / "labs" if notebook.stem in registry.names() else folder) / notebook.name


def stale(root: Path, notebook: Path, parameters: Mapping[str, Any] | None = None, *, page: Path | None = None) -> bool:
    """Whether the page differs from what executing `notebook` with `parameters` would give now, on this machine."""
    made = _made_from(page or page_of(root, notebook))
    parameters = dict(parameters or {})
    now = source_key(root, notebook, parameters), store_key(root, notebook.stem, parameters)
    return (made.get("source_key"), made.get("store_key")) != now


def parameters_of(root: Path, notebook: Path) -> dict[str, Any]:
    """The parameters that the page of `notebook` was executed with, to make it again; none where there is no page."""
    return dict(_made_from(page_of(root, notebook)).get("parameters", {}))


def _made_from(page: Path) -> dict[str, Any]:
    try:
        made: dict[str, Any] = json.loads(page.read_text(encoding="utf-8"))["metadata"][METADATA]
    except (OSError, ValueError, KeyError):
        return {}
    return made


def _kernel_manager_class(scratch: Path, **start: Any) -> Callable[..., Any]:
    """A kernel manager that talks over Unix sockets in `scratch` and starts this interpreter, with options for Popen.

    Whatever kernel of the name `python3` the user has installed elsewhere, the notebook runs in the book's environment.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    class OwnKernelManager(AsyncKernelManager):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.transport = "ipc"
            self.connection_file = str(scratch / "kernel.json")
            self.ip = str(scratch / "kernel")

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            await super().start_kernel(**options, **start)

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(
                argv=[sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                display_name="Python 3",
                language="python",
                interrupt_mode="signal",
            )

    return OwnKernelManager
