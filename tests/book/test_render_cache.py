"""The cache of drawn tables and figures: a stored one is shown again only while rows, facts and code are the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.case_data import CaseData
from roofbook.book import experiment as module
from roofbook.book.experiment import Experiment
from roofbook.book.render_cache import FOLDER, RenderCache, key_of
from roofbook.measure.schedule import bring_up_to_date
from roofbook.report.html import Html

ROWS = pd.DataFrame(
    {
        "run": ["1", "1", "2"],
        "variant": ["a", "b", "a"],
        "case": ["small", "small", "large"],
        "role": "step",
        "axis": "",
        "point": "",
        "status": "ok",
        "started": pd.to_datetime(["2026-01-01", "2026-01-01", "2026-01-02"]),
    }
)


class Drawing:
    """Function that draws a table and counts its calls."""

    def __init__(self, html: str) -> None:
        self.drawn, self.html = 0, html

    def __call__(self) -> Any:
        self.drawn += 1
        return Table(self.html)


class Table(Html):
    caption = "a table"


def test_a_stored_table_is_not_drawn_again(tmp_path: Path) -> None:
    path, first, second = tmp_path / "tables" / "table.json", Drawing("<p>one</p>"), Drawing("<p>two</p>")
    assert RenderCache(path, "key", first).html == "<p>one</p>" and first.drawn == 1
    again = RenderCache(path, "key", second)
    assert (again.html, again._repr_html_(), repr(again)) == ("<p>one</p>", "<p>one</p>", repr(Html("<p>one</p>")))
    assert second.drawn == 0
    assert again.caption == "a table" and second.drawn == 1, "any other attribute is read from the table itself"
    assert RenderCache(path, "another key", second).html == "<p>two</p>"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"made from": "key"}', '{"made from": "key", "html": "x"}'])
def test_a_broken_file_is_written_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)
    assert RenderCache(tmp_path / "table.json", "key", Drawing("<p>one</p>")).html == "<p>one</p>"
    assert json.loads((tmp_path / "table.json").read_text())["html"] == "<p>one</p>"


def test_without_a_writable_cache_each_use_draws(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    drawing = Drawing("<p>one</p>")
    assert [RenderCache(tmp_path / "file" / "table.json", "key", drawing).html for _ in range(2)] == ["<p>one</p>"] * 2
    assert drawing.drawn == 2


def test_a_notebook_that_asks_for_another_representation_draws_nothing(tmp_path: Path) -> None:
    drawing = Drawing("<p>one</p>")
    cached = RenderCache(tmp_path / "table.json", "key", drawing)
    assert not any(hasattr(cached, name) for name in ("_repr_png_", "_ipython_display_", "_repr_mimebundle_"))
    assert drawing.drawn == 0


def test_a_key_depends_on_the_rows_of_its_case_and_on_everything_else_that_the_table_shows() -> None:
    data = CaseData(ROWS, ["a", "b"], "small", skip_reasons={"b": "no such device"})
    key = key_of("code", data.alone())
    assert key == key_of("code", data.alone()), "as it was"
    newer = pd.concat([ROWS, ROWS.iloc[2:].assign(run="3")])
    assert key == key_of("code", replace(data, rows=newer).alone()), "another run of another case"
    changes = [
        replace(data, rows=pd.concat([ROWS, ROWS.iloc[:1].assign(run="3")])),
        replace(data, rows=ROWS.assign(status="failed")),
        replace(data, rows=ROWS.iloc[1:]),
        replace(data, case="large"),
        replace(data, order=["b", "a"]),
        replace(data, skip_reasons={}),
        replace(data, probes=frozenset({"a"})),
        replace(data, counted_bytes={"a": 2.0}),
    ]
    keys = [key, key_of("other code", data.alone()), *(key_of("code", changed.alone()) for changed in changes)]
    assert len({*keys}) == len(keys)


def test_a_set_has_one_key_in_any_order() -> None:
    names = [f"variant-{number}" for number in range(50)]
    assert key_of(frozenset(names)) == key_of(frozenset(reversed(names))) != key_of(frozenset(names[1:]))


def test_a_page_draws_again_the_case_that_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cases_drawn: list[str] = []
    table = report.ladder

    def ladder(data: CaseData) -> Any:
        cases_drawn.append(data.case)
        return table(data)

    monkeypatch.setattr(report, "ladder", ladder)
    monkeypatch.setattr(module, "FOLDER", tmp_path / FOLDER)
    parameters = {
        "scale": "test",
        "budget_s": 1e-6,
        "variants": ["checked", "fused"],
        "results": str(tmp_path / "results"),
    }

    def ladders() -> list[str]:
        page = Experiment("stencil", parameters)
        return [page.ladder(case.name).html for case in page.cases]

    Experiment("stencil", parameters).measure()
    before = ladders()
    cases = [case.name for case in Experiment("stencil", parameters).cases]
    assert len(cases) > 1 and cases_drawn == cases
    assert ladders() == before and cases_drawn == cases, "of the same rows nothing is drawn"
    second = Experiment("stencil", {**parameters, "cases": cases[:1]})
    bring_up_to_date(second.plan(), second.device, second.store, second.policy, remeasure=True)
    after = ladders()
    assert cases_drawn == [*cases, cases[0]] and after[1:] == before[1:] and after[0] != before[0]
