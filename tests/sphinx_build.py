"""Builds of small sites by Sphinx in this process, which has Sphinx loaded after the first."""

from __future__ import annotations

import gc
import io
from contextlib import redirect_stderr
from copy import deepcopy
from pathlib import Path

import pytest


def build_site(book: Path, site: Path, *options: str) -> str:
    """Build the sources in `book` into the folder `site` by the command `sphinx`; return its warnings, and fail on an error."""
    from sphinx.cmd.build import main
    from sphinx.config import Config

    with redirect_stderr(io.StringIO()) as warnings, pytest.MonkeyPatch.context() as patch:
        patch.setattr(Config, "config_values", deepcopy(Config.config_values))  # a build adds to the default settings
        code = main(["-q", *options, str(book), str(site)])
    gc.collect()  # a site lies in cycles of references
    assert code == 0, warnings.getvalue()
    return warnings.getvalue()
