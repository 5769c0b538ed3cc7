"""A builder that was started early: it is used if the files that it read are unchanged, and ended otherwise."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.book import lab_pages, site, sphinx_ext
from roofbook.book.input_hashes import InputHashes


class FakeBuilder:
    """Builder that writes only the first page, and counts how often it was used and killed."""

    returncode = 0

    def __init__(self, root: Path) -> None:
        self.root, self.used, self.killed = root, 0, 0
        self.inputs_read = {name: InputHashes(root).site()[name] for name in site.READ_AHEAD}

    def __enter__(self) -> "FakeBuilder":
        return self

    def __exit__(self, *_: object) -> None: ...

    def communicate(self, line: str) -> tuple[str, None]:
        self.used += 1
        (self.root / site.INDEX).parent.mkdir(parents=True, exist_ok=True)
        (self.root / site.INDEX).write_text(line)
        return "", None

    def kill(self) -> None:
        self.killed += 1


@pytest.mark.parametrize(
    ("changed", "used"),
    [("book/page.md", True), ("book/_generated/ends.html", True), ("_config.yml", False), ("book/_toc.yml", False)],
)
def test_a_builder_is_not_used_if_a_file_that_it_read_changed_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, used: bool
) -> None:
    (tmp_path / "book" / "_generated").mkdir(parents=True)
    for name in ("_config.yml", "book/_toc.yml"):
        (tmp_path / name).write_text("title: a\n")
    builder: Any = FakeBuilder(tmp_path)
    (tmp_path / changed).write_text("title: b\n")
    started: list[FakeBuilder] = []

    def start(root: Path) -> FakeBuilder:
        started.append(FakeBuilder(root))
        return started[-1]

    monkeypatch.setattr(site, "start", start)
    site.build(tmp_path, builder=builder)
    assert (builder.used, builder.killed, len(started)) == ((1, 0, 0) if used else (0, 1, 1))
    assert not site.stale(tmp_path)


def test_a_waiting_builder_leaves_the_pages_to_the_process_that_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The starting process writes the pages before it asks for the build, perhaps while the builder gets ready."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "${lab_pages.PREPARED}" > {tmp_path}/prepared\n')
    program.chmod(0o755)
    (tmp_path / "book").mkdir()
    for name in ("_config.yml", "book/_toc.yml"):
        (tmp_path / name).write_text("title: a\n")
    monkeypatch.setattr("sys.executable", str(program))
    with site.start(tmp_path) as builder:
        builder.communicate()
    wrote: list[Path] = []
    monkeypatch.setattr(lab_pages, "write_pages", wrote.append)
    sphinx: Any = SimpleNamespace(srcdir=str(tmp_path / "book"))
    sphinx_ext.write_lab_pages(sphinx)
    assert wrote == [tmp_path / "book"], "by plain Sphinx"
    monkeypatch.setenv(lab_pages.PREPARED, (tmp_path / "prepared").read_text().strip())
    sphinx_ext.write_lab_pages(sphinx)
    assert len(wrote) == 1
