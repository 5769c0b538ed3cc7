"""The exercises of a lab: a factor to predict, a knob to turn, a kernel to write. Serves `roofbook exercise` and the book.

A lab has its exercises in the file `exercises.py` of its folder, as EXERCISES; those of a `KernelLab` without it follow from
its ladder. Measured numbers come from the store, never from here. The kernel with a hole is cut out of the step's own text, so
there is no second text to keep equal.
"""

import importlib
import inspect
import re
import textwrap
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..devices.contract import BuildFailed
from ..errors import one_of
from .kernel_lab import KernelLab
from .kernel_launch import size_knobs
from .plan import SCALES
from .source import Source, stranger_text

if TYPE_CHECKING:
    from .lab import Lab
    from .plan import Case

WIDTH = 78
"""Most characters in a line of a comment."""
HOLE = "YOUR CODE HERE"
"""Comment in place of the lines that are cut out."""
BODY = "{...}"
"""Second part of `Write.cut` for a hole that is the body of the function whose head has the first part."""


@dataclass(frozen=True)
class Predict:
    """A factor to predict: how many times as fast is `step` as `against`? The reader picks a range, then sees the answer."""

    step: str
    against: str
    explanation: str
    """One sentence that explains the measurement, without a number in it."""
    case: str | None = None
    """Name of the case; by default the largest."""


@dataclass(frozen=True)
class Turn:
    """A knob to turn: which point of a stored sweep is the fastest?"""

    axis: str
    """Axis of the sweep."""
    task: str
    explanation: str
    """One sentence that explains the measurement, without a number in it."""
    case: str | None = None
    at: str = ""
    """Regular expression of the points on the slider, if the sweep has too many for one; '' for all points."""


@dataclass(frozen=True)
class Write:
    """A kernel to write: a step's kernel with a hole."""

    name: str
    step: str
    """Name of the step."""
    task: str
    hint: str
    """Comment in the hole."""
    cut: tuple[str, str]
    """Words that only the first line of the hole has, and words that only its last line has. If the latter are '', the hole
    ends with the block that the first line opens. If they are BODY, the first line is the head of a function."""
    plan_knobs: tuple[str, ...] = ()
    """Knobs that the plan sets by the case, such as a width: they stay names in the text."""
    cases: tuple[str, ...] = ()
    """Names of small cases of awkward sizes on which an answer is checked."""
    timed: str | None = None
    """Name of the case on which a right answer is timed together with the step; by default the first quick one."""


@dataclass(frozen=True)
class Exercises:
    """The exercises of one lab."""

    predict: tuple[Predict, ...] = ()
    turn: tuple[Turn, ...] = ()
    write: tuple[Write, ...] = ()

    def named(self, lab: str, name: str) -> Write:
        """Return the kernel to write of a name. Raise UsageError if there is none. lab: its name, for the message."""
        for exercise in self.write:
            if exercise.name == name:
                return exercise
        raise one_of(f"exercise of {lab}", name, [exercise.name for exercise in self.write])


@lru_cache
def exercises(lab: "Lab") -> Exercises:
    """Return the exercises of a lab: those of its `exercises.py`, else those that a `KernelLab` has by its ladder."""
    if not Path(inspect.getfile(type(lab))).with_name("exercises.py").is_file():
        return _by_ladder(lab) if isinstance(lab, KernelLab) else Exercises()
    of_lab: Exercises = importlib.import_module(f"{lab.package}.exercises").EXERCISES
    return of_lab


def _by_ladder(lab: KernelLab) -> Exercises:
    """Return exercises without words of their own: each step to predict, each sweep to turn, the best step to write."""
    best = lab.variant(lab.best)
    head = f"void {best.options['launch'].kernel}("
    predict = [Predict(step.name, step.parent, step.expect) for step in lab.ladder if step.parent]
    turn = [Turn(sweep.axis, sweep.question, best.expect) for sweep in lab.sweeps if 2 < len(sweep.variants) < 40]
    write = Write(
        best.name, best.name, best.change, best.expect, (head, BODY),
        tuple(size_knobs(best.text, lab.cases("test")[0])), lab.awkward,
    )  # fmt: skip
    return Exercises(tuple(predict), tuple(turn), (write,) if best.text.resolve().count(head) == 1 else ())


def solution(lab: "Lab", exercise: Write) -> str:
    """Return the step's kernel in the dialect as one text. Its head has the task, and a line for each of `plan_knobs`."""
    step = lab.variant(exercise.step)
    assert step.source is not None
    names = exercise.plan_knobs
    text = step.source.with_knobs(**{name: f"known_{name}" for name in names}).resolve().replace("known_", "")
    text = re.sub(r"^//[^\n]*\n", "", text, flags=re.M)  # comments of headers, whose code has moved
    descriptions = step.source.documented()
    paragraphs = [f"Exercise {exercise.name} of the lab {lab.name}. {exercise.task}"]
    paragraphs += [
        f"{name}, known when it is compiled: {descriptions.get(name, 'a size').partition('. ')[0]}"
        for name in dict.fromkeys(names)
    ]
    lines = [f"// {line}" for paragraph in paragraphs for line in textwrap.wrap(paragraph, WIDTH)]
    return "\n".join(lines) + "\n\n" + re.sub(r"\n{2,}", "\n\n", text).strip() + "\n"


def holed(lab: "Lab", exercise: Write) -> str:
    """Return the solution with the hole in it. Raise ValueError if `cut` names no line, or several."""
    lines = solution(lab, exercise).splitlines()
    first, last = _hole(lines, exercise)
    indent = " " * (len(lines[first]) - len(lines[first].lstrip()))
    comment = [f"{indent}// {line}" for line in (f"{HOLE}:", *textwrap.wrap(exercise.hint, WIDTH))]
    return "\n".join([*lines[:first], *comment, *lines[last + 1 :]]) + "\n"


def marked(lab: "Lab", exercise: Write, begin: str, end: str) -> str:
    """Return the solution with a line before its hole and a line after it."""
    lines = solution(lab, exercise).splitlines()
    first, last = _hole(lines, exercise)
    return "\n".join([*lines[:first], begin, *lines[first : last + 1], end, *lines[last + 1 :]]) + "\n"


def missing_lines(lab: "Lab", exercise: Write) -> str:
    """Return the lines of the solution that were cut out."""
    lines = solution(lab, exercise).splitlines()
    first, last = _hole(lines, exercise)
    return "\n".join(lines[first : last + 1]) + "\n"


def case_of(lab: "Lab", name: str) -> "Case":
    """Return the case of a name in `Write.cases`: of the first scale that lists it, otherwise by `Lab.case`."""
    listed = (case for scale in SCALES for case in lab.cases(scale) if case.name == name)
    return next(listed, None) or lab.case(name, "test")


def _hole(lines: list[str], exercise: Write) -> tuple[int, int]:
    """Return the indices of the first and the last line of the hole. Raise ValueError if `cut` does not name one of each."""
    begin, end = exercise.cut
    first = _line_of(lines, begin, exercise.name)
    if end in ("", BODY):
        opened = next(number for number, line in enumerate(lines[first:], first) if end == "" or "{" in line)
        depth = 0
        for last, line in enumerate(lines[opened:], opened):
            depth += line.count("{") - line.count("}")
            if not depth:
                return (opened + 1, last - 1) if end == BODY else (first, last)
    last = _line_of(lines, end, exercise.name)
    if last < first:
        raise ValueError(f"exercise {exercise.name}: the hole ends before it begins")
    return first, last


def _line_of(lines: list[str], words: str, name: str) -> int:
    """Return the index of the only line that has some words. name: of the exercise, for the message."""
    indices = [index for index, line in enumerate(lines) if words in line]
    if len(indices) != 1:
        raise ValueError(f"exercise {name}: {words!r} stands in {len(indices)} lines; it must be in one")
    return indices[0]


@dataclass(frozen=True)
class Answer(Source):
    """A reader's text in place of a step's kernel: the plan of the step drives it, with the step's knobs."""

    text: Path = field(default=Path())
    """File with the reader's text."""
    plan_knobs: tuple[str, ...] = ()
    """Knobs of `Write.plan_knobs`, which the text may use."""

    @classmethod
    def to(cls, exercise: Write, step: Source, text: Path) -> "Answer":
        """Return the source with the reader's `text` in place of the kernel of `step`."""
        return cls(step.path, step.knobs, text=text, plan_knobs=exercise.plan_knobs)

    def render(self, dialect: str) -> str:
        """Return the reader's text in a plain language. Raise BuildFailed for a text that cannot be expanded."""
        settings = self.settings
        knobs = tuple(sorted((name, settings[name]) for name in self.plan_knobs if name in settings))
        try:
            return stranger_text(self.text, knobs, dialect, self.path.parent)
        except Exception as error:  # a text that is no kernel can raise anything in the preprocessor
            raise BuildFailed(" ".join(str(error).split()) or type(error).__name__) from error
