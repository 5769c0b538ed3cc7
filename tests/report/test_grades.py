"""Files of a class: the CSV, the page, and the formats of Gradescope and Classroom 50, whatever names and reasons say."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import html5lib
import pytest

from roofbook.analysis.class_grades import Grade, Part, TimedCase
from roofbook.analysis.likeness import LikePair
from roofbook.escaping import file_name, printable
from roofbook.measure.sandbox import Sandbox
from roofbook.report.grades import FROM_RUNNER, SCHEMA, as_csv, classroom50, facts, gradescope, write_all
from roofbook.spec.class_folder import ClassSubmission
from roofbook.spec.credit import Credit

from ..hostile import CONTROLS, FORMULA, HOSTILE

THIRDS = Credit(100.0)


def right(name: str = "anna.cl") -> Grade:
    """Return the grade of a submission that is right on three sizes and timed."""
    parts = tuple(Part(f"right on {size}", 100 / 3, 100 / 3, "") for size in ("7x48", "5x129", "6x1024"))
    time = TimedCase("6x1024", 1.25e-6, "fused", (0.98, 0.9, float("inf")), 0.5)
    return Grade(ClassSubmission(name, file_name(name)), parts, (time,), ())


def wrong(name: str, reason: str) -> Grade:
    """Return the grade of a submission that is wrong on one size of two."""
    parts = (Part("right on 7x48", 50.0, 50.0, ""), Part(f"right on {reason}", 0.0, 50.0, reason))
    return Grade(ClassSubmission(name, file_name(name)), parts, (), (f"6x1024: {reason}",))


def lines_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_csv_has_a_line_for_each_submission() -> None:
    anna, ben = lines_of(as_csv([right(), wrong("ben", "g[0] is 1")], {"anna.cl": 1}, THIRDS, ["6x1024"]))
    assert (anna["name"], anna["points"], anna["most_points"], anna["right"], anna["rank"]) == (
        "anna.cl", "100", "100", "yes", "1",
    )  # fmt: skip
    assert float(anna["seconds (6x1024)"]) == 1.25e-6 and anna["against (6x1024)"] == "fused"
    assert anna["ratio_high (6x1024)"] == "inf" and anna["share_of_bound (6x1024)"] == "0.5"
    assert (ben["points"], ben["right"], ben["rank"], ben["seconds (6x1024)"]) == ("50", "no", "", "")
    assert ben["reasons"] == "6x1024: g[0] is 1"


def test_gradescope_reads_its_format() -> None:
    result = gradescope(right(), 1)
    assert result["score"] == 100 and result["visibility"] == "visible"
    assert [test["max_score"] for test in result["tests"]] == [33.33, 33.34, 33.33]
    assert all(test["score"] == test["max_score"] and test["status"] == "passed" for test in result["tests"])
    assert result["leaderboard"] == [{"name": "Times as fast as fused, 6x1024", "value": 0.98, "order": "desc"}]
    for name in ("output_format", "test_output_format", "test_name_format"):
        assert result[name] == "text", "a submission's words are shown as they are"
    failed = gradescope(wrong("ben", "g[0] is 1"), None)
    assert [test["status"] for test in failed["tests"]] == ["passed", "failed"] and "leaderboard" not in failed
    assert failed["tests"][1]["output"] == "g[0] is 1" and "6x1024: g[0] is 1" in failed["output"]


def reason_why_classroom50_refuses(result: dict[str, Any]) -> str:
    """Return why a result lacks the form that the runner of foundation50/classroom50 asks for; '' if it has it."""
    texts = ("classroom", "assignment", "owner", "commit", "release", "review", "datetime")
    if result["schema"] != SCHEMA or not all(isinstance(result[name], str) and result[name] for name in texts):
        return "a text is missing"
    if not result["submission"].startswith("submit/") or result["assignment_type"] not in ("individual", "group"):
        return "no submission"
    scores = [(result["score"], result["max-score"]), *((t["score"], t["max-score"]) for t in result["tests"])]
    if any(type(value) is not int for pair in scores for value in pair) or any(not 0 <= s <= m for s, m in scores):
        return "a score is no whole number up to its largest"
    if any(type(test["passed"]) is not bool or not test["test-name"] for test in result["tests"]):
        return "a test without a name or a verdict"
    return ""


@pytest.mark.parametrize("grade", [right(), wrong("ben", "wrong"), right(HOSTILE)])
def test_classroom_50_takes_the_result(grade: Grade) -> None:
    result = classroom50(grade, "stencil", {})
    assert reason_why_classroom50_refuses(result) == ""
    assert result["max-score"] == 100 and result["score"] == round(grade.points)
    runner = {name: f"submit/{field}" for field, name in FROM_RUNNER.items()} | {"ASSIGNMENT_TYPE": "group"}
    result = classroom50(grade, "stencil", runner)
    assert reason_why_classroom50_refuses(result) == "" and result["owner"] == "submit/owner"


def test_hostile_names_and_reasons_stay_text(tmp_path: Path) -> None:
    grades = [right(HOSTILE), right(FORMULA), wrong("ben\n=1+1", HOSTILE), wrong("-2+3", FORMULA)]
    pairs = [LikePair(HOSTILE, FORMULA, 1.0, True)]
    sentences = facts(4, HOSTILE, [(HOSTILE, HOSTILE)], Sandbox(False, HOSTILE))
    keys = [grade.submission.key for grade in grades]
    write_all(
        tmp_path, grades, {keys[0]: 1, keys[1]: 1}, pairs, THIRDS, HOSTILE, ["6x1024"], sentences, {"OWNER": HOSTILE}
    )
    files = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*") if path.is_file()}
    assert set(files) == {"grades.csv", "index.html"} | {
        f"submissions/{key}/{name}" for key in keys for name in ("result.json", "results.json")
    }
    for name, text in files.items():
        assert not CONTROLS.search(text), name
        if name.endswith(".json"):
            json.loads(text)
    for row in csv.reader(io.StringIO(files["grades.csv"])):
        assert not any(cell.startswith(("=", "+", "-", "@")) for cell in row) and "\n" not in "".join(row)
    page = html5lib.parse(files["index.html"], namespaceHTMLElements=False)
    known = re.findall(
        r"\w+",
        "html head meta title style body main h1 h2 p div table caption thead tbody tr th td small span code a wbr",
    )
    assert {element.tag for element in page.iter()} <= {*known}
    assert all(not name.startswith("on") for element in page.iter() for name in element.attrib)
    assert all(link.get("href").startswith("data:text/csv") for link in page.iter("a"))
    words = " ".join("".join(page.itertext()).split())
    assert " ".join(printable(HOSTILE).split())[:60] in words and FORMULA in words


def test_the_same_grades_are_the_same_files(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        write_all(tmp_path / folder, [right()], {"anna.cl": 1}, [], THIRDS, "stencil", ["6x1024"], ["Judged."], {})
    for name in ("grades.csv", "index.html", "submissions/anna.cl/results.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
