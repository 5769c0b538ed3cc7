"""Links from the first use of a glossary term in each section to its meaning. Part of the site's Sphinx extension.

Authors write plain text, notebooks and generated sentences included. The glossary's front matter lists further forms of a term,
and terms that are such common words that only the role {term} links them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import logging
from sphinx.util.nodes import make_refnode

from ..escaping import escape

GLOSSARY = "glossary"
"""Page with the terms. Its front matter has `forms`, term -> further words for it, and `by_role`, the common words."""

UNLINKED = (
    nodes.title, nodes.subtitle, nodes.rubric, nodes.term, nodes.literal, nodes.literal_block, nodes.doctest_block,
    nodes.math, nodes.math_block, nodes.reference, nodes.footnote_reference, nodes.table, nodes.figure, nodes.image,
    nodes.comment, addnodes.pending_xref, addnodes.toctree, addnodes.index,
)  # fmt: skip
"""Nodes that get no links: headings, code, formulas, tables, figures and links."""

FOLDED = "details"
UNLINKED_HTML = (
    "a", "aside", "button", "caption", "code", "figure", "figcaption", "form", "h1", "h2", "h3", "h4", "h5", "h6", "kbd",
    "label", "nav", "pre", "script", "style", "summary", "svg", "table", "template",
)  # fmt: skip
"""HTML elements that get no links, in notebooks and fragments."""
PROSE_HTML = ("p", "li", "dd")
"""HTML elements with prose: text outside them is a label."""
SWITCHED = 'class="on-device"'
"""Mark of the place of a cell whose HTML changes with the chosen device: device_pages.py links the terms in it."""
BEFORE = "terms-before"
"""Attribute of such a place: the terms that its section links before it."""
NOTE = "table-note"
"""Class of a paragraph that belongs to a table, and gets no links either."""

_TAG = re.compile(rf"<(/?)({'|'.join((FOLDED, *UNLINKED_HTML, *PROSE_HTML))})\b[^>]*>", re.I)
_PIECE = re.compile(r"(<[^>]*>|&[#\w]+;)")

ENV_ATTRIBUTE = "roofbook_terms"
"""Attribute of Sphinx's environment with the terms."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Terms:
    """Terms of a glossary. places: term -> (page, anchor). forms and by_role as in the glossary's front matter."""

    places: Mapping[str, tuple[str, str]]
    forms: Mapping[str, list[str]]
    by_role: frozenset[str]

    @cached_property
    def words(self) -> dict[str, str]:
        """Lower-case words -> term: each term, its plural and its further forms."""
        terms_by_word: dict[str, str] = {}
        for term in sorted(self.places):
            default_words = () if term in self.by_role else (term, plural(term))
            terms_by_word |= {word.lower(): term for word in (*default_words, *self.forms.get(term, []))}
        return terms_by_word

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        longest = sorted(self.words, key=lambda word: (-len(word), word))
        spaced = "|".join(r"\s+".join(map(re.escape, word.split())) for word in longest)
        return re.compile(rf"(?<![\w/.-])(?:{spaced})(?![\w/-])" if longest else r"(?!)", re.I)

    def pieces(self, text: str, seen: set[str]) -> Iterator[tuple[str, str | None]]:
        """Yield pieces of `text`, each with the term to link to or None. Linked terms are added to `seen`."""
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
        """Return a fragment of HTML with links in its prose. address: returns the address of a term's meaning.

        Links in a folded part do not count for text outside it, since readers may never unfold it.
        """
        out: list[str] = []
        scopes, prose_stack = [seen], [False]
        unlinked_depth = done = 0

        def append(text: str) -> None:
            if unlinked_depth or not prose_stack[-1]:
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
            append(fragment[done : tag.start()])
            out.append(tag[0])
            done = tag.end()
            step, name = (-1 if tag[1] else 1), tag[2].lower()
            if name == FOLDED and step > 0:
                scopes.append(set(scopes[-1]))
            elif name == FOLDED and len(scopes) > 1:
                scopes.pop()
            elif name in UNLINKED_HTML:
                unlinked_depth = max(0, unlinked_depth + step)
            elif name in PROSE_HTML and step > 0:
                prose_stack.append(NOTE not in tag[0])
            elif name in PROSE_HTML and len(prose_stack) > 1:
                prose_stack.pop()
        append(fragment[done:])
        return "".join(out)


def plural(word: str) -> str:
    """Return the regular plural of an English noun phrase."""
    if re.search(r"[^aeiou]y$", word):
        return word[:-1] + "ies"
    return word + ("es" if re.search(r"(s|x|z|ch|sh)$", word) else "s")


def _anchor(address: str, word: str) -> str:
    """Return a link as Sphinx writes that of the role {term}."""
    inside = f'<span class="xref std std-term">{word}</span>'
    return f'<a class="reference internal" href="{escape(address)}">{inside}</a>'


_LINK_TO_TERM = re.compile(r"\[([^\]]+)\]\((?:\.\./)+(?:book/)?glossary\.md#[\w-]+\)")


def with_roles(markdown: str) -> str:
    """Return a notebook's Markdown with the role {term} in place of its links to terms of the glossary.

    A notebook has links, which JupyterLab follows; it does not know roles.

    >>> with_roles("Below the [ridge point](../book/glossary.md#ridge-point) memory bounds.")
    'Below the {term}`ridge point` memory bounds.'
    """
    return _LINK_TO_TERM.sub(r"{term}`\1`", markdown)


def dump_terms(env: Any) -> str:
    """Return the terms of the book that Sphinx has read, as text that is stored and compared."""
    place_by_term = {
        name.lower(): place for (kind, name), place in env.get_domain("std").objects.items() if kind == "term"
    }
    metadata = env.metadata.get(GLOSSARY, {})
    forms = {name.lower(): words for name, words in json.loads(metadata.get("forms") or "{}").items()}
    by_role = [name.lower() for name in json.loads(metadata.get("by_role") or "[]")]
    for name in sorted({*forms, *by_role} - place_by_term.keys()):
        logger.warning("the front matter names %r, which has no entry", name, location=GLOSSARY)
    return json.dumps([place_by_term, forms, by_role], sort_keys=True)


@cache
def load_terms(text: str) -> Terms:
    """Return the terms that `dump_terms` wrote."""
    places, forms, by_role = json.loads(text)
    return Terms(places, {name: forms[name] for name in forms if name in places}, frozenset(by_role))


def html_linker(app: Sphinx, docname: str) -> Callable[[str, set[str]], str]:
    """Return a function that links the terms in the HTML of a page, and adds them to the set of terms linked before."""
    terms = load_terms(getattr(app.env, ENV_ATTRIBUTE))

    def address(term: str) -> str:
        page, anchor = terms.places[term]
        return f"{app.builder.get_relative_uri(docname, page)}#{anchor}"

    return lambda html, seen: terms.link_html(html, seen, address)


class LinkTerms(SphinxPostTransform):
    """Links the first use of each term in each section of a page. Later uses of the role {term} become plain text."""

    formats = ("html",)
    default_priority = 7  # after MyST-NB has chosen among a cell's outputs (4), before references are resolved (9, 10)

    def run(self, **kwargs: Any) -> None:
        terms = load_terms(getattr(self.env, ENV_ATTRIBUTE))
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
                if SWITCHED in child.astext():
                    child[BEFORE] = sorted(seen)
                elif "html" in child.get("format", "").split():
                    linked = html_linker(self.app, self.env.docname)(child.astext(), seen)
                    child[:] = [nodes.Text(linked)]
                    child.rawsource = linked
            elif isinstance(child, nodes.section):
                self._link(child, terms, set())
            elif isinstance(child, nodes.definition_list_item) and self.env.docname == GLOSSARY:
                self._link(child, terms, {name.astext().lower() for name in child.findall(nodes.term)})
            elif not isinstance(child, UNLINKED):
                self._link(child, terms, seen)

    def _link_text(self, text: nodes.Text, terms: Terms, seen: set[str]) -> None:
        pieces: list[nodes.Node] = []
        for piece, term in terms.pieces(text.astext(), seen):
            if term:
                page, anchor = terms.places[term]
                label = nodes.inline(piece, piece, classes=["xref", "std", "std-term"])
                pieces.append(make_refnode(self.app.builder, self.env.docname, page, anchor, label))
            elif piece:
                pieces.append(nodes.Text(piece))
        if any(isinstance(piece_node, nodes.reference) for piece_node in pieces):
            text.parent.replace(text, pieces)

    def _index(self, terms: Terms) -> None:
        """Add each word of an entry to the site's search index: Sphinx indexes the term alone, without its plural."""
        entries = [
            ("single", word, terms.places[term][1], "main", None)
            for word, term in terms.words.items()
            if word != term and terms.places[term][0] == GLOSSARY
        ]
        self.document.append(addnodes.index(entries=entries))


def _join_lines(parent: nodes.Element) -> None:
    """Join adjacent texts of a paragraph, which MyST splits into lines: a term may span two of them."""
    joined: list[nodes.Node] = []
    for child in parent.children:
        if joined and isinstance(child, nodes.Text) and isinstance(joined[-1], nodes.Text):
            joined[-1] = nodes.Text(joined[-1] + child)
        else:
            joined.append(child)
    if len(joined) < len(parent.children):
        parent.children = []
        parent.extend(joined)


def update_terms(app: Sphinx, env: Any) -> list[str]:
    """Store the terms after all pages are read. If they have changed since the last build, return all pages."""
    old_terms, new_terms = getattr(env, ENV_ATTRIBUTE, None), dump_terms(env)
    setattr(env, ENV_ATTRIBUTE, new_terms)
    return [] if old_terms == new_terms else sorted(env.found_docs)


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect the terms to Sphinx."""
    app.connect("env-updated", update_terms)
    app.add_post_transform(LinkTerms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
