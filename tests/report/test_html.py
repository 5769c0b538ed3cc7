"""A table as HTML and as text, and blocks of code: escaped, semantic, aligned."""

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Bound
from roofbook.report import html
from roofbook.report.html import Cell, Row, Table

from .rows import ORDER, ZEROS, frame, lab_rows, part_rows, row, series_rows, sweep_rows


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
        for line in root.findall(".//tbody/tr"):
            assert sum(int(cell.get("colspan", 1)) for cell in line) == width
    chart = report.ladder_chart(CaseData(rows, [nasty, "b"], "256x256", bases=(nasty,)), title='a "title" <b>')
    ElementTree.fromstring(chart.html)


@pytest.mark.parametrize("cells", [["a"], ["a", "b"], ["a", "b", "c", "d"], []])
def test_a_row_has_as_many_cells_as_the_table_has_columns(cells: list[str]) -> None:
    """The check is the table's own, so that each table of each test of the report, of a lab and of the book is held to it."""
    heads, right = [Cell(name) for name in "xyz"], Row([Cell("a"), Cell("why not", span=2)])
    with pytest.raises(ValueError, match=rf"^table 'T': a row of {len(cells)} columns under 3 heads: "):
        Table("T", heads, [right, Row([Cell(text) for text in cells])], pd.DataFrame())
    wide = Row([Cell("a"), Cell("b", span=3)])
    with pytest.raises(ValueError, match=r"a row of 4 columns under 3 heads: \['a', 'b'\]$"):
        Table("T", heads, [wide], pd.DataFrame())
    assert "why not" in Table("T", heads, [right, Row([Cell("a")] * 3)], pd.DataFrame()).html


def test_a_number_names_the_measurement_that_it_is_of() -> None:
    """Times, ratios, samples and errors alike. A control is another measurement than the step that it repeats."""
    rows = frame(row("a", 2e-3), row("b", 1e-3, "a"), row("b", 1e-3, "b", role="again"))
    root = ElementTree.fromstring(
        f"<div>{report.ladder(CaseData(rows, ['a', 'b'], '256x256', bases=('a',))).html}</div>"
    )
    of = {"".join(line[0].itertext()): [cell.get("data-of") for cell in line[1:]] for line in root.iter("tr")}
    numbers = {name: set(ids) - {None} for name, ids in of.items() if name != "Variant"}
    assert numbers == {
        "a": {"a~256x256"}, "b": {"b~256x256"}, "b (A/A control)": {"b~256x256~again"},
    }  # fmt: skip
    assert of["b"].count("b~256x256") == 5 and of["a"].count("a~256x256") == 3
    assert (
        Cell("1", card_id='"<').html("td") == '<td data-of="&quot;&lt;">1</td>' and Cell("1").html("td") == "<td>1</td>"
    )


def test_no_fact_is_in_a_tooltip_alone() -> None:
    """Who reads by touch, by keyboard or on paper sees none. The link at a heading has a name of its own."""
    bound = {"float32": Bound(2e-5, "memory", 4.26e12)}
    data = CaseData(lab_rows(), ORDER, "256x256", bounds=bound, peers=("peer",))
    tables = [report.ladder(data), report.peers(data), report.failed(data.rows), report.states([{"state": "fresh"}])]
    tables += [report.sweep(CaseData(sweep_rows(), [], "256x256"), "wg"), report.crossings(series_rows(), ZEROS)]
    tables += [report.parts(CaseData(part_rows(), ["plain", "short", "wrong"], "256x256"), ["op 1", "copy"])]
    assert not [table.caption for table in tables if re.search(r"<[^>]* title=", table.html)]
    assert not re.search(r"\btitle=", Path(html.__file__).read_text()), "no cell can have one"


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


def test_a_long_name_may_break_at_its_joints_and_nowhere_else() -> None:
    cell = Cell("not measured", "wrap", small="(fused@split=16x8, a </small> tag)")
    assert cell.html("td") == (
        '<td class="wrap">not measured <small>(fused@<wbr/>split=<wbr/>16x8, a &lt;/<wbr/>small&gt; tag)</small></td>'
    )
    assert Cell("fused@split=16x8").html("td") == "<td>fused@split=16x8</td>"
    assert (
        Cell("2 [1, 3]", "num", small="(n = 3)").html("td")
        == '<td class="num">2 <span class="interval">[1, 3]</span> <small>(n = 3)</small></td>'
    )


def test_the_name_of_a_step_in_backquotes_is_code() -> None:
    assert Cell("what `tensor` writes, a < b").html("td") == "<td>what <code>tensor</code> writes, a &lt; b</td>"
    assert Cell("of `a@b=1`", "wrap").html("td") == '<td class="wrap">of <code>a@<wbr/>b=<wbr/>1</code></td>'
