"""The sparse convolution layer in NumPy: sizes, seeded inputs, exact reference, guard against overflow, sparse lists.

out = maxpool2x2(ReLU(conv(x))), int16 in, int32 out; every variant and peer of the lab must equal `reference` exactly.
The convolution is a cross-correlation with zero padding of kernel//2; the pool has stride 2 and drops an odd last row or
column.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError

Shape = tuple[int, ...]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]

LARGEST = 60
"""Largest absolute value of an input or weight: exact in int8, and 60**2 times the 4608 products of an output < 2**24, so
that sums in fp32 are exact for the published layers, in any order and at any density."""

WIDEST = 200
"""Absolute value of a weight that takes more than 8 bits, to verify variants that read 16."""

NARROWEST = 7
"""Largest absolute value of a weight to verify peers whose results are fp16, which ends at 65504.

A sum of n products has the standard deviation sqrt(n d) * 35 * 6.8, with d the density of `x`: 7,200 for the 4608 products of a
published filter without zeros, so that 65504 is 9 deviations away. With weights up to LARGEST it is less than 2.
"""

NEURON_DENSITY = 204 / 1024  # published

_SHARE = r"(?:0|[1-9][0-9]?)(?:\.[0-9]{0,2}[1-9])?"  # one way to write each, since the name identifies a case
_ZEROS = re.compile(rf"(.*?)(?:-w({_SHARE}))?(?:-x({_SHARE}))?")
_NAME = re.compile(r"([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})x([0-9]{1,9})-k([0-9]{1,9})")


@dataclass(frozen=True)
class Layer:
    """The sizes of a layer: `filters` filters, kernel x kernel, over `depth` maps, size x size. Raises UsageError."""

    depth: int
    filters: int
    size: int
    kernel: int

    def __post_init__(self) -> None:
        for name, least in (("depth", 1), ("filters", 1), ("size", 2), ("kernel", 1)):
            if getattr(self, name) < least:
                raise UsageError(f"{name} of a layer must be {least} or more, not {getattr(self, name)}")
        if self.kernel % 2 == 0:
            raise UsageError(f"kernel of a layer must be odd (padding keeps the size of the map), not {self.kernel}")
        for name in ("depth", "size", "kernel"):
            if getattr(self, name) > 2**15:
                raise UsageError(f"{name} of a layer must be at most 32768 (16-bit lists), not {getattr(self, name)}")
        for name, shape in (("x", self.x_shape), ("weight", self.weight_shape), ("conv", self.conv_shape)):
            if math.prod(shape) >= 2**31:
                sizes = "x".join(map(str, shape))
                raise UsageError(f"{name} of a layer must have below 2**31 values (32-bit indices), not {sizes}")

    @classmethod
    def named(cls, text: str) -> Layer:
        """Return the layer with a `name`. Raises UsageError.

        >>> Layer.named("256x192x28x28-k3")
        Layer(depth=192, filters=256, size=28, kernel=3)
        """
        match = _NAME.fullmatch(text)
        if match is None or match[3] != match[4]:
            quoted = repr(text if len(text) <= 40 else text[:37] + "...")
            raise UsageError(f"unknown layer {quoted}; valid: filters x depth x square map, such as 256x192x28x28-k3")
        filters, depth, size, _, kernel = map(int, match.groups())
        return cls(depth, filters, size, kernel)

    @property
    def name(self) -> str:
        """The layer's name: filters, depth, map and kernel, such as `256x192x28x28-k3`."""
        return f"{self.filters}x{self.depth}x{self.size}x{self.size}-k{self.kernel}"

    @property
    def x_shape(self) -> Shape:
        """Shape of the input, not padded."""
        return self.depth, self.size, self.size

    @property
    def weight_shape(self) -> Shape:
        return self.filters, self.depth, self.kernel, self.kernel

    @property
    def conv_shape(self) -> Shape:
        return self.filters, self.size, self.size

    @property
    def out_shape(self) -> Shape:
        return self.filters, self.size // 2, self.size // 2

    @property
    def flops(self) -> int:
        """Operations of the dense convolution alone, padding included: two for each product."""
        return 2 * self.depth * self.kernel**2 * math.prod(self.conv_shape)

    @property
    def bytes(self) -> int:
        """Bytes of input and weights in int16 and output in int32, each once."""
        return 2 * (math.prod(self.x_shape) + math.prod(self.weight_shape)) + 4 * math.prod(self.out_shape)


def named(text: str) -> tuple[Layer, float | None, float | None]:
    """Return the layer of a name, and the % of zeros in each filter's weights and in each channel's inputs, or None.

    >>> named("512x512x32x32-k3-w50-x98.4")
    (Layer(depth=512, filters=512, size=32, kernel=3), 50.0, 98.4)
    """
    match = _ZEROS.fullmatch(text)
    assert match is not None, "each part of the pattern is optional"
    layer, weights, values = match.groups()
    return Layer.named(layer), *(None if zeros is None else float(zeros) for zeros in (weights, values))  # type: ignore[return-value]


PUBLISHED = (Layer(512, 512, 32, 3), Layer(192, 256, 28, 3), Layer(96, 128, 27, 5))
CASES = {
    "quick": ("64x64x32x32-k3",),
    "published": tuple(layer.name for layer in PUBLISHED),
    "large": ("1024x1024x32x32-k3",),
    "test": ("5x7x9x9-k3", "3x2x7x7-k5"),
}
"""Scale -> names of the layers of its cases."""
PUBLISHED_CASES = {"512 filters x 512 deep x 3x3, 32x32 map": PUBLISHED[0].name}
"""Case name in results/published -> name of the layer."""


def inputs(
    layer: Layer, seed: int, filter_density: float | None = None, neuron_density: float | None = None
) -> dict[str, Int16]:
    """Draw `x` and `weight` in the layer's shapes; their non-zero values are uniform over -LARGEST..-1 and 1..LARGEST.

    A density is the share of non-zeros, above 0 and up to 1. Exactly that share, rounded and at least one, is not zero in each
    channel of `x`, or in each filter over all of its depth. The default is the published one: 204 of 1024 neurons of each
    channel, and one weight in each kernel x kernel slice of a filter. `x` does not depend on `filter_density`. Raises
    UsageError.
    """
    for name, density in (("filter_density", filter_density), ("neuron_density", neuron_density)):
        if density is not None and not 0 < density <= 1:
            raise UsageError(f"{name} (share of non-zeros) must be above 0 and at most 1, not {density}")
    generator = np.random.default_rng(seed)

    def sparse(shape: Shape, group: int, density: float) -> Int16:
        """Draw values of which the same number is not zero in each `group` of neighbours."""
        count = max(1, round(density * group))
        ranks = generator.random((math.prod(shape) // group, group))
        values = generator.integers(-LARGEST, LARGEST, ranks.shape, dtype=np.int16)
        values[values >= 0] += 1
        np.put_along_axis(values, ranks.argpartition(count - 1, axis=1)[:, count:], 0, axis=1)
        return values.reshape(shape)

    x = sparse(layer.x_shape, layer.size**2, NEURON_DENSITY if neuron_density is None else neuron_density)
    slice_size = layer.kernel**2
    if filter_density is None:
        return {"x": x, "weight": sparse(layer.weight_shape, slice_size, 1 / slice_size)}
    return {"x": x, "weight": sparse(layer.weight_shape, layer.depth * slice_size, filter_density)}


def widened(drawn: Mapping[str, Int16]) -> dict[str, Int16]:
    """Return inputs in which the largest weight of each filter becomes WIDEST, with its sign: a byte cannot hold it.

    The timed inputs fit bytes, for the steps in int8: on them, a kernel that cuts weights to 8 bits would be right. Sums in
    fp32 stay exact for the published layers.
    """
    weight = drawn["weight"].copy()
    flat = weight.reshape(len(weight), -1)
    rows, largest = np.arange(len(flat)), np.abs(flat).argmax(axis=1)
    flat[rows, largest] = WIDEST * np.sign(flat[rows, largest])
    return {**drawn, "weight": weight}


def narrowed(drawn: Mapping[str, Int16]) -> dict[str, Int16]:
    """Return inputs with larger weights cut to NARROWEST, with their sign, so that fp16 holds results of published layers.

    The inputs with which a peer is timed stay as they are, and its results on them are checked: a layer whose timed results
    exceed fp16 is wrong.
    """
    return {**drawn, "weight": drawn["weight"].clip(-NARROWEST, NARROWEST)}


def irregular(drawn: Mapping[str, Int16]) -> dict[str, Int16]:
    """Return inputs with the values of `x` and `weight` permuted, so that lists of non-zeros differ in length.

    Published inputs have equally many non-zeros in each channel, and one in each slice of a filter. On these, a kernel would be
    right that reads only the first entry of a list, or another list's length. Here one slice is empty and the next full; with
    four filters or more, one filter has only zeros and the next has none.
    """
    generator = np.random.default_rng(0)
    x, weight = (generator.permutation(drawn[name].ravel()).reshape(drawn[name].shape) for name in ("x", "weight"))

    def nowhere_zero(shape: Shape) -> Int16:
        values: Int16 = generator.integers(1, LARGEST + 1, shape, np.int16)
        return np.where(generator.random(shape) < 0.5, -values, values)

    slices = weight.reshape(-1, *weight.shape[2:])
    if len(slices) > 1:
        slices[len(slices) // 3] = 0
        slices[len(slices) // 3 + 1] = nowhere_zero(slices.shape[1:])
    if len(weight) > 3:
        weight[len(weight) // 2] = 0
        weight[len(weight) // 2 + 1] = nowhere_zero(weight.shape[1:])
    return {**drawn, "x": x, "weight": weight}


def _convolved(x: NDArray[np.integer] | NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return sums (filters, size, size), by a matrix product for each element of a slice: exact while no sum reaches 2**53."""
    filters, depth, kernel, _ = weight.shape
    size = x.shape[1]
    padding = kernel // 2
    padded = np.pad(x.astype(np.float64), ((0, 0), (padding, padding), (padding, padding)))
    sums = np.zeros((filters, size * size))
    for row in range(kernel):
        for column in range(kernel):
            window = padded[:, row : row + size, column : column + size]
            sums += weight[:, :, row, column] @ window.reshape(depth, -1)
    return sums.reshape(filters, size, size)


def guard(layer: Layer, x: Int16, weight: Int16) -> None:
    """Raise UsageError if |w||x|, summed over an output of the convolution, exceeds 2**31-1.

    Otherwise no order of summation overflows int32. The test is exact: float64 is exact up to 2**53, and larger sums stay far
    above 2**31. The sums are computed only if the largest input and the largest filter do not already exclude an overflow.
    """
    for name, array, shape in (("x", x, layer.x_shape), ("weight", weight, layer.weight_shape)):
        if array.shape != shape or array.dtype != np.int16:
            raise UsageError(f"{name} of {layer.name} must be int16 {shape}, not {array.dtype} {array.shape}")
    limit = 2**31 - 1
    x_size, weight_size = np.abs(x.astype(np.float64)), np.abs(weight.astype(np.float64))
    if x_size.max() * weight_size.sum(axis=(1, 2, 3)).max() <= limit:
        return
    largest = _convolved(x_size, weight_size).max()
    if largest > limit:
        raise UsageError(f"sums of |w||x| in {layer.name} must be at most {limit} (int32), not {largest:.0f}")


def reference(layer: Layer, x: Int16, weight: Int16) -> dict[str, Int32]:
    """Return the right `out`, int32 of `layer.out_shape`: exact, since `guard` refuses sums of 2**31 or more.

    Raises UsageError if `guard` does.
    """
    guard(layer, x, weight)
    sums = _convolved(x, weight.astype(np.float64))
    filters, height, width = layer.out_shape
    windows = sums[:, : 2 * height, : 2 * width].reshape(filters, height, 2, width, 2)
    return {"out": windows.max(axis=(2, 4), initial=0).astype(np.int32)}


def lists(slices: Int16) -> tuple[Int32, Int16]:
    """Return the non-zeros of slices (..., channels, rows, columns), such as `weight` or `x`: (offsets, entries).

    Entries (n, 4) are x (column), y (row), value and channel, sorted by slice, then row, then column; those of slice s, with
    slices counted in row-major order, begin at offsets[s] and end before offsets[s + 1].
    """
    channels, rows, columns = slices.shape[-3:]
    flat = slices.reshape(-1, rows, columns)
    slice_numbers, y, x = np.nonzero(flat)
    entries = np.stack([x, y, flat[slice_numbers, y, x], slice_numbers % channels], axis=1).astype(np.int16)
    offsets = np.concatenate([[0], np.bincount(slice_numbers, minlength=len(flat)).cumsum()]).astype(np.int32)
    return offsets, entries


def dense(offsets: Int32, entries: Int16, shape: Shape) -> Int16:
    """Return the array of `shape` whose `lists` are `offsets` and `entries`."""
    x, y, value, _ = entries.T
    flat = np.zeros((len(offsets) - 1, *shape[-2:]), np.int16)
    flat[np.repeat(np.arange(len(flat)), np.diff(offsets)), y, x] = value
    return flat.reshape(shape)


def check(out: NDArray[np.generic], right: Int32, roundoff: float = 0.0) -> tuple[int, int]:
    """Return (number of values of `out` that differ from `right`, number of all values). Raises ValueError for other shapes.

    With `roundoff` above 0 a value may be wrong by that share of the right one, or by 1/2: `out` was rounded to an integer.
    """
    if out.shape != right.shape:
        raise ValueError(f"shapes differ: {out.shape} and {right.shape}")
    if not roundoff:
        return int(np.count_nonzero(out != right)), right.size
    close = np.abs(out.astype(np.float64) - right) <= np.maximum(roundoff * np.abs(right.astype(np.float64)), 0.5)
    return int(np.count_nonzero(~close)), right.size
