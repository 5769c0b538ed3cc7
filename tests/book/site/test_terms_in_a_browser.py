"""Terms of the glossary on the built site: a click on one shows its meaning, and the search finds its entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ...often import often

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.site

TERM_IN_SIGHT = """() => {
    const term = document.querySelector("dt:target"), at = term?.getBoundingClientRect();
    const seen = term && at.top >= 0 && at.bottom <= innerHeight;
    const name = term && [...term.childNodes].filter(element => !element.matches?.(".headerlink"));
    return seen ? [name.map(element => element.textContent).join(""), term.nextElementSibling.innerText] : null;
}"""
"""JavaScript: the term that the address names, if it is in sight, and its meaning."""


@pytest.mark.parametrize("width", often([1400, 390], {390}.__contains__))
def test_a_click_on_a_term_shows_its_meaning(browser: Any, served_site: str, width: int) -> None:
    """Click from the first page to a lab, then on the first use of a term."""
    tab = browser.new_page(viewport={"width": width, "height": 900})
    for lab, word, term in (
        ("Sparse convolution", "ridge point", "ridge point"),
        ("Sparse convolution", "occupancy", "occupancy"),
        ("Convolution layer", "Tensor cores", "tensor core"),
    ):
        tab.goto(f"{served_site}/index.html")
        if width < 992:
            tab.click("button.primary-toggle:visible")
        tab.click(f".bd-links a:text('{lab}')")
        tab.click(f"article a:has(.std-term:text-is('{word}')):visible >> nth=0")
        tab.wait_for_function(TERM_IN_SIGHT)
        name, meaning = tab.evaluate(TERM_IN_SIGHT)
        assert name == term and len(meaning) > 40
    tab.close()


@pytest.mark.parametrize(
    ("words", "term"),
    often(
        [
            ("bank conflict", "bank conflict"),
            ("bank conflicts", "bank conflict"),
            ("warp", "warp"),
            ("coalesced", "coalescing"),
            ("Ridge point", "ridge point"),
            ("work-group", "work-group"),
            ("occupancy", "occupancy"),
            ("tensor cores", "tensor core"),
        ],
        lambda row: row[0] in ("coalesced", "bank conflicts"),
    ),
)
@pytest.mark.thorough
def test_a_search_for_a_term_leads_to_its_entry(browser: Any, served_site: str, words: str, term: str) -> None:
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto(f"{served_site}/index.html")
    tab.keyboard.press("Control+K")
    tab.keyboard.type(words)
    tab.keyboard.press("Enter")
    tab.click("#search-results li a >> nth=0")
    tab.wait_for_function(TERM_IN_SIGHT)
    assert tab.evaluate(TERM_IN_SIGHT)[0] == term
    tab.close()


@pytest.mark.thorough
def test_no_section_of_the_book_links_a_term_twice_and_none_in_headings_or_code(browser: Any, served_site: str) -> None:
    """A folded part of a section is read alone, so it may link a term that another part of the section links."""
    tab = browser.new_page()
    link_count = 0
    for page in (
        "index",
        "method",
        "your-device",
        *(f"labs/{notebook.stem}" for notebook in (ROOT / "experiments").glob("[!p]*")),
    ):
        tab.goto(f"{served_site}/{page}.html")
        term_links = tab.evaluate("""() => {
            const parts = [...document.querySelectorAll("article section, article details")]
            return [...document.querySelectorAll("article a:has(.std-term)")].map(element => [
                parts.indexOf(element.closest("section, details")), element.hash,
                !!element.closest("h1, h2, h3, pre, code, table, dt")])
        }""")
        link_count += len(term_links)
        assert len({tuple(link) for link in term_links}) == len(term_links), page
        assert not any(misplaced for *_, misplaced in term_links), page
    tab.close()
    assert link_count > 100
