"""The bar of a lab's page: a reader chooses the device that all of it is about; without JavaScript the page says which."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import device_choices

pytestmark = pytest.mark.site
PAGE = "/labs/stencil.html"
BAR, SAID = ".device-bar select[name=device]", ".device-said"
Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, served_site: str) -> Iterator[Open]:
    """Opens a page, as in one browser that remembers; with what went wrong in `wrong`."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    wrong: list[str] = []

    def open_page(address: str = PAGE) -> Any:
        tab = context.new_page()
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto(served_site + address)
        return tab

    yield open_page
    context.close()
    assert not wrong


def shown(tab: Any) -> list[str]:
    """What each cell of the page shows."""
    cells: list[str] = tab.eval_on_selector_all(".on-device", "cells => cells.map(each => each.textContent)")
    return [" ".join(cell.split()) for cell in cells]


def choose(tab: Any, device: str) -> None:
    tab.select_option(BAR, device)
    settled(tab, device)


def settled(tab: Any, device: str) -> None:
    tab.wait_for_function(f"document.querySelector('{BAR}').value === {device!r}")
    tab.wait_for_function(f"!document.querySelector('{SAID}').textContent.startsWith('Loading')")


def test_the_best_recorded_gpu_comes_first_and_each_choice_sets_every_cell(opened: Open, checkout: Path) -> None:
    tab, listed = opened(), device_choices.choices(checkout, "stencil")
    assert listed[0].name == "nvidia-h200/cuda"
    names = tab.eval_on_selector_all(f"{BAR} option", "all => all.map(each => each.value)")
    assert names == [*(each.name for each in listed), "here"]
    first = shown(tab)
    assert "NVIDIA H200, CUDA:" in first[0] and not tab.is_visible(".run-parameters")
    seen = [first]
    for name in names[1:]:
        choose(tab, name)
        assert "All of this page is now of" in tab.inner_text(SAID)
        seen.append(shown(tab))
    assert tab.is_visible(".run-parameters"), "of this machine, chosen last"
    for at in range(len(first)):
        assert len({cells[at] for cells in seen}) > 1 or not first[at] or "KERNEL" in first[at], (
            "another for each device"
        )
    buttons = tab.locator("button.copybtn").count()
    choose(tab, names[0])
    assert shown(tab) == first and tab.inner_text(SAID) == ""
    assert buttons == tab.locator("button.copybtn").count() == tab.locator("div.highlight pre").count() > 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_choice_stands_in_the_address_and_is_remembered(opened: Open) -> None:
    tab = opened()
    choose(tab, "nvidia-h200/opencl")
    assert "?device=nvidia-h200%2Fopencl" in tab.url
    remembered = opened()
    settled(remembered, "nvidia-h200/opencl")
    assert shown(remembered) == shown(tab)
    linked = opened(f"{PAGE}?device=nvidia-h200/cuda/large")
    settled(linked, "nvidia-h200/cuda/large")
    assert "at scale large" in shown(linked)[0], "the address goes before what is remembered"
    assert "NVIDIA H200, CUDA:" in shown(opened(f"{PAGE}?device=no-such-device"))[0]


@pytest.mark.parametrize("device", ["nvidia-h200/cuda", "intel-r-xeon-r-processor-16-cores/opencl/large"])
@pytest.mark.parametrize("width", [390, 1400])
def test_the_bar_stays_in_sight_and_hides_no_heading(opened: Open, width: int, device: str) -> None:
    """However many lines it has: of another device than the first it has more."""
    tab = opened()
    tab.set_viewport_size({"width": width, "height": 844})
    choose(tab, device)
    heads = [f"main {each} a.headerlink" for each in ("h2", ".step h3")]
    found = [tab.eval_on_selector_all(each, "all => all.map(each => each.hash)") for each in heads]
    for link in [*found[0][-3:-1], *found[1][-2:]]:
        tab.goto(tab.url.partition("#")[0] + link)
        places = "[...document.querySelectorAll('.bd-header-article, .device-bar')].map(e => e.getBoundingClientRect())"
        (_, top), (above, below) = tab.evaluate(f"{places}.map(box => [box.top, box.bottom])")
        assert top - 1 <= above < top + 12, "below the theme's own bar"
        heading = tab.evaluate(
            "hash => document.querySelector(hash + ' :is(h2, h3)').getBoundingClientRect().top", link
        )
        assert below - 1 <= heading < below + 100


def test_the_choice_goes_along_to_the_labs_other_pages(opened: Open) -> None:
    tab = opened()
    choose(tab, "nvidia-h200/opencl")
    tab.click(".lab-pages >> text=Roofline and resources")
    settled(tab, "nvidia-h200/opencl")
    tables = [cell for cell in shown(tab) if "Measured peaks of" in cell]
    assert tab.url.endswith("/labs/stencil/roofline.html") and tables
    tab.click(".lab-pages >> text=Story")
    settled(tab, "nvidia-h200/opencl")
    assert not [cell for cell in shown(tab) if "Measured peaks of" in cell], "each page has its own cells"


def test_the_keyboard_chooses(opened: Open) -> None:
    tab = opened()
    tab.focus(BAR)
    tab.keyboard.press("ArrowDown")
    tab.wait_for_function(f"document.querySelector('{SAID}').textContent.includes('now of')")
    assert tab.input_value(BAR) != "nvidia-h200/cuda" and "now of" in tab.inner_text(SAID)


def test_what_cannot_be_loaded_leaves_the_page_and_says_so(opened: Open) -> None:
    tab = opened()
    before = shown(tab)
    tab.route("**/on-devices/**", lambda route: route.abort())
    tab.select_option(BAR, "nvidia-h200/opencl")
    tab.wait_for_function(f"document.querySelector('{SAID}').textContent.includes('could not be loaded')")
    assert shown(tab) == before and tab.input_value(BAR) == "nvidia-h200/cuda"


def test_a_page_from_the_disk_can_choose_as_well(browser: Any, built_site: Path) -> None:
    tab = browser.new_page()
    tab.goto(f"file://{built_site}{PAGE}")
    choose(tab, "nvidia-h200/opencl")
    assert "NVIDIA H200, OpenCL:" in shown(tab)[0]
    tab.close()


def test_without_javascript_the_page_is_whole_and_says_of_which_device_it_is(browser: Any, served_site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(served_site + PAGE)
    assert "All of this page is of NVIDIA H200, CUDA." in tab.inner_text(".device-bar") and not tab.is_visible(BAR)
    assert "NVIDIA H200, CUDA:" in tab.inner_text(".on-device")
    context.close()


def test_a_lab_of_which_nothing_is_recorded_shows_this_machine(opened: Open) -> None:
    tab = opened("/labs/lbm.html")
    assert tab.query_selector(".device-bar") is None and tab.is_visible(".run-parameters")


@pytest.mark.parametrize("device", ["nvidia-h200/cuda", "nvidia-h200/opencl"])
def test_a_tables_csv_is_of_the_device_that_is_chosen(opened: Open, device: str) -> None:
    tab = opened("/labs/stencil/roofline.html")
    choose(tab, device)
    with tab.expect_download() as found:
        tab.locator("table.peaks a.csv").first.click()
    assert found.value.suggested_filename == f"stencil-{device.replace('/', '.')}-measured-peaks-of-nvidia-h200.csv"
    assert "estimate,low,high,unit" in Path(found.value.path()).read_text()
