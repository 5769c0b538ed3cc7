"""A lab's page on paper: the tables of the chosen device, unfolded, not cut off and in light colours."""

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.book import device_choices, device_pages
from roofbook.report.html import Table

from ..report.rows import even, frame

ASSETS = Path(__file__).parents[2] / "book" / "_assets"
SHEET = 718
"""Width between the margins of a sheet of A4, in CSS pixels."""
CHOICES = [
    device_choices.DeviceChoice("first/cuda", "First GPU, CUDA"),
    device_choices.DeviceChoice("next/cuda", "Next GPU, CUDA"),
]


def tables(seconds: float) -> str:
    """Return a ladder, and the same ladder folded."""
    rows = frame(
        even("sequential", 4e-3), even("a-kernel-of-a-long-name", seconds, "sequential"), even("library", 3e-5, role="peer"),
        even("broken", 1e-5, "sequential", status="failed", reason="wrong result: " + "max error 3 > 1e-6, " * 9),
    )  # fmt: skip
    names = ["sequential", "a-kernel-of-a-long-name", "broken", "library"]
    changes = dict.fromkeys(names, "Three kernels become one, so that each cell is read and written once a time step.")
    table: Table = report.ladder(CaseData(rows, names, "256x256", bases=("sequential",), changes=changes))
    return f"{table.html}<details><summary>More</summary>{table.html.replace('Variant', 'Folded')}</details>"


@pytest.fixture
def tab(browser: Any, tmp_path: Path) -> Any:
    """Open the page of a lab on two devices in dark colours, choose the second device, and yield the tab."""
    (tmp_path / "next.cuda.js").write_text(
        device_choices.cells_script("next.cuda.js", {"x": tables(7.77e-4), "cases": ""})
    )
    bar = device_pages.bar("lbm", "", CHOICES, "")
    scripts = "".join(
        f'<script src="{(ASSETS / name).as_uri()}" defer></script>' for name in ("devices-of-page.js", "print.js")
    )
    (tmp_path / "lbm.html").write_text(
        f'<!doctype html><html lang="en" data-theme="dark"><head><meta charset="utf-8"><title>T</title>'
        f'<link rel="stylesheet" href="{(ASSETS / "roofbook.css").as_uri()}">{scripts}</head><body>'
        f'<main class="bd-article"><h1>T</h1>{bar}<div class="on-device" data-cell="x">{tables(1.11e-4)}</div></main>'
        '<footer class="bd-footer-content"><button class="print-page">Print</button></footer></body></html>'
    )
    page = browser.new_page(viewport={"width": SHEET, "height": 1000})
    page.goto((tmp_path / "lbm.html").as_uri())
    page.select_option("select[name=device]", "next/cuda")
    page.wait_for_function("document.body.textContent.includes('777')", timeout=300_000)
    yield page
    page.close()


def test_a_pdf_has_the_tables_of_the_chosen_device(tab: Any, tmp_path: Path) -> None:
    if not shutil.which("pdftotext"):
        pytest.skip("no pdftotext on PATH; to read a PDF: apt-get install poppler-utils")
    tab.pdf(path=tmp_path / "lab.pdf", format="A4", prefer_css_page_size=True)
    process = subprocess.run(
        ["pdftotext", "-layout", tmp_path / "lab.pdf", "-"], capture_output=True, text=True, check=True
    )
    words = process.stdout
    assert "Device: Next GPU, CUDA" in words and words.count("777") >= 2 and "111" not in words
    assert "Variant" in words and "Folded" in words, "also the table that is folded on a screen"
    assert not any(text in words for text in ("CSV", "All columns", "Print", "Error / allowed"))


def test_no_table_is_wider_than_the_sheet_and_nothing_to_press_is_on_it(tab: Any) -> None:
    tab.evaluate("dispatchEvent(new Event('beforeprint'))")
    tab.emulate_media(media="print")
    right = tab.evaluate(
        "[...document.querySelectorAll('th, td')].map(element => element.getBoundingClientRect().right)"
    )
    assert SHEET / 2 < max(right) <= SHEET
    assert tab.locator("button:visible, select:visible, input:visible, a.csv:visible").count() == 0
    assert tab.locator("td:visible").count() > 20 and tab.evaluate("document.documentElement.dataset.theme") == "light"
    tab.emulate_media(media="screen")
    tab.evaluate("dispatchEvent(new Event('afterprint'))")
    assert tab.evaluate("[document.documentElement.dataset.theme, document.querySelector('details').open]") == [
        "dark",
        False,
    ]
