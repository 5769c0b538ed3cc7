"""A matplotlib drawing as inline SVG fit for any page: light or dark, any width, no id twice, the same bytes every time."""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from io import BytesIO, StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

from ..errors import UsageError
from ..escaping import escape, printable
from ..paths import write_whole
from .html import csv_link, csv_of, note

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Drawing

    from .html import Table

INK = "#010203"  # placeholder that no palette has; it becomes currentColor, the page's text colour
PAPER, NIGHT = "#fbfbfa", "#15181c"  # text colours on dark and on light tiles
COLOURS = {"failed": "#d0435b", "kernel": "#85898f", "to device": "#1f9d94", "to host": "#a07d1f"}
"""Colours of marks that show no effect of a step; effect_style.py has those of effects."""
FONT = 11.5
_STANDALONE_STYLE = (
    "<style>svg { color: #1f2328; font-family: system-ui, sans-serif }"
    " @media (prefers-color-scheme: dark) { svg { color: #e6edf3 } }</style>"
)
FAMILY = "font-family: 'DejaVu Sans', Verdana, Geneva, sans-serif"  # fonts of the width that texts were measured with
MARGIN = 0.06  # inches
WIDTH = 6.4  # inches: narrow enough that the letters stay legible when a phone scales it to 360 pixels


_SETTINGS: Mapping[Any, Any] = {
    **dict.fromkeys(("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color", "ytick.color"), INK),
    **dict.fromkeys(("grid.color", "hatch.color"), INK),
    **dict.fromkeys(("axes.facecolor", "figure.facecolor", "savefig.facecolor"), "none"),
    **dict.fromkeys(("font.size", "axes.titlesize", "axes.labelsize"), FONT),
    **dict.fromkeys(("xtick.labelsize", "ytick.labelsize", "legend.fontsize"), FONT - 1),
    **dict.fromkeys(("axes.spines.top", "axes.spines.right", "legend.frameon"), False),
    "axes.axisbelow": True,
    "axes.linewidth": 0.8,
    "axes.unicode_minus": True,
    "errorbar.capsize": 2.5,
    "font.family": "sans-serif",
    "font.sans-serif": "DejaVu Sans",  # comes with matplotlib: a page measures the same on each machine
    "grid.alpha": 0.14,
    "grid.linewidth": 0.7,
    "hatch.linewidth": 0.6,
    "lines.linewidth": 1.8,
    "svg.fonttype": "none",  # real text
    "svg.hashsalt": "roofbook",  # the same ids every time
    "text.hinting": "none",  # letters are measured here and drawn by a browser
    "text.parse_math": False,  # a compiler's message may have dollar signs
}
"""Settings of matplotlib: real text, ink for every line, no background."""


@contextmanager
def style() -> Iterator[None]:
    """Set matplotlib's settings for one drawing, whatever the reader's own are."""
    import matplotlib as mpl

    with mpl.rc_context():
        mpl.rcdefaults()  # ignore the reader's matplotlibrc
        mpl.rcParams.update(_SETTINGS)
        yield


@dataclass(frozen=True)
class Figure:
    """A finished figure: `svg` for a page, `title`, the `notes` and `warnings` below it, and its numbers as `records`."""

    title: str
    svg: str = field(repr=False)
    drawing: "Drawing" = field(repr=False)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    records: Sequence[Mapping[str, Any]] = field(default=(), repr=False)
    """One for each point."""
    more: "tuple[str, Figure | Table] | None" = field(default=None, repr=False)
    """Summary of a fold below the figure, and what is in it; None for no fold."""

    @property
    def html(self) -> str:
        """<figure> with the drawing, its title, its numbers as CSV, and its warnings and notes."""
        below = "".join(f'<p class="figure-warning">{escape(text)}</p>' for text in self.warnings)
        below += "".join(note(text, "figure-note") for text in self.notes)
        csv = csv_link(self.title, self.csv) if self.records else ""
        caption = f"<figcaption>{escape(self.title)}{csv}{below}</figcaption>"
        fold = ""
        if self.more:
            summary, folded = self.more
            fold = f"\n<details><summary>{escape(summary)}</summary>\n{folded.html}</details>"
        return f'<figure class="roofbook">\n{self.svg}\n{caption}\n</figure>{fold}'

    @property
    def csv(self) -> str:
        """The numbers of the points, with all digits. Times are in seconds."""
        import pandas as pd

        return csv_of(pd.DataFrame(self.records), {})

    def _repr_html_(self) -> str:
        return self.html

    def save(self, path: str | Path) -> Path:
        """Write the figure as .svg (dark ink, light if the reader's system is dark) or .png (on white); else UsageError."""
        path = Path(path)
        if path.suffix == ".svg":
            alone = self.svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
            alone = re.sub(rf' href="{STEP_LINK}[^"]*"', "", alone)  # the page with the steps is not around it
            write_whole(path, alone.replace("</title>\n", f"</title>\n{_STANDALONE_STYLE}\n", 1))
        elif path.suffix == ".png":
            buffer = BytesIO()
            with style():
                self.drawing.savefig(
                    buffer, format="png", dpi=160, facecolor="white", bbox_inches="tight", metadata={"Software": None}
                )
            write_whole(path, buffer.getvalue())
        else:
            raise UsageError(f"cannot save a figure as {path.name!r}; use .svg or .png")
        return path


def finish(
    drawing: "Drawing",
    title: str,
    notes: Sequence[str] = (),
    warnings: Sequence[str] = (),
    description: str = "",
    records: Sequence[Mapping[str, Any]] = (),
) -> Figure:
    """Turn a matplotlib drawing into a Figure; call it inside `style()`. description: by default `describe(drawing)`.

    records: numbers of its points, which readers take away as CSV.
    """
    _make_printable(drawing)
    sink = StringIO()
    # Measure the box here: bbox_inches="tight" would draw everything once more to find it.
    box = drawing.get_tightbbox(_measuring_renderer(drawing.dpi)).padded(MARGIN)
    drawing.savefig(
        sink,
        format="svg",
        bbox_inches=box,
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
    svg = clean(sink.getvalue(), title, description or describe(drawing))
    return Figure(title, svg, drawing, tuple(notes), tuple(warnings), tuple(records))


@cache
def _measuring_renderer(dpi: float) -> Any:
    """Return the renderer that measures texts of all drawings: matplotlib measures a text once for each renderer."""
    from matplotlib.backends.backend_agg import RendererAgg

    return RendererAgg(1, 1, dpi)


def _make_printable(drawing: "Drawing") -> None:
    """Replace characters that no font has or no SVG may hold in all texts of a drawing; ticks get it by their formatter."""
    from matplotlib.text import Text
    from matplotlib.ticker import FuncFormatter

    for text in drawing.findobj(Text):
        text.set_text(printable(text.get_text()))
    for axis in (axis for ax in drawing.axes for axis in (ax.xaxis, ax.yaxis)):
        for formatter in (axis.get_major_formatter(), axis.get_minor_formatter()):
            if isinstance(formatter, FuncFormatter):
                formatter.func = partial(_printable_tick, formatter.func)


def _printable_tick(label: Callable[[float, int | None], str], value: float, number: int | None) -> str:
    """Return the text of `label` at a tick, printable."""
    return printable(label(value, number))


_TIPS, _NEXT, _LINK = "tips:", ",", "|"
_TIPS_GROUP = re.compile(rf'<g id="{_TIPS}([^"]*)">')


def add_tips(mark: Any, *texts: str, links: Sequence[str] = ()) -> None:
    """Attach a tooltip to a mark of a drawing, or one to each marker of a line: readers see it when they point there.

    links: the address that each one opens; '' for none. `STEP_LINK` is the begin of an address on a lab's page.
    """
    pairs = zip(texts, [*links, *[""] * (len(texts) - len(links))], strict=True)
    quoted = (_LINK.join(quote(printable(text), safe="") for text in pair) for pair in pairs)
    mark.set_gid(_TIPS + _NEXT.join(quoted))


STEP_LINK = "#step-"
"""Begin of the address of a step on its lab's first page; the lab's other pages complete it."""


def _with_tips(drawing: str) -> str:
    """Return an SVG with the texts of `add_tips` as data-tip attributes, which _assets/figures.js reads.

    The markers of a line get one each, any other mark one on its group. A mark with a link is in an <a>, which has the tip.
    """
    first, *marks = _TIPS_GROUP.split(drawing)
    pieces = [first]
    for tips, following in zip(marks[::2], marks[1::2], strict=True):
        pairs = [[_as_no_markup(escape(unquote(part))) for part in tip.split(_LINK)] for tip in tips.split(_NEXT)]
        if "<use " in following.partition("</g>")[0]:
            leading, *uses = following.split("<use ", len(pairs))
            pieces += ["<g>", leading]
            for (text, link), use in zip(pairs, uses, strict=True):
                marker, rest = use.split("/>", 1)
                pieces.append(_linked(f"<use {marker}/>", text, link) if link else f'<use data-tip="{text}" {use}')
                pieces += [rest] * bool(link)
        else:
            (text, link), (inside, rest) = pairs[0], following.split("</g>", 1)
            pieces += [_linked(f"<g>{inside}</g>", text, link), rest] if link else [f'<g data-tip="{text}">', following]
    return "".join(pieces)


def _linked(mark: str, tip: str, link: str) -> str:
    """Return a mark in a link. Its address is in another attribute until the ids of the drawing have their prefix."""
    return f'<a data-tip="{tip}" data-to="{link}">{mark}</a>'


_LIKE_MARKUP = re.compile(rf'"|\bfont|url\(|xlink|{INK}')
_MARKUP_ESCAPES = str.maketrans({letter: f"&#{ord(letter)};" for letter in '":('})


def _as_no_markup(text: str) -> str:
    """Return an escaped text of a drawing that no later rewriting can take for an attribute or a style."""
    return text.translate(_MARKUP_ESCAPES).replace(INK, f"&#35;{INK[1:]}") if _LIKE_MARKUP.search(text) else text


LONGEST_DESCRIPTION = 1200
"""Most characters of a description; a figure with more text in it has a table beside it."""


def describe(drawing: "Drawing", extra: str = "", *, with_texts: bool = True) -> str:
    """Describe a drawing for readers who cannot see it: its axes, its lines, all text in it in order, and `extra`.

    with_texts: whether the text in it is part of the description, which `extra` may say better.
    """
    sentences = []
    for ax in drawing.axes:
        sentences += [
            f"{side}: {label}" for side, label in (("Across", ax.get_xlabel()), ("up", ax.get_ylabel())) if label
        ]
        legend = ax.get_legend()
        lines = [text.get_text() for text in legend.get_texts()] if legend else []
        sentences += [f"lines: {', '.join(lines)}"] * bool(lines)
        words = [" ".join(text.get_text().split()) for text in ax.texts]
        sentences += [f"in it: {', '.join(word for word in words if word)}"] * (any(words) and with_texts)
    text = "; ".join([*sentences, *[extra] * bool(extra)])
    return text if len(text) <= LONGEST_DESCRIPTION else f"{text[: LONGEST_DESCRIPTION - 1]}\u2026"


def clean(raw: str, title: str, description: str = "") -> str:
    """Return matplotlib's SVG made fit for a page, as the module's first line says.

    Its accessible name is the description, since a caption below it holds the title; without a description it is the title.
    """
    label = description or title
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', raw)
    body = re.search(r"<svg [^>]*>(.*)</svg>", raw, re.DOTALL)
    if box is None or body is None:
        raise ValueError("not an SVG by matplotlib: no viewBox")
    inner = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", body[1], flags=re.DOTALL)
    inner = re.sub(r"(?<=>)[^<]+", lambda text: _as_no_markup(text[0]), inner)
    inner = _with_tips(inner).replace(INK, "currentColor").replace("xlink:href", "href")
    inner = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1; font-family: inherit", inner)
    prefix = "f" + hashlib.sha256((title + inner).encode()).hexdigest()[:10]
    references = set(re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)', inner))
    used_ids = {name for pair in references for name in pair if label}
    inner = re.sub(r' id="([^"]+)"', lambda match: f' id="{prefix}-{match[1]}"' if match[1] in used_ids else "", inner)
    inner = re.sub(r'href="#([^"]+)"', rf'href="#{prefix}-\1"', inner)
    inner = re.sub(r"url\(#([^)]+)\)", rf"url(#{prefix}-\1)", inner)
    inner = inner.replace(' data-to="', ' href="')
    # Drop matplotlib's style sheet for '*', which would apply to the whole page.
    inner = slim(re.sub(r"<style[^>]*>.*?</style>", "", inner, flags=re.DOTALL))
    return svg_of((float(box[1]), float(box[2])), title, label, f"\n{inner}\n")


def svg_of(size: tuple[float, float], title: str, label: str, inner: str) -> str:
    """Return a drawing's inner markup as an inline SVG of a page. size: in pixels. label: its accessible name."""
    width, height = size
    return (
        f'<svg class="roofbook-figure" viewBox="0 0 {width} {height}" width="100%" role="img" '
        f'aria-label="{escape(label)}" preserveAspectRatio="xMidYMid meet" '
        f'style="max-width: {width * 1.5:.0f}px; height: auto; stroke-linejoin: round; stroke-linecap: butt; '
        f'{FAMILY}; {"; ".join(DEFAULT_TEXT_STYLE[:2])}">\n'
        f"<title>{escape(title)}</title>{inner}</svg>"
    )


def slim(drawing: str) -> str:
    """Return the same drawing in fewer bytes and elements, to a hundredth of a pixel.

    It drops elements and styles that show nothing or repeat their parent's.
    """
    text = re.sub(r"font-family: [^;\"]*;? ?", "", drawing)
    text = re.sub(r'<text style="([^"]*)"', _without_default_style, text)
    text = re.sub(r' transform="rotate\(-?0(?: [^)]*)?\)"', "", text)
    text = re.sub(r'<path d="[^"]*"(?: clip-path="[^"]*")? style="fill: none"/>|<defs>\s*</defs>', "", text)
    text = re.sub(r' (?:d|x|y|points|transform)="[^"]*"', lambda match: _HUNDREDTHS.sub(_rounded, match[0]), text)
    text = re.sub(r'(?<= d=")[^"]*', lambda match: re.sub(r"\s*([A-Za-z])\s*", r"\1", match[0]).strip(), text)
    while (fewer := re.sub(r"<g(?: [^>]*)?(?:/>|(?<!/)>\s*</g>)", "", text)) != text:
        text = fewer
    is_kept: list[bool] = []

    def plain(tag: re.Match[str]) -> str:
        if tag[0] == "</g>":
            return tag[0] if is_kept.pop() else ""
        is_kept.append(tag[0] != "<g>")
        return tag[0] if is_kept[-1] else ""

    return re.sub(r"\s*\n\s*", "\n", re.sub(r"</g>|<g\b[^>]*>", plain, text)).strip()


DEFAULT_TEXT_STYLE = ("fill: currentColor", f"font-size: {FONT}px", "text-anchor: start")
"""Default style of a drawing's text."""


def _without_default_style(match: re.Match[str]) -> str:
    declarations = [
        declaration for declaration in match[1].split("; ") if declaration and declaration not in DEFAULT_TEXT_STYLE
    ]
    return f'<text style="{"; ".join(declarations)}"' if declarations else "<text"


_HUNDREDTHS = re.compile(r"\d+\.\d{3,}")


def _rounded(number: re.Match[str]) -> str:
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")
