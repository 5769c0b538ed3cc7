"""Changes to the HTML of a page of the site, or of a device's cells on it: functions from text to text."""

import html
import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, unquote

from ..escaping import escape
from ..paths import write_whole

STANDING = re.compile(r'<p class="(?:table|figure)-note standing">(.*?)</p>\n?', re.S)
LEGEND = "how-to-read-the-tables"
TABLES = "tables"
"""Folder of the site with the CSV files of tables."""


def one_legend(body: str) -> tuple[str, str]:
    """Return HTML with a link in place of its first standing note, and the legend: all of its standing notes, each once."""
    notes = dict.fromkeys(STANDING.findall(body))
    if not notes:
        return body, ""
    link = f'<p class="table-note"><a href="#{LEGEND}">How to read the tables and figures</a></p>\n'
    body = STANDING.sub("", STANDING.sub(link, body, count=1))
    items = "".join(f"<li>{text}</li>\n" for text in notes)
    head = (
        f'How to read the tables and figures<a class="headerlink" href="#{LEGEND}" title="Link to this heading">#</a>'
    )
    return body, f'\n<section class="legend" id="{LEGEND}"><h2>{head}</h2>\n<ul>\n{items}</ul>\n</section>\n'


IN_NOTEBOOK = re.compile(r'<details class="in-notebook">.*?</details>', re.S)


def on_site(body: str) -> str:
    """Remove parts that only a notebook unfolds, since the site has a page for them, and show those of the site alone."""
    return re.sub(r'(<(?:a|div|figure) class="[\w -]*\bon-site"[^>]*) hidden>', r"\1>", IN_NOTEBOOK.sub("", body))


def scroll_tables(body: str) -> str:
    """Put each table into a region that scrolls by itself and that the keyboard can reach."""

    def wrap(match: re.Match[str]) -> str:
        container, table = match.groups()
        if container and "tabindex" in container:
            return match.group(0)  # tables of roofbook.report have a region already
        caption = re.search(r"<caption.*?>(.*?)</caption>", table, re.S)
        heads = re.findall(r"<th\b[^>]*>(.*?)</th>", table, re.S)
        label = " ".join(re.sub(r"<[^>]+>", " ", caption.group(1) if caption else ", ".join(heads[:4])).split())
        label = escape(html.unescape(label).strip(" ,¶#") or "table")
        region = f'<div class="table-scroll" role="group" tabindex="0" aria-label="Table: {label}">'
        return region + table + ("" if container else "</div>")

    pattern = r'(<div class="(?:pst-scrollable-table-container|table-scroll)"[^>]*>)?\s*(<table\b.*?</table>)'
    return re.sub(pattern, wrap, body, flags=re.S)


def unique_svg_ids(body: str, lead: str = "f") -> str:
    """Number the ids in each inline SVG, so that they are unique on a page, and short.

    lead: first letter of ids; another one for cells of a device, which are numbered apart from the page.
    """
    count = 0

    def numbered(match: re.Match[str]) -> str:
        nonlocal count
        svg = match.group(0)
        svg_ids = re.findall(r'\bid="([^"]+)"', svg)
        if not svg_ids:
            return svg
        count += 1
        ids = {name: f"{lead}{count}-{number}" for number, name in enumerate(dict.fromkeys(svg_ids), 1)}
        svg = re.sub(r'\bid="([^"]+)"', lambda m: f'id="{ids[m[1]]}"', svg)
        svg = re.sub(r"url\(#([^)]+)\)", lambda m: f"url(#{ids.get(m[1], m[1])})", svg)
        svg = re.sub(r'href="#([^"]+)"', lambda m: f'href="#{ids.get(m[1], m[1])}"', svg)

        def references(m: re.Match[str]) -> str:
            return m[1] + " ".join(ids.get(name, name) for name in m[2].split()) + '"'

        return re.sub(r'(\baria-(?:labelledby|describedby)=")([^"]*)"', references, svg)

    return re.sub(r"<svg\b.*?</svg>", numbered, body, flags=re.S)


_CSV_LINK = re.compile(r'download="([^"]*)\.csv" href="data:text/csv;charset=utf-8,([^"]*)"')


def split_files(body: str, address: str, lead: str) -> tuple[str, dict[str, str]]:
    """Return HTML whose tables link to CSV files, and these files by name: as data: addresses they would make pages large.

    address: of the files' folder, seen from the page. lead: begin of the files' names.
    """
    files: dict[str, str] = {}

    def link(match: re.Match[str]) -> str:
        text, number = unquote(html.unescape(match[2])), 1
        while files.setdefault(name := f"{lead}-{match[1]}{f'-{number}' * (number > 1)}.csv", text) != text:
            number += 1
        return f'download href="{address}{quote(name)}"'

    return _CSV_LINK.sub(link, body), files


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write these files into a folder and remove all other CSV files. Unchanged files keep their time."""
    for old in folder.glob("*.csv"):
        if old.name not in files:
            old.unlink()
    for name, text in files.items():
        if not (path := folder / name).exists() or path.read_text(encoding="utf-8") != text:
            write_whole(path, text)
