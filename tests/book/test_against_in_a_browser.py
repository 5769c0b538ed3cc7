"""A second device in the bar of a lab's page: each step, each row of a table and the opening figure show both."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

from roofbook.analysis.case_data import CaseData
from roofbook.analysis.readings import faster, newest
from roofbook.analysis.sentences import effect_text
from roofbook.book import device_pages, device_times
from roofbook.book.case_markup import OfCase
from roofbook.book.device_choices import DeviceChoice, cells_script
from roofbook.book.page_html import on_site
from roofbook.report import ladder, opening
from roofbook.report.steps import step
from roofbook.spec import registry

from ..axe import violations
from ..report.rows import frame, row
from ..served import served
from ..tabs import Tabs

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
LAB = registry.get("lbm")
CASES = ("128x128", "1024x1024")
STEPS = ("no-finish", "fused", "soa")
OWN, OTHER, LARGE = (
    DeviceChoice("gpu/cuda", "A GPU"),
    DeviceChoice("old/cuda", "Old GPU"),
    DeviceChoice("gpu/cuda/large", "A GPU, large sizes"),
)
SCRIPTS = "_static/on-devices/lbm/story"
AGAINST = ".device-bar select[name=against]"
Open = Callable[..., Any]


def rows_of(device: str, times: dict[str, float], count: int = 20) -> pd.DataFrame:
    """Return rows of a device: these times on each case, in three runs that hardly differ."""
    return frame(
        *(
            row(
                name,
                time * (1 + run / 2000),
                LAB.variant(name).parent,
                case=case,
                device=device,
                n=count,
                run=f"run-{run}",
            )
            for case in CASES
            for name, time in times.items()
            for run in range(3)
        )
    )


def lab_data(device: str, times: dict[str, float], count: int = 20) -> Any:
    """Return what `device_times` reads of a lab on a device."""
    host = frame(*(row("sequential-c", 1.0, case=case, device="some-cpu") for case in CASES))
    rows = pd.concat([rows_of(device, times, count), host], ignore_index=True)
    return SimpleNamespace(rows_with_peers=rows, device=SimpleNamespace(slug=device), lab=LAB)


OWN_DATA = lab_data("gpu", {"no-finish": 4e-4, "fused": 2e-4, "soa": 2.5e-4})
OTHER_DATA = lab_data("old", {"no-finish": 4.01e-4, "fused": 3e-4, "soa": 1e-4})


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a page of a device with two steps, an opening figure and a table for each case, and the times of two devices."""
    folder = tmp_path_factory.mktemp("site")
    rows = OWN_DATA.rows_with_peers
    steps = "".join(step(LAB.variant(name), rows, dict.fromkeys(CASES, ""), "", "lbm") for name in STEPS)
    drawn = [(case, CaseData(rows, list(STEPS), case, bases=("no-finish",))) for case in CASES]
    parts = "".join(
        OfCase(draw(data), case, case == CASES[-1]).html for case, data in drawn for draw in (_opening, ladder)
    )
    finished = device_pages.finish({"a": on_site(parts + steps)}, OWN, folder, "labs/lbm")
    places = finished.places
    bar = device_pages.bar("lbm", f"{SCRIPTS}/", [OWN, OTHER, LARGE], places[device_pages.CASES], own_runs=True)
    for data, choice in ((OWN_DATA, OWN), (OTHER_DATA, OTHER)):
        device_times.write(folder, data, choice.stem)
    (folder / SCRIPTS).mkdir(parents=True)
    shutil.copytree(folder / device_times.FOLDER / "lbm", folder / SCRIPTS / ".." / device_times.SITE_FOLDER)
    for script, script_places in {**finished.scripts, OTHER.script: places}.items():
        (folder / SCRIPTS / script).write_text(cells_script(script, script_places))
    names = ("devices-of-page.js", "story.js")
    for name in ("roofbook.css", *names):
        shutil.copy(ASSETS / name, folder)
    for name in ("against.js", "own-runs.js", "run-here.js"):
        shutil.copy(ASSETS / name, folder / "_static")
    scripts = "".join(f'<script defer src="{name}"></script>' for name in names)
    for theme in ("light", "dark"):
        (folder / f"{theme}.html").write_text(
            f'<!doctype html><html lang="en" data-theme="{theme}"><head><meta charset="utf-8"><title>A lab</title>'
            f'<meta name="viewport" content="width=device-width"><link rel="stylesheet" href="roofbook.css">{scripts}'
            "<style>body { color: var(--roofbook-ink); background: var(--roofbook-ground); } "
            "a { color: var(--roofbook-accent); }</style></head>"
            f'<body><main class="bd-article"><h1>A lab</h1>{bar}<h2>Steps</h2>'
            f'<div class="on-device" data-cell="a">{places["a"]}</div></main></body></html>'
        )
    return folder


def _opening(data: CaseData) -> Any:
    return SimpleNamespace(html=opening(data)._repr_html_())


@pytest.fixture
def open_page(tabs: Tabs, site: Path) -> Iterator[Open]:
    with served(site) as address:

        def open_address(query: str = "", theme: str = "light", width: int = 1400) -> Any:
            tab = tabs.open(width, 900)
            tab.goto(f"{address}/{theme}.html{query}")
            return tab

        yield open_address


def wait(tab: Any) -> None:
    tab.wait_for_function("document.querySelector('.against-said').textContent.startsWith('Beside')")


def expected(variant: str) -> str:
    """Return the book's own words for the ratio of the two devices."""
    own, other = (newest(data.rows_with_peers, CASES[-1])[variant] for data in (OWN_DATA, OTHER_DATA))
    ratio = faster(other, own)
    assert ratio is not None and ratio.how == "across devices"
    return " ".join(effect_text(ratio))


def test_each_step_shows_both_devices_with_the_books_ratio_and_interval(open_page: Open) -> None:
    tab = open_page("?against=old/cuda")
    wait(tab)
    shown = tab.eval_on_selector_all(
        ".step .effect > li:not([hidden]) div.against", "all => all.map(part => part.textContent)"
    )
    assert shown == [
        f"{expected(name)} as on Old GPU, {time}"
        for name, time in zip(STEPS, ("402\u202fµs", "301\u202fµs", "100\u202fµs"), strict=True)
    ]
    words = [re.split(r" times| \[", text)[0] for text in shown]
    assert words == ["as fast", "1.50", "2.50"] and "times as slow" in shown[2]
    bars = tab.locator("#step-fused li:not([hidden]) .step-bars b")
    widths = [bar.evaluate("bar => parseFloat(getComputedStyle(bar, '::before').width)") for bar in bars.all()]
    assert widths[2] / widths[1] == pytest.approx(1.5, rel=0.02), "one scale for the step and the other device"
    panel = tab.locator(".opening:visible .opening-step")
    assert "as on Old GPU" in panel.inner_text(), "the figure's panel repeats the step"
    assert tab.locator(".opening:visible .opening-plot li.against").count() == 2, "the third is below the axis"


def test_each_row_of_a_table_shows_both_devices(open_page: Open) -> None:
    tab = open_page("?against=old/cuda")
    wait(tab)
    cells = tab.eval_on_selector_all(
        "[data-case]:not([hidden]) table.ladder tr[data-variant] td.against", "all => all.map(cell => cell.textContent)"
    )
    assert len(cells) == len(STEPS) and cells[0].startswith("same [") and cells[0].endswith("(402\u202fµs there)")
    ends = expected("fused").partition("[")[2]
    assert cells[1] == f"1.50 [{ends} (301\u202fµs there)" and cells[2].startswith("0.4")


def test_the_second_device_is_in_the_address_holds_in_the_tab_and_can_be_taken_away(open_page: Open) -> None:
    tab = open_page()
    assert tab.locator(".on-device .against").count() == 0 and tab.is_visible(AGAINST)
    assert not tab.locator('script[src*="against"]').count(), "it costs nothing until a reader asks"
    tab.focus(AGAINST)
    tab.wait_for_function(f"document.querySelector('{AGAINST} option:disabled')")
    tab.keyboard.press("ArrowDown")
    wait(tab)
    assert "against=old%2Fcuda" in tab.url, "the keyboard skips the page's own device"
    assert tab.eval_on_selector_all(
        f"{AGAINST} option", "all => all.filter(option => option.disabled).map(option => option.value)"
    ) == [
        OWN.name,
        LARGE.name,
    ], "the page's device, and other sizes"
    tab.goto(tab.url.partition("?")[0])
    wait(tab)
    tab.select_option(AGAINST, "")
    tab.wait_for_function("!document.querySelector('.on-device .against')")
    assert "against" not in tab.url and tab.inner_text(".against-said") == ""
    assert open_page("?against=none-such").locator(".on-device .against").count() == 0


def test_the_case_and_the_device_of_the_page_take_the_second_device_along(open_page: Open) -> None:
    tab = open_page("?against=old/cuda")
    wait(tab)
    tab.select_option("select[name=case]", CASES[0])
    tab.wait_for_function("document.querySelectorAll('.step li:not([hidden]) div.against').length === 3")
    assert tab.locator(f'li[data-case="{CASES[0]}"]:visible div.against').count() == len(STEPS)
    tab.select_option("select[name=device]", OTHER.name)
    tab.wait_for_function("!document.querySelector('.on-device .against')")
    assert tab.inner_text(".against-said") == "", "no device is compared with itself"


def test_a_device_that_cannot_be_loaded_is_said(open_page: Open) -> None:
    tab = open_page()
    tab.route("**/times/old*", lambda route: route.abort())
    tab.select_option(AGAINST, OTHER.name)
    tab.wait_for_function("document.querySelector('.against-said').textContent.includes('could not be loaded')")
    assert tab.locator(".on-device .against").count() == 0


@pytest.mark.parametrize(("theme", "width"), [("dark", 390)])
def test_a_phone_has_room_for_both(open_page: Open, theme: str, width: int) -> None:
    tab = open_page("?against=old/cuda", theme, width)
    wait(tab)
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(tab, {}) == []


def test_times_have_no_host_and_no_interval_of_few_samples() -> None:
    few = device_times.times(lab_data("gpu", {"fused": 2e-4}, count=2))
    assert {case: sorted(times) for case, times in few.items()} == {case: ["fused"] for case in CASES}
    assert [len(numbers) for numbers in few[CASES[0]].values()] == [1]


def test_scripts_of_other_devices_are_removed(tmp_path: Path) -> None:
    for name in ("gpu.cuda", "old.cuda", "here"):
        device_times.write(tmp_path, OWN_DATA, name)
    device_times.copy(tmp_path, tmp_path / "site")
    script = tmp_path / "site" / "_static" / "on-devices" / "lbm" / "times" / "gpu.cuda.js"
    name, times = json.loads(f"[{script.read_text()[len('roofbookTimes(') : -len(');') - 1]}]")
    assert name == "gpu.cuda" and set(times) == set(CASES)
    device_times.keep_only(tmp_path, "lbm", ["old.cuda"])
    device_times.copy(tmp_path, tmp_path / "site")
    assert sorted(path.stem for path in script.parent.glob("*.js")) == ["here", "old.cuda"]


# -- the reader's own runs ---------------------------------------------------------------------------------------------

SIZE = "64x64"
"""Size of the reader's runs, which no recorded device has."""


def own_row(variant: str, seconds: float, role: str = "step", **fields: Any) -> dict[str, Any]:
    """Return a row as run-here.js keeps it."""
    samples = [4 * seconds * (1 + number / 1000) for number in range(7)]
    parent = LAB.variant(variant).parent
    return {
        **{"lab": "lbm", "variant": variant, "parent": parent, "case": SIZE, "role": role, "device_name": "A <laptop>"},
        **{"units": 4, "samples_s": samples, "rounds": [*range(7)], "status": "ok"},
    } | fields


def keep(tab: Any, runs: Any) -> None:
    """Keep runs in the browser as the page does."""
    text = runs if isinstance(runs, str) else json.dumps(runs)
    tab.evaluate(
        "text => { localStorage.setItem('roofbook-runs-lbm', text); document.dispatchEvent(new Event('roofbook-runs')); }",
        text,
    )


LADDER = [[own_row("no-finish", 8e-4), own_row("fused", 2e-4), own_row("no-finish", 8e-4, "again")]]


def test_own_runs_are_one_more_device_drawn_into_the_recorded_ladder(open_page: Open) -> None:
    tab = open_page()
    assert tab.locator(f"{AGAINST} option[value=this-device]").count() == 0, "before the first run"
    keep(tab, LADDER)
    tab.select_option(AGAINST, "this-device")
    wait(tab)
    panel = tab.get_by_role("region", name="Your own runs")
    assert (
        "A <laptop>, by WebGPU: 2 steps of this lab on 64x64, measured in your browser, one run" in panel.inner_text()
    )
    assert "compare with those of the page's device: its sizes are others." in panel.inner_text()
    line = tab.locator("#step-fused .effect > li.against")
    text = line.evaluate("line => line.lastChild.textContent && line.textContent").replace("\u202f", " ")
    assert (
        "4.00 times as fast [4.00, 4.00], 802 \u00b5s \u2192 201 \u00b5s on this device, 64x64, measured in your browser"
        in text
    )
    assert line.evaluate("line => line.classList.contains('faster')")
    assert tab.locator("#step-soa .effect > li.against").count() == 0, "it was not run"
    assert tab.locator("#step-no-finish .effect > li.against").inner_text().startswith("802"), "no parent in that run"
    head = tab.locator(f'[data-case="{CASES[-1]}"] table.ladder th.against')
    assert (head.text_content() or "").split() == f"this device {SIZE}, measured in your browser, one run".split()
    cells = tab.eval_on_selector_all(
        f'[data-case="{CASES[-1]}"] tr[data-variant] td.against', "all => all.map(cell => cell.textContent)"
    )
    assert cells[1].replace("\u202f", " ") == "201 \u00b5s 4.00 [4.00, 4.00] vs no-finish" and cells[2] == "\u2013"
    first = tab.locator(".opening:visible .opening-plot li:has([data-step=no-finish])")
    crosses = tab.locator(".opening:visible .opening-plot li.against")
    top = "item => parseFloat(item.style.top)"
    assert crosses.count() == 1, "four times as fast as the first lies outside, where twice is the lowest point"
    assert crosses.first.evaluate(top) == pytest.approx(first.evaluate(top), abs=0.01)
    tab.locator(".opening:visible input[type=range]").press("Home")
    tab.locator(".opening:visible input[type=range]").press("ArrowRight")
    panel = tab.locator(".opening:visible .opening-step .effect-copy")
    assert (
        panel.count() == 2
        and "on this device" not in panel.first.inner_text()
        and "on this device" in panel.last.inner_text()
    )
    caption = tab.locator(".opening:visible figcaption").inner_text()
    assert "one run. no-finish lies on its recorded point" in caption and "1 of them lie outside" in caption
    assert violations(tab, {}) == []


def test_own_runs_hold_over_pages_take_new_runs_in_and_can_be_removed(open_page: Open) -> None:
    tab = open_page()
    keep(tab, LADDER)
    tab = open_page("?against=this-device")
    wait(tab)
    tab.select_option("select[name=case]", CASES[0])
    tab.wait_for_function(f"document.querySelector('[data-case=\"{CASES[0]}\"] td.against')")
    assert tab.locator(".own-runs").count() == tab.locator("#step-fused li.against").count() == 1
    keep(tab, [*LADDER, [own_row("fused", 1e-4), own_row("soa", 2e-4)]])
    tab.wait_for_function("document.querySelector('#step-soa li.against')")
    assert "slower" in tab.locator("#step-soa li.against").get_attribute("class")
    keep(tab, [[own_row("fused", 1e-4, case=CASES[0])], *LADDER, [own_row("fused", 1e-4), own_row("soa", 2e-4)]])
    tab.get_by_label("Size of your runs").select_option(CASES[0])
    tab.wait_for_function("document.querySelector('.own-runs').textContent.includes('its caches were emptied')")
    assert tab.locator("#step-soa li.against").count() == 0, "it was not run on this size"
    tab.get_by_label("Size of your runs").select_option(SIZE)
    tab.wait_for_function("document.querySelector('#step-soa li.against')")
    assert tab.locator("#step-fused li.against").inner_text().startswith("100"), (
        "the newest run, which lacks its parent"
    )
    with tab.expect_download() as download:
        tab.get_by_role("button", name="Save them as JSON").click()
    rows = json.loads(Path(download.value.path()).read_text())
    assert download.value.suggested_filename == "lbm-this-device.json" and len(rows) == 6
    tab.get_by_role("button", name="Remove them from this browser").focus()
    tab.keyboard.press("Enter")
    tab.wait_for_function("!document.querySelector('.against:is(li, td), .own-runs')")
    assert tab.locator(f"{AGAINST} option[value=this-device]").count() == 0 and "against" not in tab.url
    assert tab.evaluate("localStorage.getItem('roofbook-runs-lbm')") is None


@pytest.mark.parametrize(
    "stored",
    [
        "no JSON",
        "{}",
        "[[1, null, {}]]",
        json.dumps([[own_row("fused", 1e-4, samples_s=["1", "2", "3"])]]),
        json.dumps([[own_row("fused", 1e-4, lab="cnn")]]),
    ],
)
def test_stored_runs_that_no_page_wrote_are_not_drawn(open_page: Open, stored: str) -> None:
    tab = open_page()
    keep(tab, stored)
    tab.select_option(AGAINST, "this-device")
    tab.wait_for_function("document.querySelector('.against-said').textContent.includes('no run of this lab')")
    assert tab.locator(":is(li, td).against, .own-runs").count() == 0
    tab.evaluate("localStorage.clear()")
