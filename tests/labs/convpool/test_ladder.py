"""The convpool ladder: which knob each step turns, sweeps, series, published figures. Tests of all labs: test_ladders.py."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest

from roofbook import report
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.published_figures import PublishedFigures
from roofbook.devices.contract import Device
from roofbook.labs.convpool import DENSE, LAB, ZEROS, plans
from roofbook.labs.convpool.ladder import LADDER
from roofbook.labs.convpool.peers import TorchConvolution
from roofbook.labs.convpool.problem import NEURON_DENSITY, PUBLISHED, PUBLISHED_CASES
from roofbook.labs.convpool.publication import WORDS, FinalProject
from roofbook.spec.plan import SCALES, Variant
from roofbook.store import published_results

from .. import sizes as sizes_of

RESULTS = Path(__file__).parents[3] / "results"
GPU = cast(Device, SimpleNamespace(kind="gpu"))
FIGURES = published_results.figures("convpool", RESULTS)


def parent(variant: Variant) -> Variant:
    return LAB.variant(cast(str, variant.parent))


# -- knobs, sweeps, backends -------------------------------------------------------------------------------------------

EXPECTED_KNOBS = {
    "filter-groups": {"GRID"},
    "atomic-pool": {"POOL"},
    "cached": {"LOADS"},
    "uncached": {"LOADS"},
    "unrolled": {"UNROLL"},
    "shared-index": {"INDEX"},
    "input-in-local": {"STAGING"},
    "images": {"STAGING"},
}
"""Knob that each variant is named for, written down apart from the ladder."""


@pytest.mark.parametrize("name", EXPECTED_KNOBS)
def test_the_knob_that_changes_is_the_one_the_rung_is_named_for(name: str) -> None:
    variant = LAB.variant(name)
    source, parent_source = variant.source, parent(variant).source
    assert (
        source
        and parent_source
        and {knob for knob, _ in set(source.settings.items()) ^ set(parent_source.settings.items())}
        == EXPECTED_KNOBS[name]
    )
    assert all(variant.differs == ("source",) for variant in map(LAB.variant, EXPECTED_KNOBS))


KNOBS = {
    "layers": ("lists", "LAYERS"),
    "together": ("strips", "TOGETHER"),
    "list parts": ("strips", "PARTS"),
    "chunk": ("strips", "CHUNK"),
    "parts": ("both-sparse", "PARTS"),
}
"""Sweep -> (step that it starts from, knob whose values its points are)."""


def test_a_point_is_the_value_of_one_knob_and_the_rung_is_among_them() -> None:
    assert [sweep.axis for sweep in LAB.sweeps] == list(KNOBS)
    for sweep in LAB.sweeps:
        name, knob = KNOBS[sweep.axis]
        step = LAB.variant(name)
        assert step.source and {variant.parent for variant in sweep.variants} == {name}
        for variant in sweep.variants:
            assert variant.source == step.source.with_knobs(**{knob: int(cast(str, variant.point))})
        values = [int(cast(str, variant.point)) for variant in sweep.variants]
        assert values == sorted(values) and step.source.settings[knob] in values
    assert [variant.point for variant in LAB.sweeps[0].variants] == ["16", "32", "64", "128", "256"], "the report's"


@pytest.mark.parametrize("variant", [pytest.param(v, id=v.name) for v in LADDER])
def test_a_rung_is_kept_from_a_backend_for_a_reason(variant: Variant) -> None:
    """Tensor cores and loads with a cache operator are CUDA's alone; OpenCL's are the host's, vectors and x86 instructions."""
    assert variant.source
    cuda = variant.source.path.suffix == ".cu" or variant.name in ("cached", "uncached")
    cpu = variant.options.get("device") == "host" or variant.name.startswith(
        ("vectors", "cached-channels", "vnni", "amx")
    )
    of_text = {"cuda"} if cuda else {"opencl"} if cpu else {"opencl", "cuda"}
    assert variant.backends == ({"host"} if variant.role == "base" else of_text)
    assert (variant.dtype == "int8") == variant.name.startswith(("tensor", "warps", "vnni", "amx"))


def test_only_what_is_rounded_at_the_end_is_allowed_an_error() -> None:
    allowed = {v.name: v.options["result_roundoff"] for v in LAB.all_variants()
               if "result_roundoff" in v.options}  # fmt: skip
    of_bf16 = dict.fromkeys(("torch-bf16", "openvino-bf16"), 2.0**-8)
    assert allowed == {"torch-fp16": 2.0**-11, "torch-compiled": 2.0**-11, **of_bf16}


# -- cases and series --------------------------------------------------------------------------------------------------


def test_cases_go_by_their_layers_name_and_count_what_is_not_zero() -> None:
    assert [case.name for case in LAB.cases("published")] == [layer.name for layer in PUBLISHED]
    for scale in SCALES:
        assert all(c.name == plans.layer(c).name and c.units == 1 for c in LAB.cases(scale))
    case = LAB.case(PUBLISHED[0].name)
    work = LAB.work(case)
    assert work.flops == pytest.approx(2 * 512 * 512 * 32 * 32) and work.flops == LAB.rate(case)[0] * 1e9
    assert work.bytes == work.footprint == PUBLISHED[0].bytes
    assert LAB.work(LAB.case(f"{case.name}-w75")).flops == PUBLISHED[0].flops / 4
    assert LAB.work(LAB.case(f"{case.name}-x75")) == work, "an input that is zero is not known to be"


def zeros(array: np.ndarray, axes: tuple[int, ...]) -> float:
    """Return the share of zeros in %, which must be equal in all parts along `axes`."""
    (share,) = set(np.mean(array == 0, axis=axes).ravel().tolist())
    return 100 * cast(float, share)


@pytest.mark.parametrize("scale", SCALES)
def test_the_points_of_a_series_have_just_these_zeros(scale: str) -> None:
    """Zeros are exact to half a value of a filter or channel, of which at least one is not zero."""
    weight_zeros, prepared, input_zeros = LAB.series(scale)
    assert prepared.points == weight_zeros.points
    assert [x for x, _ in weight_zeros.points] == [x for x, _ in input_zeros.points]
    few = {"test": [ZEROS[0], ZEROS[-1]], "quick": [0, 75, 98]}
    assert [x for x, _ in weight_zeros.points] == few.get(scale, list(ZEROS))
    for series in (weight_zeros, input_zeros):
        for x, name in series.points if scale in ("quick", "test") else series.points[:1]:
            case = LAB.case(name, scale)
            layer, arrays = plans.layer(case), LAB.inputs(case, seed=3)
            assert layer == plans.layer(LAB.cases(scale)[0])
            of_a_filter, of_a_channel = layer.depth * layer.kernel**2, layer.size**2
            weights, values = zeros(arrays["weight"], (1, 2, 3)), zeros(arrays["x"], (1, 2))
            if series is weight_zeros:
                assert weights == pytest.approx(min(x, 100 - 100 / of_a_filter), abs=50.1 / of_a_filter)
                assert values == pytest.approx(100 * (1 - NEURON_DENSITY), abs=50.1 / of_a_channel)
            else:
                assert values == pytest.approx(x, abs=50.1 / of_a_channel)
                assert (np.count_nonzero(arrays["weight"], axis=(2, 3)) == 1).all()


def test_the_series_ask_the_labs_question() -> None:
    """The series compare lists with every way to compute all products, libraries included; fp16 holds too few integers."""
    weight_zeros, prepared, input_zeros = LAB.series("quick")
    peers = {peer.name for peer in LAB.peers if peer.plan is TorchConvolution and peer.dtype != "float16"}
    assert {peer for one, peer in weight_zeros.against if one == "strips"} == {*DENSE, *peers}
    assert all(LAB.variant(name).options.get("prepared") for name in prepared.variants)
    assert {one for one, _ in input_zeros.against} == {"both-sparse"}


# -- published figures -------------------------------------------------------------------------------------------------


class FakeMedians:
    """Stand-in for measurements: medians of these variants, and this point as the best of every sweep."""

    def __init__(self, point: str | None, medians: Mapping[str, float]) -> None:
        self.point, self.medians = point, medians

    def seconds(self, variant: str, case: str) -> float | None:
        assert case == PUBLISHED[0].name
        return self.medians.get(variant)

    def fastest_point(self, axis: str, case: str) -> str | None:
        assert (axis, case) == ("layers", PUBLISHED[0].name)
        return self.point


def counted(point: str | None, **medians: float) -> Mapping[tuple[str, str, str], str]:
    """Return the counted figures for medians of variants, whose names have _ for -."""
    timed = FakeMedians(point, {name.replace("_", "-"): median for name, median in medians.items()})
    return publication(LAB).counted(cast(Measured, timed))


def test_a_step_that_computes_every_product_is_not_said_to_leave_out_zeros() -> None:
    """Steps by VNNI and AMX descend from lists, and compute every product again."""
    seconds = {"lists": 3.0, "vnni-lists": 2.0, "vnni": 1.5, "amx": 1.0, "tiles": 5.0, "tensor-parts": 0.5}
    timed = [*seconds]
    seconds["tensor-no-products"] = 0.4
    measured = SimpleNamespace(
        cases=[SimpleNamespace(name="a")],
        fastest_by=lambda kind, case: {
            kind(LAB.variant(name)): name for name in sorted(timed, key=seconds.__getitem__)[::-1]
        },
        ratio_text=lambda name, other, case: f"{seconds[other] / seconds[name]:.2f} times as fast as",
        time_text=lambda name, case: f"{seconds[name]} s",
        ratio=lambda name, other, case: (
            SimpleNamespace(estimate=seconds[other] / seconds[name], how="") if name in seconds else None
        ),
    )
    sentence = FinalProject(LAB).finding(cast(Measured, measured))
    assert sentence == (
        "On a the fastest kernel that leaves out zeros, `vnni-lists`, is "
        f"2.50 times as fast as `tiles`, the fastest that multiplies by them {WORDS['dense']}, "
        f"and 0.25 times as fast as `tensor-parts`, the fastest that multiplies by them {WORDS['tensor']}, "
        f"and 0.50 times as fast as `amx`, the fastest that multiplies by them {WORDS['bytes']}. "
        "On a `tensor-parts` takes 0.5 s. "
        "What remains of that time is 80.0\u202f% without products (`tensor-no-products`: 0.4 s). "
        "Not measured here: `tensor-launch`."
    )


def test_every_published_figure_is_mapped_or_counted() -> None:
    names = {(row.variant, row.case, row.metric) for row in FIGURES.itertuples()}
    mapping, counts = publication(LAB).mapping(GPU), counted("64", atomic_pool=3e-3, filter_groups=2e-3)
    assert len(names) == len(FIGURES) == 17
    assert not any(publication(LAB).lack(name, case, metric) for name, case, metric in names)
    assert {name for name, _, _ in names} == {*mapping, *(name for name, _, _ in counts)}
    assert set(counts) <= names and not {name for name, _, _ in counts} & set(mapping)
    assert {case for _, case, _ in names} == set(PUBLISHED_CASES)
    for name, case, metric in names:
        part, fact = publication(LAB).part(name, case, metric), publication(LAB).fact(name, case, metric)
        assert part is None or (part in LAB.parts and metric == "time")
        assert fact == {"occupancy": "occupancy", "share": "kernel share"}.get(metric)
    for name, ours in mapping.items():
        assert isinstance(ours, tuple) == ("speedup" in name or "(at least)" in name)


def test_what_is_counted_comes_from_the_store_and_nowhere_else() -> None:
    (best, low, high) = counted("64", atomic_pool=3.5e-3, filter_groups=2e-3).values()
    assert best == "64 layers" and low == high == "1.50\u202fms"
    assert list(counted("64", atomic_pool=1e-3).values()) == ["64 layers"]
    assert list(counted(None, atomic_pool=1e-3, filter_groups=2e-3).values()) == ["−1.00\u202fms"] * 2, (
        "they may be faster here"
    )
    assert not counted(None)


def measured(name: str, seconds: float, parts: Mapping[str, float], **facts: Any) -> dict[str, Any]:
    """Return a row of the store for a variant on the published layer."""
    extra = {"parts": {part: [part_seconds] * 10 for part, part_seconds in parts.items()}, **facts}
    variant = LAB.variant(name)
    return {
        "run": "20260101T100000Z-aaaaaa", "started": pd.Timestamp("2026-01-01T10:00:00Z"), "lab": "convpool",
        "variant": name, "case": PUBLISHED[0].name, "parent": variant.parent, "scale": "published", "role": variant.role,
        "axis": None, "point": None, "dtype": variant.dtype, "device": "some-gpu", "device_name": "Some GPU",
        "device_kind": "gpu", "backend": "cuda", "policy": "{}", "timed": "kernels", "unit": "layer", "units": 1,
        "status": "ok", "reason": None, "samples_s": [seconds] * 10, "rounds": list(range(10)), "flops": 1e9, "bytes": 1e6,
        "error": 0.0, "bound": 0.0, "extra": json.dumps(extra), "provenance": "{}",
    }  # fmt: skip


def test_a_store_that_has_it_all_stands_beside_every_published_figure() -> None:
    rows = pd.DataFrame([
        measured("sequential", 16.0, {"kernels": 16.0}),
        measured("row-groups", 0.8, {"kernels": 0.8}, occupancy=0.5),
        measured("filter-groups", 0.2, {"kernels": 0.2}, occupancy=1.0),
        measured("lists", 0.02, {"kernels": 0.02, "pooling": 0.001, "copies": 0.003}),
        measured("initialisation", 0.3, {"context": 0.2, "first kernel": 0.1}),
        measured("whole-program", 0.4, {"whole program": 0.4, "kernels": 0.02}, **{"kernel share": 0.05}),
    ])  # fmt: skip
    table = report.published(
        PublishedFigures(
            FIGURES,
            publication(LAB).mapping(GPU),
            cases=publication(LAB).cases,
            part=publication(LAB).part,
            fact=publication(LAB).fact,
            measured=counted("32", atomic_pool=0.25, filter_groups=0.2),
        ),
        rows,
    )
    assert set(table.frame.status) == {"ok"}
    ours = dict(zip(table.frame.variant, table.frame.ours, strict=True))
    rows_, groups = "grid one block per filter row", "grid one block per filter"
    assert ours == {
        "sequential CPU": 16.0,
        "conv+ReLU kernel and pool kernel": 0.02,
        "speedup over CPU": pytest.approx(800),
        "both kernels, profiler": 0.02,
        "host-device copies, profiler": 0.003,
        "2x2 max pool kernel": 0.001,
        "one kernel with atomic max pooling: extra time (low end)": "50.0\u202fms",
        "one kernel with atomic max pooling: extra time (high end)": "50.0\u202fms",
        "sparse filter lists in shared memory vs dense (at least)": pytest.approx(10),
        f"{rows_}: occupancy": pytest.approx(50),
        f"{groups}: occupancy": pytest.approx(100),
        f"{rows_}: speedup over CPU": pytest.approx(20),
        f"{groups}: speedup over CPU": pytest.approx(80),
        "TILING_FACTOR found best": "32 layers",
        "CUDA initialisation": 0.3,
        "whole timeline, profiler": 0.4,
        "kernels in the whole timeline, profiler": pytest.approx(5),
    }


def test_each_rung_moves_what_its_data_flow_needs() -> None:
    """Traffic is compared with counts by hand, for 8 filters of 6 channels of 10x10, one weight in nine not zero."""
    case = LAB.case("8x6x10x10-k3")
    x, weight, conv, out = 600, 8 * 6 * 9, 800, 200
    least, lists = 2 * (x + weight) + 4 * out, 8 * 48 + 4 * 48
    moved = {name: LAB.traffic(case, LAB.variant(name)) for name in (
        "sequential", "filter-groups", "atomic-pool", "lists", "built-lists", "strips", "strips-prepared", "both-sparse",
        "tiles", "tensor-int8", "tensor-prepared", "tensor-window", "tensor-split-k", "tensor-parts", "warps-int8", "vnni",
        "vnni-lists", "vnni-lists-prepared", "amx", "torch-fp32", "torch-fp16", "cublas",
    )}  # fmt: skip
    assert moved == pytest.approx({
        "sequential": least + 8 * conv, "filter-groups": least + 8 * conv, "atomic-pool": least + 8 * out,
        "lists": least + 8 * conv, "built-lists": least + 2 * lists, "strips": least + 2 * (4 * 48 + x),
        "strips-prepared": x + 4 * 48 + 4 * out,
        "both-sparse": least + 2 * lists + 2 * 4 * 8 * 8 * 12 * 12, "tiles": least + 8 * weight,
        "tensor-int8": least + 2 * (x + weight), "tensor-prepared": x + weight + 4 * out,
        "tensor-window": x + weight + 4 * out, "tensor-split-k": x + weight + 4 * out, "tensor-parts": x + weight + 4 * out,
        "warps-int8": x + weight + 4 * out, "vnni": x + weight + 4 * out, "amx": x + weight + 4 * out,
        "vnni-lists": least + 2 * (x + 5 * 48), "vnni-lists-prepared": x + 5 * 48 + 4 * out,
        "torch-fp32": 4 * (x + weight + out), "torch-fp16": 2 * (x + weight + out),
        "cublas": 4 * (x + weight + out) + 2 * (4 * 9 * x + 4 * conv),
    })  # fmt: skip


def test_these_steps_move_less_than_the_problem_needs() -> None:
    assert sizes_of.moving_less(LAB) == {v.name for v in LAB.ladder if v.options.get("prepared")} != set()


def test_it_takes_sizes_that_no_scale_lists(tmp_path: Path) -> None:
    sizes_of.unlisted(LAB, "2x3x5x5-k3-w40", "2x3x1x1-k3", tmp_path)
