"""The LeNet ladder: which numbers of the report a step has, sweeps, published figures. Tests of all labs: test_ladders.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from tests.often import sample_of

from roofbook import report
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.published_figures import PublishedFigures
from roofbook.devices.contract import Device, Unsupported
from roofbook.labs.lenet import LAB, forward, peers, problem, reported, streams, tuned
from roofbook.labs.lenet.ladder import LADDER
from roofbook.peers import cc, pytorch
from roofbook.spec.kernel_constants import constants
from roofbook.spec.lab import by_make
from roofbook.spec.plan import Case, Variant
from roofbook.store import published_results

from .. import sizes as sizes_of

FIGURES = published_results.figures("lenet", Path(__file__).parents[3] / "results")
GPU = cast(Device, SimpleNamespace(kind="gpu"))
MAPPING = {published: str(ours) for published, ours in publication(LAB).mapping(GPU).items()}


def knobs(variant: Variant) -> dict[str, str]:
    assert variant.source
    return {name: str(value) for name, value in variant.source.settings.items()}


def changed_knobs(variant: Variant) -> set[str]:
    parent = knobs(LAB.variant(cast(str, variant.parent)))
    return {name for name, value in knobs(variant).items() if parent.get(name) != value}


# -- steps -------------------------------------------------------------------------------------------------------------

NUMBERS = {
    "0": lambda variant: issubclass(cast(type, variant.plan), streams.Streams),
    "1": lambda variant: "TILE_WIDTH" in knobs(variant),
    "2": lambda variant: issubclass(cast(type, variant.plan), forward.Fused),
    "3": lambda variant: issubclass(cast(type, variant.plan), forward.Fused) and variant.plan is not forward.Unrolled,
    "4": lambda variant: knobs(variant)["WEIGHTS"] == "CONSTANT_MEMORY",
    "9": lambda variant: knobs(variant).get("CHANNELS_BY") == "ATOMIC",
    "12": lambda variant: issubclass(cast(type, variant.plan), forward.Joint),
}
"""Number in the report's list -> whether a variant has that optimisation."""


def numbers(name: str) -> set[str]:
    """Return the numbers that a published name holds; `with #4` counts."""
    return set(re.findall(r"#(\d+)", name))


@pytest.mark.parametrize("variant", [pytest.param(v, id=v.name) for v in LADDER if v.published])
def test_a_published_rung_has_the_numbers_of_its_name_and_no_other(variant: Variant) -> None:
    assert variant.published
    assert {number for number, has in NUMBERS.items() if has(variant)} == numbers(variant.published)


def test_the_changes_name_the_same_numbers() -> None:
    for variant in LADDER:
        if variant.published and numbers(variant.change):
            assert numbers(variant.change) == numbers(variant.published), variant.name


EXPECTED_KNOBS = {
    "linear-constant": {"WEIGHTS"},
    "tiled-halo-constant": {"WEIGHTS"},
    "linear-atomic": {"CHANNELS_BY"},
    "tiled-halo-atomic": {"CHANNELS_BY"},
    "constant": {"WEIGHTS"},
    "tiled-constant": {"WEIGHTS"},
    "unrolled-constant": {"WEIGHTS"},
    "atomic-channels": {"CHANNELS_BY"},
    "tiled-atomic": {"CHANNELS_BY"},
    "fused-pool": {"ENDING"},
    "filter-lanes": {"LANES"},
    "pooled-vectors": {"ENDING"},
    "halves": {"ARITHMETIC"},
}
"""Knobs that each variant is named for, written down apart from the ladder."""


@pytest.mark.parametrize("name", EXPECTED_KNOBS)
def test_the_knob_that_changes_is_the_one_the_rung_is_named_for(name: str) -> None:
    assert changed_knobs(LAB.variant(name)) == EXPECTED_KNOBS[name]


def test_the_published_figures_are_of_the_kernels_as_they_were_published() -> None:
    """Each numbered optimisation of a direct kernel has the launches of the report; the book's own have no number."""
    published = {v.name for v in LADDER if v.published}
    assert published >= {v.name for v in LADDER if cast(type, v.plan).__module__ == reported.__name__}
    assert published.isdisjoint(v.name for v in LADDER if issubclass(cast(type, v.plan), forward.Direct))
    plans = {v.name: cast(type, v.plan) for v in LADDER}
    segments = {name: plan.images for name, plan in plans.items() if issubclass(plan, reported.Rotating)}
    assert segments == {"rotating-linear": 60, "rotating-halo": 125, "rotating-joint": 100}


SPLIT = {v.name for v in LADDER if v.source and constants(v.source).get("PARTS") == 2}
"""Variants whose operands are of two parts in fp16: their tolerance is that of fp32."""


def test_a_rung_is_kept_from_a_backend_for_a_reason() -> None:
    """Halves in pairs, tensor cores and graphs are CUDA's, explicit vectors OpenCL's; all other steps run on both."""
    on_cuda = {variant.name for variant in LADDER if variant.backends == {"cuda"}}
    assert on_cuda == {v.name for v in LADDER if v.needs & {"half2", "mma", "wgmma", "graphs"}}
    on_opencl = {variant.name for variant in LADDER if variant.backends == {"opencl"}}
    assert on_opencl == {"vectors", "filter-lanes", "pooled-vectors", "winograd-vectors"}
    remaining = [v for v in LADDER if v.role == "step" and v.name not in on_cuda | on_opencl]
    assert all(variant.backends == {"opencl", "cuda"} for variant in remaining)


def test_rounded_operands_say_so() -> None:
    """Variants with a wider bound are those that round their operands, and it is no wider than their format asks."""
    roundoff = {"float16": 2.0**-11, "tfloat32": 2.0**-11, "bfloat16": 2.0**-8}
    for variant in LAB.all_variants():
        is_exact = variant.dtype == "float32" or variant.name in SPLIT
        stated = variant.options.get("operand_roundoff", 0.0)
        assert stated == (0.0 if is_exact else roundoff[variant.dtype]), variant.name
    assert len(SPLIT) >= 3
    assert [v.name for v in LAB.all_variants() if "rounded_sums" in v.options] == ["halves"]


# -- sweeps and cases --------------------------------------------------------------------------------------------------


def test_the_sweeps_hold_what_was_published() -> None:
    points = {sweep.axis: [v.point for v in sweep.variants] for sweep in LAB.sweeps}
    assert {"60", "100", "125"} <= set(points["segment"])
    assert "17" in points["tile"] and "1000" in points["minibatch"] and "3" in points["queues"]
    assert (forward.MINIBATCH, streams.QUEUES) == (1000, 3) and str(streams.SEGMENT) in points["segment"]


def test_a_batch_is_too_small_for_some_points_and_for_nothing_else() -> None:
    for variant, batch in product(LAB.all_variants(), (30, 100, 999, 1000)):
        case = Case(f"batch-{batch}", "test", {"batch": batch, "data": "digits"}, 1)
        reason = LAB.skip_reason(variant, case)
        if variant.role == "peer":
            assert reason == (cc.missing() if variant.plan is peers.OpenMP else by_make(pytorch.missing()))
        elif variant.axis in ("minibatch", "segment") and int(variant.point or 0) > batch:
            assert reason == f"not on this case: fewer than {variant.point} images"
        else:
            assert reason is None, (variant.name, batch)


# -- published figures -------------------------------------------------------------------------------------------------


def rows() -> Iterator[Any]:
    yield from FIGURES.itertuples()


def parts_of(row: Any) -> tuple[str, ...]:
    part = publication(LAB).part(row.variant, row.case, row.metric)
    return (part,) if isinstance(part, str) else part or ()


def fact_of(row: Any) -> str | None:
    return publication(LAB).fact(row.variant, row.case, row.metric)


def lack_of(row: Any) -> str | None:
    return publication(LAB).lack(row.variant, row.case, row.metric)


def test_every_published_figure_is_a_time_a_fact_or_says_what_it_needs() -> None:
    assert len(FIGURES) == 292 and set(FIGURES.variant) == set(MAPPING)
    assert set(FIGURES.case) <= set(publication(LAB).cases)
    for row in rows():
        ways = [bool(parts_of(row)), fact_of(row) is not None, lack_of(row) is not None]
        assert ways.count(True) == 1, row
        assert ways[0] == (row.unit == "ms") and ways[2] == ("throughput" in row.metric)
    assert sum(lack_of(row) is not None for row in rows()) == 8


def test_a_combination_is_held_against_the_rung_with_the_same_numbers() -> None:
    for published, ours in MAPPING.items():
        if published.startswith("#0 streams, stream"):
            assert ours == "rotating-linear"
        elif "share of" in published:
            assert ours == "unrolled-constant", "the report tabulates #2 with #4 alone"
        else:
            assert {number for number, has in NUMBERS.items() if has(LAB.variant(ours))} == numbers(published)


COVERS = {
    "op time 1": ("op 1",), "op time 2": ("op 2",), "op time 1+2": ("op 1", "op 2"),
    "layer time 1": ("layer 1",), "layer time 2": ("layer 2",), "layer time sum": ("layer 1", "layer 2"),
    "layer 1 duration": ("op 1",), "layer 2 duration": ("op 2",), "API time: memcpy": ("copy",),
    "API time: malloc": ("allocate",), "API time: free": ("free",), "API time: memcpy to symbol": ("copy to constant memory",),
}  # fmt: skip


def test_a_published_time_is_the_sum_of_the_parts_that_it_is_held_against() -> None:
    """The report's own figures add up in the same way, so that the parts are the right ones."""
    figures = {(row.variant, row.case, row.metric): row.value for row in rows()}
    for row in rows():
        parts = parts_of(row)
        if "total" in row.metric:
            metrics = [metric for metric, (part, *_) in COVERS.items() if metric.startswith("API") and part in parts]
            assert len(metrics) == len(parts)
            assert sum(figures[row.variant, row.case, metric] for metric in metrics) == pytest.approx(
                row.value, abs=0.06
            )
        elif parts and row.variant.startswith("#0") and row.metric.startswith("op"):
            assert parts == tuple(f"{part} as published" for part in COVERS[row.metric])
            assert row.value < 0.02, "milliseconds: no work is in it"
        elif parts:
            assert parts == COVERS[row.metric]
        if row.metric in ("op time 1+2", "layer time sum"):
            one, two = (row.metric.replace("1+2", layer).replace("sum", layer) for layer in "12")
            sum_of_layers = figures[row.variant, row.case, one] + figures[row.variant, row.case, two]
            assert sum_of_layers == pytest.approx(row.value, rel=2e-3)


def test_a_share_of_a_stream_is_that_of_its_layer() -> None:
    shares = {fact_of(row): row.value for row in rows() if row.variant.startswith("#0 streams, stream")}
    assert set(shares) == {f"share of stream {queue}, layer {layer}" for queue in (1, 2, 3) for layer in (1, 2)}
    assert sum(shares.values()) == pytest.approx(100) and shares["share of stream 2, layer 1"] == 18.2


@pytest.mark.parametrize("ours", sample_of(dict.fromkeys(MAPPING.values())))
def test_a_run_tells_all_that_was_published_of_it(device: Device, ours: str) -> None:
    variant = LAB.variant(ours)
    inputs = problem.inputs(3, "digits", 1)
    try:
        runnable = variant.plan(device, variant, Case("batch-3", "test", {"batch": 3, "data": "digits"}, 1), inputs)
    except Unsupported as reason:
        pytest.skip(str(reason))
    runnable.reset()
    runnable.run()
    facts, parts = runnable.facts(), runnable.parts
    runnable.close()
    on_cuda_alone = {"registers", "groups_by_registers", "groups_by_local_memory"}
    for row in rows():
        if MAPPING[row.variant] == ours:
            assert set(parts_of(row)) <= set(parts), row
            fact = fact_of(row)
            assert fact is None or fact in facts or (fact in on_cuda_alone and device.backend != "cuda"), row


def measured(name: str, parts: Mapping[str, float], **facts: Any) -> dict[str, Any]:
    """Return a row of the store for a variant on the largest published batch."""
    extra = {"parts": {part: [seconds] * 10 for part, seconds in parts.items()}, **facts}
    variant = LAB.variant(name)
    return {
        "run": "20260101T100000Z-aaaaaa", "started": pd.Timestamp("2026-01-01T10:00:00Z"), "lab": "lenet", "variant": name,
        "case": "batch-10000", "parent": variant.parent, "scale": "published", "role": variant.role, "axis": None,
        "point": None, "dtype": variant.dtype, "device": "some-gpu", "device_name": "Some GPU", "device_kind": "gpu",
        "backend": "cuda", "policy": "{}", "timed": LAB.timed, "unit": "batch", "units": 1, "status": "ok", "reason": None,
        "samples_s": [9.0] * 10, "rounds": list(range(10)), "flops": 1e9, "bytes": 1e6, "error": 0.0, "bound": 1.0,
        "extra": json.dumps(extra), "provenance": "{}",
    }  # fmt: skip


def test_ours_stand_beside_what_they_are_of() -> None:
    kernels = {"op 1": 0.01, "op 2": 0.04, "op": 0.05, "layer 1": 0.1, "layer 2": 0.2, "layer": 0.3}
    calls = {"copy": 0.2, "allocate": 0.06, "free": 0.03, "copy to constant memory": 0.01}
    shares = {
        f"share of stream {queue}, layer {layer}": (queue + 3 * layer) / 100 for queue in (1, 2, 3) for layer in (1, 2)
    }
    page = publication(LAB)
    table = report.published(
        PublishedFigures(FIGURES, page.mapping(GPU), page.cases, part=page.part, fact=page.fact, lack=page.lack),
        pd.DataFrame([
            measured("linear-constant", {**kernels, **calls}, accuracy=0.88),
            measured("rotating-linear", {**kernels, "op 1 as published": 2e-6, "op 2 as published": 3e-6}, accuracy=0.88,
                     **shares),
            measured("joint", kernels, accuracy=0.88, registers=48, local_bytes=512, groups_by_registers=10),
            measured("unrolled-constant", kernels, accuracy=0.88, **{"share of unroll": 0.4}),
        ]),
    )  # fmt: skip
    frame = table.frame.set_index(["variant", "case", "metric"]).sort_index()
    largest = frame.xs("batch 10000", level="case")
    constant, stream = (
        largest.loc["#4 constant memory"],
        largest.loc["#0 streams (with #4; op time does not cover the work)"],
    )
    assert constant.ours.to_dict() == pytest.approx({
        "op time 1": 0.01, "op time 2": 0.04, "op time 1+2": 0.05, "layer time 1": 0.1, "layer time 2": 0.2,
        "layer time sum": 0.3, "accuracy": 0.88,
    })  # fmt: skip
    assert stream.ours[["op time 1", "op time 2", "op time 1+2"]].tolist() == pytest.approx([2e-6, 3e-6, 5e-6])
    assert stream.ours[["layer time 1", "layer time sum"]].tolist() == pytest.approx([0.1, 0.3])
    total = frame.loc["#4 constant memory", "", "API time: total"]
    assert total.ours.item() == pytest.approx(0.3) and total.published_over_ours.item() == pytest.approx(0.4614 / 0.3)
    assert frame.loc["#0 streams, stream 3", "batch 10000 layer 2"].ours.item() == pytest.approx(9)
    assert largest.loc["#2 unroll kernel share of device time"].ours.item() == pytest.approx(40)
    joint = largest.loc["#2+#3+#4+#12 joint register and shared tiling"].ours
    assert joint[["registers per thread", "shared memory per block", "block limit by registers"]].tolist() == [
        48,
        512,
        10,
    ]
    assert table.html.count("needs hardware counters") == 8
    assert set(frame.status) == {"ok", "missing"} and (frame[frame.our_device == "Some GPU"].status == "ok").all()


def test_a_caller_notices_only_what_an_interval_shows() -> None:
    """In the median `constant` saves a third of the wait, but its runs differ by more; `tiled` saves a third in each."""
    layers = {
        "baseline": (0.3, 0.3, 0.3),
        "constant": (0.1, 0.9, 0.2),
        "tiled": (0.2, 0.2, 0.2),
        "linear": (0.3, 0.3, 0.3),
    }
    rows_of_runs = [
        {**measured(name, {"layer": seconds}), "run": f"2026010{day}T100000Z-aaaaaa",
         "started": pd.Timestamp(f"2026-01-0{day}T10:00:00Z")}
        for name, of_days in layers.items() for day, seconds in enumerate(of_days, 1)
    ]  # fmt: skip

    class Waits(Measured):
        main_case = "batch-10000"

        def fastest(self, case: str) -> str:
            return "tiled"

        def ratio_text(self, variant: str, reference: str, case: str | None = None) -> str:
            return "some times as fast as"

    waits = Waits(cast(Any, SimpleNamespace(rows_with_peers=pd.DataFrame(rows_of_runs))))
    answer = publication(LAB).finding(waits)
    assert "of its parent's wait is saved by `tiled` (1.50). The other steps" in answer
    assert waits.ratio_of_parts(("tiled", "pass"), ("baseline", "layer"), "batch-10000") is None, "it has no such part"


def test_peers_are_others_with_precisions_of_their_own() -> None:
    single = {peer.name: peer.options["precision"] for peer in LAB.peers if peer.plan is peers.Convolutions}
    assert single == {
        "torch-cpu": "fp32", "torch-fp32": "fp32", "torch-tf32": "tf32", "torch-fp16": "fp16", "torch-bf16": "bf16",
    }  # fmt: skip
    assert {peer.name for peer in LAB.peers if peer.plan is peers.TorchWhole} == {"torch-whole", "torch-whole-compiled"}
    plans = (tuned.Folded, tuned.FoldedWhole)
    folded = {peer.name: peer.options["precision"] for peer in LAB.peers if peer.plan in plans}
    assert folded == {"torch-folded": "fp16", "torch-folded-fp32": "fp32", "torch-whole-folded": "fp16"}
    assert {peer.name for peer in LAB.peers if peer.options.get("compile")} == {"torch-whole-compiled", *folded}
    assert {peer.name for peer in LAB.peers if peer.backends != {"cuda"}} == {"torch-cpu", "openmp"}
    assert {peer.name for peer in LAB.peers if peer.plan is peers.OpenMP} == {"openmp"}
    assert {peer.name: peer.options for peer in LAB.peers if peer.plan is peers.Products} == {
        "cublas": {"precision": "fp32"}
    }


def test_these_steps_move_less_than_the_problem_needs() -> None:
    assert sizes_of.moving_less(LAB) == set()
