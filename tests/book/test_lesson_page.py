"""The page of a lesson and its slides: each act with its figure, numbers from the store, and answers on the page alone."""

from __future__ import annotations

import re
from dataclasses import replace
from html import unescape
from pathlib import Path

import pytest

from roofbook.analysis import format as show
from roofbook.analysis.format import THIN
from roofbook.analysis.readings import faster
from roofbook.analysis.recorded import recorded
from roofbook.analysis.sentences import effect_text
from roofbook.analysis.store_devices import by_extent
from roofbook.book import lesson_page, slide_files, slides
from roofbook.book.citation import Citation
from roofbook.book.input_hashes import InputHashes
from roofbook.book.lesson_figures import LessonData, count_table, effects_of, lesson_data
from roofbook.book.manifest import Manifest
from roofbook.spec import registry
from roofbook.spec.lesson import LENGTH, Question, lesson
from roofbook.store.parquet import Store

ROOT = Path(__file__).parents[2]
LAB = registry.get("stencil")


@pytest.fixture(scope="module")
def data() -> LessonData:
    """Return the lesson of the stencil with the recorded rows."""
    described, store = lesson(LAB), Store(ROOT / "results")
    assert described
    return lesson_data(LAB, described, store, by_extent(Store(ROOT / "results", ("recorded",))))


@pytest.fixture(scope="module")
def page(data: LessonData) -> str:
    return lesson_page.page(data, ROOT, 1234)


@pytest.fixture(scope="module")
def deck(data: LessonData) -> str:
    return slides.deck(data, Citation.of(ROOT))


def plain(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def test_the_page_has_each_act_in_its_minutes_and_the_answers(data: LessonData, page: str) -> None:
    starts = re.findall(r"^## (\d+) to (\d+) min: ", page, re.M)
    assert [(int(start), int(end)) for start, end in starts] == [
        (start, start + act.minutes) for act, start in zip(data.lesson.acts, data.lesson.starts(), strict=True)
    ]
    assert starts[-1][1] == str(LENGTH)
    text = plain(page)
    for act in data.lesson.acts:
        assert act.shows in text and act.task in text and act.outcome in text
    for question in data.lesson.questions:
        assert question.answer in text
    assert page.count("<details><summary>Answer</summary>") == len(data.lesson.questions)
    assert page.count("<svg") == 2 and "(1.23 kB; print" in text.replace(THIN, " ")
    assert all(words in text for words in ("@incollection", "roofbook-stencil", "Licence: MIT"))


def test_the_effect_of_a_step_is_that_of_the_store(data: LessonData, page: str, deck: str) -> None:
    assert data.data
    step = LAB.variant("fused")
    readings = data.data.on().readings
    ratio = faster(readings["float4"], readings["fused"])
    assert ratio and effects_of(data.records, step, data.data)[0].ratio == ratio
    words = " ".join(effect_text(ratio))
    assert words in plain(page) and words in plain(deck)
    devices = {effect.data.store_device for effect in effects_of(data.records, step, data.data)}
    assert len(devices) == len(data.records) > 2


def test_a_probe_stands_below_its_question_on_each_case_or_is_not_measured(data: LessonData) -> None:
    """The step stands in for a probe: it is measured on all devices of the lab."""
    question = Question("What bounds it?", "Time the rest.", probes=("fused",))
    text = plain(lesson_page.page(replace(data, lesson=replace(data.lesson, questions=(question,))), ROOT, 1234))
    _, _, answer_text = text.partition("What bounds it?")
    for record in data.records:
        for effect in effects_of([record], LAB.variant("fused"), record):
            assert f"on {effect.case}, {record.store_device}" in answer_text
    without_rows = replace(data, records=[], data=None, lesson=replace(data.lesson, questions=(question,)))
    assert "fused : not measured yet." in plain(lesson_page.page(without_rows, ROOT, 1234))


def test_the_count_has_the_bound_of_the_device() -> None:
    """The stencil's lesson counts a pass by itself, whose bound is that of all passes times their number."""
    for lab, factor in (("lbm", 1), ("stencil", 23)):
        data = recorded(registry.get(lab), Store(ROOT / "results", ("recorded",)))[0]
        values = {row.cells[0].text: row.cells[1].text for row in count_table(data).rows}
        bound = data.bounds(data.case())["float32"]
        assert bound.roof == "memory" and values["Least time by memory"] == show.duration(factor * bound.seconds)
    assert values["Operations for each byte"] == show.number(3 / 16), "as the story counts"


def test_the_slides_have_every_task_and_question_and_no_answer(data: LessonData, deck: str) -> None:
    sections = re.findall(r'<section class="slide" id="slide-(\d+)".*?</section>', deck, re.S)
    assert [int(number) for number in sections] == list(range(1, len(sections) + 1)) and len(sections) > 12
    text = plain(deck)
    assert all(act.task in text for act in data.lesson.acts)
    assert all(question.text in text for question in data.lesson.questions)
    assert not any(question.answer in text for question in data.lesson.questions)
    assert "data-of=" not in deck and "data:text/csv" not in deck and " hidden>" not in deck
    assert "MIT" in text and not re.search(r"(?:src|href)=\"(?:https?:)?//", deck)


def test_without_records_a_lesson_has_its_texts_alone(tmp_path: Path) -> None:
    described = lesson(LAB)
    assert described
    nothing = lesson_data(LAB, described, Store(tmp_path), {})
    for name in ("_config.yml", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    page, deck = lesson_page.page(nothing, tmp_path, 10), slides.deck(nothing, Citation.of(ROOT))
    assert "Not measured on a recorded device" in page and "No run of this lab is recorded" in page
    assert "../../exercises" not in page and "for-a-course" not in page, "a book of one's own has no such pages"
    assert "<svg" not in page + deck and all(act.task in plain(deck) for act in described.acts)


def test_lessons_are_made_once_and_go_with_their_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_config.yml", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "results").mkdir()
    made: list[str] = []

    def page_of(data: LessonData, root: Path, slide_bytes: int) -> str:
        made.append(data.lab.name)
        return "# A\n"

    monkeypatch.setattr(lesson_page, "page", page_of)
    store = Store(tmp_path / "results")
    for _ in range(2):
        lesson_page.update(tmp_path, Manifest(tmp_path), InputHashes(tmp_path), store)
    assert made == registry.names()
    site = tmp_path / "site"
    slide_files.copy_slides(tmp_path / "book" / "_generated", site)
    assert {path.parent.name for path in site.glob("labs/*/slides.html")} == set(made)
    lessons = (tmp_path / "book" / "_generated" / "lessons.html").read_text(encoding="utf-8")
    assert all(f'href="labs/{name}/lesson.html"' in lessons for name in made)
    monkeypatch.setattr(lesson_page, "lesson", lambda lab: None)
    lesson_page.update(tmp_path, Manifest(tmp_path), InputHashes(tmp_path), store)
    assert not list((tmp_path / "book" / "labs").glob("*/lesson.md"))
    slide_files.copy_slides(tmp_path / "book" / "_generated", site)
    assert not list(site.glob("labs/*/slides.html"))
