"""Every variant, peer and sweep point of the CNN lab against the float64 reference, on every device that is present.

Layers are small and odd: sizes that divide no tile, one channel, one filter, an odd last row and column that the pool drops.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.often import sample_of

from roofbook.devices.contract import Device, Unsupported
from roofbook.errors import UsageError
from roofbook.labs.cnn import LAB, forward, peers, plans, tuned, warps, winograd
from roofbook.labs.cnn.problem import Array, Layer, course_wrong, error_over_bound, inputs, reference
from roofbook.measure.placement import target_of
from roofbook.peers import cc, cudnn, openvino, pytorch
from roofbook.spec.lab import by_make
from roofbook.spec.plan import Case, Runnable, Variant, missing

from ... import mutants
from ..sweep_points import points

LAYERS = [
    "1to1ch-2x2-k1",
    "2to3ch-5x33-k6",
    "2to4ch-6x64-k3",
    "3to5ch-7x34-k3",
    "3to5ch-7x34-k4",
    "5to130ch-9x33-k5",
    "16ch-16x28-k5",
    "3to32ch-32x56-k2",
]
"""Layers of the tests. The last two are whole tiles: one work-group of the report's best, and two along each side."""
FEW = ["3to5ch-7x34-k3", "3to32ch-32x56-k2"]
"""Layers that reach every variant but Winograd's, one of them awkward; all others are thorough."""


def case_of(name: str) -> Case:
    return Case(name, "test", {"layer": asdict(Layer.named(name))}, 1)


@cache
def problem(name: str) -> tuple[Mapping[str, Array], Mapping[str, Array]]:
    """Return the inputs of a layer, signed, and the right result."""
    case = case_of(name)
    drawn = LAB.inputs(case, seed=len(name))
    return drawn, LAB.reference(case, drawn)


def make(device: Device, variant: Variant, case: Case, arrays: Mapping[str, Any]) -> Runnable:
    """Return the variant ready to run; skip the test where this device or machine cannot run it."""
    target = target_of(variant, device)
    if target is None:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    if variant.role == "peer" and (reason := LAB.skip_reason(variant, case)):
        pytest.skip(reason)
    return variant.plan(target.device, variant, case, arrays)


def run(device: Device, variant: Variant, name: str, arrays: Mapping[str, Any] | None = None) -> Array:
    """Return `out` of one run, on poisoned outputs."""
    runnable = make(device, variant, case_of(name), arrays or problem(name)[0])
    runnable.reset()
    assert np.isnan(runnable.outputs()["out"]).all()
    seconds = runnable.run()
    out: Array = runnable.outputs()["out"]
    assert (seconds is None or 0 < seconds < 60) and runnable.facts()
    runnable.close()
    return out


def accepted(variant: Variant, name: str, out: Array) -> bool:
    error, tolerance, _ = LAB.check(case_of(name), variant, {"out": out}, problem(name)[1])
    return error <= tolerance


def named(*names: str) -> list[Any]:
    return [pytest.param(LAB.variant(name), id=name) for name in names]


def swept(*axes: str) -> list[Any]:
    return [pytest.param(v, id=v.name) for sweep in LAB.sweeps if sweep.axis in axes for v in sweep.variants]


VARIANTS = [pytest.param(variant, id=variant.name) for variant in LAB.ladder + LAB.peers] + swept("without", "twice")
TILED = (plans.Tiled, plans.LocalTile)


# -- against the reference ---------------------------------------------------------------------------------------------


def why_not(variant: Variant, layer: Layer) -> str | None:
    """Return the expected reason why a variant is excused from a layer; the lab's own words are compared with it."""
    if variant.role == "dsl":
        return by_make(missing(variant))
    if variant.role == "peer":
        by_eight = variant.plan in (tuned.FusedConvolution, tuned.SplitConvolution)
        odd = by_eight and (layer.channels % 8 or layer.filters % 8)
        absent = cc.missing() if variant.plan is peers.OpenMP else pytorch.missing()
        if variant.plan is tuned.SplitConvolution:
            absent = cudnn.missing()
        if variant.plan is peers.OpenVino:
            absent = openvino.missing()
        return by_make(absent) or ("not on this case: cuDNN takes channels and filters by eight" if odd else None)
    if variant.plan is winograd.Winograd and layer.kernel != 5:
        return "not on this case: filters other than 5x5"
    if variant.plan in TILED:
        sub, group = variant.options.get("sub", (4, 2, 14)), variant.options.get("group", (4, 8, 2))
        for name, side, part, items in zip(("filters", "rows", "columns"), layer.conv_shape, sub, group, strict=True):
            if side % part:
                return f"not on this case: {side} {name} are no multiple of a sub-tile's {part}"
            if side % (part * items):
                parts_of_side = f"{side // part} work-items along the {name}"
                return f"not on this case: {parts_of_side} are no multiple of a group's {items}"
    if variant.plan is plans.Vectors and layer.width < 32:
        return "not on this case: narrower than 32 columns"
    if variant.plan in (plans.Gemm, warps.Warps) and layer.kernel > 5:
        return "not on this case: filters larger than 5x5"
    return None


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param(FEW, id="few"),
        pytest.param([name for name in LAYERS if name not in FEW], id="further", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_a_variant_lies_within_the_bound(device: Device, variant: Variant, layers: Sequence[str]) -> None:
    for name in layers:
        if why_not(variant, Layer.named(name)) is None:
            out = run(device, variant, name)
            error, tolerance, quantity = LAB.check(case_of(name), variant, {"out": out}, problem(name)[1])
            assert error <= tolerance, f"{name}, {quantity}: {error:.3g}"
            assert course_wrong(out, problem(name)[1]["out"]) == 0 or "operand_roundoff" in variant.options, name


def test_winograd_with_few_channels_errs_more_than_plain_sums_and_no_further_than_a_library_may(device: Device) -> None:
    """Odd sides, more filters than a tile, and few channels, whose sums hide the least of what transformations round away."""
    variant, layer = LAB.variant("winograd"), "5to130ch-9x33-k5"
    outputs, right = {"out": run(device, variant, layer)}, problem(layer)[1]
    error, tolerance, _ = LAB.check(case_of(layer), variant, outputs, right)
    plainly, _, _ = LAB.check(case_of(layer), LAB.variant("double-buffered"), outputs, right)
    assert error <= tolerance < plainly


def test_a_shape_that_does_not_fit_is_excused_with_the_reason() -> None:
    for variant in (param.values[0] for param in (*VARIANTS, *swept("split", "space"))):
        for name in (*LAYERS, "256ch-224x224-k5"):
            assert LAB.skip_reason(variant, case_of(name)) == why_not(variant, Layer.named(name)), (variant.name, name)


def test_the_layers_reach_every_variant_and_every_reason() -> None:
    reasons = {v.name: [why_not(v, Layer.named(name)) for name in LAYERS] for v in LAB.ladder}
    for variant in LAB.ladder:
        runs = any(why_not(variant, Layer.named(name)) is None for name in FEW)
        assert runs or variant.plan is winograd.Winograd, f"{variant.name} runs on no layer of the quick tests"
    for name in ("fissioned", "local-tile", "implicit-gemm", "vectors"):
        assert any(reasons[name]), f"{name} is excused from no layer of this file"


def shapes() -> list[Any]:
    """Return all points of `split`, and points of `space` that have each sub-tile and each group."""
    return [
        pytest.param(v, id=v.name) for sweep in LAB.sweeps if sweep.axis in ("split", "space") for v in points(sweep)
    ]


@pytest.mark.parametrize("variant", sample_of(shapes()))
def test_every_shape_of_the_sweeps_is_right_on_two_work_groups(device: Device, variant: Variant) -> None:
    (i, h, w), (along, down, across) = variant.options["sub"], variant.options["group"]
    name = Layer(2, i * along, h * down, 2 * w * across, 2).name
    assert LAB.skip_reason(variant, case_of(name)) is None
    if along * down * across > device.max_work_group:
        with pytest.raises(
            Unsupported, match=rf"^\d+ work-items a group \([0-9x]+\): {device.max_work_group} at most$"
        ):
            make(device, variant, case_of(name), problem(name)[0])
    else:
        assert accepted(variant, name, run(device, variant, name))


@settings(max_examples=3)
@given(*[st.integers(1, most) for most in (4, 9)], st.integers(2, 11), st.integers(2, 40), st.integers(1, 5))
def test_any_layer_is_right_where_a_variant_has_no_excuse(
    device: Device, channels: int, filters: int, height: int, width: int, kernel: int
) -> None:
    name = Layer(channels, filters, height, width, kernel).name
    for variant in map(LAB.variant, ("sequential", "double-buffered", "vectors", "four-rows", "tensor-split-window")):
        if target_of(variant, device) and not LAB.skip_reason(variant, case_of(name)):
            assert accepted(variant, name, run(device, variant, name)), variant.name


# -- the same sums, the same bits --------------------------------------------------------------------------------------

SAME_ORDER = (
    ("permuted", ["tiled", "global-id", "unrolled", "aligned", "zeroed", "implicit-gemm", "double-buffered"]),
    ("fissioned", ["constant", "local-tile", "fissioned@without=global number", "fissioned@without=unrolling"]),
    ("tensor-fp16", ["tensor-cluster", "tensor-cluster-4", "tensor-prepared"]),
    ("tensor-columns", ["tensor-persistent", "tensor-wide-stores"]),
    ("tensor-window", ["tensor-relaxed", "tensor-turns", "tensor-turns@twice=loads", "tensor-turns@twice=stores"]),
)
"""Groups of variants: sums that start from zero and add the bias last; that start from the bias; that are taken on the same
matrix units, tap by tap and column by column."""


@pytest.mark.parametrize(("name", "same_order"), SAME_ORDER)
def test_sums_in_the_same_order_have_the_same_bits(device: Device, name: str, same_order: list[str]) -> None:
    layer = "3to32ch-32x56-k2"
    out = run(device, LAB.variant(name), layer)
    for variant in map(LAB.variant, same_order):
        if target_of(variant, device):
            np.testing.assert_array_equal(run(device, variant, layer), out, err_msg=variant.name)


@pytest.mark.parametrize("variant", VARIANTS)
def test_twice_the_input_and_bias_is_twice_the_output(device: Device, variant: Variant) -> None:
    """Outputs double to the bit, in any binary format and order of the sums. A run after a reset gives the same bits."""
    names = "3to32ch-32x56-k2", "5to130ch-9x33-k5"
    name = next(name for name in names if variant.plan is not winograd.Winograd or Layer.named(name).kernel == 5)
    drawn = problem(name)[0]
    once, twice = (
        run(device, variant, name),
        run(device, variant, name, {**drawn, "x": 2 * drawn["x"], "bias": 2 * drawn["bias"]}),
    )
    np.testing.assert_array_equal(twice, 2 * once)


# -- the check sees what a kernel forgets ------------------------------------------------------------------------------


def test_the_check_refuses_what_is_wrong() -> None:
    name = "5to130ch-9x33-k5"
    variant, right = LAB.variant(LAB.best), problem(name)[1]["out"]
    negative = right.copy()
    negative[-1, -1, -1] = -1e-3
    further_mistakes = [
        ("negative, though it is small", {"out": negative}),
        ("1e-4 too large", {"out": right * (1 + 1e-4)}),
    ]
    check = partial(LAB.check, case_of(name), variant, reference=problem(name)[1])
    mutants.all_refused(lambda outputs: check(outputs=outputs), {"out": right}, 0.01, further_mistakes)
    *_, message = LAB.check(case_of(name), variant, {"out": 1.1 * right}, problem(name)[1])
    assert (
        message.endswith(f"by the course's check {course_wrong(1.1 * right, right)} are wrong")
        and " 0 are" not in message
    )


# -- precision ---------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_rounded_operands_need_their_own_bound_and_split_ones_do_not(device: Device) -> None:
    layer = Layer.named("256to16ch-8x32-k5")
    drawn = inputs(layer, 3)
    right = reference(layer, **drawn)
    over = {}
    for name in ("implicit-gemm", "tensor-fp16", "tensor-tf32", "tensor-bf16", "tensor-split", "tensor-split-window"):
        out = run(device, LAB.variant(name), layer.name, drawn)  # the first of CUDA's own skips on OpenCL
        over[name] = error_over_bound(out, right, layer)
    assert max(over["implicit-gemm"], over["tensor-split"]) < 0.6
    assert over["tensor-split-window"] < over["tensor-split"]
    assert 1 < max(over["tensor-fp16"], over["tensor-tf32"]) < over["tensor-bf16"] / 4


# -- the course's program ----------------------------------------------------------------------------------------------


def test_forward_is_the_layer_in_float32(device: Device) -> None:
    layer = Layer.named("3to5ch-7x34-k3")
    drawn, right = problem(layer.name)
    for variant in (None, "sequential", "implicit-gemm"):
        if variant == "sequential" and device.backend != "opencl":
            continue
        out = forward(device.spec, variant, layer, **drawn)
        assert out.dtype == np.float32 and error_over_bound(out, right, layer) <= 1


def test_forward_refuses_in_one_line(device: Device) -> None:
    layer = Layer.named("3to5ch-7x34-k3")
    drawn = problem(layer.name)[0]
    for variant, says in (
        ("fissioned", r"^variant 'fissioned' cannot run this: not on this case: 5 filters are no multiple"),
        (f"{LAB.best}@split=896x32", "it is not a step of the ladder|no multiple"),
        ("torch-cpu", "PyTorch|not on|not a step"),
        ("fused", r"^unknown variant 'fused' .*; valid: sequential"),
    ):
        with pytest.raises(UsageError, match=says):
            forward(device.spec, variant, layer, **drawn)
    with pytest.raises(UsageError, match="unknown device 'tpu:0'"):
        forward("tpu:0", None, layer, **drawn)


def test_a_run_tells_of_its_groups(device: Device) -> None:
    for name, layer, group, groups in (
        ("fissioned", "3to32ch-32x56-k2", "4x8x2", 8),
        ("implicit-gemm", "5to130ch-9x33-k5", "256x1x1", 3 * 2 * 2),
    ):
        runnable = make(device, LAB.variant(name), case_of(layer), problem(layer)[0])
        facts = runnable.facts()
        runnable.close()
        assert (facts["group"], facts["groups"]) == (group, groups) and math.prod(map(int, group.split("x"))) in (
            64,
            256,
        )
