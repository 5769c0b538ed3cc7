"""The whole forward pass on the device: both convolutions with ReLU and pool, then both dense layers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device
from ...spec.kernel_constants import constants, work_items
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from ...spec.source import Source
from .forward import HERE, POISON, Forward
from .problem import CONV2, LAYERS, conditions_of_whole
from .registers import Pooled, Tensor


class Whole(Forward):
    """The whole forward pass. Memory is allocated once, maps stay on the device. Option `graph`: launched as one CUDA graph.

    `run` returns the seconds of all kernels, those of the dense layers included. The part `pass` is the host's time for a
    batch: copy in, kernels, copy of the scores out.
    """

    conditions = staticmethod(conditions_of_whole)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        values = int(np.prod(CONV2.pooled_shape))
        self.build_dense(Source.of(HERE / "dense.k", VALUES=values))
        shapes = [(self.batch, *LAYERS[0].x_shape), *((self.batch, *self.y_shape(layer)) for layer in LAYERS)]
        self.stages = [device.empty(4 * int(np.prod(shape))) for shape in shapes]
        self.out = device.empty(self.scores.nbytes)
        self.graph = self.queue.record(self.submit) if variant.options.get("graph") else None

    def submit(self) -> None:
        for number, layer in enumerate(LAYERS):
            self.launch(layer, self.queue, self.stages[number], self.stages[number + 1], 0, self.batch)
        self.submit_dense(self.stages[-1])

    def build_dense(self, source: Source) -> None:
        """Build the kernel of both dense layers, and lay out its launch."""
        self.kernel = self.device.build(source.render(self.device.backend)).kernel("dense")
        self.dense_group = (work_items(source, "dense"),)
        self.dense_size = (self.dense_group[0] * ceil_div(self.batch, constants(source)["IMAGES"]),)

    def submit_dense(self, pooled: Buffer) -> None:
        self.queue.launch(
            self.kernel, self.dense_size, self.dense_group, pooled, *self.dense, self.out, np.int32(self.batch)
        )

    def run(self) -> float:
        if self.poisoned:
            for buffer in (*self.stages[1:], self.out):
                self.queue.fill(buffer, POISON)
        everything = self.graph.launch if self.graph else self.submit
        start = time.perf_counter()
        self.queue.write(self.stages[0], self.x)
        everything()
        self.queue.read(self.out, self.scores)
        self.parts = {"pass": time.perf_counter() - start}
        if self.poisoned:
            for buffer, layer in zip(self.stages[1:], LAYERS, strict=True):
                self.queue.read(buffer, self.y[layer])
            self.kept, self.poisoned = self.outcome(), False
        return self.queue.timed(everything)

    def close(self) -> None:
        super().close()
        for buffer in (*self.stages, self.out):
            buffer.release()


class WholePooled(Whole, Pooled):
    """The whole pass, with convolutions in registers."""


class WholeTensor(Whole, Tensor):
    """The whole pass, with convolutions on tensor cores."""
