"""Tasks of readers, done in a browser: from the front page by clicks, on a phone, mostly in the book's written pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from roofbook.spec import registry

from ...axe import Eyes

pytestmark = pytest.mark.site
Open = Callable[..., Any]


@pytest.fixture
def open_page(browser: Any, built_site: Path) -> Iterator[Open]:
    """Yield a function that opens a page on a phone, from the disk; fail on script errors and on too wide pages."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    page_errors: list[str] = []
    tabs: list[Any] = []

    def open_address(address: str = "index.html") -> Any:
        tab = context.new_page()
        tab.on("pageerror", lambda error: page_errors.append(str(error)))
        tab.goto(f"file://{built_site}/{address}")
        tabs.append(tab)
        return tab

    yield open_address
    for tab in tabs:
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()
    assert not page_errors


def in_sight(tab: Any, selector: str) -> bool:
    """Return whether the top of an element comes onto the screen: a page scrolls once it has its style sheet."""
    return bool(tab.wait_for_function("s => { const { top } = document.querySelector(s)?.getBoundingClientRect() ?? {}; "
                                      "return top > -40 && top < innerHeight; }", arg=selector, timeout=300_000))  # fmt: skip


def test_a_published_claim_that_did_not_hold_and_its_evidence(open_page: Open) -> None:
    """Two clicks: the front page's link, and the name of a step, which shows its difference."""
    tab = open_page()
    tab.click("text=Published claims that did not hold")
    assert tab.url.endswith("claims.html#what-did-not-hold") and in_sight(tab, "#what-did-not-hold h2")
    claim = tab.locator(".failed-claims > li", has_text="structure of arrays").first
    claim_text = " ".join(claim.inner_text().split())
    assert re.search(
        r"The report: structure of arrays 128x128, published [\d.]+: reversed on NVIDIA [\w ]+, CUDA: 0\.\d+ \[",
        claim_text,
    )
    claim.get_by_text("all devices").first.click()
    row = tab.locator("tr:target")
    assert "reversed" in row.inner_text() and row.is_visible() and in_sight(tab, "tr:target"), "also in a folded table"
    tab.go_back()
    claim.get_by_text("To measure it again").click()
    assert (
        "roofbook run lbm --scale published -p variants '[" in claim.inner_text()
        and "fused, soa]'" in claim.inner_text()
    )
    claim.get_by_role("link", name="soa", exact=True).first.click()
    tab.wait_for_selector("#soa .kernel-text pre")
    assert "labs/lbm/kernels.html#soa" in tab.url and tab.text_content("#soa .kernel-text pre").startswith(
        "--- fused\n+++ soa\n"
    )


def test_every_link_of_a_claim_that_failed_leads_to_a_kernel_and_a_row(built_site: Path) -> None:
    text = (built_site / "claims.html").read_text()
    (section,) = re.findall(r'<section id="what-did-not-hold">.*?</section>', text, re.S)
    assert len(re.findall("<li>", section)) > 5
    pages = {lab: (built_site / "labs" / lab / "kernels.html").read_text() for lab in registry.names()}
    for lab, name in re.findall(r'href="labs/(\w+)/kernels\.html#([^"]+)"', section):
        assert f'id="{name}"' in pages[lab], f"{lab} {name}"
    rows = re.findall(r'href="#(claim-[^"]+)"', section)
    assert rows and all(text.count(f'id="{row_id}"') == 1 for row_id in rows)


def test_whether_a_technique_pays_and_all_that_is_slower_on_a_device(open_page: Open) -> None:
    """One click to a technique's effects, and a second on a point to its step; one to all that is slower on a device."""
    tab = open_page("techniques.html")
    tab.locator("#what-made-something-slower-by-device summary", has_text="NVIDIA H200, CUDA").click()
    slower = tab.locator("#what-made-something-slower-by-device details[open] tbody tr")
    assert slower.count() > 20 and slower.first.locator("td.slower").inner_text().startswith("0.")
    tab.locator(".technique-list a", has_text="Staging in local memory").click()
    assert tab.url.endswith("techniques/staging.html")
    alone = tab.locator("li", has_text="local-tile").first.inner_text()
    assert re.search(r"Convolution layer: local-tile is 0\.\d+ to 0\.\d+ times as fast as fissioned", alone)
    tab.locator("a[data-tip^='cnn local-tile: slower']").first.click()
    assert tab.url.endswith("labs/cnn.html#step-local-tile") and in_sight(tab, "#step-local-tile")


@pytest.mark.thorough
def test_opencl_against_cuda_on_one_gpu(open_page: Open) -> None:
    """One click to the ratios of each lab; two more to the times of a step by both."""
    tab = open_page()
    tab.click("text=OpenCL against CUDA")
    section = "#opencl-against-cuda-device-against-device"
    assert tab.url.endswith(f"devices.html{section}")
    assert in_sight(tab, f"{section} table")
    table = tab.locator(f"{section} table", has_text="NVIDIA H200: OpenCL vs CUDA")
    line = table.locator("tr", has=tab.get_by_text("Lattice Boltzmann", exact=True))
    measurements, mean, least, greatest = (float(text) for text in line.locator("td").all_inner_texts()[:4])
    assert measurements > 10 and least <= mean <= greatest
    tab.select_option("#devices-pick [name=lab]", "lbm")
    tab.select_option("#devices-pick [name=case]", "published/1024x1024")
    bars = [" ".join(text.split()) for text in tab.locator(".pick-bar").all_inner_texts()]
    for backend in ("OpenCL", "CUDA"):
        assert any(text.startswith(f"NVIDIA H200, {backend} ") for text in bars)
    assert "#lab=lbm&case=published/1024x1024" in tab.url


@pytest.mark.thorough
def test_how_to_cite_the_licence_and_the_authors_of_the_reports(open_page: Open) -> None:
    """One click, in the foot of the page; the reference of a report is a second."""
    tab = open_page()
    tab.click("text=Data, licence, how to cite")
    assert tab.url.endswith("data.html")
    bibtex = tab.locator("#how-to-cite pre").inner_text()
    assert bibtex.startswith("@software{") and "title" in bibtex and "author" in bibtex
    assert "MIT License" in tab.locator("#licence").inner_text()
    credits = tab.locator("#credits tbody tr")
    assert [row.split()[0] for row in credits.all_inner_texts()] == list(registry.names())
    for position in range(credits.count()):
        credits.nth(position).locator("a").first.click()
        reference = tab.locator(".citation:target, .citation-list :target, dt:target, div:target").first
        assert len(reference.inner_text()) > 40, "title, course, university, year and address"


@pytest.mark.thorough
def test_how_to_put_a_device_in_the_book(open_page: Open) -> None:
    """One click, and the page has every command in its order."""
    tab = open_page()
    tab.click("text=Put your device in the book >> nth=0")
    section = "#put-your-device-in-the-book"
    assert tab.url.endswith(f"your-device.html{section}") and in_sight(tab, f"{section} h2")
    steps = tab.locator(f"{section} > ol > li").all_inner_texts()
    assert [text.partition(".")[0] for text in steps[1:]] == ["Measure", "Look at it", "Send it"] and "commit" in steps[
        0
    ]
    assert "results/record.sh OUT" in steps[1] and "folder of your choice" in steps[1]
    assert "cp -r OUT/recorded results/" in steps[2] and "make book" in steps[2] and "pull request" in steps[3]
    tab.click(f"{section} >> text=Data and credits")
    assert tab.url.endswith("data.html")


def test_how_to_add_a_kernel(open_page: Open) -> None:
    """One click to the page, one more to the kernel of its example, whose difference it quotes."""
    tab = open_page()
    tab.click("text=Add your kernel")
    assert tab.url.endswith("add-a-variant.html")
    titles = tab.locator("article h2").all_inner_texts()
    assert [title.partition(".")[0] for title in titles] == ["1", "2", "3", "4", "5"]
    article = tab.locator("article").inner_text()
    for text in (
        "lib/roofbook/labs/lbm/fused.k",
        "roofbook diff lbm select",
        "roofbook check lbm select",
        "make test",
        "pull request",
    ):
        assert text in article
    tab.click("article >> text=/^select$/ >> nth=0")
    tab.wait_for_selector("#select .kernel-text pre")
    assert tab.text_content("#select .kernel-text pre").startswith("--- kept-partials\n+++ select\n")


def test_search_finds_the_pages_that_say_how(browser: Any, served_site: str) -> None:
    pages_by_query = {
        "put your device": "your-device.html",
        "add a kernel": "add-a-variant.html",
        "did not hold": "claims.html#what-did-not-hold",
        "opencl against cuda": "devices.html",
    }
    tab = browser.new_page()
    for words, page in pages_by_query.items():
        tab.goto(f"{served_site}/search.html?q={words}")
        tab.wait_for_selector("#search-results p.search-summary >> text=/Search finished|did not match/")
        links = tab.eval_on_selector_all(
            "#search-results li > a", "all => all.map(element => element.getAttribute('href'))"
        )
        assert any(link.startswith(page) for link in links[:5]), (words, links[:5])
    tab.close()


@pytest.mark.thorough
def test_axe_finds_no_problem_in_the_pages_of_recorded_rows(browser: Any, built_site: Path) -> None:
    """The tests of the executed book look at the other pages."""
    tab, eyes = browser.new_page(viewport={"width": 390, "height": 844}), Eyes()
    problems = []
    for name in ("index", "claims", "devices"):
        tab.goto(f"file://{built_site}/{name}.html")
        problems += [f"{name}: {problem}" for problem in eyes.violations(tab)]
    tab.close()
    assert problems == []
