"""`roofbook new lab`: a lab that runs at once, names that are checked, and no file that is overwritten."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest

from roofbook import labs
from roofbook.book.new_lab import write_lab
from roofbook.devices.find import host_cpu
from roofbook.errors import UsageError
from roofbook.measure.placement import Target
from roofbook.spec import registry
from roofbook.spec.exercise import exercises, holed, solution
from roofbook.spec.kernel_lab import KernelLab
from roofbook.store.parquet import Store

from .. import mutants
from ..conftest import Command

ROOT = Path(__file__).parents[2]
STEPS = ["one", "each", "pairs"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder; labs that are written there can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(labs, "__path__", [*labs.__path__, str(tmp_path / "labs")])
    yield tmp_path
    registry.get.cache_clear()
    for name in [name for name in sys.modules if name.startswith("roofbook.labs.saxpy")]:
        del sys.modules[name]


def test_a_new_lab_is_measured_and_makes_its_page(project: Path, command: Command) -> None:
    code, out, _ = command("new", "lab", "saxpy", "--steps", ",".join(STEPS))
    assert code == 0 and "wrote labs/saxpy/saxpy.k\n" in out and out.endswith("Next: roofbook run saxpy --scale test\n")
    code, out, errors = command("run", "saxpy", "--scale", "test", "-p", "budget_s", "0.000001")
    assert code == 0 and re.search(r"^pairs .* \d", out, re.M), errors
    rows = Store(project / "results").rows("saxpy")
    assert set(rows["status"]) == {"ok"} and {*STEPS} <= set(rows["variant"]) and set(rows["case"]) == {"n1000", "n65"}
    pages = project / "_build" / "book" / "book"
    assert "exercise-saxpy-write.html" in (pages / "exercises" / "saxpy.md").read_text()
    page = json.loads((pages / "labs" / "saxpy.ipynb").read_text())
    assert not [o for cell in page["cells"] for o in cell.get("outputs", []) if o["output_type"] == "error"]
    for arguments in (
        ["rerun", "saxpy", "each", "n65", "--no-page"],
        ["show", "saxpy", "--ladder"],
        ["history", "saxpy"],
    ):
        assert command(*arguments)[0] == 0
    assert command("chart", "saxpy", "n65", "--scale", "test", "--out", "ladder.svg")[0] == 0
    assert "<svg" in (project / "ladder.svg").read_text()


@pytest.mark.thorough
def test_its_exercises_follow_from_its_ladder(project: Path, command: Command) -> None:
    write_lab(project, "saxpy", STEPS)
    lab = registry.get("saxpy")
    (task,), (turn,) = exercises(lab).write, exercises(lab).turn
    assert turn.axis == "ELEMENTS"
    assert [(p.step, p.against) for p in exercises(lab).predict] == [("each", "one"), ("pairs", "each")]
    assert "out[i] = " in solution(lab, task) and "out[i] = " not in holed(lab, task)
    (project / "my.k").write_text(solution(lab, task))
    assert command("exercise", "saxpy", "pairs", "--check", "my.k", "--no-time", "--no-sandbox")[0] == 0
    (project / "my.k").write_text(holed(lab, task))
    assert command("exercise", "saxpy", "pairs", "--check", "my.k", "--no-time", "--no-sandbox")[0] == 1


@pytest.mark.parametrize("count", [1, 2, 8])
def test_ladders_of_any_length_are_right(project: Path, count: int) -> None:
    names = [f"step-{number}" for number in range(count)]
    write_lab(project, "saxpy", names)
    lab = registry.get("saxpy")
    assert isinstance(lab, KernelLab) and [variant.name for variant in lab.ladder] == names
    for variant in lab.ladder[-1:]:
        assert mutants.verdict(lab, variant, "n65", Target(host_cpu(), "opencl"), {}) is None
        assert variant.text.render("cuda").count("__global__") == 1


def test_the_page_shows_the_lab_as_it_is_written(project: Path) -> None:
    module, kernel, _ = write_lab(project, "saxpy", STEPS)
    page = (ROOT / "book" / "add-a-lab.md").read_text()
    assert f"roofbook new lab saxpy --steps {','.join(STEPS)}" in page
    assert module.read_text() in page and kernel.read_text() in page


def test_a_notebook_is_valid_and_has_a_step_a_call(project: Path) -> None:
    path = write_lab(project, "saxpy", STEPS)[2]
    notebook = nbformat.read(path, 4)
    nbformat.validate(notebook)
    assert 'lab.steps("each", "pairs")' in [cell.source for cell in notebook.cells]


@pytest.mark.parametrize(
    ("name", "steps", "message"),
    [
        ("Saxpy", "a,b", "'Saxpy' cannot name a lab"),
        ("class", "a,b", "'class' cannot name a lab"),
        ("../x", "a,b", "'../x' cannot name a lab"),
        ("stencil", "a,b", "there is a lab stencil already, in "),
        ("peaks", "a,b", "there is a lab peaks already, in "),
        ("saxpy", "a,a", "--steps names from 1 to 8 steps, each once"),
        ("saxpy", "a,b,", "'' cannot name a step"),
        ("saxpy", "a,b@c", "'b@c' cannot name a step"),
        ("saxpy", "1,2,3,4,5,6,7,8,9", "--steps names from 1 to 8 steps"),
    ],
)
def test_a_bad_name_writes_nothing(project: Path, command: Command, name: str, steps: str, message: str) -> None:
    code, _, errors = command("new", "lab", name, "--steps", steps)
    assert code == 2 and message in errors and errors.count("\n") == 1
    assert not list(project.iterdir())


def test_no_file_is_overwritten(project: Path) -> None:
    (project / "experiments").mkdir()
    (project / "experiments" / "saxpy.ipynb").write_text("mine")
    with pytest.raises(UsageError, match=r"saxpy\.ipynb exists, and nothing was written"):
        write_lab(project, "saxpy", STEPS)
    assert (project / "experiments" / "saxpy.ipynb").read_text() == "mine" and not (project / "labs").exists()
