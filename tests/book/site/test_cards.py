"""Numbers of the built site: each leads to the card of its measurement, on the pages of labs, of devices and of history."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.site
LINK = re.compile(r'<a class="of" href="([^"#]*)#')


def test_the_pages_link_their_numbers(built_site: Path) -> None:
    """That each link has its end, the test of dead links says."""
    for name, least in (("labs/stencil.html", 20), ("labs/stencil/results.html", 100)):
        text = (built_site / name).read_text(encoding="utf-8")
        found = LINK.findall(text)
        assert len(found) + text.count(' data-of=""') >= least, name
        assert len(set(found)) == 1, f"{name}: all of the device that the page is of"


def test_a_reader_reads_where_a_number_is_from(browser: Any, served_site: str) -> None:
    """Interval, samples, run, commit, clocks and the command of a number of a story, which is a click away."""
    tab = browser.new_page(viewport={"width": 390, "height": 844})
    tab.goto(f"{served_site}/labs/stencil/results.html")
    number = tab.locator("td a.of:visible").first
    number.scroll_into_view_if_needed()
    number.click()
    tab.wait_for_selector("dialog.measurement[open] h2")
    said = tab.inner_text("dialog.measurement")
    for text in (
        "NVIDIA H200, CUDA",
        "Between runs",
        "Verified",
        "roofbook rerun stencil ",
        "--device cuda:0",
    ):
        assert text in said
    heads = "all => all.map(each => getComputedStyle(each, '::before').content)"
    assert '"Clock, MHz: "' in tab.eval_on_selector_all("dialog.measurement .card-runs td", heads), "a list, on a phone"
    assert re.search(r"\d{8}T\d{6}Z-[0-9a-f]{6}", said) and re.search(r"\b[0-9a-f]{10}\b", said)
    assert tab.evaluate("document.querySelector('dialog.measurement').scrollWidth") <= 390
    tab.close()
