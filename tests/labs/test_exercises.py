"""Each lab's kernels to write: the hole fails while it is empty, the solution passes; and all that a lab declares is there."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.measure.answer import Mark, describe_worst_element, judge, task_of
from roofbook.measure.sandbox import sandbox
from roofbook.report.exercise_feedback import as_text
from roofbook.spec import registry
from roofbook.spec.answer_file import AnswerFile
from roofbook.spec.exercise import HOLE, Exercises, Write, case_of, exercises, holed, missing_lines, solution
from roofbook.spec.lab import Lab

WITH = [name for name in registry.names() if exercises(registry.get(name)).write]
EACH = [(lab, exercise.name) for lab in WITH for exercise in exercises(registry.get(lab)).write]
QUICK = (("lbm", "tree"), ("stencil", "fused"))
"""Exercises that are always judged. A solution is a step, which is verified by itself, and a sandbox takes seconds."""
MISTAKES = {
    ("stencil", "checked"): ("i > 0 && ", "", r"\[0, \d+\]|did not|crashed|outside|before or behind"),
    ("stencil", "local-memory"): ("below[lane] = b[(i + 1)", "below[lane] = b[i", r"g\[\d+, \d+\] is \S+, right is"),
    ("stencil", "fused"): ("pass < PASSES", "pass < PASSES - 1", r"g\[\d+, \d+\] is \S+, right is"),
    ("lbm", "propagate"): ("east = (x + 1) % nx", "east = x == nx - 1 ? x : x + 1", r"is \S+, right is"),
    ("lbm", "rebound"): ("* 9 + 6] = from[(i) * 9 + 8]", "* 9 + 6] = from[(i) * 9 + 6]", r"is \S+, right is"),
    ("lbm", "tree"): ("reach /= 2", "reach /= 4", r"is \S+, right is"),
    ("lenet", "direct"): ("(h + p)", "(h - p + 6)", r"is \S+, right is"),
    ("lenet", "tiled"): ("h < ((2 * 17) + 7 - 1); h += 17", "h < 2 * 17; h += 17", r"is (?:\S+, right is|no number)"),
    ("lenet", "fused"): ("i < 16", "i < 15", r"is \S+, right is"),
    ("cnn", "pool"): ("MAX(c[i][h + 1][w], c[i][h + 1][w + 1])", "c[i][h + 1][w]", r"is \S+, right is"),
    ("cnn", "local-tile"): ("GROUP_ID(1) * LOCAL_1 * 2 + ", "", r"is \S+, right is"),
    ("cnn", "permuted"): ("p < TAPS", "p < TAPS - 1", r"is \S+, right is"),
    ("convpool", "dense"): ("(w + q)", "(w)", r"is \S+, right is"),
    ("convpool", "walk"): (
        "lower1 += value * x[from + (SIZE + TAPS - 1) + 1]",
        "lower1 += value * x[from + 1]",
        r"right is",
    ),
    ("convpool", "lists"): ("if (value)", "if (value > 0)", r"right is"),
}
"""Exercise -> a typical mistake, as a change of the solution's missing lines, and the words of the feedback on it."""


@pytest.mark.parametrize(
    ("lab", "name"),
    [pytest.param(*pair, marks=[] if pair in QUICK else [pytest.mark.thorough]) for pair in EACH],
)
def test_the_hole_fails_and_its_solution_passes(lab: str, name: str) -> None:
    declared = registry.get(lab)
    exercise = exercises(declared).named(lab, name)
    step = declared.variant(exercise.step)
    for case in exercise.cases:
        assert declared.skip_reason(step, case_of(declared, case)) is None, f"{exercise.step} is for {case}"

    right = mark_of(declared, exercise, solution(declared, exercise))
    assert right.code == 0 and [(case.case, case.reason) for case in right.cases] == [(c, "") for c in exercise.cases]
    mark = mark_of(declared, exercise, holed(declared, exercise))  # which reads what it never wrote
    assert mark.code in (1, 2) and mark.has_hole, mark


def mark_of(lab: Lab, exercise: Write, text: str) -> Mark:
    """Return the mark of an answer on the exercise's cases, without a time."""
    return judge(lab, task_of(lab, exercise), AnswerFile("my.k", text), host_cpu(), sandbox(), take_time=False)


def test_each_exercise_has_a_typical_mistake() -> None:
    assert set(MISTAKES) == set(EACH)
    for (lab, name), (before, _, _) in MISTAKES.items():
        declared = registry.get(lab)
        assert missing_lines(declared, exercises(declared).named(lab, name)).count(before), (lab, name, before)


@pytest.mark.parametrize(
    ("lab", "name"),
    [pytest.param(*pair, marks=[] if pair == ("stencil", "checked") else [pytest.mark.thorough]) for pair in MISTAKES],
)
def test_a_typical_mistake_gets_feedback_that_says_where(lab: str, name: str) -> None:
    declared = registry.get(lab)
    exercise = exercises(declared).named(lab, name)
    before, after, words = MISTAKES[lab, name]
    cut = missing_lines(declared, exercise)
    mark = mark_of(declared, exercise, solution(declared, exercise).replace(cut, cut.replace(before, after)))
    feedback = as_text(mark, declared, exercise)
    assert mark.code == 1 and not mark.has_hole, feedback
    assert re.search(rf"not right on {exercise.cases[0]}: .*(?:{words})", feedback), feedback
    assert f"roofbook exercise {lab} {name} --solution" in feedback


@pytest.mark.parametrize(("lab", "name"), EACH)
def test_a_hole_is_the_solution_without_its_lines(lab: str, name: str) -> None:
    declared = registry.get(lab)
    exercise = exercises(declared).named(lab, name)
    solved, hole, cut = solution(declared, exercise), holed(declared, exercise), missing_lines(declared, exercise)
    assert len(exercise.cases) > 1 and solved.count(cut) == 1 and HOLE in hole and HOLE not in solved
    assert re.sub(rf"^ *// {HOLE}:\n(?: *// .*\n)*", lambda _: cut, hole, flags=re.M) == solved
    assert set(exercise.plan_knobs) <= set(re.findall(r"\w+", solved.partition("\n\n")[2])), "each known size is used"


@pytest.mark.parametrize("lab", WITH)
def test_what_is_predicted_and_turned_is_in_the_lab(lab: str) -> None:
    declared, exercises_of_lab = registry.get(lab), exercises(registry.get(lab))
    assert exercises_of_lab.predict and exercises_of_lab.turn and exercises_of_lab.write
    published = [case.name for case in declared.cases("published")]
    for prediction in exercises_of_lab.predict:
        assert declared.variant(prediction.step).name != declared.variant(prediction.against).name
        assert prediction.case is None or prediction.case in published
    for turn in exercises_of_lab.turn:
        (sweep,) = [s for s in declared.sweeps if s.axis == turn.axis]
        points = [v for v in sweep.variants if re.fullmatch(turn.at or ".*", str(v.point))]
        assert 2 < len(points) < 40 and (turn.case is None or turn.case in published)
    reasons = " ".join(
        [
            *(question.explanation for question in exercises_of_lab.predict),
            *(question.explanation for question in exercises_of_lab.turn),
        ]
    )
    assert not re.search(r"\d+(\.\d+)? times|\d %", reasons), "a number that was measured comes from the store"


def test_a_lab_without_exercises_has_none() -> None:
    assert exercises(registry.get(registry.PEAKS)) == Exercises()


def test_a_hole_that_names_no_line_or_ends_before_it_begins_is_an_error() -> None:
    lab = registry.get("stencil")
    exercise = exercises(lab).named("stencil", "fused")
    for cut, message in ((("nowhere", "sum"), "0 lines"), (("sum", "sum"), "3 lines"), (exercise.cut[::-1], "before")):
        with pytest.raises(ValueError, match=message):
            holed(lab, replace(exercise, cut=cut))


def test_where_a_result_is_furthest_from_right() -> None:
    right = {"g": np.array([[1.0, 2.0], [3.0, 4.0]]), "other": np.zeros(3)}
    off = np.array([[1.0, 2.0], [3.5, 4.1]])
    assert describe_worst_element({"g": off, "unknown": off}, right) == "g[1, 0] is 3.5, right is 3"
    off[0, 1] = np.nan
    assert (
        describe_worst_element({"g": off}, right)
        == "g[0, 1] is no number, as what is never written; so are 1 of 4 elements"
    )
    assert describe_worst_element({"g": right["g"].copy()}, right) == describe_worst_element({"g": off[0]}, right) == ""
