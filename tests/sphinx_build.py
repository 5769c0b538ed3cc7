"""Builds of small sites by Sphinx, in a process of its own: a build leaves settings behind that a later one would find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def build_site(book: Path, site: Path, *options: str) -> str:
    """Build the sources in `book` into the folder `site`; return the warnings, and fail on an error."""
    command = [sys.executable, "-m", "sphinx", "-q", *options, str(book), str(site)]
    process = subprocess.run(command, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr
    return process.stderr
