"""What makes the book: it looks again at what came while it measured, and begins nothing that a broken notebook would stop."""

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
    """A checkout where drawing and the site cost nothing."""
    monkeypatch.setattr(render_recorded, "stale", lambda *_: False)
    monkeypatch.setattr(fragments, "update", lambda _: None)
    monkeypatch.setattr(site, "build", lambda *_, **__: None)
    monkeypatch.setattr(site, "start", lambda _: None)
    return unmeasured()


def test_a_file_that_is_no_notebook_stops_it_before_it_begins(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_execute", lambda *_: pytest.fail("executes a notebook"))
    (root / "experiments" / "stencil.ipynb").write_text("{")
    with pytest.raises(UsageError, match=r"stencil\.ipynb is no notebook"):
        building.build(root, {})


@pytest.mark.parametrize("edited", [False, True])
def test_rows_that_came_while_it_measured_are_known_to_the_next_and_an_edit_is_not(
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
    assert len(times) == 2, "it looks again"
    assert FileTimes(root, {}).is_known() is not edited
