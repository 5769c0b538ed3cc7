"""A table as an object: HTML for the book, text for a terminal, a frame for code. Also code blocks by Pygments."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..analysis.format import DASH
from ..devices.backends import BACKENDS
from ..escaping import escape, printable, spreadsheet_frame
from ..terminal import terminal_width
from .layout import fitted

if TYPE_CHECKING:
    import pandas as pd


ROW = ' scope="row"'
MORE = "more"
"""The class of columns that a page shows only when its reader asks for all of them."""
ASIDE = "aside"
"""The class of columns that may say the same in all rows of a part, which then says it once. No cell spans these."""
# Hidden where there is no style sheet that hides columns, as in a notebook.
_ALL = ' <label class="all-columns" hidden=""><input type="checkbox"/> All columns</label>'


class Html(str):
    """A piece of HTML that notebooks render and the rest of the code treats as the string it is."""

    @property
    def html(self) -> str:
        """Itself, as of a table."""
        return str(self)

    def _repr_html_(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Its words alone, where IPython cannot show HTML."""
        words = printable(unescape(re.sub(r"<[^>]+>", " ", self)))
        printer.text("\n".join(filter(None, (" ".join(line.split()) for line in words.splitlines()))))


class Standing(str):
    """A note that says the same wherever it stands, such as what an interval is: a page of the site says it once."""


def note(text: str, css: str = "table-note") -> Html:
    """A note below a table or figure, a standing one marked as such."""
    mark = " standing" if isinstance(text, Standing) else ""
    return Html(f'<p class="{escape(css)}{mark}">{with_code(text)}</p>')


@dataclass(frozen=True)
class Cell:
    """One cell: what it says, a class for its looks, how many columns it spans, a line of small print.

    It has no tooltip: whoever reads by touch, by keyboard or on paper would miss what that says.

    of: the measurement that its number is of, as `Reading.id` names it; a site makes the number a link to that.
    """

    text: str
    css: str = ""
    span: int = 1
    small: str = ""
    of: str = ""

    def html(self, tag: str, attributes: str = "") -> str:
        """The cell as <td> or <th>, everything escaped."""
        css = f' class="{escape(self.css)}"' if self.css else ""
        span = f' colspan="{self.span}"' if self.span > 1 else ""
        text, small = escape(self.text), escape(self.small)
        if "wrap" in self.css or "reason" in self.css:
            text, small = (_JOINT.sub(r"\1<wbr/>", each) for each in (text, small))
        text, small = _code(text), _code(small)
        if "num" in self.css:
            text, small = (_INTERVAL.sub(r'<span class="interval">\g<0></span>', each) for each in (text, small))
        small = f" <small>{small}</small>" if small else ""
        of = f' data-of="{escape(self.of)}"' if self.of else ""
        return f"<{tag}{attributes}{css}{of}{span}>{text}{small}</{tag}>"


def _css_string(text: str) -> str:
    """Return a text as CSS has it in quotes, with a colon behind it."""
    quoted = " ".join(printable(text).split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}: "'


def with_code(text: str) -> str:
    """Escaped, with what stands in backquotes, such as the name of a step, as code."""
    return _code(escape(text))


def _code(escaped: str) -> str:
    return _QUOTED.sub(r"<code>\1</code>", escaped)


_QUOTED = re.compile(r"`([^`]+)`")
_JOINT = re.compile(r"([@=/,+])(?=\w)")
"""Where the name of a point may break: `fissioned@split=1792x64`."""
_INTERVAL = re.compile(r"\[[^],<]*, [^],<]*\]")
"""One that a narrow column keeps on a line of its own, and that breaks between its ends where a phone is narrower still."""


def number_of(text: str, of: str) -> Html:
    """A number in a sentence, marked with the measurement that it is of, as in a Cell."""
    return Html(f'<span data-of="{escape(of)}">{escape(text)}</span>')


@dataclass(frozen=True)
class Row:
    """Cells of one line; the first is its header. `css` marks the line: failed, absent, control, best, published.

    anchor: the id by which a page links to the line.
    """

    cells: Sequence[Cell]
    css: str = ""
    anchor: str = ""


@dataclass(frozen=True)
class Fold:
    """Rows of a long table, by their numbers, that a page shows together below a line that says what is in them."""

    name: str
    summary: str
    rows: Sequence[int]


STACKED_FROM = 3
"""Columns beyond which a line of a table is a list on a phone: its name, then each cell beside the head of its column. The
ladder and the first page's table have a way of their own.
"""


@dataclass(frozen=True, repr=False)
class Table:
    """A captioned table, and its figures as CSV.

    `columns` are headers ('' class = text, 'num' = right-aligned figures, MORE = there when asked for).
    """

    caption: str
    columns: Sequence[Cell]
    rows: Sequence[Row]
    frame: "pd.DataFrame" = field(repr=False)
    notes: Sequence[str] = ()
    css: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    """Of columns of the frame, as CSV has them in its heads: 's per step'."""
    parts: Sequence["Fold"] = ()
    """That a page shows one below the other, to unfold; none for a table in one piece."""

    def __post_init__(self) -> None:
        """A row that is too short or too long is a mistake of who made it; a browser would show it under wrong heads."""
        width = sum(column.span for column in self.columns)
        for row in self.rows:
            found = sum(cell.span for cell in row.cells)
            if found != width:
                said = [cell.text for cell in row.cells]
                raise ValueError(f"table '{self.caption}': a row of {found} columns under {width} heads: {said}")

    @property
    def html(self) -> Html:
        """A focusable region that scrolls by itself on a narrow screen, with a semantic table inside."""
        notes = "".join(f"{note(each)}\n" for each in self.notes)
        if self.parts:
            return Html(f'{"".join(self._parts())}<p class="table-note">All of it:{self._download()}</p>\n{notes}')
        tools = _ALL * any(MORE in column.css.split() for column in self.columns) + self._download() * bool(self.rows)
        return Html(self._region(self.caption, escape(self.caption) + tools, self.columns, self.rows) + notes)

    def _region(self, name: str, caption: str, columns: Sequence[Cell], rows: Sequence[Row]) -> str:
        head = "".join(column.html("th", ' scope="col"') for column in columns)
        body = "\n".join(self._line(row) for row in rows)
        heads = [column.text for column in columns for _ in range(column.span)]
        stacks = len(heads) > STACKED_FROM and not {"ladder", "glance"} & {*self.css.split()}
        css = " ".join(filter(None, ["roofbook", self.css, "stack" * stacks]))
        named = "".join(f"--head-{at}:{_css_string(text)};" for at, text in enumerate(heads[1:], 2) if text)
        style = f' style="{escape(named)}"' * stacks
        return (
            f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(name)}">\n'
            f'<table class="{escape(css)}"{style}>\n<caption>{caption}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        )

    def _parts(self) -> Iterator[str]:
        """Each part to unfold, the first open. Its caption says what a column of ASIDE says alike in all its rows."""
        for at, part in enumerate(self.parts):
            rows = [self.rows[number] for number in part.rows]
            alike = {
                column: said.pop()
                for column, head in enumerate(self.columns)
                if ASIDE in head.css.split()
                if len(said := {row.cells[column].text for row in rows} - {DASH}) == 1
            }
            kept = [column for column in range(len(self.columns)) if column not in alike]
            name = f"{self.caption}, {part.name}"
            told = "; ".join(
                [part.name, *(f"{self.columns[column].text.lower()} {said}" for column, said in alike.items())]
            )
            heads = [replace(row.cells[0], small="") for row in rows]  # which says the part
            cut = [
                replace(row, cells=[head, *(row.cells[column] for column in kept[1:])])
                for head, row in zip(heads, rows, strict=True)
            ]
            table = self._region(name, escape(told), [self.columns[column] for column in kept], cut)
            yield f"<details{' open' * (at == 0)}><summary>{escape(part.summary)}</summary>\n{table}</details>\n"

    def _line(self, row: Row) -> str:
        css = f' class="{escape(row.css)}"' if row.css else ""
        anchor = f' id="{escape(row.anchor)}"' if row.anchor else ""
        first, *rest = row.cells
        return f"<tr{anchor}{css}>{first.html('th', ROW)}{''.join(cell.html('td') for cell in rest)}</tr>"

    def _download(self) -> str:
        """A link that holds the CSV, so that it works wherever the table is shown. A site makes it a file of its own."""
        told = re.sub(r" in \S{1,2}$", "", self.caption.lower().removeprefix("the "))  # the file has seconds
        name = re.sub(r"[^a-z0-9.]+", "-", told).strip("-.")[:80]
        return f' <a class="csv" download="{name}.csv" href="data:text/csv;charset=utf-8,{_quoted(self.csv)}">CSV</a>'

    @property
    def csv(self) -> str:
        """Its frame as CSV, all digits, units in the heads; of a table without a frame its cells as they are shown."""
        if self.frame.empty:
            import pandas as pd

            heads = [text for head in self.columns for text in (head.text, *[""] * (head.span - 1))]
            said = [[(f"{cell.text} {cell.small}".strip(), cell.span) for cell in row.cells] for row in self.rows]
            cells = [[part for text, span in row for part in (text, *[""] * (span - 1))] for row in said]
            return printable(spreadsheet_frame(pd.DataFrame(cells, columns=heads)).to_csv(index=False))
        finite = self.frame.replace([math.inf, -math.inf], math.nan)
        heads = [f"{name} ({self.units[name]})" if self.units.get(name) else name for name in finite.columns]
        return printable(spreadsheet_frame(finite.set_axis(heads, axis=1)).to_csv(index=False))

    def _repr_html_(self) -> str:
        return self.html

    @property
    def text(self) -> str:
        """The same for the terminal, as wide as that is."""
        return self.fitted(terminal_width())

    def fitted(self, width: int) -> str:
        """The same as text of at most `width` columns."""
        return fitted(self, width)

    def __repr__(self) -> str:
        return self.text


def _quoted(text: str) -> str:
    """As a data: address in an attribute has it."""
    return escape(quote(text, safe=" ,;:/()[]*!=?@$+"))


_PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
"""Names, punctuation and blanks, which have the colour of the block: two thirds of a kernel as HTML."""


def html_source(text: str, language: str) -> Html:
    """Source as a highlighted block in the classes of the book's theme.

    language: a backend's name, c, python, diff or another name that Pygments knows; an unknown one is shown as plain text.
    """
    from pygments import highlight
    from pygments.formatters import HtmlFormatter
    from pygments.lexers import get_lexer_by_name
    from pygments.lexers.special import TextLexer
    from pygments.util import ClassNotFound

    try:
        lexer = get_lexer_by_name(BACKENDS[language].highlight if language in BACKENDS else language, stripnl=False)
    except ClassNotFound:
        lexer = TextLexer(stripnl=False)
    block = highlight(text, lexer, HtmlFormatter(cssclass="highlight", wrapcode=True))
    block = _PLAIN.sub(r"\1", block)
    block = block.replace("<pre>", f'<pre tabindex="0" role="region" aria-label="{escape(language)} source">', 1)
    return Html(f'<div class="highlight-{escape(language)} notranslate">{block}</div>')


def html_diff(unified_diff_text: str) -> Html:
    """A unified diff as a highlighted block; says so where there is no difference."""
    if not unified_diff_text.strip():
        return Html('<p class="no-diff">The source is the same; only the host drives it otherwise.</p>')
    return html_source(unified_diff_text, "diff")
