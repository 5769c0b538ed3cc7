"""Exceptions of one lab's page, for the tests of the executed book: `page.py` in the folder of the lab's tests, if any."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path


def of_lab(lab: str, name: str) -> Mapping[str, str]:
    """Return the exceptions `DIGITS` (words with digits in the prose -> reason) or `ENVIRONMENT` (variables of the run)."""
    if not Path(__file__).with_name(lab).joinpath("page.py").is_file():
        return {}
    exceptions: Mapping[str, str] = getattr(importlib.import_module(f".{lab}.page", __package__), name, {})
    return exceptions
