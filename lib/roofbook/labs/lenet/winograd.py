"""The steps by Winograd's algorithm along rows: ten products for four outputs, where the sums themselves take 28."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Buffer, Queue
from ...spec.kernel_constants import constants, work_items
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from .forward import Built, Forward
from .network import KERNEL
from .problem import CONV1, LAYERS, Layer
from .registers import Pooled
from .vectors import ITEMS


class Winograd(Pooled):
    """Two launches a layer, both timed: factors of the weights, then the convolution. Layer 1 reads factors as constants."""

    takes_count = True

    @classmethod
    def operations(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the operations of the products, two for each; those of the transformations are left out."""
        tile, points = (constants(variant.text)[name] for name in ("TILE", "POINTS"))
        rows = sum(
            layer.filters * layer.channels * KERNEL * layer.side * ceil_div(layer.side, tile) for layer in LAYERS
        )
        return 2.0 * points * rows * int(case.params["batch"])

    def set_up(self) -> None:
        self.numbers, self.group = constants(self.source), (work_items(self.source, "winograd"), 1)
        self.matrix = self.device.upload(factor_matrix(points_of(self.numbers)).astype(np.float32))
        self.factors: dict[Layer, tuple[Buffer, Buffer]] = {}
        """Layer -> (factors as they are computed, buffer that the convolution reads)."""

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return self.group

    def turned(self, layer: Layer) -> dict[str, Any]:
        return {**Forward.turned(self, layer), "POOL": layer.pool}

    def build(self, layer: Layer) -> Built:
        program = self.device.build(self.source.with_knobs(**self.turned(layer)).render(self.device.backend))
        weights = self.device.upload(self.weights[layer.name])
        factors = self.device.empty(4 * self.factors_of(layer))
        constant, arguments = program.constant("factors", factors.nbytes) if layer == CONV1 else (factors, (factors,))
        self.factors[layer] = factors, constant
        return Built(program.kernel("winograd"), program.kernel("to_factors"), weights, arguments)

    def factors_of(self, layer: Layer) -> int:
        """Return the number of factors of a layer's weights."""
        return layer.filters * layer.channels * KERNEL * self.numbers["POINTS"]

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        """Return the global size: for layer 1 all columns of tiles, by parts of an image; for layer 2 persistent groups."""
        (items, _), tiles = self.group, ceil_div(layer.side, self.numbers["TILE"])
        room = self.numbers["GROUPS_AT_ONCE"] * self.device.compute_units
        if layer == CONV1:
            groups = ceil_div(count * tiles, items)
            return items * groups, parts_of_image(groups, room, layer.side // self.numbers["EACH_ROWS"])
        return items * min(ceil_div(count * tiles**2, self.numbers["AT_ONCE"]), room), 1

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        built, (factors, constant), (items, _) = self.built[layer], self.factors[layer], self.group
        size = items * ceil_div(self.factors_of(layer), items)
        assert built.before
        queue.launch(built.before, (size,), (items,), built.weights, self.matrix, factors)
        if constant is not factors:
            queue.copy(constant, factors)
        super().launch(layer, queue, x, y, first, count)

    def close(self) -> None:
        super().close()
        for buffer in {self.matrix, *(buffer for pair in self.factors.values() for buffer in pair)}:
            buffer.release()


class WinogradVectors(Winograd):
    """Work-items for a CPU that each take one image after another. `group` is that of the launch for the factors."""

    def set_up(self) -> None:
        super().set_up()
        self.group = (self.numbers["ITEMS"], 1)

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return (1,)

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        return (min(count, ITEMS * self.device.compute_units),)


def parts_of_image(groups: int, room: int, steps: int) -> int:
    """Return into how many parts to divide the steps down an image, so that the last work-group ends soonest.

    groups: work-groups of undivided images. room: work-groups that run at once. The first rows of a part are as much work as
    a sixth of a step.

    >>> parts_of_image(1563, 264, 20), parts_of_image(157, 264, 20), parts_of_image(16, 264, 20)
    (1, 5, 10)
    """
    return min(range(1, steps + 1), key=lambda parts: ceil_div(groups * parts, room) * (ceil_div(steps, parts) + 1 / 6))


def points_of(numbers: Mapping[str, int]) -> tuple[Fraction, ...]:
    """Return the finite points of the algorithm, in the kernel's order, from the integers in its text."""
    positive = [Fraction(numbers[f"POINT_{letter}"], 20) for letter in "ABCD"]
    return (Fraction(0), *(signed for point in positive for signed in (point, -point)))


def factor_matrix(points: Sequence[Fraction], taps: int = KERNEL) -> NDArray[np.float64]:
    """Return the matrix that turns a row of taps into factors: a row for each point, the last one for infinity.

    It is G of Winograd's minimal filtering F(m, r) by the method of Toom and Cook: powers of a point, over its differences to
    the other points (Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for Convolutional
    Neural Networks, arXiv 1509.09308, 2015).
    """
    finite = [
        [point**power / prod(point - other for other in points if other != point) for power in range(taps)]
        for point in points
    ]
    return np.array([*finite, [0] * (taps - 1) + [1]], np.float64)
