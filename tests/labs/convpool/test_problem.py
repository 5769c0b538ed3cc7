"""The exact reference against a plain loop, the counts of non-zeros, the guard's two sides, the lists and the checker."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofbook.errors import UsageError
from roofbook.labs.convpool import LAB, problem
from roofbook.labs.convpool.problem import (
    LARGEST,
    PUBLISHED,
    WIDEST,
    Int16,
    Layer,
    check,
    dense,
    guard,
    inputs,
    lists,
    reference,
    widened,
)

ROOT = Path(__file__).parents[3]
LAYERS = st.builds(Layer, st.integers(1, 3), st.integers(1, 3), st.integers(2, 7), st.sampled_from([1, 3, 5]))
DENSITIES = st.none() | st.floats(0.02, 1)


def conv_plain(layer: Layer, x: Int16, weight: Int16, absolute: bool = False) -> list[list[list[int]]]:
    """Compute the sums of the convolution in Python's integers, one product after another."""
    half = layer.kernel // 2
    size, taps = range(layer.size), range(layer.kernel)

    def total(o: int, y: int, x0: int) -> int:
        products = [
            int(weight[o, c, i, j]) * int(x[c, y + i - half, x0 + j - half])
            for c in range(layer.depth)
            for i in taps
            for j in taps
            if y + i - half in size and x0 + j - half in size
        ]
        return sum(map(abs, products)) if absolute else sum(products)

    return [[[total(o, y, x0) for x0 in size] for y in size] for o in range(layer.filters)]


def out_plain(layer: Layer, x: Int16, weight: Int16) -> list[list[list[int]]]:
    sums, half = conv_plain(layer, x, weight), range(layer.size // 2)
    return [
        [[max(0, *(plane[2 * r + i][2 * c + j] for i in (0, 1) for j in (0, 1))) for c in half] for r in half]
        for plane in sums
    ]


@settings(max_examples=60)
@given(layer=LAYERS, seed=st.integers(0, 2**32 - 1), filters=DENSITIES, neurons=DENSITIES)
def test_reference_is_the_plain_loop(layer: Layer, seed: int, filters: float | None, neurons: float | None) -> None:
    arrays = inputs(layer, seed, filters, neurons)
    got = reference(layer, **arrays)["out"]
    assert got.dtype == np.int32 and got.shape == layer.out_shape
    assert got.tolist() == out_plain(layer, **arrays)


@settings(max_examples=60)
@given(layer=LAYERS, seed=st.integers(0, 2**32 - 1), largest=st.integers(8000, 2**15))
def test_guard_refuses_just_where_the_plain_loop_exceeds_int32(layer: Layer, seed: int, largest: int) -> None:
    draw = np.random.default_rng(seed)
    x = draw.integers(-largest, largest, layer.x_shape, dtype=np.int16)
    weight = draw.integers(-largest, largest, layer.weight_shape, dtype=np.int16)
    if np.max(conv_plain(layer, x, weight, absolute=True)) > 2**31 - 1:
        with pytest.raises(UsageError, match=r"^sums of \|w\|\|x\| .* at most 2147483647 \(int32\), not [0-9]+$"):
            reference(layer, x, weight)
    else:
        assert reference(layer, x, weight)["out"].tolist() == out_plain(layer, x, weight)


def test_guard_at_the_largest_int32() -> None:
    layer = Layer(4, 1, 2, 1)
    weight = np.array([-32768, -32768, 32767, 1], np.int16).reshape(layer.weight_shape)
    x = np.zeros(layer.x_shape, np.int16)
    x[:, 1, 0] = -32768, 32767, 1, 0  # 2**30 + (2**30 - 2**15) + (2**15 - 1), signs aside
    guard(layer, x, weight)
    x[:, 1, 0] = -32768, -32767, 1, 0  # the same parts, all of one sign
    assert reference(layer, x, weight)["out"].item() == 2**31 - 1
    x[3, 1, 0] = 1
    with pytest.raises(UsageError, match=r"not 2147483648$"):
        guard(layer, x, weight)
    x[:, 1, 0] = 32767, -32768, 1, 1
    with pytest.raises(UsageError, match=r"not 2147483648$"):
        reference(layer, x, weight)


def test_guard_refuses_other_arrays() -> None:
    layer = Layer(2, 3, 4, 3)
    arrays = inputs(layer, 0)
    with pytest.raises(UsageError, match=r"^x of 3x2x4x4-k3 must be int16 \(2, 4, 4\), not int16 \(4, 4, 2\)$"):
        guard(layer, arrays["x"].T, arrays["weight"])
    with pytest.raises(UsageError, match=r"^weight of .* must be int16 \(3, 2, 3, 3\), not float32 \(3, 2, 3, 3\)$"):
        guard(layer, arrays["x"], arrays["weight"].astype(np.float32))


@pytest.mark.parametrize("layer", [*PUBLISHED, Layer(5, 4, 3, 3), Layer(3, 2, 2, 1)], ids=lambda layer: layer.name)
def test_published_sparsity(layer: Layer) -> None:
    arrays = inputs(layer, 3)
    assert (np.count_nonzero(arrays["weight"], axis=(2, 3)) == 1).all()
    neurons = max(1, round(layer.size**2 * 204 / 1024))
    assert (np.count_nonzero(arrays["x"], axis=(1, 2)) == neurons).all()
    if layer is PUBLISHED[0]:
        assert neurons == 204
        places = np.count_nonzero(arrays["weight"], axis=(0, 1))
        assert (abs(places - 512 * 512 / 9) < 5 * math.sqrt(512 * 512 * 8 / 81)).all()


@pytest.mark.parametrize("density", [0.02, 0.1, 0.5, 1.0])
def test_densities_are_exact(density: float) -> None:
    layer = Layer(20, 6, 13, 3)
    arrays = inputs(layer, 3, density, density)
    assert (np.count_nonzero(arrays["weight"], axis=(1, 2, 3)) == round(180 * density)).all()
    assert (np.count_nonzero(arrays["x"], axis=(1, 2)) == round(169 * density)).all()


def test_no_channel_and_no_filter_is_empty() -> None:
    arrays = inputs(Layer(3, 2, 4, 1), 3, 0.02, 0.02)
    assert (np.count_nonzero(arrays["weight"], axis=(1, 2, 3)) == 1).all()
    assert (np.count_nonzero(arrays["x"], axis=(1, 2)) == 1).all()


def test_values_are_small_and_cover_their_range() -> None:
    layer = Layer(64, 32, 16, 3)
    for array in inputs(layer, 0, 1.0, 1.0).values():
        assert array.dtype == np.int16
        assert set(np.unique(array).tolist()) == set(range(-LARGEST, LARGEST + 1)) - {0}


def test_published_layers_are_exact_in_fp32_at_any_density() -> None:
    assert max(layer.depth * layer.kernel**2 for layer in PUBLISHED) * LARGEST**2 < 2**24
    assert np.iinfo(np.int8).max >= LARGEST


def test_seeds_reproduce_and_differ() -> None:
    layer = Layer(6, 5, 8, 3)
    for density in (None, 0.3):
        first, again, other_seed = (inputs(layer, seed, density) for seed in (1, 1, 2))
        for name in ("x", "weight"):
            np.testing.assert_array_equal(first[name], again[name])
            assert (first[name] != other_seed[name]).any()
    np.testing.assert_array_equal(inputs(layer, 1)["x"], inputs(layer, 1, 0.3)["x"])


@pytest.mark.parametrize("density", [0, -0.1, 1.01, math.nan, math.inf])
@pytest.mark.parametrize("name", ["filter_density", "neuron_density"])
def test_impossible_densities_are_refused(name: str, density: float) -> None:
    with pytest.raises(
        UsageError, match=rf"^{name} \(share of non-zeros\) must be above 0 and at most 1, not {density}$"
    ):
        inputs(Layer(2, 2, 4, 3), 0, **{name: density})


@settings(max_examples=60)
@given(layer=LAYERS, seed=st.integers(0, 2**32 - 1), density=DENSITIES, empty=st.booleans())
def test_lists_hold_the_array(layer: Layer, seed: int, density: float | None, empty: bool) -> None:
    for array in inputs(layer, seed, density, density).values():
        array[..., 0, :, :] *= not empty
        offsets, entries = lists(array)
        slices = math.prod(array.shape[:-2])
        assert offsets.dtype == np.int32 and offsets.shape == (slices + 1,) and offsets[0] == 0
        assert (
            entries.dtype == np.int16 and entries.shape == (np.count_nonzero(array), 4) and offsets[-1] == len(entries)
        )
        assert entries.flags.c_contiguous
        np.testing.assert_array_equal(dense(offsets, entries, array.shape), array)


def test_lists_by_hand() -> None:
    weight = np.zeros((2, 3, 3, 3), np.int16)
    weight[0, 1, 0, 2] = 7
    weight[1, 0, 2, 1] = -5
    weight[1, 0, 0, 2] = 4
    weight[1, 2, 1, 0] = 9
    offsets, entries = lists(weight)
    assert offsets.tolist() == [0, 0, 1, 1, 3, 3, 4]
    assert entries.tolist() == [[2, 0, 7, 1], [2, 0, 4, 0], [1, 2, -5, 0], [0, 1, 9, 2]]


def test_sizes_flops_and_bytes_of_the_published_layer() -> None:
    layer = PUBLISHED[0]
    assert layer.x_shape == (512, 32, 32) and layer.weight_shape == (512, 512, 3, 3)
    assert layer.out_shape == (512, 16, 16)
    assert layer.flops == 2 * 512 * 512 * 32 * 32 * 9
    assert layer.bytes == 2 * 512 * 1024 + 2 * 512 * 512 * 9 + 4 * 512 * 256
    assert Layer(3, 8, 7, 5).out_shape == (8, 3, 3)


def test_names_lead_back() -> None:
    for layer in (*PUBLISHED, Layer(3, 8, 7, 5)):
        assert Layer.named(layer.name) == layer
    assert [layer.name for layer in PUBLISHED] == ["512x512x32x32-k3", "256x192x28x28-k3", "128x96x27x27-k5"]
    with (ROOT / "results" / "published" / "convpool.csv").open(encoding="utf-8") as file:
        published = {row["case"] for row in csv.DictReader(file)}
    assert published == set(problem.PUBLISHED_CASES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unknown layer ''; valid: .*256x192x28x28-k3"),
        ("512x512x32x31-k3", "square"),
        ("512x512x32x32-k3 ", "unknown layer"),
        ("1x1x" + "9" * 60, r"unknown layer '1x1x9{33}\.\.\.'; valid"),
        ("0x4x8x8-k3", "filters of a layer must be 1 or more, not 0"),
        ("4x0x8x8-k3", "depth of a layer must be 1 or more, not 0"),
        ("4x4x1x1-k3", "size of a layer must be 2 or more, not 1"),
        ("4x4x8x8-k0", "kernel of a layer must be 1 or more, not 0"),
        ("4x4x8x8-k2", "kernel of a layer must be odd .*, not 2"),
        ("1x40000x2x2-k1", "depth of a layer must be at most 32768 .*, not 40000"),
        ("1x1x40000x40000-k1", "size of a layer must be at most 32768 .*, not 40000"),
        ("1x32768x256x256-k1", "x of a layer must have below .*, not 32768x256x256"),
        ("32768x32768x2x2-k3", "weight of a layer must have below .*, not 32768x32768x3x3"),
        ("32768x1x256x256-k3", "conv of a layer must have below .*, not 32768x256x256"),
    ],
)
def test_impossible_layers_are_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as refused:
        Layer.named(text)
    assert "\n" not in str(refused.value)


def test_check_counts_every_difference() -> None:
    layer = Layer(3, 2, 6, 3)
    right = reference(layer, **inputs(layer, 0))["out"]
    assert check(right.copy(), right) == (0, 18)
    wrong = right.copy()
    wrong[1, 2, 0] += 1
    wrong[0, 0, 0] -= 1
    assert check(wrong, right) == (2, 18)
    with_nan = right.astype(np.float64)
    with_nan[0, 1, 1] = np.nan
    assert check(with_nan, right) == (1, 18)
    for shape in ((2, 9), (18,), (1, 2, 3, 3)):
        with pytest.raises(ValueError, match="shapes differ"):
            check(right.reshape(shape), right)


def test_wide_weights_are_one_of_each_filter_that_no_byte_holds() -> None:
    arrays = inputs(Layer(70, 9, 34, 3), 5)
    wide = widened(arrays)
    changed = wide["weight"] != arrays["weight"]
    assert (changed.reshape(9, -1).sum(axis=1) == 1).all() and (np.abs(wide["weight"][changed]) == WIDEST).all()
    assert (np.sign(wide["weight"]) == np.sign(arrays["weight"])).all() and wide["x"] is arrays["x"]
    assert (wide["weight"].astype(np.int8) != wide["weight"]).any(axis=(1, 2, 3)).all()
    assert np.abs(arrays["weight"]).max() <= 60, "what is timed stays as it is"
    names = {v.name: LAB.verified_on(v) for v in LAB.all_variants()}
    assert {names[name] for name in ("sequential", "lists", "tiles", "both-sparse")} == {"wide"}
    assert {names[name] for name in ("strips", "tensor-int8", "torch-bf16", "torch-fp32", "initialisation")} == {""}
    assert {name for name, inputs_name in names.items() if inputs_name == "narrow"} == {"torch-fp16", "torch-compiled"}


FP16_PEER = LAB.variant("torch-fp16")


def in_fp16(layer: Layer, x: Int16, weight: Int16) -> np.ndarray:
    """Return exact results of a layer, rounded to fp16 as a library with sums in fp32 does, as integers."""
    with np.errstate(over="ignore"):
        return np.rint(reference(layer, x, weight)["out"].astype(np.float16).astype(np.float64))


@pytest.mark.parametrize("seed", [11, 12])
@pytest.mark.parametrize("layer", PUBLISHED, ids=lambda layer: layer.name)
def test_results_rounded_to_fp16_are_right_on_the_inputs_on_which_they_are_verified(layer: Layer, seed: int) -> None:
    case, drawn = LAB.case(layer.name, "published"), inputs(layer, seed)
    narrow = LAB.verification_inputs(case, LAB.verified_on(FP16_PEER), drawn)
    right = LAB.reference(case, narrow)
    assert right["out"].max() < 65504 and LAB.check(case, FP16_PEER, {"out": in_fp16(layer, **narrow)}, right)[0] == 0
    assert (right["out"] > 2048).mean() > 0.05, "fp16 rounds results above 2048"
    assert (narrow["weight"] != 0).tolist() == (problem.irregular(drawn)["weight"] != 0).tolist()


def test_narrow_inputs_show_mistakes_in_fp16() -> None:
    layer = PUBLISHED[2]
    case, drawn = LAB.case(layer.name, "published"), inputs(layer, 11)
    narrow = LAB.verification_inputs(case, LAB.verified_on(FP16_PEER), drawn)
    right, x, weight = LAB.reference(case, narrow), narrow["x"], narrow["weight"]
    halves = [
        in_fp16(layer, x, part) for part in (weight * (np.arange(layer.depth) % 2 == i)[:, None, None] for i in (0, 1))
    ]
    products = np.einsum("ocij,cyx->oyx", weight.astype(np.int64), x.astype(np.int64))
    mutants = {
        "a channel forgotten": in_fp16(
            layer, np.where(np.arange(layer.depth)[:, None, None] == 40, np.int16(0), x), weight
        ),
        "a tap forgotten": in_fp16(layer, x, np.where(np.arange(25).reshape(5, 5) == 24, np.int16(0), weight)),
        "an entry a list": in_fp16(layer, x, np.where(np.cumsum(weight != 0, axis=3) <= 1, weight, np.int16(0))),
        "two parts, each pooled": np.add(*halves),
        "kernels not moved": np.maximum(products[:, :26, :26].reshape(128, 13, 2, 13, 2).max(axis=(2, 4)), 0),
        "rounded to bf16": (np.frexp(right["out"])[0] * 256).round() / 256 * 2.0 ** np.frexp(right["out"])[1],
    }
    for name, out in mutants.items():
        assert LAB.check(case, FP16_PEER, {"out": out}, right)[0] > right["out"].size / 50, name


def test_results_that_exceed_fp16_are_wrong_and_said_to_be_infinite() -> None:
    """As with the inputs of a layer with 1024 channels, or with a filter without zeros that is not narrowed."""
    layer = PUBLISHED[2]
    case, drawn = LAB.case(layer.name, "published"), problem.irregular(inputs(layer, 11))
    right = LAB.reference(case, drawn)
    assert right["out"].max() > 65520
    error, allowed, compared = LAB.check(case, FP16_PEER, {"out": in_fp16(layer, **drawn)}, right)
    assert (error, allowed) == (3, 0)
    assert compared == "outputs of 21632 that are not right to 4.9e-04 of their size, 3 of them infinite"
    large = Layer(1024, 1024, 32, 3)
    assert reference(large, **inputs(large, 0))["out"].max() > 65520, "the timed inputs exceed fp16 there"


def test_irregular_inputs_have_lists_of_all_lengths_and_the_same_share_of_zeros() -> None:
    layer = Layer.named("64x48x16x16-k3")
    arrays = problem.inputs(layer, 1)
    changed = problem.irregular(arrays)
    counts = np.count_nonzero(changed["weight"].reshape(64 * 48, 9), axis=1)
    assert {0, 1, 2, 3, 9} <= set(counts), "an empty slice, longer ones and a full one"
    by_filter = counts.reshape(64, 48).sum(axis=1)
    assert by_filter.min() == 0 and by_filter.max() == 48 * 9 and len(set(by_filter)) > 16
    assert len(set(np.count_nonzero(changed["x"], axis=(1, 2)))) > 8, "channels differ in length"
    for name in ("x", "weight"):
        assert changed[name].dtype == np.int16 and changed[name].shape == arrays[name].shape
        assert np.count_nonzero(changed[name]) == pytest.approx(np.count_nonzero(arrays[name]), rel=0.2)
    problem.guard(layer, **problem.widened(changed))


@pytest.mark.parametrize("name", ["1x1x2x2-k1", "1x2x4x4-k1", "3x1x4x4-k3", "5x7x9x9-k3", "2x3x10x10-k5-w0-x0"])
def test_irregular_inputs_of_any_layer_leave_some_filter_to_compute(name: str) -> None:
    case = LAB.case(name)
    changed = LAB.verification_inputs(case, "wide", LAB.inputs(case, 3))
    assert LAB.reference(case, changed)["out"].any() or np.count_nonzero(changed["weight"]) == 0 or name == "1x1x2x2-k1"
    assert changed["weight"].any()
