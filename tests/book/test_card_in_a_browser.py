"""The card of a measurement, opened by mouse, by keyboard, on a phone, and without JavaScript."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import card_links, measurements
from roofbook.report import ladder
from roofbook.store.parquet import Store

from ..axe import violations
from ..often import often
from ..served import served
from .test_measurements import data_of_three_runs

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
NAMES = ("gpu.cuda", "other.cuda")
Open = Callable[..., Any]

PAGE = """<!DOCTYPE html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>A lab</title>
<meta name="viewport" content="width=device-width">
<link rel="stylesheet" href="../_static/roofbook.css"><script src="../_static/card.js" defer></script></head>
<body><main class="bd-article"><h1>A lab</h1><label>Device <select><option>One</option></select></label>
<div class="on-device">{table}</div>
<table id="grid"><tr><th>a</th><td data-of="fused~128x128">1</td><td data-of="fused~128x128">2</td></tr>
<tr><th>b</th><td data-of="fused~128x128" hidden>3</td><td data-of="fused~128x128">4</td></tr></table></main></body></html>"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a site with a ladder of one step and its cards on two devices; return its folder."""
    root = tmp_path_factory.mktemp("root")
    data, store = data_of_three_runs(root), Store(root / "results")
    for name in NAMES:
        measurements.draw_recorded(root, data, name, f"The device {name}", store)
    folder, table = root / "site", ladder(data.on()).html
    (folder / "_static").mkdir(parents=True)
    (folder / "labs").mkdir()
    for name in ("card.js", "card.css", "roofbook.css"):
        shutil.copy(ASSETS / name, folder / "_static")
    for theme in ("light", "dark"):
        page = card_links.linked(PAGE.format(theme=theme, table=table), "../", root, "lbm/gpu.cuda")
        (folder / "labs" / f"{theme}.html").write_text(page, encoding="utf-8")
    (folder / "labs" / "lbm.html").write_text("<!DOCTYPE html><title>The lab</title>", encoding="utf-8")
    (folder / "table.html").write_text(card_links.linked(table, "../", root, "lbm/other.cuda"), encoding="utf-8")
    card_links.copy_cards(root, folder, "https://example.org/book")
    return folder


@pytest.fixture
def open_page(browser: Any, site: Path) -> Iterator[Open]:
    """Yield a function that opens a page of the site from the disk; fail on any error of its scripts."""
    contexts, page_errors = list[Any](), list[str]()

    def open_file(page: str = "labs/light.html", **options: Any) -> Any:
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 800}} | options)
        contexts.append(context)
        tab = context.new_page()
        tab.on("pageerror", lambda error: page_errors.append(str(error)))
        tab.goto(f"file://{site}/{page}")
        return tab

    yield open_file
    for context in contexts:
        context.close()
    assert not page_errors


def card(tab: Any) -> str:
    """Return the text of the open card."""
    tab.wait_for_selector("dialog[open] h2")
    text: str = tab.inner_text("dialog[open]")
    return text


def test_a_number_opens_its_card_and_escape_leads_back(open_page: Open) -> None:
    tab = open_page()
    number = tab.locator("td a.of").first
    number.click()
    card_text = card(tab)
    for text in (
        "fused on 128x128", "The device gpu.cuda", "95 % of the median", "40 in 2 runs, each of 100 × step",
        "2 versions in 3 runs", "20260103T000000Z-aaaaaa", "2026-01-02 10:00", "cccccccccc",
        "code: the kernel's source changed", "another machine: aaaa -> bbbb", "error 1e-07, allowed 1e-06", "cold cache",
    ):  # fmt: skip
        assert text in card_text, text
    assert number.inner_text().split(" ")[0] in card_text
    dots = tab.eval_on_selector_all(
        "dialog .dots", "all => all.map(element => element.getAttribute('d').split('h0').length - 1)"
    )
    assert dots == [20, 20, 20]
    assert tab.get_attribute("dialog td a", "href") == f"https://example.org/book/commit/{'c' * 40}"
    tab.click("dialog summary")
    assert "550" in tab.inner_text("dialog details[open]"), "the driver"
    assert "?measurement=" in tab.url
    tab.keyboard.press("Escape")
    tab.wait_for_function("!location.search.includes('measurement')")
    assert tab.locator("dialog[open]").count() == 0
    assert tab.evaluate("document.activeElement.className") == "of"


@pytest.mark.thorough
def test_escape_closes_a_card_with_the_focus_on_any_element(open_page: Open) -> None:
    """One press is enough, also after a part was opened and closed, and after a click on plain text."""
    tab = open_page()
    for clicked in (
        ["dialog summary"],
        ["dialog summary", "dialog summary"],
        ["dialog summary", "dialog h2"],
        ["dialog dd"],
    ):
        tab.locator("td a.of").first.click()
        card(tab)
        for part in clicked:
            tab.locator(part).first.click()
        tab.evaluate("document.activeElement.blur()")
        tab.keyboard.press("Escape")
        assert tab.locator("dialog[open]").count() == 0, clicked


def test_by_keyboard_a_table_is_one_stop_and_arrows_go_from_number_to_number(open_page: Open) -> None:
    tab = open_page()
    assert tab.locator("#grid a.of").count() == 4 and tab.locator("#grid a.of[tabindex='0']").count() == 1
    tab.focus("select")
    reached = list[str]()
    for _ in range(12):
        tab.keyboard.press("Tab")
        reached.append(
            tab.evaluate("document.activeElement.closest('#grid') ? document.activeElement.textContent : ''")
        )
    assert set(reached) == {"", "1"}
    tab.focus("#grid a.of")
    for key, number_reached in (
        ("Right", "2"),
        ("Down", "4"),
        ("Left", "2"),
        ("Left", "1"),
        ("Down", "1"),
        ("Right", "2"),
        ("Up", "2"),
    ):
        tab.keyboard.press(f"Arrow{key}")
        assert tab.evaluate("document.activeElement.textContent") == number_reached, (
            "a number that is not shown is passed over"
        )
    tab.keyboard.press("Enter")
    assert "fused on 128x128" in card(tab)
    assert tab.evaluate("document.activeElement.getAttribute('aria-label')") == "Close"
    tab.keyboard.press("Enter")
    assert tab.locator("dialog[open]").count() == 0


@pytest.mark.thorough
def test_the_command_can_be_copied_and_the_measurement_saved_as_json(open_page: Open, browser: Any, site: Path) -> None:
    with served(site) as address:
        context = browser.new_context()
        context.grant_permissions(["clipboard-read", "clipboard-write"])
        tab = context.new_page()
        tab.goto(f"{address}/labs/light.html")
        tab.locator("td a.of").first.click()
        card(tab)
        tab.click("text=Copy the command")
        tab.wait_for_selector("text=Copied.")
        command = "roofbook rerun lbm fused 128x128 --scale published --device opencl:0"
        assert tab.evaluate("navigator.clipboard.readText()") == command
        with tab.expect_download() as download:
            tab.click("text=All of it as JSON")
        name, card_data = (
            download.value.suggested_filename,
            json.loads(Path(download.value.path()).read_text(encoding="utf-8")),
        )
        context.close()
    assert name == "lbm.gpu.cuda.fused~128x128.json" and card_data["command"] == command
    assert [len(run["samples"]) for version in card_data["versions"] for run in version["runs"]] == [20, 20, 20]
    assert card_data["facts"]["Verified"].startswith("error 1e-07") and len(card_data["machines"]) == 2


def test_without_javascript_the_number_leads_to_a_page_with_the_contents_of_the_card(open_page: Open) -> None:
    tab = open_page(java_script_enabled=False)
    tab.locator("td a.of").first.click()
    tab.wait_for_load_state()
    assert tab.url.endswith("/labs/lbm/measurements/gpu.cuda.html#fused~128x128")
    section = tab.inner_text("section.measured")
    for text in (
        "fused on 128x128",
        "40 in 2 runs",
        "20260103T000000Z-aaaaaa",
        "cccccccccc",
        "roofbook rerun lbm fused 128x128",
    ):
        assert text in section
    assert tab.locator("section.measured svg .dots").count() == 3
    tab.click("header a")
    assert tab.url.endswith("/labs/lbm.html")


@pytest.mark.thorough
def test_a_card_has_an_address_and_numbers_that_a_script_adds_lead_to_theirs(open_page: Open, site: Path) -> None:
    tab = open_page("labs/light.html?measurement=lbm/other.cuda/fused~128x128")
    assert "The device other.cuda" in card(tab)
    tab.keyboard.press("Escape")
    table = (site / "table.html").read_text(encoding="utf-8")
    tab.evaluate("html => { document.querySelector('.on-device').innerHTML = html; }", table)
    tab.wait_for_selector(".on-device a.of[tabindex='0']")
    assert tab.locator("a.of:not([href])").count() == 0 and tab.locator(".on-device a.of[tabindex='0']").count() == 1
    tab.locator("td a.of").first.click()
    assert "The device other.cuda" in card(tab)
    lost = open_page("labs/light.html?measurement=lbm/nowhere/fused~128x128")
    lost.wait_for_timeout(200)
    assert lost.locator("dialog[open]").count() == 0


@pytest.mark.parametrize("theme", often(["light", "dark"], {"dark"}.__contains__))
@pytest.mark.thorough
def test_a_card_fits_on_a_phone_and_axe_finds_no_problem(open_page: Open, theme: str) -> None:
    small = {"viewport": {"width": 390, "height": 844}, "color_scheme": theme}
    tab = open_page(f"labs/{theme}.html", **small)
    tab.locator("td a.of").first.click()
    card(tab)
    assert tab.evaluate("document.querySelector('dialog.measurement').scrollWidth") <= 390
    assert violations(tab, {}, context={"include": [["dialog"]]}) == []
    page = open_page("labs/lbm/measurements/gpu.cuda.html", **small)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page, {}) == []
