"""The device bar of a lab's page: a reader chooses the device that the page shows; without JavaScript the page names it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import device_choices

from ...often import often
from ...tabs import Tabs

pytestmark = pytest.mark.site
PAGE = "/labs/stencil.html"
BAR, MESSAGE = ".device-bar select[name=device]", ".device-said"
Open = Callable[..., Any]


@pytest.fixture
def open_page(tabs: Tabs, served_site: str) -> Open:
    """Return a function that opens a page in one browser with a memory; fail on any error of its scripts."""

    def open_address(address: str = PAGE) -> Any:
        tab = tabs.open(390, 844)
        tab.goto(served_site + address)
        return tab

    return open_address


CELL_TEXTS = """cells => cells.map(cell => {
    const copy = cell.cloneNode(true);
    for (const hidden of copy.querySelectorAll("noscript")) hidden.remove();
    return copy.textContent;
})"""


def cell_texts(tab: Any) -> list[str]:
    """Return the text of each cell of the page, with single spaces, as a reader with JavaScript has it."""
    return [" ".join(text.split()) for text in tab.eval_on_selector_all(".on-device", CELL_TEXTS)]


def choose(tab: Any, device: str) -> None:
    tab.select_option(BAR, device)
    wait_for_device(tab, device)


def wait_for_device(tab: Any, device: str) -> None:
    tab.wait_for_function(f"document.querySelector('{BAR}').value === {device!r}")
    tab.wait_for_function(f"!document.querySelector('{MESSAGE}').textContent.startsWith('Loading')")


def test_the_best_recorded_gpu_comes_first_and_each_choice_sets_every_cell(open_page: Open, checkout: Path) -> None:
    tab, listed = open_page(), device_choices.choices(checkout, "stencil")
    assert listed[0].name == "nvidia-h200/cuda"
    names = tab.eval_on_selector_all(f"{BAR} option", "all => all.map(element => element.value)")
    assert names == [choice.name for choice in listed] and names[-1] == "here"
    first = cell_texts(tab)
    assert "NVIDIA H200, CUDA:" in first[0] and not tab.is_visible(".run-parameters")
    texts_by_device = [first]
    for name in names[1:]:
        choose(tab, name)
        assert "All of this page is now of" in tab.inner_text(MESSAGE)
        texts_by_device.append(cell_texts(tab))
    assert tab.is_visible(".run-parameters"), "of this machine, chosen last"
    for position in range(len(first) - 1):  # the legend, which comes last, may be the same
        assert (
            len({cells[position] for cells in texts_by_device}) > 1
            or not first[position]
            or "KERNEL" in first[position]
        ), "another for each device"
    buttons = tab.locator("button.copybtn").count()
    choose(tab, names[0])
    assert cell_texts(tab) == first
    assert tab.inner_text(MESSAGE) == ""
    assert (
        buttons
        == tab.locator("button.copybtn").count()
        == tab.locator("div.highlight pre:not(.step-lines pre)").count()
        > 0
    )
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


def test_the_choice_stands_in_the_address_and_is_remembered(open_page: Open) -> None:
    tab = open_page()
    choose(tab, "nvidia-h200/opencl")
    assert "?device=nvidia-h200%2Fopencl" in tab.url
    remembered = open_page()
    wait_for_device(remembered, "nvidia-h200/opencl")
    assert cell_texts(remembered) == cell_texts(tab)
    linked = open_page(f"{PAGE}?device=nvidia-h200/cuda/large")
    wait_for_device(linked, "nvidia-h200/cuda/large")
    assert "at scale large" in cell_texts(linked)[0], "the address comes before the remembered choice"
    assert "NVIDIA H200, CUDA:" in cell_texts(open_page(f"{PAGE}?device=no-such-device"))[0]


@pytest.mark.parametrize(
    ("width", "device"),
    often(
        product([390, 1400], ["nvidia-h200/cuda", "intel-r-xeon-r-processor-16-cores/opencl/large"]),
        lambda row: row == (390, "nvidia-h200/cuda"),
    ),
)
@pytest.mark.thorough
def test_the_bar_stays_in_sight_and_hides_no_heading(open_page: Open, width: int, device: str) -> None:
    """The bar of another device than the first has more lines."""
    tab = open_page()
    tab.set_viewport_size({"width": width, "height": 844})
    choose(tab, device)
    heads = [f"main {selector} a.headerlink" for selector in ("h2", ".step h3")]
    links = [tab.eval_on_selector_all(selector, "all => all.map(element => element.hash)") for selector in heads]
    for link in [*links[0][-3:-1], *links[1][-2:]]:
        tab.goto(tab.url.partition("#")[0] + link)
        places = "[...document.querySelectorAll('.bd-header-article, .device-bar')].map(e => e.getBoundingClientRect())"
        (_, top), (above, below) = tab.evaluate(f"{places}.map(box => [box.top, box.bottom])")
        assert top - 1 <= above < top + 12, "below the theme's own bar"
        heading = tab.evaluate(
            "hash => document.querySelector(hash + ' :is(h2, h3)').getBoundingClientRect().top", link
        )
        assert below - 1 <= heading < below + 100


@pytest.mark.thorough
def test_the_choice_holds_on_the_labs_other_pages(open_page: Open) -> None:
    tab = open_page()
    choose(tab, "nvidia-h200/opencl")
    tab.click(".lab-pages >> text=Roofline and resources")
    wait_for_device(tab, "nvidia-h200/opencl")
    tables = [cell for cell in cell_texts(tab) if "Measured peaks of" in cell]
    assert tab.url.endswith("/labs/stencil/roofline.html") and tables
    tab.click(".lab-pages >> text=Story")
    wait_for_device(tab, "nvidia-h200/opencl")
    assert not [cell for cell in cell_texts(tab) if "Measured peaks of" in cell], "each page has its own cells"


def test_the_keyboard_chooses(open_page: Open) -> None:
    tab = open_page()
    tab.focus(BAR)
    tab.keyboard.press("ArrowDown")
    tab.wait_for_function(f"document.querySelector('{MESSAGE}').textContent.includes('now of')")
    assert tab.input_value(BAR) != "nvidia-h200/cuda" and "now of" in tab.inner_text(MESSAGE)


@pytest.mark.thorough
def test_a_device_that_cannot_be_loaded_leaves_the_page_and_a_message_says_so(open_page: Open) -> None:
    tab = open_page()
    before = cell_texts(tab)
    tab.route("**/on-devices/**", lambda route: route.abort())
    tab.select_option(BAR, "nvidia-h200/opencl")
    tab.wait_for_function(f"document.querySelector('{MESSAGE}').textContent.includes('could not be loaded')")
    assert cell_texts(tab) == before and tab.input_value(BAR) == "nvidia-h200/cuda"


def test_a_page_from_the_disk_can_choose_as_well(browser: Any, built_site: Path) -> None:
    tab = browser.new_page()
    tab.goto(f"file://{built_site}{PAGE}")
    choose(tab, "nvidia-h200/opencl")
    assert "NVIDIA H200, OpenCL:" in cell_texts(tab)[0]
    tab.close()


def test_without_javascript_the_page_is_whole_and_says_of_which_device_it_is(browser: Any, served_site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(served_site + PAGE)
    assert "All numbers of this page are of NVIDIA H200, CUDA." in tab.inner_text(".device-bar") and not tab.is_visible(
        BAR
    )
    assert "NVIDIA H200, CUDA:" in tab.inner_text(".on-device")
    context.close()


@pytest.mark.thorough
def test_a_lab_without_recorded_runs_shows_this_machine(open_page: Open) -> None:
    tab = open_page("/labs/lbm.html")
    names = tab.eval_on_selector_all(f"{BAR} option", "all => all.map(element => element.value)")
    assert names == ["here"] and tab.is_visible(".run-parameters") and cell_texts(tab)[0]
    assert not tab.is_visible(".device-bar select[name=case]") and not tab.inner_text(MESSAGE), "it has one case"


@pytest.mark.parametrize(
    "device", often(["nvidia-h200/cuda", "nvidia-h200/opencl"], {"nvidia-h200/opencl"}.__contains__)
)
@pytest.mark.thorough
def test_a_tables_csv_is_of_the_device_that_is_chosen(open_page: Open, device: str) -> None:
    tab = open_page("/labs/stencil/roofline.html")
    choose(tab, device)
    with tab.expect_download() as download:
        tab.locator("table.peaks a.csv").first.click()
    assert download.value.suggested_filename == f"stencil-{device.replace('/', '.')}-measured-peaks-of-nvidia-h200.csv"
    assert "estimate,low,high,unit" in Path(download.value.path()).read_text()
