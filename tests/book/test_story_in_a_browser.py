"""The answer and the steps of a story in a browser: on a phone and a desktop, in light and dark, on several cases."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.answers import answer as answered
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Bound
from roofbook.book.page_html import on_site
from roofbook.report import answer, opening
from roofbook.report.steps import StepFold, step
from roofbook.spec import changed_lines, registry
from roofbook.spec.prediction import FASTER, SAME

from ..axe import violations
from ..often import often
from ..report.rows import even, frame
from ..tabs import Tabs

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
LAB = registry.get("lbm")
CASES = ("128x128", "1024x1024")
PAGE = """<!DOCTYPE html><html lang="en" data-theme="{scheme}"><head><meta charset="utf-8"><title>A lab</title>
<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="roofbook.css">
<style>body {{ color: var(--roofbook-ink); background: var(--roofbook-ground); }} a {{ color: var(--roofbook-accent); }}</style>
</head>
<body><main class="bd-article" style="max-width: 52rem; margin: auto"><h1>A lab</h1>{opening}<h2>The answer</h2>{answer}
<h2>Steps</h2>{steps}</main><script src="story.js"></script></body></html>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page in two themes, with the answer on two cases, a confirmed step and a refuted one; return its folder."""
    folder = tmp_path_factory.mktemp("site")
    times = {"no-finish": 4e-4, "fused": 2e-4, "soa": 2.5e-4}
    rows = frame(
        *(even(name, time, LAB.variant(name).parent, case=case) for case in CASES for name, time in times.items()),
        *(even(name, 3e-4, case=case, role="peer") for case in CASES for name in ("lbmpy", "lbmpy-bare")),
    )
    order, changes = [*times, "lbmpy", "lbmpy-bare"], {variant.name: variant.change for variant in LAB.all_variants()}
    data_by_case = [
        CaseData(rows, order, case, bounds={"float32": Bound(1e-4, "memory")}, changes=changes) for case in CASES
    ]
    predictions = {"128x128": FASTER, "1024x1024": SAME}
    diff = "--- a\n+++ b\n@@ -1 +1 @@\n-int a;\n+int b;\n"
    steps = [
        step(
            LAB.variant(name),
            rows,
            dict.fromkeys(CASES, ""),
            diff,
            "lbm",
            predictions=predictions,
            excerpt=changed_lines.excerpt(diff),
        )
        for name in ("fused", "soa")
    ]
    folded = step(
        LAB.variant("no-finish"), rows, dict.fromkeys(CASES, ""), "", "lbm", predictions=predictions, fold=StepFold()
    )
    opened = step(LAB.variant("soa"), rows, dict.fromkeys(CASES, ""), diff, "lbm", fold=StepFold([CASES[1]]))
    folds = f'<div class="on-device">{steps[0]}{folded}{opened}</div>'
    answers = [answer(data, answered(LAB, data)) for data in data_by_case]
    first = f'<div data-case="{CASES[0]}">{opening(data_by_case[0])._repr_html_()}</div>'
    cells = {"opening": on_site(first), "answer": on_site("".join(answers)), "steps": on_site("".join(steps))}
    for name in ("roofbook.css", "story.js"):
        shutil.copy(ASSETS / name, folder)
    for theme in ("light", "dark"):
        (folder / f"{theme}.html").write_text(PAGE.format(scheme=theme, **cells), encoding="utf-8")
        text = PAGE.format(scheme=theme, **cells | {"steps": on_site(folds)})
        (folder / f"{theme}-folds.html").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def open_page(tabs: Tabs, site: Path) -> Any:
    def open_theme(theme: str, width: int, target: str = "") -> Any:
        tab = tabs.open(width, 900, color_scheme=theme.partition("-")[0])
        tab.goto(f"file://{site}/{theme}.html{target}")
        return tab

    return open_theme


@pytest.mark.parametrize(
    ("theme", "width"), often([("light", 1400), ("dark", 390), ("light", 320)], lambda row: row == ("dark", 390))
)
@pytest.mark.thorough
def test_no_element_is_wider_than_the_screen_and_axe_finds_no_problem(open_page: Any, theme: str, width: int) -> None:
    tab = open_page(theme, width)
    for element in tab.locator(".answer, .answer dd, .step, .effect > li").all():
        assert element.evaluate("element => element.scrollWidth <= element.clientWidth + 1"), element.inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(tab, {}) == []


def test_the_answer_names_the_kernel_its_time_its_share_of_the_bound_and_the_peer(open_page: Any) -> None:
    tab = open_page("light", 390)
    answer_text = tab.locator(".answer").first.inner_text()
    for words in ("On 128x128", "fused", "200\u202fµs", "50.0\u202f%", "1.50 times as fast", "lbmpy", "no-finish"):
        assert words in answer_text, words
    assert tab.locator(".answer").count() == len(CASES)


def test_a_step_shows_its_bars_its_effect_and_its_verdict_in_one_view(open_page: Any) -> None:
    tab = open_page("light", 1400)
    heights = [box["height"] for box in (element.bounding_box() for element in tab.locator(".step").all())]
    assert max(heights) < 560, "two cases, each in a part of a screen"
    notes = tab.locator(".step .prediction").all_inner_texts()
    assert [note.split(". ")[1] for note in notes] == ["Confirmed.", "Refuted.", "Refuted.", "Refuted."]
    assert tab.locator(".step .why").count() == 3, "each refuted prediction says why"
    colours = [
        verdict.evaluate("element => getComputedStyle(element).color")
        for verdict in tab.locator(".effect strong").all()
    ]
    assert colours[0] == colours[1] != colours[2] == colours[3], (
        "of the effect: faster, whatever was predicted, or slower"
    )
    parent_bar, step_bar = (
        bar.evaluate("bar => parseFloat(getComputedStyle(bar, '::before').width)")
        for bar in tab.locator(".step-bars").first.locator("b").all()
    )
    assert step_bar == pytest.approx(parent_bar / 2, rel=0.02), "twice as fast: a bar half as long"


def test_a_reader_goes_through_the_opening_figure_step_by_step(open_page: Any) -> None:
    tab = open_page("light", 1400)
    slider, panel = tab.get_by_role("slider", name="Step of the ladder"), tab.locator(".opening-step")
    assert panel.locator(".opening-name").inner_text().startswith("fused"), "the fastest first"
    slider.press("ArrowRight")
    assert panel.locator(".opening-name").inner_text().startswith("soa 250")
    assert "times as slow" in panel.inner_text() and panel.get_by_text("+int b;").is_visible()
    tab.get_by_role("button", name="Step before").click()
    assert "2.00 times as fast" in panel.inner_text()
    panel.get_by_role("link", name="in the story").click()
    tab.wait_for_function("location.hash === '#step-fused'")
    tab.locator('.opening a[data-step="no-finish"]').click()
    assert slider.input_value() == "0" and tab.get_by_role("button", name="Step before").is_disabled()


def test_the_site_shows_the_changed_lines_and_links_to_all_of_the_code(open_page: Any) -> None:
    tab = open_page("light", 1400)
    link = tab.get_by_role("link", name="Code and difference").first
    assert link.is_visible() and link.get_attribute("href") == "lbm/kernels.html#fused"
    assert tab.locator("details").count() == 0, "the whole difference is on the page of kernels"
    assert tab.locator("#step-fused .step-lines").get_by_text("+int b;").is_visible()
    assert link.bounding_box()["y"] < tab.locator(".step p").first.bounding_box()["y"], "at the height of the heading"


FOLDED = {"no-finish", "soa"}


def open_folds(tab: Any) -> set[str]:
    """Return the names of the steps whose folds are open."""
    return set(
        tab.eval_on_selector_all("details.step-fold[open] > summary", "all => all.map(line => line.dataset.variant)")
    )


def test_a_folded_step_is_a_line_with_its_effect_and_the_keyboard_opens_it(open_page: Any) -> None:
    tab = open_page("light-folds", 1400)
    assert (
        open_folds(tab) == set()
        and not tab.locator("#step-soa").is_visible()
        and tab.locator("#step-fused").is_visible()
    )
    line = tab.locator("summary[data-variant=soa]")
    assert "1.25 times as slow [" in line.inner_text() and "Structure of arrays" in line.inner_text()
    assert line.bounding_box()["height"] < 50, "a line, or two with both cases"
    line.focus()
    tab.keyboard.press("Enter")
    assert open_folds(tab) == {"soa"} and tab.locator("#step-soa .effect").is_visible()
    button = tab.locator(".step-folds button")
    button.press("Enter")
    assert open_folds(tab) == FOLDED and button.get_attribute("aria-pressed") == "true"
    button.press("Enter")
    assert open_folds(tab) == set()


def test_a_link_opens_the_fold_of_its_step_also_when_the_reader_has_closed_it(open_page: Any) -> None:
    tab = open_page("light-folds", 1400, "#step-soa")
    assert open_folds(tab) == {"soa"}, "an address with the step"
    tab.locator('.opening a[data-step="no-finish"]').click()
    link = tab.get_by_role("link", name="in the story")
    for _ in range(2):
        link.click()
        tab.wait_for_selector("details[open] > summary[data-variant=no-finish]")  # an event after the click opens it
        assert "no-finish" in open_folds(tab)
        top = tab.locator("summary[data-variant=no-finish]").bounding_box()["y"]
        assert -1 <= top < 600, "its line is in sight"
        tab.locator("summary[data-variant=no-finish]").press("Enter")
        assert "no-finish" not in open_folds(tab)


def test_the_steps_that_matter_on_the_chosen_case_open_with_it(open_page: Any) -> None:
    tab = open_page("light-folds", 1400)
    for case, opened in ((CASES[0], set()), (CASES[1], {"soa"})):
        tab.evaluate(
            "shown => document.dispatchEvent(new CustomEvent('roofbook-shown', { detail: { case: shown } }))", case
        )
        assert open_folds(tab) == opened


def headings_for_a_screen_reader(tab: Any) -> list[str]:
    """Return the names of the headings in the accessibility tree."""
    nodes = tab.context.new_cdp_session(tab).send("Accessibility.getFullAXTree")["nodes"]
    return [
        node["name"]["value"]
        for node in nodes
        if node.get("role", {}).get("value") == "heading" and not node["ignored"]
    ]


@pytest.mark.parametrize("page", ["light", "light-folds"])
def test_each_step_is_a_heading_of_the_accessibility_tree_when_the_page_loads(open_page: Any, page: str) -> None:
    """Neither a fold nor a part that the browser does not lay out takes it away."""
    tab = open_page(page, 1400)
    steps = tab.eval_on_selector_all(".step", "all => all.map(step => step.id.slice('step-'.length))")
    names = headings_for_a_screen_reader(tab)
    assert (
        steps and [name for name in steps if not any(heading.split()[0].rstrip("#") == name for heading in names)] == []
    )


def test_folds_have_room_on_a_phone_and_axe_finds_no_problem(open_page: Any) -> None:
    tab = open_page("dark-folds", 390)
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(tab, {}) == []
