"""A checkout in which commands run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from .commands import Cli


@pytest.fixture(scope="module")
def place(unmeasured: Callable[[], Path]) -> Path:
    """The checkout in which this module's commands run."""
    return unmeasured()


@pytest.fixture
def roofbook(place: Path, command: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command in that checkout."""
    monkeypatch.chdir(place)
    return command
