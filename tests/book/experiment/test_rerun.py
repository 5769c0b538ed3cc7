"""Measuring a step again beside its parent, and with other knobs, from a notebook."""

from __future__ import annotations

import re

import pytest

from roofbook.book import experiment as experiment_module
from roofbook.errors import UsageError
from roofbook.spec import registry

from .opening import Open


def test_a_step_is_measured_again_beside_its_parent(open_lab: Open) -> None:
    experiment = open_lab()
    first = experiment.rerun("soa", case="40x24")
    assert "2 measurements taken; run " in first and "before: not measured here" in first
    assert re.search(r"<p>soa on 40x24: [\d.]+\s.s per step</p><p>[^<]+ fused \([\d.]+\s.s\), in one run</p>", first)
    assert "fused over itself, the A/A control of the same rounds" in first and "<td" in first, "the table follows"
    rows = experiment.store.query("select variant, role, run from cells where lab = 'lbm'")
    assert sorted(zip(rows["variant"], rows["role"], strict=True)) == [
        ("fused", "again"), ("fused", "step"), ("soa", "step"),
    ]  # fmt: skip
    assert rows["run"].nunique() == 1
    again = experiment.rerun("soa", case="40x24", runs=3)
    assert (
        re.search(r"<p>before, on \d{4}-\d\d-\d\d: [^<]+ fused, in one run</p>", again) and ", in 3 runs</p>" in again
    )
    assert experiment.store.query("select run from cells where variant = 'soa'")["run"].nunique() == 4


def test_a_step_with_other_knobs_is_a_point_of_a_sweep_that_the_page_lists(open_lab: Open) -> None:
    experiment = open_lab()
    assert "No step with other knobs was measured here" in str(experiment.turned_knobs())
    table = experiment.measure("fused", knobs={"OBSTACLE": "SELECT_BOTH"}, case="40x24")
    assert "2 measurements taken" in table and "fused@OBSTACLE=SELECT_BOTH" in table
    assert "0 measurements taken, 2 were fresh" in experiment.measure(
        "fused", knobs={"OBSTACLE": "SELECT_BOTH"}, case="40x24"
    )
    frame = experiment.turned_knobs().frame  # type: ignore[union-attr]
    assert frame[["variant", "parent", "case", "status"]].values.tolist() == [
        ["fused@OBSTACLE=SELECT_BOTH", "fused", "40x24", "ok"]
    ]
    assert frame["seconds"].gt(0).all() and frame["vs_parent"].gt(0).all()


def test_the_name_of_a_step_with_several_knobs_has_one_order() -> None:
    lab = registry.get("lbm")
    variant = lab.variant("fused@OBSTACLE=SELECT_BOTH,COUNT_CELLS=0")
    assert variant.name == "fused@COUNT_CELLS=0,OBSTACLE=SELECT_BOTH"
    assert (variant.parent, variant.role, variant.axis, variant.point) == (
        "fused", "sweep", "COUNT_CELLS,OBSTACLE", "0,SELECT_BOTH",
    )  # fmt: skip
    assert lab.variant(variant.name) == variant
    assert variant.text.settings | {} == lab.variant("fused").text.settings | {
        "COUNT_CELLS": 0, "OBSTACLE": "SELECT_BOTH",
    }  # fmt: skip
    for wrong in ("fused@COUNT_CELLS=0,", "fused@COUNT_CELLS=0;1", "fused@COUNT_CELLS", "fused@@COUNT_CELLS=0"):
        with pytest.raises(UsageError, match="unknown variant"):
            lab.variant(wrong)


def test_a_click_on_the_controls_measures_a_step_with_the_knobs_of_the_fields(
    open_lab: Open, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiment_module, "is_in_notebook", lambda: True)
    first_row, knobs, _ = open_lab().controls().children  # type: ignore[union-attr]
    step, case, runs, button = first_row.children
    assert (case.options, runs.value) == (("40x24",), 1)
    variants = dict(step.options)
    assert "fused" in variants and "tensor" not in variants
    step.value = variants["fused"]
    fields = {field.description: field for field in knobs.children}
    assert fields["OBSTACLE"].value and "OBSTACLE" in fields["OBSTACLE"].description
    fields["OBSTACLE"].value = "SELECT_BOTH"
    button.click()
    shown = capsys.readouterr().out
    assert "fused@OBSTACLE=SELECT_BOTH on 40x24" in shown and "in one run" in shown
    fields["OBSTACLE"].value = "NONSENSE"
    button.click()
    assert "OBSTACLE has no choice NONSENSE" in capsys.readouterr().out and not button.disabled


def test_a_page_that_the_book_builds_has_a_sentence_in_place_of_the_controls(open_lab: Open) -> None:
    assert "In JupyterLab" in str(open_lab().controls())
