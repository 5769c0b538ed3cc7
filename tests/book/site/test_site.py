"""The built site in a browser: offline, at the widths of a desktop and of a phone, in light and in dark colours."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import urllib.parse
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import html5lib
import pytest

from roofbook.book import execute, page_html, site
from roofbook.errors import UsageError

from ...axe import SCHEMES, Eyes, violations
from ...often import often

PHONE, DESKTOP = 390, 1400
WIDTHS = (PHONE, 320, 640, DESKTOP)
"""640 and 320: a desktop of 1280 px at a zoom of 200 % and of 400 %. WCAG 2 wants pages to be read at these without scrolling
sideways."""

SETTLED = "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done))))"
"""JavaScript that waits until a script of the theme has made scrolling regions focusable, after a delay that is 0 here."""


class Page(HTMLParser):
    """Parser that collects the ids, links and resources of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.resources: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        if attributes.get("id"):
            self.ids.append(str(attributes["id"]))
        if tag == "a" and attributes.get("href"):
            self.links.append(str(attributes["href"]))
        for name in ("src", "href"):
            if tag in ("script", "link", "img", "iframe", "source") and attributes.get(name):
                self.resources.append(str(attributes[name]))


def pages(site: Path) -> dict[str, Page]:
    """Return the pages of a site by name, without the theme's own templates under _static."""
    return {str(p.relative_to(site)): Page(p) for p in sorted(site.rglob("*.html")) if "_static" not in p.parts}


def distinct_pages(site: Path) -> list[str]:
    """Return the names of all pages, with only the longest of each lab's pages of measurements, which are alike."""
    names = list(pages(site))
    alike = [name for name in names if name.partition("/measurements/")[1]]
    by_length = sorted(alike, key=lambda name: (site / name).stat().st_size)
    longest = {name.partition("/measurements/")[0]: name for name in by_length}
    return [name for name in names if name not in alike or name in longest.values()]


@pytest.mark.site
def test_no_dead_links_no_double_ids_and_nothing_from_the_network(built_site: Path) -> None:
    pages_by_name = pages(built_site)
    assert {"index.html", "method.html", "labs/lbm.html", "labs/lbm/results.html", "glossary.html"} <= set(
        pages_by_name
    )
    problems = []
    for name, page in pages_by_name.items():
        problems += [f"{name}: id {identifier} twice" for identifier in set(page.ids) if page.ids.count(identifier) > 1]
        problems += [f"{name}: loads {address}" for address in page.resources if re.match(r"(https?:)?//", address)]
        for link in [*page.links, *page.resources]:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or link in ("", "#"):
                continue
            target = (built_site / name).parent / urllib.parse.unquote(parts.path) if parts.path else built_site / name
            target = target.resolve()
            if not target.exists():
                problems.append(f"{name}: dead link {link}")
            elif parts.fragment and target.suffix == ".html":
                target_page = pages_by_name[str(target.relative_to(built_site.resolve()))]
                if urllib.parse.unquote(parts.fragment) not in target_page.ids:
                    problems.append(f"{name}: dead anchor {link}")
    assert not problems, "\n".join(problems)


@pytest.mark.site
def test_pages_are_valid_html(built_site: Path) -> None:
    """A parser that follows the HTML standard reports no error."""
    problems = []
    for name in distinct_pages(built_site):
        parser = html5lib.HTMLParser()
        parser.parse((built_site / name).read_text(encoding="utf-8"))
        problems += [f"{name}, line {line}: {code} {values}" for (line, _), code, values in parser.errors]
    assert not problems, "\n".join(problems)


def table_with(tab: Any, odd: str, plain: str = "<td>{number}</td>") -> None:
    """Show a page with a table of a hundred rows, all like `plain` except the 71st, which is like `odd`."""
    rows = [f"<tr>{(odd if number == 70 else plain).format(number=number)}</tr>" for number in range(100)]
    style = "<style>[data-theme=dark] .half { color: #333; background: #222 }</style>"
    tab.set_content(
        f"<html lang='en'><title>T</title>{style}<main><h1>T</h1><table>{''.join(rows)}</table></main></html>"
    )


@pytest.mark.site
def test_no_backquote_is_left_in_the_prose_of_a_page(built_site: Path) -> None:
    pages = list(built_site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        article = page.read_text().partition("<article")[2].partition("</article>")[0]
        prose = re.sub(r"<(pre|code|script)\b.*?</\1>|<[^>]*>", "", article, flags=re.DOTALL)
        assert "`" not in prose, f"{page.name}: {prose[max(0, prose.index('`') - 40) :][:100]}"


@pytest.mark.site
@pytest.mark.parametrize(
    ("faint", "scheme"),
    often(
        [("style='color: #999'", "light"), ("style='opacity: 0.4'", "light"), ("class='half'", "dark")],
        lambda row: row[1] == "dark",
    ),
)
@pytest.mark.thorough
def test_a_faint_text_among_many_is_found(browser: Any, faint: str, scheme: str) -> None:
    """The faint text is found after the plain rows were checked before, in the colour scheme in which it is faint."""
    tab, eyes = browser.new_page(), Eyes()
    table_with(tab, "<td>{number}</td>")
    assert eyes.reduced(tab) == []
    table_with(tab, f"<td {faint}>{{number}}</td>")
    problems = eyes.reduced(tab)
    texts, checked_texts = (
        tab.locator(selector).all_text_contents() for selector in ("td", "td[data-light], td[data-dark]")
    )
    tab.close()
    assert problems and problems[0].startswith(f"{scheme}: color-contrast: ") and checked_texts == ["70"]
    assert texts == ["0", "70"]


@pytest.mark.site
@pytest.mark.parametrize(
    ("odd", "rule"),
    often(
        [
            ("<td><img src='data:,'></td>", "image-alt"),
            ("<td><button></button></td>", "button-name"),
            ("<td><a href='#' aria-label=''></a></td>", "link-name"),
            ("<td role='nothing'>{number}</td>", "aria-roles"),
            ("<td><input></td>", "label"),
        ],
        lambda row: row[1] == "link-name",
    ),
)
@pytest.mark.thorough
def test_a_mistake_in_one_row_of_many_is_found(browser: Any, odd: str, rule: str) -> None:
    """The mistake is found even if the other rows have the same element without it."""
    tab, eyes = browser.new_page(), Eyes()
    for plain in ("<td>{number}</td>", "<td><img alt='x' src='data:,'><a href='#'>x</a><button>x</button></td>"):
        table_with(tab, odd, plain)
        assert [problem.partition(":")[0] for problem in eyes.violations(tab)] == [rule]
    tab.close()


@pytest.mark.thorough
@pytest.mark.site
def test_every_page_in_the_browser(browser: Any, served_site: str, built_site: Path) -> None:
    """Each page is loaded once, at the width of a phone, where more regions scroll; colours are checked in both schemes."""
    page_problems: list[str] = []
    tab, eyes = browser.new_page(color_scheme=SCHEMES[0]), Eyes()
    tab.add_init_script("const later = setTimeout; setTimeout = (act, _, ...given) => later(act, 0, ...given)")
    tab.on(
        "request",
        lambda r: page_problems.append(f"asks for {r.url}") if not r.url.startswith((served_site, "data:")) else None,
    )
    tab.on("response", lambda r: page_problems.append(f"{r.status} for {r.url}") if r.status >= 400 else None)
    tab.on("console", lambda m: page_problems.append(f"console: {m.text}") if m.type == "error" else None)
    tab.on("pageerror", lambda error: page_problems.append(str(error)))
    problems: list[str] = []
    for name in distinct_pages(built_site):
        page_problems.clear()
        tab.set_viewport_size({"width": PHONE, "height": 900})
        tab.goto(f"{served_site}/{name}")
        assert tab.evaluate("document.documentElement.dataset.theme") == SCHEMES[0]
        for width in WIDTHS:
            tab.set_viewport_size({"width": width, "height": 900})
            excess = tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            if excess > 0:
                page_problems.append(f"{excess} px too wide for {width}")
            if width == DESKTOP:
                page_problems += eyes.reduced(tab)
        tab.set_viewport_size({"width": PHONE, "height": 900})
        tab.evaluate(SETTLED)
        page_problems += violations(tab, {"rules": {"color-contrast": {"enabled": False}}})
        problems += [f"{name}: {problem}" for problem in page_problems]
    tab.close()
    assert not problems, "\n".join(dict.fromkeys(problems))


@pytest.mark.site
@pytest.mark.thorough
def test_a_page_is_in_the_colours_that_the_readers_system_has(browser: Any, served_site: str) -> None:
    tab = browser.new_page(color_scheme="dark")
    for name in ("index", "labs/lbm", "labs/lbm/kernels", "labs/stencil/results", "search"):
        tab.goto(f"{served_site}/{name}.html")
        assert tab.evaluate("document.documentElement.dataset.theme") == "dark"
    tab.close()


@pytest.mark.site
@pytest.mark.thorough
def test_wide_tables_scroll_by_themselves_with_their_first_column_in_sight(browser: Any, served_site: str) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    tab.goto(f"{served_site}/labs/strain.html")
    for region in tab.query_selector_all(".table-scroll"):
        assert region.get_attribute("tabindex") == "0" and region.get_attribute("aria-label")
    wide = tab.query_selector(".table-scroll")
    assert wide.evaluate("e => e.scrollWidth > e.clientWidth")
    x_before = wide.query_selector("tbody tr > :first-child").bounding_box()["x"]
    wide.evaluate("e => e.scrollLeft = 200")
    assert abs(wide.query_selector("tbody tr > :first-child").bounding_box()["x"] - x_before) < 1
    tab.close()


@pytest.mark.site
@pytest.mark.parametrize("width", often([320, 390], {320}.__contains__))
def test_on_a_phone_no_table_of_the_book_scrolls_and_the_column_that_stays_leaves_half_of_the_width_to_the_numbers(
    browser: Any, served_site: str, width: int
) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    names = [
        f"labs/{lab}/{page}"
        for lab in ("cnn", "lbm")
        for page in ("results", "roofline", "sweeps", "published", "devices")
    ]
    scrolling = {}
    for name in ("labs/strain", "peaks", "claims", "history", *names):
        tab.goto(f"{served_site}/{name}.html")
        tab.evaluate("document.querySelectorAll('details').forEach(element => element.open = true)")
        scrolling[name] = tab.evaluate(
            """[...document.querySelectorAll('.table-scroll')].filter(element => element.scrollWidth > element.clientWidth)
            .map(element => [element, element.querySelector('tbody tr > :first-child')])
            .map(([element, first]) => [element.ariaLabel, first.getBoundingClientRect().width / element.clientWidth])"""
        )
    tab.close()
    strained = scrolling.pop("labs/strain")
    assert strained and not [region for region in strained if region[1] > 0.5]
    assert not {name: regions for name, regions in scrolling.items() if regions}


@pytest.mark.site
@pytest.mark.thorough
def test_on_a_desktop_tables_of_published_figures_and_of_history_need_no_scrolling(
    browser: Any, served_site: str
) -> None:
    """A page of one section has no sidebar of contents, so its table is wider; a page of several sections keeps it."""
    tab = browser.new_page(viewport={"width": 1280, "height": 900})
    names = [f"labs/{lab}/published" for lab in ("cnn", "convpool", "lbm", "lenet", "stencil")]
    contents, scrolling = {}, {}
    for name in (*names, "history", "cluster"):
        tab.goto(f"{served_site}/{name}.html")
        tab.evaluate("document.querySelectorAll('details').forEach(element => element.open = true)")
        contents[name] = tab.is_visible(".bd-sidebar-secondary")
        scrolling[name] = tab.evaluate(
            "[...document.querySelectorAll('.table-scroll')].filter(element => element.scrollWidth > element.clientWidth)"
            ".map(element => element.ariaLabel)"
        )
    tab.close()
    assert not {name: regions for name, regions in scrolling.items() if regions}
    assert [name for name, visible in contents.items() if visible] == ["history", "cluster"]


@pytest.mark.site
def test_a_run_card_replaces_the_parameters(built_site: Path) -> None:
    text = (built_site / "labs" / "lbm.html").read_text(encoding="utf-8")
    assert text.count('class="run-parameters of-this-machine"') == 1
    assert "<dt>scale</dt> <dd>test</dd>" in text
    assert "Parameters</span>" not in text and "# Parameters" not in text


@pytest.mark.thorough
@pytest.mark.site
def test_plain_sphinx_builds_the_same_pages(checkout: Path, built_site: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", str(checkout / "book"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert set(pages(tmp_path)) == set(pages(built_site))
    for name in ("index.html", "labs/lbm.html", "labs/lbm/results.html"):
        links_of_book, links_of_sphinx = (Page(folder / name).links for folder in (built_site, tmp_path))
        assert {link for link in links_of_book if ".html" in link} == {
            link for link in links_of_sphinx if ".html" in link
        }


@pytest.mark.site
def test_a_built_site_is_not_built_again_until_a_page_changes(checkout: Path, built_site: Path) -> None:
    assert not site.stale(checkout)
    messages: list[str] = []
    site.build(checkout, progress=messages.append)
    assert messages == []
    page = checkout / "book" / "method.md"
    text = page.read_text(encoding="utf-8")
    page.write_text(text + "\nOne more line.\n", encoding="utf-8")
    assert site.stale(checkout)
    page.write_text(text, encoding="utf-8")
    assert not site.stale(checkout)


@pytest.mark.thorough
@pytest.mark.site
def test_a_warning_fails_the_build_each_time_and_names_the_line(checkout: Path, tmp_path: Path) -> None:
    book = tmp_path / "book"
    book.mkdir()
    shutil.copy(checkout / "_config.yml", tmp_path)
    shutil.copytree(checkout / "book" / "_assets", book / "_assets")
    for name in ("conf.py", "references.bib"):
        shutil.copy(checkout / "book" / name, book)
    (book / "_toc.yml").write_text("format: jb-book\nroot: index\nchapters:\n  - file: method\n")
    (book / "index.md").write_text("# A book\n")
    (book / "method.md").write_text("# Method\n\nA line.\n\n[](no-such-page.md)\n")
    for _ in range(2):
        with pytest.raises(site.SiteFailed, match=r"method\.md:\d+: WARNING.*no-such-page"):
            site.build(tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("_config.yml", "a: [", "is no YAML: while parsing"),
        ("_config.yml", "- a", "holds a list; expected names"),
        ("book/_toc.yml", "\udcff", "is no YAML: 'utf-8' codec"),
        ("book/_toc.yml", "", "holds a NoneType; expected names"),
        ("book/labs/lbm.ipynb", "{", "is no notebook: "),
    ],
)
def test_sources_that_cannot_be_read_are_named_in_one_line(tmp_path: Path, name: str, text: str, message: str) -> None:
    (tmp_path / "book" / "labs").mkdir(parents=True)
    for source in ("_config.yml", "book/_toc.yml"):
        (tmp_path / source).write_text("a: b")
    (tmp_path / name).write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UsageError) as refused:
        site.build(tmp_path)
    assert str(refused.value).startswith(f"{tmp_path / name} {message}") and "\n" not in str(refused.value)


def test_a_page_of_a_lab_that_is_no_longer_there_is_named_in_one_line(tmp_path: Path) -> None:
    """Its notebook is in the checkout, but its folder is not in ROOFBOOK_LABS. A page that the contents list is accepted."""
    import nbformat

    for name, text in (("_config.yml", "a: b"), ("book/_toc.yml", "a: own")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("experiments/mine", "book/mine", "book/own"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        nbformat.write(nbformat.v4.new_notebook(), tmp_path / f"{name}.ipynb")
    with pytest.raises(UsageError, match=r"/experiments/mine\.ipynb is of no lab; ROOFBOOK_LABS names the folder"):
        site.build(tmp_path)
    (tmp_path / "experiments" / "mine.ipynb").unlink()
    with pytest.raises(UsageError, match=r"/book/mine\.ipynb is no page of the book, and .* is gone: remove it"):
        site.build(tmp_path)


def test_serving_a_missing_site_names_the_command_that_builds_it(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="roofbook build"):
        site.serve(tmp_path)


@pytest.mark.site
def test_the_pages_of_the_labs_tell_a_standing_note_once(built_site: Path) -> None:
    for name in ("lbm", "cnn"):
        text = (built_site / "labs" / name / "results.html").read_text(encoding="utf-8")
        assert text.count("Times are medians with the 95 % interval of the median.") == 1
        assert "note standing" not in text and text.count(f'id="{page_html.LEGEND}"') == 1


def notebook(path: Path, *cells: str, parameters: str = "scale: str = 'quick'  # quick, published") -> Path:
    """Write a small notebook whose first cell holds the parameters, and return its path."""
    import nbformat

    v4 = nbformat.v4
    first = v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    notebook_node = v4.new_notebook(cells=[first, *map(v4.new_code_cell, cells)])
    nbformat.write(notebook_node, path)
    return path


def test_a_notebook_runs_in_this_interpreter_and_only_once(tmp_path: Path) -> None:
    import nbformat

    (tmp_path / "results").mkdir()
    source = notebook(
        tmp_path / "demo.ipynb",
        "import sys, os; print(sys.prefix); print(scale); print(os.getcwd())",
    )
    page = execute.execute(tmp_path, source, {"scale": "published"})
    assert page == tmp_path / "book" / "demo.ipynb", "of no lab, so among the written pages"
    assert execute.page_of(tmp_path, tmp_path / "lbm.ipynb") == tmp_path / "book" / "labs" / "lbm.ipynb"
    outputs = [cell.outputs[0].text for cell in nbformat.read(page, 4).cells if cell.get("outputs")]
    assert outputs[0].split("\n")[:3] == [sys.prefix, "published", str(tmp_path)]
    assert not execute.stale(tmp_path, source, {"scale": "published"})
    assert execute.stale(tmp_path, source, {"scale": "quick"})
    row = tmp_path / "results" / "local" / "lab=demo" / "device=x" / "run.parquet"
    row.parent.mkdir(parents=True)
    row.touch()
    assert execute.stale(tmp_path, source, {"scale": "published"})


@pytest.mark.thorough
def test_a_failing_notebook_says_so_in_a_line_and_leaves_the_earlier_page(tmp_path: Path) -> None:
    page = tmp_path / "book" / "demo.ipynb"
    page.parent.mkdir(parents=True)
    page.write_text("earlier")
    failing = notebook(tmp_path / "demo.ipynb", "1 / 0")
    with pytest.raises(
        execute.NotebookFailed, match=r"demo\.ipynb, cell 2, line 1: ZeroDivisionError: .*_build/partial"
    ) as caught:
        execute.execute(tmp_path, failing)
    assert "\n" not in str(caught.value)
    assert (tmp_path / "_build" / "partial" / "demo.ipynb").exists()
    refusing = notebook(tmp_path / "demo.ipynb", "import roofbook\nraise roofbook.UsageError('no such thing')")
    with pytest.raises(UsageError, match=r"^no such thing$"):
        execute.execute(tmp_path, refusing)
    assert page.read_text() == "earlier"
