"""Rows of a measurement: their content and keys, and that only variants that ran have one."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import BuildFailed, OutOfMemory
from roofbook.measure import sampling
from roofbook.measure.placement import Setting, Target, keys
from roofbook.measure.policy import Policy
from roofbook.spec.plan import Case, Variant
from roofbook.spec.source import Source
from roofbook.store.parquet import Store

from .made_up import CASE, QUIET, RIGHT, Bench, Device, Toy, made


def test_a_row_of_a_gpu_says_how_busy_the_other_cards_of_its_host_were(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.device.kind = "gpu"
    read = iter([[0.0], [93.0], None, None])
    monkeypatch.setattr(sampling, "neighbours", lambda bus: next(read))
    (row,) = bench(made("a"))
    assert json.loads(row["provenance"])["neighbours"] == {"before": [0.0], "after": [93.0]}
    key = row["cell_key"], row["env_key"]
    (row,) = bench(made("a"))
    assert "neighbours" not in json.loads(row["provenance"]) and (row["cell_key"], row["env_key"]) == key


def test_a_row_has_its_measurement_and_survives_the_store(bench: Bench, tmp_path: Path) -> None:
    seconds = [0.5, *[0.1 + i / 1000 for i in range(12)]]  # the first is the warm-up's
    (row,) = bench(made("a", seconds=seconds))
    assert (row["status"], row["reason"], row["lab"], row["variant"], row["case"]) == ("ok", None, "toy", "a", "small")
    assert (row["unit"], row["units"], row["timed"], row["scale"]) == ("pass", 10, "loop", "test")
    assert (row["device"], row["device_kind"], row["backend"], row["dtype"]) == (
        "made-up-1000",
        "cpu",
        "opencl",
        "float32",
    )
    assert row["samples_s"] == row["wall_s"] == pytest.approx(seconds[1:]) and row["rounds"] == list(range(12))
    assert (row["error"], row["bound"], row["flops"], row["bytes"]) == (0.0, 0.5, 2e9, 3.0)
    extra, policy = json.loads(row["extra"]), json.loads(row["policy"])
    assert extra["group"] == "64x1" and extra["error_is"] == "largest difference" and extra["footprint"] == 4.0
    assert (extra["rate_amount"], extra["rate_unit"]) == (2.0, "GFLOP/s")
    assert (policy["cache"], policy["seed"]) == ("warm", 20)
    provenance = json.loads(row["provenance"])
    assert provenance["environment"]["device"]["driver"] == "1.0" and provenance["time"]

    bench(made("a", seconds=seconds), made("b", "a", fails={"plan": BuildFailed("no")}))
    store = Store(tmp_path / "results")
    store.append(bench.rows)
    stored = store.rows("toy").set_index(["variant", "role"])
    assert stored.loc[("a", "step")].samples_s.tolist() == pytest.approx(seconds[1:])
    assert stored.loc[("b", "step")].status == "failed" and len(stored.loc[("b", "step")].samples_s) == 0
    key = {name: bench.row("a")[name] for name in ("cell_key", "env_key")}
    measurement = {"lab": "toy", "variant": "a", "case": "small", "backend": "opencl", "device": "made-up-1000"}
    assert store.states([measurement | key])[0].state == "fresh"


def test_outputs_are_poisoned_before_the_run_and_all_is_closed(bench: Bench) -> None:
    bench(made("a"))
    assert [stage for _, stage in bench.log if not stage.startswith("timed run")] == [
        "trial plan", "trial reset", "trial run", "trial run 1", "trial outputs", "trial close",
        "timed plan", "timed reset", "timed reset", "timed facts", "timed reset", "timed last run",
        "timed reset", "timed last run", "timed outputs", "timed close",
    ]  # fmt: skip


def test_the_object_that_was_timed_is_verified_after_its_last_sample(bench: Bench) -> None:
    """One whose outputs go wrong only once it has run often, or on the inputs that are timed, has no time."""
    bench(made("a"), made("b", "a", last=3 * RIGHT), made("c", "a", last=np.nan * RIGHT))
    assert bench.row("a")["status"] == "ok"
    for name in "bc":
        row = bench.row(name)
        assert row["status"] == "failed" and row["reason"].startswith("after its last sample: wrong result: error ")
        assert row["samples_s"] == []


def test_a_row_knows_both_checks_and_the_seed_that_was_drawn_for_the_first(bench: Bench) -> None:
    seeds, drawn_seeds = set(), list[int]()

    def inputs(self: Toy, case: Case, seed: int) -> Mapping[str, Any]:
        drawn_seeds.append(seed)
        return {"seed": seed}

    for _ in range(3):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Toy, "inputs", inputs)
            bench(made("a", last=RIGHT + 0.25))
        checks = json.loads(bench.row("a")["extra"])["checks"]
        assert checks["before"] == {"error": 0.0, "tolerance": 0.5, "compared": "largest difference"}
        assert checks["after"]["error"] == bench.row("a")["error"] == 0.25, "the row's is the nearer to its tolerance"
        seeds.add(checks["seed"])
    assert len(seeds) == 3 and seeds < set(drawn_seeds) and QUIET.seed in drawn_seeds


def test_the_time_that_run_returns_is_stored_next_to_the_wall_clock(bench: Bench) -> None:
    bench(made("a", told=0.02, seconds=0.3), made("b", "a", seconds=0.3))
    assert bench.row("a")["samples_s"] == [0.02] * 12
    assert bench.row("b")["samples_s"] == pytest.approx([0.3] * 12)
    assert bench.row("a")["wall_s"] == bench.row("b")["wall_s"] == pytest.approx([0.3] * 12)


def test_the_budget_is_of_whole_calls(bench: Bench) -> None:
    policy = Policy(cache="warm", budget_s=2.9, noise=0.0, minimum=5)
    (row,) = bench(made("a", told=1e-6, seconds=0.3), policy=policy)
    assert len(row["samples_s"]) == len(row["wall_s"]) == 10


def test_bytes_are_those_that_the_variant_moves(bench: Bench) -> None:
    bench(made("a"), made("b", "a", moves=5.0))
    assert [bench.row(name)["bytes"] for name in "ab"] == [3.0, 5.0]
    assert {row["flops"] for row in bench.rows} == {2e9}


def test_a_reference_is_computed_once_for_all(bench: Bench) -> None:
    bench(*(made(name, None if name == "a" else "a") for name in "abcd"))
    assert bench.lab.references == 2, "of the inputs before timing, and of those that are timed"


def test_a_variant_is_verified_on_its_own_inputs_and_timed_on_shared_ones(bench: Bench) -> None:
    class Hidden(Toy):
        def verified_on(self, variant: Variant) -> str:
            return "" if variant.name == "a" else "wide"

        def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
            return {**inputs, "name": name} if name else inputs

        def verification_case(self, case: Case, variant: Variant) -> Case:
            return case

    bench.lab = Hidden()
    bench(*(made(name, None if name == "a" else "a") for name in "abc"))
    plans = [(name, event.removeprefix("timed ")) for name, event in bench.log if "plan" in event]
    a, b, c = (
        [(name, trial), (name, "plan")] for name, trial in zip("abc", ("plan", *["plan on wide"] * 2), strict=True)
    )
    assert sorted(plans) == sorted([*a, *b, *c, *a]), "one of them is the A/A control"
    assert bench.lab.references == 3, "of both kinds before timing, and of what is timed"
    assert {row["status"] for row in bench.rows} == {"ok"}


def test_progress_is_reported_for_each_variant(bench: Bench) -> None:
    bench(made("a"))
    assert {name for name, _ in bench.told[:-1]} == {"a"}
    stages = [stage for _, stage in bench.told]
    assert stages[:9] == [
        "check, 1 of 1", "check, with its reference", "plan", "first run", "outputs", "check of its outputs",
        "first run, again", "close", "plan of the timed run",
    ]  # fmt: skip
    assert stages[9:22] == ["warm up", *(f"sample {number} of at most 12" for number in range(1, 13))]
    assert stages[22:] == ["facts", "last run", "outputs", "last check", "close", "rows"]


def test_variants_that_are_not_for_here_leave_no_row(bench: Bench) -> None:
    bench(made("a"), made("b", "a", skipped=True), made("c", "a", needs=["cuda-c++"]))
    assert {row["variant"] for row in bench.rows} == {"a"}
    bench(made("b", skipped=True))
    assert bench.rows == []


def test_a_key_depends_only_on_inputs_that_decide_a_time(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "k.k"
    path.write_text("KERNEL void k() { VALUE }\n")
    variant = replace(made("a", group=(64, 1)), source=Source.of(path, VALUE="1;"))

    def key(change: Callable[[Variant], Variant] = lambda same: same, **changes: Any) -> tuple[str, str]:
        settings: dict[str, Any] = {
            "case": CASE,
            "device": bench.device,
            "backend": "opencl",
            "policy": Policy(),
        } | changes
        at = Setting(bench.lab, settings["case"], bench.device, settings["policy"])
        return keys(at, change(variant), Target(settings["device"], settings["backend"]), settings.get("units", 10))

    cell, environment = key()
    assert key() == (cell, environment)
    assert key(policy=Policy(budget_s=9, noise=0.5, minimum=4, scarce=2, maximum=9, limit_s=1))[0] == cell
    assert (
        key(lambda changed: replace(changed, change="x", expect="y", parent="z", shows={"k": "x"}, published="p"))[0]
        == cell
    )
    different = {
        "source": key(lambda changed: replace(changed, source=Source.of(path, VALUE="2;"))),
        "plan": key(lambda changed: replace(changed, plan=Toy)),  # type: ignore[arg-type]
        "option": key(lambda changed: replace(changed, options={"group": (32, 1)})),
        "more options": key(lambda changed: replace(changed, options={**changed.options, "finish": True})),
        "name": key(lambda changed: replace(changed, name="b")),
        "cache": key(policy=Policy(cache="warm")),
        "seed": key(policy=Policy(seed=1)),
        "units": key(units=20),
        "backend": key(backend="cuda"),
        "case": key(case=replace(CASE, name="other")),
        "parameter": key(case=replace(CASE, params={"n": 9})),
        "model": key(device=Device(bench.log, bench.clock, "Made Up 2000")),
    }
    cell_keys = {part: keys_of_part[0] for part, keys_of_part in different.items()}
    assert cell not in cell_keys.values() and len(set(cell_keys.values())) == len(cell_keys), cell_keys
    path.write_text("KERNEL void k() { VALUE; }\n")
    assert key()[0] not in {cell, *cell_keys.values()}, "an edit of the file"
    assert {keys_of_part[1] for part, keys_of_part in different.items() if part != "model"} == {environment}
    assert different["model"][1] != environment


def test_rows_carry_the_keys_that_the_plan_foresees(bench: Bench) -> None:
    (row,) = bench(made("a"))
    at, target = Setting(bench.lab, CASE, bench.device, QUIET), Target(bench.device, "opencl")
    assert (row["cell_key"], row["env_key"]) == keys(at, bench.lab.ladder[0], target, CASE.units)
    (failed,) = bench(made("a", fails={"timed plan": OutOfMemory("no")}))
    assert failed["units"] == 10
