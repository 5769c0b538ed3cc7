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
    bar = device_pages.bar("lbm", f"{SCRIPTS}/", [OWN, OTHER, LARGE], places[device_pages.CASES])
    for data, choice in ((OWN_DATA, OWN), (OTHER_DATA, OTHER)):
        device_times.write(folder, data, choice.stem)
    (folder / SCRIPTS).mkdir(parents=True)
    shutil.copytree(folder / device_times.FOLDER / "lbm", folder / SCRIPTS / ".." / device_times.SITE_FOLDER)
    for script, script_places in {**finished.scripts, OTHER.script: places}.items():
        (folder / SCRIPTS / script).write_text(cells_script(script, script_places))
    names = ("devices-of-page.js", "story.js")
    for name in ("roofbook.css", *names):
        shutil.copy(ASSETS / name, folder)
    shutil.copy(ASSETS / "against.js", folder / "_static")
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
def open_page(browser: Any, site: Path) -> Iterator[Open]:
    page_errors: list[str] = []
    with served(site) as address:
        context = browser.new_context(viewport={"width": 1400, "height": 900})

        def open_address(query: str = "", theme: str = "light", width: int = 1400) -> Any:
            tab = context.new_page()
            tab.set_viewport_size({"width": width, "height": 900})
            tab.on("pageerror", lambda error: page_errors.append(str(error)))
            tab.goto(f"{address}/{theme}.html{query}")
            return tab

        yield open_address
        context.close()
    assert not page_errors


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
