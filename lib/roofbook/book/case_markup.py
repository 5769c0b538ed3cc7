"""Marks what is shown of one case, so that the site can show of a page the case that its reader has chosen."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial, wraps
from html import unescape
from inspect import signature
from typing import TYPE_CHECKING, Any

from ..escaping import escape

if TYPE_CHECKING:
    from .page import Page


_END = "<!-- of a case -->"


class OfCase:
    """A table, figure or note of one case: as it is, but that its HTML says of which case.

    main: whether the page shows this case until its reader chooses another.
    """

    def __init__(self, shown: Any, case: str, main: bool) -> None:
        self.shown, self.case, self.main = shown, case, main

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["shown"], name)

    @property
    def html(self) -> str:
        main = " data-main" * self.main
        return f'<div data-case="{escape(self.case)}"{main}>\n{self.shown.html}\n</div>{_END}\n'

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return repr(self.shown)


class OfMainCase(OfCase):
    """Of the main case, with the same of the others at hand: in a notebook nobody sees them, the site shows the one chosen."""

    def __init__(self, shown: Any, case: str, others: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(shown, case, main=True)
        self.others = others

    @property
    def html(self) -> str:
        others = (
            f'<template data-of-case="{escape(case)}">{draw().html}</template>\n' for case, draw in self.others.items()
        )
        return super().html + "".join(others)


_OTHERS = re.compile(r'(?:<template data-of-case="[^"]*">.*?</template>\n?)+', re.S)
_OTHER = re.compile(r'<template data-of-case="([^"]*)">(.*?)</template>', re.S)
_MARKED = re.compile(rf'<div data-case="([^"]*)">\n(.*?)\n</div>{_END}', re.S)
_FILE = re.compile(r"<a\b[^>]*\bdownload\b[^>]*>")


def without_others(html: str) -> str:
    """HTML of main cases alone."""
    return _OTHERS.sub("", html)


def others_apart(
    cells: Mapping[str, str], script: Callable[[str], str], *, whole: bool = False
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """The cells of a page with places for what is of other cases than the main one; and by case what belongs in each place.

    script: the address of what brings a case there, by its name. whole: what the page shows of each case beside the others
    goes too. In its place stand, for a browser without JavaScript, the links to the files of its tables.
    """
    of_case: dict[str, dict[str, str]] = {}

    def place(key: str, found: re.Match[str]) -> str:
        name = f"{key}-{len(places)}"
        places.append(name)
        parts = {unescape(case): html for case, html in _OTHER.findall(found[0])}
        for case, html in parts.items():
            of_case.setdefault(case, {})[name] = html
        scripts = escape(json.dumps({case: script(case) for case in parts}))
        files = [(case, link) for case, html in parts.items() for link in _FILE.findall(html)]
        said = ", ".join(f"{link}a table on {escape(case)}</a>" for case, link in files)
        without = f"<noscript><p>As files: {said}.</p></noscript>" * bool(files)
        return f'<div data-place="{name}" data-scripts="{scripts}">{without}</div>\n'

    shown = {}
    for key, html in cells.items():
        places: list[str] = []
        if whole:
            html = _MARKED.sub(r'<template data-of-case="\1">\2</template>', html)
        shown[key] = _OTHERS.sub(partial(place, key), html)
    return shown, of_case


def of_each_case(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a page with the one parameter `case`: without a case it shows the main one, and has the others at hand."""

    @wraps(draw)
    def shown(page: "Page", case: str | None = None) -> Any:
        main = page.data.case().name
        if case:
            return OfCase(draw(page, case), case, case == main)
        others = {each.name: partial(draw, page, each.name) for each in page.data.cases if each.name != main}
        return OfMainCase(draw(page), main, others) if others else draw(page)

    return shown


def marked(draw: Callable[..., Any]) -> Callable[..., Any]:
    """A method of a page with a parameter `case`: where a case is given, what it shows is marked as of that case.

    Without one it shows the page's main case alone, whichever a reader chooses.
    """

    @wraps(draw)
    def shown(page: "Page", *given: Any, **named: Any) -> Any:
        made = draw(page, *given, **named)
        case = bound.bind(page, *given, **named).arguments.get("case")
        return OfCase(made, case, case == page.data.case().name) if case else made

    bound = signature(draw)
    return shown
