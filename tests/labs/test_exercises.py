"""Each lab's kernels to write: the hole fails while it is empty, the solution passes; and what a lab declares is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.measure.answer import judge
from roofbook.measure.answered import NAME, furthest, wrong_on
from roofbook.measure.placement import Setting, target_of
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.spec.exercise import HOLE, Answer, Exercises, Write, case_of, exercises, holed, missing_lines, solution
from roofbook.spec.lab import Lab

from . import pages

WITH = [name for name in registry.names() if exercises(registry.get(name)).write]
EACH = [(lab, each.name) for lab in WITH for each in exercises(registry.get(lab)).write]


@pytest.fixture(scope="module", autouse=True)
def data() -> Iterator[None]:
    """The labs' own data, or what stands in for it where it cannot be fetched."""
    with pytest.MonkeyPatch.context() as patch:
        for lab in WITH:
            for name, value in pages.known(lab, "ENVIRONMENT").items():
                patch.setenv(name, value)
        yield


def refused(lab: Lab, exercise: Write, text: str, folder: Path) -> list[str | None]:
    """Why a text is refused on each case of the exercise, on the host's CPU; None where it is right."""
    (folder / "my.k").write_text(text)
    step = lab.variant(exercise.step)
    assert step.source is not None
    answer = replace(step, name=NAME, source=Answer.to(exercise, step.source, folder / "my.k"))
    target = target_of(step, host_cpu())
    assert target is not None
    found: list[str | None] = []
    for name in exercise.cases:
        case = case_of(lab, name)
        assert lab.skip_reason(step, case) is None, f"{exercise.step} is for {name}"
        why = wrong_on(Setting(lab, case, target.device, Policy()), answer, target)
        found.append(why["reason"] if why else None)
    return found


@pytest.mark.parametrize(("lab", "name"), EACH)
def test_the_hole_fails_and_its_solution_passes(lab: str, name: str, tmp_path: Path) -> None:
    known = registry.get(lab)
    exercise = exercises(known).named(lab, name)
    assert refused(known, exercise, solution(known, exercise), tmp_path) == [None] * len(exercise.cases)
    (tmp_path / "hole.k").write_text(holed(known, exercise))
    mark = judge(known, exercise, tmp_path / "hole.k", host_cpu(), take_time=False)  # which reads what it never wrote
    assert mark.code in (1, 2) and mark.said.endswith("; the hole is still there"), mark


@pytest.mark.parametrize(("lab", "name"), EACH)
def test_a_hole_is_the_solution_without_its_lines(lab: str, name: str) -> None:
    known = registry.get(lab)
    exercise = exercises(known).named(lab, name)
    whole, hole, cut = solution(known, exercise), holed(known, exercise), missing_lines(known, exercise)
    assert len(exercise.cases) > 1 and whole.count(cut) == 1 and HOLE in hole and HOLE not in whole
    assert re.sub(rf"^ *// {HOLE}:\n(?: *// .*\n)*", lambda _: cut, hole, flags=re.M) == whole
    assert set(exercise.known) <= set(re.findall(r"\w+", whole.partition("\n\n")[2])), "each known size is used"


@pytest.mark.parametrize("lab", WITH)
def test_what_is_predicted_and_turned_is_in_the_lab(lab: str) -> None:
    known, own = registry.get(lab), exercises(registry.get(lab))
    assert own.predict and own.turn and own.write
    published = [case.name for case in known.cases("published")]
    for each in own.predict:
        assert known.variant(each.step).name != known.variant(each.against).name
        assert each.case is None or each.case in published
    for turn in own.turn:
        (sweep,) = [each for each in known.sweeps if each.axis == turn.axis]
        points = [each for each in sweep.variants if re.fullmatch(turn.at or ".*", str(each.point))]
        assert 2 < len(points) < 40 and (turn.case is None or turn.case in published)
    said = " ".join([*(each.why for each in own.predict), *(each.why for each in own.turn)])
    assert not re.search(r"\d+(\.\d+)? times|\d %", said), "a number that was measured comes from the store"


def test_a_lab_without_exercises_has_none() -> None:
    assert exercises(registry.get(registry.PEAKS)) == Exercises()


def test_a_hole_that_names_no_line_or_ends_before_it_begins_is_an_error() -> None:
    lab = registry.get("stencil")
    exercise = exercises(lab).named("stencil", "fused")
    for cut, said in ((("nowhere", "sum"), "0 lines"), (("sum", "sum"), "3 lines"), (exercise.cut[::-1], "before")):
        with pytest.raises(ValueError, match=said):
            holed(lab, replace(exercise, cut=cut))


def test_where_a_result_is_furthest_from_right() -> None:
    right = {"g": np.array([[1.0, 2.0], [3.0, 4.0]]), "other": np.zeros(3)}
    off = np.array([[1.0, 2.0], [3.5, 4.1]])
    assert furthest({"g": off, "unknown": off}, right) == "g[1, 0] is 3.5, right is 3"
    off[0, 1] = np.nan
    assert furthest({"g": off}, right) == "g[0, 1] is no number, as what is never written; so are 1 of 4 elements"
    assert furthest({"g": right["g"].copy()}, right) == furthest({"g": off[0]}, right) == ""
