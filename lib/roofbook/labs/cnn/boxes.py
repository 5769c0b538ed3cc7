"""The last tensor-core steps: operands packed in one launch (pack_operands.k), and boxes of pixels used for all taps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...devices.hopper import COMPILER_OPTIONS, tensor_map
from ...spec.kernel_run import Converting, ceil_div
from ...spec.lab import Case, Variant
from ...spec.source import Source
from .plans import HERE, Convolution, layer, operand_bytes, too_large_for_a_box
from .problem import Layer

LINE, TILE_I, TILE_H, STAGES_BYTES = 128, 128, 8, 230400
"""Bytes of a line, filters and rows of a block, bytes of its shared memory: constants of operands.h and tensor_window.cu."""


class Form:
    """The layout of a layer's operands in memory: `parts` numbers of `size` bytes each, as pack_operands.k writes them."""

    def __init__(self, layer: Layer, operands: str) -> None:
        self.layer, self.parts, self.size = layer, *{"SPLIT": (2, 2), "TF32": (1, 4)}[operands]
        self.depth = LINE // self.size
        """Number of channels in a line."""
        self.slices = ceil_div(layer.channels, self.depth)
        self.channels, self.filters = self.slices * self.depth, 2 * TILE_I * ceil_div(layer.filters, 2 * TILE_I)
        self.rows, self.columns = layer.x_shape[1:]
        self.pixels = (self.parts, self.rows, self.columns, self.channels)
        self.taps = (self.parts, layer.kernel**2, self.filters, self.channels)
        self.groups = self.slices * (self.filters + ceil_div(self.columns, 32) * self.rows)
        """Number of work-groups of 256 that pack."""


class Boxes(Converting, Convolution):
    """Clusters of two blocks, as many as the device holds. Option `prepared`: operands are packed once, not in each call."""

    kernel_name = "tensor"
    group: tuple[int, ...] = (384,)
    operands: str
    """Value of the knob OPERANDS of pack_operands.k."""
    tile_w: int
    """Number of columns in a block's tile."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; packed operands are as large as the given ones: one part of four bytes, or two of two."""
        return least if variant.options.get("prepared") else least + 2 * operand_bytes(layer(case))

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        form, halo = Form(self.layer, self.operands), self.layer.kernel - 1
        packer = Source.of(HERE / "pack_operands.k", OPERANDS=self.operands)
        packer = packer.with_knobs(**self.sizes(packer))
        self.pack, self.packing = device.build(packer.render(device.backend)).kernel("pack"), (256 * form.groups,)
        self.pixels, self.taps = (device.empty(form.size * int(np.prod(shape))) for shape in (form.pixels, form.taps))
        line = form.size * form.channels
        rank = 3 if form.parts == 1 else 4
        sizes = (form.channels, form.rows, form.columns, form.parts)
        box = (form.depth, TILE_H + halo, self.tile_w + halo, form.parts)
        strides = (line * form.columns, line, line * form.columns * form.rows)
        filters = (form.channels, form.filters, form.parts * self.layer.kernel**2), (form.depth, TILE_I // 2, 1)
        maps = (
            tensor_map(self.taps, *filters, half=True, size=form.size),
            tensor_map(self.pixels, sizes[:rank], box[:rank], half=True, strides=strides[: rank - 1], size=form.size),
        )
        self.weight_map, self.pixel_map = (device.upload(np.frombuffer(encoded, np.uint8)) for encoded in maps)
        self.buffers += [self.pixels, self.taps, self.weight_map, self.pixel_map]
        self.kernel.configure(dynamic_local_bytes=STAGES_BYTES + 1024)

    def lay_out(self) -> tuple[int, ...]:
        layer = self.layer
        columns, rows = ceil_div(layer.width, self.tile_w), ceil_div(layer.height, 2 * TILE_H)
        tiles = 2 * ceil_div(layer.filters, 2 * TILE_I) * columns * rows
        return (384 * 2 * min(tiles, self.device.compute_units // 2),)

    def build_options(self) -> tuple[str, ...]:
        return COMPILER_OPTIONS

    def convert(self) -> None:
        self.queue.launch(self.pack, self.packing, (256,), self.x, self.weight, self.pixels, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.weight_map, self.pixel_map, self.bias, self.out)


class Tf32(Boxes):
    """Operands of 4 bytes, rounded to TF32, in the tiles of tensor_window.cu."""

    operands, tile_w = "TF32", 32

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return too_large_for_a_box(layer(case), 11)


class Split(Boxes):
    """Operands of two parts of fp16, in the tiles of tensor_split.cu."""

    operands, tile_w = "SPLIT", 16

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return too_large_for_a_box(layer(case), 7)
