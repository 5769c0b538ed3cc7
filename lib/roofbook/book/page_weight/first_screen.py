"""Rules of a page's first screen, placed in the page itself: the page can be painted before the style sheet arrives.

For pages.py. The style sheet is loaded in parallel, and all of its rules follow these, so the final look is that of the style
sheet. Without JavaScript the page waits for the style sheet, as browsers do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from . import style_sheet

LETTERS = 10_000
"""Characters of the article, without its figures' drawings: more than a screen shows."""
LIST_LETTERS = 3000
"""Characters of the list of the page's sections, which follows the article in the text and is displayed next to it."""
BUTTON = '<button class="copybtn o-tooltip--left">'
"""Button that a script adds to each block of code after the page is read."""
FILES = '<span class="figure-files"><button>'
"""Buttons for the files of a figure, which a script adds as well."""

Element = tuple[str, str, str]
"""Name of an element, value of its `class`, and its `id`."""

_TAG = re.compile(r'<([a-zA-Z][\w-]*)((?:[^<>"]|"[^"]*")*)>')
_SVG = re.compile(r"(<svg\b.*?</svg>)", re.S)
_PLACE = re.compile(r'<style data-sheet="([^"]*)">.*?</style>', re.S)
_NAME = re.compile(r"(?:\\.|[\w-])+")
_LATER = re.compile(
    r":(?:hover|focus|active|disabled|checked|invalid|valid|target|visited|popover|-moz|-webkit)|::(?:[a-z]+-|backdrop|marker|select)"
)
"""States after a reader's action, and parts of forms in other browsers."""


def sheet_links(address: str) -> str:
    """Return the elements that load the style sheet of a page without blocking, and an empty place for the page's first
    rules.
    """
    link_start = f'<link rel="stylesheet" href="{address}"'
    link = f"""{link_start} media="print" onload="this.media='all'" />"""
    return f'<style data-sheet=""></style>\n{link}\n<noscript>{link_start} /></noscript>\n'


def without_rules(page: str) -> str:
    """Return a page without its first rules."""
    return _PLACE.sub('<style data-sheet=""></style>', page, count=1)


def with_rules(page: str, version: str, sheet: str) -> str:
    """Return a page with its first rules, made again unless the page has those of this version of the style sheet."""
    match = _PLACE.search(page)
    if not match or match[1] == version:
        return page
    return f'{page[: match.start()]}<style data-sheet="{version}">{rules(sheet, page)}</style>{page[match.end() :]}'


def elements(page: str) -> set[Element]:
    """Return the elements of a page's first screen, one of each kind."""
    kinds: set[Element] = set()
    for tag in _TAG.finditer(_first_screen(page)):
        attributes = dict(re.findall(r'\b(class|id)="([^"]*)"', tag[2]))
        kinds.add((tag[1].lower(), " ".join(sorted(attributes.get("class", "").split())), attributes.get("id", "")))
    return kinds


def rules(sheet: str, page: str) -> str:
    """Return the rules of the style sheet that may match an element of the page's first screen."""
    names = [(tag, {*classes.split()}, name) for tag, classes, name in elements(page)]
    all_names = {
        *(tag for tag, _, _ in names),
        *(class_or_id for _, classes, name in names for class_or_id in (*classes, name)),
    }
    matches_by_compound: dict[str, bool] = {}

    def has_match(compound: str) -> bool:
        """Return whether an element of the first screen matches a compound selector such as `a.b#c`."""
        if compound not in matches_by_compound:
            tag, needed = _names(compound)
            matches_by_compound[compound] = needed <= all_names and any(
                (not tag or tag == name) and needed <= {*classes, element_id} for name, classes, element_id in names
            )
        return matches_by_compound[compound]

    matching = "\n".join(_matching_rules(sheet, lambda selector: all(map(has_match, _compounds(selector)))))
    return style_sheet.without_unused(matching, _first_screen(page))


def _first_screen(page: str) -> str:
    """Return the HTML of the first screen: the bars, the first characters of the article, and the list next to it."""
    start, end = page.find("<article" if "<article" in page else "<main"), page.find("</article>")
    parts, room = [re.sub(r"<head>.*?</head>", "", page[:start], flags=re.S), "<tbody>"], LETTERS
    for part in _SVG.split(page[start:end]):
        parts.append(part if part.startswith("<svg") else part[:room])
        room -= 0 if part.startswith("<svg") else len(part)
        if room <= 0:
            break
    html = "".join([*parts, page[end:][:LIST_LETTERS]])
    return html + BUTTON * ('class="highlight' in html) + FILES * ("<figure" in html)


def _matching_rules(sheet: str, can_match: Callable[[str], bool]) -> Iterator[str]:
    for head, body in style_sheet.rules(sheet):
        if body is None or head.startswith("@media print"):
            continue
        if head.startswith(style_sheet.GROUPS):
            if inside := "".join(_matching_rules(body, can_match)):
                yield f"{head}{{{inside}}}"
        elif not head.startswith("@"):
            alternatives = style_sheet.alternatives(head)
            later = "content-visibility" in body  # the browser must know this before its first layout
            if selectors := [alternative for alternative in alternatives if later or can_match(alternative)]:
                yield f"{','.join(selectors)}{{{body}}}"


@cache
def _names(compound: str) -> tuple[str, frozenset[str]]:
    """Return the tag of a compound selector such as `a.b#c`, '' if it has none, and its classes and ids."""
    parts = [re.sub(r"\\(.)", r"\1", part) for part in _NAME.findall(compound)]
    tag = "" if compound[0] in ".#" else parts.pop(0).lower()
    return tag, frozenset(parts)


@cache
def _compounds(selector: str) -> Sequence[str]:
    """Return the parts between the combinators of a selector; a part that matches nothing for selectors of later states."""
    plain = style_sheet.outside_parentheses(selector)
    if _LATER.search(plain):
        return (".no-element.is-this",)
    return [
        compound for compound in re.split(r"[\s>+~]+", re.sub(r"::?[\w-]+", "", plain)) if compound and compound != "*"
    ]
