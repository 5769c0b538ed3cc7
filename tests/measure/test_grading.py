"""`roofbook grade`: a class judged by the command, resumed, with limits; a crash or hang of one stops no other."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command
from tests.measure.judged_kernels import PASS, changed

from roofbook.analysis import likeness
from roofbook.measure import grading
from roofbook.process_tree import ToolRun

CRASH = changed(PASS, ("  if (i > 0", "  if (i == 1 && j == 0) g[1000000000] = 1.0f;\n  if (i > 0"))
JUDGEMENT = {
    "lab": "stencil", "code": 0, "cannot_be_built": None,
    "cases": [{"case": "7x48", "right": True, "reason": None, "where": None}], "timed": [],
}  # fmt: skip


@pytest.fixture
def classroom(tmp_path: Path) -> Path:
    """A folder with three submissions."""
    folder = tmp_path / "class"
    (folder / "ben").mkdir(parents=True)
    (folder / "anna.cl").write_text(PASS)
    (folder / "ben" / "mine.cl").write_text(PASS.replace("one_pass", "mine"))
    (folder / "=1+1\n.cl").write_text("no kernel")
    return folder


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Commands of the judgements, which are answered at once: right, but for a text without a kernel."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> ToolRun:
        commands.append(command)
        text = Path(next(word for word in command if word.endswith(".cl"))).read_text()
        refused = {"code": 2, "cannot_be_built": "no kernel"} if "no kernel" in text else {}
        return ToolRun(refused.get("code", 0), json.dumps(JUDGEMENT | refused))  # type: ignore[arg-type]

    monkeypatch.setattr(grading, "run_tool", run)
    monkeypatch.setattr(likeness, "run_tool", lambda *_, **__: ToolRun(1, ""))
    return commands


def graded(command: Command, folder: Path, *options: str) -> tuple[Any, str, str, list[dict[str, str]]]:
    """Return the exit code, the outputs and the lines of the CSV."""
    out = folder.with_name("grades")
    code, printed, errors = command("grade", "stencil", str(folder), "--out", str(out), "--case", "6x1024", *options)
    file = out / "grades.csv"
    return code, printed, errors, list(csv.DictReader(file.open(newline=""))) if file.exists() else []


@pytest.mark.thorough
def test_a_class_is_judged_whatever_one_of_it_does(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "anna.cl").write_text(PASS)
    (folder / "=1+1\n.cl").write_text(CRASH)
    code, printed, errors, lines = graded(command, folder, "--no-time")
    assert (code, errors) == (0, "") and "anna.cl: right" in printed and "1 of 2 right" in printed
    crash, anna = lines
    assert (anna["right"], anna["points"]) == ("yes", "100")
    assert (crash["name"], crash["right"], crash["points"]) == ("'=1+1\\n.cl", "no", "0")
    assert "crashed by SIG" in crash["reasons"]
    result = json.loads((tmp_path / "grades" / "submissions" / crash["folder"] / "results.json").read_text())
    assert result["score"] == 0 and all(test["status"] == "failed" for test in result["tests"])


def test_the_same_command_judges_only_what_is_new(command: Command, classroom: Path, answers: list[list[str]]) -> None:
    code, printed, _, lines = graded(command, classroom)
    assert "--limit 60 --memory 8 --device opencl:" in " ".join(answers[0])
    assert code == 0 and len(answers) == 3 and [line["right"] for line in lines] == ["no", "yes", "yes"]
    assert printed.startswith("1/3 =1+1\\n.cl: cannot be built: no kernel\n")
    assert graded(command, classroom)[3] == lines and len(answers) == 3
    (classroom / "anna.cl").write_text(PASS + "// changed\n")
    assert graded(command, classroom)[3] == lines and len(answers) == 4
    graded(command, classroom, "--case", "7x48")  # beside 6x1024
    assert len(answers) == 4 + 2, "two right ones on one more case; a text that cannot be built needs no other"
    graded(command, classroom, "--limit", "200")
    assert len(answers) == 6 + 3


def test_a_broken_result_is_made_again(command: Command, classroom: Path, answers: list[list[str]]) -> None:
    graded(command, classroom)
    for content in ("", "[]", '{"key": 1}', "\0", "[" * 100_000):
        (classroom.with_name("grades") / "submissions" / "anna.cl" / "judged-6x1024.json").write_text(content)
        del answers[:]
        assert graded(command, classroom)[0] == 0 and len(answers) == 1


@pytest.mark.parametrize(
    ("run", "code", "reason", "again"),
    [
        (ToolRun(-9, "", out_of_time=True), 0, "its judgement on 6x1024 did not end within 300 s", 0),
        (ToolRun(-11, ""), 1, "anna.cl was not judged on 6x1024: no message", 1),
        (ToolRun(2, "", "error: no device\n"), 1, "anna.cl was not judged on 6x1024: error: no device", 1),
        (ToolRun(0, "[1, 2]"), 1, "anna.cl was not judged on 6x1024: [1, 2]", 1),
    ],
)
def test_a_judgement_that_does_not_end_well_stops_no_other(
    command: Command, tmp_path: Path, answers: list[list[str]], monkeypatch: pytest.MonkeyPatch,
    run: ToolRun, code: int, reason: str, again: int,
) -> None:  # fmt: skip
    answered: Callable[..., ToolRun] = vars(grading)["run_tool"]
    calls: list[int] = []

    def first_fails(command_line: list[str], **limits: Any) -> ToolRun:
        if "no faults" in Path(next(word for word in command_line if word.endswith(".cl"))).read_text():
            return answered(command_line, **limits)
        calls.append(1)
        return run

    monkeypatch.setattr(grading, "run_tool", first_fails)
    folder = tmp_path / "class"
    folder.mkdir()
    (folder / "anna.cl").write_text("a fault")
    (folder / "ben.cl").write_text("no faults")
    for _ in range(2):
        exit_code, _, _, (anna, ben) = graded(command, folder)
        assert exit_code == code and ben["right"] == "yes" and anna["points"] == "0" and anna["reasons"] == reason
        assert anna["right"] == ("not judged" if code else "no")
    assert len(calls) == 1 + again, "a fault that is not the submission's is tried again"


def test_limits_and_step_are_passed_on(command: Command, classroom: Path, answers: list[list[str]]) -> None:
    points = classroom.with_name("points.toml")
    points.write_text('sizes = 50\nstep = [[0.5, 50]]\nagainst = "float4"\n')
    code, _, _, lines = graded(command, classroom, "--points", str(points), "--limit", "100", "--memory", "2")
    assert code == 0 and lines[1]["points"] == "50"
    words = " ".join(answers[0])
    assert "--against float4 --time --limit 20 --memory 2 --device opencl:" in words and words.endswith("--json")


def test_bad_input_is_one_line_and_code_2(command: Command, classroom: Path, tmp_path: Path) -> None:
    bound, empty = tmp_path / "bound.toml", tmp_path / "empty"
    bound.write_text("bound = [[0.5, 10]]")
    empty.mkdir()
    (tmp_path / "file").write_text("")
    out = ["--out", str(tmp_path / "out")]
    for arguments, message in (
        ([str(empty), *out], "has no submissions"),
        ([str(tmp_path / "nowhere"), *out], "No such file or directory"),
        ([str(classroom), "--out", str(classroom / "out")], "is in the folder of the submissions"),
        ([str(classroom), "--out", str(tmp_path / "file"), "--no-time"], "Not a directory"),
        ([str(classroom), *out, "--case", "3by4"], "unknown case '3by4'"),
        ([str(classroom), *out, "--exercise", "fusd"], "did you mean 'fused'?"),
        ([str(classroom), *out, "--exercise", "fused", "--case", "6x1024"], "an exercise has its own case"),
        ([str(classroom), *out, "--points", str(bound), "--results", str(empty)], "`roofbook run peaks` measures them"),
        ([str(classroom), *out, "--points", str(tmp_path / "no.toml")], "No such file or directory"),
        ([str(classroom), *out, "--memory", "nan"], "nan is not a number"),
    ):
        code, printed, errors = command("grade", "stencil", *arguments)
        assert (code, printed) == (2, "") and message in errors and errors.count("\n") == 1, (arguments, errors)
