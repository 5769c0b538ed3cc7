"""What several tests of the counters need: a device and an ncu that are made up, a store, and the command."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from roofbook import cli

from .made_up import Cli, Gpu, Ncu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A CUDA device, the machine's first."""
    made = Gpu()
    monkeypatch.setattr("roofbook.cuda.devices", lambda: [made])
    monkeypatch.setattr("roofbook.ncu.cuda_devices", lambda: [made])
    return made


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ncu:
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return Ncu(folder)


@pytest.fixture
def results(tmp_path: Path) -> Path:
    return tmp_path / "results"


@pytest.fixture
def roofbook(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """Runs `roofbook profile` in this process: (exit code, standard output, standard error)."""

    def run(*arguments: str) -> tuple[int, str, str]:
        given = ["profile", *arguments, "--scale", "test", "--results", str(results)]
        monkeypatch.setattr(sys, "argv", ["roofbook", *given])
        code: Any = 0
        try:
            cli.main()
        except SystemExit as end:
            code = end.code
        said = capsys.readouterr()
        return code, said.out, said.err

    return run
