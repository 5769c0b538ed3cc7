"""The outputs of an experiment in a notebook: tables, figures, notes, sources and reasons of failures."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.roofline import Peaks
from roofbook.book.experiment import MeasuredData
from roofbook.book.page import Note
from roofbook.errors import UsageError
from roofbook.labs.lenet.timeline import timeline
from roofbook.labs.stencil.bandwidth import bandwidth_chart
from roofbook.measure import case_run, precompile
from roofbook.measure import row as to_row
from roofbook.report.html import Table
from roofbook.spec.lab import Lab

from .opening import Open, change_step, drawn, edited_source, states_by_variant


def test_a_kernel_that_fails_is_shown_with_its_reason_and_no_time(
    open_lab: Open, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(MeasuredData, "peaks", Peaks([(1e12, 1e9)], {"float32": 1e15}))
    fused, soa = lab.variant("fused").source, lab.variant("soa").source
    assert fused and soa
    change_step(lab, "soa", source=edited_source(tmp_path / "a", soa, "KERNEL", "nonsense KERNEL"))
    change_step(lab, "fused", source=edited_source(tmp_path / "b", fused, "omega * (EQ", "0.9f * omega * (EQ"))
    experiment = open_lab(variants=["sequential", "no-finish", "fused", "soa"])
    assert "4 measurements taken, 2 of them failed" in experiment.measure()
    assert states_by_variant(experiment) == {
        "sequential": "fresh",
        "no-finish": "fresh",
        "fused": "failed",
        "soa": "failed",
    }
    rows = experiment.data.rows.set_index("variant")
    assert rows.loc["fused", "reason"].startswith("wrong result: error ")
    assert rows.loc["soa", "reason"].startswith("does not build: ")
    assert [len(rows.loc[name, "samples_s"]) for name in ("fused", "soa")] == [0, 0]
    assert experiment.data.measured.seconds("fused", "40x24") is None and experiment.data.measured.seconds(
        "no-finish", "40x24"
    )

    ladder = experiment.ladder().html
    lines = {name: line for line in ladder.split("<tr") for name in ("fused", "soa") if f">{name}<" in line}
    for name, reason in (("fused", "wrong result"), ("soa", "does not build")):
        assert 'class="failed"' in lines[name] and f"failed: {reason}" in lines[name]
        assert "num" not in lines[name], "no figure in the line of a failure"
        assert f"Failed: {reason}" in experiment.steps(name)
        assert reason in experiment.failed().html
    chart = experiment.ladder_chart()
    for figure in (chart, experiment.draw_case(bandwidth_chart)):
        assert (
            "failed" in figure.html
            and "bit-neighbours – not on this case: a side is not a power of two." in figure.html
        )
        assert "no-compute" not in figure.html, "a probe is no step"
    assert "(not measured)" in experiment.data.measured.time_text(
        "fused"
    ) and "(not measured)" in experiment.data.measured.ratio_text("soa", "sequential")

    del lab.ladder  # back to the ladder of the class, which is right
    mended_experiment = open_lab(variants=["sequential", "no-finish", "fused", "soa"])
    assert states_by_variant(mended_experiment)["fused"] == states_by_variant(mended_experiment)["soa"] == "stale-code"
    assert "2 measurements taken" in mended_experiment.measure()


def test_a_page_can_be_drawn_without_measurements(open_lab: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each cell of the notebook has an output with an empty store too."""
    monkeypatch.setattr(case_run, "measure_case", lambda *_, **__: None)
    monkeypatch.setattr(precompile, "LEAST_KERNELS", sys.maxsize)  # no kernel runs
    experiment = open_lab()
    experiment.measure()
    outputs: list[Any] = [
        *(experiment.peak_table(), experiment.steps("fused"), experiment.ladder(), experiment.leave_one_out()),
        *(experiment.ladder_chart(), experiment.roofline(), experiment.heat_map("wg"), experiment.sweep_table("wg")),
        *(experiment.line_sweep("buffers"), experiment.draw_case(bandwidth_chart)),
        *(experiment.parts(), experiment.resources(), experiment.draw(timeline, "fused")),
        *(experiment.pairs(), experiment.published(), experiment.failed(), experiment.card(), experiment),
    ]
    assert [type(drawn(output)) for output in outputs[4:14]] == [Note] * 10
    for output in outputs:
        assert output._repr_html_().startswith("<")
    assert "(not measured)" in experiment.summary().data
    with pytest.raises(
        UsageError, match="unknown sweep 'gw'; valid: without, wg, step, c-wg, buffers, integers, c-buffers"
    ):
        experiment.line_sweep("gw")


@pytest.mark.thorough
def test_a_heat_map_names_its_sides(open_lab: Open, lab: Lab) -> None:
    wg = next(sweep for sweep in lab.sweeps if sweep.axis == "wg")
    lab.sweeps = (replace(wg, sides=("sticks", "stones")),)
    experiment = open_lab(variants=[variant.name for variant in wg.variants[:2]])
    experiment.measure()
    html = experiment.heat_map("wg").html
    assert ">sticks<" in html and ">stones<" in html


@pytest.mark.thorough
def test_peers_are_compared_with_the_fastest_step(open_lab: Open, lab: Lab) -> None:
    experiment = open_lab(variants=["fused", "openmp"])
    experiment.measure()
    table = drawn(experiment.peers())
    assert isinstance(table, Table)
    peers_frame = table.frame.set_index("variant")
    assert list(peers_frame.index) == [peer.name for peer in lab.peers if peer.role == "peer"]
    assert (peers_frame.fastest["openmp"], peers_frame.status["openmp"]) == ("fused", "ok")


@pytest.mark.thorough
def test_facts_parts_and_spans_of_runs_are_shown(open_lab: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    spans = [[0, "to device", 0.0, 1e-4], [0, "kernel", 1e-4, 3e-4]]
    run_facts = {"timeline": spans, "registers": 32}
    make_row = to_row.row

    def row_with_facts(*arguments: Any) -> dict[str, Any]:
        plain_row = make_row(*arguments)
        parts = {"copy": [1e-4] * len(plain_row["samples_s"])}
        return plain_row | {"extra": json.dumps({**json.loads(plain_row["extra"]), **run_facts, "parts": parts})}

    monkeypatch.setattr(case_run, "row", row_with_facts)
    experiment = open_lab(variants=["fused"])
    experiment.measure()
    assert "No parts to show" in experiment.parts().html
    lab.parts, lab.facts_shown = ("copy",), {"registers": "Registers"}
    cells = experiment.lab.cases("test")[0].units
    parts = drawn(experiment.parts())
    assert isinstance(parts, Table) and parts.frame.set_index("variant").loc["fused", "copy"] == pytest.approx(
        1e-4 / cells
    )
    assert ">32<" in parts.html and "not on this case: a side is not a power of two" in parts.html
    assert ">32<" in experiment.resources().html
    assert "kernels during 0.00" in experiment.draw(timeline, "fused").html
    with pytest.raises(UsageError, match="did you mean 'fused'"):
        experiment.draw(timeline, "fusd")


@pytest.mark.thorough
def test_conclusions_can_use_seconds_facts_and_the_fastest_point(
    open_lab: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = lab.sweeps[1].variants[:3]
    experiment = open_lab(variants=[variant.name for variant in points])
    assert (
        experiment.data.measured.fastest_point("wg", "40x24") is None
        and experiment.data.measured.seconds(points[0].name, "40x24") is None
    )
    assert experiment.data.measured.fact(points[0].name, "40x24", "group") is None
    experiment.measure()
    assert experiment.data.measured.fact(points[0].name, "40x24", "group") == points[0].point
    assert experiment.data.measured.fact(points[0].name, "40x24", "no such thing") is None
    times = {variant.point: experiment.data.measured.seconds(variant.name, "40x24") or 1e9 for variant in points}
    assert experiment.data.measured.fastest_point("wg", "40x24") == min(times, key=lambda point: times[point])
    key = ("operational intensity", "128x128", "intensity")

    def value_with_point(measured: Measured) -> dict[tuple[str, str, str], str]:
        return {key: f"point {measured.fastest_point('wg', '40x24')}"}

    monkeypatch.setattr(publication(lab), "counted", value_with_point)
    assert f"point {min(times, key=lambda point: times[point])}" in experiment.published().html


def test_a_terminal_shows_only_the_chosen_variants(open_lab: Open) -> None:
    experiment = open_lab(variants=["fused", "soa"])
    experiment.measure()
    (table, *_) = experiment.tables()
    assert [name.removesuffix(" (A/A control)") for name in table.frame["variant"]] in (
        ["fused", "fused", "soa"],
        ["fused", "soa"],
    )
    assert "not measured" not in table.text


def test_a_lab_without_a_report_has_a_note_in_place_of_published_figures(
    open_lab: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = open_lab()
    monkeypatch.setattr(experiment.lab, "name", "sgemm")
    for scale in ("quick", "published"):
        monkeypatch.setattr(experiment, "scale", scale)
        note = experiment.published()
        assert isinstance(note, Note) and note.text.startswith("Sgemm has no published figures")


def test_the_lab_names_the_part_or_fact_that_a_published_figure_is_compared_with(
    open_lab: Open, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = set()

    def part(*key: str) -> str | None:
        calls.add(("part", *key))
        return "nothing of the kind" if key[-1] == "time" else None

    def fact(*key: str) -> None:
        calls.add(("fact", *key))

    def lack(*key: str) -> str:
        calls.add(("lack", *key))
        return "needs another machine"

    experiment = open_lab(variants=["fused"])
    monkeypatch.setattr(publication(lab), "part", part)
    monkeypatch.setattr(publication(lab), "fact", fact)
    monkeypatch.setattr(publication(lab), "lack", lack)
    assert "needs another machine" in experiment.published().html
    assert {
        (question, "optimised, work-group 32x1", "128x128", "time") for question in ("part", "fact", "lack")
    } <= calls


def test_a_source_is_shown_in_the_language_of_the_device(open_lab: Open) -> None:
    experiment = open_lab()
    assert {"opencl": "__kernel", "cuda": "__global__"}[experiment.device.backend] in experiment.source("fused")
    assert "__global__" in experiment.source("fused", "cuda")
    with pytest.raises(UsageError, match="it is a program of the host"):
        experiment.source("openmp")


def test_the_card_names_commit_and_device_and_no_path(open_lab: Open, tmp_path: Path) -> None:
    experiment = open_lab()
    card = experiment.card()
    assert isinstance(card, Table) and ">commit<" in experiment._repr_html_()
    assert experiment.device.name in card.html and ">commit<" in card.html
    assert str(tmp_path) not in card.html, "no path of this machine on a page"
