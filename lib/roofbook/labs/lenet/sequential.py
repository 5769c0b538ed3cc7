"""The plan of the convolutions' plain loops, compiled as C, on one thread."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device, Kernel
from ...peers import one_thread
from ...spec.plan import Case, Variant
from .peers import OpenMP
from .problem import LAYERS


class SequentialC(OpenMP):
    """Each convolution is a call. Two calls are made, and the second is timed."""

    sources = ()  # type: ignore[assignment]  # not the page of C

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        host, self.kernels = one_thread.OneThread(device), dict[int, Kernel]()
        self.units, self.queue = case.units, host.queue()
        self.flags, self.threads, self.note = one_thread.FLAGS, 1, None
        for layer in LAYERS:
            sizes = {"CHANNELS": layer.channels, "FILTERS": layer.filters, "SIZE": layer.size}
            text = variant.text.with_knobs(**sizes).render(host.backend)
            self.kernels[layer.size] = host.build(text).kernel("sequential")
        self.prepare(inputs)

    def call(self, *values: Any) -> None:
        images, _, _, size, x, weights, y = values
        self.queue.launch(self.kernels[size], (1,), (1,), x, y, np.int32(images), weights)
