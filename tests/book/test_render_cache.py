"""What is drawn once and shown again: as long as rows, facts and code are the same, and not a moment longer."""

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
    """Something to draw, which counts how often it was."""

    def __init__(self, html: str) -> None:
        self.drawn, self.html = 0, html

    def __call__(self) -> Any:
        self.drawn += 1
        return Table(self.html)


class Table(Html):
    caption = "a table"


def test_what_is_known_is_not_drawn_again(tmp_path: Path) -> None:
    path, first, second = tmp_path / "shown" / "table.json", Drawing("<p>one</p>"), Drawing("<p>two</p>")
    assert RenderCache(path, "key", first).html == "<p>one</p>" and first.drawn == 1
    again = RenderCache(path, "key", second)
    assert (again.html, again._repr_html_(), repr(again)) == ("<p>one</p>", "<p>one</p>", repr(Html("<p>one</p>")))
    assert second.drawn == 0
    assert again.caption == "a table" and second.drawn == 1, "more than the text is asked of the thing itself"
    assert RenderCache(path, "another key", second).html == "<p>two</p>"


@pytest.mark.parametrize("text", ["", "[]", "{", '{"made from": "key"}', '{"made from": "key", "html": "x"}'])
def test_a_file_that_is_not_whole_is_made_again(tmp_path: Path, text: str) -> None:
    (tmp_path / "table.json").write_text(text)
    assert RenderCache(tmp_path / "table.json", "key", Drawing("<p>one</p>")).html == "<p>one</p>"
    assert json.loads((tmp_path / "table.json").read_text())["html"] == "<p>one</p>"


def test_where_nothing_can_be_kept_it_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    drawing = Drawing("<p>one</p>")
    assert [RenderCache(tmp_path / "file" / "table.json", "key", drawing).html for _ in range(2)] == ["<p>one</p>"] * 2
    assert drawing.drawn == 2


def test_a_notebook_that_asks_for_what_nobody_has_draws_nothing(tmp_path: Path) -> None:
    drawing = Drawing("<p>one</p>")
    kept = RenderCache(tmp_path / "table.json", "key", drawing)
    assert not any(hasattr(kept, name) for name in ("_repr_png_", "_ipython_display_", "_repr_mimebundle_"))
    assert drawing.drawn == 0


def test_a_key_is_of_the_rows_of_a_case_and_of_all_that_stands_beside_them() -> None:
    data = CaseData(ROWS, ["a", "b"], "small", skip_reasons={"b": "no such device"})
    key = key_of("code", data.alone())
    assert key == key_of("code", data.alone()), "as it was"
    newer = pd.concat([ROWS, ROWS.iloc[2:].assign(run="3")])
    assert key == key_of("code", replace(data, rows=newer).alone()), "another run of another case"
    others = [
        replace(data, rows=pd.concat([ROWS, ROWS.iloc[:1].assign(run="3")])),
        replace(data, rows=ROWS.assign(status="failed")),
        replace(data, rows=ROWS.iloc[1:]),
        replace(data, case="large"),
        replace(data, order=["b", "a"]),
        replace(data, skip_reasons={}),
        replace(data, probes=frozenset({"a"})),
        replace(data, counted_bytes={"a": 2.0}),
    ]
    keys = [key, key_of("other code", data.alone()), *(key_of("code", each.alone()) for each in others)]
    assert len({*keys}) == len(keys)


def test_a_set_has_one_key_whatever_its_order() -> None:
    names = [f"variant-{number}" for number in range(50)]
    assert key_of(frozenset(names)) == key_of(frozenset(reversed(names))) != key_of(frozenset(names[1:]))


def test_a_page_draws_again_the_case_that_was_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[str] = []
    table = report.ladder

    def ladder(data: CaseData) -> Any:
        drawn.append(data.case)
        return table(data)

    monkeypatch.setattr(report, "ladder", ladder)
    monkeypatch.setattr(module, "FOLDER", tmp_path / FOLDER)
    given = {"scale": "test", "budget_s": 1e-6, "variants": ["checked", "fused"], "results": str(tmp_path / "results")}

    def shown() -> list[str]:
        page = Experiment("stencil", given)
        return [page.ladder(case.name).html for case in page.cases]

    Experiment("stencil", given).measure()
    before = shown()
    cases = [case.name for case in Experiment("stencil", given).cases]
    assert len(cases) > 1 and drawn == cases
    assert shown() == before and drawn == cases, "of the same rows nothing is drawn"
    again = Experiment("stencil", {**given, "cases": cases[:1]})
    bring_up_to_date(again.plan(), again.device, again.store, again.policy, remeasure=True)
    after = shown()
    assert drawn == [*cases, cases[0]] and after[1:] == before[1:] and after[0] != before[0]
