"""Counters as a reader sees them: never among times, in a table of their own, next to published figures and in claims."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from roofbook import cli, report
from roofbook.analysis.claim_data import ClaimData, MissingData, NotApplicable
from roofbook.analysis.evidence import CounterRatio, Finding
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.published_figures import PublishedFigures
from roofbook.analysis.readings import newest
from roofbook.analysis.verdicts import judged, verdict
from roofbook.book.experiment import Experiment
from roofbook.book.page import Note
from roofbook.measure.counters import counters_of, parse
from roofbook.report.counters_table import changed_counters, changes_in_words
from roofbook.report.html import Table
from roofbook.spec import registry
from roofbook.store.parquet import Store
from roofbook.store.schema import PROFILE
from roofbook.store.todays_code import matching_source

from .made_up import SAMPLE, STEPS, Cli, Gpu, MadeUp, Ncu, changed


@pytest.fixture(scope="module")
def profiles_of_two_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a store with the counters of `fused` and of `soa`, which moves half as many bytes through L1."""
    folder = tmp_path_factory.mktemp("profiles")
    fake = Ncu(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("roofbook.devices.cuda.devices", lambda: [Gpu()])
        patch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        for step, output in (
            ("fused", SAMPLE),
            ("soa", changed(('"609,222,656"', '"304,611,328"'), ('"48,', '"24,'))),
        ):
            fake.says(output)
            words = ["profile", "lbm", step, "40x24", "--scale", "test", "--results", str(folder / "results")]
            patch.setattr(sys, "argv", ["roofbook", *words])
            cli.main()
    return folder / "results"


@pytest.fixture
def profiles(profiles_of_two_steps: Path, gpu: Gpu, results: Path) -> Path:
    """Return a copy of that store, which a test may change."""
    shutil.copytree(profiles_of_two_steps, results)
    return results


def opened(results: Path, **settings: Any) -> Experiment:
    return Experiment("lbm", {"scale": "test", "results": str(results), "device": "cuda:0", **settings})


def test_counters_are_in_no_reading_of_times(profiles: Path) -> None:
    store = Store(profiles)
    assert store.rows("lbm").empty and len(store.rows("lbm", role=PROFILE)) == 2
    assert len(store.query("select * from cells")) == 2, "an export has all there is"
    experiment = opened(profiles, variants=["fused", "soa"])
    assert [cell.state for cell in experiment.plan()] == ["missing", "missing"]
    assert experiment.data.rows.empty and experiment.data.measured.seconds("fused", "40x24") is None
    keys = {cell.cell_key for cell in experiment.plan()}
    profile_rows = store.rows("lbm", role=PROFILE)
    assert len(keys | set(profile_rows["cell_key"])) == 4
    assert newest(profile_rows) == newest(profile_rows, "40x24", ["step"]) == {}
    assert set(newest(profile_rows, "40x24", [PROFILE])) == {"fused", "soa"}
    timed = profile_rows.assign(role="step", started=profile_rows["started"] + pd.Timedelta(days=1))
    mixed = pd.concat([profile_rows, timed])
    assert {row.role for row in newest(mixed).values()} == {"step"}
    assert {row.role for row in newest(mixed, roles=[PROFILE]).values()} == {PROFILE}
    assert all(not line.outcomes for line in judged(registry.get("lbm"), store))


def test_the_table_has_counters_and_the_changes_of_each_step(profiles: Path) -> None:
    table = opened(profiles).counters()
    assert isinstance(table, Table)
    frame = table.frame.set_index("variant")
    counted = counters_of(parse(SAMPLE), STEPS)["counters"]
    lbm = registry.get("lbm")
    bytes_modelled = lbm.traffic(lbm.case("40x24", "test"), lbm.variant("fused"))
    assert frame.index.tolist() == ["fused", "soa"]
    assert frame.loc["fused", "dram_bytes"] == counted["dram_bytes"] and frame.loc["fused", "limit"] == "L2"
    assert frame.loc["fused", "ratio"] == pytest.approx(counted["dram_bytes"] / bytes_modelled)
    assert frame.loc["fused", "against_parent"] == "no-finish was not counted"
    assert frame.loc["soa", "against_parent"] == "fused: 1.88 times as fast; L1 bytes fell 2.00 times"
    assert math.isnan(frame.loc["soa", "time_ratio"]), "nothing was timed"
    for words in ("63.7", "610", "60.8\u202f%", "77.7\u202f%", "L2 (MB)", "Instructions (M)"):
        assert words in table.text, words
    assert "from a cold cache" in table.text and "per step, by ncu 2025.3.1.0" in table.text
    (missing,) = [note for note in table.notes if note.startswith("Not counted: ")]
    assert "graph" in missing and "sequential" not in missing and "bit-neighbours" not in missing


def test_the_time_is_held_against_ours_by_the_same_backend(profiles: Path) -> None:
    experiment = opened(profiles)
    rows = Store(profiles).rows("lbm", role=PROFILE).assign(role="step", samples_s=[[3 * 40e-6] * 10] * 2)
    experiment.data.__dict__["rows"] = rows
    table = experiment.counters()
    assert isinstance(table, Table)
    assert table.frame.set_index("variant").loc["fused", "time_ratio"] == pytest.approx(51.3 / 40, rel=1e-3)
    experiment = opened(profiles)
    experiment.data.__dict__["rows"] = rows.assign(backend="opencl")
    table = experiment.counters()
    assert isinstance(table, Table) and table.frame["time_ratio"].isna().all()


def test_counted_bytes_are_listed_by_variant(profiles: Path, fake: Ncu, roofbook: Cli) -> None:
    dram_bytes = counters_of(parse(SAMPLE), STEPS)["counters"]["dram_bytes"]
    assert opened(profiles).data.on().counted_bytes == {"fused": dram_bytes, "soa": dram_bytes}
    fake.says(changed(('"42,107,904"', '"n/a"')))
    roofbook("lbm", "soa", "40x24", "--remeasure")
    assert opened(profiles).data.on("40x24").counted_bytes == {"fused": dram_bytes}, "unknown bytes are none"
    fake.says(answer={"reason": "out of memory: x"})
    roofbook("lbm", "fused", "40x24", "--remeasure")
    experiment = opened(profiles)
    assert experiment.data.on().counted_bytes == {} and experiment.data.measured.counted("fused", "40x24") is None
    table = experiment.counters()
    assert isinstance(table, Table) and "failed: out of memory: x" in table.text
    assert table.frame.set_index("variant").loc["soa", "against_parent"] == "fused was not counted"


def test_counters_of_another_kernel_device_or_case_are_none(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = Store(profiles).rows("lbm", role=PROFILE)
    assert matching_source(registry.get("lbm"), rows.assign(source_sha256="of an older kernel")).empty
    monkeypatch.setattr(Gpu, "name", "Another")
    note = opened(profiles).counters()
    assert isinstance(note, Note)
    assert note.text == "No counters yet: `roofbook profile lbm all 40x24 --scale test` reads them if ncu is installed."
    assert opened(profiles).data.on().counted_bytes == {}


def test_a_step_is_described_by_the_counter_that_changed_most() -> None:
    parent: dict[str, Any] = {
        "seconds": 2.0, "dram_bytes": 8.0, "l2_bytes": 8.0, "l1_bytes": 0, "instructions": None, "occupancy": 0.5,
        "limit": "DRAM",
    }  # fmt: skip
    assert changes_in_words(parent, parent) == "as fast; no counter changed"
    assert (
        changes_in_words({**parent, "dram_bytes": 2.0, "seconds": 1.0}, parent)
        == "2.00 times as fast; DRAM bytes fell 4.00 times"
    )
    slower = {**parent, "l2_bytes": 24.0, "dram_bytes": 4.0, "seconds": 3.0, "limit": "L2"}
    assert changes_in_words(slower, parent) == "1.50 times as slow; L2 bytes rose 3.00 times; limit L2 instead of DRAM"
    assert (
        changes_in_words({**parent, "l1_bytes": 9.0, "instructions": 5.0, "limit": None}, parent)
        == "as fast; no counter changed"
    )
    unknown = dict.fromkeys(parent)
    assert changes_in_words(unknown, parent) == changes_in_words(parent, unknown) == ""


def test_an_effect_names_a_counter_that_agrees_with_it_and_one_that_does_not() -> None:
    parent: dict[str, Any] = {
        "dram_bytes": 8.0, "l2_bytes": 8.0, "l1_bytes": 8.0, "instructions": 100, "occupancy": 0.5, "limit": "DRAM",
    }  # fmt: skip
    step = {**parent, "l2_bytes": 4.0, "dram_bytes": 6.0, "instructions": 150, "limit": "L2"}
    faster_text = "L2 bytes fell 2.00 times; instructions rose 1.50 times; limit L2 instead of DRAM"
    assert changed_counters(step, parent, "faster") == faster_text
    turned = "instructions rose 1.50 times; L2 bytes fell 2.00 times; limit L2 instead of DRAM"
    assert changed_counters(step, parent, "slower") == turned
    assert changed_counters(step, parent, "same") == "L2 bytes fell 2.00 times; limit L2 instead of DRAM"
    assert changed_counters({**parent, "occupancy": 0.75}, parent, "faster") == "occupancy rose 1.50 times"
    assert changed_counters({**parent, "occupancy": 0.25}, parent, "slower") == "occupancy fell 2.00 times"
    assert changed_counters({**parent, "dram_bytes": 8.1}, parent, "faster") == "none changed by more than 5.00\u202f%"
    assert changed_counters(dict.fromkeys(parent), parent, "faster") == ""


def test_a_step_compares_its_counters_with_its_parents(profiles: Path) -> None:
    timed = Store(profiles).rows("lbm", role=PROFILE).assign(role="step", backend="cuda")
    timed["samples_s"] = [[2e-3 * (1 + (name == "fused"))] * 10 for name in timed["variant"]]

    def line(**changes: Any) -> str:
        experiment = opened(profiles)
        experiment.data.__dict__["rows"] = timed.assign(**changes)
        return re.sub(r"<[^>]+>", "", experiment.steps("soa"))

    counters_text = "Counters: L1 bytes fell 2.00 times; occupancy fell 1.05 times"
    assert f"{counters_text}." in line() and f"{counters_text} (by CUDA)." in line(backend="opencl")
    assert "Counters" not in line(case="another")
    experiment = opened(profiles)
    experiment.data.__dict__["rows"] = timed
    own_text = re.sub(r"<[^>]+>", "", experiment.steps("fused"))
    assert re.search(r"Counters: [\d.]+\s\w*B through DRAM per step \(modelled: [\d.]+\s\w*B\); limit \w+", own_text), (
        own_text
    )
    assert f"<small>{counters_text}.</small></li>" in experiment.answer(), "as a reason of a step that mattered"


def layers(*shares: float | None, kernel: str = "linear") -> dict[str, Any]:
    return {"kernels": [{"kernel": "clear", "memory": 1.0}, *({"kernel": kernel, "memory": share} for share in shares)]}


def test_counted_throughputs_of_the_network_appear_next_to_published_ones() -> None:
    lab = registry.get("lenet")
    counters_by_variant = {
        "linear": layers(0.7, 0.8),
        "tiled-halo": layers(0.5, None, kernel="tiled_halo"),
        "linear-atomic": layers(0.4, 0.1),
    }

    def counted(name: str, case: str) -> dict[str, Any] | None:
        assert case == "batch-10000"
        return counters_by_variant.get(name)

    figures = publication(lab).counted(cast(Measured, SimpleNamespace(counted=counted)))
    ours = {(published_name.split()[0], metric): value for (published_name, _, metric), value in figures.items()}
    assert ours == {
        ("baseline", "layer 1 throughput"): "70.0\u202f%",
        ("baseline", "layer 2 throughput"): "80.0\u202f%",
        ("baseline", "layer 1 memory throughput"): "70.0\u202f%",
        ("baseline", "layer 2 memory throughput"): "80.0\u202f%",
        ("#1", "layer 1 throughput"): "50.0\u202f%",
        ("#9+#4", "layer 1 memory throughput"): "40.0\u202f%",
        ("#9+#4", "layer 2 memory throughput"): "10.0\u202f%",
    }
    counters_by_variant.clear()
    assert publication(lab).counted(cast(Measured, SimpleNamespace(counted=counted))) == {}


def test_a_counted_figure_replaces_the_reason_for_its_absence() -> None:
    figures = pd.DataFrame(
        [{"table": "6", "variant": "net", "case": "all", "device": "x", "metric": m, "unit": "%", "trial": "", "value": 1.0}
         for m in ("a", "b")]
    ).assign(seconds=math.nan)  # fmt: skip
    table = report.published(
        PublishedFigures(figures, {}, measured={("net", "all", "a"): "70 %"}, lack=lambda *key: "needs counters"),
        pd.DataFrame(),
    )
    assert [row.cells[4].text for row in table.rows] == ["70 %", "needs counters"]


def profile_row(name: str, memory: float | None, **changes: Any) -> dict[str, Any]:
    return {
        "run": "r", "variant": name, "case": "small", "role": PROFILE, "started": pd.Timestamp("2026-01-01T10:00:00Z"),
        "parent": None, "status": "ok", "reason": None, "samples_s": [1.0], "units": 1, "error": 0.0, "bound": 1.0,
        "extra": json.dumps(layers(0.9, memory)),
    } | changes  # fmt: skip


def cells(*rows: dict[str, Any], backend: str = "cuda") -> ClaimData:
    frame = pd.DataFrame(list(rows), columns=None if rows else list(profile_row("one", 1.0)))
    return ClaimData(MadeUp(), frame[:0], frame[:0], frame, backend=backend, kind="gpu")


def test_a_claim_about_a_counter_is_judged_by_stored_counters() -> None:
    piece = CounterRatio("memory", "one", "other", "small", kernel="linear", number=2)
    finding = piece.find(cells(profile_row("one", 0.88), profile_row("other", 0.15)))
    ratio = 0.15 / 0.88
    assert finding == Finding(ratio, ratio, ratio, "0.88 with one, 0.15 with other")
    assert verdict(0.167, finding) == "holds" and piece.variants(MadeUp()) == ("one", "other")
    for rows, reason in (
        ([profile_row("one", 0.88)], "counters of other$"),
        ([profile_row("one", 0.88), profile_row("other", None)], "memory of linear 2 in other"),
        ([profile_row("one", 0.88), profile_row("other", 0.2, status="failed", reason="x")], "counters of other: x"),
        ([profile_row("one", 0.88), profile_row("other", 0.2, case="large")], "counters of other$"),
    ):
        with pytest.raises(MissingData, match=reason) as caught:
            piece.find(cells(*rows))
        assert not isinstance(caught.value, NotApplicable)
    with pytest.raises(NotApplicable, match="need CUDA"):
        piece.find(cells(backend="opencl"))
