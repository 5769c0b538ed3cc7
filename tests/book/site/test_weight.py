"""Cost of a first view of the site: bytes on the wire, which are exact, and a paint, with room for a busy host."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from ...often import often
from .test_site import pages

LIMIT_KB = {"plain": 600, "compressed": 300}
"""Most kB of a page with all files that it loads: 3 s at 1.6 Mbit/s if plain, half of that if compressed."""
SHARED_KB = {"plain": 212, "compressed": 54}
"""Most kB of the files that all pages load: everything but the page itself, its figures and STORY_SCRIPTS."""
STORY_SCRIPTS = ("_static/story.js", "_static/animations.js", "_static/run-buttons.js")
"""Scripts of the labs' stories alone."""
PAINT_S = 2.0
"""Most seconds to the first paint. The aim is 1 s, and the rest is for machines that run other tests; unreduced it was 7 s."""


def requested_addresses(browser: Any, address: str) -> list[str]:
    """Return the addresses that a first view of a page requests, the page's own first."""
    tab = browser.new_page()
    addresses: list[str] = []
    tab.on("request", lambda request: addresses.append(request.url.partition("?")[0]))
    tab.goto(address)
    tab.close()
    return addresses


def weights(site: Path, root: str, addresses: list[str]) -> dict[str, tuple[float, float]]:
    """Return, for each requested file of the site, its kB, and its kB compressed as a server does."""
    files = {address.removeprefix(f"{root}/"): site / address.removeprefix(f"{root}/") for address in addresses}
    texts = {name: path.read_bytes() for name, path in files.items() if path.is_file()}
    return {name: (len(text) / 1e3, len(gzip.compress(text, 6)) / 1e3) for name, text in texts.items()}


@pytest.mark.site
@pytest.mark.parametrize(
    "name",
    often(
        [
            "index.html",
            "method.html",
            "claims.html",
            "labs/lbm.html",
            "labs/lbm/results.html",
            "labs/lenet/roofline.html",
            "labs/strain.html",
        ],
        {"index.html", "labs/lbm.html", "labs/lbm/results.html"}.__contains__,
    ),
)
def test_a_first_view_is_light(browser: Any, served_site: str, built_site: Path, name: str) -> None:
    weight_by_file = weights(built_site, served_site, requested_addresses(browser, f"{served_site}/{name}"))
    other_files = {file: weight for file, weight in weight_by_file.items() if file not in (name, *STORY_SCRIPTS)}
    plain, compressed = (sum(weight[index] for weight in other_files.values()) for index in (0, 1))
    assert plain <= SHARED_KB["plain"] and compressed <= SHARED_KB["compressed"], other_files
    assert sum(weight[1] for weight in weight_by_file.values()) <= LIMIT_KB["compressed"], weight_by_file
    if not name.endswith("/results.html"):  # all tables and figures of all cases
        assert sum(weight[0] for weight in weight_by_file.values()) <= LIMIT_KB["plain"], weight_by_file
    assert not [file for file in other_files if file.endswith((".woff", ".woff2", ".ttf"))]


@pytest.mark.site
@pytest.mark.thorough
def test_only_the_search_page_loads_the_search_index(browser: Any, served_site: str, built_site: Path) -> None:
    assert not [address for address in requested_addresses(browser, f"{served_site}/index.html") if "search" in address]
    tab = browser.new_page()
    tab.goto(f"{served_site}/search.html?q=roofline")
    tab.wait_for_selector("#search-results li")
    tab.close()


@pytest.mark.site
def test_the_site_holds_no_file_that_no_page_loads_and_each_page_one_style_sheet(built_site: Path) -> None:
    assert not list((built_site / "_static").rglob("fontawesome*"))
    assert not [path for path in (built_site / "_static").rglob("*.map")]
    for name in pages(built_site):
        text = (built_site / name).read_text(encoding="utf-8")
        assert "mathjax/" not in text.lower() and 'class="fa-' not in text, name
        card = "/measurements/" in name  # whose style sheet is small
        if name.endswith("/slides.html"):
            assert "_static/slides.css" in text, "beside the site's, without JavaScript"
            continue
        sheets = re.findall(r'<link rel="stylesheet" href="([^"?]*)', text)
        assert len(sheets) == 2 - card and len({*sheets}) == 1, f"{name}: beside the page, and without JavaScript"


@pytest.mark.site
def test_formulas_are_read_without_javascript(browser: Any, served_site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{served_site}/labs/strain.html")
    text = tab.inner_text("article")
    formula = tab.query_selector("article math").bounding_box()
    light = tab.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor")
    context.close()
    assert "\\omega" not in text and "ω" in text
    assert formula["width"] > 100 and formula["height"] < 40
    assert light == "rgb(251, 251, 250)", "the book's colours, which wait for no script"


@pytest.mark.site
@pytest.mark.parametrize(
    "name",
    often(
        ["index.html", "search.html", "genindex.html", "labs/lbm.html", "labs/strain.html"],
        {"search.html", "labs/lbm.html"}.__contains__,
    ),
)
@pytest.mark.thorough
def test_no_element_shows_a_glyph_of_a_missing_font(browser: Any, served_site: str, name: str) -> None:
    tab = browser.new_page()
    tab.goto(f"{served_site}/{name}")
    glyphs = tab.evaluate(
        """() => [...document.querySelectorAll("body *:not(svg)")].flatMap(element => ["::before", "::after"].map(part =>
            `${element.tagName} ${element.className}: ${getComputedStyle(element, part).content}`))
            .filter(said => /[\ue000-\uf8ff]/.test(said))"""
    )
    tab.close()
    assert not glyphs


STYLES = """() => {
    const paths = new Map(), seen = new Map();
    const path = element => {
        const parent = element.parentElement, start = element === document.body ? "" : path(parent);
        if (!paths.has(element)) paths.set(element, `${start}>${element.tagName} ${element.className} ` +
            `${element.getAttributeNames()} ${element === parent.lastElementChild}`);
        return paths.get(element);
    };
    const names = style => [...style].filter(name => !name.startsWith("--"));
    const values = style => names(style).map(name => style.getPropertyValue(name)).join(";");
    const shown = style => style.content === "none" ? "none" : values(style);
    return [...document.querySelectorAll("body, body *")].filter(element => {
        seen.set(path(element), (seen.get(path(element)) ?? 0) + 1);
        return seen.get(path(element)) <= 3;
    }).map(element => [element.tagName, element.className, values(getComputedStyle(element)),
        ...["::before", "::after"].map(part => shown(getComputedStyle(element, part)))].join("|"));
}"""
"""JavaScript: the styles of the first three elements of each path, last children apart: rows come in stripes."""

IN_SIGHT = """() => [...document.querySelectorAll("body *")].flatMap(element => {
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    const seen = box.width && box.height && box.top < innerHeight && box.bottom > 0 && box.left < innerWidth && box.right > 0;
    const cut = Math.min(box.bottom, innerHeight);
    const places = [box.left, box.top, box.right, cut].map(Math.round);
    return seen ? [[element.tagName, ...places, style.color, style.backgroundColor, style.fontSize].join(" ")] : [];
})"""
"""JavaScript: position, colours and font size of each element that the first screen shows."""


@pytest.mark.thorough
@pytest.mark.site
@pytest.mark.parametrize("name", ["index.html", "search.html", "labs/strain.html"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1400)])
def test_the_one_style_sheet_looks_like_all_sheets_of_the_theme(
    browser: Any, served_site: str, built_site: Path, name: str, scheme: str, width: int
) -> None:
    """Each sort of element has equal properties under the sheet of the site and under the sheets that it was combined from."""
    root = "../" if "/" in name else ""
    order = ("styles/theme.css", "styles/pydata-sphinx-theme.css", "pygments.css", "styles/sphinx-book-theme.css")
    mystnb = next((built_site / "_static").glob("mystnb*.css")).name
    sheets = [*order, mystnb, "copybutton.css", "sphinx-design.min.css", "roofbook.css"]
    links = "".join(f'<link rel="stylesheet" href="{root}_static/{sheet}">' for sheet in sheets)
    first = "document.querySelector('style[data-sheet]')"
    tab = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce")
    still = "() => document.getAnimations().every(element => element.playState !== 'running')"
    tab.goto(f"{served_site}/{name}")
    tab.wait_for_function(still)
    styles_of_site, in_sight = tab.evaluate(STYLES), tab.evaluate(IN_SIGHT)
    tab.evaluate("document.querySelector('link[rel=stylesheet]').disabled = true")
    tab.wait_for_function(still)
    assert tab.evaluate(IN_SIGHT) == in_sight, "the page's own rules paint its first screen as the sheet does"
    tab.evaluate(f"{first}.remove()")
    assert tab.evaluate(IN_SIGHT) != in_sight
    tab.evaluate("html => document.querySelector('link[rel=stylesheet]').outerHTML = html", links)
    tab.wait_for_function("[...document.querySelectorAll('link[rel=stylesheet]')].every(element => element.sheet)")
    tab.wait_for_function(still)
    styles_of_theme = tab.evaluate(STYLES)
    tab.close()
    assert len(styles_of_site) == len(styles_of_theme) > 50
    assert [
        site_style[:200]
        for site_style, theme_style in zip(styles_of_site, styles_of_theme, strict=True)
        if site_style != theme_style
    ] == []


def first_paint(browser: Any, address: str) -> float:
    """Return the seconds to the first paint on a phone: 1.6 Mbit/s, uncompressed, processor slowed 4 times, nothing cached."""
    context = browser.new_context(viewport={"width": 390, "height": 844})
    tab = context.new_page()
    tools = context.new_cdp_session(tab)
    speed = {"offline": False, "latency": 0, "downloadThroughput": 200e3, "uploadThroughput": 100e3}
    tools.send("Network.enable")
    tools.send("Network.emulateNetworkConditions", speed)
    tools.send("Emulation.setCPUThrottlingRate", {"rate": 4})
    tab.goto(address)
    paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    tab.wait_for_function(paint)
    seconds = float(tab.evaluate(paint)) / 1e3
    tab.wait_for_load_state()
    blocking = "performance.getEntriesByType('resource').filter(element => element.renderBlockingStatus === 'blocking')"
    assert tab.evaluate(f"{blocking}.map(element => element.name)") == []
    context.close()
    return seconds


@pytest.mark.site
@pytest.mark.thorough
def test_the_first_paint_on_a_slow_line(browser: Any, served_site: str) -> None:
    """Load the page up to twenty times and take the shortest time, since other load of a machine only ever adds."""
    paint_times: list[float] = []
    while len(paint_times) < 20 and not (paint_times and min(paint_times) <= PAINT_S):
        paint_times.append(first_paint(browser, f"{served_site}/index.html"))
    assert min(paint_times) <= PAINT_S, paint_times
