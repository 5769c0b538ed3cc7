"""The case of a lab's page in a browser: the reader chooses it in the bar or by the address, and each lab remembers its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from roofbook.book import device_pages, notebook_cells
from roofbook.book.case_markup import OfCase, embed_cases, mark_case, mark_sentences, split_cases
from roofbook.book.device_choices import DeviceChoice, cells_script
from roofbook.escaping import escape
from roofbook.report.html import Cell, Row, Table

from ..served import served
from ..tabs import Tabs

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
CASE, DEVICE, MESSAGE = ".device-bar select[name=case]", ".device-bar select[name=device]", ".device-said"
SMALL, LARGE, HUGE = "64x64", "512x512", "4096x4096"
Open = Callable[..., Any]
GPU, GPU_LARGE = DeviceChoice("gpu", "A GPU"), DeviceChoice("gpu/large", "A GPU, large sizes")


def table(case: str) -> Table:
    return Table(f"The ladder on {case}", [Cell("Variant")], [Row([Cell(f"fused on {case}")])], pd.DataFrame())


def cells(*cases: str) -> dict[str, str]:
    """Return a cell with a line for each case, and one with a table for each (the last is the main case) and one of no case."""
    lines = "".join(f'<li data-case="{case}" id="line-{case}">A step on {case}</li>' for case in cases)
    tables = "".join(OfCase(table(case), case, case == cases[-1]).html for case in cases)
    return {"lines": f"<ul>{lines}</ul>", "tables": tables + table("any").html}


def write_page(folder: Path, lab: str, name: str, cells_by_device: dict[DeviceChoice, dict[str, str]]) -> None:
    """Write a page as the book's builder does: with the cells of the first device, and with scripts of all devices."""
    (folder / name).mkdir()
    pages = {
        choice: device_pages.finish(outputs, choice, folder, f"labs/{lab}")
        for choice, outputs in cells_by_device.items()
    }
    for choice, finished in pages.items():
        for script, script_places in {**finished.scripts, choice.script: finished.places}.items():
            (folder / name / script).write_text(cells_script(script, script_places))
    places = pages[GPU].places
    bar = device_pages.bar(lab, f"{name}/", [GPU, GPU_LARGE], places.pop(device_pages.CASES))
    inside = "".join(f'<div class="on-device" data-cell="{key}">{html}</div>' for key, html in places.items())
    (folder / f"{name}.html").write_text(
        f'<!doctype html><html lang="en"><head><title>{name}</title><link rel="stylesheet" href="roofbook.css">'
        f'<script defer src="devices-of-page.js"></script></head><body><main><h1>{name}</h1>{bar}{inside}</main></body></html>'
    )


def rooflines(other_case: str, main_case: str) -> dict[str, str]:
    """Return a cell with two tables of the main case, each with a table of the other case."""

    def roofline(case: str) -> Table:
        return replace(table(case), caption=f"The roofline on {case}")

    html = OfCase(roofline(main_case), main_case, True, {other_case: lambda: roofline(other_case)}).html
    return {"rooflines": f"{html}<p>And once more:</p>{html}"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write three pages of a lab, one of another lab, and some for single tests; return their folder."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("roofbook.css", "devices-of-page.js"):
        (folder / name).write_bytes((ASSETS / name).read_bytes())
    both = {GPU: cells(SMALL, LARGE), GPU_LARGE: cells(HUGE, "8192x8192")}
    for lab, name in (("lbm", "story"), ("lbm", "results"), ("cnn", "other")):
        write_page(folder, lab, name, both)
    write_page(folder, "lbm", "published", {GPU: {"lines": "<p>Of no case.</p>"}})
    write_page(folder, "places", "places", {GPU: rooflines(SMALL, LARGE), GPU_LARGE: rooflines(HUGE, "8192x8192")})
    rows = [Row([Cell(name)]) for name in ("A GPU", "Another GPU", "A GPU of this machine")]
    devices = Table("Devices", [Cell("On")], rows, pd.DataFrame()).html
    head = (folder / "published.html").read_text().partition("<div")[0]
    (folder / "devices.html").write_text(f"{head}{devices}</main></body></html>")
    return folder


@pytest.fixture
def open_page(tabs: Tabs, site: Path) -> Iterator[Open]:
    """Yield a function that opens a page in one browser with a memory; fail on any error of its scripts."""
    with served(site) as address:

        def open_address(name: str = "story.html") -> Any:
            tab = tabs.open()
            tab.goto(f"{address}/{name}")
            return tab

        yield open_address


def cases_in_sight(tab: Any) -> list[str]:
    """Return the cases whose line is in sight; fail unless exactly their tables and that of no case are."""
    tab.wait_for_function(f"!document.querySelector('{MESSAGE}').textContent.includes('Loading')")
    lines = [line.text_content().split()[-1] for line in tab.query_selector_all("li") if line.is_visible()]
    tables = [
        caption.text_content().split()[3] for caption in tab.query_selector_all("caption") if caption.is_visible()
    ]
    assert tables == [*lines, "any"]
    return lines


def test_the_main_case_is_shown_until_another_is_chosen_and_all_cases_are_the_last_option(open_page: Open) -> None:
    tab = open_page()
    assert cases_in_sight(tab) == [LARGE] and tab.inner_text(MESSAGE) == ""
    assert tab.eval_on_selector_all(f"{CASE} option", "all => all.map(element => element.textContent)") == [
        SMALL,
        LARGE,
        "all cases",
    ]
    tab.select_option(CASE, SMALL)
    assert cases_in_sight(tab) == [SMALL] and f"The case is {SMALL}." in tab.inner_text(MESSAGE)
    assert f"?case={SMALL}" in tab.url
    tab.select_option(CASE, label="all cases")
    assert cases_in_sight(tab) == [SMALL, LARGE] and "All cases are shown." in tab.inner_text(MESSAGE)
    tab.reload()
    assert cases_in_sight(tab) == [SMALL, LARGE] and tab.input_value(CASE) == "all"


@pytest.mark.thorough
def test_a_case_is_remembered_on_the_pages_of_its_lab(open_page: Open) -> None:
    open_page().select_option(CASE, SMALL)
    assert cases_in_sight(open_page("results.html")) == [SMALL]
    assert cases_in_sight(open_page("other.html")) == [LARGE], "another lab has other cases"
    assert cases_in_sight(open_page(f"results.html?case={LARGE}")) == [LARGE], (
        "the address comes before the remembered choice"
    )
    assert cases_in_sight(open_page("results.html?case=no-such-case")) == [LARGE]
    assert not open_page("published.html").is_visible(CASE), "a page that shows nothing of a case has none to choose"


@pytest.mark.thorough
def test_a_device_without_the_chosen_case_shows_its_main_case_and_the_choice_comes_back(open_page: Open) -> None:
    tab = open_page()
    tab.select_option(CASE, SMALL)
    tab.select_option(DEVICE, "gpu/large")
    tab.wait_for_function(f"document.querySelector('{MESSAGE}').textContent.includes('large sizes')")
    assert cases_in_sight(tab) == ["8192x8192"]
    tab.select_option(CASE, HUGE)
    assert cases_in_sight(tab) == [HUGE] and "device=gpu%2Flarge" in tab.url
    tab.select_option(CASE, label="all cases")
    tab.select_option(DEVICE, "gpu")
    assert cases_in_sight(tab) == [SMALL, LARGE]


def test_the_keyboard_chooses_a_case(open_page: Open) -> None:
    tab = open_page()
    tab.focus(DEVICE)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.name") == "case"
    tab.keyboard.press("ArrowUp")
    assert cases_in_sight(tab) == [SMALL]


@pytest.mark.thorough
def test_a_link_into_another_case_shows_that_case(open_page: Open) -> None:
    tab = open_page(f"story.html#line-{SMALL}")
    assert cases_in_sight(tab) == [SMALL]
    tab.evaluate(f"location.hash = 'line-{LARGE}'")
    tab.wait_for_selector(f"[id='line-{LARGE}']", state="visible")
    assert cases_in_sight(tab) == [LARGE]


def test_terms_are_linked_in_each_cell_with_its_own_key() -> None:
    finished = device_pages.finish(
        {"a": "<p>warp</p>", "b": "<p>block</p>"}, GPU, Path(), "labs/lbm", lambda key, html: f"{key}: {html}"
    )
    assert (finished.places["a"], finished.places["b"]) == ("a: <p>warp</p>", "b: <p>block</p>")


@pytest.mark.thorough
def test_the_chosen_device_is_highlighted_in_the_tables_of_other_pages(open_page: Open) -> None:
    assert not open_page("devices.html").query_selector("[aria-current]"), "no device was chosen yet"
    open_page().select_option(DEVICE, "gpu/large")
    highlighted = open_page("devices.html").eval_on_selector_all(
        "[aria-current]", "all => all.map(element => element.innerText)"
    )
    assert highlighted == ["A GPU"], "at any sizes"


def test_without_a_script_the_lines_of_all_cases_show_and_the_tables_of_other_cases_are_files(
    browser: Any, site: Path
) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((site / "story.html").as_uri())
    assert [line.text_content() for line in tab.query_selector_all("li") if line.is_visible()] == [
        f"A step on {SMALL}",
        f"A step on {LARGE}",
    ]
    assert tab.get_by_role("link", name=f"a table on {SMALL}").is_visible() and not tab.is_visible(CASE)
    context.close()


def test_a_table_of_a_named_case_is_marked_with_it_and_otherwise_unchanged() -> None:
    class Lab:
        data = type("Data", (), {"case": lambda self: type("Case", (), {"name": LARGE})()})()

        @mark_case
        def ladder(self, case: str | None = None) -> Table:
            return table(case or LARGE)

    lab: Any = Lab()
    plain, small, main = lab.ladder(), lab.ladder(SMALL), lab.ladder(case=LARGE)
    assert "data-case" not in plain.html and small.html.startswith(f'<div data-case="{SMALL}">')
    assert main.html.startswith(f'<div data-case="{LARGE}" data-main>') and main._repr_html_() == main.html
    assert small.text == table(SMALL).text == repr(small) and small.caption == f"The ladder on {SMALL}"


def test_the_sentences_of_a_summary_are_marked_with_their_case_and_others_with_none() -> None:
    sentences = f"<p><strong>{LARGE}.</strong> Fast.</p><p><strong>Note.</strong> All.</p>"
    marked = f'<p data-case="{LARGE}"><strong>{LARGE}.</strong> Fast.</p><p><strong>Note.</strong> All.</p>'
    chart = OfCase(table(LARGE), LARGE, True).html
    assert mark_sentences(chart + sentences) == chart + marked and mark_sentences(sentences) == sentences


def test_a_long_list_of_names_is_shown_on_few_lines() -> None:
    names = [f"step-{number}" for number in range(20)]
    code = "lab.steps(\n" + "".join(f'    "{name}",\n' for name in names) + ")"
    compacted = notebook_cells.compact(code)
    assert len(compacted.splitlines()) < 6 and max(map(len, compacted.splitlines())) <= notebook_cells.WIDTH
    assert ast.dump(ast.parse(compacted)) == ast.dump(ast.parse(code))
    for code_left in (
        "lab",
        "for case in lab.cases:\n    display(lab.ladder(case.name))",
        'lab.line("a", of=1)',
        "lab.x(",
        "%load",
    ):
        assert notebook_cells.compact(code_left) == code_left


ROOFLINES = "table.roofbook caption:has-text('The roofline on'):visible"


def test_tables_that_a_page_does_not_hold_are_loaded_with_the_case(open_page: Open) -> None:
    tab = open_page("places.html")
    assert [text.split(" on ")[1][: len(LARGE)] for text in tab.locator(ROOFLINES).all_text_contents()] == [LARGE] * 2
    for case in (SMALL, LARGE, SMALL):
        tab.select_option(CASE, case)
        tab.wait_for_function(f"!document.querySelector('{MESSAGE}').textContent.includes('Loading')")
        assert [text.split(" on ")[1][: len(case)] for text in tab.locator(ROOFLINES).all_text_contents()] == [case] * 2
    tab.select_option(CASE, "all")
    assert tab.locator(ROOFLINES).count() == 4
    assert len(tab.query_selector_all(f"script[src='places/gpu.{SMALL}.js']")) == 1, "asked for once"
    tab.select_option(DEVICE, "gpu/large")
    tab.wait_for_function(f"!document.querySelector('{MESSAGE}').textContent.includes('Loading')")
    assert tab.locator(ROOFLINES).count() == 4, "the other device's, since all cases are shown"
    assert all(name in "".join(tab.locator(ROOFLINES).all_text_contents()) for name in (HUGE, "8192x8192"))


@pytest.mark.thorough
def test_a_missing_script_of_a_case_is_reported(open_page: Open, site: Path) -> None:
    (site / "places" / f"gpu.{SMALL}.js").rename(site / "away.js")
    try:
        tab = open_page(f"places.html?case={SMALL}")
        tab.wait_for_function(f"document.querySelector('{MESSAGE}').textContent.includes('could not be loaded')")
        assert f"of {SMALL} could not be loaded" in tab.inner_text(MESSAGE)
    finally:
        (site / "away.js").rename(site / "places" / f"gpu.{SMALL}.js")


def test_other_cases_are_moved_out_of_cells() -> None:
    ladder = OfCase(table(LARGE), LARGE, True, {SMALL: lambda: table(SMALL), "a<b": lambda: table("a<b")})
    page_cells, cells_by_case = split_cases({"one": f"<p>a</p>{ladder.html}<p>b</p>", "two": "<p>c</p>"})
    assert page_cells["two"] == "<p>c</p>"
    assert "<template" not in page_cells["one"] and page_cells["one"].endswith("<p>b</p>")
    assert list(cells_by_case) == [SMALL, "a<b"]
    for case, html_by_place in cells_by_case.items():
        ((place, html),) = html_by_place.items()
        assert f'<div data-case="{escape(case)}" data-cell="{place}">' in page_cells["one"]
        assert f"The ladder on {escape(case)}" in html


def test_a_page_with_a_main_case_keeps_only_that() -> None:
    ladders = "".join(OfCase(table(case), case, case == LARGE).html for case in (SMALL, LARGE, HUGE))
    page_cells, cells_by_case = split_cases({"one": f"{ladders}{table('any').html}"})
    assert f"The ladder on {LARGE}" in page_cells["one"] and "The ladder on any" in page_cells["one"]
    assert f"<caption>The ladder on {SMALL}" not in page_cells["one"] and list(cells_by_case) == [SMALL, HUGE]
    assert f"The ladder on {HUGE}" in "".join(cells_by_case[HUGE].values())
    files = re.findall(r"<noscript>.*?</noscript>", page_cells["one"])
    assert [case for case in (SMALL, HUGE) for file in files if f">a table on {case}</a>" in file] == [SMALL, HUGE]
    side_by_side = ladders.replace(" data-main", "")
    assert split_cases({"one": side_by_side}) == ({"one": side_by_side}, {})


def test_a_method_embeds_the_other_cases_and_draws_them_only_for_the_site() -> None:
    cases_drawn = []

    def draw(page: Any, case: str | None = None) -> Table:
        cases_drawn.append(case)
        return table(case or LARGE)

    small, large = SimpleNamespace(name=SMALL), SimpleNamespace(name=LARGE)
    data = SimpleNamespace(case=lambda: large, cases=[small, large])
    embedded = embed_cases(draw)(SimpleNamespace(data=data))
    assert repr(embedded) == repr(table(LARGE)) and cases_drawn == [None]
    assert f"The ladder on {SMALL}" in embedded.html and cases_drawn == [None, SMALL]
    assert type(embed_cases(draw)(SimpleNamespace(data=data), SMALL)) is OfCase
    data.cases = [large]
    assert isinstance(embed_cases(draw)(SimpleNamespace(data=data)), Table), "with one case there is nothing to choose"
