"""Markup of output that belongs to one case, so that the site can show the case that a reader has chosen."""

import re
from collections.abc import Callable, Mapping
from functools import partial, wraps
from html import unescape
from inspect import signature
from itertools import count
from types import MappingProxyType
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

    main: whether the page shows this case until its reader chooses another. draw_by_case: functions that draw the output on
    other cases, which the HTML embeds in <template>s that the site shows on demand.
    """

    def __init__(
        self, output: Any, case: str, main: bool, draw_by_case: Mapping[str, Callable[[], Any]] = MappingProxyType({})
    ) -> None:
        self.output, self.case, self.main, self.draw_by_case = output, case, main, draw_by_case

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["output"], name)

    @property
    def html(self) -> str:
        templates = (
            f'<template data-of-case="{escape(case)}">{draw().html}</template>\n'
            for case, draw in self.draw_by_case.items()
        )
        main = " data-main" * self.main
        output = f'<div data-case="{escape(self.case)}"{main}>\n{self.output.html}\n</div>{_END}\n'
        return output + "".join(templates)

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return repr(self.output)


_OTHER = re.compile(r'<template data-of-case="([^"]*)">(.*?)</template>', re.S)
_MARKED = re.compile(rf'<div data-case="([^"]*)">\n(.*?)\n</div>{_END}', re.S)
_CASE, _MAIN_CASE = re.compile(r' data-case="([^"]*)"'), re.compile(r' data-case="([^"]*)" data-main')
_SENTENCES = re.compile(r"<p><strong>([^<]+)\.</strong>")
"""Paragraph of a lab's summary about one case."""
_FILE = re.compile(r"<a\b[^>]*\bdownload\b[^>]*>")


def mark_sentences(html: str) -> str:
    """Return HTML in which a paragraph of a summary names its case, if some other output is of that case."""
    cases = set(_CASE.findall(html))
    paragraph = '<p data-case="{0}"><strong>{0}.</strong>'.format
    return _SENTENCES.sub(lambda match: paragraph(match[1]) if match[1] in cases else match[0], html)


def split_cases(cells: Mapping[str, str]) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Move the output of other cases out of a page's cells: return the cells with placeholders, and case -> placeholder ->
    HTML.

    If a page has a main case, output of cases shown side by side is moved too. For browsers without JavaScript, a placeholder
    links to the files of its tables.
    """
    html_by_case: dict[str, dict[str, str]] = {}
    has_main, numbers = any(" data-main" in html for html in cells.values()), count()

    def placeholder(key: str, match: re.Match[str]) -> str:
        place = f"{key}-{next(numbers)}"
        html_by_case.setdefault(unescape(match[1]), {})[place] = match[2]
        links = ", ".join(f"{link}a table on {match[1]}</a>" for link in _FILE.findall(match[2]))
        noscript = f"<noscript><p>As a file: {links}.</p></noscript>" * bool(links)
        return f'<div data-case="{match[1]}" data-cell="{place}">{noscript}</div>'

    cells_without = {}
    for key, html in cells.items():
        if has_main:
            html = _MARKED.sub(r'<template data-of-case="\1">\2</template>', html)
        cells_without[key] = _OTHER.sub(partial(placeholder, key), html)
    return cells_without, html_by_case


def case_options(html: str, script_by_case: Mapping[str, str]) -> str:
    """Return the options of the cases that a page's HTML has, the main one selected, and of all cases; '' for a single case.

    script_by_case: name of the script that brings the output of a case, if the page does not have it.
    """
    names = dict.fromkeys(_CASE.findall(html))
    if len(names) < 2:
        return ""
    main = _MAIN_CASE.search(html)
    selected = main[1] if main else next(iter(names))
    options = (
        f'<option value="{name}" data-script="{escape(script_by_case.get(unescape(name), ""))}"'
        f"{' selected' * (name == selected)}>{name}</option>"
        for name in names
    )
    return f'{"".join(options)}<option value="all">all cases</option>'


def embed_cases(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a page method whose one parameter is `case`: without a case it draws the main one and embeds the others."""

    @wraps(draw)
    def draw_cases(page: HasData, case: str | None = None) -> Any:
        main = page.data.case().name
        if case:
            return OfCase(draw(page, case), case, case == main)
        names = [other_case.name for other_case in page.data.cases if other_case.name != main]
        draw_by_case = {name: partial(draw, page, name) for name in names}
        return OfCase(draw(page), main, True, draw_by_case) if draw_by_case else draw(page)

    return draw_cases


def mark_case(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a page method with a parameter `case`: output for a given case is marked with that case.

    Without a case, the output is of the page's main case, whatever a reader chooses.
    """

    @wraps(draw)
    def draw_mark_case(page: HasData, *args: Any, **kwargs: Any) -> Any:
        output = draw(page, *args, **kwargs)
        case = parameters.bind(page, *args, **kwargs).arguments.get("case")
        return OfCase(output, case, case == page.data.case().name) if case else output

    parameters = signature(draw)
    return draw_mark_case
