"""A table as an object: HTML for the book, text for a terminal, a frame for code. Also highlighted source."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from html import unescape
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ..analysis.format import DASH
from ..devices.backends import BACKENDS
from ..escaping import escape, printable, spreadsheet_frame
from ..terminal import terminal_width
from .layout import fitted
from .table_cell import Cell as Cell
from .table_cell import Row as Row
from .table_cell import with_code as with_code

if TYPE_CHECKING:
    import pandas as pd


ROW = ' scope="row"'
ON_DEMAND = "more"
"""Class of columns that a page shows only when its reader asks for all of them."""
ASIDE = "aside"
"""Class of columns whose text may be the same in all rows of a part; the part's caption then holds it. No cell spans them."""
# Hidden without the site's style sheet, which hides columns; so in a notebook.
_ALL = ' <label class="all-columns" hidden=""><input type="checkbox"/> All columns</label>'


class Html(str):
    """A piece of HTML that notebooks render and the rest of the code treats as the string it is."""

    @property
    def html(self) -> str:
        """HTML of this piece, named as for a table."""
        return str(self)

    def _repr_html_(self) -> str:
        return str(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Print the text without tags: for IPython without HTML."""
        words = printable(unescape(re.sub(r"<[^>]+>", " ", self)))
        printer.text("\n".join(filter(None, (" ".join(line.split()) for line in words.splitlines()))))


class StandingNote(str):
    """A note that is the same wherever it stands, such as the meaning of an interval: a page of the site shows it once."""


def note(text: str, css: str = "table-note") -> Html:
    """Return a note below a table or figure; a standing note has a class of its own."""
    mark = " standing" if isinstance(text, StandingNote) else ""
    return Html(f'<p class="{escape(css)}{mark}">{with_code(text)}</p>')


def html_page(title: str, head: str, body: str) -> str:
    """Return a whole page that stands alone, in the style of card.css. All are HTML; title: text without elements."""
    return f"""<!DOCTYPE html>
<html lang="en" class="measurements">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
{head}
</head>
<body>
{body}
</body>
</html>
"""


def _css_string(text: str) -> str:
    """Return a text as a quoted CSS string that ends with a colon."""
    quoted = " ".join(printable(text).split()).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}: "'


def number_of(text: str, card_id: str) -> Html:
    """Return a number in a sentence, marked with the measurement that it comes from, as in a `Cell`."""
    return Html(f'<span data-of="{escape(card_id)}">{escape(text)}</span>')


@dataclass(frozen=True)
class Fold:
    """Rows of a long table, by number, that a page shows together below a summary."""

    name: str
    summary: str
    rows: Sequence[int]


STACKED_FROM = 3
"""Number of columns beyond which a phone shows each row as a list: its name, then each cell beside its column's head.

The ladder and the first page's table have a layout of their own.
"""


@dataclass(frozen=True, repr=False)
class Table:
    """A captioned table, with its figures as CSV.

    records: lines of the frame, or the frame itself; none for a table without an export. columns: the heads. Their classes: ''
    for text, 'num' for right-aligned figures, ON_DEMAND for columns shown on demand.
    """

    caption: str
    columns: Sequence[Cell]
    rows: Sequence[Row]
    records: "Sequence[Mapping[str, Any]] | pd.DataFrame" = field(default=(), repr=False)
    notes: Sequence[str] = ()
    css: str = ""
    units: Mapping[str, str] = field(default_factory=dict)
    """Units of the frame's columns, as the CSV has them in its heads: 's per step'."""
    parts: Sequence["Fold"] = ()
    """Collapsible groups of rows; none for a table in one piece."""
    fields: Sequence[str] | None = None
    """Names of the frame's columns; None for those of the records."""

    @cached_property
    def frame(self) -> "pd.DataFrame":
        """Figures of the table, made on first use: a terminal shows tables without pandas, which is slow to load."""
        import pandas as pd

        return pd.DataFrame(self.records, columns=self.fields)

    def __post_init__(self) -> None:
        """Raise ValueError for a row with too few or too many columns: a browser would show it under wrong heads."""
        width = sum(column.span for column in self.columns)
        for row in self.rows:
            width_of_row = sum(cell.span for cell in row.cells)
            if width_of_row != width:
                texts = [cell.text for cell in row.cells]
                raise ValueError(
                    f"table '{self.caption}': a row of {width_of_row} columns under {width} heads: {texts}"
                )

    @property
    def html(self) -> Html:
        """The table as HTML: a focusable region that scrolls by itself on a narrow screen."""
        notes = "".join(f"{note(note_text)}\n" for note_text in self.notes)
        if self.parts:
            return Html(f'{"".join(self._parts())}<p class="table-note">All of it:{self._download()}</p>\n{notes}')
        tools = _ALL * any(ON_DEMAND in column.css.split() for column in self.columns) + self._download() * bool(
            self.rows
        )
        return Html(self._region(self.caption, escape(self.caption) + tools, self.columns, self.rows) + notes)

    def _region(self, name: str, caption: str, columns: Sequence[Cell], rows: Sequence[Row]) -> str:
        head = "".join(column.html("th", ' scope="col"') for column in columns)
        body = "\n".join(self._line(row) for row in rows)
        heads = [column.text for column in columns for _ in range(column.span)]
        stacks = len(heads) > STACKED_FROM and not {"ladder", "glance"} & {*self.css.split()}
        css = " ".join(filter(None, ["roofbook", self.css, "stack" * stacks]))
        head_styles = "".join(
            f"--head-{number}:{_css_string(text)};" for number, text in enumerate(heads[1:], 2) if text
        )
        style = f' style="{escape(head_styles)}"' * stacks
        return (
            f'<div class="table-scroll" tabindex="0" role="region" aria-label="{escape(name)}">\n'
            f'<table class="{escape(css)}"{style}>\n<caption>{caption}</caption>\n'
            f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        )

    def _parts(self) -> Iterator[str]:
        """Yield each collapsible part, the first one open. Its caption holds texts of ASIDE columns that all its rows share."""
        for number, part in enumerate(self.parts):
            rows = [self.rows[number] for number in part.rows]
            alike = {
                column: alike_text.pop()
                for column, head in enumerate(self.columns)
                if ASIDE in head.css.split()
                if len(alike_text := {row.cells[column].text for row in rows} - {DASH}) == 1
            }
            columns = [column for column in range(len(self.columns)) if column not in alike]
            name = f"{self.caption}, {part.name}"
            caption_text = "; ".join(
                [part.name, *(f"{self.columns[column].text.lower()} {text}" for column, text in alike.items())]
            )
            heads = [replace(row.cells[0], small="") for row in rows]  # without the part's name, which the caption has
            cut = [
                replace(row, cells=[head, *(row.cells[column] for column in columns[1:])])
                for head, row in zip(heads, rows, strict=True)
            ]
            table = self._region(name, escape(caption_text), [self.columns[column] for column in columns], cut)
            yield f"<details{' open' * (number == 0)}><summary>{escape(part.summary)}</summary>\n{table}</details>\n"

    def _line(self, row: Row) -> str:
        css = f' class="{escape(row.css)}"' if row.css else ""
        anchor = f' id="{escape(row.anchor)}"' if row.anchor else ""
        variant = f' data-variant="{escape(row.variant)}"' if row.variant else ""
        first, *following = row.cells
        return f"<tr{anchor}{css}{variant}>{first.html('th', ROW)}{''.join(cell.html('td') for cell in following)}</tr>"

    def _download(self) -> str:
        """Return a link that holds the CSV, so that it works wherever the table is shown. A site makes it a file."""
        return csv_link(self.caption, self.csv)

    @property
    def csv(self) -> str:
        """The frame as CSV with all digits and units in the heads; without a frame, the cells as they are shown."""
        if self.frame.empty:
            import pandas as pd

            heads = [text for head in self.columns for text in (head.text, *[""] * (head.span - 1))]
            texts = [[(f"{cell.text} {cell.small}".strip(), cell.span) for cell in row.cells] for row in self.rows]
            cells = [[part for text, span in row for part in (text, *[""] * (span - 1))] for row in texts]
            return printable(spreadsheet_frame(pd.DataFrame(cells, columns=heads)).to_csv(index=False))
        return csv_of(self.frame, self.units)

    def _repr_html_(self) -> str:
        return self.html

    @property
    def text(self) -> str:
        """The table as text as wide as the terminal."""
        return self.fitted(terminal_width())

    def fitted(self, width: int) -> str:
        """Return the table as text of at most `width` columns."""
        return fitted(self.caption, self.columns, self.rows, self.notes, width)

    def __repr__(self) -> str:
        return self.text


def csv_of(frame: "pd.DataFrame", units: Mapping[str, str]) -> str:
    """Return a frame as CSV with all digits, and the units of its columns in their heads."""
    finite = frame.replace([math.inf, -math.inf], math.nan)
    heads = [f"{name} ({units[name]})" if units.get(name) else name for name in finite.columns]
    return printable(spreadsheet_frame(finite.set_axis(heads, axis=1)).to_csv(index=False))


def csv_link(caption: str, csv: str) -> str:
    """Return a link that holds a CSV, whose file is named by the caption of its table or figure."""
    short = re.sub(r" in \S{1,2}$", "", caption.lower().removeprefix("the "))  # drop the unit: the file has seconds
    name = re.sub(r"[^a-z0-9.]+", "-", short).strip("-.")[:80]
    return f' <a class="csv" download="{name}.csv" href="data:text/csv;charset=utf-8,{_quoted(csv)}">CSV</a>'


def _quoted(text: str) -> str:
    """Return a text as part of a data: address in an attribute."""
    return escape(quote(text, safe=" ,;:/()[]*!=?@$+"))


_PLAIN = re.compile(r'<span class="(?:n|p|w)">([^<]*)</span>')
"""Spans of names, punctuation and blanks, which need no colour: two thirds of a kernel's HTML."""


@lru_cache(maxsize=1024)  # the pages of several devices show the same kernels
def html_source(text: str, language: str) -> Html:
    """Return source as a highlighted block in the classes of the book's theme.

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
    """Return a unified diff as a highlighted block, or a sentence if there is no difference."""
    if not unified_diff_text.strip():
        return Html('<p class="no-diff">The source is the same; only the host drives it otherwise.</p>')
    return html_source(unified_diff_text, "diff")
