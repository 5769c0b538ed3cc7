"""Papermill engine that runs a notebook's cells in this process: no kernel starts, and loaded modules stay loaded."""

import io
import sys
import traceback
from contextlib import redirect_stdout
from typing import Any

from papermill.engines import Engine, papermill_engines

NAME = "in-process"


class InProcess(Engine):  # type: ignore[misc]
    """Runs the cells in order in an IPython shell, up to the first that raises, as papermill does."""

    @classmethod
    def execute_managed_notebook(cls, nb_man: Any, kernel_name: str, **_: Any) -> None:
        from IPython.core.interactiveshell import InteractiveShell
        from traitlets.config import Config

        class Shell(InteractiveShell):
            def init_virtualenv(self) -> None:
                """Leave `sys.path` as it is: IPython puts the packages of another activated environment first."""

        shell: Any = Shell.instance(config=Config({"HistoryManager": {"enabled": False}}))
        shell.showtraceback = failures = _Failures()
        try:
            count = 0
            for index, cell in enumerate(nb_man.nb.cells):
                if cell.cell_type != "code":
                    continue
                count += 1
                nb_man.cell_start(cell, index)
                cell.execution_count = count
                cell.outputs, error = _run(shell, cell.source, count, failures)
                if error:
                    nb_man.cell_exception(cell, index)
                    break
                nb_man.cell_complete(cell, index)
        finally:
            Shell.clear_instance()


class _Failures:
    """Collects errors that IPython would print, including those raised while a result is displayed, which end no cell."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def __call__(self, exc_tuple: Any = None, *_: Any, **__: Any) -> None:
        error = (exc_tuple or sys.exc_info())[1]
        if error is not None:
            self.errors.append(error)


def _run(shell: Any, source: str, count: int, failures: _Failures) -> tuple[list[Any], bool]:
    """Return the outputs of a cell in notebook format, and whether the cell or the display of its result raised."""
    failures.errors.clear()
    from IPython.core.displayhook import CapturingDisplayHook
    from IPython.core.displaypub import CapturingDisplayPublisher
    from nbformat.v4 import new_output

    result = CapturingDisplayHook(shell)
    shell.display_pub, shell.display_trap.hook = CapturingDisplayPublisher(), result
    shell.history_manager.input_hist_parsed.append(source)  # the list `In` of the notebook
    with redirect_stdout(io.StringIO()) as printed:
        done = shell.run_cell(source)
    outputs = [new_output("stream", name="stdout", text=printed.getvalue())] if printed.getvalue() else []
    for output in shell.display_pub.outputs:
        outputs.append(new_output("display_data", output["data"], metadata=output["metadata"] or {}))
    for output in result.outputs:
        outputs.append(new_output("execute_result", output["data"], metadata=output["metadata"], execution_count=count))
    error = done.error_before_exec or done.error_in_exec or next(iter(failures.errors), None)
    if isinstance(error, KeyboardInterrupt):
        raise error
    if error:
        outputs.append(
            new_output("error", ename=type(error).__name__, evalue=str(error), traceback=_lines(shell, error, count))
        )
    return outputs, error is not None


def _lines(shell: Any, error: BaseException, count: int) -> list[str]:
    """Return the lines of the cell that an error came through, as a kernel names them."""
    frames = traceback.walk_tb(error.__traceback__)
    return [f"Cell In[{count}], line {line}" for frame, line in frames if frame.f_globals is shell.user_global_ns]


papermill_engines.register(NAME, InProcess)
