"""The measured error of a device's native inverse root, which OpenCL leaves to the device. The lab's check allows for it."""

from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...devices.contract import Device
from ...spec.source import Source
from .problem import UNIT_ROUNDOFF

COUNT = 1 << 18
"""Number of roots that are measured: many for each entry of the instruction's table, which has some thousand entries."""
GROUP = 64
MARGIN = 1.25
"""Allowed error over the measured one: the worst x may not be among the COUNT roots."""


class RootLoss(NamedTuple):
    """The error of a root: the largest, in ulps, and the root mean square, in unit roundoffs."""

    ulps: float
    rms: float


@lru_cache
def native_root_loss(device: Device, lanes: int) -> RootLoss:
    """Return the error that the check allows a native root of vectors of `lanes` elements on a device.

    Mantissas lie evenly in [1, 4), which is all that a root depends on; exponents are drawn.
    """
    random = np.random.default_rng(0)
    x = np.linspace(1, 4, COUNT, endpoint=False, dtype=np.float32)
    x = (x * np.exp2(2.0 * random.integers(-5, 6, COUNT))).astype(np.float32)
    vector = f"float{lanes}" if lanes > 1 else "float"
    source = Source.of(Path(__file__).parent / "native_root.k", VECTOR=vector, LANES=lanes)
    kernel = device.build(source.render(device.backend)).kernel("native_root")
    queue, operand, result = device.queue(), device.upload(x), device.empty(x.nbytes)
    try:
        queue.launch(kernel, (COUNT // lanes,), (GROUP,), operand, result)
        root = queue.read(result, np.empty_like(x)).astype(np.float64)
    finally:
        operand.release()
        result.release()
    off = MARGIN * np.abs(root * np.sqrt(x.astype(np.float64)) - 1) / UNIT_ROUNDOFF
    return RootLoss(float(off.max() / 2), float(np.sqrt(np.mean(off**2))))
