"""Running ncu: its command line, the row that is stored, and the reason if it counted nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from roofbook.measure import ncu, profiler_worker, schedule
from roofbook.measure.counters import METRICS, counters_of, parse
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.store.parquet import Store
from roofbook.store.schema import PROFILE

from .made_up import RIGHT, SAMPLE, STEPS, Cli, Gpu, Ncu, changed, kept


def test_profile_stores_a_row_with_the_counters(gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path) -> None:
    code, out, err = roofbook("lbm", "fused", "40x24")
    assert (code, err) == (0, "")
    assert "Hardware counters on 40x24" in out and "1 measurement taken; run " in out
    (row,) = kept(results).to_dict("records")
    assert (row["variant"], row["case"], row["role"], row["scale"], row["units"]) == (
        "fused",
        "40x24",
        PROFILE,
        "test",
        3,
    )
    assert (row["timed"], row["status"], row["backend"], row["device"]) == (
        *("kernels under a profiler", "ok", "cuda"),
        "nvidia-h200",
    )
    assert (row["error"], row["bound"], row["parent"]) == (1e-7, 1.0, registry.get("lbm").variant("fused").parent)
    assert row["samples_s"] == pytest.approx([STEPS * 51.31733e-6], rel=1e-4)
    extra = json.loads(row["extra"])
    assert extra["tool"] == "ncu 2025.3.1.0" and extra["error_is"] == "largest error"
    assert {"counters": extra["counters"], "kernels": extra["kernels"]} == counters_of(parse(SAMPLE), STEPS)


def test_ncu_is_asked_for_our_metrics_of_a_process_of_ours(gpu: Gpu, fake: Ncu, roofbook: Cli, tmp_path: Path) -> None:
    roofbook("lbm", "fused", "40x24")
    (call,) = fake.calls
    assert call[:3] == ["C", "--clock-control", "none"] and "--profile-from-start" in call
    assert call[call.index("--metrics") + 1].split(",") == list(METRICS)
    at = call.index(sys.executable)
    assert call[at + 1 : at + 3] == ["-m", "roofbook.measure.profiler_worker"]
    arguments = profiler_worker.main.make_context("profiled", call[at + 3 :]).params
    assert (arguments["lab"], arguments["variant"], arguments["case"]) == ("lbm", "fused", "40x24")
    assert (arguments["scale"], arguments["device"], arguments["seed"]) == ("test", "cuda:0", 20)
    assert not arguments["out"].exists() and not arguments["scratch"].exists(), "nothing is left behind"


@pytest.mark.parametrize(
    ("output", "answer", "complaint", "reason"),
    [
        ("", {"reason": "wrong result: error 3, allowed 1 (x)"}, "", "wrong result: error 3, allowed 1 (x)"),
        (
            "==PROF== Connected\n",
            None,
            "Traceback\nMemoryError: x\n==ERROR== code (1).\n",
            "process died: MemoryError: x",
        ),
        ("==PROF== Connected\n", None, "", "the profiled process died: exit code 0"),
        ("==WARNING== No kernels were profiled.\n", RIGHT, "", "ncu counted no kernel"),
        (changed(('"48,320"', '"n/a"')), RIGHT, "", "ncu reported no time of a kernel"),
    ],
)
def test_a_variant_that_cannot_be_counted_is_a_failed_row_with_its_reason(
    gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path, output: str, answer: Any, complaint: str, reason: str
) -> None:
    fake.says(output, answer, complaint)
    code, out, err = roofbook("lbm", "fused", "40x24")
    (row,) = kept(results).to_dict("records")
    assert row["status"] == "failed" and reason in row["reason"] and not len(row["samples_s"])
    assert code == 1 and err.startswith("error: fused on 40x24: failed in ") and reason in err and err.count("\n") == 1
    assert f"failed: {row['reason']}" in out
    fake.says()
    assert roofbook("lbm", "soa", "40x24")[0] == 0, "another is counted after it"


def test_an_answer_of_one_variant_is_not_used_for_the_next(
    gpu: Gpu, fake: Ncu, roofbook: Cli, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = registry.get("lbm")
    monkeypatch.setattr(lab, "ladder", tuple(v for v in lab.ladder if v.name in ("fused", "soa", "tree")))
    monkeypatch.setattr(lab, "peers", ())
    (fake.folder / "once").touch()
    assert roofbook("lbm", "all", "40x24")[0] == 0
    assert kept(results)["status"].value_counts().to_dict() == {"ok": 1, "failed": 2} and len(fake.calls) == 3


def test_a_cell_is_never_that_of_a_time(gpu: Gpu, results: Path) -> None:
    lab, store, policy = registry.get("stencil"), Store(results), Policy()
    case, chosen = lab.cases("test")[0], [lab.variant("flat")]
    (counted,) = ncu.plan(lab, case, chosen, gpu, store, policy)
    (timed,) = schedule.plan(lab, [case], chosen, gpu, store, policy)
    assert lab.verification_case(case, chosen[0]).units == lab.units(case, chosen[0], gpu), "what else tells them apart"
    assert counted.cell_key != timed.cell_key and counted.env_key == timed.env_key
