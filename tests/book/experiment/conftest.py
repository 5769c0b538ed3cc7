"""Fixtures of the tests of an experiment: the LBM lab, and a function that opens it on an empty store."""

from __future__ import annotations

from pathlib import Path

import pytest

from roofbook.book.experiment import Experiment
from roofbook.labs.lbm.lattice import Lattice
from roofbook.spec import registry
from roofbook.spec.lab import Lab

from .opening import QUICKLY, Open


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    """Replace the LBM lab by an instance that a test may change, and return it."""
    lattice = Lattice()
    get = registry.get
    monkeypatch.setattr(registry, "get", lambda name: lattice if name == lattice.name else get(name))
    return lattice


@pytest.fixture
def open_with_peaks(lab: Lab, tmp_path: Path) -> Open:
    """Return a function that opens the LBM lab on an empty store of the test; other parameters by name."""
    return lambda **parameters: Experiment("lbm", {**QUICKLY, "results": str(tmp_path), **parameters})


@pytest.fixture
def open_lab(open_with_peaks: Open, monkeypatch: pytest.MonkeyPatch) -> Open:
    """Return a function that opens the lab as `open_with_peaks` does; its experiments measure no peaks."""
    monkeypatch.setattr(Experiment, "plan_of_peaks", lambda experiment: [])
    return open_with_peaks
