"""Every step, sweep point and peer of the sparse convolution equals the reference, on each device that is there.

Layers are small and odd: one channel, one filter, an odd last row and column, sizes that divide no tile, chunk or turn.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.often import often

from roofbook.devices.contract import Device, DriverFailed, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.errors import UsageError
from roofbook.labs.convpool import LAB, initialise, parts, peers, plans, vectors, vnni
from roofbook.labs.convpool.ladder import HERE
from roofbook.labs.convpool.problem import Layer, named
from roofbook.measure.placement import target_of
from roofbook.peers import cc, openvino, python_kernel, pytorch
from roofbook.spec.kernel_constants import constants
from roofbook.spec.plan import Runnable, Variant

from ... import mutants
from ...naming import naming
from ..sweep_points import params
from .corpus import MISTAKES

LAYERS = ["1x1x2x2-k1", "3x2x7x7-k5", "2x130x31x31-k3", "9x70x34x34-k3"]
"""Layers of the tests. The third takes a second turn of lists; the last is larger than a tile, chunk or group's filters."""
FEW = [LAYERS[2]]
"""Layers that each variant computes; all others are thorough."""
SMALL = "5x7x9x9-k3"
DENSEST = "-w0-x0"
ZEROS = ["", DENSEST, "-w98-x50"]
TIMED = [variant for variant in (*LAB.ladder, *LAB.peers) if variant.role != "probe"]


def variants(chosen: list[Variant]) -> list[Any]:
    return [pytest.param(v, id=v.name) for v in chosen]


@cache
def problem(name: str) -> tuple[Mapping[str, np.ndarray], Mapping[str, Any]]:
    """Return the inputs of a case and the right result."""
    case = LAB.case(name, "test")
    drawn = LAB.inputs(case, seed=7)
    return drawn, LAB.reference(case, drawn)


def make(device: Device, variant: Variant, name: str, inputs: Mapping[str, Any] | None = None) -> Runnable:
    """Return the variant ready to run; skip the test where this device or machine cannot run it."""
    target = target_of(variant, device)
    if target is None:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    case = LAB.case(name, "test")
    if reason := LAB.skip_reason(variant, case):
        pytest.skip(reason)
    return variant.plan(target.device, variant, case, inputs or problem(name)[0])


def is_right(device: Device, variant: Variant, name: str) -> bool:
    """Return whether a run on poisoned outputs is right. A second run, without a reset, must have the same verdict."""
    run = make(device, variant, name)
    run.reset()
    poisoned = run.outputs()["out"]
    assert (np.isnan(poisoned) | (poisoned == plans.SENTINEL)).all()
    verdicts = []
    for _ in range(2):
        run.run()
        error, tolerance, _ = LAB.check(LAB.case(name, "test"), variant, run.outputs(), problem(name)[1])
        verdicts.append(error <= tolerance)
    run.close()
    assert len(set(verdicts)) == 1, "a second run gives the same"
    return verdicts[0]


# -- against the reference ---------------------------------------------------------------------------------------------


def too_large(device: Device, variant: Variant, layer: Layer) -> str | None:
    """Return the reason a variant must give where this layer's groups or lists do not fit; None where they do."""
    one_group = variant.plan in (plans.Pooled, plans.Lists) and variant.name != "row-groups"
    if one_group and layer.size**2 > device.max_work_group:
        return f"{layer.size**2} work-items a group: {device.max_work_group} at most"
    if variant.plan is plans.Lists and variant.source:
        needed = 4 * int(variant.source.settings["LAYERS"]) * (2 * layer.kernel**2 + 1)
        return "of local memory" if needed > device.local_bytes else None
    if variant.plan is plans.Strips and variant.source:
        knobs = {name: int(value) for name, value in variant.source.settings.items()}
        if 32 * knobs["TOGETHER"] * knobs["PARTS"] > device.max_work_group:
            return "work-items per group"
        needed = max(knobs["CHUNK"] * (16 + layer.kernel - 1) * 40, 2048 * knobs["TOGETHER"])
        return "of local memory" if needed > device.local_bytes else None
    return None


def is_exact(device: Device, variant: Variant, name: str) -> None:
    if reason := too_large(device, variant, named(name)[0]):
        with pytest.raises(Unsupported, match=reason):
            make(device, variant, name)
    else:
        assert is_right(device, variant, name)


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param(FEW, id="few"),
        pytest.param([name for name in LAYERS if name not in FEW], id="further", marks=pytest.mark.thorough),
    ],
)
@pytest.mark.parametrize("variant", variants(TIMED))
def test_every_variant_is_exact(device: Device, variant: Variant, layers: Sequence[str]) -> None:
    for name, zeros in product(layers, ZEROS):
        if not (variant.dtype == "float16" and zeros == DENSEST):  # sums beyond 65504, which fp16 does not hold
            with naming(name + zeros):
                is_exact(device, variant, name + zeros)


@pytest.mark.parametrize("variant", params(LAB.sweeps))
def test_every_point_of_the_sweeps_is_exact(device: Device, variant: Variant) -> None:
    is_exact(device, variant, f"{LAYERS[-1]}-w50")


@settings(max_examples=2)
@given(
    st.builds(Layer, st.integers(1, 70), st.integers(1, 40), st.integers(2, 20), st.sampled_from([1, 3, 5])),
    st.integers(0, 99),
    st.integers(0, 99),
)
def test_any_layer_is_exact(device: Device, layer: Layer, weights: int, values: int) -> None:
    names = "lists", "built-lists", "cached-channels", "strips", "both-sparse", "tiles", "tensor-int8"
    for variant in map(LAB.variant, names):
        if target_of(variant, device):
            assert is_right(device, variant, f"{layer.name}-w{weights}-x{values}"), variant.name


ON_CPU = [LAB.variant(name) for name in ("vectors", "cached-channels", "vnni", "vnni-lists", "amx")]


@pytest.mark.parametrize("name", ["9x40x28x28-k3", "8x17x27x27-k5", "3x5x66x66-k3", "17x9x16x16-k7", "2x3x47x47-k1"])
@pytest.mark.parametrize("variant", variants(ON_CPU))
def test_tiles_of_a_cpu_may_reach_over_the_edges(device: Device, variant: Variant, name: str) -> None:
    for zeros in ZEROS:
        is_exact(device, variant, name + zeros)


@pytest.mark.parametrize(
    ("channels", "together"),
    often(product([1, 2, 7, 40], [1, 2, 5, 8]), [(1, 8), (2, 5), (7, 2), (40, 1)].__contains__),
)
def test_any_block_of_filters_by_any_of_channels_is_exact(
    device: Device, monkeypatch: pytest.MonkeyPatch, channels: int, together: int
) -> None:
    """Tiles and groups that do not divide the layer, and ones that are larger."""
    layer = named("9x40x18x18-k3")[0]
    monkeypatch.setattr(vectors, "ITEMS", 1)
    monkeypatch.setattr(device, "compute_units", 1)
    monkeypatch.setattr(vectors, "NEAREST", channels * 2 * (layer.size + 2) * (8 + 2))
    step = LAB.variant("cached-channels")
    assert step.source
    variant = replace(step, source=step.source.with_knobs(TOGETHER=together))
    run = make(device, variant, layer.name)
    assert isinstance(run, vectors.Cached)
    assert (run.together, run.size) == (together, (-(-9 // together),))
    assert run.chunk <= channels and -(-40 // run.chunk) == -(-40 // channels)
    run.close()
    assert is_right(device, variant, layer.name)


@pytest.mark.parametrize(
    ("channels", "together", "vectors"),
    often(product([4, 8, 40], [1, 2, 5], [1, 2, 3]), [(4, 5, 3), (8, 2, 1), (40, 1, 2)].__contains__),
)
def test_any_part_of_a_map_by_any_of_channels_is_exact(
    device: Device, monkeypatch: pytest.MonkeyPatch, channels: int, together: int, vectors: int
) -> None:
    layer = named("9x41x18x18-k3")[0]
    monkeypatch.setattr(vnni, "ITEMS", 1)
    monkeypatch.setattr(device, "compute_units", 1)
    monkeypatch.setattr(vnni, "NEAREST", channels * (64 * vectors + 2 * (layer.size + 2 + 1)))
    step = LAB.variant("vnni-lists")
    variant = replace(step, source=step.text.with_knobs(TOGETHER=together, VECTORS=vectors))
    run = make(device, variant, layer.name)
    assert isinstance(run, vnni.VnniLists)
    assert (run.together, run.vectors, run.size) == (together, vectors, (-(-9 // together),))
    assert run.chunk % 4 == 0 and -(-41 // channels) * run.chunk >= 41
    run.close()
    for zeros in ZEROS:
        assert is_right(device, variant, layer.name + zeros)


@pytest.mark.parametrize("name", ["2x3x18x18-k3", "8x70x66x66-k3"])
def test_what_a_filter_has_no_weights_for_is_zero(device: Device, name: str) -> None:
    """Lists are empty for a whole filter or for some channels."""
    layer, (arrays, _) = named(name)[0], problem(name)
    weight = arrays["weight"].copy()
    weight[0], weight[1, : layer.depth // 2] = 0, 0
    inputs = {**arrays, "weight": weight}
    right = LAB.reference(LAB.case(name, "test"), inputs)["out"]
    for variant in ON_CPU:
        run = make(device, variant, name, inputs)
        run.reset()
        run.run()
        np.testing.assert_array_equal(run.outputs()["out"], right)
        run.close()


def test_explicit_vectors_are_for_a_cpu() -> None:
    for variant in ON_CPU:
        assert variant.is_for("opencl", "cpu") and not variant.is_for("opencl", "gpu")


def test_every_kernel_file_has_a_mistake() -> None:
    """Every file but bytes.inc, which belongs to two kernels."""
    tried = {mistake.file for mistake in MISTAKES if isinstance(mistake, mutants.Mutant)} | {"dense_own.inc"}
    assert {path.name for pattern in ("*.k", "*.cu", "*.inc") for path in HERE.glob(pattern)} - tried == {"bytes.inc"}


@pytest.mark.parametrize("variant", variants([LAB.ladder[0], LAB.variant("torch-bf16")]))
def test_the_check_refuses_what_is_wrong(variant: Variant) -> None:
    case, right = LAB.case(SMALL, "test"), problem(SMALL)[1]
    further_mistakes = [("as no kernel has left it", {"out": np.full_like(right["out"], plans.SENTINEL)})]
    off_by = 1 + round(0.05 * float(np.abs(right["out"]).max()))  # beyond what bf16 may be off by
    mutants.all_refused(lambda outputs: LAB.check(case, variant, outputs, right), right, off_by, further_mistakes)


def test_nan_and_other_garbage_count_as_wrong() -> None:
    case = LAB.case(SMALL, "test")
    right = problem(case.name)[1]
    for variant in (LAB.ladder[0], LAB.variant("torch-bf16")):
        for garbage in (np.full_like(right["out"], plans.SENTINEL), right["out"].astype(float) * np.nan):
            error, tolerance, _ = LAB.check(case, variant, {"out": garbage}, right)
            assert error == garbage.size and not error <= tolerance


@pytest.mark.parametrize("name", ["tensor-no-products", "tensor-launch"])
def test_a_probe_without_products_stores_zeros_and_nothing_else(name: str) -> None:
    case, right = LAB.case(SMALL, "test"), problem(SMALL)[1]
    zeros = np.zeros_like(right["out"])
    assert LAB.check(case, LAB.variant(name), {"out": zeros}, right)[:2] == (0.0, 0.0)
    for outputs in (right["out"], np.full_like(zeros, plans.SENTINEL)):
        assert LAB.check(case, LAB.variant(name), {"out": outputs}, right)[0] == np.count_nonzero(outputs) > 0


# -- what a run tells --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", variants([v for v in LAB.ladder if v.role != "probe"]))
def test_a_run_tells_its_parts_and_what_its_kernel_takes(device: Device, variant: Variant) -> None:
    run = make(device, variant, LAYERS[1])
    run.reset()
    seconds, parts, facts = run.run(), run.parts, run.facts()
    own_pool = variant.plan in (plans.Pooled, plans.Lists, plans.LineLists) and variant.name != "atomic-pool"
    assert set(parts) == {"kernels", "copies in", "copy out", "copies"} | ({"pooling"} if own_pool else set())
    assert set(parts) <= set(LAB.parts) and all(seconds_of_part > 0 for seconds_of_part in parts.values())
    assert seconds == parts["kernels"] > parts.get("pooling", 0)
    assert parts["copies"] == pytest.approx(parts["copies in"] + parts["copy out"])
    expected = {"threads", "flags"} if variant.role == "base" else {"group", "groups", "local_bytes"}
    assert expected <= set(facts) and json.dumps(facts)
    target = target_of(variant, device)
    assert ("occupancy" in facts) == (target is not None and target.device.multiprocessor is not None)
    run.close()


# -- refused inputs ----------------------------------------------------------------------------------------------------


def throughout(name: str, value: int) -> dict[str, np.ndarray]:
    """Return an input of this value alone, and weights of ones but for one, which is the negative value."""
    layer = named(name)[0]
    weight = np.ones(layer.weight_shape, np.int16)
    weight[0, 0, 0, 0] = -value
    return {"x": np.full(layer.x_shape, value, np.int16), "weight": weight}


@pytest.mark.parametrize("name", ["tensor-window", "tensor-split-k", "tensor-tall", "tensor-parts", "tensor-multicast"])
def test_filters_whose_channels_exceed_declared_shared_memory_are_refused(name: str) -> None:
    """A launch asks for more than 48 KB by an attribute, but an array that a kernel declares cannot be larger."""
    variant = LAB.variant(name)
    for taps in (3, 13, 15):
        channels = constants(variant.text)["SLICE"]
        case = LAB.case(f"64x64x32x32-k{taps}")
        fits = np.dtype(np.short).itemsize * channels * taps**2 <= 48 << 10
        assert LAB.skip_reason(variant, case) == (None if fits else "not on this case: filters larger than 13x13")


@pytest.mark.parametrize("name", ["tensor-parts", "tensor-multicast"])
def test_a_part_has_two_places_for_weights_or_more_and_each_is_filled_by_one_block(name: str) -> None:
    """A place is free once the next product has begun. With one place that product's weights would wait for it forever."""
    for height, taps in product((*parts.TALL, parts.LOW), (3, 5, 13)):
        layer = {"DEPTH": 1024, "FILTERS": 64, "SIZE": 32, "TAPS": taps}
        tile = constants(LAB.variant(name).text.with_knobs(**layer, TILE_H=height))
        if height == parts.LOW or tile["STAGES_THAT_FIT"] >= parts.LEAST_STEPS:  # the plan takes no other height
            assert 2 <= tile["STAGES"] < tile["MOST_STEPS"], "places are used again"
            assert tile["STAGES"] % tile["SHARING"] == 0, "the blocks that share weights fetch in turns"


@pytest.mark.parametrize(
    "name",
    [
        "strips",
        "tensor-int8",
        "tensor-window",
        "tensor-split-k",
        "tensor-tall",
        "tensor-parts",
        "vnni",
        "vnni-lists",
        "amx",
    ],
)
def test_values_that_fit_no_byte_are_refused(device: Device, name: str) -> None:
    variant = LAB.variant(name)
    with pytest.raises(Unsupported, match=r"^values of up to 128: a byte holds 127$"):
        make(device, variant, SMALL, throughout(SMALL, 128))
    largest = throughout(SMALL, 127)
    run = make(device, variant, SMALL, largest)
    run.reset()
    run.run()
    right = LAB.reference(LAB.case(SMALL), largest)["out"]
    np.testing.assert_array_equal(run.outputs()["out"], right)
    run.close()


def test_sums_that_fp32_does_not_hold_are_refused(device: Device) -> None:
    layer = Layer.named("1x64x4x4-k1")
    arrays = {"x": np.full(layer.x_shape, 512, np.int16), "weight": np.full(layer.weight_shape, 512, np.int16)}
    with pytest.raises(Unsupported, match=r"^sums of up to 16777216: fp32 holds integers below 16777216 exactly$"):
        make(device, LAB.variant("tiles"), layer.name, arrays)
    arrays["weight"][0, 0] = 511
    run = make(device, LAB.variant("tiles"), layer.name, arrays)
    run.run()
    assert (run.outputs()["out"] == 2**24 - 512).all()
    run.close()


# -- initialisation ----------------------------------------------------------------------------------------------------


def test_a_new_process_opens_the_device_and_leaves_nothing_unset(device: Device) -> None:
    variant = LAB.variant("initialisation")
    run = make(device, variant, LAYERS[0])
    run.reset()
    case = LAB.case(LAYERS[0])
    assert LAB.check(case, variant, run.outputs(), {})[0] == initialise.VALUES, "nothing has run yet"
    seconds = run.run()
    assert seconds == sum(run.parts.values()) and set(run.parts) == {"context", "first kernel"} <= set(LAB.parts)
    assert all(0 < seconds_of_part < 60 for seconds_of_part in run.parts.values())
    error, tolerance, _ = LAB.check(case, variant, run.outputs(), {})
    assert error == tolerance == 0
    run.close()


def test_a_whole_program_computes_the_layer_and_tells_the_share_of_its_kernels(device: Device) -> None:
    variant, case = LAB.variant("whole-program"), LAB.case(LAYERS[0])
    run = make(device, variant, LAYERS[0])
    right = LAB.reference(case, problem(LAYERS[0])[0])
    run.reset()
    assert LAB.check(case, variant, run.outputs(), right)[0] > 0, "nothing has run yet"
    seconds = run.run()
    assert LAB.check(case, variant, run.outputs(), right)[0] == 0
    assert set(run.parts) == {"whole program", "kernels"} <= set(LAB.parts) and seconds == run.parts["whole program"]
    assert 0 < run.facts()["kernel share"] == run.parts["kernels"] / seconds < 1
    run.close()


def test_what_the_new_process_says_is_json(device: Device) -> None:
    program = (
        f"import json; from roofbook.labs.convpool import initialise as i; print(json.dumps(i.main({device.spec!r})))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    answer = json.loads(done.stdout)
    assert set(answer) == {"context", "first kernel", "left"} and answer["left"] == 0


def test_a_device_that_does_not_open_is_one_line() -> None:
    nowhere = cast(Device, SimpleNamespace(spec="opencl:77"))
    run = initialise.Initialisation(nowhere, LAB.variant("initialisation"), LAB.case(LAYERS[0]), {})
    with pytest.raises(DriverFailed, match=r"unknown device 'opencl:77' .*; valid: auto, [^\n]*$") as refused:
        run.run()
    assert "\n" not in str(refused.value)
    assert run.outputs()["left"] == initialise.VALUES


# -- PyTorch -----------------------------------------------------------------------------------------------------------

needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))


def out_of_pytorch(precision: str, name: str, plan: Any = peers.TorchConvolution, **options: Any) -> np.ndarray:
    """Return `out` of PyTorch on the host's CPU."""
    variant = replace(LAB.variant("torch-cpu"), plan=plan, options={"precision": precision, **options})
    run = variant.plan(host_cpu(), variant, LAB.case(name), problem(name)[0])
    run.reset()
    assert np.isnan(run.outputs()["out"]).all()
    run.run()
    return run.outputs()["out"]


@needs_torch
@pytest.mark.parametrize("last", [True, False])
def test_pytorch_is_exact_in_fp32(last: bool) -> None:
    for name in (f"{SMALL}-w0-x0", *LAYERS):
        assert (out_of_pytorch("fp32", name, channels_last=last) == problem(name)[1]["out"]).all()


@needs_torch
def test_a_library_s_product_is_exact_in_fp32() -> None:
    for name in (f"{SMALL}-w0-x0", *LAYERS):
        assert (out_of_pytorch("fp32", name, peers.Product) == problem(name)[1]["out"]).all()


@needs_torch
@pytest.mark.parametrize("name", ["torch-fp16", "torch-bf16"])
def test_short_results_pass_with_their_allowance_and_not_without(name: str) -> None:
    peer, case = LAB.variant(name), LAB.case(f"{SMALL}-w0-x0")
    out, right = out_of_pytorch(str(peer.options["precision"]), case.name), problem(case.name)[1]
    assert LAB.check(case, peer, {"out": out}, right)[0] == 0
    assert LAB.check(case, LAB.variant("torch-fp32"), {"out": out}, right)[0] > 0
    forgotten = {"out": out * (1 + 4 * peer.options["result_roundoff"])}
    assert LAB.check(case, peer, forgotten, right)[0] > right["out"].size / 2


@needs_torch
def test_pytorch_has_no_tf32_on_a_cpu() -> None:
    with pytest.raises(Unsupported, match=r"^TF32 is an NVIDIA GPU's$"):
        out_of_pytorch("tf32", SMALL)


def test_what_is_missing_excuses_its_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "missing", lambda: "PyTorch is not installed")
    monkeypatch.setattr(cc, "missing", lambda: "no C compiler")
    monkeypatch.setattr(python_kernel, "_missing", lambda *_: "no Triton")
    monkeypatch.setattr(openvino, "missing", lambda: "no OpenVINO")
    reasons = {v.name: LAB.skip_reason(v, LAB.case(LAYERS[0])) for v in LAB.all_variants()}
    assert {name for name, reason in reasons.items() if reason == "no C compiler"} == {"openmp"}
    assert {name for name, reason in reasons.items() if reason} == {peer.name for peer in LAB.peers}
    assert set(reasons.values()) == {None, "PyTorch is not installed", "no C compiler", "no Triton", "no OpenVINO"}


# -- names -------------------------------------------------------------------------------------------------------------

SHARES = (
    st.none() | st.integers(0, 99).map(str) | st.integers(1, 99_999).map(lambda thousandths: f"{thousandths / 1000:g}")
)
SIZES = st.builds(Layer, st.integers(1, 999), st.integers(1, 999), st.integers(2, 99), st.sampled_from([1, 3, 5, 7]))


@given(SIZES, SHARES, SHARES)
def test_a_name_says_its_layer_and_its_zeros(layer: Layer, weights: str | None, values: str | None) -> None:
    name = layer.name + (f"-w{weights}" if weights else "") + (f"-x{values}" if values else "")
    expected = layer, *(float(zeros) if zeros else None for zeros in (weights, values))
    assert named(name) == expected
    case = LAB.case(name, "published")
    assert (case.name, case.scale, plans.layer(case)) == (name, "published", layer)
    assert (case.params["weight_zeros"], case.params["input_zeros"]) == expected[1:]


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(0, 99))
def test_zeros_of_a_name_are_those_of_the_inputs(weights: int, values: int) -> None:
    arrays = LAB.inputs(LAB.case(f"2x3x10x10-k5-w{weights}-x{values}"), seed=1)
    assert (np.count_nonzero(arrays["weight"], axis=(1, 2, 3)) == max(1, round(75 * (1 - weights / 100)))).all()
    assert (np.count_nonzero(arrays["x"], axis=(1, 2)) == 100 - values).all()


@pytest.mark.parametrize(
    "zeros", ["-w100", "-w05", "-w5.0", "-x100", "-w-5", "-x50-w50", "-w5-w5", "-w", "-x1.2345", "-w5%", "-y5", "-w5 "]
)
def test_zeros_that_are_none_are_refused_in_one_line(zeros: str) -> None:
    with pytest.raises(UsageError, match=r"^unknown layer '5x7x9x9-k3.*'; valid: filters x depth x square map[^\n]*$"):
        LAB.case(f"{SMALL}{zeros}")
