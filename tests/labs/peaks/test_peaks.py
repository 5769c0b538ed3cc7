"""Measured ceilings: verified like any variant, with any number of cores; read as peaks; refused when wrong or missing."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook import report
from roofbook.analysis.roofline import LAUNCHES, bound, needed_peaks, read_peaks
from roofbook.devices.contract import Device
from roofbook.labs.peaks import LAB, plans, theory
from roofbook.measure.case_run import measure_case
from roofbook.measure.placement import Setting, target_of
from roofbook.measure.policy import Policy
from roofbook.spec import registry
from roofbook.spec.plan import Case, Variant
from roofbook.store.parquet import Store

OPTIMISED = True
"""Whether kernels are optimised: without it their many rounds outlast the compiler."""
POLICY = Policy(cache="warm", budget_s=0.02, maximum=5, minimum=3)
GROUPS = ("memory", "registers", "costs", "transfer")


def measured(device: Device) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for case in LAB.cases("test"):
        at = Setting(LAB, case, device, POLICY)
        measure_case(
            at,
            [peak for peak in LAB.ladder if target_of(peak, device)],
            run="20260101T000000Z-abcdef",
            keep=rows.extend,
        )
    return rows


def run_once(device: Device, name: str, case: Case) -> tuple[Variant, Any, Mapping[str, Any]]:
    """Return a ceiling's plan, run once on poisoned outputs, and its inputs."""
    variant, inputs = LAB.variant(name), LAB.inputs(case, seed=1)
    run = variant.plan(device, variant, case, inputs)
    run.reset()
    return variant, run, inputs


def case_of(group: str, kib: int = 64, units: int = 8) -> Case:
    return Case(group, "test", {"kib": kib if group in ("memory", "transfer") else 0, "group": group}, units)


def test_every_ceiling_that_the_device_has_is_verified_and_read(device: Device, tmp_path: Path) -> None:
    rows = measured(device)
    present = [v.name for v in LAB.ladder if target_of(v, device)]
    assert sorted(row["variant"] for row in rows) == sorted(present)
    assert [row["reason"] for row in rows if row["status"] != "ok"] == []
    assert all(row["role"] == "peak" and row["error"] <= row["bound"] for row in rows)
    store = Store(tmp_path)
    store.append(rows)
    peaks = read_peaks(store.rows("peaks"))
    by_name = {row["variant"]: row for row in rows}
    ((size, rate),) = peaks.bandwidth
    fma, streams = by_name["fma-float32"], [by_name[name] for name in ("copy", "read", "write")]
    assert size == 256 * 1024
    assert rate == pytest.approx(max(256 * 1024 * stream["units"] / min(stream["samples_s"]) for stream in streams))
    amount = json.loads(fma["extra"])["amount"]
    assert peaks.flops["float32"] == pytest.approx(amount * fma["units"] / min(fma["samples_s"]))
    assert {"float32", "float64", "int32"} <= peaks.flops.keys() and "root" not in peaks.flops
    assert 1e8 < rate < 1e15 and all(1e8 < flops < 1e17 for flops in peaks.flops.values())
    assert bound(LAB.work(LAB.cases("test")[0]), peaks, size).roof == "memory"


def row(variant: str, dtype: str, seconds: float, amount: float, case: str = "registers") -> dict[str, Any]:
    stamp = {"run": "20260101T000000Z-abcdef", "started": "2026-01-01", "lab": "peaks"}
    return {
        **stamp, "variant": variant, "case": case, "dtype": dtype, "status": "ok", "units": 10, "bytes": amount,
        "samples_s": [2 * seconds, seconds], "extra": json.dumps({"amount": amount}),
    }  # fmt: skip


def test_the_fastest_way_to_compute_in_a_dtype_is_its_ceiling() -> None:
    import pandas as pd

    rows = [
        row("copy", "float32", 1e-3, 4096, "4 KiB"), row("read", "float32", 1e-5, 4096, "4 KiB"),
        row("fma-float32", "float32", 1e-3, 100), row("fma-float16", "float16", 1e-3, 200),
        row("mma-f16", "float16", 1e-3, 900), row("wgmma-f16", "float16", 1e-3, 400), row("root", "root", 1e-3, 1),
    ]  # fmt: skip
    peaks = read_peaks(pd.DataFrame(rows))
    assert peaks.flops == pytest.approx({"float32": 1e6, "float16": 9e6})
    assert list(peaks.bandwidth) == [pytest.approx((4096, 4096e6))], "of the streams too the fastest counts"
    for lacking in (("copy", "read"), ("fma-float32",)):
        with pytest.raises(ValueError, match="no peaks of this device in the store yet"):
            read_peaks(pd.DataFrame([r for r in rows if r["variant"] not in lacking]))
    slower = read_peaks(pd.DataFrame([r for r in rows if r["variant"] != "read"]))
    assert list(slower.bandwidth) == [pytest.approx((4096, 4096e4))]
    for unfit in ({"status": "failed"}, {"units": 0}, {"units": float("nan")}):
        left = [{**r, **unfit} if r["variant"] in ("copy", "read") else r for r in rows]
        with pytest.raises(ValueError, match="no peaks"):
            read_peaks(pd.DataFrame(left))


@pytest.mark.parametrize("cores", [1, 3, 7, 12, 96])
@pytest.mark.parametrize("action", ["copy", "read", "write"])
def test_a_stream_reaches_the_last_vector_on_any_number_of_cores(
    device: Device, cores: int, action: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "compute_units", cores)
    for kib, passes in ((256, 3), (1024, 1), (8, 2)):
        case = case_of("memory", kib, passes)
        variant, run, inputs = run_once(device, action, case)
        assert not LAB.check(case, variant, run.outputs(), inputs)[0] <= 0, "nothing has been written yet"
        run.run()
        outputs = run.outputs()
        assert LAB.check(case, variant, outputs, inputs)[:2] == (0.0, 0.0)
        wrong = {**outputs, "moved": outputs["moved"].copy()}
        wrong["moved"][-1] += 1
        assert LAB.check(case, variant, wrong, inputs)[0] > 0
        run.close()


def test_a_large_working_set_on_a_gpu_is_a_launch_a_pass(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    case = case_of("memory", 64, 5)
    monkeypatch.setattr(plans, "LARGE_KIB", 64)
    for action in ("copy", "read", "write"):
        variant, run, inputs = run_once(device, action, case)
        assert run.launches == (1 if device.kind == "cpu" or action == "read" else 5)
        run.run()
        assert LAB.check(case, variant, run.outputs(), inputs)[:2] == (0.0, 0.0)
        run.close()


@pytest.mark.parametrize("kind", ["fma-float32", "fma-float64", "fma-float16", "fma-int32", "root"])
@pytest.mark.parametrize("rounds", [1, 2, 9])
def test_the_chains_compute_what_they_should(device: Device, kind: str, rounds: int) -> None:
    case = case_of("registers", units=rounds)
    if target_of(LAB.variant(kind), device) is None:
        pytest.skip("CUDA only")
    variant, run, _ = run_once(device, kind, case)
    run.run()
    outputs = run.outputs()
    error, allowed, _ = LAB.check(case, variant, outputs, {})
    assert error <= allowed < 1e-4
    assert not LAB.check(replace(case, units=rounds + 1), variant, outputs, {})[0] <= allowed, "one round more is seen"
    flops = {"fma-float16": 4, "root": 1}.get(kind, 2)
    assert run.facts()["amount"] == flops * outputs["ends"].size // (2 if kind == "fma-float16" else 1)
    spoilt = outputs["ends"].copy()
    spoilt.flat[-1] += 1
    assert not LAB.check(case, variant, {"ends": spoilt}, {})[0] <= allowed
    run.close()


@pytest.mark.parametrize("value", [np.nan, np.inf, 0.0])
def test_the_checks_refuse_a_wrong_element(value: float) -> None:
    case, copy = case_of("memory"), LAB.variant("copy")
    inputs = LAB.inputs(case, 1)
    data = plans.stream_data(inputs["data"], "copy")
    assert data.size * 8 == 64 * 1024 and 0.2 < data.std() < 0.4
    for at in (0, -1):
        wrong = data.copy()
        wrong[at] = value
        error, allowed, _ = LAB.check(case, copy, {"moved": wrong, "launches": np.array(1)}, inputs)
        assert not error <= allowed
    for name in ("fma-float32", "fma-float64", "root"):
        variant, chains = LAB.variant(name), case_of("registers")
        ends = np.broadcast_to(plans.chained(variant.options["kind"], 8)[None, :, None], (4, 16, 1)).copy()
        assert LAB.check(chains, variant, {"ends": ends}, {})[0] <= 1e-6
        ends[-1, 5] = value
        error, allowed, _ = LAB.check(chains, variant, {"ends": ends}, {})
        assert not error <= allowed


TENSORS = [variant for variant in LAB.ladder if issubclass(variant.plan, plans.Tensor)]


@pytest.mark.parametrize("variant", TENSORS, ids=lambda v: v.name)
def test_a_product_too_many_or_a_wrong_operand_on_tensor_cores_is_seen(variant: Variant) -> None:
    """The check of the sums of all products, on made-up outputs of a GPU: no GPU is needed to see wrong ones refused."""
    case = LAB.verification_case(LAB.cases("published")[-3], variant)
    inputs = LAB.inputs(case, 1)
    numbers = inputs["normal" if variant.plan is plans.TensorOfNormals else "numbers"]
    *_, (a, b) = plans.operands(variant, numbers)
    options = variant.options

    def ends(units: int, b: Any = b) -> dict[str, Any]:
        total = units * options["times"] * options["sums"] * (a @ b.T).sum()
        return {"ends": np.full((3, options["work_items"]), total / options["work_items"], np.float32)}

    error, allowed, _ = LAB.check(case, variant, ends(case.units), inputs)
    assert error <= allowed
    for outputs in (ends(case.units + 1), ends(case.units - 1), ends(case.units, np.roll(b, 1, axis=1))):
        assert not LAB.check(case, variant, outputs, inputs)[0] <= allowed
    spoilt = ends(case.units)["ends"]
    spoilt[1, 7] = np.nan
    assert not LAB.check(case, variant, {"ends": spoilt}, inputs)[0] <= allowed


@pytest.mark.parametrize("seed", [1, 110, 159557150])
def test_sums_of_fp8_may_lose_what_hopper_cuts_off_and_one_bit_more_is_seen(seed: int) -> None:
    """Each instruction adds 32 products to a sum; of all, 13 bits below the largest are kept, as the errors of H200s say."""
    variant = LAB.variant("wgmma-e4m3")
    case = LAB.verification_case(LAB.cases("published")[-3], variant)
    inputs, options = LAB.inputs(case, seed), variant.options
    *_, (a, b) = plans.operands(variant, inputs["numbers"])

    def share(bits: int) -> float:
        sums = np.zeros((len(a), len(b)))
        for k in range(case.units * options["times"] * a.shape[1] // 32):
            at = k * 32 % a.shape[1]
            products = a[:, None, at : at + 32] * b[None, :, at : at + 32]
            power = np.maximum(np.frexp(sums)[1], np.frexp(products)[1].max(axis=2)) - 1
            last = np.ldexp(1.0, power - bits)
            sums = (np.trunc(sums / last) + np.trunc(products / last[..., None]).sum(axis=2)) * last
        total = options["sums"] * sums.sum()
        ends = np.full((3, options["work_items"]), total / options["work_items"], np.float32)
        error, allowed, _ = LAB.check(case, variant, {"ends": ends}, inputs)
        return error / allowed

    assert 0.3 < share(13) < 0.8 and share(12) > 1


@given(st.lists(st.floats(-400, 400), min_size=4, max_size=4))
def test_what_an_element_type_keeps_of_a_number_is_what_its_bytes_say(numbers: list[float]) -> None:
    for element, close in (("f16", 2**-10), ("bf16", 2**-7), ("tf32", 2**-10)):
        encoded, values = plans.encode(np.array([numbers]), element)
        assert encoded.nbytes == 4 * plans.ELEMENTS[element]
        assert np.allclose(values, numbers, rtol=close, atol=1e-7)
        if element == "bf16":
            words = encoded.view(np.uint16).astype(np.uint32) << 16
            assert np.array_equal(words.view(np.float32), values.astype(np.float32))
    for code in range(0x7F):
        encoded, values = plans.encode(np.array([[_e4m3(code), -_e4m3(code)]]), "e4m3")
        assert values[0, 0] == _e4m3(code) and encoded[0, 0] == code
        assert code == 0 or encoded[0, 1] == code | 0x80


def _e4m3(code: int) -> float:
    """Return the number of a byte by the definition of the format: four bits of power, three of fraction, no infinity."""
    power, fraction = code >> 3, code & 7
    return fraction * 2.0**-9 if power == 0 else (8 + fraction) * 2.0 ** (power - 10)


def test_swizzled_rows_have_each_piece_once_at_its_place() -> None:
    rows = np.arange(16 * 128, dtype=np.int32).reshape(16, 128)
    laid = plans.swizzle(rows.astype(np.uint8))
    for row in range(16):
        for piece in range(8):
            piece_at_place = laid[row, 16 * (piece ^ (row % 8)) :][:16]
            assert np.array_equal(piece_at_place, rows[row, 16 * piece :][:16].astype(np.uint8))


@pytest.mark.parametrize("name", ["launch", "queue", "empty-kernel"])
def test_a_launch_that_is_missing_is_seen(device: Device, name: str) -> None:
    case = case_of("costs", units=7)
    variant, run, inputs = run_once(device, name, case)
    start = time.perf_counter()
    assert 0 < run.run() < time.perf_counter() - start
    assert LAB.check(case, variant, run.outputs(), inputs)[:2] == (0.0, 0.0)
    assert LAB.check(replace(case, units=8), variant, run.outputs(), inputs)[0] == 1
    run.close()


@pytest.mark.parametrize("name", [variant.name for variant in LAB.ladder if variant.options["group"] == "transfer"])
def test_what_arrives_is_held_against_what_was_sent(device: Device, name: str) -> None:
    case = case_of("transfer", 16, 1)
    variant, run, inputs = run_once(device, name, case)
    assert not LAB.check(case, variant, run.outputs(), inputs)[0] <= 0, "nothing has arrived yet"
    run.run()
    assert LAB.check(case, variant, run.outputs(), inputs)[:2] == (0.0, 0.0)
    assert run.facts()["amount"] == 16 * 1024
    run.close()


@pytest.mark.parametrize("scale", ["test", "quick", "published", "large"])
def test_cases_go_through_the_levels_of_the_memory(scale: str) -> None:
    cases = LAB.cases(scale)
    sizes = [case.params["kib"] for case in cases if case.params["group"] == "memory"]
    assert sizes == sorted(set(sizes)) and len({case.name for case in cases}) == len(cases)
    for case in cases:
        assert case.units >= 1
        reasons = {variant.name: LAB.skip_reason(variant, case) for variant in LAB.ladder}
        fitting = [name for name, reason in reasons.items() if reason is None]
        assert fitting == [v.name for v in LAB.ladder if v.options["group"] == case.params["group"]]
        assert LAB.work(case).bytes == case.params["kib"] * 1024
    assert [case.params["group"] for case in cases if case.params["group"] != "memory"] == list(GROUPS[1:])


@pytest.mark.parametrize("name", registry.names())
def test_a_lab_needs_the_copies_the_roofs_of_its_own_variants_and_the_launches_that_are_floors(name: str) -> None:
    lab = registry.get(name)
    needed = {variant.name: variant for variant in needed_peaks(lab)}
    assert {"copy", "read", "write", "fma-float32", *LAUNCHES} <= needed.keys() and not {
        "launch",
        "root",
    } & needed.keys()
    roofs = {variant.dtype for variant in needed.values()}
    assert roofs == {"float32", *(variant.dtype for variant in lab.all_variants())}


class Paper(theory.Card):
    """Stand-in for an H200's NVML readings."""

    def __init__(self) -> None:
        super().__init__((9, 0), 1980, 3201, 6016, (5, 16))


def test_figures_on_paper_are_those_of_the_data_sheet(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "kind", "gpu")
    monkeypatch.setattr(device, "pci_bus_id", "0000:3B:00.0")
    monkeypatch.setattr(device, "compute_units", 132)
    monkeypatch.setattr(theory, "card", lambda pci_bus_id: Paper())
    for name, expected in (
        ("copy", 4.8e12), ("fma-float32", 67e12), ("fma-float64", 33.5e12), ("fma-float16", 134e12),
        ("wgmma-f16", 1071e12), ("wgmma-tf32", 535e12), ("wgmma-s8", 2141e12), ("to-device-pinned", 63e9),
    ):  # fmt: skip
        bound_of_peak = theory.theory(device, name)
        assert bound_of_peak and bound_of_peak.value == pytest.approx(expected, rel=0.01) and bound_of_peak.words
    assert theory.theory(device, "launch") is None
    monkeypatch.setattr(theory, "card", lambda pci_bus_id: theory.Card((7, 0), None, None, None, None))
    assert all(theory.theory(device, variant.name) is None for variant in LAB.ladder)
    monkeypatch.setattr(theory, "card", lambda pci_bus_id: None)
    assert all(theory.theory(device, variant.name) is None for variant in LAB.ladder)


@pytest.mark.thorough
def test_runs_of_a_peak_are_one_line(device: Device) -> None:
    import pandas as pd

    rows = measured(device)
    later = [row | {"run": f"20260102T00000{at}Z-abcdef"} for at in (1, 2) for row in rows]
    table = report.peaks(pd.DataFrame([*rows, *later]), "this device", {})
    assert len(table.rows) == len(report.peaks(pd.DataFrame(rows), "this device", {}).rows) == len(rows)
    assert table.frame["samples"].sum() == 3 * sum(len(row["samples_s"]) for row in rows)
    assert "over 3 runs" in table.text


@pytest.mark.thorough
def test_a_stream_from_a_cache_has_no_share_of_what_the_memory_could_deliver(device: Device) -> None:
    import pandas as pd

    def cells_of_share(share: float) -> tuple[Any, Any]:
        row = next(row for row in measured(device) if row["variant"] == "copy")
        facts = json.loads(row["extra"])
        rate = facts["amount"] / (np.median(row["samples_s"]) / row["units"])
        row["extra"] = json.dumps(facts | {"theory": rate / share, "theory_is": "wires"})
        table = report.peaks(pd.DataFrame([row]), "this device", {})
        return table.rows[0].cells[3], table.rows[0].cells[4]

    paper, share = cells_of_share(0.5)
    assert "B/s" in paper.text and share.text.startswith("50.0")
    paper, share = cells_of_share(2.0)
    assert paper.small == "(from a cache)" and paper.text == share.text == "\u2013"


@pytest.mark.thorough
def test_of_a_working_set_that_one_stream_has_from_a_cache_no_stream_has_a_share(device: Device) -> None:
    import pandas as pd

    def row(variant: str, case: str, amount: float, rate: float) -> dict[str, Any]:
        measured_row = next(row for row in measured(device) if row["variant"] == "copy")
        facts = json.loads(measured_row["extra"]) | {"amount": amount, "theory": 100.0, "theory_is": "wires"}
        samples = [amount / rate * measured_row["units"]] * 10
        return measured_row | {
            "variant": variant, "case": case, "bytes": amount, "samples_s": samples, "extra": json.dumps(facts)
        }  # fmt: skip

    rows = [row("read", "b", 20, 150), row("write", "a", 10, 90), row("write", "b", 20, 95), row("write", "c", 40, 98)]
    table = report.peaks(pd.DataFrame(rows), "this device", {})
    shares = {line.cells[0].text.split(", ")[1] + line.cells[1].text: line.cells[4].text for line in table.rows}
    assert shares == {"awrite": "\u2013", "bread": "\u2013", "bwrite": "\u2013", "cwrite": shares["cwrite"]}
    assert shares["cwrite"].startswith("98.0")


def test_sums_of_more_passes_than_floats_count_to_are_only_looked_for() -> None:
    case = LAB.working_set("test", 64)
    read, many, inputs = LAB.variant("read"), replace(case, units=101), LAB.inputs(case, 1)

    def verdict_on(sums: list[float]) -> tuple[float, float, str]:
        return LAB.check_timed(many, read, {"moved": np.array(sums), "launches": np.array(1)}, lambda _: inputs)

    ones = float(np.rint(inputs["data"]).sum(dtype=np.float64))
    assert verdict_on([101 * ones, 0.0])[:2] == (0.0, 0.0), (
        "below 2**24 it is exact, and a lane may have seen zeros alone"
    )
    assert verdict_on([101 * ones - 1, 0.0])[0] == 1.0 and not verdict_on([np.nan, 1.0])[0] <= 0
    assert verdict_on([3.0, 2.0**24, 0.0])[:2] == (0.0, 0.0)
    assert verdict_on([3.0, 2.0**25, -1.0])[0] == 1.0


@pytest.mark.parametrize("variant", TENSORS, ids=lambda v: v.name)
def test_products_of_many_rounds_are_only_looked_for(variant: Variant) -> None:
    """Their sum overflows in int8, and no tolerance of so many roundings says anything in fp8."""
    case = LAB.cases("published")[-3]
    for ends, error in ((np.ones((3, 8)), 0.0), (np.zeros((3, 8)), 1.0), (np.full((3, 8), np.inf), 1.0)):
        assert LAB.check_timed(case, variant, {"ends": ends}, lambda _: {})[:2] == (error, 0.0)


@pytest.mark.parametrize("kib", [64, 1 << 10, 1 << 16, 1 << 21])
def test_what_a_check_adds_up_stays_exact_on_two_cores(kib: int) -> None:
    units = LAB.verification_case(LAB.working_set("published", kib), LAB.variant("read")).units
    assert 1 <= units <= 100 and units * kib * 256 / 2 / 32 <= 2**24
