"""Cells and rows of tables, and the HTML of a cell."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..escaping import escape


@dataclass(frozen=True)
class Cell:
    """One cell of a table: its text, CSS classes, number of columns that it spans, and small print.

    It has no tooltip: readers by touch, by keyboard or on paper would miss it.

    card_id: the measurement that the number comes from, as `Reading.id`; a site links the number to its card. href: address
    that the text links to, in a cell without a card.
    """

    text: str
    css: str = ""
    span: int = 1
    small: str = ""
    card_id: str = ""
    href: str = ""

    def html(self, tag: str, attributes: str = "") -> str:
        """Return the cell as <td> or <th>, everything escaped."""
        css = f' class="{escape(self.css)}"' if self.css else ""
        span = f' colspan="{self.span}"' if self.span > 1 else ""
        text, small = escape(self.text), escape(self.small)
        if "wrap" in self.css or "reason" in self.css:
            text, small = (_JOINT.sub(r"\1<wbr/>", part_text) for part_text in (text, small))
        text, small = _code(text), _code(small)
        if "num" in self.css:
            text, small = (
                _INTERVAL.sub(r'<span class="interval">\g<0></span>', part_text) for part_text in (text, small)
            )
        small = f" <small>{small}</small>" if small else ""
        text = f'<a href="{escape(self.href)}">{text}</a>' if self.href else text
        data_of = f' data-of="{escape(self.card_id)}"' if self.card_id else ""
        return f"<{tag}{attributes}{css}{data_of}{span}>{text}{small}</{tag}>"


@dataclass(frozen=True)
class Row:
    """One row; its first cell is its header. `css` marks the row: failed, absent, control, best, published.

    anchor: the id by which a page links to the row. variant: the variant whose time on the table's case the row shows.
    """

    cells: Sequence[Cell]
    css: str = ""
    anchor: str = ""
    variant: str = ""


def with_code(text: str) -> str:
    """Return a text as escaped HTML, with `code` in backquotes as <code>."""
    return _code(escape(text))


def _code(escaped: str) -> str:
    return _QUOTED.sub(r"<code>\1</code>", escaped)


_QUOTED = re.compile(r"`([^`]+)`")
_JOINT = re.compile(r"([@=/,+])(?=\w)")
"""Character after which the name of a point may break: `fissioned@split=1792x64`."""
_INTERVAL = re.compile(r"\[[^],<]*, [^],<]*\]")
"""An interval: narrow columns keep it on one line, and it breaks between its ends only on a phone that is narrower still."""
