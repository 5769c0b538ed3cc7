"""Executing a notebook: progress in a terminal, and pages that are stale.

tests/book/site/test_site.py tests that a page is made only once, and the message of a cell's error.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

from roofbook.book import execute
from roofbook.errors import UsageError

MEASURES = """
import time
from roofbook.measure.progress import Reporter
show = Reporter()
for number in range(4):
    show("40x24 fused", f"sample {number}")
    time.sleep(0.3)
show.end()
time.sleep(0.3)
"""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def notebook(folder: Path, *cells: str, name: str = "demo") -> Path:
    v4 = nbformat.v4
    notebook_node = v4.new_notebook(
        cells=[v4.new_code_cell("", metadata={"tags": ["parameters"]}), *map(v4.new_code_cell, cells)]
    )
    path = folder / f"{name}.ipynb"
    nbformat.write(notebook_node, path)
    return path


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield an empty folder for temporary files; fail unless it is empty at the end."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)
        assert not list(Path(folder).iterdir())


def test_a_terminal_shows_the_progress_and_the_page_does_not(
    tmp_path: Path, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    page = execute.execute(tmp_path, notebook(tmp_path, MEASURES))
    lines = screen.getvalue().split("\r\x1b[K")
    assert any(re.fullmatch(r"measuring \d+:\d\d  40x24 fused: sample \d", line) for line in lines)
    assert lines[-1] == "" and "\n" not in screen.getvalue(), "no line of it is left"
    assert [cell.outputs for cell in nbformat.read(page, 4).cells if cell.cell_type == "code"] == [[], []]


def test_a_pipe_shows_nothing(tmp_path: Path, scratch: Path, capfd: pytest.CaptureFixture[str]) -> None:
    execute.execute(tmp_path, notebook(tmp_path, MEASURES))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("traceback", "place"),
    [
        ([], "cell 1"),
        (["File /x.py:3"], "cell 1"),
        (["Cell In[1], line 2", "\x1b[1mCell In[1], line 7\x1b[0m"], "cell 1, line 7"),
    ],
)
def test_an_error_of_a_cell_has_its_line_if_it_is_known(tmp_path: Path, traceback: list[str], place: str) -> None:
    error = SimpleNamespace(cell_index=0, traceback=traceback)
    assert execute._place(error, notebook(tmp_path, "1")) == place


def test_a_missing_notebook_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no notebook .*demo\.ipynb; a lab has one of its own name"):
        execute.execute(tmp_path, tmp_path / "demo.ipynb")


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"cells": [{}], "nbformat": 4, "nbformat_minor": 5}', "\udcff"])
def test_a_file_that_is_no_notebook_is_named_in_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "demo.ipynb").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError, match=r"demo\.ipynb is no notebook: [^\n]+$"):
        execute.execute(tmp_path, tmp_path / "demo.ipynb")


def test_a_page_depends_on_the_parameters_of_its_contents_and_not_on_remeasure(tmp_path: Path, scratch: Path) -> None:
    demo = notebook(tmp_path, "1")
    page = execute.execute(tmp_path, demo, {"scale": "test", "remeasure": True})
    assert execute.parameters_of(tmp_path, demo) == {"scale": "test"}
    assert execute.stale(tmp_path, demo, {"scale": "test"}) == []
    assert execute.stale(tmp_path, demo, {"scale": "test", "remeasure": True}) == []
    assert execute.stale(tmp_path, demo, {"scale": "quick"}) == ["parameters"]
    assert execute.parameters_of(tmp_path, tmp_path / "other.ipynb") == {}
    demo.write_text(demo.read_text() + "\n")
    assert execute.stale(tmp_path, demo, {"scale": "test"}) == ["notebook"]
    page.unlink()
    assert execute.stale(tmp_path, demo, {"scale": "test"}) == ["missing"]
    assert execute.parameters_of(tmp_path, demo) == {"scale": "test"}, "those of the last execution"


def test_without_a_manifest_the_parameters_are_read_from_the_page(tmp_path: Path, scratch: Path) -> None:
    demo = notebook(tmp_path, "1")
    page = execute.execute(tmp_path, demo, {"scale": "test", "remeasure": True, "cases": ["8x8"]})
    shutil.rmtree(tmp_path / "_build")
    assert execute.stale(tmp_path, demo, {"scale": "test", "cases": ["8x8"]}) == ["unknown"]
    assert execute.parameters_of(tmp_path, demo) == {"scale": "test", "cases": ["8x8"]}
    page.write_text("{")
    assert execute.parameters_of(tmp_path, demo) == {}


def test_a_page_that_another_program_executed_is_made_again_with_its_parameters(tmp_path: Path, scratch: Path) -> None:
    demo = notebook(tmp_path, "1")
    page = execute.execute(tmp_path, demo, {"scale": "test"})
    page_bytes = page.read_bytes()
    other_page = execute.execute(tmp_path, demo, {"scale": "large"}, page=tmp_path / "by hand" / "demo.ipynb")
    assert page.read_bytes() == page_bytes and execute.stale(tmp_path, demo, {"scale": "test"}) == [], "another path"
    shutil.copy(other_page, page)
    assert execute.stale(tmp_path, demo, {"scale": "test"}) == ["edited"]
    assert execute.parameters_of(tmp_path, demo) == {"scale": "large"}
    failed = json.loads(page.read_text())
    failed["metadata"]["papermill"]["exception"] = True
    page.write_text(json.dumps(failed))
    assert execute.parameters_of(tmp_path, demo) == {}, "a failed execution is not repeated"
