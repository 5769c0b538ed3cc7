"""The lesson of a lab: acts of a class, in minutes, and questions with answers. Serves the book's lessons and slides.

A lab has its lesson in the file `lesson.py` of its folder, as LESSON. Measured numbers come from the store, never from here.
"""

import importlib
import inspect
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from .lab import Lab, Work
    from .plan import Case

LENGTH = 50
"""Minutes of a lesson."""
COUNT, LADDER, ROOFLINE, ANSWER = FIGURES = ("count", "ladder", "roofline", "answer")
"""Figures of an act: the counted work beside the measured peaks, the ladder as a descent, the roofline, the lab's answer."""


@dataclass(frozen=True)
class Act:
    """A part of a lesson. Texts may have code in backquotes."""

    minutes: int
    title: str
    shows: str
    """Words for the teacher: the thing to show, and its meaning."""
    task: str
    """Task of the students, to predict or to do, as it stands on a slide."""
    outcome: str
    """Explanation after the figure, without a number that a measurement gives."""
    code: str = ""
    """Lines of code that the teacher shows first, for an act about a program rather than a step."""
    figures: tuple[str, ...] = ()
    """Names out of FIGURES, shown after the task."""
    step: str = ""
    """The step whose effect over its parent the students predict; '' for an act without one."""


LAST_ACT = Act(
    5,
    "Answer and questions",
    "Read the computed answer together, and compare it with the predictions on paper.",
    "Answer one of these questions on a slip of paper, and hand it in.",
    "Collect the slips. The next lesson can start with the answer that most got wrong.",
    figures=(ANSWER,),
)
"""The end of most lessons."""


@dataclass(frozen=True)
class Question:
    """A question for the end of a lesson, or for homework."""

    text: str
    answer: str
    step: str = ""
    """Step whose measured effect over its parent follows the answer; '' for none."""
    probes: tuple[str, ...] = ()
    """Probes whose measured effects over their parents, on each device and case, follow the answer."""


@dataclass(frozen=True)
class Lesson:
    """A lesson of LENGTH minutes."""

    aims: tuple[str, ...]
    """Skills of students afterwards, each a phrase that follows `can`."""
    needs: str
    """Knowledge that students should have beforehand, a phrase."""
    acts: tuple[Act, ...]
    questions: tuple[Question, ...]
    work: "Callable[[Case], Work] | None" = None
    """Least work of one unit of the program that the class counts; None if that is `Lab.work`, the least of the problem."""

    def starts(self) -> list[int]:
        """Return the minute at which each act begins."""
        return [sum(act.minutes for act in self.acts[:number]) for number in range(len(self.acts))]


@lru_cache
def lesson(lab: "Lab") -> Lesson | None:
    """Return the lesson of a lab; None if it has none."""
    if not Path(inspect.getfile(type(lab))).with_name("lesson.py").is_file():
        return None
    lesson_of_lab: Lesson = importlib.import_module(f"{lab.package}.lesson").LESSON
    return lesson_of_lab
