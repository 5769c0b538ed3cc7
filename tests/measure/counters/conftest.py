"""Fixtures that the tests of counters share: a made-up device, a made-up ncu, a store, and the command."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from .made_up import Cli, Gpu, Ncu


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Gpu:
    """A CUDA device, the machine's first."""
    device = Gpu()
    monkeypatch.setattr("roofbook.devices.cuda.devices", lambda: [device])
    return device


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
def roofbook(results: Path, command: Cli) -> Cli:
    """Return a function that runs `roofbook profile` at scale test on a store of its own."""
    return lambda *arguments: command("profile", *arguments, "--scale", "test", "--results", str(results))
