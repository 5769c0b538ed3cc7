"""Bands cover each row once, in order, and what is computed by bands is what is computed at once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.spec import bands, registry
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


@pytest.mark.parametrize(("lab", "case"), [("stencil", "37x64"), ("lbm", "40x24")])
def test_a_reference_does_not_depend_on_its_bands(lab: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    one = registry.get(lab)
    size = one.verification_case(one.case(case), one.ladder[0])
    given = one.inputs(size, 3)
    whole = one.reference(size, given)
    monkeypatch.setattr(bands, "ELEMENTS", 100)  # rows by two or four, where all were one band
    parted = one.reference(size, given)
    for name, array in whole.items():
        if isinstance(array, np.ndarray):
            np.testing.assert_allclose(parted[name], array, rtol=1e-14, atol=0, err_msg=name)
    wrong = {name: np.array(array, copy=True) for name, array in whole.items() if isinstance(array, np.ndarray)}
    field = "g" if lab == "stencil" else "f"
    outputs = {name: array.astype(np.float32) for name, array in wrong.items() if name in (field, "av_vels")}
    assert one.check(size, one.ladder[1], outputs, whole)[0] <= 1
    outputs[field][..., -2, 3] *= 1.001
    error, allowed, _ = one.check(size, one.ladder[1], outputs, whole)
    assert error > allowed, "an error in the last band is seen"
