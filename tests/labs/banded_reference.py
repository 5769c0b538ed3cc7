"""Comparison of a reference that is computed by bands with one that is computed at once, for the tests of each lab."""

from __future__ import annotations

import numpy as np
import pytest

from roofbook.spec import bands
from roofbook.spec.lab import Lab


def same_by_bands(lab: Lab, name: str, field: str, output_names: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Assert that bands change nothing on the case `name`, and that an error in the last band of `field` is seen."""
    size = lab.verification_case(lab.case(name), lab.ladder[0])
    inputs = lab.inputs(size, 3)
    reference = lab.reference(size, inputs)
    monkeypatch.setattr(bands, "ELEMENTS", 100)  # rows by two or four, where all were one band
    parted = lab.reference(size, inputs)
    arrays = {key: array for key, array in reference.items() if isinstance(array, np.ndarray)}
    for key, array in arrays.items():
        np.testing.assert_allclose(parted[key], array, rtol=1e-14, atol=0, err_msg=key)
    outputs = {key: np.array(array, np.float32) for key, array in arrays.items() if key in output_names}
    assert lab.check(size, lab.ladder[1], outputs, reference)[0] <= 1
    outputs[field][..., -2, 3] *= 1.001
    error, allowed, _ = lab.check(size, lab.ladder[1], outputs, reference)
    assert error > allowed
