"""Grades from judgements: points for sizes, time and share of the bound; ranks that do not depend on the order."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.class_grades import Grade, TimedCase, grade_of, ranks
from roofbook.measure.stats import LEAST
from roofbook.spec.class_folder import ClassSubmission
from roofbook.spec.credit import Credit

STEPS = (("6x1024", "fused"),)
CREDIT = Credit(60.0, ((0.5, 10.0), (0.9, 30.0)), ((0.5, 10.0),))


def judgement(*reasons: str | None, ratio: tuple[float, float, float] | None = None, **fields: Any) -> dict[str, Any]:
    """Return a judgement as the command prints it. reasons: of each size."""
    cases = [
        {"case": f"7x{at}", "right": not reason, "reason": reason, "where": None} for at, reason in enumerate(reasons)
    ]
    timed = []
    if ratio:
        factor = dict(zip(("estimate", "low", "high"), ratio, strict=True))
        timed = [{"case": "6x1024", "seconds": 1e-6, "share_of_bound": 0.6, "times_as_fast_as": {"fused": factor}}]
    return {"code": int(any(reasons)), "cannot_be_built": None, "cases": cases, "timed": timed, **fields}


def graded(*judgements: dict[str, Any], reason: str = "", credit: Credit = CREDIT) -> Grade:
    return grade_of(ClassSubmission("anna", "anna", reason=reason), judgements, STEPS, credit, take_time=True)


def test_sizes_time_and_share_give_points() -> None:
    grade = graded(judgement(None, None, ratio=(0.95, 0.93, 0.97)))
    assert grade.is_right and [part.score for part in grade.parts] == [30, 30, 30, 10] and grade.points == CREDIT.most
    slow = graded(judgement(None, None, ratio=(0.6, 0.58, 0.62)))
    assert slow.points == 60 + 10 + 10 and not slow.parts[2].is_full


def test_a_time_within_the_noise_of_a_threshold_reaches_it_but_a_wide_interval_does_not() -> None:
    assert graded(judgement(None, ratio=(0.88, 0.85, 0.91))).parts[1].score == 30
    assert graded(judgement(None, ratio=(0.6, 0.0, 9.0))).parts[1].score == 10


def test_a_wrong_size_costs_its_share_and_all_of_the_time() -> None:
    grade = graded(judgement(None, "g[0] is 1, right is 2", None))
    assert (grade.points, grade.is_right) == (40, False) and grade.reasons == ("7x1: g[0] is 1, right is 2",)


def test_a_refused_submission_has_no_points_and_one_reason() -> None:
    for grade, reason in (
        (graded(reason="it is a link"), "it is a link"),
        (graded(judgement(cannot_be_built="one.cl:3: error", code=2)), "cannot be built: one.cl:3: error"),
        (graded({"does_not_compile": "an error", "code": 2}), "cannot be built: an error"),
        (graded({"out_of_time": "it did not end"}), "it did not end"),
        (graded(judgement()), "it was judged on no size"),
    ):
        assert grade.points == 0 and grade.reasons == (reason,) and not grade.is_right and grade.is_judged
        assert sum(part.most for part in grade.parts) == CREDIT.most


def test_a_judgement_that_failed_is_no_verdict() -> None:
    grade = graded({"failed": "no memory"})
    assert not grade.is_judged and not grade.is_right and grade.points == 0


def test_an_answer_to_an_exercise_is_graded_alike() -> None:
    timed = {"case": "6x1024", "seconds": 1e-6, "ratio": [1.0, 0.9, 1.1], "share": None}
    grade = graded({"cases": [], "timed": timed, "code": 0}, credit=Credit(60.0, ((0.5, 40.0),)))
    assert grade.times == (TimedCase("6x1024", 1e-6, "fused", (1.0, 0.9, 1.1), None),)


def test_an_answer_with_its_hole_says_so() -> None:
    assert graded(judgement("wrong", hole_is_there=True)).reasons == ("the hole is still there", "7x0: wrong")
    assert graded(judgement(None, hole_is_there=True)).reasons == ()


def timed(name: str, estimate: float, width: float) -> Grade:
    """Return the grade of a right submission with a speed and the relative width of its interval."""
    time = TimedCase("6x1024", 1.0, "fused", (estimate, estimate / (1 + width), estimate * (1 + width)), None)
    return Grade(ClassSubmission(name, name), (), (time,), ())


speeds = st.lists(st.tuples(st.floats(0.1, 10), st.floats(0, 0.5)), max_size=12)


@given(speeds, st.randoms(use_true_random=False))
def test_ranks_do_not_depend_on_the_order(speeds: list[tuple[float, float]], shuffle: random.Random) -> None:
    grades = [timed(str(at), *speed) for at, speed in enumerate(speeds)]
    shuffled = list(grades)
    shuffle.shuffle(shuffled)
    assert ranks(shuffled) == ranks(grades)


@given(speeds)
def test_submissions_of_one_rank_are_within_the_noise_and_the_surely_faster_is_ahead(
    speeds: list[tuple[float, float]],
) -> None:
    grades = [timed(str(at), *speed) for at, speed in enumerate(speeds)]
    rank = ranks(grades)
    assert not grades or min(rank.values()) == 1
    for one in grades:
        for other in grades:
            if one.times[0].ratio[1] > other.times[0].ratio[2] * LEAST:
                assert rank[one.submission.key] < rank[other.submission.key]


def test_ties_share_a_rank_and_the_wrong_have_none() -> None:
    wrong = Grade(ClassSubmission("wrong", "wrong"), (), timed("wrong", 9, 0).times, ("7x48: wrong",))
    grades = [timed("a", 1.0, 0.05), timed("b", 1.02, 0.05), timed("c", 0.5, 0.05), timed("noisy", 0.7, 5.0), wrong]
    assert ranks(grades) == {"a": 1, "b": 1, "c": 3, "noisy": 1}
