"""A builder that was started ahead: used where what it has read is still so, and ended where it is not."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.book import lab_page_files, render_local, site
from roofbook.book.input_hashes import InputHashes


class Started:
    """A builder that writes the first page, and no more."""

    returncode = 0

    def __init__(self, root: Path) -> None:
        self.root, self.used, self.killed = root, 0, 0
        self.inputs_read = {name: InputHashes(root).site()[name] for name in site.READ_AHEAD}

    def __enter__(self) -> "Started":
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
def test_a_builder_that_has_read_what_changed_since_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str, used: bool
) -> None:
    (tmp_path / "book" / "_generated").mkdir(parents=True)
    for name in ("_config.yml", "book/_toc.yml"):
        (tmp_path / name).write_text("title: a\n")
    ahead: Any = Started(tmp_path)
    (tmp_path / changed).write_text("title: b\n")
    made: list[Started] = []

    def start(root: Path) -> Started:
        made.append(Started(root))
        return made[-1]

    monkeypatch.setattr(site, "start", start)
    site.build(tmp_path, builder=ahead)
    assert (ahead.used, ahead.killed, len(made)) == ((1, 0, 0) if used else (0, 1, 1))
    assert not site.stale(tmp_path)


def test_a_builder_that_waits_leaves_the_pages_to_whoever_started_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who tells it to build has written them by then, and may be writing them while it gets ready."""
    program = tmp_path / "python"
    program.write_text(f'#!/bin/sh\necho "${lab_page_files.PREPARED}" > {tmp_path}/told\n')
    program.chmod(0o755)
    (tmp_path / "book").mkdir()
    for name in ("_config.yml", "book/_toc.yml"):
        (tmp_path / name).write_text("title: a\n")
    monkeypatch.setattr("sys.executable", str(program))
    with site.start(tmp_path) as builder:
        builder.communicate()
    wrote: list[Path] = []
    monkeypatch.setattr(lab_page_files, "write_pages", wrote.append)
    monkeypatch.setattr(render_local, "draw", wrote.append)
    sphinx: Any = SimpleNamespace(srcdir=str(tmp_path / "book"))
    lab_page_files.write_before_reading(sphinx)
    assert wrote == [tmp_path / "book", tmp_path], "by plain Sphinx"
    monkeypatch.setenv(lab_page_files.PREPARED, (tmp_path / "told").read_text().strip())
    lab_page_files.write_before_reading(sphinx)
    assert len(wrote) == 2
