"""The step for CPUs: four rows by a vector of columns in registers, a few filters at a time (four_rows.k)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant, least_bytes
from .plans import Convolution


class FourRows(Convolution):
    """One work-item for four rows by a vector of columns, of all filters."""

    kernel_name = "four_rows"

    traffic = staticmethod(least_bytes)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        x = inputs["x"]
        self.lanes = 16 if device.vector_floats >= 16 else 8
        beyond = np.zeros(4 * x.shape[2] + 16, np.float32)  # the last work-items read beyond the last row
        super().__init__(device, variant, case, {**inputs, "x": np.concatenate([x.ravel(), beyond])})

    def lay_out(self) -> tuple[int, ...]:
        return (ceil_div(self.layer.width // 2 * 2, self.lanes), ceil_div(self.layer.height // 2 * 2, 4), 1)

    def turned(self) -> dict[str, Any]:
        """Return the knobs: as many filters at once as leave room in the registers for inputs."""
        return {"LANES": self.lanes, "FILTERS_AT_ONCE": self.lanes // 4}
