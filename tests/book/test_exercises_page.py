"""The exercises in a browser: by mouse, by keyboard, and without a script."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.readings import Speedup
from roofbook.book import exercises_page
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.spec.exercise import exercises
from roofbook.store.parquet import Store

from ..axe import Eyes
from ..often import often
from ..recorded_labs import RECORDED

ROOT = Path(__file__).parents[2]
LABS = [name for name in RECORDED if exercises(registry.get(name)).write]


@pytest.fixture(scope="module")
def parts() -> Callable[[str], tuple[str, str, str]]:
    """Return a function that draws the three sections of a lab's exercises from the rows recorded in this checkout."""
    return cache(lambda lab: exercises_page.parts(registry.get(lab), Store(project_root() / "results")))


@pytest.fixture
def page(parts: Callable[[str], tuple[str, str, str]], tmp_path: Path) -> Iterator[Any]:
    """Yield a function that writes the page of a lab as the site has it, and returns its address."""

    def write(lab: str) -> str:
        body = "\n".join(
            f"<h2>{name}</h2>\n{part}" for name, part in zip(exercises_page.PARTS, parts(lab), strict=True)
        )
        body = body.replace("../_static", f"file://{ROOT}/book/_assets")
        style = f'<link rel="stylesheet" href="file://{ROOT}/book/_assets/roofbook.css">'
        ground = """<style>  /* rules of the theme */
            body { background: var(--roofbook-ground); color: var(--roofbook-ink) }
            a { color: var(--roofbook-accent) } pre { overflow: auto }
        </style>"""
        (tmp_path / f"{lab}.html").write_text(
            f'<!doctype html><html lang="en" data-theme="light"><head><meta charset="utf-8"><title>{lab}</title>{style}'
            f'{ground}</head><body><main class="bd-article"><h1>{lab}</h1>{body}</main></body></html>'
        )
        return f"file://{tmp_path}/{lab}.html"

    yield write


@pytest.mark.parametrize("lab", often(LABS, lambda name: name == "stencil"))
def test_each_lab_has_three_exercises_with_recorded_measurements(
    lab: str, parts: Callable[[str], tuple[str, str, str]]
) -> None:
    predict, turn, write = parts(lab)
    estimate, low, high = (
        float(re.findall(rf'data-{name}="([^"]+)"', predict)[0]) for name in ("estimate", "low", "high")
    )
    assert low <= estimate <= high
    sweep = json.loads(re.findall(r'class="exercise-data">(.*?)</script>', turn)[0])
    for place in sweep["places"]:
        assert len(place["times"]) == len(place["texts"]) == len(sweep["points"]) > 2
    assert f"roofbook exercise {lab} " in write and "YOUR CODE HERE" in re.sub("<[^>]+>", "", write)
    assert (ROOT / "book" / "exercises" / f"{lab}.md").is_file()


def test_ranges_have_no_gap() -> None:
    ranges = exercises_page.ranges()
    assert ranges[0][0] == 0 and all(a[1] == b[0] for a, b in itertools.pairwise(ranges))
    assert len({words for _, _, words in ranges}) == len(ranges)


def test_a_pick_is_compared_with_the_measurement(browser: Any, page: Any) -> None:
    tab = browser.new_page()
    tab.goto(page("stencil"))
    answer, measured = tab.locator(".exercise-said"), tab.locator(".exercise[data-estimate] details")
    assert answer.inner_text() == "" and measured.get_attribute("open") is None
    tab.get_by_label("up to 1.5 times").check()
    assert answer.inner_text().startswith("More than that: measured ") and measured.get_attribute("open") is not None
    tab.get_by_label("up to 1.5 times").press("ArrowDown")
    tab.get_by_label("more than 8 times").check()
    assert answer.inner_text().startswith("Right: measured ") and "right" in answer.get_attribute("class")
    tab.close()


def test_a_knob_turns_by_keyboard_and_says_where_it_is(browser: Any, page: Any) -> None:
    tab = browser.new_page(viewport={"width": 320, "height": 700})
    tab.goto(page("stencil"))
    knob, output = tab.locator(".exercise-knob input"), tab.locator(".exercise-knob output")
    first, text = output.inner_text(), tab.locator(".exercise-bars").inner_text()
    assert knob.get_attribute("aria-valuetext").startswith(f"{first}; ")
    knob.focus()
    knob.press("ArrowRight")
    assert output.inner_text() != first and tab.locator(".exercise-bars").inner_text() != text
    knob.press("End")
    assert output.inner_text() == "1x128" and "the shortest" in tab.locator(".exercise-bars").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 320
    tab.close()


@pytest.mark.thorough
def test_the_exercises_are_about_the_device_that_was_chosen_on_a_labs_page(browser: Any, page: Any) -> None:
    context = browser.new_context()
    tab = context.new_page()
    tab.goto(page("stencil"))
    first = tab.locator(".exercise-bars span").first.inner_text()
    later = tab.locator(".exercise-bars > div > span:first-child").all_inner_texts()[1:]
    place = later[-1].rpartition(", ")[0]
    tab.evaluate("place => localStorage.setItem('roofbook-place', place)", place)
    tab.reload()
    assert tab.locator(".exercise-bars span").first.inner_text() == later[-1] != first
    assert tab.locator("legend .exercise-there").inner_text().startswith(f"{place}, ")
    tab.get_by_label("more than 8 times").check()
    row = tab.locator("tr", has=tab.get_by_text(place, exact=True)).locator("td").nth(3).inner_text()
    factor = row.partition(" [")[0]
    assert f"measured {factor} [" in tab.locator(".exercise-said").inner_text()
    assert f"{factor} [" in tab.locator(".exercise-measured").inner_text()
    tab.evaluate("localStorage.setItem('roofbook-place', 'No such device')")
    tab.reload()
    assert tab.locator(".exercise-bars span").first.inner_text() == first
    context.close()


@pytest.mark.thorough
def test_without_a_script_measurements_open_and_sweeps_are_tables(browser: Any, page: Any) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(page("stencil"))
    assert not tab.locator(".exercise-knob").is_visible() and tab.locator(".exercise-table table").is_visible()
    answer = tab.get_by_text("as fast as", exact=False).locator("visible=true")
    before = answer.count()
    tab.get_by_text("The measurement", exact=True).click()
    assert answer.count() > before
    solution = tab.locator("details", has_text="The solution").first
    assert not solution.locator("pre").is_visible()
    solution.locator("summary").click()
    assert solution.locator("pre").is_visible()
    context.close()


@pytest.mark.thorough
def test_axe_finds_nothing_and_the_console_is_empty(browser: Any, page: Any) -> None:
    tab, eyes, problems = browser.new_page(), Eyes(), list[str]()
    tab.on("pageerror", lambda error: problems.append(str(error)))
    for lab in LABS:
        tab.goto(page(lab))
        for details in tab.locator(".exercise details").all():
            details.evaluate("e => e.open = true")
        tab.locator(".exercise input[type=radio]").first.check()
        problems += [f"{lab}: {problem}" for problem in eyes.violations(tab)]
    tab.close()
    assert problems == []


def test_an_answer_names_the_number_of_its_runs() -> None:
    texts = [exercises_page._runs(Speedup(2.0, 1.9, 2.1, note, runs)) for note, runs in (
        ("", 3), ("other images", 3), ("in two runs", 2), ("across these runs, other images", 0),
    )]  # fmt: skip
    assert texts == ["in 3 runs", "in 3 runs, other images", "in two runs", "across these runs, other images"]
