"""A reference that is computed by bands is the one that is computed at once: as the tests of one lab ask for it."""

from __future__ import annotations

import numpy as np
import pytest

from roofbook.spec import bands
from roofbook.spec.lab import Lab


def same_by_bands(lab: Lab, name: str, field: str, kept: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """On the case `name`, of which `kept` are outputs; an error in the last band of `field` is seen."""
    size = lab.verification_case(lab.case(name), lab.ladder[0])
    given = lab.inputs(size, 3)
    whole = lab.reference(size, given)
    monkeypatch.setattr(bands, "ELEMENTS", 100)  # rows by two or four, where all were one band
    parted = lab.reference(size, given)
    arrays = {key: array for key, array in whole.items() if isinstance(array, np.ndarray)}
    for key, array in arrays.items():
        np.testing.assert_allclose(parted[key], array, rtol=1e-14, atol=0, err_msg=key)
    outputs = {key: np.array(array, np.float32) for key, array in arrays.items() if key in kept}
    assert lab.check(size, lab.ladder[1], outputs, whole)[0] <= 1
    outputs[field][..., -2, 3] *= 1.001
    error, allowed, _ = lab.check(size, lab.ladder[1], outputs, whole)
    assert error > allowed
