"""Building the book: it checks again for rows that came while it measured, and does not begin with a broken notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import build as building
from roofbook.book import fragments, render_recorded, site
from roofbook.book.noop_check import FileTimes
from roofbook.errors import UsageError


@pytest.fixture
def root(unmeasured: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout where drawing and building the site do nothing."""
    monkeypatch.setattr(render_recorded, "stale", lambda *_: False)
    monkeypatch.setattr(fragments, "update", lambda _: None)
    monkeypatch.setattr(site, "build", lambda *_, **__: None)
    monkeypatch.setattr(site, "start", lambda _: None)
    return unmeasured()


def test_a_file_that_is_no_notebook_stops_the_build_before_it_begins(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_execute", lambda *_: pytest.fail("executes a notebook"))
    (root / "experiments" / "stencil.ipynb").write_text("{")
    with pytest.raises(UsageError, match=r"stencil\.ipynb is no notebook"):
        building.build(root, {})


@pytest.mark.parametrize("edited", [False, True])
def test_the_next_build_knows_rows_that_this_build_measured_but_no_edit_of_that_time(
    root: Path, monkeypatch: pytest.MonkeyPatch, edited: bool
) -> None:
    notebook, times = root / "experiments" / "stencil.ipynb", list[int]()

    def due(*_: Any) -> dict[Path, building.Due]:
        times.append(len(times))
        return {notebook: building.Due({}, "not made yet")} if len(times) == 1 else {}

    def execute(*_: Any) -> None:
        (root / "results" / "local").mkdir(parents=True)
        (root / "results" / "local" / "run.parquet").write_text("rows")

    def renew(_: Path) -> None:
        if edited and len(times) == 2:
            (root / "book" / "method.md").write_text("# Edited meanwhile")

    monkeypatch.setattr(building, "_due", due)
    monkeypatch.setattr(building, "_execute", execute)
    monkeypatch.setattr(fragments, "update", renew)
    building.build(root, {})
    assert len(times) == 2, "the build checks again"
    assert FileTimes(root, {}).is_known() is not edited
