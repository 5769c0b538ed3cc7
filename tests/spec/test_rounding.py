"""Mean square of errors: that of honest rounding passes, a little more does not, and a NaN is the worst."""

from __future__ import annotations

import math

import numpy as np
import pytest

from roofbook.spec.rounding import CLEARANCE, ROUNDING, mean_square_over, worst


def test_rounding_to_nearest_is_off_by_its_root_mean_square() -> None:
    values = np.exp(np.random.default_rng(0).uniform(-20, 20, 100_000))
    relative = (values.astype(np.float32) - values) / values
    assert math.sqrt(np.mean(relative**2)) * 2**24 == pytest.approx(ROUNDING, rel=0.02)


@pytest.mark.parametrize("count", [10, 1000, 100_000])
def test_normal_errors_pass_and_larger_ones_do_not(count: int) -> None:
    draw = np.random.default_rng(count)
    ratios = [mean_square_over(float(np.mean(draw.normal(0, 3, count) ** 2)), 9.0, count) for _ in range(200)]
    assert max(ratios) < 1 / CLEARANCE + 0.05
    chance = math.sqrt(1 + 8 * math.sqrt(2 / count))
    assert mean_square_over(9 * (1.02 * CLEARANCE * chance) ** 2, 9.0, count) > 1


def test_no_error_is_right_though_none_is_expected_and_any_other_is_not() -> None:
    assert mean_square_over(0.0, 0.0, 5) == 0
    with np.errstate(divide="ignore"):
        assert mean_square_over(1e-30, 0.0, 5) == math.inf
    assert math.isnan(mean_square_over(math.nan, 1.0, 5))


def test_the_worst_is_the_largest_and_a_nan_is_larger() -> None:
    assert worst({"one": 0.5, "other": 0.7}) == (0.7, "other")
    over, output = worst({"one": math.nan, "other": math.inf})
    assert math.isnan(over) and output == "one"
