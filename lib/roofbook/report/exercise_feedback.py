"""Feedback on a reader's answer to an exercise, as text for a terminal or as JSON."""

from typing import Any

from ..analysis import format as show
from ..analysis.readings import Speedup
from ..analysis.sentences import ratio_words
from ..measure.answer import Mark
from ..spec.exercise import Write
from ..spec.lab import Lab
from .judgement import cases_as_json, lines_of_cases, sandbox_as_json, sandbox_lines


def as_text(mark: Mark, lab: Lab, exercise: Write) -> str:
    """Return a line for each wrong case, one line for all right cases, and the time of a right answer."""
    hole = "; the hole is still there" if mark.has_hole and mark.code else ""
    if mark.does_not_compile:
        lines = [f"does not compile: {mark.does_not_compile}{hole}"]
    else:
        lines = lines_of_cases(mark.cases, "not right", hole)
        lines += [_launch_in_words(lab, exercise)] * bool(mark.code)
    lines[0] = f"{exercise.name}: {lines[0]}"
    if mark.timed is not None:
        lines.append(_time_in_words(mark.timed, lab, exercise))
    return "\n".join([*lines, *sandbox_lines(mark)])


def as_json(mark: Mark, lab: Lab, exercise: Write) -> dict[str, Any]:
    """Return the feedback as JSON data: verdict, reasons by case, and the time of a right answer."""
    return {
        "lab": lab.name,
        "exercise": exercise.name,
        "code": mark.code,
        "verdict": ("right", "wrong", "does not compile")[mark.code],
        "does_not_compile": mark.does_not_compile or None,
        "hole_is_there": mark.has_hole,
        "cases": cases_as_json(mark.cases),
        "timed": dict(mark.timed) if mark.timed is not None else None,
        **sandbox_as_json(mark),
    }


def _launch_in_words(lab: Lab, exercise: Write) -> str:
    """Say how an answer is launched: one that is right by other arguments or for another range is wrong by these."""
    own = f"`roofbook exercise {lab.name} {exercise.name} --solution`"
    return f"It was launched as the book's own kernel is, {own}: by its arguments, in its groups and its range"


def _time_in_words(timed: Any, lab: Lab, exercise: Write) -> str:
    time = f"{show.duration(timed['seconds'])} per {lab.unit} on {timed['case']}"
    estimate, low, high = timed["ratio"]
    comparison = ratio_words(Speedup(estimate, low, high, ""))
    return f"{time}: in this run {comparison} the book's `{exercise.step}`"
