"""The book's written pages as a site, for tests that read them and execute no notebook."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from roofbook.book import fragments

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def written_site(unmeasured: Callable[[], Path]) -> Path:
    """Build a site by plain Sphinx from the recorded rows and the committed notebooks of this checkout; return its folder."""
    root = unmeasured()
    for name in ("CITATION.cff", "LICENSE"):
        shutil.copy(ROOT / name, root)
    (root / "results" / "recorded").symlink_to(ROOT / "results" / "recorded")
    fragments.update(root)
    shutil.copytree(
        ROOT / "experiments",
        root / "book" / "labs",
        ignore=shutil.ignore_patterns("peaks*", "colab"),
        dirs_exist_ok=True,
    )
    site = root / "_build" / "html"
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", str(root / "book"), str(site)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return site
