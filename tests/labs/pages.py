"""What the tests of the executed book know of one lab's page: `page.py` in the folder of the lab's tests, if there is one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path


def known(lab: str, what: str) -> Mapping[str, str]:
    """`DIGITS`: words with digits that its prose may have -> why. `ENVIRONMENT`: variables that its notebook runs with."""
    if not Path(__file__).with_name(lab).joinpath("page.py").is_file():
        return {}
    found: Mapping[str, str] = getattr(importlib.import_module(f".{lab}.page", __package__), what, {})
    return found
