"""The judgement on a submitted kernel, as text for a terminal or as JSON."""

from collections.abc import Sequence
from typing import Any

from ..analysis import format as show
from ..analysis.readings import Speedup
from ..analysis.sentences import ratio_words
from ..measure.answer import Mark
from ..measure.kernel_process import RESOURCES
from ..spec.lab import Lab

VERDICTS = ("right", "wrong", "cannot be built")
"""Verdict by exit code."""


def as_text(marks: Sequence[Mark], lab: Lab, file: str) -> str:
    """Return a line for each wrong case, one line for all right cases, and the times of a right kernel.

    marks: one for each case that is timed.
    """
    lines = [f"{file}: cannot be built: {mark.does_not_compile}" for mark in marks if mark.does_not_compile]
    cases = [case for mark in marks for case in mark.cases]
    lines += [
        f"{file}: wrong on {case.case}: {'; '.join(filter(None, (case.reason, case.worst_element)))}"
        for case in cases
        if case.reason
    ]
    right = [case.case for case in cases if not case.reason]
    lines += [f"{file}: right on {', '.join(right)}"] * bool(right)
    timed = [mark.timed for mark in marks if mark.timed is not None]
    for result in timed:
        share = f", {show.percent(result['share'])} of the bound" if result["share"] else ""
        lines.append(f"{show.duration(result['seconds'])} per {lab.unit} on {result['case']}, in this run{share}")
        for name, (estimate, low, high) in result["ratios"].items():
            lines.append(f"{ratio_words(Speedup(estimate, low, high, ''))} {name}")
    if timed and timed[0]["facts"]:
        facts = (f"{number} {RESOURCES[name]}" for name, number in timed[0]["facts"].items())
        lines.append("Its compiler says: " + ", ".join(facts))
    if not marks[0].sandbox.is_used:
        lines.append(f"It ran without a sandbox: {marks[0].sandbox.why_not}")
    return "\n".join(lines)


def as_json(marks: Sequence[Mark], lab: Lab, file: str) -> dict[str, Any]:
    """Return the judgement as JSON data: verdict, reasons by case, and the times of a right kernel.

    marks: one for each case that is timed.
    """
    code = max(mark.code for mark in marks)
    return {
        "lab": lab.name,
        "file": file,
        "code": code,
        "verdict": VERDICTS[code],
        "cannot_be_built": next((mark.does_not_compile for mark in marks if mark.does_not_compile), None),
        "cases": [
            {
                "case": case.case,
                "right": not case.reason,
                "reason": case.reason or None,
                "where": case.worst_element or None,
            }
            for mark in marks
            for case in mark.cases
        ],
        "timed": [
            {
                "case": mark.timed["case"],
                "seconds": mark.timed["seconds"],
                "unit": lab.unit,
                "share_of_bound": mark.timed["share"],
                "compiler": mark.timed["facts"],
                "times_as_fast_as": {
                    name: {"estimate": estimate, "low": low, "high": high}
                    for name, (estimate, low, high) in mark.timed["ratios"].items()
                },
            }
            for mark in marks
            if mark.timed is not None
        ],
        "sandbox": marks[0].sandbox.is_used,
        "no_sandbox_because": marks[0].sandbox.why_not or None,
    }
