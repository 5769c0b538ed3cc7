"""The rungs past the published end: outputs in registers, with ReLU and pool as well, in fp16, and on tensor cores."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...device import Buffer, Queue
from .forward import Forward, ceiling
from .problem import CONV1, Layer

EACH = {"conv1": (4, 4, 4), "conv2": (4, 4, 4)}
"""Filters, rows and columns of a work-item, by layer."""
BANDS = {"conv1": 2, "conv2": 1}
"""Groups an image, by layer."""


class Registers(Forward):
    """A group some rows of one image, a work-item a block of outputs. Options `each` and `bands`, by layer, set its shape."""

    def set_up(self) -> None:
        each, bands = (
            {**EACH, **self.variant.options.get("each", {})},
            {**BANDS, **self.variant.options.get("bands", {})},
        )
        self.each, self.bands = each, bands

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        filters, rows, columns = self.each[layer.name]
        below = ceiling(ceiling(layer.side, rows), self.bands[layer.name])
        return 32 * ceiling(ceiling(layer.side, columns) * below * (layer.filters // filters), 32), 1

    def turned(self, layer: Layer) -> dict[str, Any]:
        filters, rows, columns = self.each[layer.name]
        shape = {"EACH_FILTERS": filters, "EACH_ROWS": rows, "EACH_COLUMNS": columns, "BANDS": self.bands[layer.name]}
        return {**super().turned(layer), **shape, "POOL": layer.pool}

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        return self.group_of(layer)[0] * self.bands[layer.name], count


class Pooled(Registers):
    """The same with ReLU and pool in registers: what leaves a layer is the next one's input."""

    def y_shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.pooled_shape

    def pool(self, layer: Layer, y: Buffer) -> NDArray[np.float32]:
        return self.y[layer]

    def maps(self) -> dict[str, NDArray[np.floating]]:
        return {layer.name.replace("conv", "pool"): y for layer, y in self.y.items()}


class Tensor(Pooled):
    """NVIDIA's tensor cores in fp16, with sums in fp32: blocks that stay, and take one image after another."""

    def set_up(self) -> None:
        """Its shape is the kernel's own."""

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return (128,)

    def turned(self, layer: Layer) -> dict[str, Any]:
        return Forward.turned(self, layer)

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        at_once = 8 if layer == CONV1 else 4
        return (128 * min(count, at_once * self.device.compute_units),)

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        built, range_ = self.built[layer], (np.int32(first), np.int32(count))
        queue.launch(built.kernel, self.size(layer, count), self.group_of(layer), x, y, *range_, *built.arguments)
