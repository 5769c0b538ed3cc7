"""What readers come for, done as they would do it: from the front page by clicks, on a phone, in the book's written pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.spec import registry

from ..axe import Eyes
from ..served import served


@pytest.fixture
def site(written_site: Path) -> Path:
    return written_site


Open = Callable[..., Any]


@pytest.fixture
def opened(browser: Any, site: Path) -> Iterator[Open]:
    """Opens the front page on a phone, from the disk; nothing may go wrong in it, and nothing is wider than the screen."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    wrong: list[str] = []
    tabs: list[Any] = []

    def open_page(address: str = "index.html") -> Any:
        tab = context.new_page()
        tab.on("pageerror", lambda error: wrong.append(str(error)))
        tab.goto(f"file://{site}/{address}")
        tabs.append(tab)
        return tab

    yield open_page
    for tab in tabs:
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
    assert not wrong


def in_sight(tab: Any, selector: str) -> bool:
    """Whether the top of an element comes onto the screen: a page scrolls once it has its style sheet."""
    return bool(tab.wait_for_function("s => { const { top } = document.querySelector(s)?.getBoundingClientRect() ?? {}; "
                                      "return top > -40 && top < innerHeight; }", arg=selector, timeout=300_000))  # fmt: skip


def test_a_published_claim_that_did_not_hold_and_its_evidence(opened: Open) -> None:
    """Two clicks: the front page's link, and the name of a step, which shows what it changes."""
    tab = opened()
    tab.click("text=Published claims that did not hold")
    assert tab.url.endswith("claims.html#what-did-not-hold") and in_sight(tab, "#what-did-not-hold h2")
    item = tab.locator(".failed-claims > li", has_text="structure of arrays").first
    said = " ".join(item.inner_text().split())
    assert re.search(
        r"The report: structure of arrays 128x128, published [\d.]+: reversed on NVIDIA [\w ]+, CUDA: 0\.\d+ \[", said
    )
    item.get_by_text("all devices").first.click()
    row = tab.locator("tr:target")
    assert "reversed" in row.inner_text() and row.is_visible() and in_sight(tab, "tr:target"), (
        "also of a table that was folded"
    )
    tab.go_back()
    item.get_by_text("To measure it again").click()
    assert "roofbook run lbm --scale published -p variants '[fused, soa]'" in item.inner_text()
    item.get_by_role("link", name="soa", exact=True).first.click()
    tab.wait_for_selector("#soa .kernel-text pre")
    assert "labs/lbm/kernels.html#soa" in tab.url and tab.text_content("#soa .kernel-text pre").startswith(
        "--- fused\n+++ soa\n"
    )


def test_every_link_of_a_claim_that_failed_leads_to_a_kernel_and_a_row(site: Path) -> None:
    text = (site / "claims.html").read_text()
    (section,) = re.findall(r'<section id="what-did-not-hold">.*?</section>', text, re.S)
    assert len(re.findall("<li>", section)) > 5
    pages = {lab: (site / "labs" / lab / "kernels.html").read_text() for lab in registry.names()}
    for lab, name in re.findall(r'href="labs/(\w+)/kernels\.html#([^"]+)"', section):
        assert f'id="{name}"' in pages[lab], f"{lab} {name}"
    rows = re.findall(r'href="#(claim-[^"]+)"', section)
    assert rows and all(text.count(f'id="{each}"') == 1 for each in rows)


def test_opencl_against_cuda_on_one_gpu(opened: Open) -> None:
    """One click to the ratios of each lab; two more to the times of a step by both."""
    tab = opened()
    tab.click("text=OpenCL against CUDA")
    section = "#opencl-against-cuda-device-against-device"
    assert tab.url.endswith(f"devices.html{section}")
    assert in_sight(tab, f"{section} table")
    table = tab.locator(f"{section} table", has_text="NVIDIA H200: OpenCL vs CUDA")
    line = table.locator("tr", has=tab.get_by_text("Lattice Boltzmann", exact=True))
    measurements, mean, least, greatest = (float(each) for each in line.locator("td").all_inner_texts()[:4])
    assert measurements > 10 and least <= mean <= greatest
    tab.select_option("#devices-pick [name=lab]", "lbm")
    tab.select_option("#devices-pick [name=case]", "published/1024x1024")
    bars = [" ".join(each.split()) for each in tab.locator(".pick-bar").all_inner_texts()]
    for backend in ("OpenCL", "CUDA"):
        assert any(each.startswith(f"NVIDIA H200, {backend} ") for each in bars)
    assert "#lab=lbm&case=published/1024x1024" in tab.url


def test_how_to_cite_the_licence_and_whose_the_reports_are(opened: Open) -> None:
    """One click, in the foot of the page; the reference of a report is a second."""
    tab = opened()
    tab.click("text=Data, licence, how to cite")
    assert tab.url.endswith("data.html")
    bibtex = tab.locator("#how-to-cite pre").inner_text()
    assert bibtex.startswith("@software{") and "title" in bibtex and "author" in bibtex
    assert "MIT License" in tab.locator("#licence").inner_text()
    credits = tab.locator("#credits tbody tr")
    assert [row.split()[0] for row in credits.all_inner_texts()] == list(registry.names())
    for at in range(credits.count()):
        credits.nth(at).locator("a").first.click()
        reference = tab.locator(".citation:target, .citation-list :target, dt:target, div:target").first
        assert len(reference.inner_text()) > 40, "title, course, university, year and address"


def test_how_to_put_a_device_in_the_book(opened: Open) -> None:
    """One click, and the page has every command in its order."""
    tab = opened()
    tab.click("text=Put your device in the book >> nth=0")
    section = "#put-your-device-in-the-book"
    assert tab.url.endswith(f"your-device.html{section}") and in_sight(tab, f"{section} h2")
    steps = tab.locator(f"{section} > ol > li").all_inner_texts()
    assert [each.partition(".")[0] for each in steps[1:]] == ["Measure", "Look at it", "Send it"] and "commit" in steps[
        0
    ]
    assert "results/record.sh OUT" in steps[1] and "folder of your choice" in steps[1]
    assert "cp -r OUT/recorded results/" in steps[2] and "make book" in steps[2] and "pull request" in steps[3]
    tab.click(f"{section} >> text=Data and credits")
    assert tab.url.endswith("data.html")


def test_how_to_add_a_kernel(opened: Open) -> None:
    """One click to the page, one more to the kernel that it follows, whose difference has the lines of the page."""
    tab = opened()
    tab.click("text=Add your kernel")
    assert tab.url.endswith("add-a-variant.html")
    titles = tab.locator("article h2").all_inner_texts()
    assert [each.partition(".")[0] for each in titles] == ["1", "2", "3", "4", "5"]
    shown = tab.locator("article").inner_text()
    for said in (
        "lib/roofbook/labs/lbm/fused.k",
        "roofbook diff lbm select",
        "roofbook check lbm select",
        "make test",
        "pull request",
    ):
        assert said in shown
    tab.click("article >> text=/^select$/ >> nth=0")
    tab.wait_for_selector("#select .kernel-text pre")
    assert tab.text_content("#select .kernel-text pre").startswith("--- kept-partials\n+++ select\n")


def test_search_finds_the_pages_that_say_how(browser: Any, site: Path) -> None:
    asked = {
        "put your device": "your-device.html",
        "add a kernel": "add-a-variant.html",
        "did not hold": "claims.html#what-did-not-hold",
        "opencl against cuda": "devices.html",
    }
    tab = browser.new_page()
    with served(site) as address:
        for words, page in asked.items():
            tab.goto(f"{address}/search.html?q={words}")
            tab.wait_for_selector("#search-results p.search-summary >> text=/Search finished|did not match/")
            links = tab.eval_on_selector_all(
                "#search-results li > a", "all => all.map(element => element.getAttribute('href'))"
            )
            assert any(link.startswith(page) for link in links[:5]), (words, links[:5])
    tab.close()


def test_axe_finds_nothing_in_the_pages_of_what_is_recorded(browser: Any, site: Path) -> None:
    """The other pages are those of the executed book, whose tests look at each."""
    tab, eyes = browser.new_page(viewport={"width": 390, "height": 844}), Eyes()
    found = []
    for name in ("index", "claims", "devices"):
        tab.goto(f"file://{site}/{name}.html")
        found += [f"{name}: {each}" for each in eyes.violations(tab)]
    tab.close()
    assert found == []
