"""Each figure of the built site: SVG and PNG to take away, its data as CSV, and words for those who do not see it."""

from __future__ import annotations

import csv
import html
import re
import struct
from pathlib import Path
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from ...tabs import Tabs

pytestmark = pytest.mark.site
KINDS = {
    "bars of all labs": ("index.html", "figure.found"),
    "descent": ("index.html", "figure.roofbook"),
    "descent to go through": ("labs/stencil.html", "figure.opening"),
    "bars of a ladder": ("labs/stencil/results.html", "figure.roofbook:has-text('Speedup of each variant')"),
    "roofline": ("labs/stencil/roofline.html", "figure.roofbook:has-text('Roofline')"),
    "sweep": ("labs/stencil/sweeps.html", "figure.roofbook:has-text('Which shape')"),
    "line": ("labs/stencil/sweeps.html", "figure.roofbook:has-text('multiple of 32')"),
    "forest": ("techniques/staging.html", "figure.roofbook:not(.animation)"),
    "animation": ("techniques/staging.html", "figure.animation"),
    "bandwidths": ("peaks.html", "figure.roofbook"),
    "devices side by side": ("devices.html", "figure.picked"),
}
"""Page and selector of a figure of each kind."""
FIGURE = re.compile(r"<figure\b([^>]*)>(.*?)</figure>", re.S)


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_is_there_to_take_away_as_svg_and_png(tabs: Tabs, served_site: str, tmp_path: Path, kind: str) -> None:
    page, selector = KINDS[kind]
    tab = tabs.open(1280, 844)
    tab.goto(f"{served_site}/{page}")
    figure = tab.locator(selector).first
    figure.wait_for()
    for suffix in ("svg", "png"):
        with tab.expect_download() as saved:
            figure.get_by_role("button", name=suffix.upper(), exact=True).click()
        assert re.fullmatch(rf"[a-z0-9.-]{{3,}}\.{suffix}", saved.value.suggested_filename)
        saved.value.save_as(tmp_path / f"figure.{suffix}")
    root = ElementTree.parse(tmp_path / "figure.svg").getroot()
    marks = [element for element in root.iter() if element.tag.rpartition("}")[2] in ("path", "rect", "use", "circle")]
    texts = ["".join(element.itertext()).strip() for element in root.iter() if element.tag.endswith("}text")]
    assert len(marks) > 3 and len([text for text in texts if text]) > 3
    assert root.find("{http://www.w3.org/2000/svg}title") is not None
    assert "var(" not in (tmp_path / "figure.svg").read_text(), "no colour of the page's style sheet is left to look up"
    picture = (tmp_path / "figure.png").read_bytes()
    width, height = struct.unpack(">II", picture[16:24])
    assert picture.startswith(b"\x89PNG") and width > 400 and height > 100 and len(picture) > 5000


def test_each_figure_has_words_and_its_data(built_site: Path) -> None:
    problems, count = [], 0
    for path in sorted(built_site.rglob("*.html")):
        if "/measurements/" in str(path) or path.name in ("strain.html", "slides.html"):
            continue  # cards, whose data are JSON; a page that no reader has; slides, whose figures are those of the lesson
        for attributes, body in FIGURE.findall(path.read_text(encoding="utf-8")):
            name = path.relative_to(built_site)
            label = re.search(r'aria-label="([^"]{20,})"', body)
            caption = re.search(r"<figcaption[^>]*>(.*?)</figcaption>", body, re.S)
            drawn_in_the_page = 'class="picked"' in attributes
            count += 1
            if not caption or not (label or "found" in attributes or drawn_in_the_page):
                problems.append(f"{name}: no words: {attributes} {body[:80]}")
            link = re.search(r'class="csv"[^>]* href="([^"]*)"', body)
            if drawn_in_the_page:
                continue  # beside its table
            if not link:
                problems.append(f"{name}: no data: {attributes} {body[:80]}")
                continue
            with (path.parent / unquote(html.unescape(link[1]))).open(newline="", encoding="utf-8") as file:
                if len(list(csv.reader(file))) < 2:
                    problems.append(f"{name}: no row in {link[1]}")
    assert not problems, "\n".join(problems)
    assert count > 50
