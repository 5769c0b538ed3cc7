"""The command `roofbook`: measure, repeat one measurement, read a kernel, build the book. Click makes functions commands."""

import atexit
import contextlib
import os
import sys

import click

from .. import memory, own_python
from ..errors import UsageError, program
from . import authoring, comparing, judging, measuring, publishing, reading, sharing, trying, tuning
from .app import app

__all__ = [
    "app",
    "authoring",
    "comparing",
    "judging",
    "main",
    "measuring",
    "publishing",
    "reading",
    "run",
    "sharing",
    "trying",
    "tuning",
]


def run() -> None:
    """Run the command as a process that ends as soon as the other functions registered for its end have run.

    Python itself would destroy the objects of pandas, DuckDB and IPython one by one, which takes up to a second.
    """
    code = 1

    def end() -> None:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()
        os._exit(code)

    own_python.settle()
    memory.collect_seldom()
    atexit.register(end)  # what is registered first runs last
    try:
        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        raise


def main() -> None:
    """Run the command: the entry point. A user's error is one line and exit code 2, Ctrl-C one line and 130."""
    stopped = "stopped; finished measurements are in the store, and the same command continues from there"
    if code := program(_command, stopped):
        sys.exit(code)


def _command() -> None:
    if not own_python.current_folder():
        raise UsageError("the current folder was removed, or is closed to you: change to one that is there")
    try:
        app(prog_name="roofbook", standalone_mode=False)
    except click.Abort:
        raise KeyboardInterrupt from None
    except click.ClickException as error:
        command = next((name for name in sys.argv[1:] if name in app.commands), "")
        help_of = f"roofbook {command}".strip()
        raise UsageError(f"{error.format_message()} (`{help_of} --help` says more)") from None
