"""Marks what is shown of one case, so that the site can show of a page the case that its reader has chosen."""

from collections.abc import Callable
from functools import wraps
from html import escape
from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .page import Page


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
        return f'<div data-case="{escape(self.case)}"{main}>\n{self.shown.html}\n</div>\n'

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return repr(self.shown)


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
