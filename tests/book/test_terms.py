"""Terms of the glossary: linked at their first use in a section, and explained on one page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from roofbook.book.terms import Terms, plural

from ..sphinx_build import build_site

ROOT = Path(__file__).parents[2]
NAMES = ("warp", "memory", "local memory", "bank conflict", "run", "cache", "A/A control")
TERMS = Terms(
    {name.lower(): ("glossary", f"term-{name}") for name in NAMES},
    {"bank conflict": ["conflicting banks"], "run": ["several runs"]},
    frozenset({"run"}),
)


def linked(text: str, seen: set[str] | None = None) -> list[str]:
    """Return `word>term` for each word of a text that is linked."""
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


def test_a_term_that_the_section_has_linked_is_not_linked_again() -> None:
    seen = {"warp"}
    assert linked("A warp and a bank conflict", seen) == ["bank conflict>bank conflict"]
    assert seen == {"warp", "bank conflict"}


def test_without_terms_nothing_is_linked() -> None:
    assert list(Terms({}, {}, frozenset()).pieces("a warp", set())) == [("a warp", None)]


def test_plurals_are_regular() -> None:
    words = {"warp": "warps", "memory": "memories", "array": "arrays", "launch": "launches", "bus": "buses"}
    assert {word: plural(word) for word in words} == words


def link_in_html(fragment: str, seen: set[str] | None = None) -> str:
    """Return a fragment of HTML with its terms linked, each link written [word]."""
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
    assert link_in_html(fragment) == out


def test_a_folded_part_links_its_terms_apart_from_the_section() -> None:
    fold = "<details><summary>warp</summary><p>warp warp</p></details>"
    linked_fold = "<details><summary>warp</summary><p>[warp] warp</p></details>"
    assert link_in_html(f"{fold}{fold}<p>warp</p>{fold}") == f"{linked_fold}{linked_fold}<p>[warp]</p>{fold}"


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
    """Build by Sphinx with no extension but Markdown and the book's terms, and return the warnings."""
    confpy = 'extensions = ["myst_parser", "roofbook.book.terms"]\nroot_doc = "page"\nexclude_patterns = ["out"]\n'
    (source / "conf.py").write_text(confpy)
    return build_site(source, out)


def links(page: Path) -> list[str]:
    """Return a page's headings and links to terms, in order."""
    body = page.read_text(encoding="utf-8").partition('<div class="body"')[2].partition('<div class="sphinxsidebar"')[0]
    matches = re.findall(
        r'<h\d>(.*?)<a|<a class="reference internal" href="([^"]*#term-[^"]*)"[^>]*>(.*?)</a>', body, re.S
    )
    texts = [f"# {head}" if head else f"{re.sub('<[^>]+>', '', text)}>{href}" for head, href, text in matches]
    return [" ".join(text.split()) for text in texts]


def test_pages_link_each_term_once_in_a_section_and_the_glossary_none_to_itself(tmp_path: Path) -> None:
    (tmp_path / "glossary.md").write_text(GLOSSARY)
    (tmp_path / "page.md").write_text(PAGE + "\n```{toctree}\nglossary\n```\n")
    out = tmp_path / "out"
    assert build(tmp_path, out) == ""
    warp, bank, run, memory = (f"glossary.html#term-{name}" for name in ("warp", "bank-conflict", "run", "memory"))
    links_of_page = ["# Of a warp", f"warp>{warp}", f"run>{run}", "# Below", f"Warps>{warp}", f"bank conflicts>{bank}"]
    links_of_page += [f"memory>{memory}"]  # after the place of a cell, whose terms are linked when it is filled
    assert links(out / "page.html") == [*links_of_page, "# Further below", f"warp>{warp}"]
    assert links(out / "glossary.html") == ["# Glossary", "bank conflict>#term-bank-conflict", "warp>#term-warp"]
    # A new term is linked on other pages too, although only the glossary was edited.
    (tmp_path / "glossary.md").write_text(GLOSSARY.replace("by_role: [run]", "by_role: []"))
    assert build(tmp_path, out) == ""
    assert links(out / "page.html")[:5] == ["# Of a warp", f"warp>{warp}", f"run>{run}", "# Below", f"Warps>{warp}"]
    assert f"runs>{run}" in links(out / "page.html")
    page = out / "page.html"
    written_ns = page.stat().st_mtime_ns
    build(tmp_path, out)
    assert page.stat().st_mtime_ns == written_ns, "nothing changed, so nothing is written"
    (tmp_path / "glossary.md").write_text(GLOSSARY.replace("forms: {", "forms: {no such term: [x], "))
    assert "WARNING: the front matter names 'no such term', which has no entry" in build(tmp_path, out)


def test_the_glossary_has_the_usual_terms_and_short_meanings() -> None:
    text = (ROOT / "book" / "glossary.md").read_text(encoding="utf-8")
    entries = [
        re.split(r"\n  ", entry.strip(), maxsplit=1)
        for block in re.findall(r"```{glossary}\n(?::sorted:\n)?(.*?)```", text, re.S)
        for entry in block.strip().split("\n\n")
    ]
    terms = [entry[0] for entry in entries]
    assert len(terms) == len(set(terms))
    required = {"ridge point", "warp", "sub-group", "work-group", "block", "occupancy", "bank conflict", "coalescing"}
    assert required | {"tensor core", "shared memory", "local memory", "work-item", "thread"} <= set(terms)
    for term, meaning in entries:
        assert len(re.findall(r"[.)](?:\s|$)", meaning)) <= 5 and len(meaning) < 480, term
    front_matter = yaml.safe_load(text.split("---")[1])
    assert {*front_matter["forms"], *front_matter["by_role"]} <= set(terms)
