"""Progress of a measurement, shown in one line that disappears at the end."""

import math
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TextIO

from ..escaping import printable
from ..terminal import write_control

Progress = Callable[[str, str], None]
"""Function that reports progress: takes a variant and its present stage."""


def silent(variant: str, stage: str) -> None:
    """Report nothing."""


INTERVAL_S = 0.2
"""Seconds between two updates of the line: showing it takes a core, and cores are measured."""


class PlanShare:
    """Share of planned measurements that are taken, with the time that the others take at the pace so far."""

    def __init__(self, total: int, limit_s: float = math.inf) -> None:
        """limit_s: seconds after which no further measurement begins."""
        self.total, self.limit_s, self.done, self.start = total, limit_s, 0, time.monotonic()

    def __str__(self) -> str:
        text = f"{self.done} of {self.total}, {100 * self.done // self.total} %"
        if not self.done:
            return text
        elapsed_s = time.monotonic() - self.start
        minutes = max(0, min(elapsed_s / self.done * (self.total - self.done), self.limit_s - elapsed_s)) / 60
        return f"{text}, {f'{minutes:.0f} min' if minutes >= 1 else 'less than a minute'} left"


class ProgressLine:
    """Line of a terminal, updated in place: name, elapsed time and present stage. Silent in a pipe."""

    def __init__(self, name: str, stream: TextIO | None = None) -> None:
        self.name, self.stream, self.start = name, stream or sys.stderr, time.monotonic()

    def __call__(self, text: str) -> None:
        if self.stream.isatty():
            minutes, seconds = divmod(int(time.monotonic() - self.start), 60)
            line = " ".join(printable(f"{self.name} {minutes}:{seconds:02}  {text}").splitlines())
            write_control(self.stream, f"\r\x1b[K{line[: shutil.get_terminal_size().columns - 1]}")

    def end(self) -> None:
        if self.stream.isatty():
            write_control(self.stream, "\r\x1b[K")


class Reporter(AbstractContextManager["Reporter"]):
    """Progress of `measure_case`, shown to the user; a call takes hardly any time. As a context manager, it removes the line.

    It is shown in an output of a notebook, or in the terminal.
    """

    def __init__(self) -> None:
        self.show: _Output | ProgressLine = _Output() if is_in_notebook() else ProgressLine("measuring")
        self.due = -1.0

    def __call__(self, variant: str, stage: str) -> None:
        moment = time.monotonic()
        if moment >= self.due:
            self.show(f"{variant}: {stage}")
            self.due = moment + INTERVAL_S

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Remove the line."""
        if self.due >= 0:
            self.show.end()


def is_in_notebook() -> bool:
    """Return whether this process is the kernel of a notebook, before which a reader may sit."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class _Output:
    """Line as an output of a notebook cell. Its end clears all outputs of the notebook cell."""

    def __init__(self) -> None:
        self.handle: Any = None

    def __call__(self, text: str) -> None:
        from IPython.display import DisplayHandle

        data = {"text/plain": printable(text)}
        if self.handle is None:
            self.handle = DisplayHandle()
            self.handle.display(data, raw=True)
        else:
            self.handle.update(data, raw=True)

    def end(self) -> None:
        from IPython.display import clear_output

        clear_output()
