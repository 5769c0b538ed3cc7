"""The columns of a table that a page shows at once, those that it shows when asked, and how both look on a phone."""

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.roofline import Bound
from roofbook.report.html import ON_DEMAND, Cell, Row
from roofbook.report.ladder_descent import glance_row

from ..axe import violations
from ..often import often
from .inspection import line
from .rows import ORDER, frame, lab_rows, row

ROOT = Path(__file__).parents[2]
CASE = CaseData(
    lab_rows(),
    ORDER,
    "256x256",
    bounds={"float32": Bound(2e-5, "memory", 4.26e12)},
    rate=(0.065536, "MLUPS"),
    skip_reasons={"texture": "needs a side that is a power of two, and of at least one half of a thousand"},
    changes={"fused": "Three kernels become one, so that each cell is read once and is written once in a time step."},
)


def heads(table: report.Table, on_demand: bool = False) -> list[str]:
    return [column.text for column in table.columns if (ON_DEMAND in column.css.split()) == on_demand]


def test_a_ladder_has_five_columns_and_the_others_when_asked() -> None:
    table = report.ladder(CASE)
    five = ["Time per step (\u00b5s)", "vs step before", "vs peer", "Of the bound", "What changed"]
    assert heads(table) == ["Variant", *five]
    assert heads(table, on_demand=True) == ["vs sequential", "MLUPS", "Error / allowed", "Samples"]
    assert all(name in table.text for name in (*five, *heads(table, on_demand=True))), "a terminal shows all"
    for table_row in table.rows:
        visible = sum(cell.span for cell in table_row.cells if ON_DEMAND not in cell.css.split())
        assert visible == 6, f"{table_row.cells[0].text}: what a page hides is below heads that it hides"


def test_without_a_library_the_ratio_to_the_base_takes_its_place() -> None:
    rows = frame(row("sequential", 4e-3), row("port", 1e-3, "sequential"))
    table = report.ladder(CaseData(rows, ["sequential", "port"], "256x256"))
    assert heads(table) == ["Variant", "Time per step (ms)", "vs step before", "vs sequential", "What changed"]
    assert not any(note.startswith("Library") for note in table.notes)


def test_a_line_is_compared_with_the_fastest_library_of_its_precision() -> None:
    rows = frame(
        row("a", 8e-4), row("half", 2e-4, "a", dtype="float16"), row("bytes", 1e-4, "a", dtype="int8"),
        row("slow", 9e-4, role="peer"), row("quick", 4e-4, role="peer"), row("tensor", 1e-4, role="peer", dtype="float16"),
        row("empty", 1e-5, "a", role="probe"),
    )  # fmt: skip
    order = ["a", "half", "bytes", "empty", "slow", "quick", "tensor"]
    table = report.ladder(CaseData(rows, order, "256x256", bases=("a",)))
    ratio = table.frame.set_index("variant").vs_library
    assert ratio["a"] == pytest.approx(0.5, rel=0.01) and ratio["half"] == pytest.approx(0.5, rel=0.01)
    assert ratio["slow"] == pytest.approx(4 / 9, rel=0.01) and ratio[["bytes", "empty"]].isna().all()
    assert ">library</td>" in line(table, "quick") and ">library</td>" not in line(table, "slow")
    assert heads(table)[3] == "vs library"
    assert (
        "Library: the fastest of the same precision on this device, float32 quick; float16 tensor. None has a time in int8."
        in table.notes
    )


def test_a_step_that_splits_its_operands_is_compared_with_what_is_as_exact() -> None:
    rows = frame(
        row("a", 8e-4), row("half", 2e-4, "a", dtype="float16"), row("split", 3e-4, "a", dtype="float16"),
        row("quick", 6e-4, role="peer"), row("tensor", 1e-4, role="peer", dtype="float16"),
        row("cut", 4.5e-4, role="peer", dtype="float16"),
    )  # fmt: skip
    order, exact = ["a", "half", "split", "quick", "tensor", "cut"], {"split": "float32", "cut": "float32"}
    data = CaseData(rows, order, "256x256", bases=("a",), peers=["quick", "tensor", "cut"], exact_as=exact)
    table = report.ladder(data)
    ratio = table.frame.set_index("variant").vs_library
    assert ratio[["a", "half", "split"]].tolist() == pytest.approx([4.5 / 8, 0.5, 1.5], rel=0.01)
    assert any(note.endswith("As exact as float32, and so compared with it: split, cut.") for note in table.notes)
    peers = report.peers(data).frame.set_index("variant")
    assert peers.step.to_dict() == {"quick": "split", "tensor": "half", "cut": "split"}


def test_a_step_says_what_it_is_over_where_that_is_not_the_line_before() -> None:
    rows = frame(row("a", 8e-4), row("b", 4e-4, "a"), row("c", 2e-4, "a"), row("c", 2e-4, "c", role="again"))
    table = report.ladder(CaseData(rows, ["a", "b", "c"], "256x256", bases=("a",)))
    small_texts = {table_row.cells[0].text: table_row.cells[4].small for table_row in table.rows}
    assert small_texts == {"a": "", "b": "", "c": "(over a)", "c (A/A control)": ""}


@pytest.fixture
def page(browser: Any, tmp_path: Path) -> Any:
    """Opens a table as the site shows it, at a width."""
    tabs = []

    def opened(table: report.Table, width: int, scheme: str = "light") -> Any:
        style = f'<link rel="stylesheet" href="file://{ROOT}/book/_assets/roofbook.css">'
        look = "<style>body { margin: 0 1rem; background: var(--roofbook-ground); color: var(--roofbook-ink) }</style>"
        path = tmp_path / "table.html"
        path.write_text(
            f'<!doctype html><html lang="en" data-theme="{scheme}"><head><meta charset="utf-8"><title>T</title>{style}{look}'
            f'</head><body><main class="bd-article"><h1>T</h1>{table.html}</main></body></html>'
        )
        tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        tabs.append(tab)
        tab.goto(path.as_uri())
        return tab

    yield opened
    for tab in tabs:
        tab.close()


SCROLLS = "(() => { const at = document.querySelector('.table-scroll'); return at.scrollWidth - at.clientWidth })()"


@pytest.mark.parametrize("width", often([320, 390, 784, 900], {320}.__contains__))
def test_what_a_ladder_shows_at_once_needs_no_scrolling_sideways(page: Callable[..., Any], width: int) -> None:
    tab = page(report.ladder(CASE), width)
    assert tab.evaluate(SCROLLS) == 0
    visible = tab.evaluate(
        "[...document.querySelectorAll('tbody tr')].map(row => [...row.cells].filter(each => each.offsetWidth).length)"
    )
    assert visible == [3 if table_row.css in ("failed", "absent") else 6 for table_row in report.ladder(CASE).rows]


@pytest.mark.parametrize(
    ("width", "scheme"), often(product([390, 1400], ["light", "dark"]), lambda row: row == (390, "dark"))
)
def test_all_columns_come_by_keyboard_and_go_again(page: Callable[..., Any], width: int, scheme: str) -> None:
    tab = page(report.ladder(CASE), width, scheme)
    samples = tab.get_by_role("columnheader", name="Samples")
    assert not samples.count() and not violations(tab, {})
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Space")
    assert samples.count() == 1 and tab.get_by_role("cell", name=re.compile("20 \u00d7 100")).count() > 2
    assert not violations(tab, {})
    tab.keyboard.press("Space")
    assert not samples.count()


def test_other_wide_tables_show_five_columns_at_once() -> None:
    rows = frame(row("a", 8e-4), row("library", 9e-4, role="peer"))
    peers = report.peers(CaseData(rows, ["a"], "256x256", peers=["library"], changes={"library": "It does less."}))
    assert heads(peers)[1:] == ["Time per step (\u00b5s)", "Precision", "Best step like it", "vs peer", "What it is"]
    assert heads(peers, on_demand=True) == ["Fastest step", "vs peer"]
    parts = [f"part {number}" for number in range(7)]
    table = report.parts(CaseData(rows, ["a"], "256x256"), parts)
    assert len(heads(table)) == 1 + 4 and len(heads(table, on_demand=True)) == 3


@pytest.mark.parametrize("width", often([320, 390, 1000], {320}.__contains__))
@pytest.mark.thorough
def test_the_fastest_kernels_with_their_ratios_and_shares_need_no_scrolling_sideways(
    page: Callable[..., Any], width: int
) -> None:
    bound = {"float32": Bound(2e-5, "memory", 4.26e12)}
    data = CaseData(lab_rows(), ORDER, "256x256", bounds=bound)
    lines = [glance_row("A lab", place, data) for place in ("A GPU of a long name, OpenCL", "B")]
    tab = page(report.glance(lines, "Ends"), width)
    assert tab.evaluate(SCROLLS) == 0
    for text in ("fused", "sequential (on the host)", "peer", "256x256", "%"):
        assert tab.locator(f"td:visible:has-text('{text}')").count() == 2, text


@pytest.mark.parametrize(
    ("width", "scheme"), often(product([320, 390], ["light", "dark"]), lambda row: row == (320, "light"))
)
@pytest.mark.thorough
def test_on_a_phone_a_line_of_a_wide_table_is_a_list(page: Callable[..., Any], width: int, scheme: str) -> None:
    heads = [
        Cell("Name"),
        Cell('A "head"', "num"),
        Cell("Of two", span=2),
        Cell("Why", "wrap"),
        Cell("Rest", ON_DEMAND),
    ]
    cells = [[f"step-{at}", "1 234 [1 200, 1 260]", "two", "three", "for a reason " * 9, "more"] for at in range(3)]
    rows = [
        Row([Cell(text, head) for text, head in zip(texts, ("", "num", "", "", "wrap", ON_DEMAND), strict=True)])
        for texts in cells
    ]
    rows.append(Row([Cell("absent"), Cell("not measured", "reason", span=5)], "absent"))
    tab = page(report.Table("A table", heads, rows, pd.DataFrame()), width, scheme)
    before = "e => getComputedStyle(e, '::before').content"
    first = tab.locator("tbody tr").first
    assert tab.evaluate(SCROLLS) == 0 and not tab.locator("thead").is_visible()
    labels = [cell.evaluate(before) for cell in first.locator("> :visible").all()]
    assert labels == ["none", '"A \\"head\\": "', '"Of two: "', '"Of two: "', '"Why: "']
    assert first.locator("th").bounding_box()["width"] > 0.8 * first.bounding_box()["width"]
    assert tab.locator("tr.absent td").evaluate(before) == "none"
    assert violations(tab, {}) == []
    tab.set_viewport_size({"width": 1400, "height": 900})
    assert tab.locator("thead").is_visible() and first.locator("td").first.evaluate(before) == "none"


def test_a_table_of_few_columns_stays_a_table_on_a_phone() -> None:
    table = report.Table(
        "A table", [Cell("a"), Cell("b"), Cell("c")], [Row([Cell("1"), Cell("2"), Cell("3")])], pd.DataFrame()
    )
    assert 'class="roofbook"' in table.html and "--head" not in table.html
    assert "stack" not in report.ladder(CASE).html.partition(">\n<caption>")[0]
