"""The lessons of the labs: as long as a lesson, about steps that exist, and without a number that a measurement gives."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.lesson import ANSWER, FIGURES, LENGTH, Lesson, lesson


def lessons() -> Iterator[tuple[Lab, Lesson]]:
    for lab in map(registry.get, registry.names()):
        described = lesson(lab)
        assert described, f"{lab.name} has no lesson"
        yield lab, described


LESSONS = [pytest.param(lab, described, id=lab.name) for lab, described in lessons()]


@pytest.mark.parametrize(("lab", "described"), LESSONS)
def test_a_lesson_has_its_minutes_and_is_about_steps_of_the_lab(lab: Lab, described: Lesson) -> None:
    assert sum(act.minutes for act in described.acts) == LENGTH and all(act.minutes > 2 for act in described.acts)
    assert described.starts()[0] == 0 and described.starts()[-1] == LENGTH - described.acts[-1].minutes
    steps = [act.step for act in described.acts if act.step]
    assert len(set(steps)) == len(steps) >= 3
    probes = [probe for question in described.questions for probe in question.probes]
    assert all(lab.variant(name).role == "probe" for name in probes)
    for name in [*steps, *probes, *(question.step for question in described.questions if question.step)]:
        assert lab.variant(name).parent, f"{name} changes no other step, so there is nothing to predict"
    assert {figure for act in described.acts for figure in act.figures} == set(FIGURES)
    assert ANSWER in described.acts[-1].figures
    assert len(described.questions) >= 4 and len(described.aims) >= 3


@pytest.mark.parametrize(("lab", "described"), LESSONS)
def test_no_number_is_typed_into_a_lesson(lab: Lab, described: Lesson) -> None:
    texts = [text for act in described.acts for text in (act.title, act.shows, act.task, act.outcome)]
    texts += [text for question in described.questions for text in (question.text, question.answer)]
    assert not [text for text in texts if re.search(r"\d", re.sub(r"`[^`]*`", "", text))]


def test_a_lab_without_a_lesson_has_none() -> None:
    assert lesson(registry.get(registry.PEAKS)) is None
