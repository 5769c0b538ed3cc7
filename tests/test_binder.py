"""The files for Binder: the packages of the book, a Python that it supports, and a last step that finds a device."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.specifiers import SpecifierSet

from roofbook.devices.find import devices

ROOT = Path(__file__).parents[1]
BINDER = ROOT / ".binder"


def test_binder_installs_the_packages_of_make_book() -> None:
    (line,) = (line for line in (BINDER / "requirements.txt").read_text().splitlines() if not line.startswith("#"))
    option, named = line.split()
    assert option == "-r"
    assert (BINDER / named).resolve() == ROOT / "locks" / "book.txt", (
        "pip reads it as relative to the file that names it"
    )


def test_binders_python_is_one_that_the_book_runs_on() -> None:
    version = re.fullmatch(r"python-(3\.\d+)\n", (BINDER / "runtime.txt").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert version and version[1] in SpecifierSet(project["requires-python"])


def test_binders_last_step_installs_the_book_and_finds_the_device() -> None:
    """As Binder runs it, by its own first line, but that pip only looks whether it could install."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "PIP_DRY_RUN": "1"}
    done = subprocess.run([BINDER / "postBuild"], cwd=ROOT, env=environment, capture_output=True, text=True)
    if not devices():
        assert done.returncode and "no device" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert devices()[0].spec in done.stdout
