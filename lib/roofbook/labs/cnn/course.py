"""The course's files: input.bin, weight.bin and bias.bin in, output.bin out.

They are those of UCLA's CS133, lab 4. All hold float32 in C order, little-endian, and nothing else: the sizes of the layer
follow from the sizes of the files.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...paths import write_whole
from .problem import Array, Layer

Float32 = NDArray[np.float32]
PathLike = str | os.PathLike[str]


def _values(path: Path) -> Float32:
    """Return all float32 values of a file. Raises UsageError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file, expected input.bin, weight.bin and bias.bin in a folder") from None
    except (OSError, ValueError) as failure:
        raise UsageError(f"{path}: cannot be read: {failure}") from None
    if not data or len(data) % 4:
        raise UsageError(f"{path}: has {len(data)} bytes, expected a multiple of 4, float32 values, and at least one")
    return np.frombuffer(data, "<f4").astype(np.float32)


def _shaped(path: Path, values: Float32, shape: tuple[int, ...]) -> Float32:
    values = values.reshape(shape)
    finite = np.isfinite(values)
    if not finite.all():
        index = tuple(np.argwhere(~finite)[0].tolist())
        position = ", ".join(map(str, index))
        raise UsageError(f"{path}: the value at [{position}] is {values[index]}, expected finite numbers")
    return values


def read(folder: PathLike, kernel: int = 5) -> tuple[Layer, Float32, Float32, Float32]:
    """Read a folder's files: the layer, and its x (C, S, S), weight (O, C, kernel, kernel) and bias (O,).

    O is the size of the bias, C follows from that of the weights, and S = height + kernel - 1 from that of the input, which
    is square. Raises UsageError, which names the file, its size and the expected size.
    """
    if kernel < 1:
        raise UsageError(f"kernel must be 1 or more, not {kernel}")
    input_path, weight_path, bias_path = (Path(folder) / f"{name}.bin" for name in ("input", "weight", "bias"))
    x, weight, bias = map(_values, (input_path, weight_path, bias_path))
    filters, slices = bias.size, bias.size * kernel**2
    channels, remainder = divmod(weight.size, slices)
    if remainder:
        raise UsageError(
            f"{weight_path}: has {weight.nbytes} bytes, expected a multiple of {4 * slices}:"
            f" a {kernel}x{kernel} kernel of float32 for each of the {filters} filters of {bias_path.name}"
        )
    side = round(math.sqrt(x.size / channels))
    least_side = kernel + 1
    if channels * side**2 != x.size or side < least_side:
        right = 4 * channels * max(side, least_side) ** 2
        raise UsageError(
            f"{input_path}: has {x.nbytes} bytes, expected {channels} square channels, as in {weight_path.name},"
            f" of {least_side}x{least_side} float32 or more, such as {right} bytes"
        )
    layer = Layer(channels, filters, side - kernel + 1, side - kernel + 1, kernel)
    x = _shaped(input_path, x, layer.x_shape)
    return layer, x, _shaped(weight_path, weight, layer.weight_shape), _shaped(bias_path, bias, layer.bias_shape)


def write_output(folder: PathLike, out: Array) -> Path:
    """Write output.bin, out (O, H//2, W//2) as float32, and return its path.

    An earlier output is replaced only by a complete new one. Raises UsageError.
    """
    target = Path(folder) / "output.bin"
    try:
        target.parent.stat()  # a folder that is mistyped is not made
        write_whole(target, out.astype("<f4").tobytes(), durable=True)
    except OSError as failure:
        raise UsageError(f"{target}: cannot be written: {failure.strerror}") from None
    return target
