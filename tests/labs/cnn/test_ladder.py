"""The CNN ladder: which knob each step turns, sweeps, published figures, cases. Tests of all labs: test_ladders.py."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from roofbook.analysis.publication import publication
from roofbook.analysis.readings import Speedup
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.devices.contract import Device
from roofbook.labs.cnn import GROUPS, LAB, SUBS, plans
from roofbook.labs.cnn.ladder import LADDER
from roofbook.labs.cnn.problem import Layer
from roofbook.spec.plan import Variant

from .. import sizes as sizes_of

FIGURES = Path(__file__).parents[3] / "results" / "published" / "cnn.csv"
PUBLISHED = Layer.named("256ch-224x224-k5")
DEVICE = cast(Device, SimpleNamespace(kind="gpu"))


def parent(variant: Variant) -> Variant:
    return LAB.variant(cast(str, variant.parent))


def changed_knobs(variant: Variant, base: Variant) -> set[str]:
    assert variant.source and base.source
    return {name for name, _ in set(variant.source.settings.items()) ^ set(base.source.settings.items())}


def sizes(variant: Variant) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return (global size, local size) of a sub-tiled variant on the published layer."""
    sub = variant.options.get("sub", plans.PUBLISHED_SUB)
    group = variant.options.get("group", plans.PUBLISHED_GROUP)
    assert not plans.misfit(PUBLISHED, sub, (1, 1, 1))
    return tuple(side // part for side, part in zip(PUBLISHED.conv_shape, sub, strict=True)), group


EXPECTED_KNOBS = {
    "global-id": {"START"},
    "permuted": {"ORDER"},
    "unrolled": {"UNROLL"},
    "aligned": {"ALIGN"},
    "fissioned": {"STAGES"},
    "zeroed": {"STAGES"},
    "zeroed-declared": {"ZEROS"},
    "fused-declared": {"ZEROS"},
    "fused-declared-aligned": {"ALIGN"},
    "constant": {"SPACE"},
    "as-reported": {"START"},
    "global-id-divided": {"START"},
    "double-buffered": {"BUFFERS"},
    "tensor-cluster": {"BLOCKS"},
    "tensor-cluster-4": {"BLOCKS"},
    "tensor-bf16": {"ELEMENT"},
    "tensor-turns": {"WAITS"},
    "tensor-turns-bf16": {"ELEMENT"},
    "tensor-split": {"PRODUCTS"},
    "warps-fp16": {"WEIGHTS"},
    "warps-tf32": {"OPERANDS"},
    "warps-split": {"OPERANDS", "ROWS"},
    "fissioned@without=global number": {"START"},
    "fissioned@without=permutation": {"ORDER"},
    "fissioned@without=unrolling": {"UNROLL"},
    "fissioned@without=fission": {"STAGES"},
    "fissioned@without=bias as start value": {"STAGES"},
    "fissioned@without=alignment": {"ALIGN"},
    "tensor-turns@twice=loads": {"TWICE"},
    "tensor-turns@twice=stores": {"TWICE"},
    "tensor-turns@twice=products": {"TWICE"},
}
"""Knobs that each variant is named for, written down apart from the ladder."""


@pytest.mark.parametrize("name", EXPECTED_KNOBS)
def test_the_knob_that_changes_is_the_one_the_rung_is_named_for(name: str) -> None:
    variant = LAB.variant(name)
    assert changed_knobs(variant, parent(variant)) == EXPECTED_KNOBS[name]


def test_every_optimisation_of_the_best_rung_can_be_left_out() -> None:
    (without,) = (sweep for sweep in LAB.sweeps if sweep.axis == "without")
    best = variant = LAB.variant(LAB.best)
    undone = {name for point in without.variants for name in changed_knobs(point, best)}
    turned = set[str]()
    while variant.name != "tiled":
        turned |= changed_knobs(variant, parent(variant))
        variant = parent(variant)
    assert undone == turned == {"START", "ORDER", "UNROLL", "STAGES", "ALIGN"}


# -- sweeps ------------------------------------------------------------------------------------------------------------


def test_the_split_is_the_published_table() -> None:
    """Three numbers of work-groups by three of work-items: at the published size each point has the numbers in its name."""
    _, split, *_ = LAB.sweeps
    names = {f"{groups}x{items}" for groups in (896, 1792, 3584) for items in (32, 64, 128)}
    assert {variant.point for variant in split.variants} == names and len(split.variants) == 9
    for variant in split.variants:
        everything, group = sizes(variant)
        items = math.prod(group)
        assert variant.point == f"{math.prod(everything) // items}x{items}"
        assert plans.misfit(PUBLISHED, variant.options["sub"], group) is None


def test_the_space_is_named_by_global_and_local_size() -> None:
    _, _, space, *_ = LAB.sweeps
    for variant in space.variants:
        assert variant.point == "/".join("x".join(map(str, size)) for size in sizes(variant))
    assert sizes(LAB.variant(LAB.best)) == ((64, 112, 16), (4, 8, 2)), "the report's best"
    assert LAB.variant(f"{LAB.best}@space=64x112x16/4x8x2").options == {
        "sub": plans.PUBLISHED_SUB,
        "group": plans.PUBLISHED_GROUP,
    }
    fitting = [v for v in space.variants if not plans.misfit(PUBLISHED, *v.options.values())]
    assert len(space.variants) == len(SUBS) * len(GROUPS) and len(fitting) > 50


# -- published figures -------------------------------------------------------------------------------------------------


def test_every_published_figure_has_ours_beside_it() -> None:
    with FIGURES.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 91 and {row["variant"] for row in rows} == set(publication(LAB).mapping(DEVICE))
    assert {row["case"] for row in rows} == {case.name for case in LAB.cases("published")} == {PUBLISHED.name}
    assert {(row["metric"], row["unit"]) for row in rows} == {("time", "s"), ("rate", "GFLOP/s"), ("speedup", "x")}
    amount, unit = LAB.rate(LAB.case(PUBLISHED.name))
    assert unit == "GFLOP/s"
    key = ("table", "variant", "trial")
    rates = {tuple(row[name] for name in key): float(row["value"]) for row in rows if row["metric"] == "rate"}
    for row in rows:
        if row["metric"] == "time":
            rate = rates[tuple(row[name] for name in key)]
            assert amount / float(row["value"]) == pytest.approx(rate, rel=2e-5), "theirs and ours count the same work"


def test_with_and_without_are_apart_in_the_named_knob() -> None:
    """In the report's own pairs 'with' is the faster one, so nothing is mapped the wrong way round."""
    mapping = publication(LAB).mapping(DEVICE)
    knobs = {"get_global_id()": "START", "loop permutation": "ORDER", "loop unrolling": "UNROLL",
             "loop fission": "STAGES", "sub-tile aligned": "ALIGN"}  # fmt: skip
    pairs = [name.removesuffix(": with") for name in mapping if name.endswith(": with")]
    assert len(pairs) == len(knobs)
    for name in pairs:
        (knob,) = (knob for start, knob in knobs.items() if name.startswith(start))
        full, part = (LAB.variant(str(mapping[f"{name}: {word}"])) for word in ("with", "without"))
        assert changed_knobs(full, part) == {knob, *(["ZEROS"] if knob == "STAGES" else [])}
        assert part.name.startswith("as-reported@report=")
    assert mapping["best vs sequential"] == ("as-reported", "sequential-c")
    assert mapping["896 work-groups x 128 work-items"] == f"{LAB.best}@split=896x128"
    assert mapping["best (global 64x112x16, local 4x8x2)"] == "as-reported"
    stand_ins = publication(LAB).stand_ins
    assert {name for name in stand_ins if not name.startswith("as-reported")} == {"sequential-c"}
    reported = {ours for ours in mapping.values() if isinstance(ours, str) and ours.startswith("as-reported")}
    assert {*stand_ins} >= reported


# -- cases, work, backends ---------------------------------------------------------------------------------------------


def test_cases_go_by_their_layers_name_and_count_the_convolution() -> None:
    case = LAB.case("256ch-224x224-k5", "published")
    assert plans.layer(case) == PUBLISHED
    work = LAB.work(case)
    assert work.flops == 2 * 256**2 * 224**2 * 25 == LAB.rate(case)[0] * 1e9
    assert work.bytes == work.footprint == 4 * (256 * 228**2 + 256**2 * 25 + 256 + 256 * 112**2)
    for scale in ("quick", "published", "large", "test"):
        assert all(c.name == plans.layer(c).name and c.units == 1 for c in LAB.cases(scale))
    fits = [not LAB.skip_reason(LAB.variant(LAB.best), c) for c in LAB.cases("test")]
    assert fits == [True, False], "the small cases show both"


def test_inputs_are_of_both_signs_and_seeded() -> None:
    case = LAB.cases("test")[0]
    one, again, other_seed = (LAB.inputs(case, seed) for seed in (1, 1, 2))
    for name, array in one.items():
        assert (array == again[name]).all() and (array != other_seed[name]).any() and array.dtype == np.float32
    assert abs(one["x"].mean()) < 0.1 and one["x"].std() == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("variant", [pytest.param(v, id=v.name) for v in LADDER])
def test_a_rung_is_kept_from_a_backend_for_a_reason(variant: Variant) -> None:
    """Tensor cores are CUDA's alone; OpenCL's alone are vectors, constant arguments, x86 instructions and the host's base."""
    assert variant.source
    tensor = variant.source.path.suffix == ".cu"
    opencl = variant.options.get("device") == "host" or variant.name in (
        "vectors",
        "four-rows",
        "constant",
        "as-reported",
        "bf16-dots",
        "amx-bf16",
    )
    of_text = {"cuda"} if tensor else {"opencl"} if opencl else {"opencl", "cuda"}
    assert variant.backends == ({"host"} if variant.role == "base" else of_text)
    assert (90 in variant.architectures and 80 not in variant.architectures) == tensor


def test_rounded_operands_say_so() -> None:
    """Variants with a wider bound are those that round their operands, and it is no wider than their format asks."""
    allowed = {variant.name: variant.options["operand_roundoff"] for variant in LAB.all_variants()
               if "operand_roundoff" in variant.options}  # fmt: skip
    assert set(allowed) == {
        "tensor-fp16", "tensor-cluster", "tensor-cluster-4", "tensor-prepared", "tensor-columns", "tensor-persistent",
        "tensor-wide-stores", "tensor-window", "tensor-relaxed", "tensor-turns", "tensor-tf32", "tensor-bf16",
        "tensor-turns-bf16", "bf16-dots", "amx-bf16", "openvino-bf16", "warps-staged", "warps-fp16", "warps-tf32",
        "triton-fp16", "triton-tf32", "cute-fp16",
        "torch-tf32", "torch-fp16", "torch-bf16", "torch-compiled", "torch-autotuned", "cudnn-fused", "cudnn-fused-prepared",
        "cudnn-fused-tf32", "cudnn-fused-tf32-prepared",
        "tensor-turns@twice=loads", "tensor-turns@twice=stores", "tensor-turns@twice=products",
    }  # fmt: skip
    for name, roundoff in allowed.items():
        assert roundoff <= (2.0**-8 if "bf16" in name else 2.0**-11)


def test_each_rung_moves_what_its_data_flow_needs() -> None:
    """Traffic is compared with counts by hand, for 3 channels of 9x9, 130 filters of 2x2 and a pooled map of 4x4."""
    case = LAB.case("3to130ch-8x8-k2")
    x, weight, bias, out = 3 * 9 * 9, 130 * 3 * 4, 130, 130 * 4 * 4
    least = 4 * (x + weight + bias + out)
    moved = {name: LAB.traffic(case, LAB.variant(name)) for name in (
        "sequential", "fissioned", "double-buffered", "vectors", "four-rows", "tensor-fp16", "tensor-prepared",
        "tensor-columns", "tensor-window", "tensor-split", "tensor-tf32", "tensor-split-window", "torch-fp32", "torch-fp16",
        "cublas", "cublas-prepared", "warps-fp16", "warps-tf32", "warps-split",
    )}  # fmt: skip
    half, matrix, conv = 2 * (x + weight), 4 * 12 * 64, 4 * 130 * 64
    assert moved == {
        "sequential": least, "fissioned": least, "double-buffered": least + 8 * weight, "vectors": least + 8 * weight,
        "four-rows": least,
        "tensor-fp16": least + 2 * half, "tensor-prepared": half + 4 * (bias + out),
        "tensor-columns": half + 4 * (bias + out), "tensor-window": half + 4 * (bias + out), "tensor-split": least + 4 * half,
        "tensor-tf32": least, "tensor-split-window": least + 4 * half,
        "torch-fp32": least, "torch-fp16": least / 2,
        "warps-fp16": half + 4 * (bias + out), "warps-tf32": least, "warps-split": least + 4 * half,
        "cublas": least + 2 * matrix + 2 * conv, "cublas-prepared": least - 4 * x + matrix + 2 * conv,
    }  # fmt: skip


def test_winograd_counts_its_own_products_and_arrays() -> None:
    """Counts by hand, for 3 channels, 130 filters and 16 tiles of 2 x 2 outputs. Arrays have whole tiles of a product."""
    case, variant = LAB.case("3to130ch-8x8-k5"), LAB.variant("winograd")
    least, points = 4 * (3 * 12 * 12 + 130 * 3 * 25 + 130 + 130 * 4 * 4), 36
    assert LAB.traffic(case, variant) == least + 8 * points * (8 * 256 + 8 * 128 + 256 * 128)
    assert variant.plan.operations(case, variant, math.inf) == 2 * points * 3 * 130 * 16
    plain = LAB.variant("double-buffered")
    assert plain.plan.operations(case, plain, 7.0) == 7.0


def test_these_steps_move_less_than_the_problem_needs() -> None:
    prepared = {v.name for v in LAB.ladder if v.options.get("prepared") and v.dtype in ("float16", "bfloat16")}
    assert sizes_of.moving_less(LAB) == prepared != set()


def test_it_takes_sizes_that_no_scale_lists(tmp_path: Path) -> None:
    sizes_of.unlisted(LAB, "2to3ch-5x6-k3", "2to3ch-5x1-k3", tmp_path)


@pytest.mark.parametrize("interval", [(2.0, 3.0), (0.9, 1.1), (0.3, 0.5)])
def test_loads_are_only_blamed_where_fewer_of_them_made_a_step_faster(interval: tuple[float, float]) -> None:
    ratio = Speedup(1.0, *interval, how="")
    measured: Any = SimpleNamespace(
        main_case="a", fastest_by=lambda kind, case: {}, way=lambda case: [],
        ratio_text=lambda step, reference, case: NOT_MEASURED if step == "unrolled" else "some time of",
        ratio=lambda step, reference, case: None if step == "unrolled" else ratio,
    )  # fmt: skip
    sentence = "With each load serving more outputs, `implicit-gemm` is some time of `fissioned`."
    assert publication(LAB).finding(measured) == "Loads limited the first kernels. " * (interval[0] > 1) + sentence
