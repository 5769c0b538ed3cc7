"""Operands as the last tensor-core steps take them: how they are packed, on every device, and the sum of their products.

The products are summed here as the tensor cores do, from operands that a device packed; so a part, a tap or a channel that
lies in the wrong place shows without a GPU.
"""

from __future__ import annotations

from dataclasses import asdict

import numpy as np
import pytest

from roofbook.devices.contract import Device
from roofbook.labs.cnn import LAB
from roofbook.labs.cnn.plans import HERE
from roofbook.labs.cnn.problem import Layer, _pooled, inputs
from roofbook.spec.kernel_run import ceil_div
from roofbook.spec.plan import Case
from roofbook.spec.source import Source

from ...mutants import Array
from ..unoptimised_builds import unoptimised

SCALE = 2048.0
LAYERS = ["3to5ch-7x34-k4", "66to3ch-5x29-k4", "33to257ch-3x8-k1"]
"""Layers with one line of channels or two, 256 filters or twice as many, rows of the input that four divides or does not."""


class Form:
    """The layout of a layer's operands in memory: `parts` numbers of `size` bytes each, as pack_operands.k writes them."""

    def __init__(self, layer: Layer, operands: str) -> None:
        parts, self.size = {"SPLIT": (2, 2), "TF32": (1, 4)}[operands]
        depth = 128 // self.size
        slices, filters = ceil_div(layer.channels, depth), 256 * ceil_div(layer.filters, 256)
        rows, columns = layer.x_shape[1:]
        self.pixels = (parts, rows, columns, slices * depth)
        self.taps = (parts, layer.kernel**2, filters, slices * depth)
        self.groups = slices * (filters + ceil_div(columns, 32) * rows)
        """Number of work-groups of 256 that pack."""


def packed(device: Device, layer: Layer, operands: str, text: tuple[str, str] = ("", "")) -> tuple[Array, Array]:
    """Return packed (pixels, taps) in the shapes of their Form, as bits. text: (text in the kernel, its replacement)."""
    form, drawn = Form(layer, operands), inputs(layer, 7)
    source = Source.of(HERE / "pack_operands.k", OPERANDS=operands).of_size(LAB.sizes(case_of(layer)))
    kernel = source.render(device.backend)
    assert not text[0] or kernel.count(text[0]) == 1
    queue, bits = device.queue(), np.uint16 if form.size == 2 else np.uint32
    outputs = [np.full(shape, -1, np.int64).astype(bits) for shape in (form.pixels, form.taps)]
    buffers = [device.upload(array) for array in (drawn["x"], drawn["weight"], *outputs)]
    with unoptimised():
        pack = device.build(kernel.replace(*text)).kernel("pack")
    queue.launch(pack, (256 * form.groups,), (256,), *buffers)
    for buffer, output in zip(buffers[2:], outputs, strict=True):
        queue.read(buffer, output)
    for buffer in buffers:
        buffer.release()
    return outputs[0], outputs[1]


def case_of(layer: Layer) -> Case:
    return Case(layer.name, "test", {"layer": asdict(layer)}, 1)


def parts(array: Array, operands: str) -> Array:
    """Return the expected packed bits of a float32 array, the parts foremost."""
    if operands == "TF32":  # halves away from zero: half of the last digit that stays is added, the rest cut off
        return (array.view(np.uint32) + np.uint32(0x1000) & np.uint32(0xFFFFE000))[None]
    high = array.astype(np.float16)
    low = ((array - high.astype(np.float32)) * np.float32(SCALE)).astype(np.float16)
    return np.stack([high, low]).view(np.uint16)


def padded(array: Array, shape: tuple[int, ...]) -> Array:
    return np.pad(array, [(0, most - side) for side, most in zip(array.shape, shape, strict=True)])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("operands", ["SPLIT", "TF32"])
def test_operands_are_rounded_laid_out_and_filled_up(device: Device, operands: str, name: str) -> None:
    layer = Layer.named(name)
    form, drawn = Form(layer, operands), inputs(layer, 7)
    pixels, taps = packed(device, layer, operands)
    x = drawn["x"].transpose(1, 2, 0)
    weight = drawn["weight"].reshape(layer.filters, layer.channels, -1).transpose(2, 0, 1)
    np.testing.assert_array_equal(pixels, padded(parts(np.ascontiguousarray(x), operands), form.pixels))
    np.testing.assert_array_equal(taps, padded(parts(np.ascontiguousarray(weight), operands), form.taps))


def of_products(layer: Layer, pixels: Array, taps: Array, small: float = 1 / SCALE) -> Array:
    """Return the layer's output by the products of tensor_split.cu: 64 channels of a tap are summed apart."""
    high, low = (np.moveaxis(parts_of_pixels.view(np.float16).astype(np.float32), -1, 0) for parts_of_pixels in pixels)
    sums = np.zeros((taps.shape[2], layer.height, layer.width), np.float32)
    for first in range(0, high.shape[0], 64):
        for tap in range(layer.kernel**2):
            p, q = divmod(tap, layer.kernel)
            shifted = [
                channels[first : first + 64, p : p + layer.height, q : q + layer.width] for channels in (high, low)
            ]
            of_high, of_low = taps[:, tap, :, first : first + 64].view(np.float16).astype(np.float32)
            summed = np.tensordot(of_low, shifted[0], 1) + np.tensordot(of_high, shifted[1], 1)
            sums += np.float32(small) * summed + np.tensordot(of_high, shifted[0], 1)
    with_bias = sums[: layer.filters] + inputs(layer, 7)["bias"][:, None, None]
    return _pooled(np.maximum(with_bias, 0))


@pytest.mark.parametrize(
    ("text", "small", "right"),
    [
        (("", ""), 1 / SCALE, True),
        (("", ""), 0.0, False),
        (("", ""), 1.0, False),
        (("half_of((value - widened(high)) * 2048.0f)", "high"), 1 / SCALE, False),
        (("(part * (5 * 5) + tap) * ", "(part * (5 * 5) + 24 - tap) * "), 1 / SCALE, False),
    ],
    ids=["right", "no small products", "small products unscaled", "two high parts", "the last tap first"],
)
def test_three_products_of_what_was_packed_have_the_error_of_fp32(
    device: Device, text: tuple[str, str], small: float, right: bool
) -> None:
    layer = Layer.named("66to8ch-6x16-k5")
    case, drawn = case_of(layer), inputs(layer, 7)
    out = of_products(layer, *packed(device, layer, "SPLIT", text), small)
    error, tolerance, _ = LAB.check(case, LAB.variant("tensor-split-window"), {"out": out}, LAB.reference(case, drawn))
    assert (error <= tolerance) == right
