"""Terms of the glossary: linked at their first use in a section, found by the site's search, and explained where one lands."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from roofbook.book.terms import Terms, plural

from ..served import served

ROOT = Path(__file__).parents[2]
NAMES = ("warp", "memory", "local memory", "bank conflict", "run", "cache", "A/A control")
TERMS = Terms(
    {name.lower(): ("glossary", f"term-{name}") for name in NAMES},
    {"bank conflict": ["conflicting banks"], "run": ["several runs"]},
    frozenset({"run"}),
)


def linked(text: str, seen: set[str] | None = None) -> list[str]:
    """What is linked of a text: word>term."""
    return [
        f"{' '.join(word.split())}>{term}" for word, term in TERMS.pieces(text, set() if seen is None else seen) if term
    ]


@pytest.mark.parametrize(
    ("text", "links"),
    [
        ("A warp, then a warp.", ["warp>warp"]),
        ("Warps wait.", ["Warps>warp"]),
        ("a warp's lanes (warp)", ["warp>warp"]),
        ("warped, prewarp, sub-warp, warp-wide, warp/2, a.warp, x_warp", []),
        ("local\nmemory and memory", ["local memory>local memory", "memory>memory"]),
        ("bank conflicts", ["bank conflicts>bank conflict"]),
        ("Conflicting banks", ["Conflicting banks>bank conflict"]),
        ("one run, two runs", []),
        ("several runs", ["several runs>run"]),
        ("memories", ["memories>memory"]),
        ("the A/A control.", ["A/A control>a/a control"]),
    ],
)
def test_whole_words_their_plurals_and_forms_are_linked_once(text: str, links: list[str]) -> None:
    assert linked(text) == links
    assert "".join(piece for piece, _ in TERMS.pieces(text, set())) == text


def test_what_a_section_has_linked_already_is_not_linked_again() -> None:
    seen = {"warp"}
    assert linked("A warp and a bank conflict", seen) == ["bank conflict>bank conflict"]
    assert seen == {"warp", "bank conflict"}


def test_without_terms_nothing_is_linked() -> None:
    assert list(Terms({}, {}, frozenset()).pieces("a warp", set())) == [("a warp", None)]


def test_plurals_are_regular() -> None:
    words = {"warp": "warps", "memory": "memories", "array": "arrays", "launch": "launches", "bus": "buses"}
    assert {word: plural(word) for word in words} == words


def in_html(fragment: str, seen: set[str] | None = None) -> str:
    """A fragment with its terms linked, each link written [word]."""
    text = TERMS.link_html(fragment, set() if seen is None else seen, lambda term: f"g.html#{term}&")
    return re.sub(
        r'<a class="reference internal" href="g\.html#[^"]+&amp;"><span class="[^"]+">(.*?)</span></a>', r"[\1]", text
    )


@pytest.mark.parametrize(
    ("fragment", "out"),
    [
        ("<p>A warp &amp; a warp</p>", "<p>A [warp] &amp; a warp</p>"),
        ("<p title='a warp'>A <em>warp</em></p>", "<p title='a warp'>A <em>[warp]</em></p>"),
        ("warp <div>warp</div><ul><li>warp</li></ul>", "warp <div>warp</div><ul><li>[warp]</li></ul>"),
        ('<p class="table-note">warp</p><p>warp</p>', '<p class="table-note">warp</p><p>[warp]</p>'),
        ("<p>a &lt;warp&gt;</p>", "<p>a &lt;[warp]&gt;</p>"),
        ("<svg><text>warp</text><path d='p'/></svg>", "<svg><text>warp</text><path d='p'/></svg>"),
        *[
            (f"<{tag}><p>warp</p></{tag}><p>warp</p>", f"<{tag}><p>warp</p></{tag}><p>[warp]</p>")
            for tag in ("a", "code", "pre", "h3", "table", "figure", "summary", "button", "aside")
        ],
    ],
)
def test_prose_of_html_is_linked_and_nothing_else(fragment: str, out: str) -> None:
    assert in_html(fragment) == out


def test_what_is_folded_counts_for_itself_alone() -> None:
    fold = "<details><summary>warp</summary><p>warp warp</p></details>"
    linked_fold = "<details><summary>warp</summary><p>[warp] warp</p></details>"
    assert in_html(f"{fold}{fold}<p>warp</p>{fold}") == f"{linked_fold}{linked_fold}<p>[warp]</p>{fold}"


GLOSSARY = """---
forms: {bank conflict: [conflicting banks]}
by_role: [run]
---
# Glossary

```{glossary}
warp
  A warp, in which a bank conflict costs a run.

bank conflict
  Conflicting banks of a warp.

memory
  Bytes.

run
  One.
```
"""
PAGE = """# Of a warp

A warp, `warp`, [a warp](https://example.org), and {term}`the warp <warp>` in a run. Then a {term}`run`.

| warp |
|---|
| bank conflict |

## Below

*Warps* without bank
conflicts.

```{raw} html
<p>A warp in several runs. A run.</p>
```

```{raw} html
<div class="on-device"><p>A warp in some memory.</p></div>
```

The memory.

### Further below

A warp.
"""


def build(source: Path, out: Path) -> str:
    """Build by Sphinx with nothing but Markdown and our terms; the warnings."""
    confpy = 'extensions = ["myst_parser", "roofbook.book.terms"]\nroot_doc = "page"\nexclude_patterns = ["out"]\n'
    (source / "conf.py").write_text(confpy)
    command = [sys.executable, "-m", "sphinx", "-q", str(source), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stderr


def links(page: Path) -> list[str]:
    """The links to terms of a page, and its headings, in order."""
    body = page.read_text(encoding="utf-8").partition('<div class="body"')[2].partition('<div class="sphinxsidebar"')[0]
    found = re.findall(
        r'<h\d>(.*?)<a|<a class="reference internal" href="([^"]*#term-[^"]*)"[^>]*>(.*?)</a>', body, re.S
    )
    texts = [f"# {head}" if head else f"{re.sub('<[^>]+>', '', text)}>{href}" for head, href, text in found]
    return [" ".join(text.split()) for text in texts]


def test_pages_link_each_term_once_in_a_section_and_the_glossary_none_to_itself(tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text(GLOSSARY)
    (tmp_path / "page.md").write_text(PAGE + "\n```{toctree}\nglossary\n```\n")
    out = tmp_path / "out"
    assert build(tmp_path, out) == ""
    warp, bank, run, memory = (f"glossary.html#term-{name}" for name in ("warp", "bank-conflict", "run", "memory"))
    of_page = ["# Of a warp", f"warp>{warp}", f"run>{run}", "# Below", f"Warps>{warp}", f"bank conflicts>{bank}"]
    of_page += [f"memory>{memory}"] * 2  # once where another device may take its place
    assert links(out / "page.html") == [*of_page, "# Further below", f"warp>{warp}"]
    assert links(out / "glossary.html") == ["# Glossary", "bank conflict>#term-bank-conflict", "warp>#term-warp"]
    # A term that comes joins the other pages too, though no page but the glossary was edited.
    (tmp_path / "glossary.md").write_text(GLOSSARY.replace("by_role: [run]", "by_role: []"))
    assert build(tmp_path, out) == ""
    assert links(out / "page.html")[:5] == ["# Of a warp", f"warp>{warp}", f"run>{run}", "# Below", f"Warps>{warp}"]
    assert f"runs>{run}" in links(out / "page.html")
    page = out / "page.html"
    written = page.stat().st_mtime_ns
    build(tmp_path, out)
    assert page.stat().st_mtime_ns == written, "nothing changed, so nothing is written"
    (tmp_path / "glossary.md").write_text(GLOSSARY.replace("forms: {", "forms: {no such term: [x], "))
    assert "WARNING: the front matter names 'no such term', which has no entry" in build(tmp_path, out)


@pytest.fixture(scope="module")
def site(written_site: Path) -> Iterator[str]:
    """The address of the book's pages."""
    with served(written_site) as address:
        yield address


LANDED = """() => {
    const term = document.querySelector("dt:target"), at = term?.getBoundingClientRect();
    const seen = term && at.top >= 0 && at.bottom <= innerHeight;
    const name = term && [...term.childNodes].filter(element => !element.matches?.(".headerlink"));
    return seen ? [name.map(element => element.textContent).join(""), term.nextElementSibling.innerText] : null;
}"""
"""The term on which a reader has landed, in sight, and what it means."""


@pytest.mark.site
@pytest.mark.parametrize("width", [1400, 390])
def test_a_reader_asks_what_a_term_means_by_click(browser: Any, site: str, width: int) -> None:
    """From the first page to a lab, then on the first use of a term."""
    tab = browser.new_page(viewport={"width": width, "height": 900})
    for lab, word, term in (
        ("Sparse convolution", "ridge point", "ridge point"),
        ("Sparse convolution", "occupancy", "occupancy"),
        ("Convolution layer", "Tensor cores", "tensor core"),
    ):
        tab.goto(f"{site}/index.html")
        if width < 992:
            tab.click("button.primary-toggle:visible")
        tab.click(f".bd-links a:text('{lab}')")
        tab.click(f"article a:has(.std-term:text-is('{word}')) >> nth=0")
        tab.wait_for_function(LANDED)
        name, meaning = tab.evaluate(LANDED)
        assert name == term and len(meaning) > 40
    tab.close()


@pytest.mark.site
@pytest.mark.parametrize(
    ("words", "term"),
    [
        ("bank conflict", "bank conflict"),
        ("bank conflicts", "bank conflict"),
        ("warp", "warp"),
        ("coalesced", "coalescing"),
        ("Ridge point", "ridge point"),
        ("work-group", "work-group"),
        ("occupancy", "occupancy"),
        ("tensor cores", "tensor core"),
    ],
)
def test_a_reader_finds_a_term_by_search_and_lands_on_it(browser: Any, site: str, words: str, term: str) -> None:
    tab = browser.new_page(viewport={"width": 1400, "height": 900})
    tab.goto(f"{site}/index.html")
    tab.keyboard.press("Control+K")
    tab.keyboard.type(words)
    tab.keyboard.press("Enter")
    tab.click("#search-results li a >> nth=0")
    tab.wait_for_function(LANDED)
    assert tab.evaluate(LANDED)[0] == term
    tab.close()


@pytest.mark.site
def test_no_section_of_the_book_links_a_term_twice_and_none_in_headings_or_code(browser: Any, site: str) -> None:
    tab = browser.new_page()
    seen = 0
    for page in (
        "index",
        "method",
        "your-device",
        *(f"labs/{each.stem}" for each in (ROOT / "experiments").glob("[!p]*")),
    ):
        tab.goto(f"{site}/{page}.html")
        found = tab.evaluate("""() => [...document.querySelectorAll("article a:has(.std-term)")].map(element => [
            element.closest("section")?.id, element.hash, !!element.closest("h1, h2, h3, pre, code, table, dt")])""")
        seen += len(found)
        assert len({tuple(each) for each in found}) == len(found), page
        assert not any(wrong for *_, wrong in found), page
    tab.close()
    assert seen > 100


def test_the_glossary_says_what_is_asked_for_and_in_few_words() -> None:
    text = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    entries = [
        re.split(r"\n  ", entry.strip(), maxsplit=1)
        for block in re.findall(r"```{glossary}\n(?::sorted:\n)?(.*?)```", text, re.S)
        for entry in block.strip().split("\n\n")
    ]
    terms = [entry[0] for entry in entries]
    assert len(terms) == len(set(terms))
    asked = {"ridge point", "warp", "sub-group", "work-group", "block", "occupancy", "bank conflict", "coalescing"}
    assert asked | {"tensor core", "shared memory", "local memory", "work-item", "thread"} <= set(terms)
    for term, meaning in entries:
        assert len(re.findall(r"[.)](?:\s|$)", meaning)) <= 5 and len(meaning) < 480, term
    said = yaml.safe_load(text.split("---")[1])
    assert {*said["forms"], *said["by_role"]} <= set(terms)
