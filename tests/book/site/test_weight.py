"""What a first view of the site costs: bytes on the wire, which are exact, and a paint, with room for a busy host."""

from __future__ import annotations

import gzip
import re
from pathlib import Path
from typing import Any

import pytest

from .test_site import pages

LIMIT_KB = {"plain": 600, "compressed": 300}
"""As it is, a page is loaded in 3 s at 1.6 Mbit/s; compressed, in half of that."""
SHARED_KB = {"plain": 195, "compressed": 52}
"""What a page loads beside itself and its figures, the same for all of them."""
PAINT_S = 2.0
"""The aim is 1 s. A machine that runs other tests meanwhile is given the rest; without any care for weight it was 7 s."""


def loaded(browser: Any, address: str) -> list[str]:
    """The addresses of all that a first view of a page asks for, itself first."""
    tab = browser.new_page()
    asked: list[str] = []
    tab.on("request", lambda request: asked.append(request.url.partition("?")[0]))
    tab.goto(address)
    tab.close()
    return asked


def weights(site: Path, served: str, asked: list[str]) -> dict[str, tuple[float, float]]:
    """By file kB as it is, and compressed as a server does."""
    files = {each.removeprefix(f"{served}/"): site / each.removeprefix(f"{served}/") for each in asked}
    texts = {name: path.read_bytes() for name, path in files.items() if path.is_file()}
    return {name: (len(text) / 1e3, len(gzip.compress(text, 6)) / 1e3) for name, text in texts.items()}


@pytest.mark.site
@pytest.mark.parametrize(
    "name",
    [
        "index.html",
        "method.html",
        "claims.html",
        "labs/lbm.html",
        "labs/lbm/results.html",
        "labs/lenet/roofline.html",
        "labs/strain.html",
    ],
)
def test_a_first_view_is_light(browser: Any, served_site: str, built_site: Path, name: str) -> None:
    found = weights(built_site, served_site, loaded(browser, f"{served_site}/{name}"))
    beside = {each: weight for each, weight in found.items() if each != name}
    plain, compressed = (sum(weight[at] for weight in beside.values()) for at in (0, 1))
    assert plain <= SHARED_KB["plain"] and compressed <= SHARED_KB["compressed"], beside
    assert sum(weight[1] for weight in found.values()) <= LIMIT_KB["compressed"], found
    if not name.endswith("/results.html"):  # all tables and figures of all cases
        assert sum(weight[0] for weight in found.values()) <= LIMIT_KB["plain"], found
    assert not [each for each in beside if each.endswith((".woff", ".woff2", ".ttf"))]


@pytest.mark.site
def test_the_index_of_the_search_is_loaded_where_one_searches(browser: Any, served_site: str, built_site: Path) -> None:
    assert not [each for each in loaded(browser, f"{served_site}/index.html") if "search" in each]
    tab = browser.new_page()
    tab.goto(f"{served_site}/search.html?q=roofline")
    tab.wait_for_selector("#search-results li")
    tab.close()


@pytest.mark.site
def test_nothing_waits_on_a_page_for_what_no_page_loads(built_site: Path) -> None:
    assert not list((built_site / "_static").rglob("fontawesome*"))
    assert not [each for each in (built_site / "_static").rglob("*.map")]
    for name in pages(built_site):
        text = (built_site / name).read_text(encoding="utf-8")
        assert "mathjax/" not in text.lower() and 'class="fa-' not in text, name
        card = "/measurements/" in name  # whose style sheet is small
        sheets = re.findall(r'<link rel="stylesheet" href="([^"?]*)', text)
        assert len(sheets) == 2 - card and len({*sheets}) == 1, f"{name}: beside the page, and without JavaScript"


@pytest.mark.site
def test_formulas_are_read_without_javascript(browser: Any, served_site: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(f"{served_site}/labs/strain.html")
    said = tab.inner_text("article")
    formula = tab.query_selector("article math").bounding_box()
    light = tab.eval_on_selector("body", "e => getComputedStyle(e).backgroundColor")
    context.close()
    assert "\\omega" not in said and "ω" in said
    assert formula["width"] > 100 and formula["height"] < 40
    assert light == "rgb(251, 251, 250)", "the book's colours, which wait for no script"


@pytest.mark.site
@pytest.mark.parametrize("name", ["index.html", "search.html", "genindex.html", "labs/lbm.html", "labs/strain.html"])
def test_nothing_shows_a_glyph_of_a_font_that_is_not_there(browser: Any, served_site: str, name: str) -> None:
    tab = browser.new_page()
    tab.goto(f"{served_site}/{name}")
    found = tab.evaluate(
        """() => [...document.querySelectorAll("body *:not(svg)")].flatMap(each => ["::before", "::after"].map(part =>
            `${each.tagName} ${each.className}: ${getComputedStyle(each, part).content}`))
            .filter(said => /[\ue000-\uf8ff]/.test(said))"""
    )
    tab.close()
    assert not found


STYLES = """() => {
    const paths = new Map(), seen = new Map();
    const path = each => {
        if (!paths.has(each)) paths.set(each, `${each === document.body ? "" : path(each.parentElement)}>${each.tagName} ` +
            `${each.className} ${each.getAttributeNames()} ${each === each.parentElement.lastElementChild}`);
        return paths.get(each);
    };
    const names = style => [...style].filter(name => !name.startsWith("--"));
    const values = style => names(style).map(name => style.getPropertyValue(name)).join(";");
    const shown = style => style.content === "none" ? "none" : values(style);
    return [...document.querySelectorAll("body, body *")].filter(each => {
        seen.set(path(each), (seen.get(path(each)) ?? 0) + 1);
        return seen.get(path(each)) <= 3;
    }).map(each => [each.tagName, each.className, values(getComputedStyle(each)),
        ...["::before", "::after"].map(part => shown(getComputedStyle(each, part)))].join("|"));
}"""
"""Of the first, second and third element of each path, and of the last in its parent: the rows of a table come in stripes."""

IN_SIGHT = """() => [...document.querySelectorAll("body *")].flatMap(each => {
    const box = each.getBoundingClientRect(), style = getComputedStyle(each);
    const seen = box.width && box.height && box.top < innerHeight && box.bottom > 0 && box.left < innerWidth && box.right > 0;
    const cut = Math.min(box.bottom, innerHeight);
    const places = [box.left, box.top, box.right, cut].map(Math.round);
    return seen ? [[each.tagName, ...places, style.color, style.backgroundColor, style.fontSize].join(" ")] : [];
})"""


@pytest.mark.thorough
@pytest.mark.site
@pytest.mark.parametrize("name", ["index.html", "search.html", "labs/strain.html"])
@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 1400)])
def test_the_one_sheet_looks_as_all_of_the_themes_do(
    browser: Any, served_site: str, built_site: Path, name: str, scheme: str, width: int
) -> None:
    """Every property of each sort of element, by the sheet of the site and by the sheets that it was made from."""
    root = "../" if "/" in name else ""
    order = ("styles/theme.css", "styles/pydata-sphinx-theme.css", "pygments.css", "styles/sphinx-book-theme.css")
    mystnb = next((built_site / "_static").glob("mystnb*.css")).name
    whole = [*order, mystnb, "copybutton.css", "sphinx-design.min.css", "roofbook.css"]
    links = "".join(f'<link rel="stylesheet" href="{root}_static/{each}">' for each in whole)
    first = "document.querySelector('style[data-sheet]')"
    tab = browser.new_page(color_scheme=scheme, viewport={"width": width, "height": 900}, reduced_motion="reduce")
    still = "() => document.getAnimations().every(each => each.playState !== 'running')"
    tab.goto(f"{served_site}/{name}")
    tab.wait_for_function(still)
    ours, in_place = tab.evaluate(STYLES), tab.evaluate(IN_SIGHT)
    tab.evaluate("document.querySelector('link[rel=stylesheet]').disabled = true")
    tab.wait_for_function(still)
    assert tab.evaluate(IN_SIGHT) == in_place, "the page's own rules paint its first screen as the sheet does"
    tab.evaluate(f"{first}.remove()")
    assert tab.evaluate(IN_SIGHT) != in_place
    tab.evaluate("html => document.querySelector('link[rel=stylesheet]').outerHTML = html", links)
    tab.wait_for_function("[...document.querySelectorAll('link[rel=stylesheet]')].every(each => each.sheet)")
    tab.wait_for_function(still)
    theirs = tab.evaluate(STYLES)
    tab.close()
    assert len(ours) == len(theirs) > 50
    assert [one[:200] for one, other in zip(ours, theirs, strict=True) if one != other] == []


def first_paint(browser: Any, address: str) -> float:
    """Seconds until a phone shows something at 1.6 Mbit/s, uncompressed, with the processor slowed 4 times, nothing cached."""
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
    took = float(tab.evaluate(paint)) / 1e3
    tab.wait_for_load_state()
    waited = "performance.getEntriesByType('resource').filter(each => each.renderBlockingStatus === 'blocking')"
    assert tab.evaluate(f"{waited}.map(each => each.name)") == []
    context.close()
    return took


@pytest.mark.site
def test_the_first_paint_on_a_slow_line(browser: Any, served_site: str) -> None:
    """The quickest of five loads at most, as what else a machine does only ever adds."""
    took: list[float] = []
    while len(took) < 5 and not (took and min(took) <= PAINT_S):
        took.append(first_paint(browser, f"{served_site}/index.html"))
    assert min(took) <= PAINT_S, took
