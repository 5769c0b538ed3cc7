"""A build with nothing to do finds that out from the names, sizes and times of files alone."""

import os
from pathlib import Path

import pytest

from roofbook.book import build as building
from roofbook.book import site
from roofbook.book.noop_check import FileTimes

NOTEBOOK = '{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
SOURCES = (
    "_config.yml", "book/index.md", "book/_assets/roofbook.css", "experiments/notes.ipynb", "results/published/cnn.csv",
    "results/recorded/lab=cnn/device=gpu/run.parquet", "results/local/lab=cnn/device=cpu/run.parquet",
)  # fmt: skip
PRODUCTS = ("book/notes.ipynb", "book/_generated/data-cite.html", "_build/manifest.json", "_build/html/index.html")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in (*SOURCES, *PRODUCTS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(NOTEBOOK if name.endswith(".ipynb") else "{}")
    before = FileTimes(tmp_path, {})
    FileTimes(tmp_path, {}).remember(before)
    assert FileTimes(tmp_path, {}).is_known()
    return tmp_path


@pytest.mark.parametrize("name", (*SOURCES, *PRODUCTS))
def test_a_touched_file_is_noticed(root: Path, name: str) -> None:
    file_stat = (root / name).stat()
    os.utime(root / name, ns=(file_stat.st_atime_ns, file_stat.st_mtime_ns + 1))
    assert not FileTimes(root, {}).is_known()


@pytest.mark.parametrize("name", ("results/local/lab=cnn/device=cpu/two.parquet", "book/new.md"))
def test_a_new_file_is_noticed(root: Path, name: str) -> None:
    (root / name).write_text("")
    assert not FileTimes(root, {}).is_known()


@pytest.mark.parametrize("name", ("book/_assets/roofbook.css", "_build/html/index.html"))
def test_a_missing_file_is_noticed(root: Path, name: str) -> None:
    (root / name).unlink()
    assert not FileTimes(root, {}).is_known()


def test_other_parameters_are_another_build(root: Path) -> None:
    assert not FileTimes(root, {"scale": "test"}).is_known()


def test_another_environment_is_another_build(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.python_version", lambda: "4.0")
    assert not FileTimes(root, {}).is_known()


def test_a_source_that_changed_while_the_build_ran_leaves_work_to_do(root: Path) -> None:
    before = FileTimes(root, {})
    (root / "book" / "index.md").write_text("# Edited meanwhile")
    FileTimes(root, {}).remember(before)
    assert not FileTimes(root, {}).is_known()


def test_products_may_change_while_the_build_runs(root: Path) -> None:
    before = FileTimes(root, {})
    (root / "_build" / "html" / "index.html").write_text("made anew")
    FileTimes(root, {}).remember(before)
    assert FileTimes(root, {}).is_known()


def test_a_build_with_nothing_to_do_hashes_no_file_and_builds_no_site(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(building, "InputHashes", lambda _: pytest.fail("hashes files"))
    monkeypatch.setattr(site, "build", lambda *_, **__: pytest.fail("builds the site"))
    building.build(root, {})
    assert "up to date" in capsys.readouterr().out
