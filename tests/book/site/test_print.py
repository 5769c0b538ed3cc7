"""Every kind of page on paper: nothing to press, no bar of the theme, light colours, and nothing wider than a sheet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ...tabs import Tabs
from ..test_print import SHEET

pytestmark = pytest.mark.site
PAGES = {
    "front": "index.html",
    "story": "labs/stencil.html",
    "results": "labs/stencil/results.html",
    "kernels": "labs/stencil/kernels.html",
    "technique": "techniques/staging.html",
    "measurements": "labs/stencil/measurements/nvidia-h200.cuda.html",
    "my GPU": "my-gpu.html",
    "lesson": "labs/stencil/lesson.html",
    "exercises": "exercises/stencil.html",
    "method": "method.html",
}
NOT_ON_PAPER = (
    "button, .bd-sidebar, .bd-header, .lab-pages, .on-this-page, .headerlink, a.csv, input[type=range], .pick-line"
)
TOO_WIDE = """limit => [...document.querySelectorAll("h1, h2, p, li, td, th, pre, svg")].filter((part) => {
  const { width, right } = part.getBoundingClientRect();
  return width && right > limit && !part.closest("svg svg, .sr-only");
}).map((part) => part.outerHTML.slice(0, 120)).slice(0, 3)"""
"""JavaScript function that returns the first parts of a page that are wider than a limit."""
ROOM = 2
"""CSS pixels that rounding may add to a width."""


@pytest.fixture
def tab(tabs: Tabs) -> Any:
    """Return a tab as wide as a sheet between its margins, for a reader whose system is dark."""
    return tabs.open(SHEET, 1000, color_scheme="dark")


def printed(tab: Any, path: Path) -> None:
    """Open a page and lay it out for paper."""
    tab.goto(path.as_uri())
    tab.wait_for_load_state("load")
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")


@pytest.mark.parametrize("kind", PAGES)
def test_paper_has_the_content_alone(tab: Any, built_site: Path, kind: str) -> None:
    printed(tab, built_site / PAGES[kind])
    visible = tab.locator(NOT_ON_PAPER).locator("visible=true")
    if kind == "my GPU":  # its form says which GPU the numbers are of
        visible = tab.locator(NOT_ON_PAPER.removesuffix(", .pick-line")).locator("visible=true")
    assert [element.evaluate("element => element.outerHTML.slice(0, 120)") for element in visible.all()] == []
    assert tab.locator("h1:visible").count() == 1
    assert not tab.evaluate(TOO_WIDE, SHEET + ROOM)
    ink = tab.evaluate("getComputedStyle(document.body).color.match(/\\d+/g).map(Number)")
    assert max(ink) < 100, "dark letters"


def test_a_lesson_has_its_answers_on_paper_and_an_exercise_has_none(tab: Any, built_site: Path) -> None:
    printed(tab, built_site / PAGES["lesson"])
    answers = tab.locator(".lesson-questions details > p").locator("visible=true")
    assert answers.count() >= tab.locator(".lesson-questions > li").count() > 3
    assert tab.evaluate("getComputedStyle(document.querySelector('.step-bars')).printColorAdjust") == "exact"
    printed(tab, built_site / PAGES["exercises"])
    assert tab.locator(".exercise").count() > 2
    assert tab.locator(".exercise details:not(.exercise-kernel)").locator("visible=true").count() == 0
