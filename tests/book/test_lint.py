"""`roofbook lint`: nothing to say of a new lab, and a sentence for each slip."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from roofbook import labs
from roofbook.book import lint
from roofbook.book.new_lab import write_lab
from roofbook.devices import nvrtc
from roofbook.devices.contract import Unsupported
from roofbook.spec import registry

from ..conftest import Command


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A project with the new lab saxpy."""
    write_lab(tmp_path, "saxpy", ["one", "each", "pairs"])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(tmp_path / "labs")])
    yield tmp_path
    registry.get.cache_clear()
    sys.modules.pop("roofbook.labs.saxpy", None)


def change(path: Path, words: str, instead: str) -> None:
    text = path.read_text()
    assert words in text
    path.write_text(text.replace(words, instead))


def test_nothing_is_said_of_a_new_lab(project: Path, command: Command) -> None:
    assert command("lint", "saxpy") == (0, "", "")


def test_only_a_lab_can_be_checked(project: Path, command: Command) -> None:
    for name, message in (
        ("peaks", "peaks measures the device"),
        ("saxpi", "unknown lab 'saxpi' (did you mean 'saxpy'?)"),
    ):
        code, _, errors = command("lint", name)
        assert code == 2 and message in errors and errors.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "words", "instead", "sentence"),
    [
        ("__init__.py", "The baseline: one core.", "Fast", "one: expect must be a sentence in one line, with a full stop"),
        ("__init__.py", "The baseline: one core.", "a " * 31 + ".", "one: a sentence of expect has 31 words, 30 at most"),
        ("__init__.py", 'varies = {"ELEMENTS": [1, 2, 4, 8]}', 'best = "four"', "best is four, which is no step of the ladder"),
        ("__init__.py", "[1, 2, 4, 8]", "[2]", "sweep ELEMENTS: it needs a question"),
        ("__init__.py", '"a": 1.5}', '"a": 1.5}\n    tolerance = 9', "the check accepts outputs of one on n65 that are wrong"),
        ("__init__.py", "a * x + y", "a * x - y", "one is not right on n65: error"),
        ("saxpy.k", "FMA(a, x[i], y[i])", "FMA(a, z[i], y[i])", "one does not compile as OpenCL: "),
    ],
)  # fmt: skip
def test_a_slip_in_a_lab_is_a_sentence(
    project: Path, command: Command, file: str, words: str, instead: str, sentence: str
) -> None:
    change(project / "labs" / "saxpy" / file, words, instead)
    code, out, _ = command("lint", "saxpy")
    assert code == 1 and sentence in " ".join(out.split()), out


def test_kernels_are_compiled_for_cuda(project: Path) -> None:
    try:
        nvrtc.compile_cuda("", lint.ARCHITECTURE)
    except Unsupported as reason:
        pytest.skip(str(reason))
    change(project / "labs" / "saxpy" / "saxpy.k", "out[i] = FMA", "get_work_dim(); out[i] = FMA")
    assert [fault.partition(":")[0] for fault in lint.compiles(registry.get("saxpy"))] == [
        f"{step} does not compile as CUDA" for step in ("each", "pairs")
    ]


@pytest.mark.parametrize(
    ("words", "instead", "sentence"),
    [
        ("lab.steps(\\\"each\\\", \\\"pairs\\\")", "lab.steps(\\\"pairs\\\", \\\"each\\\")", "before its parent each"),
        ("lab.steps(\\\"each\\\", \\\"pairs\\\")", "lab.steps(\\\"each\\\")", "pairs is named 0 times in lab.source(...)"),
        ("One work-item:", "It takes 3 ms. One work-item:", "a number is typed into the prose"),
        ("One work-item:", "Not `two-rows`. One work-item:", "the prose names `two-rows`, which is no variant of the lab"),
        ("import roofbook", "import numpy", "a cell imports more than roofbook and roofbook.labs.saxpy: import numpy"),
        ("lab.summary()", "lab.summary() + 1", "a cell computes; that belongs into the lab's folder: lab.summary() + 1"),
        ("scale: str = \\\"quick\\\"", "scale: str = \\\"test\\\"", "the parameters must be those of the library"),
        ("  # folder of the store", "", "parameter results has no comment"),
        ("\"outputs\": []", "\"outputs\": [1]", "it has outputs; clear them before you commit it"),
        ("\"name\": \"python3\"", "\"name\": \"other\"", "its metadata must be kernelspec, named python3"),
    ],
)  # fmt: skip
def test_a_slip_in_a_notebook_is_a_sentence(project: Path, words: str, instead: str, sentence: str) -> None:
    path = project / "experiments" / "saxpy.ipynb"
    lab = registry.get("saxpy")
    assert not list(lint.notebook_faults(path, lab, ()))
    change(path, words, instead)
    json.loads(path.read_text())
    assert any(sentence in fault for fault in lint.notebook_faults(path, lab, ()))


def test_digits_are_permitted_with_a_reason(project: Path) -> None:
    change(project / "experiments" / "saxpy.ipynb", "One work-item:", "On $4 \\\\times 4$ cells. One work-item:")
    page = project / "tests" / "labs" / "saxpy" / "page.py"
    page.parent.mkdir(parents=True)
    page.write_text('DIGITS = {"$4 \\\\times 4$": "a formula"}\n')
    assert lint.permitted_digits(project, "saxpy") == {r"$4 \times 4$": "a formula"}
    assert not [fault for fault in lint.faults(registry.get("saxpy"), project) if re.search("number|digit", fault)]
