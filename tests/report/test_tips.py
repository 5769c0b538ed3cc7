"""Tips of the points of a figure: in its SVG, and in a browser by pointer, touch and keyboard."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData

from ..axe import violations
from ..often import often
from ..tabs import Tabs
from .inspection import bandwidths
from .rows import ORDER, ZEROS, lab_rows, row, shapes, sweep_rows
from .rows import frame as rows_of
from .test_roofs import chart, rows

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
DATA = CaseData(lab_rows(), ORDER, "256x256")


def tips(figure: report.Figure) -> list[str]:
    """Return the tips of a figure's points, in their order."""
    return [unescape(tip) for tip in re.findall(r'data-tip="([^"]*)"', figure.svg)]


def test_a_bar_says_its_ratio_with_the_interval_and_its_time_and_a_cross_all_of_its_reason() -> None:
    texts = tips(report.ladder_chart(DATA))
    assert [tip.partition(":")[0] for tip in texts] == ["sequential", "port", "fused", "soa", "peer"]
    assert re.fullmatch(
        r"fused: 38\.\d \[.*\] times as fast as sequential; 11\d\s?µs per step; faster than port", texts[2]
    )
    assert texts[0].startswith("sequential: base; ") and texts[3] == "soa: failed: wrong result: max error 3 > 1e-6"


def test_every_kind_of_figure_says_what_its_points_are() -> None:
    grid, reasons = report.sweep_grid(CaseData(shapes(columns=2, rows=2), ["a"], "256x256"), "size")
    heat = tips(report.heat_map(grid, reasons=reasons))
    assert len(heat) == 4 and sum("over the limit of 1024" in tip for tip in heat) == 2
    words = tips(report.line_sweep(sweep_rows(), "wg"))
    assert "256x256, 2x8: work-group too large" in words and len(words) == 4
    assert tips(report.descent(DATA))[1].startswith("step 2, port: 18")
    assert "wide: 3\u202f000\u202fGB/s, 75.0\u202f% of the fastest stream at this size" in tips(bandwidths())
    dots = tips(chart(rows(a=(10.0, 1e13, "float32"), b=(20.0, 2e13, "float32")), counted_bytes={"a": 5e7}))
    assert [tip.replace("\u202f", " ") for tip in dots] == [
        "a: 20.0 FLOP/B by the bytes counted",
        "a: 10.0 TFLOP/s at 10.0 FLOP/B, 25.0 % of the roof above it (float32)",
        "b: 20.0 TFLOP/s at 20.0 FLOP/B, 32.8 % of the roof above it (float32)",
    ]


def test_a_line_says_each_of_its_points_also_where_one_has_no_time() -> None:
    cases = [case for _, case in ZEROS.points]
    measured = [row(name, 1e-4 * (at + 1), case=case) for at, case in enumerate(cases) for name in ZEROS.variants[:2]]
    measured[2] |= {"status": "failed", "reason": "wrong result"}
    texts = tips(report.series(rows_of(*measured), ZEROS))
    assert len(texts) == len(measured) - 1
    assert texts[0].startswith(f"{ZEROS.variants[0]} at ") and not any("nan" in tip for tip in texts)


def test_the_way_to_the_fastest_step_goes_over_its_parents() -> None:
    table = rows(a=(1.0, 1e12, "float32"), b=(1.0, 2e12, "float32"), c=(1.0, 4e12, "float32"), d=(1.0, 3e12, "float32"))
    table.loc[table["variant"] == "d", "parent"] = "b"
    data = CaseData(table, ["a", "b", "c", "d"], "256x256")
    assert data.way_to_fastest(data.order) == ["a", "b", "c"]
    assert data.way_to_fastest(["a", "c", "d"]) == ["a", "c"], "what has no place is stepped over"
    assert data.way_to_fastest(["d", "a", "b"]) == ["a", "b", "d"] and data.way_to_fastest(["c"]) == []
    gone = CaseData(table[table["variant"] != "b"], ["a", "c"], "256x256", parents={"c": "b", "b": "a"})
    assert gone.way_to_fastest(["a", "c"]) == ["a", "c"], "as is a step without a time"
    figure = chart(table)
    assert "Arrows: the ladder's way from a to its fastest step, c." in figure.notes
    arrows = [getattr(text, "arrow_patch", None) for text in figure.drawing.axes[0].texts]
    assert sum(arrow is not None for arrow in arrows) == 2


@pytest.fixture(scope="module")
def page() -> str:
    """Two figures on a page, as the book shows them."""
    figures = report.ladder_chart(DATA).html + report.descent(DATA).html
    style = (ASSETS / "roofbook.css").read_text(encoding="utf-8")
    script = (ASSETS / "figures.js").read_text(encoding="utf-8")
    return (
        f"<!DOCTYPE html><html lang=en><meta name=viewport content='width=device-width'><title>T</title><style>{style}</style>"
        f"<main class=bd-article><h1>T</h1><a href='#x'>first</a>{figures}<p id=x><a href='#x'>last</a></p></main>"
        f"<script>{script}</script></html>"
    )


@pytest.fixture
def tab(tabs: Tabs, page: str) -> Any:
    tab = tabs.open(900, 900)
    tab.set_content(page)
    return tab


SAID = "document.querySelector('.figure-tip:not([hidden])')?.textContent"


@pytest.mark.site
def test_a_pointer_near_a_point_learns_what_it_is(tab: Any) -> None:
    mark = tab.locator("[data-tip^=fused]").first.bounding_box()
    tab.mouse.move(mark["x"] + 5, mark["y"] + mark["height"] + 3)
    assert tab.evaluate(SAID).startswith("fused: 38.")
    assert tab.evaluate("document.querySelectorAll('.now').length") == 1
    inside = tab.evaluate(
        "const at = document.querySelector('.figure-tip').getBoundingClientRect(); [at.left, at.right, at.top]"
    )
    assert inside[0] >= 0 and inside[1] <= 900 and inside[2] >= 0
    tip = tab.locator(".figure-tip").bounding_box()
    tab.mouse.move(tip["x"] + 4, tip["y"] + 4)
    assert tab.evaluate(SAID), "it stays when the pointer goes over it"
    tab.keyboard.press("Escape")
    assert not tab.evaluate(SAID)
    tab.mouse.move(mark["x"] + 5, mark["y"])
    tab.mouse.move(2, 2)
    assert not tab.evaluate(SAID)


@pytest.mark.site
def test_a_figure_is_one_stop_of_the_keyboard_and_arrows_go_through_its_points(tab: Any) -> None:
    at = "document.activeElement.getAttribute('aria-label') ?? document.activeElement.textContent"
    files = ("CSV", "SVG", "PNG")
    for text in ("first", "sequential: base", *files, "step 1, sequential", *files, "last"):
        tab.keyboard.press("Tab")
        assert tab.evaluate(at).startswith(text)
    for _ in range(2 * len(files) + 2):
        tab.keyboard.press("Shift+Tab")
    assert tab.evaluate(SAID).endswith("(1 of 5, by arrow keys)")
    for key, text in (
        ("ArrowRight", "port"),
        ("ArrowDown", "fused"),
        ("ArrowLeft", "port"),
        ("End", "peer"),
        ("ArrowRight", "peer"),
    ):
        tab.keyboard.press(key)
        assert tab.evaluate(at).startswith(f"{text}: ") and tab.evaluate(SAID).startswith(f"{text}: ")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Shift+Tab")
    assert tab.evaluate(at).startswith("peer: "), "where one has been"
    tab.keyboard.press("Home")
    assert tab.evaluate(at).startswith("sequential: ")


@pytest.mark.site
def test_a_click_near_a_point_opens_its_step_and_each_figure_is_a_file(tab: Any) -> None:
    for below in (5, 17):
        tab.evaluate("location.href = '#'")
        mark = tab.locator("[data-tip^=fused]").first.bounding_box()
        tab.mouse.click(mark["x"] + 5, mark["y"] + below)
        tab.wait_for_function("location.href.endsWith('#step-fused')")
    for suffix, begin in (("SVG", b"<svg "), ("PNG", b"\x89PNG")):
        with tab.expect_download() as downloaded:
            tab.locator(".figure-files button", has_text=suffix).first.click()
        content = Path(downloaded.value.path()).read_bytes()
        assert content.startswith(begin) and downloaded.value.suggested_filename.endswith(suffix.lower())
    assert len(content) > 5000


@pytest.mark.site
def test_a_figure_as_a_file_keeps_its_markers_and_leaves_out_its_labels(tab: Any) -> None:
    with tab.expect_download() as downloaded:
        tab.locator(".figure-files button", has_text="SVG").last.click()
    text = Path(downloaded.value.path()).read_text(encoding="utf-8")
    assert "data-tip" not in text and "color: rgb(" in text and 'xmlns="http://www.w3.org/2000/svg"' in text
    ids, used = (set(re.findall(pattern, text)) for pattern in (r' id="([^"]+)"', r'<use href="#([^"]+)"'))
    assert used and used <= ids, "markers are drawn once and used"


@pytest.mark.site
def test_a_tap_says_what_a_point_is_and_so_does_a_figure_that_comes_later(browser: Any, page: str) -> None:
    context = browser.new_context(has_touch=True, viewport={"width": 390, "height": 800})
    tab = context.new_page()
    tab.set_content(page)
    tab.evaluate(
        "const first = document.querySelector('figure'); first.outerHTML = first.outerHTML.replace(/ data-points=\"\\d+\"/, '')"
    )
    tab.wait_for_function("document.querySelector('svg').dataset.points")
    box = tab.locator("[data-tip^=peer]").first.bounding_box()
    tab.touchscreen.tap(box["x"] + 3, box["y"] + 3)
    tab.wait_for_function(f"{SAID}?.startsWith('peer: ')")  # the browser makes a click of a touch a moment later
    tab.touchscreen.tap(2, 2)
    step = tab.locator("[data-tip^=fused]").first.bounding_box()
    tab.touchscreen.tap(step["x"] + 3, step["y"] + 3)
    tab.wait_for_function(f"{SAID}?.startsWith('fused: ')")
    assert "#step-fused" not in tab.evaluate("location.href")
    tab.touchscreen.tap(step["x"] + 3, step["y"] + 3)
    tab.wait_for_function("location.href.endsWith('#step-fused')")
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


@pytest.mark.site
@pytest.mark.parametrize("scheme", often(["light", "dark"], {"dark"}.__contains__))
@pytest.mark.thorough
def test_figures_with_points_are_accessible(browser: Any, page: str, scheme: str) -> None:
    tab = browser.new_page(color_scheme=scheme)
    tab.set_content(page)
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    assert not violations(tab, {"rules": {"color-contrast": {"enabled": False}}})
    tab.close()
