"""Building the book: a build with nothing to do executes and draws nothing, and one with a broken notebook does not begin."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from roofbook.book import build as building
from roofbook.book import fragments, render_recorded, site
from roofbook.errors import UsageError


@pytest.fixture
def root(unmeasured: Callable[[], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout where drawing and building the site do nothing."""
    monkeypatch.setattr(render_recorded, "stale", lambda *_: False)
    monkeypatch.setattr(fragments, "update", lambda _: None)
    monkeypatch.setattr(site, "build", lambda *_, **__: None)
    monkeypatch.setattr(site, "start", lambda _: nullcontext())
    return unmeasured()


def test_a_file_that_is_no_notebook_stops_the_build_before_it_begins(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(building, "_execute", lambda *_: pytest.fail("executes a notebook"))
    (root / "experiments" / "stencil.ipynb").write_text("{")
    with pytest.raises(UsageError, match=r"stencil\.ipynb is no notebook"):
        building.build(root, {})


def test_a_build_of_a_lab_executes_its_notebook_alone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executed = list[str]()
    monkeypatch.setattr(
        building, "_execute", lambda _, due, missing: executed.extend(notebook.stem for notebook in due)
    )
    monkeypatch.setattr(render_recorded, "draw", lambda *_, **__: None)
    building.build(root, {"scale": "test"}, labs=["stencil"])
    assert executed == ["stencil"]
    with pytest.raises(UsageError, match=r"unknown lab with a notebook 'stencl' \(did you mean 'stencil'\?\)"):
        building.build(root, {}, labs=["stencl"])
    assert executed == ["stencil"]


def test_a_build_with_nothing_to_do_executes_and_draws_nothing(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(building, "_due", lambda *_: {})
    for module, name in ((building, "_execute"), (render_recorded, "draw"), (site, "start")):
        monkeypatch.setattr(module, name, lambda *_, name=name: pytest.fail(f"{name} works"))
    building.build(root, {})
