"""What a page needs of its style sheet before it is first painted: the rules of its first screen stand in the page itself.

For pages.py. The style sheet comes beside the page then, and all of its rules after these: what a reader sees in the end is
what the style sheet says. Without JavaScript the page waits for the style sheet, as a browser does by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from . import style_sheet

LETTERS = 10_000
"""Of the article, without what is drawn in its figures: more than a screen shows of it."""
BESIDE = 3000
"""Of the list of the page's sections, which stands after the article and beside it."""
BUTTON = '<button class="copybtn o-tooltip--left">'
"""What a script puts into each block of code when the page has been read."""

Element = tuple[str, str, str]
"""Its name, the value of its `class`, and its `id`."""

_TAG = re.compile(r'<([a-zA-Z][\w-]*)((?:[^<>"]|"[^"]*")*)>')
_SVG = re.compile(r"(<svg\b.*?</svg>)", re.S)
_PLACE = re.compile(r'<style data-sheet="([^"]*)">.*?</style>', re.S)
_NAME = re.compile(r"(?:\\.|[\w-])+")
_LATER = re.compile(
    r":(?:hover|focus|active|disabled|checked|invalid|valid|target|visited|popover|-moz|-webkit)|::(?:[a-z]+-|backdrop|marker|select)"
)
"""What is so only after a reader has done something, or in another browser's own parts of a form."""


def links(address: str) -> str:
    """What loads the style sheet of a page, which does not wait for it, and the place of the rules that it needs first."""
    said = f'<link rel="stylesheet" href="{address}"'
    later = f"""{said} media="print" onload="this.media='all'" />"""
    return f'<style data-sheet=""></style>\n{later}\n<noscript>{said} /></noscript>\n'


def without(page: str) -> str:
    """A page as it is before it has its rules."""
    return _PLACE.sub('<style data-sheet=""></style>', page, count=1)


def filled(page: str, version: str, sheet: str) -> str:
    """A page with its rules, which are made where it has none of this version of the style sheet."""
    found = _PLACE.search(page)
    if not found or found[1] == version:
        return page
    return f'{page[: found.start()]}<style data-sheet="{version}">{rules(sheet, page)}</style>{page[found.end() :]}'


def elements(page: str) -> set[Element]:
    """Of a page those that its first screen shows, one of each kind."""
    found: set[Element] = set()
    for tag in _TAG.finditer(_shown(page)):
        named = dict(re.findall(r'\b(class|id)="([^"]*)"', tag[2]))
        found.add((tag[1].lower(), " ".join(sorted(named.get("class", "").split())), named.get("id", "")))
    return found


def rules(sheet: str, page: str) -> str:
    """Those of the style sheet which may match an element of the page's first screen."""
    names = [(tag, {*classes.split()}, name) for tag, classes, name in elements(page)]
    every = {*(tag for tag, _, _ in names), *(each for _, classes, name in names for each in (*classes, name))}
    known: dict[str, bool] = {}

    def stands(compound: str) -> bool:
        """Whether an element is all that `a.b#c` asks for."""
        if compound not in known:
            asked = [re.sub(r"\\(.)", r"\1", each) for each in _NAME.findall(compound)]
            tag = "" if compound[0] in ".#" else asked.pop(0).lower()
            wanted = {*asked}
            known[compound] = wanted <= every and any(
                (not tag or tag == name) and wanted <= {*classes, its} for name, classes, its in names
            )
        return known[compound]

    found = "\n".join(_kept(sheet, lambda selector: all(map(stands, _compounds(selector)))))
    return style_sheet.without_unused(found, _shown(page))


def _shown(page: str) -> str:
    """The HTML of the first screen: the bars, the first letters of the article, and the list beside it."""
    start, end = page.find("<article" if "<article" in page else "<main"), page.find("</article>")
    shown, room = [re.sub(r"<head>.*?</head>", "", page[:start], flags=re.S), "<tbody>"], LETTERS
    for part in _SVG.split(page[start:end]):
        shown.append(part if part.startswith("<svg") else part[:room])
        room -= 0 if part.startswith("<svg") else len(part)
        if room <= 0:
            break
    html = "".join([*shown, page[end:][:BESIDE]])
    return html + BUTTON * ('class="highlight' in html)


def _kept(sheet: str, can_match: Callable[[str], bool]) -> Iterator[str]:
    for head, body in style_sheet.rules(sheet):
        if body is None or head.startswith("@media print"):
            continue
        if head.startswith(style_sheet.GROUPS):
            if inside := "".join(_kept(body, can_match)):
                yield f"{head}{{{inside}}}"
        elif not head.startswith("@"):
            alternatives = style_sheet.alternatives(head)
            later = "content-visibility" in body  # what a browser need not lay out yet, it must know before it does
            if selectors := [each for each in alternatives if later or can_match(each)]:
                yield f"{','.join(selectors)}{{{body}}}"


def _compounds(selector: str) -> Iterable[str]:
    """What stands between the combinators of a selector; one that nothing is where it is of what comes later."""
    plain = style_sheet.outside_parentheses(selector)
    if _LATER.search(plain):
        return (".no-element.is-this",)
    return [each for each in re.split(r"[\s>+~]+", re.sub(r"::?[\w-]+", "", plain)) if each and each != "*"]
