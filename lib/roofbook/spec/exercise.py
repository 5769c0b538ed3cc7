"""The exercises of a lab: a factor to predict, a knob to turn, a kernel to write. Serves `roofbook exercise` and the book.

A lab has them in `exercises.py` of its folder, as EXERCISES; one without that file has none. Nothing here is a number that
was measured: those come from the store. The kernel with a hole is cut out of the step's own text, so that there is no second
copy to keep in step.
"""

import importlib
import inspect
import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from ..devices.contract import BuildFailed
from ..errors import one_of
from .lab import SCALES
from .source import Knob, Source, stranger_text

if TYPE_CHECKING:
    from .lab import Case, Lab

HOLE = "YOUR CODE HERE"
"""What stands in place of the lines that are cut out."""


@dataclass(frozen=True)
class Predict:
    """How many times as fast is `step` as `against`? The reader picks a range, then sees the measurement."""

    step: str
    against: str
    why: str
    """One sentence that explains the measurement, without a number in it."""
    case: str | None = None
    """By default the largest."""


@dataclass(frozen=True)
class Turn:
    """Which point of a stored sweep is the fastest? The reader turns the knob."""

    axis: str
    task: str
    why: str
    case: str | None = None
    at: str = ""
    """A pattern that the points must match, of a sweep that has more than a slider should; all without it."""


@dataclass(frozen=True)
class Write:
    """A step's kernel with a hole.

    `cut` are words of the first and of the last line of the hole, each of one line alone; without words for the last, the hole
    ends with the block that the first line opens.
    """

    name: str
    step: str
    task: str
    hint: str
    cut: tuple[str, str]
    known: tuple[str, ...] = ()
    """The knobs that stay names in the text: what the plan sets by the case, such as a width."""
    cases: tuple[str, ...] = ()
    """Small and awkward sizes that an answer is checked on."""
    timed: str | None = None
    """The case on which a right answer is timed beside the step; by default the first quick one."""


@dataclass(frozen=True)
class Exercises:
    """Those of one lab."""

    predict: tuple[Predict, ...] = ()
    turn: tuple[Turn, ...] = ()
    write: tuple[Write, ...] = ()

    def named(self, lab: str, name: str) -> Write:
        """The kernel to write of that name. Errors: UsageError where there is none."""
        for each in self.write:
            if each.name == name:
                return each
        raise one_of(f"exercise of {lab}", name, [each.name for each in self.write])


@lru_cache
def exercises(lab: "Lab") -> Exercises:
    """Those of a lab."""
    if not Path(inspect.getfile(type(lab))).with_name("exercises.py").is_file():
        return Exercises()
    found: Exercises = importlib.import_module(f"{lab.package}.exercises").EXERCISES
    return found


def solution(lab: "Lab", exercise: Write) -> str:
    """The step's own kernel in the dialect, as one text; the `known` knobs are names in it, and a head says what they are."""
    step = lab.variant(exercise.step)
    assert step.source is not None
    text = step.source.with_knobs(**{name: f"known_{name}" for name in exercise.known}).resolve().replace("known_", "")
    text = re.sub(r"^//[^\n]*\n", "", text, flags=re.M)  # of headers, whose code is elsewhere now
    meant = step.source.documented()
    head = [f"Exercise {exercise.name} of the lab {lab.name}. {exercise.task}"]
    said = {name: meant.get(name, "a size").partition(". ")[0] for name in exercise.known}
    head += [f"{name}, known when it is compiled: {words}" for name, words in said.items()]
    lines = [f"// {line}" for each in head for line in _filled(each)]
    return "\n".join(lines) + "\n\n" + re.sub(r"\n{2,}", "\n\n", text).strip() + "\n"


def holed(lab: "Lab", exercise: Write) -> str:
    """The solution with the hole in it. ValueError where `cut` names no line, or several."""
    lines = solution(lab, exercise).splitlines()
    first, last = _hole(lines, exercise)
    indent = " " * (len(lines[first]) - len(lines[first].lstrip()))
    said = [f"{indent}// {line}" for line in (f"{HOLE}:", *_filled(exercise.hint))]
    return "\n".join([*lines[:first], *said, *lines[last + 1 :]]) + "\n"


def missing_lines(lab: "Lab", exercise: Write) -> str:
    """What was cut out: the solution's lines in the hole."""
    lines = solution(lab, exercise).splitlines()
    first, last = _hole(lines, exercise)
    return "\n".join(lines[first : last + 1]) + "\n"


def case_of(lab: "Lab", name: str) -> "Case":
    """A case of `Write.cases`: of the first scale that lists it, else of any size that the lab takes."""
    listed = (case for scale in SCALES for case in lab.cases(scale) if case.name == name)
    return next(listed, None) or lab.case(name, "test")


def _hole(lines: list[str], exercise: Write) -> tuple[int, int]:
    """The first and the last line of the hole. ValueError where `cut` does not say."""
    begin, end = exercise.cut
    first = _line_of(lines, begin, exercise.name)
    if not end:
        depth = 0
        for last, line in enumerate(lines[first:], first):
            depth += line.count("{") - line.count("}")
            if not depth:
                return first, last
    last = _line_of(lines, end, exercise.name)
    if last < first:
        raise ValueError(f"exercise {exercise.name}: the hole ends before it begins")
    return first, last


def _line_of(lines: list[str], words: str, name: str) -> int:
    found = [at for at, line in enumerate(lines) if words in line]
    if len(found) != 1:
        raise ValueError(f"exercise {name}: {words!r} stands in {len(found)} lines, not in one")
    return found[0]


def _filled(text: str, most: int = 78) -> list[str]:
    import textwrap

    return textwrap.wrap(text, most)


@dataclass(frozen=True)
class Answer(Source):
    """A step's source whose text is a reader's: the host drives it as it drives the step, by the same knobs."""

    text: Path = field(default=Path())
    known: tuple[str, ...] = ()

    @classmethod
    def to(cls, exercise: Write, step: Source, text: Path) -> "Answer":
        """The reader's `text` in place of the kernel of `step`."""
        return cls(step.path, step.knobs, text, exercise.known)

    def with_knobs(self, **knobs: Knob) -> "Answer":
        return replace(self, knobs=super().with_knobs(**knobs).knobs)

    def render(self, dialect: str) -> str:
        """Return the reader's text in a plain language. Raises BuildFailed for a text that cannot be expanded."""
        now = self.settings
        given = tuple(sorted((name, now[name]) for name in self.known if name in now))
        try:
            return stranger_text(self.text, given, dialect, self.path.parent)
        except Exception as error:  # whatever the preprocessor makes of a text that is none
            raise BuildFailed(" ".join(str(error).split()) or type(error).__name__) from error
