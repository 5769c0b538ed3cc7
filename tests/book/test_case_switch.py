"""The case of a lab's page in a browser: chosen in the bar, in the address, remembered for the lab."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from roofbook.book import device_choices, device_switch
from roofbook.book.case_markup import OfCase, OfMainCase, embed_cases, mark_case, split_cases, without_others
from roofbook.report.html import Cell, Row, Table

from ..served import served

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
CASE, DEVICE, SAID = ".device-bar select[name=case]", ".device-bar select[name=device]", ".device-said"
SMALL, LARGE, HUGE = "64x64", "512x512", "4096x4096"
Open = Callable[..., Any]
TERMS = {"warp": "g.html#warp", "warps": "g.html#warp", "work-group": "g.html#group", "work group": "g.html#group",
         "bandwidth": "g.html#bandwidth", "some": "g.html#a"}  # fmt: skip
"""Words and the places of their meanings, as terms.py writes them."""


def table(case: str) -> Table:
    return Table(f"The ladder on {case}", [Cell("Variant")], [Row([Cell(f"fused on {case}")])], pd.DataFrame())


def cells(*cases: str) -> dict[str, str]:
    """A cell with a line a case, and one with a table a case, of which the last is the main one; and a table of no case."""
    lines = "".join(f'<li data-case="{case}" id="line-{case}">A step on {case}</li>' for case in cases)
    tables = "".join(OfCase(table(case), case, case == cases[-1]).html for case in cases)
    return {"lines": f"<ul>{lines}</ul>", "tables": tables + table("any").html}


def page(lab: str, name: str, shown: dict[str, str]) -> str:
    listed = [
        device_choices.DeviceChoice("gpu", "A GPU"),
        device_choices.DeviceChoice("gpu/large", "A GPU, large sizes"),
    ]
    inside = "".join(f'<div class="on-device" data-cell="{key}">{html}</div>' for key, html in shown.items())
    return (
        f'<!doctype html><html lang="en"><head><title>{name}</title><link rel="stylesheet" href="roofbook.css">'
        f'<script defer src="devices-of-page.js"></script></head><body><main><h1>{name}</h1>'
        f"{device_switch._bar(lab, '', listed)}{inside}</main></body></html>"
    )


def roofline(case: str) -> Table:
    return replace(table(case), caption=f"The roofline on {case}")


def with_places(folder: Path, stem: str, device: str, names: tuple[str, str]) -> dict[str, str]:
    """The same, and two more tables each of which comes with the case; the scripts that bring it."""
    other, main = names
    more = OfMainCase(roofline(main), main, {other: lambda: roofline(other)}).html
    whole = {**cells(*names), "rooflines": more + "<p>And once more:</p>" + more}
    shown, of_case = split_cases(whole, lambda case: f"{stem}.{case}.js")
    for case, places in of_case.items():
        told = f'roofbookShowCase("places", {json.dumps(device)}, {json.dumps(case)}, {json.dumps(places)});'
        (folder / f"{stem}.{case}.js").write_text(told)
    return shown


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages of a lab, one of another."""
    folder = tmp_path_factory.mktemp("site")
    for name in ("roofbook.css", "devices-of-page.js"):
        (folder / name).write_bytes((ASSETS / name).read_bytes())
    (folder / "story.html").write_text(page("lbm", "Story", cells(SMALL, LARGE)))
    (folder / "results.html").write_text(page("lbm", "Results", cells(SMALL, LARGE)))
    for device, stem, names in (("gpu", "gpu", (SMALL, LARGE)), ("gpu/large", "gpu.large", (HUGE, "8192x8192"))):
        places = with_places(folder, stem, device, names)
        if device == "gpu":
            (folder / "places.html").write_text(page("places", "Places", places))
        else:
            (folder / "gpu.large.js").write_text(device_choices.show_script("places", device, places))
    (folder / "published.html").write_text(page("lbm", "Published", {"lines": "<p>Of no case.</p>"}))
    (folder / "other.html").write_text(page("cnn", "Another lab", cells(SMALL, LARGE)))
    with (folder / "gpu.large.js").open("a") as script:
        script.write(device_choices.show_script("lbm", "gpu/large", cells(HUGE, "8192x8192")))
    prose = (
        "<p>A warp of some</p><p>group. Work-group after Work\ngroup, sub-warp, a <code>warp</code> and bandwidths.</p>"
    )
    folded = "<details><summary>bandwidth</summary><p>warps, a bandwidth, a bandwidth</p></details><p>Bandwidth.</p>"
    told = {"prose": f"{prose}<table><td>warp</td></table>", "folded": folded}
    (folder / "_static").mkdir()
    (folder / "_static" / "terms.js").write_text(f"roofbookTerms({json.dumps(TERMS)});")
    rows = [Row([Cell(name)]) for name in ("A GPU", "Another GPU", "A GPU of this machine")]
    of_all = Table("Devices", [Cell("On")], rows, pd.DataFrame()).html
    head = page("lbm", "Devices", {}).partition("<div")[0]
    (folder / "devices.html").write_text(f"{head}{of_all}</main></body></html>")
    linked = "<p>Of <a href='g.html#a'><span class='std-term'>some</span></a></p>"
    text = page("terms", "Terms", {"prose": "", "folded": ""}).replace("</h1>", f"</h1>{linked}")
    (folder / "terms.html").write_text(text)
    with (folder / "gpu.large.js").open("a") as script:
        script.write(device_choices.show_script("terms", "gpu/large", told))
    return folder


@pytest.fixture
def opened(browser: Any, site: Path) -> Iterator[Open]:
    """Opens a page, as in one browser that remembers; nothing may go wrong."""
    context, wrong = browser.new_context(), []
    with served(site) as address:

        def open_page(name: str = "story.html") -> Any:
            tab = context.new_page()
            tab.on("pageerror", lambda error: wrong.append(str(error)))
            tab.goto(f"{address}/{name}")
            return tab

        yield open_page
        context.close()
    assert not wrong


def shown(tab: Any) -> list[str]:
    """The cases whose line and table are in sight, once each where both are, and what is of no case."""
    lines = [each.text_content().split()[-1] for each in tab.query_selector_all("li") if each.is_visible()]
    tables = [each.text_content().split()[3] for each in tab.query_selector_all("caption") if each.is_visible()]
    assert tables == [*lines, "any"]
    return lines


def test_the_main_case_is_shown_until_another_is_chosen_and_all_stand_at_the_end(opened: Open) -> None:
    tab = opened()
    assert shown(tab) == [LARGE] and tab.inner_text(SAID) == ""
    assert tab.eval_on_selector_all(f"{CASE} option", "all => all.map(element => element.textContent)") == [
        SMALL,
        LARGE,
        "all cases",
    ]
    tab.select_option(CASE, SMALL)
    assert shown(tab) == [SMALL] and f"The case is {SMALL}." in tab.inner_text(SAID)
    assert f"?case={SMALL}" in tab.url
    tab.select_option(CASE, label="all cases")
    assert shown(tab) == [SMALL, LARGE] and "All cases are shown." in tab.inner_text(SAID)
    tab.reload()
    assert shown(tab) == [SMALL, LARGE] and tab.input_value(CASE) == "all"


def test_a_case_is_remembered_on_the_pages_of_its_lab(opened: Open) -> None:
    opened().select_option(CASE, SMALL)
    assert shown(opened("results.html")) == [SMALL]
    assert shown(opened("other.html")) == [LARGE], "another lab has other cases"
    assert shown(opened(f"results.html?case={LARGE}")) == [LARGE], "the address goes before what is remembered"
    assert shown(opened("results.html?case=no-such-case")) == [LARGE]
    assert not opened("published.html").is_visible(CASE), "a page that shows nothing of a case has none to choose"


def test_a_device_without_the_case_shows_its_main_one_and_the_case_comes_back(opened: Open) -> None:
    tab = opened()
    tab.select_option(CASE, SMALL)
    tab.select_option(DEVICE, "gpu/large")
    tab.wait_for_function(f"document.querySelector('{SAID}').textContent.includes('large sizes')")
    assert shown(tab) == ["8192x8192"]
    tab.select_option(CASE, HUGE)
    assert shown(tab) == [HUGE] and "device=gpu%2Flarge" in tab.url
    tab.select_option(CASE, label="all cases")
    tab.select_option(DEVICE, "gpu")
    assert shown(tab) == [SMALL, LARGE]


def test_the_keyboard_chooses_a_case(opened: Open) -> None:
    tab = opened()
    tab.focus(DEVICE)
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.name") == "case"
    tab.keyboard.press("ArrowUp")
    assert shown(tab) == [SMALL]


def test_a_link_to_something_of_another_case_shows_it(opened: Open) -> None:
    tab = opened(f"story.html#line-{SMALL}")
    assert shown(tab) == [SMALL]
    tab.evaluate(f"location.hash = 'line-{LARGE}'")
    tab.wait_for_selector(f"[id='line-{LARGE}']", state="visible")
    assert shown(tab) == [LARGE]


def test_terms_are_linked_in_what_another_device_brings(opened: Open) -> None:
    """The first use in a cell, not what its section has linked before, nothing in code and tables, folded parts apart."""
    tab = opened("terms.html?device=gpu/large")
    tab.wait_for_selector(".on-device a")
    links = "[...cell.querySelectorAll('a')].map(element => [element.textContent, element.getAttribute('href')])"
    prose, folded = tab.eval_on_selector_all(".on-device", f"cells => cells.map(cell => {links})")
    assert prose == [["warp", "g.html#warp"], ["Work-group", "g.html#group"]]
    assert folded == [["warps", "g.html#warp"], *[["bandwidth", "g.html#bandwidth"], ["Bandwidth", "g.html#bandwidth"]]]
    assert "A warp of some" in tab.inner_text("main") and tab.locator(".on-device p a").first.is_visible()


def test_the_chosen_device_stands_out_of_the_tables_of_other_pages(opened: Open) -> None:
    assert not opened("devices.html").query_selector("[aria-current]"), "nobody has chosen yet"
    opened().select_option(DEVICE, "gpu/large")
    highlighted = opened("devices.html").eval_on_selector_all(
        "[aria-current]", "all => all.map(element => element.innerText)"
    )
    assert highlighted == ["A GPU"], "at whichever sizes"


def test_without_a_script_all_cases_show(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((site / "story.html").as_uri())
    assert shown(tab) == [SMALL, LARGE] and not tab.is_visible(CASE)
    context.close()


def test_what_is_drawn_of_a_case_that_is_named_is_marked_and_stays_what_it_was() -> None:
    class Shown:
        data = type("Data", (), {"case": lambda self: type("Case", (), {"name": LARGE})()})()

        @mark_case
        def ladder(self, case: str | None = None) -> Table:
            return table(case or LARGE)

    of: Any = Shown()
    plain, small, main = of.ladder(), of.ladder(SMALL), of.ladder(case=LARGE)
    assert "data-case" not in plain.html and small.html.startswith(f'<div data-case="{SMALL}">')
    assert main.html.startswith(f'<div data-case="{LARGE}" data-main>') and main._repr_html_() == main.html
    assert small.text == table(SMALL).text == repr(small) and small.caption == f"The ladder on {SMALL}"


def test_the_sentences_of_a_summary_are_of_their_case_and_others_of_none() -> None:
    told = f"<p><strong>{LARGE}.</strong> Fast.</p><p><strong>Note.</strong> All.</p>"
    made = device_switch.finish_cells({"chart": OfCase(table(LARGE), LARGE, True).html, "words": told})
    assert (
        made["words"] == f'<p data-case="{LARGE}"><strong>{LARGE}.</strong> Fast.</p><p><strong>Note.</strong> All.</p>'
    )


def test_a_long_list_of_names_is_shown_on_few_lines() -> None:
    names = [f"step-{number}" for number in range(20)]
    code = "lab.steps(\n" + "".join(f'    "{name}",\n' for name in names) + ")"
    made = device_switch.compact(code)
    assert len(made.splitlines()) < 6 and max(map(len, made.splitlines())) <= device_switch.WIDTH
    assert ast.dump(ast.parse(made)) == ast.dump(ast.parse(code))
    for other in (
        "lab",
        "for case in lab.cases:\n    display(lab.ladder(case.name))",
        'lab.line("a", of=1)',
        "lab.x(",
        "%load",
    ):
        assert device_switch.compact(other) == other


ROOFLINES = "table.roofbook caption:has-text('The roofline on'):visible"


def test_what_comes_with_no_page_comes_with_the_case(opened: Open) -> None:
    tab = opened("places.html")
    assert [each.split(" on ")[1][: len(LARGE)] for each in tab.locator(ROOFLINES).all_text_contents()] == [LARGE] * 2
    for case in (SMALL, LARGE, SMALL):
        tab.select_option(CASE, case)
        tab.wait_for_function(f"!document.querySelector('{SAID}').textContent.includes('Loading')")
        assert [each.split(" on ")[1][: len(case)] for each in tab.locator(ROOFLINES).all_text_contents()] == [case] * 2
    tab.select_option(CASE, "all")
    assert tab.locator(ROOFLINES).count() == 4
    assert len(tab.query_selector_all(f"script[src='gpu.{SMALL}.js']")) == 1, "asked for once"
    tab.select_option(DEVICE, "gpu/large")
    tab.wait_for_function(f"!document.querySelector('{SAID}').textContent.includes('Loading')")
    assert tab.locator(ROOFLINES).count() == 4, "the other device's, since all cases are shown"
    assert all(name in "".join(tab.locator(ROOFLINES).all_text_contents()) for name in (HUGE, "8192x8192"))


def test_a_case_whose_script_is_gone_is_said(opened: Open, site: Path) -> None:
    (site / f"gpu.{SMALL}.js").rename(site / "away.js")
    try:
        tab = opened(f"places.html?case={SMALL}")
        tab.wait_for_function(f"document.querySelector('{SAID}').textContent.includes('could not be loaded')")
        assert f"of {SMALL} could not be loaded" in tab.inner_text(SAID)
    finally:
        (site / "away.js").rename(site / f"gpu.{SMALL}.js")


def test_other_cases_are_taken_out_of_cells_and_of_pages() -> None:
    shown = OfMainCase(table(LARGE), LARGE, {SMALL: lambda: table(SMALL), "a<b": lambda: table("a<b")})
    cells, of_case = split_cases({"one": f"<p>a</p>{shown.html}<p>b</p>", "two": "<p>c</p>"}, "{}.js".format)
    assert cells["two"] == "<p>c</p>" and "<template" not in cells["one"] and cells["one"].endswith("<p>b</p>")
    assert list(of_case) == [SMALL, "a<b"] and [list(each) for each in of_case.values()] == [list(of_case[SMALL])] * 2
    assert f"The ladder on {SMALL}" in next(iter(of_case[SMALL].values()))
    assert (
        without_others(f"<p>a</p>{shown.html}<p>b</p>") == f"<p>a</p>{OfCase(table(LARGE), LARGE, True).html}<p>b</p>"
    )


def test_of_a_page_that_one_looks_up_the_main_case_stays() -> None:
    shown = "".join(OfCase(table(case), case, case == LARGE).html for case in (SMALL, LARGE, HUGE))
    cells, of_case = split_cases({"one": f"{shown}{table('any').html}"}, "{}.js".format, every_case=True)
    assert f"The ladder on {LARGE}" in cells["one"] and "The ladder on any" in cells["one"]
    assert f"<caption>The ladder on {SMALL}" not in cells["one"] and list(of_case) == [SMALL, HUGE]
    assert f"The ladder on {HUGE}" in "".join(of_case[HUGE].values())
    files = re.findall(r"<noscript>.*?</noscript>", cells["one"])
    assert [case for case in (SMALL, HUGE) for each in files if f">a table on {case}</a>" in each] == [SMALL, HUGE]
    assert split_cases({"one": shown}, "{}.js".format) == ({"one": shown}, {}), "a story has all of it"


def test_a_method_of_each_case_has_the_others_at_hand_and_draws_them_for_the_site_alone() -> None:
    drawn = []

    def draw(page: Any, case: str | None = None) -> Table:
        drawn.append(case)
        return table(case or LARGE)

    small, large = SimpleNamespace(name=SMALL), SimpleNamespace(name=LARGE)
    data = SimpleNamespace(case=lambda: large, cases=[small, large])
    shown = embed_cases(draw)(SimpleNamespace(data=data))
    assert repr(shown) == repr(table(LARGE)) and drawn == [None]
    assert f"The ladder on {SMALL}" in shown.html and drawn == [None, SMALL]
    assert type(embed_cases(draw)(SimpleNamespace(data=data), SMALL)) is OfCase
    data.cases = [large]
    assert isinstance(embed_cases(draw)(SimpleNamespace(data=data)), Table), "of one case nothing is to be chosen"
