"""A table as HTML and as text, and blocks of code: escaped, semantic, aligned."""

import xml.etree.ElementTree as ElementTree

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.report.html import Cell, Row, Table

from .rows import ORDER, frame, lab_rows, row


def test_html_is_escaped_and_semantic() -> None:
    nasty = '<script>"&'
    rows = frame(row(nasty, 1e-3), row("b", 1e-3, nasty, status="failed", reason="a < b & <img src=x>"))
    for table in (report.ladder(CaseData(rows, [nasty, "b"], "256x256", bases=(nasty,))), report.failed(rows)):
        assert "<script" not in table.html and "<img" not in table.html and "a &lt; b &amp;" in table.html
        root = ElementTree.fromstring(f"<div>{table.html}</div>")
        region = root.find("div")
        assert region is not None and region.get("role") == "region" and region.get("tabindex") == "0"
        assert root.find(".//caption") is not None
        assert all(cell.get("scope") in ("row", "col") for cell in root.iter("th"))
        width = len(root.findall(".//thead/tr/th"))
        for each in root.findall(".//tbody/tr"):
            assert sum(int(cell.get("colspan", 1)) for cell in each) == width
    chart = report.ladder_chart(CaseData(rows, [nasty, "b"], "256x256", bases=(nasty,)), title='a "title" <b>')
    ElementTree.fromstring(chart.html)


@pytest.mark.parametrize("cells", [["a"], ["a", "b"], ["a", "b", "c", "d"], []])
def test_a_row_has_as_many_cells_as_the_table_has_columns(cells: list[str]) -> None:
    """The check is the table's own, so that each table of each test of the report, of a lab and of the book is held to it."""
    heads, whole = [Cell(name) for name in "xyz"], Row([Cell("a"), Cell("why not", span=2)])
    with pytest.raises(ValueError, match=rf"^table 'T': a row of {len(cells)} columns under 3 heads: "):
        Table("T", heads, [whole, Row([Cell(text) for text in cells])], pd.DataFrame())
    wide = Row([Cell("a"), Cell("b", span=3)])
    with pytest.raises(ValueError, match=r"a row of 4 columns under 3 heads: \['a', 'b'\]$"):
        Table("T", heads, [wide], pd.DataFrame())
    assert "why not" in Table("T", heads, [whole, Row([Cell("a")] * 3)], pd.DataFrame()).html


def test_text_is_aligned() -> None:
    lines = report.ladder(CaseData(lab_rows(), ORDER, "256x256")).text.splitlines()
    head = next(text for text in lines if text.startswith("Variant"))
    end = head.index("Time per step (\u00b5s)") + len("Time per step (\u00b5s)")
    for name in ("port ", "fused ", "peer "):
        body = next(text for text in lines if text.startswith(name))
        assert body[end - 1] == "]" and body[end] == " "


def test_code_blocks() -> None:
    block = report.html_diff("--- a\n+++ b\n-old <x>\n+new\n")
    assert 'class="highlight"' in block and 'class="gi"' in block and "&lt;x&gt;" in block and "<x>" not in block
    assert "no-diff" in report.html_diff("")
    assert 'class="kt"' in report.html_source("float a;", "opencl") and "plain" in report.html_source(
        "plain", "nonsense"
    )
