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
    """Its folder, by plain Sphinx, with what this checkout has recorded, and the labs' notebooks as they are committed."""
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
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return site
