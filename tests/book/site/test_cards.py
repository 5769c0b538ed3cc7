"""Numbers of the built site: each links to the card of its measurement, on the pages of labs, of devices and of history."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.site
LINK = re.compile(r'<a class="of" href="([^"#]*)#')


def test_the_pages_link_their_numbers(built_site: Path) -> None:
    """Count the links of two pages; the test of dead links follows each of them."""
    for name, least in (("labs/stencil.html", 20), ("labs/stencil/results.html", 100)):
        text = (built_site / name).read_text(encoding="utf-8")
        links = LINK.findall(text)
        assert len(links) + text.count('<a class="of">') >= least, name
        assert len(set(links)) == 1, f"{name}: all of the device that the page is of"


def test_a_click_on_a_number_shows_its_measurement(browser: Any, served_site: str) -> None:
    """The card holds the interval, samples, run, commit, clocks and the command of the number."""
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(f"{served_site}/labs/stencil/results.html")
    number = tab.locator("td a.of:visible").first
    number.scroll_into_view_if_needed()
    number.click()
    tab.wait_for_selector("dialog.measurement[open] h2")
    card = tab.inner_text("dialog.measurement")
    for text in (
        "NVIDIA H200, CUDA",
        "Between runs",
        "Verified",
        "roofbook rerun stencil ",
        "--device cuda:0",
    ):
        assert text in card
    heads = "all => all.map(element => getComputedStyle(element, '::before').content)"
    assert '"Clock, MHz: "' in tab.eval_on_selector_all("dialog.measurement .card-runs td", heads), "a list, on a phone"
    assert re.search(r"\d{8}T\d{6}Z-[0-9a-f]{6}", card) and re.search(r"\b[0-9a-f]{10}\b", card)
    assert tab.evaluate("document.querySelector('dialog.measurement').scrollWidth") <= 390
    tab.close()
