"""An animation in a browser: a button and the keyboard play it, and less motion, paper and no script show a still."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from roofbook.report.animations import animations_of_lab
from roofbook.spec import registry

from ..axe import violations
from ..tabs import Tabs

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
PAGE = """<!DOCTYPE html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>A technique</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="roofbook.css">
<style>body {{ color: var(--roofbook-ink); background: var(--roofbook-ground); }} a {{ color: var(--roofbook-accent); }}</style>
</head><body><main class="bd-article"><h1>A technique</h1>{animations}</main>
<script src="figures.js"></script><script src="animations.js"></script></body></html>"""
STATES = """figure => [...figure.querySelectorAll("svg g[class]")]
    .map(part => [getComputedStyle(part).opacity, getComputedStyle(part).transform].join())"""
"""JavaScript: opacity and place of each part that moves."""
ARE_PAUSED = """document.querySelector("figure.animation svg").getAnimations({ subtree: true })
    .every(part => part.playState === "paused" && !part.pending)"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page with all animations, light and dark."""
    folder = tmp_path_factory.mktemp("animations")
    animations = "".join(
        animation.html for lab in registry.names() for animation in animations_of_lab(registry.get(lab)).values()
    )
    for name in ("roofbook.css", "figures.js", "animations.js"):
        shutil.copy(ASSETS / name, folder)
    for theme in ("light", "dark"):
        (folder / f"{theme}.html").write_text(PAGE.format(theme=theme, animations=animations), encoding="utf-8")
    return folder


@pytest.fixture
def open_page(tabs: Tabs, folder: Path) -> Any:
    def open_theme(theme: str = "light", **media: str) -> Any:
        tab = tabs.open(390, 844, **media)
        tab.goto(f"file://{folder}/{theme}.html")
        return tab

    return open_theme


def states(tab: Any) -> list[str]:
    return list(tab.locator("figure.animation").first.evaluate(STATES))


def test_a_button_plays_an_animation_and_stops_it(open_page: Any) -> None:
    tab = open_page()
    figure = tab.locator("figure.animation").first
    still = states(tab)
    tab.wait_for_timeout(200)
    assert states(tab) == still, "nothing moves by itself"
    figure.get_by_role("button", name="Play").press("Enter")
    tab.wait_for_function("document.querySelector('[aria-current]').matches(':first-child')")
    tab.wait_for_function("document.querySelector('[aria-current]').matches(':nth-child(2)')")
    assert states(tab) != still
    figure.get_by_role("button", name="Stop").click()
    tab.wait_for_function(ARE_PAUSED)  # a busy browser pauses them some frames later
    stopped = states(tab)
    tab.wait_for_timeout(200)
    assert states(tab) == stopped


def test_arrow_keys_go_through_the_stages_and_each_is_said(open_page: Any) -> None:
    tab = open_page()
    slider, captions = tab.locator("figure.animation input").first, tab.locator(".animation-stages").first.locator("li")
    last = states(tab)
    assert slider.get_attribute("aria-valuetext") == captions.last.inner_text()
    slider.press("Home")
    assert slider.get_attribute("aria-valuetext") == captions.first.inner_text()
    seen = [states(tab)]
    for _ in range(captions.count() - 1):
        slider.press("ArrowRight")
        seen.append(states(tab))
    assert seen[-1] == last and len({tuple(stage) for stage in seen}) == len(seen), "each stage shows something else"


def test_readers_who_ask_for_less_motion_get_stages_without_motion(open_page: Any) -> None:
    tab = open_page(reduced_motion="reduce")
    assert not tab.get_by_role("button", name="Play").count()
    tab.locator("figure.animation input").first.press("Home")
    first = states(tab)
    tab.locator("figure.animation").first.evaluate("figure => figure.dataset.playing = ''")
    tab.wait_for_timeout(200)
    assert states(tab) == first


def test_paper_and_a_page_without_script_show_the_last_stage(open_page: Any, browser: Any, folder: Path) -> None:
    tab = open_page()
    still = states(tab)
    tab.locator("figure.animation input").first.press("Home")
    assert states(tab) != still
    tab.emulate_media(media="print")
    parts = "[...document.querySelector('svg').querySelectorAll('g[class]')]"
    assert tab.evaluate(f"{parts}.every(part => getComputedStyle(part).animationName === 'none')")
    assert not tab.locator(".animation-controls").first.is_visible()
    without = browser.new_page(java_script_enabled=False)
    without.goto(f"file://{folder}/light.html")
    assert states(without) == still and not without.get_by_role("button").count()
    without.close()


def test_a_saved_drawing_moves_and_a_saved_picture_does_not(open_page: Any) -> None:
    tab = open_page()
    figure = tab.locator("figure.animation").first
    with tab.expect_download() as saved:
        figure.get_by_role("button", name="SVG").click()
    assert "@keyframes" in Path(saved.value.path()).read_text()
    with tab.expect_download() as saved:
        figure.get_by_role("button", name="PNG").click()
    assert Path(saved.value.path()).read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_no_problem_and_nothing_is_too_wide(open_page: Any, theme: str) -> None:
    tab = open_page(theme)
    assert violations(tab, {}) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
