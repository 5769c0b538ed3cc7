"""Judging of a class: one process for each submission and case, with limits of time and memory. Serves `roofbook grade`.

The process is `roofbook judge` or `roofbook exercise --check`, which runs the kernel in a process of its own. A result that is
in the folder of results already is not made again: the same command goes on where it was stopped.
"""

import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from .. import strict_json
from ..errors import Failed
from ..escaping import file_name
from ..paths import LIBRARY, read_regular, scratch_folder, write_whole
from ..process_tree import run_tool
from ..spec.class_folder import ClassSubmission
from ..spec.lab import Lab
from ..spec.submission import lab_folder

Judgements = Sequence[Mapping[str, Any]]
"""Judgements of a submission by case, as the commands print them as JSON."""
REQUESTS = 5
"""Least number of requests to a kernel's process for which the time of a judgement is enough."""
LARGEST_RESULT = 1 << 22
"""Most bytes of a kept result."""


@dataclass(frozen=True)
class ClassTask:
    """The task of a class: a lab with its cases, or an exercise; and the limits of a judgement."""

    lab: Lab
    device: str
    """The device, as `--device` names it."""
    model: str
    """Name of the device: a result on another one does not count."""
    steps: tuple[tuple[str, str], ...]
    """(case, step) of each judgement: the case that is timed, and the step beside which it is timed."""
    exercise: str | None
    take_time: bool
    limit_s: float
    """Seconds that a judgement may take."""
    memory_gib: float | None
    """Memory that the kernel's process may take; None for no limit."""
    options: tuple[str, ...] = ()
    """Further options of the command, which do not change a result."""

    def command(self, file: Path, case: str, step: str) -> list[str]:
        """Return the command that judges a file on a case."""
        subject = (
            ["judge", self.lab.name, str(file), "--case", case, "--against", step]
            if self.exercise is None
            else ["exercise", self.lab.name, self.exercise, "--check", str(file)]
        )
        limits = ["--limit", f"{self.limit_s / REQUESTS:g}"]
        limits += [] if self.memory_gib is None else ["--memory", f"{self.memory_gib:g}"]
        time = "--time" if self.take_time else "--no-time"
        return [
            *(sys.executable, "-m", "roofbook", *subject),
            *(time, *limits, "--device", self.device, *self.options, "--json"),
        ]

    def key(self, submission: ClassSubmission, case: str, step: str) -> str:
        """Return a hash of all that a result depends on: the text, the lab's files, the case, the device, the limits."""
        parts = [
            *(submission.text, submission.suffix, code_hash(self.lab), case, step, str(self.exercise), self.model),
            *(str(self.take_time), f"{self.limit_s:g}", str(self.memory_gib)),
        ]
        return hash_of(*parts)


def hash_of(*parts: str) -> str:
    """Return a hash of several texts."""
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


@cache
def code_hash(lab: Lab) -> str:
    """Return a hash of all files of a lab, and of the code that judges."""
    folders = (lab_folder(lab), LIBRARY / "spec", LIBRARY / "measure", LIBRARY / "devices")
    files = sorted(
        path for folder in folders for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts
    )
    return hash_of(*(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}" for path in files))


def judge_submission(task: ClassTask, submission: ClassSubmission, case: str, step: str) -> dict[str, Any]:
    """Judge a submission in a process of its own, and return the judgement as the command prints it.

    One that takes too long has the reason as `out_of_time`. Raise Failed if the command itself fails.
    """
    with scratch_folder() as scratch:
        file = scratch / f"submission{submission.suffix}"
        file.write_text(submission.text, encoding="utf-8")
        run = run_tool(
            task.command(file, case, step),
            limit_s=task.limit_s,
            env={**os.environ, "TMPDIR": str(scratch)},
        )
    if run.out_of_time:
        return {"out_of_time": f"its judgement on {case} did not end within {task.limit_s:g} s"}
    try:
        judgement = json.loads(run.output)
        if judgement["lab"] == task.lab.name and judgement["code"] == run.code:
            return dict(judgement)
    except (ValueError, KeyError, TypeError, RecursionError):
        pass
    raise Failed(f"{submission.name} was not judged on {case}: {run.last_words()}")


def remembered(file: Path, key: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result in a file if it was made for `key`; else make it, and write it there."""
    try:
        content = json.loads(read_regular(file, LARGEST_RESULT, follow=False))
        if content["key"] == key and isinstance(content["result"], dict):
            return dict(content["result"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    result = make()
    write_whole(file, strict_json.dumps({"key": key, "result": result}, indent=1))
    return result


def judge_class(
    task: ClassTask,
    submissions: Sequence[ClassSubmission],
    folder_of: Callable[[ClassSubmission], Path],
    report: Callable[[int, ClassSubmission, Judgements], None],
) -> dict[str, Judgements]:
    """Judge each submission on each case, and return the judgements by the key of the submission.

    folder_of: returns the folder with the results of a submission. report: is called after each submission, with its number. A
    judgement that failed has its message as `failed`, and is made again next time.
    """
    judgements: dict[str, Judgements] = {}
    for number, submission in enumerate(submissions, 1):
        results: list[Mapping[str, Any]] = []
        for case, step in task.steps:
            if submission.reason or (results and results[-1].get("code") == 2):
                break
            make = partial(judge_submission, task, submission, case, step)
            try:
                file = folder_of(submission) / f"judged-{file_name(case)}.json"
                results.append(remembered(file, task.key(submission, case, step), make))
            except Failed as error:
                results.append({"failed": str(error)})
        judgements[submission.key] = results
        report(number, submission, results)
    return judgements
