"""Faults of the system: a full disk, a closed output, a folder that takes no file, letters that an encoding lacks.

Each ends in one line that names the fault, with exit code 2, and leaves no half-written file. Tests use real processes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from .often import often

ROOT = Path(__file__).parents[1]
FULL = Path("/dev/full")
CELL = ["rerun", "lbm", "fused", "40x24", "--scale", "test", "--no-page"]
LBM = "roofbook.labs.lbm"


def ended(
    *arguments: str, module: str = "roofbook.cli", cwd: Path = ROOT, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end. Variables of `env` are added to this environment, or removed if they are None."""
    variables = os.environ | options.pop("env", {})
    environment = {name: value for name, value in variables.items() if value is not None}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run([sys.executable, "-m", module, *arguments], cwd=cwd, env=environment, text=True, **streams)


def refused(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert that the command ended with code 2 and one line with these words."""
    assert (done.returncode, done.stdout or "") == (2, "")
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1 and done.stderr.endswith("\n")
    assert all(word in done.stderr for word in words)


def closing(*numbers: int) -> Callable[[], None]:
    """Return a function that closes these files of a process that starts."""

    def close() -> None:
        for number in numbers:
            os.close(number)

    return close


@pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", often([["labs"], ["export", "select 1"]], lambda words: words == ["labs"]))
def test_an_output_that_is_full(arguments: list[str]) -> None:
    with FULL.open("w") as full:
        refused(ended(*arguments, stdout=full), "No space left on device")
        assert ended(*arguments, stdout=full, stderr=full).returncode == 2, "nor can it say so"


@pytest.mark.parametrize(
    "module", often(["roofbook.cli", LBM, "roofbook.labs.cnn"], ("roofbook.cli", LBM).__contains__)
)
def test_an_output_that_is_closed(module: str) -> None:
    refused(ended("nowhere", "nowhere", module=module, preexec_fn=closing(0, 1)), "standard output is closed")
    done = ended("--nope", module=module, preexec_fn=closing(0, 2))
    assert (done.returncode, done.stdout) == (2, ""), "a complaint is no output"


@pytest.mark.thorough
def test_a_folder_that_takes_no_file(tmp_path: Path) -> None:
    """A file is where a folder should be, which no user's rights get over."""
    file = tmp_path / "file"
    file.touch()
    nowhere: dict[str, Any] = {"HOME": str(file), "XDG_CACHE_HOME": None, "POCL_CACHE_DIR": None}
    store = ["--results", str(tmp_path / "results")]
    refused(ended(*CELL, *store, env={"POCL_CACHE_DIR": str(file)}), f"PoCL cannot write into {file}")
    refused(ended(*CELL, *store, env={"XDG_CACHE_HOME": str(file), "POCL_CACHE_DIR": str(tmp_path)}), "PyOpenCL cannot")
    done = ended("devices", env=nowhere)
    assert done.stdout or f"no device: PoCL cannot write into {file}/.cache/pocl/kcache" in done.stderr
    assert not (tmp_path / "results").exists(), "it is no failure of the kernel"
    assert ended("show", "lbm", "fused", env=nowhere).returncode == 0, "what needs no folder does without"
    refused(ended(*CELL, "--results", str(file / "results")), str(file), "Not a directory")
    refused(ended("export", "--out", str(file / "cells.csv")), f"there is no folder {file}")


@pytest.mark.thorough
def test_a_disk_that_takes_no_more(tmp_path: Path) -> None:
    """Files have a largest size, as on a full disk: whole files stay, and no part of another one is left."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 13, 1 << 13))

    store = ["--results", str(tmp_path / "results")]
    refused(ended(*CELL, *store, preexec_fn=limit), f"results cannot be kept in {tmp_path}", "File too large")
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    out = tmp_path / "cells.csv"
    out.write_text("whole")
    refused(ended("export", "--out", str(out), preexec_fn=limit), f"--out {out} cannot be written", "File too large")
    assert [path.read_text() for path in tmp_path.glob("cells*")] == ["whole"]


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("encoding", "arguments"),
    [("latin-1", ["export", "select 'n = 3 – 5 µs' as é"]), ("ascii", ["compare", "lbm", "128x128"])],
)
def test_letters_that_the_output_has_not(encoding: str, arguments: list[str]) -> None:
    in_utf8 = ended(*arguments, env={"PYTHONIOENCODING": "utf-8"})
    poor = ended(*arguments, env={"PYTHONIOENCODING": encoding}, encoding=encoding)
    assert (in_utf8.returncode, poor.returncode, poor.stderr) == (0, 0, "")
    assert poor.stdout == in_utf8.stdout.encode(encoding, "replace").decode(encoding) != in_utf8.stdout
