"""Markup of output that belongs to one case, so that the site can show the case that a reader has chosen."""

import json
import re
from collections.abc import Callable, Mapping
from functools import partial, wraps
from html import unescape
from inspect import signature
from typing import Any, Protocol

from ..analysis.lab_data import LabData
from ..escaping import escape


class HasData(Protocol):
    """A page, as far as its cases go."""

    @property
    def data(self) -> LabData: ...


_END = "<!-- of a case -->"


class OfCase:
    """A table, figure or note of one case. It behaves like the original; its HTML also names the case.

    main: whether the page shows this case until its reader chooses another.
    """

    def __init__(self, output: Any, case: str, main: bool) -> None:
        self.output, self.case, self.main = output, case, main

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["output"], name)

    @property
    def html(self) -> str:
        main = " data-main" * self.main
        return f'<div data-case="{escape(self.case)}"{main}>\n{self.output.html}\n</div>{_END}\n'

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return repr(self.output)


class OfMainCase(OfCase):
    """Output for the main case; the other cases are embedded in <template>s that the site shows on demand."""

    def __init__(self, output: Any, case: str, draw_by_case: Mapping[str, Callable[[], Any]]) -> None:
        super().__init__(output, case, main=True)
        self.draw_by_case = draw_by_case

    @property
    def html(self) -> str:
        templates = (
            f'<template data-of-case="{escape(case)}">{draw().html}</template>\n'
            for case, draw in self.draw_by_case.items()
        )
        return super().html + "".join(templates)


_OTHERS = re.compile(r'(?:<template data-of-case="[^"]*">.*?</template>\n?)+', re.S)
_OTHER = re.compile(r'<template data-of-case="([^"]*)">(.*?)</template>', re.S)
_MARKED = re.compile(rf'<div data-case="([^"]*)">\n(.*?)\n</div>{_END}', re.S)
_FILE = re.compile(r"<a\b[^>]*\bdownload\b[^>]*>")


def without_others(html: str) -> str:
    """Return HTML without the templates of other cases."""
    return _OTHERS.sub("", html)


def split_cases(
    cells: Mapping[str, str], script: Callable[[str], str], *, every_case: bool = False
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Move the output of other cases out of a page's cells: return the cells with placeholders, and case -> placeholder ->
    HTML.

    script: returns the address of the script that brings a case. every_case: also move the output of cases shown side by side.
    For browsers without JavaScript, a placeholder links to the files of its tables.
    """
    html_by_case: dict[str, dict[str, str]] = {}

    def placeholder(key: str, match: re.Match[str]) -> str:
        name = f"{key}-{len(placeholders)}"
        placeholders.append(name)
        templates = {unescape(case): html for case, html in _OTHER.findall(match[0])}
        for case, html in templates.items():
            html_by_case.setdefault(case, {})[name] = html
        scripts = escape(json.dumps({case: script(case) for case in templates}))
        files = [(case, link) for case, html in templates.items() for link in _FILE.findall(html)]
        links_text = ", ".join(f"{link}a table on {escape(case)}</a>" for case, link in files)
        noscript = f"<noscript><p>As files: {links_text}.</p></noscript>" * bool(files)
        return f'<div data-place="{name}" data-scripts="{scripts}">{noscript}</div>\n'

    cells_without = {}
    for key, html in cells.items():
        placeholders: list[str] = []
        if every_case:
            html = _MARKED.sub(r'<template data-of-case="\1">\2</template>', html)
        cells_without[key] = _OTHERS.sub(partial(placeholder, key), html)
    return cells_without, html_by_case


def embed_cases(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a page method whose one parameter is `case`: without a case it draws the main one and embeds the others."""

    @wraps(draw)
    def draw_cases(page: HasData, case: str | None = None) -> Any:
        main = page.data.case().name
        if case:
            return OfCase(draw(page, case), case, case == main)
        draw_by_case = {
            other_case.name: partial(draw, page, other_case.name)
            for other_case in page.data.cases
            if other_case.name != main
        }
        return OfMainCase(draw(page), main, draw_by_case) if draw_by_case else draw(page)

    return draw_cases


def mark_case(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a page method with a parameter `case`: output for a given case is mark_case with that case.

    Without a case, the output is of the page's main case, whatever a reader chooses.
    """

    @wraps(draw)
    def draw_mark_case(page: HasData, *args: Any, **kwargs: Any) -> Any:
        output = draw(page, *args, **kwargs)
        case = parameters.bind(page, *args, **kwargs).arguments.get("case")
        return OfCase(output, case, case == page.data.case().name) if case else output

    parameters = signature(draw)
    return draw_mark_case
