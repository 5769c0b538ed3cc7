"""The cost of starting a command: modules that it loads, and processor time."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

HEAVY = {
    "IPython",
    "cupy",
    "duckdb",
    "jupyter_client",
    "matplotlib",
    "pandas",
    "papermill",
    "pyarrow",
    "pycparser",
    "pyopencl",
    "sphinx",
    "wgpu",
}


@pytest.fixture(scope="module")
def place(unmeasured: Callable[[], Path]) -> Path:
    """The checkout in which the commands start."""
    return unmeasured()


@pytest.mark.parametrize("arguments", [["--help"], ["labs"], ["show", "lbm", "fused"], ["explain", "lmb"]])
def test_a_command_loads_only_modules_that_it_needs(place: Path, arguments: list[str]) -> None:
    code = (
        "import sys, roofbook; before = set(sys.modules)\n"
        f"sys.argv = ['roofbook', *{arguments!r}]\n"
        "from roofbook.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print('LOADED', *sorted({name.split('.')[0] for name in sys.modules}))\n"
        "print('BEFORE', *sorted({name.split('.')[0] for name in before}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=place, capture_output=True, text=True, check=True)
    loaded, before = (set(line.split()[1:]) for line in done.stdout.splitlines()[-2:])
    assert not loaded & HEAVY
    assert not before & {*HEAVY, "numpy", "click", "pcpp"}, "`import roofbook` alone is next to nothing"


@pytest.mark.parametrize("arguments", [["--help"], ["labs"]])
def test_a_command_starts_at_once(place: Path, arguments: list[str]) -> None:
    """Processor time beside that of loading NumPy and Click, the best of each by turns: a busy machine stretches both."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def spent(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=place, env=compiled, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    command_seconds, library_seconds = [], []
    for _ in range(20):
        command_seconds.append(spent(sys.executable, "-m", "roofbook.cli", *arguments))
        library_seconds.append(spent(sys.executable, "-c", "import numpy, click"))
        if len(command_seconds) > 1 and min(command_seconds) < 2.5 * min(
            library_seconds
        ):  # after the first, all is compiled
            break
    assert min(command_seconds) < 2.5 * min(library_seconds)


def test_the_program_is_installed_under_its_name() -> None:
    program = shutil.which("roofbook", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("the package is on the path, not installed")
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and re.fullmatch(r"roofbook, version [\d.]+\n", done.stdout)
