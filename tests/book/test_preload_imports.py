"""Imports ahead of use, while another process measures: none between its first message and its last sample."""

import importlib
import threading

import pytest

from roofbook.book import preload_imports


def test_nothing_is_imported_while_samples_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    imported, messages, imported_at_end = list[str](), list[tuple[str, str]](), list[list[str]]()
    begun, second_begun, go_on = threading.Event(), threading.Event(), threading.Event()

    def take(name: str) -> None:
        begun.set()
        assert go_on.wait(500)
        imported.append(name)
        if name == "b":
            second_begun.set()
            raise ImportError(name)

    monkeypatch.setattr(preload_imports, "MODULES", ("a", "b", "c"))
    monkeypatch.setattr(importlib, "import_module", take)
    with preload_imports.ImportPreloader(
        lambda *message: messages.append(message), lambda: imported_at_end.append([*imported])
    ) as progress:
        assert begun.wait(500), "it begins at once"
        for stage in ("check, 1 of 1", "first run", "sample 1 of at most 50"):
            progress("fused", stage)
            go_on.set()
        assert not second_begun.wait(0.1) and not imported_at_end
        for stage in ("last run", "last check"):
            progress("fused", stage)
        assert second_begun.wait(500)
    assert imported_at_end == [["a"]] and imported[:2] == ["a", "b"], "the import under way ends, and no other begins"
    assert [stage for _, stage in messages][-2:] == ["last run", "last check"]


def test_the_preloader_ends_if_the_measurement_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preload_imports, "MODULES", ("no_such_module",) * 3)
    ends: list[int] = []
    with (
        pytest.raises(KeyboardInterrupt),
        preload_imports.ImportPreloader(lambda *_: None, lambda: ends.append(1)) as progress,
    ):
        progress("fused", "check, 1 of 1")
        raise KeyboardInterrupt
    assert not ends and not progress.thread.is_alive()


def test_the_modules_to_import_exist() -> None:
    for name in preload_imports.MODULES:
        assert importlib.import_module(name)
