"""The states of an experiment's cells: missing, fresh, failed, or stale after code or environment changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import provenance
from roofbook.labs.lbm.lattice import Lattice
from roofbook.spec.lab import Lab

from .opening import Open, change_step, edited_source, states_by_variant


def test_a_fresh_cell_is_not_measured_again_except_by_remeasure(open_with_peaks: Open) -> None:
    experiment = open_with_peaks(variants=["sequential", "fused"])
    assert states_by_variant(experiment) == {"sequential": "missing", "fused": "missing"}
    assert "2 measurements taken; run " in experiment.measure()
    assert states_by_variant(experiment) == {"sequential": "fresh", "fused": "fresh"}
    assert {cell.state for cell in experiment.plan_of_peaks()} == {"fresh"}
    before = len(experiment.store.query("select 1 from cells"))
    assert "0 measurements taken, 2 were fresh" in open_with_peaks(variants=["sequential", "fused"]).measure()
    assert len(experiment.store.query("select 1 from cells")) == before
    assert "1 measurement taken; run " in open_with_peaks(variants=["fused"], remeasure=True).measure()
    assert len(experiment.store.query("select 1 from cells where variant = 'fused'")) == 2
    assert states_by_variant(open_with_peaks(variants=["fused"], seed=21)) == {"fused": "stale-code"}, (
        "other inputs, another cell"
    )
    assert states_by_variant(open_with_peaks(variants=["fused"], budget_s=1.0)) == {"fused": "fresh"}, (
        "a budget changes no cell"
    )


def test_a_changed_kernel_is_stale_and_one_that_shares_no_text_with_it_is_fresh(
    open_lab: Open, lab: Lab, tmp_path: Path
) -> None:
    open_lab(variants=["sequential", "fused"]).measure()
    source = lab.variant("fused").source
    assert source
    change_step(lab, "fused", source=edited_source(tmp_path, source, "omega * (EQ", "1.0f * omega * (EQ"))
    experiment = open_lab(variants=["sequential", "fused"])
    assert states_by_variant(experiment) == {"sequential": "fresh", "fused": "stale-code"}
    assert "kernel source changed since" in experiment.plan()[1].why
    assert set(experiment.data.rows["variant"]) == {"sequential"}, "a time of other code is not shown"
    experiment.measure()
    assert states_by_variant(experiment) == {"sequential": "fresh", "fused": "fresh"}


@pytest.mark.thorough
def test_another_environment_makes_all_cells_stale(open_lab: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    open_lab(variants=["fused"]).measure()
    environment = provenance.environment

    def with_new_driver(device: Any) -> dict[str, Any]:
        now = environment(device)
        return {**now, "device": {**now["device"], "driver": "99.9"}}

    monkeypatch.setattr(provenance, "environment", with_new_driver)
    experiment = open_lab(variants=["fused"])
    assert states_by_variant(experiment) == {"fused": "stale-env"}
    assert "the driver changed: " in experiment.plan()[0].why and "-> 99.9" in experiment.plan()[0].why
    assert "1 measurement taken" in experiment.measure()
    assert states_by_variant(experiment) == {"fused": "fresh"}
    monkeypatch.undo()


def test_a_failed_cell_is_measured_again(open_lab: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Lattice, "check", lambda *_: (float("nan"), 1.0, "nothing"))
        experiment = open_lab(variants=["fused"])
        experiment.measure()
    assert states_by_variant(experiment) == {"fused": "failed"}
    assert "1 measurement taken; run " in experiment.measure()
    assert states_by_variant(experiment) == {"fused": "fresh"}
    assert f"Nothing failed on {experiment.device.name} by OpenCL, scale test." in experiment.failed().html
