"""Batches of images, the float64 reference, and its bounds: wide enough for fp32, too narrow for TF32 and for wrong results."""

from __future__ import annotations

import gzip
import importlib.util
import math
import os
import struct
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from roofbook.errors import UsageError
from roofbook.labs.cnn.problem import rounded
from roofbook.labs.lenet import LAB, data, network, problem
from roofbook.labs.lenet.data import IMAGES, LABELS
from roofbook.labs.lenet.network import Array
from roofbook.labs.lenet.problem import CONV1, CONV2, LAYERS, Bounded, batch_of, convolved, error_over_bound, sampled

from ... import mutants

FOLDER = os.environ.get("ROOFBOOK_DATA")
needs_images = pytest.mark.skipif(FOLDER is None, reason="ROOFBOOK_DATA names no folder of Fashion-MNIST images")
needs_digits = pytest.mark.skipif(
    importlib.util.find_spec("sklearn") is None, reason="scikit-learn is not installed: `pip install scikit-learn`"
)
DIFFERENT = 40


@pytest.fixture(autouse=True)
def folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A test set of 40 images of noise in blocks, where $ROOFBOOK_DATA points to."""
    image_folder = tmp_path_factory.mktemp("images")
    draw = np.random.default_rng(8)
    images = draw.integers(0, 256, (DIFFERENT, 7, 7)).repeat(4, axis=1).repeat(4, axis=2).astype(np.uint8)
    labels = draw.integers(0, 10, DIFFERENT).astype(np.uint8)
    for name, array in ((IMAGES, images), (LABELS, labels)):
        head = bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape)
        (image_folder / f"t10k-{name}.gz").write_bytes(gzip.compress(head + array.tobytes()))
    monkeypatch.setenv("ROOFBOOK_DATA", str(image_folder))
    return image_folder


# -- layers and batches ------------------------------------------------------------------------------------------------


def test_layers_are_those_of_the_network() -> None:
    for layer, pooled in ((CONV1, "pool1"), (CONV2, "pool2")):
        assert layer.y_shape == network.LAYERS[layer.name] and layer.pooled_shape == network.LAYERS[pooled]
        assert network.SHAPES[layer.name] == (layer.filters, layer.channels, 7, 7)
        assert layer.weights == math.prod(network.SHAPES[layer.name])
    assert CONV1.x_shape == (1, 86, 86) and CONV2.x_shape == CONV1.pooled_shape
    assert problem.MOST_IMAGES * max(layer.y_values for layer in LAYERS) < 2**31


def test_work_is_that_of_both_convolutions() -> None:
    work = LAB.work(LAB.case("batch-10000"))
    assert work.flops == 10000 * 2 * 49 * (4 * 80**2 + 4 * 16 * 34**2) == pytest.approx(25.1e9 + 72.5e9, rel=1e-3)
    weights = 49 * 4 + 49 * 64
    assert work.bytes == work.footprint == 4 * (10000 * (86**2 + 16 * 9**2) + weights), "the least: in, and pooled out"
    maps, pooled = 86**2 + 4 * 80**2 + 4 * 40**2 + 16 * 34**2, 86**2 + 4 * 40**2 + 4 * 40**2 + 16 * 9**2
    matrices = 49 * 80**2 + 4 * 49 * 34**2
    for name, values in {
        "baseline": maps, "fused-constant": maps, "streams": maps, "registers": maps, "torch-cpu": maps,
        "unrolled-constant": maps + 2 * matrices, "fused-pool": pooled, "winograd": pooled, "tensor": pooled, "whole": pooled,
        "graph": pooled, "warps": pooled, "warps-ahead": pooled, "winograd-vectors": pooled,
        "warpgroup": pooled, "split": maps, "split-boxes": maps, "whole-fused": 86**2 + 16 * 9**2,
        "whole-roles": 86**2 + 16 * 9**2,
    }.items():  # fmt: skip
        assert LAB.traffic(LAB.case("batch-10000"), LAB.variant(name)) == 4 * (10000 * values + weights), name


def test_winograd_counts_its_own_products() -> None:
    """Layer 2 has 34 outputs a row, nine tiles of four."""
    for name in ("winograd", "winograd-vectors"):
        case, variant = LAB.case("batch-3"), LAB.variant(name)
        products = 3 * 10 * 7 * (4 * 80 * 20 + 4 * 16 * 34 * 9)
        assert variant.plan.operations(case, variant, math.inf) == 2 * products


def test_a_case_is_any_number_of_images_that_32_bits_can_index() -> None:
    assert LAB.case("batch-123").params == {"batch": 123, "data": "fashion-mnist"}
    assert [batch_of(name) for name in ("batch-1", "batch-40000", "batch", "batch-", "batch-x", "batch-010")] == [
        1, 40000, None, None, None, None,
    ]  # fmt: skip
    for images in (0, 40001, 10**15):
        with pytest.raises(UsageError, match=rf"^a batch must be 1 or more images and at most 40000 .*, not {images}$"):
            LAB.case(f"batch-{images}")
    with pytest.raises(UsageError, match="any batch from batch-1 to batch-40000"):
        LAB.case("10 images")


@given(st.integers(1, 40000))
def test_samples_are_few_different_and_reach_both_ends(batch: int) -> None:
    chosen = sampled(batch)
    assert len(chosen) == min(batch, 32) and chosen[0] == 0 and chosen[-1] == batch - 1
    steps = np.diff(chosen)
    assert (steps >= 1).all() and (len(steps) == 0 or steps.max() - steps.min() <= 1)


def test_a_batch_is_the_test_set_in_a_seeded_order_again_and_again() -> None:
    one, again, other_seed = (LAB.inputs(LAB.case("batch-100"), seed) for seed in (1, 1, 2))
    x, labels = one["x"], one["labels"]
    assert x.shape == (100, 1, 86, 86) and x.dtype == np.float32 and x.flags.c_contiguous and one["images"] == DIFFERENT
    np.testing.assert_array_equal(x, again["x"])
    assert (x != other_seed["x"]).any()
    np.testing.assert_array_equal(x[40:80], x[:40])
    np.testing.assert_array_equal(labels[80:], labels[:20])
    test_set = data.load()
    enlarged = data.resized(test_set.images)
    for image, label in zip(x[:40, 0], labels, strict=False):
        (at,) = np.flatnonzero((enlarged == image).all(axis=(1, 2)))
        assert test_set.labels[at] == label
    assert "40 images" in one["source"] and LAB.inputs(LAB.case("batch-3"), 1)["images"] == 3
    np.testing.assert_array_equal(LAB.inputs(LAB.case("batch-3"), 1)["x"], x[:3])


def test_images_are_enlarged_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, enlarge = [], data.resized

    def counted(images: data.Bytes) -> NDArray[np.float32]:
        sizes.append(len(images))
        return enlarge(images)

    monkeypatch.setattr(data, "resized", counted)
    for images in (5, 50):
        LAB.inputs(LAB.case(f"batch-{images}"), images)
    assert sizes == [DIFFERENT]


@needs_digits
def test_digits_stand_in_with_weights_of_their_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("ROOFBOOK_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    case = LAB.case("batch-5")
    assert case.params["data"] == "digits"
    batch = LAB.inputs(case, 1)
    assert "digits" in batch["source"]
    np.testing.assert_array_equal(batch["weights"]["conv2"], network.trained("digits")[0]["conv2"])


def test_the_lab_fetches_its_images_before_it_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bool] = []
    monkeypatch.setattr(data, "fetch", lambda: requests.append(True))
    LAB.prepare()
    assert requests == [True]


# -- the reference -----------------------------------------------------------------------------------------------------

Rounding = Callable[[Array], Array]
Maps = Mapping[str, NDArray[np.float64]]


def plain(array: Array) -> Array:
    return array


def tf32(array: Array) -> Array:
    return rounded(array, 11).astype(np.float32)


def bf16(array: Array) -> Array:
    return rounded(array, 8).astype(np.float32)


def in_float32(batch: Mapping[str, Any], first: Rounding = plain, second: Rounding = plain) -> Maps:
    """Return a variant's outputs for a batch whose images are all sampled; the convolutions' operands are rounded before."""
    w = batch["weights"]
    out = {"conv1": network.convolve(first(batch["x"]), first(w["conv1"]))}
    out["pool1"] = network.pool(np.maximum(out["conv1"], 0), 2)
    out["conv2"] = network.convolve(second(out["pool1"]), second(w["conv2"]))
    out["pool2"] = network.pool(np.maximum(out["conv2"], 0), 4)
    hidden = np.maximum(out["pool2"].reshape(len(batch["x"]), -1) @ w["fc1"].T + w["fc1_bias"], 0)
    out["scores"] = hidden @ w["fc2"].T + w["fc2_bias"]
    assert {array.dtype for array in out.values()} == {np.dtype(np.float32)}
    return {name: array.astype(np.float64) for name, array in out.items()}


MAPS = ("conv1", "pool1", "conv2", "pool2", "scores")


@cache
def thirty() -> tuple[Mapping[str, Any], Mapping[str, Bounded]]:
    """A batch and its reference, made once: the images are the same in each test. No test may change them."""
    batch = LAB.inputs(LAB.case("batch-10"), 4)
    right = LAB.reference(LAB.case("batch-10"), batch)
    for array in (batch["x"], *(part for name in MAPS for part in right[name])):
        array.flags.writeable = False
    return batch, right


@pytest.fixture
def batch() -> Mapping[str, Any]:
    return thirty()[0]


@pytest.fixture
def right() -> Mapping[str, Bounded]:
    return thirty()[1]


def errors_over_bounds(out: Maps, right: Mapping[str, Bounded], roundoff: float = 0.0) -> dict[str, float]:
    return {name: error_over_bound(array, right[name], roundoff) for name, array in out.items()}


def test_the_reference_is_the_network_in_float64() -> None:
    batch = LAB.inputs(LAB.case("batch-95"), 4)
    right = LAB.reference(LAB.case("batch-95"), batch)
    want = network.forward(batch["weights"], batch["x"])
    np.testing.assert_allclose(right["scores"].value, want["fc2"], rtol=1e-12, atol=1e-9)
    for name in ("conv1", "pool1", "conv2", "pool2"):
        np.testing.assert_allclose(right[name].value, want[name][sampled(95)], rtol=1e-12, atol=1e-9)


def test_a_convolutions_bound_is_its_formula() -> None:
    draw = np.random.default_rng(3)
    values, errors = draw.standard_normal((2, 4, 9, 8)), draw.uniform(0, 1e-3, (2, 4, 9, 8))
    weights = draw.standard_normal((5, 4, 7, 7)).astype(np.float32)
    bounded = convolved(Bounded(values, errors, 3 * errors), weights)
    for n, m, h, w in [(0, 0, 0, 0), (1, 4, 2, 1), (0, 3, 1, 0)]:
        products = weights[m] * values[n, :, h : h + 7, w : w + 7]
        norm, total = math.sqrt((products**2).sum()), abs(products.sum())
        spread = (abs(weights[m]) * errors[n, :, h : h + 7, w : w + 7]).sum()
        assert bounded.rounding[n, m, h, w] == pytest.approx(8 * 2**-24 * 14 * (norm + total) + spread)
        window = values[n, :, h : h + 7, w : w + 7]
        small = 2**-14 * (14 + math.sqrt((weights[m] ** 2).sum()) + math.sqrt((window**2).sum()))
        assert bounded.operands[n, m, h, w] == pytest.approx(8 * (math.sqrt(2) * norm + small) + 3 * spread)


def test_pooling_keeps_the_largest_bound_of_a_window() -> None:
    draw = np.random.default_rng(3)
    bounded = Bounded(*draw.standard_normal((3, 2, 3, 10, 10)))
    pooled = bounded.pooled(4)
    np.testing.assert_array_equal(pooled.value, network.pool(np.maximum(bounded.value, 0), 4))
    assert pooled.rounding[1, 2, 2, 0] == bounded.rounding[1, 2, 8:, :4].max()
    assert pooled.operands[0, 1, 1, 2] == bounded.operands[0, 1, 4:8, 8:].max()


def test_float32_lies_within_half_of_the_bounds(batch: Mapping[str, Any], right: Mapping[str, Bounded]) -> None:
    errors = errors_over_bounds(in_float32(batch), right)
    assert 0.01 < errors["conv1"] < 0.5 and 0.003 < errors["conv2"] < 0.5 and max(errors.values()) < 0.5


@pytest.mark.parametrize(("first", "second", "layer"), [(tf32, plain, "conv1"), (plain, tf32, "conv2")])
def test_operands_rounded_as_tf32_are_refused_and_have_a_bound_of_their_own(
    batch: Mapping[str, Any], right: Mapping[str, Bounded], first: Rounding, second: Rounding, layer: str
) -> None:
    out = in_float32(batch, first, second)
    assert errors_over_bounds(out, right)[layer] > 10 and errors_over_bounds(out, right)["scores"] > 1
    assert max(errors_over_bounds(out, right, 2.0**-11).values()) < 0.5


def test_fp16_lies_within_its_bound(batch: Mapping[str, Any], right: Mapping[str, Bounded]) -> None:
    def fp16(array: Array) -> Array:
        return array.astype(np.float16).astype(np.float32)

    maps = in_float32(batch, fp16, fp16)
    assert (
        max(errors_over_bounds(maps, right, 2.0**-11).values()) < 0.5 and errors_over_bounds(maps, right)["conv1"] > 10
    )


def test_sums_of_seven_in_fp16_lie_within_their_bound(batch: Mapping[str, Any], right: Mapping[str, Bounded]) -> None:
    options = LAB.variant("halves").options
    d = problem.roundoff(options)
    assert problem.roundoff({}) == 0 and problem.roundoff({"operand_roundoff": 2.0**-8}) == 2.0**-8
    assert d == pytest.approx(2.0**-11 * (1 + (math.sqrt(7) + 7) / math.sqrt(2)))
    x, weights = (array.astype(np.float16).astype(np.float64) for array in (batch["x"], batch["weights"]["conv1"]))
    windows, sums = network.columns(x[:4]), np.zeros((4, 4, 6400), np.float32)
    for p in range(7):
        part = np.zeros(sums.shape, np.float16)
        for q in range(7):
            part = (part + weights[:, 0, p, q, None] * windows[:, None, 7 * p + q]).astype(np.float16)
        sums += part
    first = Bounded(*(part_of_field[:4] for part_of_field in right["conv1"]))
    out = sums.reshape(first.value.shape)
    assert error_over_bound(out, first, d) < 0.5
    assert error_over_bound(1.02 * out, first, d) > 1


def test_bf16_is_no_tf32(batch: Mapping[str, Any], right: Mapping[str, Bounded]) -> None:
    out = in_float32(batch, bf16, bf16)
    assert (
        errors_over_bounds(out, right, 2.0**-11)["conv1"] > 1
        and max(errors_over_bounds(out, right, 2.0**-8).values()) < 0.5
    )


@needs_images
def test_real_images_are_as_telling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ROOFBOOK_DATA", str(FOLDER))
    batch = LAB.inputs(LAB.case("batch-32"), 20)
    right = LAB.reference(LAB.case("batch-32"), batch)
    assert max(errors_over_bounds(in_float32(batch), right).values()) < 0.5
    rough = errors_over_bounds(in_float32(batch, plain, tf32), right)
    assert min(rough["conv2"], rough["pool2"]) > 10 and rough["scores"] > 1


# -- the check ---------------------------------------------------------------------------------------------------------


def largest_error(out: Maps, right: Mapping[str, Bounded]) -> float:
    error, tolerance, _ = LAB.check(LAB.case("batch-10"), LAB.ladder[0], out, right)
    assert tolerance == 1
    return error


@pytest.mark.parametrize("name", ["conv1", "pool1", "conv2", "pool2", "scores"])
def test_one_wrong_value_anywhere_is_seen(batch: Mapping[str, Any], right: Mapping[str, Bounded], name: str) -> None:
    out = in_float32(batch)
    last = out[name].copy()
    last.flat[-1] = last.flat[-1] * 1.01 + 0.05
    further_mistakes = [("the last one 1 % too large", {**out, name: last})]

    def check(outputs: mutants.Outputs) -> tuple[float, float, str]:
        """Check this output alone, and the scores: a variant may have few outputs."""
        return LAB.check(
            LAB.case("batch-10"), LAB.ladder[0], {output: outputs[output] for output in {name, "scores"}}, right
        )

    mutants.all_refused(check, {name: out[name], "scores": out["scores"]}, 1.0, further_mistakes)
    assert largest_error(out, right) < 1 and not largest_error({**out, name: last}, right) <= 1, (
        "among all of them as well"
    )


def test_what_is_compared_is_what_there_is(batch: Mapping[str, Any], right: Mapping[str, Bounded]) -> None:
    out = in_float32(batch)
    *_, message = LAB.check(
        LAB.case("batch-10"), LAB.ladder[0], {"conv2": out["conv2"], "scores": out["scores"]}, right
    )
    assert message.endswith(" of conv2, over its tolerance; compared: conv2, scores")
    with pytest.raises(KeyError, match="scores"):
        largest_error({"conv1": out["conv1"]}, right)


def test_winograd_may_err_four_times_as_much_on_average_and_a_plain_step_may_not(
    batch: Mapping[str, Any], right: Mapping[str, Bounded]
) -> None:
    noise, variances = (
        np.random.default_rng(1).standard_normal(right["pool2"].value.shape),
        cast(Any, right["variances"]),
    )
    allowed = problem.mean_square(right["pool2"].value + 1e-4 * noise, right["pool2"], variances["pool2"])
    allowed_by_ratio: tuple[tuple[float, list[str]], ...] = (
        (0.9, ["fused-pool", "winograd", "winograd-vectors"]),
        (3.9, ["winograd", "winograd-vectors"]),
        (4.1, []),
    )
    for ratio, names in allowed_by_ratio:
        out = {"pool2": right["pool2"].value + 1e-4 * ratio / allowed * noise, "scores": right["scores"].value}
        checked = {
            name: LAB.check(LAB.case("batch-10"), LAB.variant(name), out, right)[0]
            for name in ("fused-pool", "winograd", "winograd-vectors")
        }
        assert [name for name, error in checked.items() if error <= 1] == names, ratio


def test_a_library_may_spread_its_errors_over_an_image_and_no_further() -> None:
    value = np.zeros((2, 1, 3, 3))
    bounds = np.zeros((2, 1, 3, 3))
    bounds[0, 0, 0, 0], bounds[1, 0, 0, 0] = 1.0, 0.25
    right = Bounded(value, bounds, np.zeros_like(bounds))
    out = value.copy()
    out[0, 0, 2, 2] = 0.5
    assert error_over_bound(out, right) == np.inf
    assert error_over_bound(out, right, spread=True) == 0.5
    out[1, 0, 2, 2] = 0.5
    assert error_over_bound(out, right, spread=True) == 2.0
    out[1, 0, 1, 1] = np.nan
    assert np.isnan(error_over_bound(out, right, spread=True))


def test_rounded_operands_are_allowed_where_a_variant_says_so(
    batch: Mapping[str, Any], right: Mapping[str, Bounded]
) -> None:
    rough = in_float32(batch, tf32, tf32)
    says_so = LAB.ladder[0].at("operands", "TF32", operand_roundoff=2.0**-11)
    case = LAB.case("batch-10")
    assert LAB.check(case, LAB.ladder[0], rough, right)[0] > 10
    assert LAB.check(case, says_so, rough, right)[0] < 0.5
