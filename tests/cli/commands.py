"""Commands in a process of their own, and the rows that they leave. Serves tests of commands."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook import cli
from roofbook.store.parquet import Store

Cli = Callable[..., tuple[int, str, str]]
"""Function that runs a command in this process. It returns the exit code, standard output and standard error."""


def process(*arguments: str, cwd: Path, module: str = "roofbook.cli", **options: Any) -> subprocess.Popen[str]:
    """Start the command as a process in a process group of its own, as a terminal does."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell's background job would ignore it
        **options,
    )


def in_this_process(*arguments: str, cwd: Path) -> tuple[Any, str, str]:
    """Run the command in this process; for a fixture of a module, which has no `roofbook`. Return its exit code and outputs."""
    out, err, code = io.StringIO(), io.StringIO(), None
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", ["roofbook", *arguments])
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
    return code or 0, out.getvalue(), err.getvalue()


def rows(place: Path, sql: str = "select * from cells order by started") -> pd.DataFrame:
    return Store(place / "results").query(sql)
