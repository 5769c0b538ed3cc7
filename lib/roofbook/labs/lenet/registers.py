"""The first steps after the published ones: outputs in registers, with ReLU and pool as well, in fp16, and on tensor cores."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Buffer
from ...spec.kernel_constants import work_items
from ...spec.kernel_run import ceil_div
from .forward import Forward
from .problem import CONV1, Layer, convolution_bytes, pooled_bytes


class Shape(NamedTuple):
    """The partition of a layer's work: filters, rows and columns of a work-item, and work-groups."""

    filters: int
    rows: int
    columns: int
    bands: int = 1
    """Number of groups an image."""
    at_once: int = 1
    """Number of groups that must fit on a multiprocessor."""

    @classmethod
    def of(cls, text: str) -> Shape:
        """Parse `4x4x4` or `4x4x4/2x1`, with bands and groups at once after the stroke."""
        return cls(*map(int, text.replace("/", "x").split("x")))


class Registers(Forward):
    """Some rows of one image a group, a block of outputs a work-item. Options `conv1` and `conv2` set a layer's `Shape`."""

    best: Mapping[str, str] = {"conv1": "4x2x5/4x3", "conv2": "4x2x4"}
    """Default shapes, the fastest of those tried."""

    traffic = staticmethod(convolution_bytes)

    def set_up(self) -> None:
        self.shapes = {name: Shape.of(self.variant.options.get(name, shape)) for name, shape in self.best.items()}

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        shape = self.shapes[layer.name]
        rows_of_blocks = ceil_div(ceil_div(layer.side, shape.rows), shape.bands)
        workers = ceil_div(layer.side, shape.columns) * rows_of_blocks * (layer.filters // shape.filters)
        return 32 * ceil_div(workers, 32), 1

    def turned(self, layer: Layer) -> dict[str, Any]:
        shape = self.shapes[layer.name]
        sizes_of_item = {"EACH_FILTERS": shape.filters, "EACH_ROWS": shape.rows, "EACH_COLUMNS": shape.columns}
        cut = {"BANDS": shape.bands, "GROUPS_AT_ONCE": shape.at_once, "POOL": layer.pool}
        return {**super().turned(layer), **sizes_of_item, **cut}

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        return self.group_of(layer)[0] * self.shapes[layer.name].bands, count


class Pooled(Registers):
    """A block of outputs a work-item, with ReLU and pool in registers: a layer's output is the next one's input."""

    pooled = True
    best: Mapping[str, str] = {"conv1": "4x2x4/5x3", "conv2": "2x4x4/3x2"}

    traffic = staticmethod(pooled_bytes)

    def y_shape(self, layer: Layer) -> tuple[int, ...]:
        return layer.pooled_shape

    def pool(self, layer: Layer, y: Buffer) -> NDArray[np.float32]:
        return self.y[layer]

    def maps(self) -> dict[str, NDArray[np.floating]]:
        return {layer.name.replace("conv", "pool"): y for layer, y in self.y.items()}


class Tensor(Pooled):
    """NVIDIA's tensor cores in fp16, with sums in fp32: persistent blocks take one image after another."""

    takes_count = True

    def set_up(self) -> None:
        """Do nothing: the kernel has a fixed shape."""

    @cached_property
    def items(self) -> int:
        """Number of work-items of a group, which the kernel's text fixes."""
        return work_items(self.source, self.source.path.stem)

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return (self.items,)

    def turned(self, layer: Layer) -> dict[str, Any]:
        return Forward.turned(self, layer)

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        at_once = 8 if layer == CONV1 else 4
        return (self.group_of(layer)[0] * min(count, at_once * self.device.compute_units),)
