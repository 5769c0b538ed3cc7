"""Grades of a class from judgements: points by size, time and share of the bound; and ranks that submissions share."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..measure.stats import EQUAL, LEAST
from ..spec.class_folder import ClassSubmission
from ..spec.credit import Credit, Thresholds, most_points, points_for
from . import format as show


@dataclass(frozen=True)
class TimedCase:
    """Time of a right submission on a case."""

    case: str
    seconds: float
    step: str
    """Step that it was timed beside."""
    ratio: tuple[float, float, float]
    """How many times as fast as the step: estimate, low and high."""
    share: float | None
    """Share of the bound; None where the device's peaks are not known."""


@dataclass(frozen=True)
class Part:
    """A part of a grade."""

    name: str
    score: float
    most: float
    output: str
    """Reason or figure that a student sees."""

    @property
    def is_full(self) -> bool:
        """Whether it has all its points."""
        return self.score >= self.most


@dataclass(frozen=True)
class Grade:
    """Points of a submission and what they are for."""

    submission: ClassSubmission
    parts: tuple[Part, ...]
    times: tuple[TimedCase, ...]
    reasons: tuple[str, ...]
    """Reason for each case that is not right, such as `7x48: ...`."""
    is_judged: bool = True
    """False if a judgement failed through no fault of the submission."""

    @property
    def points(self) -> float:
        """Sum of the points of its parts."""
        return sum(part.score for part in self.parts)

    @property
    def is_right(self) -> bool:
        """Whether it is right on all cases."""
        return self.is_judged and not self.reasons


def grade_of(
    submission: ClassSubmission,
    judgements: Sequence[Mapping[str, Any]],
    steps: Sequence[tuple[str, str]],
    credit: Credit,
    *,
    take_time: bool,
) -> Grade:
    """Return the grade of a submission. judgements: of its cases, as the commands print them. steps: (case, step) of each."""
    refusal = submission.reason or next(filter(None, map(_refusal, judgements)), "")
    reasons_by_size: dict[str, str] = {}
    for judgement in judgements:
        for case in judgement.get("cases", ()):
            reason = "; ".join(filter(None, (case["reason"], case["where"])))
            reasons_by_size[case["case"]] = reasons_by_size.get(case["case"]) or reason
    failures = [str(judgement["failed"]) for judgement in judgements if "failed" in judgement]
    times = tuple(
        time
        for judgement, (_, step) in zip(judgements, steps, strict=False)
        if (time := _timed(judgement, step)) is not None
    )
    stopped = [str(judgement["out_of_time"]) for judgement in judgements if "out_of_time" in judgement]
    if not (refusal or reasons_by_size or stopped or failures):
        refusal = "it was judged on no size"
    reasons = [refusal] if refusal else [f"{size}: {reason}" for size, reason in reasons_by_size.items() if reason]
    if reasons and any(judgement.get("hole_is_there") for judgement in judgements):
        reasons.insert(0, "the hole is still there")
    reasons += stopped + failures
    sizes = len(reasons_by_size) + len(stopped) + len(failures)
    parts = [
        Part(f"right on {size}", 0.0 if reason or refusal else credit.sizes / sizes, credit.sizes / sizes, reason)
        for size, reason in reasons_by_size.items()
    ]
    parts += [Part("judged", 0.0, credit.sizes / sizes, reason) for reason in stopped + failures]
    if not parts:
        parts = [Part("can be judged", 0.0, credit.sizes, refusal)]
    if take_time:
        parts += _parts_by_time(times, steps, credit)
    return Grade(submission, tuple(parts), times, tuple(reasons), not failures)


def _refusal(judgement: Mapping[str, Any]) -> str:
    message = judgement.get("cannot_be_built") or judgement.get("does_not_compile")
    return f"cannot be built: {message}" if message else ""


def _timed(judgement: Mapping[str, Any], step: str) -> TimedCase | None:
    """Return the time in a judgement by `roofbook judge` or `roofbook exercise`; None without one."""
    timed = judgement.get("timed")
    if isinstance(timed, list):
        timed = timed[0] if timed else None
    if not timed:
        return None
    ratio = timed["ratio"] if "ratio" in timed else list(timed["times_as_fast_as"][step].values())
    share = timed.get("share_of_bound", timed.get("share"))
    low, high = ratio[1] or 0.0, math.inf if ratio[2] is None else ratio[2]
    return TimedCase(timed["case"], timed["seconds"], step, (ratio[0], low, high), share)


def _parts_by_time(times: Sequence[TimedCase], steps: Sequence[tuple[str, str]], credit: Credit) -> list[Part]:
    """Return the parts for the time against the step and for the share of the bound, on each case."""
    by_case = {time.case: time for time in times}
    parts = []
    for case, step in steps:
        time = by_case.get(case)
        if credit.step:
            value = min(time.ratio[2], time.ratio[0] * EQUAL) if time else 0.0
            output = f"{show.factor(*time.ratio)} times as fast" if time else "not timed"
            name = f"at least {credit.step[-1][0]:g} times as fast as {step} on {case}"
            parts.append(_part(name, value, credit.step, output, len(steps)))
        if credit.bound:
            share = time.share if time and time.share else 0.0
            output = show.percent(share) if share else "not timed"
            name = f"at least {show.percent(credit.bound[-1][0])} of the bound on {case}"
            parts.append(_part(name, share, credit.bound, output, len(steps)))
    return parts


def _part(name: str, value: float, thresholds: Thresholds, output: str, cases: int) -> Part:
    return Part(name, points_for(value, thresholds) / cases, most_points(thresholds) / cases, output)


def ranks(grades: Sequence[Grade]) -> dict[str, int]:
    """Return the rank by submission key for each that is right and timed on all cases on which any is timed.

    A rank is one more than the number of submissions that are surely faster. So those within the noise of the fastest share
    rank 1, and a submission whose time is uncertain changes no rank but its own.
    """
    cases = {time.case for grade in grades if grade.is_right for time in grade.times}
    speeds = {
        grade.submission.key: _speed(grade)
        for grade in grades
        if grade.is_right and grade.times and cases == {time.case for time in grade.times}
    }
    return {
        key: 1 + sum(low > high * LEAST for other, (low, _) in speeds.items() if other != key)
        for key, (_, high) in speeds.items()
    }


def _speed(grade: Grade) -> tuple[float, float]:
    """Return the interval of a submission's speed against the steps: the geometric mean over its cases."""
    power = 1 / len(grade.times)
    return math.prod(time.ratio[1] for time in grade.times) ** power, math.prod(
        time.ratio[2] for time in grade.times
    ) ** power
