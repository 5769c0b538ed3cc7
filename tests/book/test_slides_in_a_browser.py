"""Slides of a lesson in a browser: one a screen by keys and buttons, one a sheet on paper, and nothing cut off."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.store_devices import by_extent
from roofbook.book import slides
from roofbook.book.citation import Citation
from roofbook.book.lesson_figures import lesson_data
from roofbook.spec import registry
from roofbook.spec.lesson import lesson
from roofbook.store.parquet import Store

from ..often import often
from ..tabs import Tabs

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "book" / "_assets"
Open = Callable[[str], Any]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a site with the assets of slides; the style sheet of the book stands for that of the site."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "_static").mkdir()
    for name, copied in (("slides.css",) * 2, ("slides.js",) * 2, ("roofbook.css", "site.css")):
        shutil.copy(ASSETS / name, folder / "_static" / copied)
    return folder


@pytest.fixture
def open_deck(tabs: Tabs, site: Path) -> Open:
    """Return a function that opens the slides of a lab, on a screen."""

    def open_slides(lab: str) -> Any:
        path = site / "labs" / lab / "slides.html"
        if not path.exists():
            described, store = lesson(registry.get(lab)), Store(ROOT / "results")
            assert described
            data = lesson_data(registry.get(lab), described, store, by_extent(Store(ROOT / "results", ("recorded",))))
            path.parent.mkdir(parents=True)
            path.write_text(slides.deck(data, Citation.of(ROOT)), encoding="utf-8")
        tab = tabs.open(reduced_motion="reduce")
        tab.goto(path.as_uri())
        return tab

    return open_slides


CUT_OFF = """() => [...document.querySelectorAll(".slide")].filter((slide) => {
  const { right, bottom } = slide.getBoundingClientRect();
  return [...slide.querySelectorAll("p, li, tr, pre, svg, figcaption")].some((part) => {
    const box = part.getBoundingClientRect();
    return box.height && (box.bottom > bottom + 1 || box.right > right + 1);
  });
}).map((slide) => slide.id)"""
"""JavaScript function that returns the ids of slides with a part outside."""


@pytest.mark.parametrize("lab", often(registry.names(), {"stencil", "cnn"}.__contains__))
def test_each_slide_is_a_sheet_of_the_pdf_and_nothing_is_cut_off(open_deck: Open, lab: str, tmp_path: Path) -> None:
    tab = open_deck(lab)
    count = tab.locator(".slide").count()
    tab.emulate_media(media="print")
    assert not tab.evaluate(CUT_OFF)
    assert tab.locator("nav:visible, button:visible").count() == 0
    tab.pdf(path=tmp_path / "slides.pdf", prefer_css_page_size=True, print_background=True)
    pdf = (tmp_path / "slides.pdf").read_bytes()
    assert len(re.findall(rb"/Type\s*/Page\b", pdf)) == count
    sides = {tuple(map(float, box.split())) for box in re.findall(rb"/MediaBox\s*\[([^]]*)\]", pdf)}
    assert all(width > 1.7 * height for _, _, width, height in sides), "as wide as a screen"


def test_a_part_that_is_cut_off_is_found(open_deck: Open) -> None:
    tab = open_deck("stencil")
    tab.emulate_media(media="print")
    tab.evaluate("document.querySelector('#slide-3 h2').insertAdjacentHTML('afterend', '<p>line</p>'.repeat(40))")
    assert tab.evaluate(CUT_OFF) == ["slide-3"]


def at_top(tab: Any, number: int) -> None:
    """Wait until a slide fills the window."""
    tab.wait_for_function(
        "id => Math.abs(document.getElementById(id).getBoundingClientRect().top) < 2",
        arg=f"slide-{number}",
        timeout=300_000,
    )


def test_keys_and_buttons_go_from_slide_to_slide(open_deck: Open) -> None:
    tab = open_deck("stencil")
    last = tab.locator(".slide").count()
    for key, number in (("ArrowRight", 2), (" ", 3), ("PageUp", 2), ("End", last), ("ArrowDown", last), ("Home", 1)):
        tab.keyboard.press(key)
        at_top(tab, number)
    tab.click("text=Next")
    at_top(tab, 2)
    assert tab.url.endswith("#slide-2"), "the address leads to the slide"
    tab.click("text=Back")
    at_top(tab, 1)


def test_on_a_phone_slides_are_no_wider_than_the_screen(open_deck: Open) -> None:
    tab = open_deck("stencil")
    tab.set_viewport_size({"width": 390, "height": 844})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
