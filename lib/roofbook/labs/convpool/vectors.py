"""The steps for CPUs: explicit vectors, one launch without a barrier, and blocks that fit the nearest cache."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from .plans import Convolution, nonzero_weights

COLUMNS = 32
"""Number of columns of a tile: two vectors of vectors.k."""
NEAREST = 24 << 10
"""Bytes of input that must stay in the nearest cache with lists and sums: half of 48 KiB, or most of 32."""
ITEMS = 16
"""Least number of work-items a core. PoCL gives each thread that asks a share of all: with more, shares are more even."""


class Vectors(Convolution):
    """One work-item a filter, from its list to its pooled map."""

    kernel_name = "vectors"
    group = (1,)
    together = 1

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes, the entries of the lists written and read."""
        return least + 16 * nonzero_weights(case)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.entries = device.empty(8 * inputs["weight"].size)
        self.buffers.append(self.entries)

    def lay_out(self) -> tuple[int, ...]:
        self.chunk = self.layer.depth
        return (ceil_div(self.layer.filters, self.together),)

    def turned(self) -> dict[str, Any]:
        return {"TOGETHER": self.together, "CHUNK": self.chunk}

    def place(self, padded: np.ndarray) -> Buffer:
        """Copy the input to the device, with zeros behind it, since tiles reach over its edges."""
        slack = np.zeros(self.constants["ROWS"] * padded.shape[2] + COLUMNS, padded.dtype)
        return self.device.upload(np.concatenate([padded.ravel(), slack]))

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.weight, self.entries, self.out)


class Cached(Vectors):
    """Several filters a work-item, some channels at a time: as many as fit the cache, in turns of equal length."""

    def lay_out(self) -> tuple[int, ...]:
        one, source = self.layer, self.variant.text
        self.together = min(
            int(source.settings["TOGETHER"]), max(1, one.filters // (ITEMS * self.device.compute_units))
        )
        of_a_channel = 2 * (one.size + one.kernel - 1) * (self.constants["ROWS"] + one.kernel - 1)
        turns = ceil_div(one.depth, max(1, NEAREST // of_a_channel))
        self.chunk = ceil_div(one.depth, turns)
        return (ceil_div(one.filters, self.together),)
