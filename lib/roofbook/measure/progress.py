"""What is being measured now, in one line that goes away: from whoever measures to the person who waits.

A notebook runs in a process of its own, so its line reaches the terminal through a file, which ROOFBOOK_PROGRESS names.
"""

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from ..escaping import printable
from ..terminal import write_control

Progress = Callable[[str, str], None]
"""Takes (variant, what happens now)."""


def silent(variant: str, what: str) -> None:
    """The progress that nobody waits for."""


VARIABLE = "ROOFBOOK_PROGRESS"
EVERY_S = 0.2
"""A line is not renewed more often: whoever shows it needs a core, and the cores are what is measured."""


class ProgressLine:
    """One line of a terminal, renewed in place: what runs, since when, what it does now. Silent in a pipe."""

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


class Reporter:
    """The progress of `measure_case`, shown to the person who waits: a call costs next to nothing.

    Whichever there is: the file for the process that executes the notebook, an output that goes away, the terminal.
    """

    def __init__(self) -> None:
        path = os.environ.get(VARIABLE)
        self.show: _File | _Output | ProgressLine
        self.show = _File(Path(path)) if path else _Output() if _in_a_notebook() else ProgressLine("measuring")
        self.due = -1.0

    def __call__(self, what: str, now: str) -> None:
        moment = time.monotonic()
        if moment >= self.due:
            self.show(f"{what}: {now}")
            self.due = moment + EVERY_S

    def end(self) -> None:
        """Take the line away."""
        if self.due >= 0:
            self.show.end()


@contextlib.contextmanager
def follow(path: Path, line: ProgressLine) -> Iterator[None]:
    """While the block runs, show what another process keeps in the file `path`, a few times a second."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(EVERY_S):
            with contextlib.suppress(OSError):
                line(path.read_text(encoding="utf-8"))

    path.touch()
    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
        line.end()


class _File:
    """The line as the content of a file. Its reader may meet half a line: the next one is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __call__(self, text: str) -> None:
        with contextlib.suppress(OSError):  # its reader has gone
            self.path.write_text(text, encoding="utf-8")

    def end(self) -> None:
        self("")


def _in_a_notebook() -> bool:
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


class _Output:
    """An output of the cell, taken away at the end with what the cell had shown before."""

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
