"""How a number is written: three significant digits, intervals and factors, one unit a column."""

import math
from itertools import pairwise

import pytest

from roofbook.analysis import format


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0123, "0.0123"), (1.234, "1.23"), (9.996, "10.0"), (99.96, "100"), (1234, "1\u202f230"), (0, "0.00"),
     (12345678, "1.23e+07"), (math.nan, "\u2013"), (-2.5, "\u22122.50"),
     (999.6, "1\u202f000"), (3.2e-8, "3.20e\u221208")],
)  # fmt: skip
def test_three_significant_digits(value: float, text: str) -> None:
    assert format.number(value) == text


def test_intervals_and_factors() -> None:
    assert format.interval(12.34, 12.11, 12.58) == "12.3 [12.1, 12.6]"
    assert format.interval(12345, 12251, 12449) == "12\u202f300 [12\u202f300, 12\u202f400]"
    assert format.factor(1.0042, 1.0013, 1.0071) == "1.004 [1.001, 1.007]"
    assert format.factor(1.31, 1.28, 1.34) == "1.31 [1.28, 1.34]"
    assert format.factor(1.0123, 1.0104, 1.0161) == "1.0123 [1.0104, 1.0161]", "a difference counts from 1.01 on"
    assert format.factor(1.0099, 1.0061, 1.0142) == "1.010 [1.006, 1.014]"
    assert (format.factor(1.0023), format.factor(0.99996), format.factor(1.314)) == ("1.002", "0.99996", "1.31")


def test_one_unit_a_column() -> None:
    assert format.time_unit([2e-6, 4e-2]) == ("\u00b5s", 1e-6)
    assert format.time_unit([2.0]) == ("s", 1.0) and format.time_unit([1e-3]) == ("ms", 1e-3)
    assert format.time_unit([2e-4, 9.9]) == ("\u00b5s", 1e-6) and format.time_unit([2e-4, 65.3]) == ("ms", 1e-3)
    assert format.time_unit([2e-7, 20e3]) == ("s", 1.0), "no exponents"
    assert format.time_unit([3e-10]) == ("ns", 1e-9) and format.time_unit([]) == ("s", 1.0)
    assert format.quantity(4.26e12, "B/s") == "4.26\u202fTB/s" and format.duration(1.23e-5) == "12.3\u202f\u00b5s"
    sizes = [size for _, size in format.TIMES]
    assert all(a > b for a, b in pairwise(sizes))


@pytest.mark.parametrize(
    ("estimate", "low", "high", "text"),
    [
        (90.6, 0.1, 75728.3, "[0.1, >10]"),
        (1.2, 0.0006, 75.6897, "[<0.1, >10]"),
        (1.07, 0.983, 1.149, "[0.98, 1.15]"),
        (0.95, 0.05, 1.02, "[<0.1, 1.020]"),
        (1.0004, 0.9996, 1.0502, "[0.9996, 1.0502]"),
    ],
)
def test_an_end_of_an_undecided_ratio_beyond_a_factor_of_ten_is_told_as_that(
    estimate: float, low: float, high: float, text: str
) -> None:
    assert format.undecided(estimate, low, high) == text
