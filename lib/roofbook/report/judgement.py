"""The judgement on a submitted kernel, as text for a terminal or as JSON."""

from typing import Any

from ..analysis import format as show
from ..analysis.readings import Speedup
from ..analysis.sentences import ratio_words
from ..measure.answer import Mark, Task
from ..measure.kernel_process import RESOURCES
from ..spec.lab import Lab

VERDICTS = ("right", "wrong", "cannot be built")
"""Verdict by exit code."""


def as_text(mark: Mark, lab: Lab, task: Task, file: str) -> str:
    """Return a line for each wrong case, one line for all right cases, and the times of a right kernel."""
    if mark.does_not_compile:
        lines = [f"{file}: cannot be built: {mark.does_not_compile}"]
    else:
        lines = [
            f"{file}: wrong on {case.case}: {'; '.join(filter(None, (case.reason, case.worst_element)))}"
            for case in mark.cases
            if case.reason
        ]
        right = [case.case for case in mark.cases if not case.reason]
        lines += [f"{file}: right on {', '.join(right)}"] * bool(right)
    if mark.timed is not None:
        share = f", {show.percent(mark.timed['share'])} of the bound" if mark.timed["share"] else ""
        lines.append(
            f"{show.duration(mark.timed['seconds'])} per {lab.unit} on {mark.timed['case']}, in this run{share}"
        )
        for name, ratio in _ratios(mark, task).items():
            lines.append(f"{ratio_words(Speedup(*ratio, ''))} {name}")
        if mark.timed["facts"]:
            lines.append("Its compiler says: " + ", ".join(_fact(*fact) for fact in mark.timed["facts"].items()))
    if not mark.sandbox.is_used:
        lines.append(f"It ran without a sandbox: {mark.sandbox.why_not}")
    return "\n".join(lines)


def as_json(mark: Mark, lab: Lab, task: Task, file: str) -> dict[str, Any]:
    """Return the judgement as JSON data: verdict, reasons by case, and the times of a right kernel."""
    timed = mark.timed
    return {
        "lab": lab.name,
        "file": file,
        "code": mark.code,
        "verdict": VERDICTS[mark.code],
        "cannot_be_built": mark.does_not_compile or None,
        "cases": [
            {
                "case": case.case,
                "right": not case.reason,
                "reason": case.reason or None,
                "where": case.worst_element or None,
            }
            for case in mark.cases
        ],
        "timed": timed
        and {
            "case": timed["case"],
            "seconds": timed["seconds"],
            "unit": lab.unit,
            "share_of_bound": timed["share"],
            "compiler": timed["facts"],
            "times_as_fast_as": {
                name: {"estimate": estimate, "low": low, "high": high}
                for name, (estimate, low, high) in _ratios(mark, task).items()
            },
        },
        "sandbox": mark.sandbox.is_used,
        "no_sandbox_because": mark.sandbox.why_not or None,
    }


def _fact(name: str, number: int) -> str:
    """Return a fact of the compiler in words.

    >>> _fact("registers", 32)
    '32 registers'
    """
    return f"{number} {RESOURCES[name]}"


def _ratios(mark: Mark, task: Task) -> dict[str, tuple[float, float, float]]:
    """Return the ratio to each opponent by its name: [estimate, low, high]."""
    assert mark.timed is not None
    return {task.step.name: mark.timed["ratio"], **mark.timed["rivals"]}
