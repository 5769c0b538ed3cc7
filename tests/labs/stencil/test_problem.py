"""The reference against a plain loop, both sides of the bound, and a check that lets nothing wrong pass."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofbook.labs.stencil import LAB
from roofbook.labs.stencil.problem import NATIVE_ROOT, UNIT_ROUNDOFF, Grid, bound, error_over_bound, inputs, reference
from roofbook.spec.lab import Case

SHAPES = [(3, 1), (3, 3), (5, 13), (7, 48), (34, 128)]


def reference_plain(r: Grid, b: Grid, g: Grid, passes: int) -> list[list[float]]:
    """The definition word for word, one element after another."""
    height, width = g.shape
    after = [[float(g[i, j]) for j in range(width)] for i in range(height)]
    for _ in range(passes):
        for i in range(1, height - 1):
            for j in range(width):
                after[i][j] += 1 / math.sqrt(float(r[i - 1, j]) + float(b[i + 1, j]))
    return after


def single(drawn: dict[str, Any], passes: int, root_ulps: int = 0) -> Grid:
    """In float32, each root off by so many ulp."""
    after: Grid = drawn["g"].copy()
    root = 1 / np.sqrt(drawn["r"][:-2] + drawn["b"][2:])
    root += np.float32(root_ulps) * np.spacing(root)
    for _ in range(passes):
        after[1:-1] += root
    return after


def over(g: Grid, drawn: dict[str, Any], passes: int) -> float:
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
    assert over(single(drawn, passes), drawn, passes) < 1


def test_the_bound_is_near_what_rounding_does_and_roots_of_the_standard_fit_into_it() -> None:
    drawn = inputs(130, 256, 2)
    plain = over(single(drawn, 23), drawn, 23)
    assert 0.1 < plain < 0.5
    for ulps in (-2, 2):  # what OpenCL and CUDA allow a root
        assert plain < over(single(drawn, 23, root_ulps=ulps), drawn, 23) < 1
    assert over(single(drawn, 23, root_ulps=16), drawn, 23) > 1


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
        assert over(wrong, drawn, passes) > 100
    half = drawn["g"].copy()
    half[1:-1] += passes * (1 / np.sqrt(drawn["r"][:-2] + drawn["b"][2:])).astype(np.float16)
    assert over(half, drawn, passes) > 10


def test_one_bad_value_anywhere_is_never_accepted() -> None:
    drawn = inputs(5, 4, 5)
    good = single(drawn, 2)
    assert over(good, drawn, 2) <= 1
    for index in np.ndindex(good.shape):
        for bad in (np.nan, np.inf, -np.inf, good[index] + 64 * UNIT_ROUNDOFF * max(1.0, abs(float(good[index])))):
            wrong = good.copy()
            wrong[index] = bad
            assert not over(wrong, drawn, 2) <= 1
    both = good.copy()
    both[0, 0], both[2, 2] = 7, np.nan
    assert math.isnan(over(both, drawn, 2))


def test_a_result_of_another_shape_is_never_accepted() -> None:
    drawn = inputs(5, 4, 5)
    good = single(drawn, 2)
    for wrong in (good[:, :-1], good[:-1], good.ravel(), good[None], good[2], good[:, :1], good.T):
        try:
            found = over(wrong, drawn, 2)
        except ValueError:
            continue
        assert not found <= 1


# -- native roots ------------------------------------------------------------------------------------------------------


def checked(variant: str, drawn: dict[str, Any], passes: int, off: float) -> tuple[float, float, str]:
    """What the check says of roots that are off by up to so much, relative to them."""
    case = Case("made up", "test", {}, passes)
    estimate = 1 / np.sqrt((drawn["r"][:-2] + drawn["b"][2:]).astype(np.float64))
    estimate *= 1 + off * np.random.default_rng(1).uniform(-1, 1, estimate.shape)
    after = drawn["g"].copy()
    for _ in range(passes):
        after[1:-1] += estimate.astype(np.float32)
    return LAB.check(case, LAB.variant(variant), {"g": after}, LAB.reference(case, drawn))


@pytest.mark.parametrize("passes", [1, 23])
def test_a_native_root_may_lose_what_the_processors_estimate_loses_and_no_other_may(passes: int) -> None:
    drawn = inputs(34, 256, 6)
    drawn["g"] *= np.float32(1e-3)  # what a root is off then counts most
    for variant in ("native-rsqrt", "tasks-2", "flat", "fused-float16", "native-rsqrt@misaligned=3"):
        error, tolerance, said = checked(variant, drawn, passes, NATIVE_ROOT)
        assert 20 < error <= tolerance < 2000 and said.endswith(
            "as a multiple of what is allowed with accurate functions"
        )
        error, tolerance, _ = checked(variant, drawn, passes, 4 * NATIVE_ROOT)
        assert error > tolerance
    for variant in ("sequential", "checked", "rsqrt", "openmp"):
        error, tolerance, said = checked(variant, drawn, passes, NATIVE_ROOT)
        assert error > tolerance == 1 and said.endswith("over its tolerance")


def test_a_native_root_that_loses_nothing_is_judged_like_the_others() -> None:
    drawn = inputs(34, 256, 6)
    assert checked("native-rsqrt", drawn, 23, 0) == checked("rsqrt", drawn, 23, 0)
    error, tolerance, _ = checked("native-rsqrt", drawn, 23, math.nan)
    assert not error <= tolerance
