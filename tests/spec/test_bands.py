"""Bands cover each row once, in order, and an error in one is raised."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.spec import bands
from roofbook.spec.bands import by_bands


@given(st.integers(0, 400), st.integers(0, 1 << 18))
def test_bands_are_all_rows_once_and_in_order(height: int, width: int) -> None:
    rows = [row for band in by_bands(height, width, lambda rows: list(range(rows.start, rows.stop))) for row in band]
    assert rows == list(range(height))


def test_an_error_in_a_band_is_raised() -> None:
    def fails(rows: slice) -> None:
        if rows.start:
            raise ValueError("in the second")

    with pytest.raises(ValueError, match="in the second"):
        by_bands(4, bands.ELEMENTS, fails)
