"""Links the first use of a term of the glossary in each section to what it means: a part of the site's Sphinx extension.

Authors write plain text, notebooks and generated sentences included. The glossary's front matter says which other forms of a
term count, and which terms are words so common that only the role {term} links them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from ..escaping import escape, script_json
from ..paths import write_whole

GLOSSARY = "glossary"
"""The page with the terms. Its front matter has `forms`, term -> words that mean it too, and `by_role`, the common words."""

KEPT = (
    nodes.title, nodes.subtitle, nodes.rubric, nodes.term, nodes.literal, nodes.literal_block, nodes.doctest_block,
    nodes.math, nodes.math_block, nodes.reference, nodes.footnote_reference, nodes.table, nodes.figure, nodes.image,
    nodes.comment, addnodes.pending_xref, addnodes.toctree, addnodes.index,
)  # fmt: skip
"""What no link is put into: headings, code, formulas, tables, figures, and what is a link already."""

FOLDED = "details"
KEPT_HTML = (
    "a", "aside", "button", "caption", "code", "figure", "figcaption", "form", "h1", "h2", "h3", "h4", "h5", "h6", "kbd",
    "label", "nav", "pre", "script", "style", "summary", "svg", "table", "template",
)  # fmt: skip
"""The same in HTML that a notebook or a fragment brings along."""
PROSE_HTML = ("p", "li", "dd")
"""Where HTML has prose: text outside these is a label."""
SWITCHED = 'class="on-device"'
"""What marks HTML that gives way when a reader chooses another device: like a folded part, it counts for itself alone."""
NOTE = "table-note"
"""The class of a paragraph that belongs to a table, and is left as it is like one."""

_TAG = re.compile(rf"<(/?)({'|'.join((FOLDED, *KEPT_HTML, *PROSE_HTML))})\b[^>]*>", re.I)
_PIECE = re.compile(r"(<[^>]*>|&[#\w]+;)")

SCRIPT = Path("_static", "terms.js")
"""Of the site."""
KEPT_AS = "roofbook_terms"
"""Where Sphinx keeps the terms with what else it has read."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """The terms of a glossary. places: term -> page and anchor. forms and by_role as in the glossary's front matter."""

    places: Mapping[str, tuple[str, str]]
    forms: Mapping[str, list[str]]
    by_role: frozenset[str]

    @cached_property
    def words(self) -> dict[str, str]:
        """What a text may call each term, in lower case, with the term: itself and its plural, and its forms."""
        found: dict[str, str] = {}
        for term in sorted(self.places):
            own = () if term in self.by_role else (term, plural(term))
            found |= {word.lower(): term for word in (*own, *self.forms.get(term, []))}
        return found

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest = sorted(self.words, key=lambda word: (-len(word), word))
        spaced = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest)
        return re.compile(rf"(?<![\w/.-])(?:{spaced})(?![\w/-])" if longest else r"(?!)", re.I)

    def pieces(self, text: str, seen: set[str]) -> Iterator[tuple[str, str | None]]:
        """`text` in pieces, each with the term that it is to link to or None. What is linked joins `seen`."""
        done = 0
        for match in self._pattern.finditer(text):
            term = self.words[" ".join(match[0].lower().split())]
            if term in seen:
                continue
            seen.add(term)
            yield text[done : match.start()], None
            yield match[0], term
            done = match.end()
        yield text[done:], None

    def link_html(self, fragment: str, seen: set[str], address: Callable[[str], str]) -> str:
        """Link terms in the prose of a fragment of HTML. address: of a term's meaning.

        What is linked in a folded part does not count for the text outside it, since it may never be seen.
        """
        out: list[str] = []
        scopes, prose = [seen], [False]
        kept = done = 0

        def put(text: str) -> None:
            if kept or not prose[-1]:
                out.append(text)
                return
            for piece in _PIECE.split(text):
                if piece.startswith(("<", "&")):
                    out.append(piece)
                else:
                    out.extend(
                        _anchor(address(term), word) if term else word for word, term in self.pieces(piece, scopes[-1])
                    )

        for tag in _TAG.finditer(fragment):
            put(fragment[done : tag.start()])
            out.append(tag[0])
            done = tag.end()
            step, name = (-1 if tag[1] else 1), tag[2].lower()
            if name == FOLDED and step > 0:
                scopes.append(set(scopes[-1]))
            elif name == FOLDED and len(scopes) > 1:
                scopes.pop()
            elif name in KEPT_HTML:
                kept = max(0, kept + step)
            elif name in PROSE_HTML and step > 0:
                prose.append(NOTE not in tag[0])
            elif name in PROSE_HTML and len(prose) > 1:
                prose.pop()
        put(fragment[done:])
        return "".join(out)


def plural(word: str) -> str:
    """The regular plural of an English noun, of its last word."""
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def _anchor(address: str, word: str) -> str:
    """A link as Sphinx writes that of the role {term}."""
    inside = f'<span class="xref std std-term">{word}</span>'
    return f'<a class="reference internal" href="{escape(address)}">{inside}</a>'


def written(env: Any) -> str:
    """The terms of the book that Sphinx has read, as a text that is kept with it and compared."""
    found = {name.lower(): place for (kind, name), place in env.get_domain("std").objects.items() if kind == "term"}
    said = env.metadata.get(GLOSSARY, {})
    forms = {name.lower(): words for name, words in json.loads(said.get("forms") or "{}").items()}
    by_role = [name.lower() for name in json.loads(said.get("by_role") or "[]")]
    for name in sorted({*forms, *by_role} - found.keys()):
        logger.warning("the front matter names %r, which has no entry", name, location=GLOSSARY)
    return json.dumps([found, forms, by_role], sort_keys=True)


@cache
def read(text: str) -> Terms:
    """The terms that `written` wrote."""
    places, forms, by_role = json.loads(text)
    return Terms(places, {name: forms[name] for name in forms if name in places}, frozenset(by_role))


class LinkTerms(SphinxPostTransform):
    """Links the first use of each term in each section of a page. A later {term} for the same one becomes its text."""

    formats = ("html",)
    default_priority = 7  # after MyST-NB has chosen among a cell's outputs (4), before references are resolved (9, 10)

    def run(self, **kwargs: Any) -> None:
        terms = read(getattr(self.env, KEPT_AS))
        if not terms.places:
            return
        if self.env.docname == GLOSSARY:
            self._index(terms)
        self._link(self.document, terms, set())

    def _link(self, parent: nodes.Element, terms: Terms, seen: set[str]) -> None:
        _join_lines(parent)
        for child in list(parent.children):
            if isinstance(child, nodes.Text):
                self._link_text(child, terms, seen)
            elif isinstance(child, addnodes.pending_xref) and child.get("reftype") == "term":
                term = " ".join(child["reftarget"].lower().split())
                if term in seen:
                    child.replace_self([nodes.Text(child.astext())])
                seen.add(term)
            elif isinstance(child, nodes.raw):
                if "html" in child.get("format", "").split():
                    fragment = child.astext()
                    own = set(seen) if SWITCHED in fragment else seen
                    linked = terms.link_html(fragment, own, lambda term: self._address(terms, term))
                    child[:] = [nodes.Text(linked)]
                    child.rawsource = linked
            elif isinstance(child, nodes.section):
                self._link(child, terms, set())
            elif isinstance(child, nodes.definition_list_item) and self.env.docname == GLOSSARY:
                self._link(child, terms, {each.astext().lower() for each in child.findall(nodes.term)})
            elif not isinstance(child, KEPT):
                self._link(child, terms, seen)

    def _link_text(self, text: nodes.Text, terms: Terms, seen: set[str]) -> None:
        made: list[nodes.Node] = []
        for piece, term in terms.pieces(text.astext(), seen):
            if term:
                page, anchor = terms.places[term]
                shown = nodes.inline(piece, piece, classes=["xref", "std", "std-term"])
                made.append(make_refnode(self.app.builder, self.env.docname, page, anchor, shown))
            elif piece:
                made.append(nodes.Text(piece))
        if any(isinstance(each, nodes.reference) for each in made):
            text.parent.replace(text, made)

    def _address(self, terms: Terms, term: str) -> str:
        page, anchor = terms.places[term]
        return f"{self.app.builder.get_relative_uri(self.env.docname, page)}#{anchor}"

    def _index(self, terms: Terms) -> None:
        """Let the site's search find an entry by each of its words: Sphinx knows the term alone, not its plural."""
        entries = [
            ("single", word, terms.places[term][1], "main", None)
            for word, term in terms.words.items()
            if word != term and terms.places[term][0] == GLOSSARY
        ]
        self.document.append(addnodes.index(entries=entries))


def _join_lines(parent: nodes.Element) -> None:
    """Make one text of those that lie side by side, as MyST leaves the lines of a paragraph: a term may go over two of them."""
    joined: list[nodes.Node] = []
    for child in parent.children:
        if joined and isinstance(child, nodes.Text) and isinstance(joined[-1], nodes.Text):
            joined[-1] = nodes.Text(joined[-1] + child)
        else:
            joined.append(child)
    if len(joined) < len(parent.children):
        parent.children = []
        parent.extend(joined)


def renew(app: Sphinx, env: Any) -> list[str]:
    """Once all pages are read, keep the terms; all pages are written again where these are others than at the last build."""
    before, now = getattr(env, KEPT_AS, None), written(env)
    setattr(env, KEPT_AS, now)
    return [] if before == now else sorted(env.found_docs)


def write_script(app: Sphinx, error: Exception | None) -> None:
    """The words with the places of their meanings, for what a page loads later: of another device, by devices-of-page.js."""
    if error or app.builder.format != "html":
        return
    terms = read(getattr(app.env, KEPT_AS))
    places = {term: app.builder.get_target_uri(page) + f"#{anchor}" for term, (page, anchor) in terms.places.items()}
    words = {word: places[term] for word, term in sorted(terms.words.items())}
    path, text = Path(app.outdir, SCRIPT), f"roofbookTerms({script_json(words)});\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        write_whole(path, text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx's entry point."""
    app.connect("build-finished", write_script)
    app.connect("env-updated", renew)
    app.add_post_transform(LinkTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
