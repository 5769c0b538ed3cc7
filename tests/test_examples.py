"""The examples in docstrings of the library: each prints what it says."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "lib" / "roofbook"
MODULES = sorted(
    ".".join(("roofbook", *file.relative_to(LIBRARY).with_suffix("").parts)).removesuffix(".__init__")
    for file in LIBRARY.rglob("*.py")
    if ">>> " in file.read_text()
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_print_what_they_say(name: str) -> None:
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted and not outcome.failed
