"""Tables as CSV: all digits, units in the heads, in a file next to the page of the site, or in the link of a table itself."""

import re
from html import unescape
from io import StringIO
from pathlib import Path
from urllib.parse import unquote

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.book import page_html
from roofbook.report.html import Cell, Row, Table

from ..report.rows import ORDER, frame, lab_rows, row


def ladder(name: str = "a", seconds: float = 1e-3) -> Table:
    return report.ladder(CaseData(frame(row(name, seconds)), [name], "256x256", bases=(name,)))


def read(text: str) -> pd.DataFrame:
    return pd.read_csv(StringIO(text))


def test_a_ladder_as_csv_has_all_digits_and_units() -> None:
    table = report.ladder(CaseData(lab_rows(), ORDER, "256x256"))
    csv = read(table.csv)
    assert {"seconds (s per step)", "low (s per step)", "vs_parent", "vs_library", "n"} <= {*csv.columns}
    assert list(csv["seconds (s per step)"].dropna()) == list(table.frame["seconds"].dropna())
    assert list(csv["variant"]) == list(table.frame["variant"]), "failed and missing ones too"
    assert "wrong result" in " ".join(map(str, csv["reason"]))


def test_one_or_two_samples_give_no_infinite_interval() -> None:
    rows = frame(row("a", 2e-3, n=2), row("b", 1e-3, "a", n=2))
    assert "inf" not in report.ladder(CaseData(rows, ["a", "b"], "256x256", bases=("a",))).csv


def test_the_csv_of_a_table_without_a_frame_has_its_cells() -> None:
    nasty = 'a "b", <c> & 50 % #d'
    rows = [Row([Cell("x"), Cell("1", small="(s)")]), Row([Cell(nasty), Cell("µ")])]
    table = Table("The 'T' & <U>", [Cell("Name"), Cell("Value")], rows, pd.DataFrame())
    assert read(table.csv).to_numpy().tolist() == [["x", "1 (s)"], [nasty, "µ"]]
    (name, data) = re.findall(r'download="([^"]*)" href="data:text/csv;charset=utf-8,([^"]*)"', table.html)[0]
    assert name == "t-u.csv" and unquote(unescape(data)) == table.csv
    assert "csv" not in Table("Empty", [Cell("Name")], [], pd.DataFrame()).html


def test_pages_link_to_files_named_by_lab_device_and_table(tmp_path: Path) -> None:
    table = ladder()
    html, files = page_html.split_files(f"<p>before</p>{table.html}", "../tables/x/", "lbm-nvidia-h200.cuda")
    assert files == {"lbm-nvidia-h200.cuda-ladder-on-256x256.csv": table.csv} and "data:" not in html
    assert re.findall(r'href="([^"]*)"', html) == ["../tables/x/lbm-nvidia-h200.cuda-ladder-on-256x256.csv"]
    assert page_html.split_files(html, "", "lbm") == (html, {}), "once"

    folder = tmp_path / "lbm" / "nvidia-h200.cuda"
    page_html.write_files(folder, files | {"old.csv": "x"})
    (before,) = (path.stat().st_mtime_ns for path in folder.glob("lbm*"))
    page_html.write_files(folder, files)
    assert {path.name: path.read_text() for path in folder.iterdir()} == files
    assert [path.stat().st_mtime_ns for path in folder.iterdir()] == [before]


def test_two_tables_of_one_name_are_two_files_unless_they_are_equal() -> None:
    tables = [ladder().html, ladder(seconds=2e-3).html, ladder().html]
    html, files = page_html.split_files("<hr>".join(tables), "", "lbm")
    assert [*files] == ["lbm-ladder-on-256x256.csv", "lbm-ladder-on-256x256-2.csv"]
    assert ["-2.csv" in table for table in html.split("<hr>")] == [False, True, False]


@pytest.mark.parametrize("text", ["", "<table><caption>C</caption></table>"])
def test_a_text_without_a_table_of_the_book_stays(text: str) -> None:
    assert page_html.split_files(text, "", "x") == (text, {})
