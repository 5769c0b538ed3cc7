"""Changes of the site to a page's HTML: regions for tables, unique ids of figures, one legend."""

from __future__ import annotations

import re

import pandas as pd

from roofbook.book import page_html
from roofbook.report.html import Cell, Row, StandingNote, Table


def test_ids_of_inline_figures_are_made_unique_with_their_references() -> None:
    figure = '<svg aria-labelledby="t"><title id="t">x</title><g id="a" clip-path="url(#a)"/><use href="#a"/></svg>'
    out = page_html.unique_svg_ids(figure + figure)
    ids = re.findall(r'id="([^"]+)"', out)
    assert len(ids) == len(set(ids)) == 4
    assert set(re.findall(r"url\(#([^)]+)\)", out)) | set(re.findall(r'labelledby="([^"]+)"', out)) == set(ids)


def test_a_table_gets_its_region_once() -> None:
    once = page_html.scroll_tables("<p/><table><tr><th>a &lt; b</th></tr></table>")
    assert once.count("table-scroll") == 1 and 'aria-label="Table: a &lt; b"' in once
    assert page_html.scroll_tables(once) == once


def test_a_standing_note_of_many_tables_is_shown_once_on_a_page() -> None:
    standing, own_note = StandingNote("Times are medians."), "bands: not measured."
    table = Table("T", [Cell("Variant")], [Row([Cell("a")])], pd.DataFrame(), [standing, own_note]).html
    body, legend = page_html.one_legend(f"<section>{table}<hr>{table}{table}</section>")
    assert standing not in body and body.count(own_note) == 3, "a table keeps its own notes"
    assert legend.count(standing) == 1 and f'id="{page_html.LEGEND}"' in legend
    assert body.count(f'<a href="#{page_html.LEGEND}">') == 1 and "<a href" in body.partition("<hr>")[0]
    assert page_html.one_legend("<p>no table</p>") == ("<p>no table</p>", "")
