"""The cost of starting a command: modules that it loads, and calls of functions."""

from __future__ import annotations

import os
import re
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


CALLS = """
import sys
calls = 0
def count(frame, event, arg):
    global calls
    calls += event in ("call", "c_call")
sys.setprofile(count)
try:
    exec(sys.argv.pop(1))
except SystemExit:
    pass
sys.setprofile(None)
print("CALLS", calls)
"""
"""A program that executes its first argument and prints how many calls of functions that took."""


@pytest.mark.parametrize(("arguments", "most"), [(["--help"], 1.0), (["labs"], 3.0)])
def test_a_command_starts_at_once(place: Path, arguments: list[str], most: float) -> None:
    """Calls of functions beside those of loading NumPy and Click: unlike seconds, they are the same on each processor."""
    compiled = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}

    def calls(code: str) -> int:
        command = [sys.executable, "-c", CALLS, code, *arguments]
        for _ in range(2):  # the first compiles what it loads
            done = subprocess.run(command, cwd=place, env=compiled, capture_output=True, text=True, check=True)
        return int(done.stdout.split()[-1])

    assert calls("from roofbook.cli import main; main()") < most * calls("import numpy, click")


def test_the_program_is_installed_under_its_name() -> None:
    program = shutil.which("roofbook", path=str(Path(sys.executable).parent))
    if program is None:
        pytest.skip("the package is on the path, not installed")
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and re.fullmatch(r"roofbook, version [\d.]+\n", done.stdout)
