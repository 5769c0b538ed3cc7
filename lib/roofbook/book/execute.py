"""Executes a notebook by papermill into a page of the book: one process each, over IPC, by this very interpreter.

The page is replaced at the end and at once: a crash leaves the earlier one. What it was made from is in the manifest, so that
a page of which nothing has changed is not made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import own_python
from ..errors import Failed, UsageError, ctrl_c_waits
from ..measure import progress
from ..paths import scratch_folder
from ..spec import registry
from .input_hashes import InputHashes, lasting
from .lab_pages import pages_of
from .manifest import Manifest

logging.getLogger("papermill").addHandler(logging.NullHandler())  # what it has to say comes as an exception

IDLE_S = 1.0
"""Seconds for which a kernel that is to end may be at no cell."""


class NotebookFailed(Failed):
    """A cell raised what no reader could have caused: one line, and where the partly executed notebook lies."""


def execute(
    root: Path,
    notebook: Path,
    parameters: Mapping[str, Any] | None = None,
    *,
    page: Path | None = None,
    here: bool = False,
) -> Path:
    """Execute `notebook` with `parameters` in the checkout `root`; return the executed copy.

    The copy lands at `page`, else as the book's page (`page_of`), which the manifest then knows. A terminal shows meanwhile
    what is being measured. here: in this process, which saves the start of a kernel. Raises UsageError where a cell did (bad
    parameters), NotebookFailed for any other exception in one.
    """
    import papermill

    if here:
        from . import inprocess_engine
    from jupyter_core.utils import ensure_event_loop
    from nbclient.exceptions import DeadKernelError
    from papermill.exceptions import PapermillExecutionError

    if not notebook.exists():
        raise UsageError(f"there is no notebook {notebook}; a lab has one of its own name in experiments/")
    check_notebook(notebook)
    parameters = dict(parameters or {})
    stopped_at = root / "_build" / "partial" / notebook.name
    stopped_at.parent.mkdir(parents=True, exist_ok=True)
    # What the page depends on, read before: an edit made meanwhile leaves the page stale.
    now = InputHashes(root)
    made_from = now.page(notebook, parameters)
    # Short: the path of a socket has at most 107 characters.
    short = None if len(os.fsencode(tempfile.gettempdir())) <= 70 else "/tmp"
    with (
        scratch_folder(short) as scratch,
        scratch_folder(stopped_at.parent) as own,  # another process may execute the notebook too
    ):
        told, log, partial = scratch / "progress", scratch / "log", own / notebook.name
        try:
            environment = {
                **own_python.environment(),
                **registry.environment(),
                progress.VARIABLE: str(told),
                "IPYTHONDIR": str(scratch / "ipython"),  # the reader's profile takes no part
            }
            if short is None:  # so that what a kernel leaves that does not end by itself goes too
                environment["TMPDIR"] = str(scratch)
            with (
                log.open("wb") as complaints,
                progress.follow(told, progress.ProgressLine(notebook.stem)),
                _kernels(scratch, stderr=complaints, env=environment) as kernel,
            ):
                papermill.execute_notebook(
                    notebook,
                    partial,
                    parameters=parameters,
                    kernel_name="python3",
                    language="python",
                    cwd=root,
                    progress_bar=False,
                    request_save_on_cell_execute=False,  # it would write all of it before and after each cell
                    **{"engine_name": inprocess_engine.NAME} if here else {"kernel_manager_class": kernel},
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
        made_from["store"] = now.runs_of_page(notebook.stem, parameters)  # with what was just measured
        page, text = page_of(root, notebook), partial.read_text(encoding="utf-8")
        Manifest(root).write(page, text, made_from, lasting(parameters))
        return page


def _place(error: Any, executed: Path) -> str:
    """Return the cell of papermill's error, and its line if that is known, as the notebook that was executed counts them."""
    cells = json.loads(executed.read_text(encoding="utf-8"))["cells"]
    added = sum("injected-parameters" in cell["metadata"].get("tags", []) for cell in cells)
    lines = re.findall(r"Cell In\[\d+\], line (\d+)", re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback)))
    line = f", line {lines[-1]}" if lines else ""
    return f"cell {error.cell_index + 1 - added}{line}"


def check_notebook(path: Path) -> None:
    """Refuse a file that is no notebook, and a lab's notebook with a tag of no page, by a UsageError."""
    import nbformat

    try:
        cells = nbformat.read(path, as_version=4)["cells"]
        if path.stem in registry.names():
            pages_of(cells)
    except UsageError as error:
        raise UsageError(f"{path}, {error}") from None
    except OSError:
        raise
    except Exception as error:  # of other text, nbformat and its validator raise half a dozen kinds
        raise UsageError(f"{path} is no notebook: {' '.join(str(error).split())[:200]}") from None


def notebooks(root: Path) -> list[Path]:
    """All notebooks, that of the peaks first: what it measures the others show."""
    found = (root / "experiments").glob("*.ipynb")
    return sorted(found, key=lambda path: (path.stem != registry.PEAKS, path.name))


def page_of(root: Path, notebook: Path) -> Path:
    """Where the executed copy of `notebook` lives in the book: a lab's in labs/, any other beside the written pages."""
    folder = root / "book"
    return (folder / "labs" if notebook.stem in registry.names() else folder) / notebook.name


def stale(
    root: Path, notebook: Path, parameters: Mapping[str, Any] | None = None, now: InputHashes | None = None
) -> list[str]:
    """Why the page differs from what executing `notebook` with `parameters` would give now, on this machine, as
    `Manifest.stale` has it; empty where it does not. `now`: to ask of several pages."""
    made_from = (now or InputHashes(root)).page(notebook, parameters or {})
    return Manifest(root).stale(page_of(root, notebook), made_from)


def parameters_of(root: Path, notebook: Path) -> dict[str, Any]:
    """The parameters that the page of `notebook` was executed with, to make it again; none where nothing tells of them.

    Of a page that the manifest does not know, or not as it is, they are those that papermill has left in it.
    """
    page = page_of(root, notebook)
    known = Manifest(root).parameters(page)
    return lasting(_left_by_papermill(page)) if known is None else known


def said(parameters: Mapping[str, Any]) -> str:
    """Parameters in a message, such as `scale quick, device auto`."""
    return ", ".join(f"{name} {value}" for name, value in parameters.items())


def _left_by_papermill(page: Path) -> dict[str, Any]:
    try:
        left = json.loads(page.read_text(encoding="utf-8"))["metadata"]["papermill"]
        return {} if left.get("exception") else dict(left["parameters"])
    except (OSError, ValueError, KeyError, TypeError):
        return {}


@contextlib.contextmanager
def _kernels(scratch: Path, **start: Any) -> Iterator[Callable[..., Any]]:
    """A kernel manager that talks over Unix sockets in `scratch` and starts this interpreter, with options for Popen.

    Whatever kernel of the name `python3` the user has installed elsewhere, the notebook runs in the book's environment.
    No kernel outlives the block: nbclient forgets one that Ctrl-C meets before it has answered for the first time.
    """
    from jupyter_client.kernelspec import KernelSpec
    from jupyter_client.manager import AsyncKernelManager

    started: list[AsyncKernelManager] = []

    class OwnKernelManager(AsyncKernelManager):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            self.transport = "ipc"
            self.connection_file = str(scratch / "kernel.json")
            self.ip = str(scratch / "kernel")

        async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]
            started.append(self)
            with ctrl_c_waits():
                await super().start_kernel(**options, **start)

        async def shutdown_kernel(self, **options: Any) -> None:  # type: ignore[override]
            ending = asyncio.ensure_future(_see_to_its_end(self.provisioner.process))  # type: ignore[union-attr]
            try:
                await super().shutdown_kernel(**options)
            finally:
                ending.cancel()
                await asyncio.wait([ending])

        async def _async_interrupt_kernel(self) -> None:
            """Nothing, where `shutdown_kernel` would interrupt it: `_see_to_its_end` does."""

        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(
                argv=[
                    sys.executable,
                    "-m",
                    "ipykernel_launcher",
                    "-f",
                    "{connection_file}",
                    "--InteractiveShellApp.ignore_cwd=True",
                ],
                display_name="Python 3",
                language="python",
                interrupt_mode="signal",
            )

    try:
        yield OwnKernelManager
    finally:
        for manager in started:
            process = getattr(manager.provisioner, "process", None)
            if process is not None:
                process.kill()
                process.wait()


async def _see_to_its_end(kernel: subprocess.Popen[Any]) -> None:
    """Interrupt the cell at which a kernel is that was asked to end, and kill it where it is at none and does not end.

    ipykernel ignores Ctrl-C between two cells, and may have been sent the next one, which can take long. And of some twenty
    kernels that end, a thread of one waits for a thread that has ended (ipykernel 7.4).
    """
    is_interrupted, at_cell = False, time.monotonic()
    while kernel.poll() is None:
        if not _ignores_ctrl_c(kernel.pid):
            at_cell = time.monotonic()
            if not is_interrupted:
                kernel.send_signal(signal.SIGINT)
                is_interrupted = True
        elif time.monotonic() - at_cell > IDLE_S:
            kernel.kill()
        await asyncio.sleep(0.02)


def _ignores_ctrl_c(process: int) -> bool:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:  # it has ended
        return False
    ignored = re.search(r"^SigIgn:\s*(\w+)$", status, re.M)
    return bool(ignored and int(ignored[1], 16) >> (signal.SIGINT - 1) & 1)
