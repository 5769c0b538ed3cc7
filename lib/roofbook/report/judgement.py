"""The judgement on a submitted kernel, as text for a terminal or as JSON."""

from collections.abc import Iterable, Sequence
from typing import Any

from ..analysis import format as show
from ..analysis.readings import Speedup
from ..analysis.sentences import ratio_words
from ..measure.answer import CaseMark, Mark
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
    lines += [f"{file}: {line}" for line in lines_of_cases(cases, "wrong")]
    timed = [mark.timed for mark in marks if mark.timed is not None]
    for result in timed:
        share = f", {show.percent(result['share'])} of the bound" if result["share"] else ""
        lines.append(f"{show.duration(result['seconds'])} per {lab.unit} on {result['case']}, in this run{share}")
        for name, (estimate, low, high) in result["ratios"].items():
            lines.append(f"{ratio_words(Speedup(estimate, low, high, ''))} {name}")
    if timed and timed[0]["facts"]:
        facts = (f"{number} {RESOURCES[name]}" for name, number in timed[0]["facts"].items())
        lines.append("Its compiler says: " + ", ".join(facts))
    return "\n".join([*lines, *sandbox_lines(marks[0])])


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
        "cases": cases_as_json(case for mark in marks for case in mark.cases),
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
        **sandbox_as_json(marks[0]),
    }


def lines_of_cases(cases: Sequence[CaseMark], wrong: str, remark: str = "") -> list[str]:
    """Return a line for each wrong case, and one for all right ones. wrong: word for a wrong one. remark: after each reason."""
    lines = [
        f"{wrong} on {case.case}: {'; '.join(filter(None, (case.reason, case.worst_element)))}{remark}"
        for case in cases
        if case.reason
    ]
    right = [case.case for case in cases if not case.reason]
    return lines + [f"right on {', '.join(right)}"] * bool(right)


def cases_as_json(cases: Iterable[CaseMark]) -> list[dict[str, Any]]:
    """Return the verdict on each case as JSON data, with the reason and the worst element of a wrong one."""
    return [
        {
            "case": case.case,
            "right": not case.reason,
            "reason": case.reason or None,
            "where": case.worst_element or None,
        }
        for case in cases
    ]


def sandbox_lines(mark: Mark) -> list[str]:
    """Return the line that says why a kernel ran without a sandbox; none if it ran in one."""
    return [f"It ran without a sandbox: {mark.sandbox.why_not}"] * (not mark.sandbox.is_used)


def sandbox_as_json(mark: Mark) -> dict[str, Any]:
    """Return whether a kernel ran in a sandbox, and why not, as JSON data."""
    return {"sandbox": mark.sandbox.is_used, "no_sandbox_because": mark.sandbox.why_not or None}
