"""The measured ceilings: verified like any cell, whatever the number of cores; read as peaks; refused when missing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook import peaks
from roofbook.device import Device
from roofbook.lab import Case
from roofbook.measure import Policy, measure
from roofbook.peaks import COPY, FMA, LAB
from roofbook.roofline import bound
from roofbook.store import Store

POLICY = Policy(cache="warm", budget_s=0.02, maximum=5, minimum=3)


def measured(device: Device) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for case in LAB.cases("test"):
        measure(LAB, case, LAB.ladder, device, run="20260101T000000Z-abcdef", policy=POLICY, keep=rows.extend)
    return rows


def test_ceilings_are_verified_kept_and_read(device: Device, tmp_path: Path) -> None:
    rows = measured(device)
    assert [(row["variant"], row["case"], row["status"]) for row in rows] == [
        ("copy", "256 KiB", "ok"), ("fma", "registers", "ok"),
    ], [row["reason"] for row in rows]  # fmt: skip
    assert all(row["role"] == "peak" and row["error"] <= row["bound"] for row in rows)
    store = Store(tmp_path)
    store.append(rows)
    found = peaks.read(store.rows("peaks"))
    ((size, rate),) = found.bandwidth
    copy, fma = rows
    assert size == 256 * 1024
    assert rate == pytest.approx(256 * 1024 * copy["units"] / min(copy["samples_s"]))
    per_round = json.loads(fma["extra"])["flops_per_unit"]
    assert found.flops == {"float32": pytest.approx(per_round * fma["units"] / min(fma["samples_s"]))}
    assert 1e8 < rate < 1e15 and 1e8 < found.flops["float32"] < 1e16
    assert bound(LAB.work(LAB.cases("test")[0]), found, size).roof == "memory"


def test_missing_ceilings_are_an_error(device: Device, tmp_path: Path) -> None:
    store = Store(tmp_path)
    with pytest.raises(ValueError, match="no ceilings of this device in the store yet"):
        peaks.read(store.rows("peaks"))
    rows = measured(device)
    for kept in (rows[:1], rows[1:], [rows[0], {**rows[1], "status": "failed"}]):
        part = Store(tmp_path / str(len(list(tmp_path.iterdir()))))
        part.append(kept)
        with pytest.raises(ValueError, match="no ceilings"):
            peaks.read(part.rows("peaks"))


@pytest.mark.parametrize("cores", [1, 3, 7, 12, 96])
def test_the_copy_reaches_the_last_vector_on_any_number_of_cores(
    device: Device, cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "compute_units", cores)
    for kib, passes in ((256, 3), (1024, 1), (8, 2)):
        case = Case(f"{kib} KiB", "test", {"kib": kib}, passes)
        given = LAB.inputs(case, seed=1)
        run = COPY.plan(device, COPY, case, given)
        run.reset()
        assert np.isnan(run.outputs()["copy"]).all()
        run.run()
        assert LAB.check(case, COPY, run.outputs(), LAB.reference(case, given))[:2] == (0.0, 0.0)
        run.close()


@pytest.mark.parametrize("rounds", [1, 2, 99])
def test_the_chains_compute_what_they_should(device: Device, rounds: int) -> None:
    case = Case("registers", "test", {"kib": 0}, rounds)
    run = FMA.plan(device, FMA, case, {})
    run.reset()
    run.run()
    outputs = run.outputs()
    error, allowed, _ = LAB.check(case, FMA, outputs, LAB.reference(case, {"data": None}))
    assert error <= allowed < 1e-4
    other = LAB.reference(replace(case, units=rounds + 1), {"data": None})
    assert LAB.check(case, FMA, outputs, other)[0] > allowed, "one round more or less is seen"
    assert run.facts()["flops_per_unit"] == 2 * 16 * outputs["sums"].size
    run.close()


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_the_check_refuses_a_wrong_element(value: float) -> None:
    case = LAB.cases("test")[0]
    data = LAB.inputs(case, 1)["data"]
    assert data.size * 8 == 256 * 1024 and 0.2 < data.std() < 0.4
    wrong = data.copy()
    wrong[-1] = value
    error, allowed, _ = LAB.check(case, COPY, {"copy": wrong}, {"copy": data})
    assert not error <= allowed
    sums = np.full(64, LAB.reference(case, {"data": None})["sum"])
    sums[5] = value
    error, allowed, _ = LAB.check(case, FMA, {"sums": sums}, LAB.reference(case, {"data": None}))
    assert not error <= allowed


@pytest.mark.parametrize("scale", ["test", "quick", "published", "large"])
def test_cases_go_through_the_levels_of_the_memory(scale: str) -> None:
    cases = LAB.cases(scale)
    sizes = [case.params["kib"] for case in cases if case.params["kib"]]
    assert sizes == sorted(set(sizes)) and len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.units >= 1
        reasons = {variant.name: LAB.excuse(variant, case) for variant in LAB.ladder}
        assert [name for name, why in reasons.items() if why is None] == ["copy" if case.params["kib"] else "fma"]
        assert LAB.work(case).bytes == case.params["kib"] * 1024
