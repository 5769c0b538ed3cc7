"""Text from rows, files, kernels and machines made harmless: one function for each place that shows it.

A row of a store is written by whoever made its file. A compiler's message quotes a stranger's kernel, and a device is
named by its driver. So whatever shows a text escapes it, and does not rely on somebody having checked it before.

printable: a terminal, a message, and every other text that a person reads. read_json: what a row has as JSON.
escape: HTML, in a text or in an attribute.
page_json: JSON within a page's <script>. script_json: the call of a function in a script of its own.
raw_html, markdown: HTML and plain text in the source of a page, which is MyST.
spreadsheet, spreadsheet_frame: a cell or a table of a CSV.
file_name: part of a file's name or of an address.
A drawing shows its text by report/figure.py, and a shell's command is quoted by shlex.
"""

import hashlib
import html
import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import pandas as pd

Data = TypeVar("Data")

_HIDDEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f"  # control characters, but for the tabulator and the end of a line
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # those that turn the direction of what stands beside them
    r"\u2028\u2029"  # separators, which end a line for some programs and not for others
    r"\ufdd0-\ufdef\ufeff\ufffe\uffff\U000e0000-\U000e007f"  # those that are no characters, or show nothing
    r"\ud800-\udfff"  # halves of a surrogate pair, which UTF-8 cannot hold
)
_UNPRINTABLE = re.compile(f"[{_HIDDEN}]")
_MAY_BE_HALF, _HALF = re.compile(r"\\u[dD][89a-fA-F]"), re.compile("[\ud800-\udfff]")
_IN_SCRIPT = re.compile("[<>&]")
_FENCE = re.compile(r"`{3,}")
_OF_MARKDOWN = re.compile(r"([][\\`*_{}()<>#!$|~&:@^.\"])")
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""First characters by which a spreadsheet takes a cell for a formula; the last four are the wide forms of the first four."""
_UNSAFE_IN_NAME = re.compile(r"[^\w.+@=~-]+", re.ASCII)
LONGEST_NAME = 48
"""Characters of a file's name that come from a text."""


def printable(text: object) -> str:
    r"""Return a text with each character that a terminal obeys, or that hides others, written out as Python writes it.

    Ends of lines and tabulators stay.

    >>> printable("\x1b[2J\u202eabc")
    '\\x1b[2J\\u202eabc'
    """
    return _UNPRINTABLE.sub(_written_out, str(text))


def printable_data(data: Data) -> Data:
    """Return data as JSON has it with all texts and names in it printable."""
    if isinstance(data, str):
        return printable(data)  # type: ignore[return-value]
    if isinstance(data, Mapping):
        return {printable_data(name): printable_data(value) for name, value in data.items()}  # type: ignore[return-value]
    if isinstance(data, (list, tuple)):
        if all(isinstance(value, float) for value in data):  # samples: there are many
            return data
        return [printable_data(value) for value in data]  # type: ignore[return-value]
    return data


def read_json(text: str) -> Any:
    """Parse the JSON of a row. If it has half a surrogate pair, which no file can hold, its texts are made printable."""
    data = json.loads(text)
    is_half = _MAY_BE_HALF.search(text) and _HALF.search(json.dumps(data, ensure_ascii=False))
    return printable_data(data) if is_half else data


def escape(text: object) -> str:
    """Return a text for an element or a quoted attribute of HTML; unprintable characters become escapes.

    >>> escape('<b title="a">&')
    '&lt;b title=&quot;a&quot;&gt;&amp;'
    """
    return html.escape(printable(text))


def page_json(data: object) -> str:
    """Return data as JSON for a <script> within a page: its texts are printable, and none can end the script or open a comment.

    >>> page_json("</script><!--")
    '"\\\\u003c/script\\\\u003e\\\\u003c!--"'
    """
    return _IN_SCRIPT.sub(lambda match: f"\\u{ord(match[0]):04x}", json.dumps(printable_data(data), ensure_ascii=False))


def script_json(*data: object) -> str:
    """Return data as the arguments of a call in a JavaScript file; its texts are printable."""
    return ", ".join(
        json.dumps(printable_data(value), separators=(",", ":"), ensure_ascii=False, allow_nan=False) for value in data
    )


def raw_html(markup: str) -> str:
    """Return HTML as a block of MyST, in a fence that is longer than any within it, so that none of it is read as MyST."""
    fence = "`" * max(3, 1 + max(map(len, _FENCE.findall(markup)), default=0))
    return f"{fence}{{raw}} html\n{markup}\n{fence}\n"


def markdown(text: object) -> str:
    r"""Return a text within a line of MyST that shows it: no role, directive, link, formula or HTML of its own.

    >>> markdown("{ref}`a` $x$")
    '\\{ref\\}\\`a\\` \\$x\\$'
    """
    return _OF_MARKDOWN.sub(r"\\\1", " ".join(printable(text).split()))


def markdown_code(text: object) -> str:
    """Return a text as one line of code in MyST, in a fence that is longer than any within it."""
    line = " ".join(printable(text).split())
    fence = "`" * (1 + max(map(len, re.findall("`+", line)), default=0))
    return f"{fence} {line} {fence}" if "`" in line else f"{fence}{line}{fence}"


def spreadsheet(text: Data) -> Data | str:
    """Return the value of a cell in a CSV: a text that a spreadsheet would take for a formula begins with an apostrophe.

    >>> spreadsheet("=1+1"), spreadsheet(-1)
    ("'=1+1", -1)
    """
    if isinstance(text, str) and text.startswith(_FORMULA) and not _is_number(text):
        return f"'{text}"
    return text


def spreadsheet_frame(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Return a table whose texts and heads are those of `spreadsheet`."""
    escaped = frame.copy()
    for at, kind in enumerate(escaped.dtypes):
        if kind.kind not in "biufcmM":
            escaped.isetitem(at, escaped.iloc[:, at].map(spreadsheet))
    escaped.columns = [spreadsheet(name) for name in escaped.columns]
    return escaped


def file_name(text: object) -> str:
    """Return a text as part of a file's name and of an address: letters, digits and . _ + @ = ~ - alone, none leading out.

    A text that has to be changed gets a hash of the whole text, so that two texts never have one name.

    >>> file_name("128x128"), file_name("../a b")
    ('128x128', '_a_b-2c2c791a')
    """
    plain = str(text)
    name = _UNSAFE_IN_NAME.sub("_", plain).lstrip(".")[:LONGEST_NAME]
    digest = hashlib.sha256(plain.encode(errors="surrogatepass")).hexdigest()[:8]
    return name if name and name == plain else f"{name}-{digest}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return not text.startswith(("\t", "\r", "\n"))


def _written_out(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode("ascii")
