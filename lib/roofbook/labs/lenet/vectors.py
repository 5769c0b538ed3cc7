"""The steps for a CPU: whole images a work-item, explicit vectors, no barriers."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...devices.contract import Buffer, Queue
from .forward import Forward
from .problem import Layer
from .registers import Pooled

ITEMS = 32
"""Work-items a core at most. PoCL gives the first thread that asks a share of all: the fewer, the less even."""


class Vectors(Forward):
    """A work-item takes one image after another."""

    group = (1,)

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return self.group

    def turned(self, layer: Layer) -> dict[str, Any]:
        """Vectors of filters only where there are sixteen."""
        few = {"LANES": "COLUMNS"} if layer.filters < 16 else {}
        return {**Forward.turned(self, layer), "POOL": layer.pool, **few}

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        return (min(count, ITEMS * self.device.compute_units),)

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        built, range_ = self.built[layer], (np.int32(first), np.int32(count))
        queue.launch(built.kernel, self.size(layer, count), self.group, x, y, *range_, *built.arguments)


class PooledVectors(Vectors, Pooled):
    """The same with ReLU and pool: what leaves a layer is the next one's input."""
