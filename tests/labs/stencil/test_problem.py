"""The reference against a plain loop, both sides of the bound, and a check that lets nothing wrong pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofbook.devices.contract import Device
from roofbook.labs.stencil import LAB
from roofbook.labs.stencil.native_root import RootLoss, native_root_loss
from roofbook.labs.stencil.problem import (
    UNIT_ROUNDOFF,
    Grid,
    bound,
    error_over_bound,
    inputs,
    reference,
    widened,
)
from roofbook.spec.plan import Case

SHAPES = [(3, 1), (3, 3), (5, 13), (7, 48), (34, 128)]


def reference_plain(r: Grid, b: Grid, g: Grid, passes: int) -> list[list[float]]:
    """Compute the stencil by its definition, one element after another."""
    height, width = g.shape
    after = [[float(g[i, j]) for j in range(width)] for i in range(height)]
    for _ in range(passes):
        for i in range(1, height - 1):
            for j in range(width):
                after[i][j] += 1 / math.sqrt(float(r[i - 1, j]) + float(b[i + 1, j]))
    return after


def single(drawn: dict[str, Any], passes: int, root_ulps: int = 0) -> Grid:
    """Compute the stencil in float32, each root off by so many ulp."""
    after: Grid = drawn["g"].copy()
    root = 1 / np.sqrt(drawn["r"][:-2] + drawn["b"][2:])
    root += np.float32(root_ulps) * np.spacing(root)
    for _ in range(passes):
        after[1:-1] += root
    return after


def error_after(g: Grid, drawn: dict[str, Any], passes: int) -> float:
    right = reference(**drawn, passes=passes)
    return error_over_bound(g, right, bound(right, drawn["g"], passes))


def test_inputs_are_seeded_and_drawn_as_named() -> None:
    drawn = inputs(90, 70, 3)
    assert list(drawn) == ["r", "b", "g"]
    assert {(array.shape, array.dtype.name) for array in drawn.values()} == {((90, 70), "float32")}
    for name in "rb":
        assert drawn[name].min() >= 0.25 and drawn[name].max() < 4
        assert drawn[name].mean() == pytest.approx(2.125, abs=0.05)
    assert abs(drawn["g"].mean()) < 0.05 and drawn["g"].std() == pytest.approx(1, abs=0.05)
    assert (drawn["r"] != drawn["b"]).mean() > 0.99
    np.testing.assert_array_equal(inputs(90, 70, 3)["g"], drawn["g"])
    assert (inputs(90, 70, 4)["g"] != drawn["g"]).mean() > 0.99


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("passes", [0, 1, 23])
def test_the_reference_is_the_definition(shape: tuple[int, int], passes: int) -> None:
    drawn = inputs(*shape, seed=1)
    right = reference(**drawn, passes=passes)
    assert right["g"].dtype == np.float64 and right["g"].shape == shape
    np.testing.assert_allclose(right["g"], reference_plain(**drawn, passes=passes), rtol=1e-14)
    np.testing.assert_array_equal(right["g"][[0, -1]], drawn["g"][[0, -1]])
    assert not right["root"][[0, -1]].any() and (right["root"][1:-1] > 0).all()


@settings(max_examples=50)
@given(st.integers(3, 9), st.integers(1, 9), st.integers(1, 40), st.integers(-20, 20), st.integers(0, 99))
def test_float32_is_within_the_bound_whatever_the_size_of_g(
    height: int, width: int, passes: int, exponent: int, seed: int
) -> None:
    drawn = inputs(height, width, seed)
    drawn["g"] *= np.float32(2.0**exponent)
    assert error_after(single(drawn, passes), drawn, passes) < 1


def test_the_bound_is_near_what_rounding_does_and_roots_of_the_standard_fit_into_it() -> None:
    drawn = inputs(130, 256, 2)
    plain = error_after(single(drawn, 23), drawn, 23)
    assert 0.1 < plain < 0.5
    for ulps in (-2, 2):  # what OpenCL and CUDA allow a root
        assert plain < error_after(single(drawn, 23, root_ulps=ulps), drawn, 23) < 1
    assert error_after(single(drawn, 23, root_ulps=16), drawn, 23) > 1


@pytest.mark.parametrize("passes", [1, 23])
def test_a_mistake_is_beyond_the_bound(passes: int) -> None:
    drawn = inputs(34, 128, 4)
    swapped = {"r": drawn["b"], "b": drawn["r"], "g": drawn["g"]}
    turned = {"r": drawn["r"][::-1], "b": drawn["b"][::-1], "g": drawn["g"]}
    for wrong in (
        single(drawn, passes - 1),
        single(drawn, passes + 1),
        single(swapped, passes),
        single(turned, passes),
        np.roll(single(drawn, passes), 1, axis=1),
    ):
        assert error_after(wrong, drawn, passes) > 100
    half = drawn["g"].copy()
    half[1:-1] += passes * (1 / np.sqrt(drawn["r"][:-2] + drawn["b"][2:])).astype(np.float16)
    assert error_after(half, drawn, passes) > 10


def test_one_bad_value_anywhere_is_never_accepted() -> None:
    drawn = inputs(5, 4, 5)
    good = single(drawn, 2)
    assert error_after(good, drawn, 2) <= 1
    for index in np.ndindex(good.shape):
        for bad in (np.nan, np.inf, -np.inf, good[index] + 64 * UNIT_ROUNDOFF * max(1.0, abs(float(good[index])))):
            wrong = good.copy()
            wrong[index] = bad
            assert not error_after(wrong, drawn, 2) <= 1
    two_wrong = good.copy()
    two_wrong[0, 0], two_wrong[2, 2] = 7, np.nan
    assert math.isnan(error_after(two_wrong, drawn, 2))


def test_a_result_of_another_shape_is_never_accepted() -> None:
    drawn = inputs(5, 4, 5)
    good = single(drawn, 2)
    for wrong in (good[:, :-1], good[:-1], good.ravel(), good[None], good[2], good[:, :1], good.T):
        try:
            error = error_after(wrong, drawn, 2)
        except ValueError:
            continue
        assert not error <= 1


# -- native roots ------------------------------------------------------------------------------------------------------


ESTIMATE_ULPS = 1.5 * 2.0**11
"""Largest error of x86's RSQRTPS (Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2), in ulps."""


def verdict_on_roots(
    variant: str, drawn: dict[str, Any], passes: int, off_ulps: float, root_ulps: float | None = None
) -> tuple[float, float, str]:
    """Return the check's verdict on roots that are off by up to `off_ulps`, on a device whose native root loses `root_ulps`."""
    case = Case("made up", "test", {}, passes)
    estimate = 1 / np.sqrt((drawn["r"][:-2] + drawn["b"][2:]).astype(np.float64))
    estimate *= 1 + off_ulps * 2.0**-23 * np.random.default_rng(1).uniform(-1, 1, estimate.shape)
    after = drawn["g"].copy()
    for _ in range(passes):
        after[1:-1] += estimate.astype(np.float32)
    return checked_output(variant, drawn, case, after, root_ulps)


def checked_output(
    variant: str, drawn: dict[str, Any], case: Case, g: Grid, root_ulps: float | None
) -> tuple[float, float, str]:
    losses = {} if root_ulps is None else {"native_root": RootLoss(root_ulps, root_ulps)}
    return LAB.check(case, LAB.variant(variant), {"g": g}, {**LAB.reference(case, drawn), **losses})


@pytest.mark.parametrize("passes", [1, 23])
def test_a_native_root_may_lose_what_this_device_loses_and_no_more(passes: int) -> None:
    drawn = inputs(34, 256, 6)
    drawn["g"] *= np.float32(1e-3)  # what a root is off then counts most
    error, tolerance, message = verdict_on_roots("native-rsqrt", drawn, passes, ESTIMATE_ULPS, ESTIMATE_ULPS)
    assert 20 < error <= tolerance < 2000
    assert message.endswith("as a multiple of what is allowed with accurate functions")
    error, tolerance, _ = verdict_on_roots("native-rsqrt", drawn, passes, 4 * ESTIMATE_ULPS, ESTIMATE_ULPS)
    assert error > tolerance
    for root_ulps in (None, 0.5, 4.0):
        error, tolerance, message = verdict_on_roots("native-rsqrt", drawn, passes, ESTIMATE_ULPS, root_ulps)
        assert error > tolerance == 1 and message.endswith("over its tolerance")


def test_a_lossy_native_root_excuses_no_loss_of_the_sum() -> None:
    """Where g is large and the root small, the error of the root is far below the error of cutting the whole output."""
    drawn = inputs(34, 256, 6)
    drawn["g"] = np.abs(drawn["g"]) + np.float32(100)
    case = Case("made up", "test", {}, 1)
    accurate = single(drawn, 1)
    cut = (accurate.view(np.uint32) & np.uint32(0xFFFFFFFF << 11 & 0xFFFFFFFF)).view(np.float32)  # to 13 bits
    cut[[0, -1]] = accurate[[0, -1]]
    error, tolerance, _ = checked_output("native-rsqrt", drawn, case, cut, ESTIMATE_ULPS)
    assert error > 2 * tolerance
    error, tolerance, _ = checked_output("native-rsqrt", drawn, case, accurate, ESTIMATE_ULPS)
    assert error <= tolerance


def test_the_loss_of_a_native_root_is_measured_on_the_device_for_each_width_of_vector(device: Device) -> None:
    for variant, lanes in (("native-rsqrt", 1), ("float4", 4), ("streams", 16)):
        (loss,) = LAB.device_losses(device, LAB.variant(variant)).values()
        assert loss == native_root_loss(device, lanes)
        assert 0.25 < loss.ulps < 2 * ESTIMATE_ULPS
        assert 0.2 < loss.rms < 2 * loss.ulps
    assert not LAB.device_losses(device, LAB.variant("rsqrt"))


def test_a_native_root_that_loses_nothing_is_judged_like_the_others() -> None:
    drawn = inputs(34, 256, 6)
    assert verdict_on_roots("native-rsqrt", drawn, 23, 0, ESTIMATE_ULPS) == verdict_on_roots("rsqrt", drawn, 23, 0)
    error, tolerance, _ = verdict_on_roots("native-rsqrt", drawn, 23, math.nan, ESTIMATE_ULPS)
    assert not error <= tolerance


def test_inputs_of_a_check_have_roots_of_many_magnitudes_and_those_of_a_large_grid_stay() -> None:
    drawn = inputs(9, 384, 6)
    spread = widened(drawn)
    sums = spread["r"][:-2] + spread["b"][2:]
    assert sums.min() < 0.02 and sums.max() > 200 and np.isfinite(sums).all()
    assert np.array_equal(spread["g"], drawn["g"]) and spread["r"].dtype == np.float32
    assert error_after(single(spread, 23), spread, 23) <= 1
    assert widened(drawn, largest_size=100) == drawn
