"""Imports beside a process that measures: none from its first word until its samples are taken."""

import importlib
import threading

import pytest

from roofbook.book import preload_imports


def test_nothing_is_imported_while_samples_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    imported, told, ended = list[str](), list[tuple[str, str]](), list[list[str]]()
    first, rest, go_on = threading.Event(), threading.Event(), threading.Event()

    def take(name: str) -> None:
        first.set()
        assert go_on.wait(500)
        imported.append(name)
        if name == "b":
            rest.set()
            raise ImportError(name)

    monkeypatch.setattr(preload_imports, "MODULES", ("a", "b", "c"))
    monkeypatch.setattr(importlib, "import_module", take)
    with preload_imports.ImportPreloader(
        lambda *said: told.append(said), lambda: ended.append([*imported])
    ) as progress:
        assert first.wait(500), "it begins at once"
        for what in ("check, 1 of 1", "first run", "sample 1 of at most 50"):
            progress("fused", what)
            go_on.set()
        assert not rest.wait(0.1) and not ended
        for what in ("last run", "last check"):
            progress("fused", what)
        assert rest.wait(500)
    assert ended == [["a"]] and imported[:2] == ["a", "b"], "what was begun is ended, and then nothing"
    assert [what for _, what in told][-2:] == ["last run", "last check"]


def test_it_ends_where_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload_imports, "MODULES", ("no_such_module",) * 3)
    ended: list[int] = []
    with (
        pytest.raises(KeyboardInterrupt),
        preload_imports.ImportPreloader(lambda *_: None, lambda: ended.append(1)) as progress,
    ):
        progress("fused", "check, 1 of 1")
        raise KeyboardInterrupt
    assert not ended and not progress.thread.is_alive()


def test_what_it_imports_is_there() -> None:
    for name in preload_imports.MODULES:
        assert importlib.import_module(name)
