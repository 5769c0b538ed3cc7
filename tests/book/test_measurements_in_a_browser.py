"""The page of a lab's measurements in a browser: fifty at a time, searched, by keyboard, on a phone, and without JavaScript."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.recorded import recorded
from roofbook.book import card_links, measurements
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..axe import violations
from ..report.rows import even
from ..tabs import Tabs

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
LAB = registry.get("lbm")
CASES = ("128x128", "128x256", "256x256", "1024x1024")
SIZE = 50
PAGE = Path("labs") / "lbm" / "measurements" / "gpu.html"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write the page of 68 measurements: 17 steps of the ladder on each case."""
    folder = tmp_path_factory.mktemp("site")
    steps = [variant for variant in LAB.ladder if variant.source and variant.role == "step"][:17]
    rows = [
        even(
            step.name,
            1e-4,
            step.parent,
            case=case,
            scale="published",
            source_sha256=step.text.sha256,
            cell_key="c",
            env_key="e",
        )
        for case in CASES
        for step in steps
    ]
    store = Store(folder / "results")
    store.append(rows, "recorded")
    (data,) = recorded(LAB, store)
    measurements.draw_recorded(folder, data, "gpu", "A GPU", store)
    card_links.copy_cards(folder, folder, "")
    (folder / "_static").mkdir()
    for name in ("measurements.js", "card.css", "roofbook.css"):
        shutil.copy(ASSETS / name, folder / "_static")
    return folder


@pytest.fixture
def tab(tabs: Tabs, site: Path) -> Any:
    """Return a tab with the page; fail on any error of its script."""
    opened = tabs.open(1400, 900)
    opened.goto(f"file://{site}/{PAGE}")
    return opened


def shown(tab: Any) -> list[str]:
    """Return the ids of the measurements in sight."""
    ids: list[str] = tab.eval_on_selector_all("section.measured:not([hidden])", "all => all.map(card => card.id)")
    return ids


def status(tab: Any) -> str:
    text: str = tab.inner_text(".pager [role=status]")
    return text


def test_fifty_are_shown_and_the_keyboard_goes_to_the_second_page_and_back(tab: Any) -> None:
    total = tab.locator("section.measured").count()
    first = shown(tab)
    assert (len(first), total, status(tab)) == (SIZE, 68, "1 to 50 of 68")
    before, after = (tab.get_by_role("button", name=f"{word} {SIZE}") for word in ("Previous", "Next"))
    assert before.is_disabled()
    after.press("Enter")
    second = shown(tab)
    assert len(second) == total - SIZE and not set(first) & set(second) and status(tab) == "51 to 68 of 68"
    assert after.is_disabled() and not before.is_disabled()
    before.press("Enter")
    assert shown(tab) == first


def test_the_search_finds_all_words_on_any_page(tab: Any) -> None:
    field = tab.get_by_role("searchbox", name="Search the measurements")
    field.fill("SOA 1024")
    found = shown(tab)
    assert "soa~1024x1024" in found and len(found) < 5, "that step, and steps whose text names it"
    assert all(name.endswith("~1024x1024") for name in found) and status(tab) == f"1 to {len(found)} of {len(found)}"
    field.fill("128x")
    assert status(tab) == "1 to 34 of 34" and all("~128x" in name for name in shown(tab))
    field.fill("no such step")
    assert shown(tab) == [] and status(tab) == "None of them has these words."
    field.fill("")
    assert len(shown(tab)) == SIZE


def test_a_link_shows_the_page_of_its_measurement_also_after_a_search(tab: Any) -> None:
    tab.get_by_role("searchbox").fill("soa")
    last = tab.eval_on_selector_all("section.measured", "all => all.at(-1).id")
    tab.evaluate("id => { location.hash = encodeURIComponent(id); }", last)
    tab.wait_for_function("document.querySelector('.pager [role=status]').textContent.startsWith('51')")
    assert last in shown(tab) and tab.locator(f'[id="{last}"]').is_visible()
    assert tab.get_by_role("searchbox").input_value() == ""


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.thorough)])
def test_a_phone_has_room_and_axe_finds_no_problem(browser: Any, site: Path, scheme: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(f"file://{site}/{PAGE}")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.get_by_role("button", name=f"Next {SIZE}").click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390 and len(shown(tab)) == 18
    assert violations(tab, {}) == []
    context.close()


def test_without_javascript_all_are_there(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"file://{site}/{PAGE}")
    assert tab.locator("section.measured").count() == 68 and tab.locator(".pager").count() == 0
    assert tab.locator("section.measured").last.is_visible()
    context.close()
