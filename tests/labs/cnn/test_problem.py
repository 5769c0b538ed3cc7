"""The layer's names, the reference against a plain loop, and both sides of the bound and of the course's check."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from roofbook.errors import UsageError
from roofbook.labs.cnn import problem
from roofbook.labs.cnn.problem import (
    Arithmetic,
    Array,
    Layer,
    blocked,
    bound,
    check_outcomes,
    course_wrong,
    error_over_bound,
    inputs,
    mean_of_filters,
    mean_square,
    reference,
    rounded,
    sequential,
)

PUBLISHED = Layer(channels=256, filters=256, height=224, width=224, kernel=5)
TF32, BF16 = 2.0**-11, 2.0**-8
ODD = [Layer(3, 2, 7, 9, 3), Layer(1, 1, 2, 2, 1), Layer(2, 3, 5, 4, 5), Layer(1, 2, 3, 2, 2), Layer(4, 1, 2, 5, 4)]


def named(layers: list[Layer]) -> list[Any]:
    return [pytest.param(layer, id=layer.name) for layer in layers]


# -- sizes and names ---------------------------------------------------------------------------------------------------


def test_the_published_layer_has_the_published_sizes() -> None:
    assert PUBLISHED.x_shape == (256, 228, 228) and PUBLISHED.weight_shape == (256, 256, 5, 5)
    assert PUBLISHED.conv_shape == (256, 224, 224) and PUBLISHED.out_shape == (256, 112, 112)
    assert PUBLISHED.flops / 1e9 == pytest.approx(164.4, abs=0.05) and PUBLISHED.terms == 6400
    assert PUBLISHED.bytes == 4 * (256 * 228**2 + 256 * 256 * 25 + 256 + 256 * 112**2)
    assert PUBLISHED.name == "256ch-224x224-k5"
    assert Layer(3, 8, 7, 9, 3).name == "3to8ch-7x9-k3" and Layer(3, 8, 7, 9, 3).out_shape == (8, 3, 4)


sizes = st.integers(1, 60)
layers = st.builds(Layer, sizes, sizes, st.integers(2, 60), st.integers(2, 60), sizes)


@given(layers)
def test_a_name_gives_its_layer_back(layer: Layer) -> None:
    assert Layer.named(layer.name) == layer


pieces = st.lists(st.sampled_from(["3", "0", "1", "ch", "to", "-", "x", "k", "7", " ", "９", "99999999999"])).map(
    "".join
)


@given(st.text() | pieces)
@example("9" * 5000)
@example("3ch-7x9-k3\n")
@example("3ch-9x9-k3")
def test_any_text_is_a_layer_or_refused_in_one_line(text: str) -> None:
    try:
        layer = Layer.named(text)
    except UsageError as wrong:
        assert "\n" not in str(wrong) and len(str(wrong)) < 600
    else:
        assert Layer.named(layer.name) == layer


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("256ch-224x224", "unknown layer '256ch-224x224'; valid: names such as 256ch-224x224-k5"),
        ("3ch-7x9-k3 ", "unknown layer"),
        ("-3ch-7x9-k3", "unknown layer"),
        ("0ch-7x9-k3", "channels of a layer must be 1 or more, not 0"),
        ("3to0ch-7x9-k3", "filters of a layer must be 1 or more, not 0"),
        ("3ch-1x9-k3", "height of a layer must be 2 or more, not 1"),
        ("3ch-7x1-k3", "width of a layer must be 2 or more, not 1"),
        ("3ch-7x9-k0", "kernel of a layer must be 1 or more, not 0"),
        ("256ch-4000x4000-k5", r"x of a layer must have below 2\*\*31 values .*, not 256x4004x4004"),
        ("1to256ch-4000x4000-k5", "conv of a layer must have below"),
        ("50000ch-2x2-k1", "weight of a layer must have below"),
    ],
)
def test_impossible_layers_say_what_would_be_right(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Layer.named(text)


# -- inputs and reference ----------------------------------------------------------------------------------------------


def test_inputs_are_seeded_and_drawn_as_named() -> None:
    layer = Layer(8, 4, 30, 20, 3)
    normal, uniform = inputs(layer, 7), inputs(layer, 7, "uniform")
    for drawn in (normal, uniform):
        assert [array.shape for array in drawn.values()] == [layer.x_shape, layer.weight_shape, layer.bias_shape]
        assert list(drawn) == ["x", "weight", "bias"] and {array.dtype.name for array in drawn.values()} == {"float32"}
    assert abs(normal["x"].mean()) < 0.05 and normal["x"].std() == pytest.approx(1, abs=0.05)
    assert uniform["x"].min() >= 0 and uniform["x"].max() < 1
    assert uniform["x"].mean() == pytest.approx(0.5, abs=0.02)
    np.testing.assert_array_equal(inputs(layer, 7)["weight"], normal["weight"])
    assert (inputs(layer, 8)["weight"] != normal["weight"]).any()
    with pytest.raises(UsageError, match="unknown distribution 'gauss'; valid: normal, uniform"):
        inputs(layer, 7, "gauss")


def reference_plain(layer: Layer, x: Array, weight: Array, bias: Array) -> dict[str, Array]:
    """Compute the layer by its definition, one output after another."""
    sums: dict[str, Array] = {name: np.empty(layer.out_shape) for name in ("out", "norm", "total")}
    for o, i, j in np.ndindex(layer.out_shape):
        out, norm, total = 0.0, 0.0, 0.0
        for h, w in ((2 * i, 2 * j), (2 * i, 2 * j + 1), (2 * i + 1, 2 * j), (2 * i + 1, 2 * j + 1)):
            terms = [float(bias[o])]
            for c, p, q in np.ndindex(layer.channels, layer.kernel, layer.kernel):
                terms.append(float(weight[o, c, p, q]) * float(x[c, h + p, w + q]))
            out = max(out, math.fsum(terms))
            norm = max(norm, math.hypot(*terms))
            total = max(total, abs(math.fsum(terms)))
        sums["out"][o, i, j], sums["norm"][o, i, j], sums["total"][o, i, j] = out, norm, total
    return sums


@pytest.mark.parametrize("layer", named(ODD))
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_the_reference_is_the_definition(layer: Layer, distribution: str) -> None:
    drawn = inputs(layer, 1, distribution)
    right, plain = reference(layer, **drawn), reference_plain(layer, **drawn)
    assert set(right) == set(plain)
    for name, values in plain.items():
        np.testing.assert_allclose(right[name], values, rtol=1e-13, atol=1e-13, err_msg=name)
    for compute in (sequential, blocked):
        double = compute(layer, *(array.astype(np.float64) for array in drawn.values()))
        np.testing.assert_allclose(double, plain["out"], rtol=1e-13, atol=1e-13)


def test_inputs_far_from_one_have_a_finite_bound() -> None:
    layer = Layer(3, 2, 4, 4, 3)
    for scale in (np.float32(1e-25), np.float32(1e25)):
        drawn = {name: array * scale for name, array in inputs(layer, 0).items()}
        bounds = bound(layer, reference(layer, **drawn))
        assert np.isfinite(bounds).all() and (bounds > 0).all()


# -- the bound ---------------------------------------------------------------------------------------------------------

SUMS = [Layer(channels, 32, 16, 16, 5) for channels in (1, 32, 256)]


def pairwise(layer: Layer, x: Array, weight: Array, bias: Array) -> Array:
    """Compute the layer with products added as a binary tree, in the precision of its inputs."""
    columns, matrix = problem._columns(x, layer.kernel), weight.reshape(layer.filters, -1)
    columns = columns[:, : layer.width * 4]
    terms = np.concatenate([(matrix[:, :, None] * columns), np.repeat(bias[:, None, None], columns.shape[1], 2)], 1)
    while terms.shape[1] > 1:
        half = terms.shape[1] // 2
        terms = np.concatenate([terms[:, :half] + terms[:, half : 2 * half], terms[:, 2 * half :]], 1)
    return problem._pooled(np.maximum(terms[:, 0], 0).reshape(layer.filters, 4, layer.width))


def backwards(layer: Layer, x: Array, weight: Array, bias: Array) -> Array:
    """Compute the layer with channels and taps in reverse: another order of the same sums."""
    out = sequential(layer, x[::-1, ::-1, ::-1].copy(), weight[:, ::-1, ::-1, ::-1].copy(), bias)
    return out[:, ::-1, ::-1]


def lowered(drawn: dict[str, Any], bits: int) -> dict[str, Any]:
    return {**drawn, "x": rounded(drawn["x"], bits), "weight": rounded(drawn["weight"], bits)}


@pytest.mark.parametrize("layer", named(SUMS))
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_float32_in_any_order_is_well_within_the_bound(layer: Layer, distribution: str) -> None:
    drawn = inputs(layer, 2, distribution)
    right = reference(layer, **drawn)
    for compute in (sequential, backwards, blocked):
        assert 0 < error_over_bound(compute(layer, **drawn), right, layer) < 0.6
    top = {name: values[:, :2] for name, values in right.items()}
    assert 0 < error_over_bound(pairwise(layer, **drawn), top, layer) < 0.6


@pytest.mark.parametrize("layer", named(SUMS))
def test_rounded_operands_are_within_their_own_bound_only(layer: Layer) -> None:
    drawn = inputs(layer, 3)
    right = reference(layer, **drawn)

    def ratio(bits: int, roundoff: float) -> float:
        return error_over_bound(blocked(layer, **lowered(drawn, bits)), right, layer, roundoff)

    assert ratio(11, 0.0) > 5 and 0.05 < ratio(11, TF32) < 0.6
    assert ratio(8, TF32) > 1.1 and 0.05 < ratio(8, BF16) < 0.6


def test_the_bound_that_never_fails_would_pass_tf32_as_fp32() -> None:
    layer = SUMS[-1]
    drawn = inputs(layer, 3)
    error = np.abs(blocked(layer, **lowered(drawn, 11)) - reference(layer, **drawn)["out"])
    absolute = reference(layer, **{name: np.abs(array) for name, array in drawn.items()})["out"]
    assert (error / (layer.terms * problem.UNIT_ROUNDOFF * absolute)).max() < 0.1


def without_channel(drawn: dict[str, Any]) -> dict[str, Any]:
    weight = drawn["weight"].copy()
    weight[:, -1] = 0
    return {**drawn, "weight": weight}


def shifted(drawn: dict[str, Any]) -> dict[str, Any]:
    return {**drawn, "x": np.roll(drawn["x"], 1, axis=2)}


def flipped(drawn: dict[str, Any]) -> dict[str, Any]:
    return {**drawn, "weight": drawn["weight"][:, :, ::-1, ::-1]}


@pytest.mark.parametrize(
    "mistake", [without_channel, shifted, flipped, lambda drawn: {**drawn, "bias": 0 * drawn["bias"]}]
)
@pytest.mark.parametrize("distribution", ["normal", "uniform"])
def test_a_mistake_is_beyond_the_bound(mistake: Callable[[Any], Any], distribution: str) -> None:
    layer = Layer(256, 4, 6, 6, 5)
    drawn = inputs(layer, 4, distribution)
    right = reference(layer, **drawn)
    assert error_over_bound(blocked(layer, **mistake(drawn)), right, layer) > 5


PRECISIONS = {"fp32": (24, 17, 0.0), "fp16": (11, 8, TF32), "bf16": (8, 5, BF16)}
"""Precision -> (bits of the operands, bits that are too few to pass, roundoff)."""


@pytest.mark.parametrize("layer", named([Layer(3, 5, 7, 34, 3), Layer(32, 16, 32, 32, 5)]))
@pytest.mark.parametrize("precision", PRECISIONS)
def test_the_means_are_those_of_rounding_and_see_what_the_largest_error_does_not(layer: Layer, precision: str) -> None:
    bits, too_few, roundoff = PRECISIONS[precision]
    by = Arithmetic(roundoff, truncated=precision != "fp32")
    for seed in range(5):
        drawn = inputs(layer, seed)
        right = reference(layer, **drawn)
        out = sequential(layer, **lowered(drawn, bits))
        assert 0.1 < mean_square(out, right, layer, by) < 0.7
        assert 0.01 < mean_of_filters(out, right, layer, by) < 0.7
        coarse = sequential(layer, **lowered(drawn, too_few))
        assert mean_square(coarse, right, layer, by) > 1
        forgotten = sequential(layer, **lowered({**drawn, "bias": 0 * drawn["bias"]}, bits))
        assert mean_of_filters(forgotten, right, layer, by) > 5


def test_what_is_wrong_in_a_result_is_in_its_means() -> None:
    layer = Layer(3, 2, 7, 9, 3)
    right = reference(layer, **inputs(layer, 5))
    for bad in (np.nan, np.inf):
        out = right["out"].copy()
        out[right["out"] > 0] = bad
        assert not mean_square(out, right, layer, Arithmetic()) <= 1
        assert not mean_of_filters(out, right, layer, Arithmetic()) <= 1
    assert mean_square(right["out"], right, layer, Arithmetic()) == 0
    assert mean_of_filters(right["out"], right, layer, Arithmetic()) == 0


def test_one_bad_value_anywhere_is_never_accepted() -> None:
    layer = Layer(3, 2, 7, 9, 3)
    drawn = inputs(layer, 5)
    right = reference(layer, **drawn)
    good = blocked(layer, **drawn)
    assert error_over_bound(good, right, layer) <= 1 and course_wrong(good, right["out"]) == 0
    for index in np.ndindex(layer.out_shape):
        for bad in (np.nan, np.inf, good[index] + 1):
            out = good.copy()
            out[index] = bad
            assert not error_over_bound(out, right, layer, BF16) <= 1
            assert course_wrong(out, right["out"]) == 1
    out = good.copy()
    out[0, 0, 0], out[-1, -1, -1] = np.inf, np.nan
    assert math.isnan(error_over_bound(out, right, layer))


def test_a_result_of_another_shape_is_refused() -> None:
    layer = Layer(1, 1, 4, 8, 1)
    right = reference(layer, **inputs(layer, 5))
    for out in (right["out"][0], right["out"].reshape(1, 4, 2), right["out"][:, :, :3], right["out"][:, :1]):
        with pytest.raises(ValueError, match="shapes differ"):
            error_over_bound(out, right, layer)
        with pytest.raises(ValueError, match="shapes differ"):
            course_wrong(out, right["out"])


def test_a_layer_of_zeros_is_right_when_it_is_zero() -> None:
    layer = Layer(2, 2, 4, 4, 3)
    right = reference(layer, **{name: 0 * array for name, array in inputs(layer, 0).items()})
    out = np.zeros(layer.out_shape, np.float32)
    assert error_over_bound(out, right, layer) == 0 and course_wrong(out, right["out"]) == 0
    out[0, 0, 0] = 1e-30
    assert not error_over_bound(out, right, layer) <= 1


# -- the course's check and the demonstration --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "right", "wrong"),
    [
        (100.3, 100.0, True),  # 0.3 and 1.5e-3
        (100.19, 100.0, False),  # 0.19, but 0.95e-3
        (0.04, 0.0, False),  # relative 1, but 0.04
        (0.06, 0.0, True),
        (0.0, 0.0, False),
        (-1.0, 1.0, True),  # a sum of 0
        (np.nan, 1.0, True),
        (np.inf, 1.0, True),
    ],
)
def test_the_courses_check(out: float, right: float, wrong: bool) -> None:
    assert course_wrong(np.full((1, 2, 2), out, np.float32), np.full((1, 2, 2), right)) == 4 * wrong


finite = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(finite, st.sampled_from([8, 11, 24]))
def test_rounded_is_the_nearest_of_so_many_bits(value: float, bits: int) -> None:
    with np.errstate(over="ignore"):  # the largest are rounded to infinity
        near = float(rounded(np.array([value], np.float32), bits)[0])
    if math.isinf(near):
        assert abs(value) > (2 - 2.0 ** (1 - bits)) * 2.0**127
        return
    assert (math.frexp(near)[0] * 2**bits).is_integer()
    assert abs(near - value) <= 2.0 ** (math.frexp(value)[1] - bits - 1)


def test_rounded_keeps_what_has_no_significand_and_agrees_with_fp16() -> None:
    odd = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    np.testing.assert_array_equal(rounded(odd, 11), odd)
    assert np.signbit(rounded(odd, 11)[4]) and rounded(odd, 11).dtype == np.float32
    drawn = inputs(Layer(1, 1, 64, 64, 1), 6)["x"]
    normal = np.abs(drawn) > 2.0**-14
    np.testing.assert_array_equal(rounded(drawn, 11)[normal], drawn.astype(np.float16).astype(np.float32)[normal])
    ties = np.array([1 + 2**-8, 1 + 3 * 2**-8], np.float32)
    assert rounded(ties, 8).tolist() == [1.0, 1 + 2**-6]


def test_what_passes_shows_where_the_courses_check_is_blind() -> None:
    outcomes = {(outcome.inputs, outcome.computed): outcome for outcome in check_outcomes()}
    assert len(outcomes) == 18
    uniform = {computed: outcome for (drawn, computed), outcome in outcomes.items() if drawn == "U[0, 1)"}
    normal = {computed: outcome for (drawn, computed), outcome in outcomes.items() if drawn == "N(0, 1)"}
    for by_way in (uniform, normal):
        assert all(
            by_way[computed].passes_bound and by_way[computed].passes_course
            for computed in by_way
            if "fp32" in computed
        )
        for wrong in ("one input channel forgotten", "one tap of the kernel forgotten", "one NaN"):
            assert not by_way[wrong].passes_bound and not by_way[wrong].passes_course
        assert math.isnan(by_way["one NaN"].rms) and by_way["one NaN"].course_wrong == 1
        assert by_way["TF32 operands"].rms < by_way["bf16 operands"].rms / 5
    for blind in ("bf16 operands", "bias forgotten"):
        assert uniform[blind].passes_course and not uniform[blind].passes_bound
        assert not normal[blind].passes_course and not normal[blind].passes_bound
    assert uniform["TF32 operands"].passes_bound and not normal["TF32 operands"].passes_bound
    assert normal["fp32, one term after another"].rms > 3 * normal["fp32, matrix product"].rms
