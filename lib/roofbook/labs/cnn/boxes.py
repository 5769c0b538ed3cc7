"""The last tensor-core steps: operands packed in one launch (pack_operands.k), and boxes of pixels used for all taps."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...devices.hopper import COMPILER_OPTIONS, tensor_map
from ...spec.kernel_constants import constants, work_items
from ...spec.kernel_run import Converting
from ...spec.plan import Case, Variant
from ...spec.source import Source
from .plans import HERE, Convolution, layer, operand_bytes, too_large_for_a_box


class Boxes(Converting, Convolution):
    """Clusters of two blocks, as many as the device holds. Option `prepared`: operands are packed once, not in each call."""

    kernel_name = "tensor"
    operands: str
    """Value of the knob OPERANDS of pack_operands.k."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; packed operands are as large as the given ones: one part of four bytes, or two of two."""
        return least if variant.options.get("prepared") else least + 2 * operand_bytes(layer(case))

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        packer = Source.of(HERE / "pack_operands.k", OPERANDS=self.operands)
        packer = packer.with_knobs(**self.sizes(packer))
        packed, tile, halo = constants(packer), self.constants, self.layer.kernel - 1
        groups = packed["TAP_BLOCKS"] + packed["COLUMN_BLOCKS"] * packed["SLICES"] * packed["ROWS"]
        self.pack_group = (work_items(packer, "pack"),)
        self.packing = (self.pack_group[0] * groups,)
        self.pack = device.build(packer.render(device.backend)).kernel("pack")
        parts, channels, filters, depth = (
            packed[name] for name in ("PARTS", "PADDED_CHANNELS", "PADDED_FILTERS", "DEPTH")
        )
        size, taps = tile["OPERAND_BYTES"], self.layer.kernel**2
        rows, columns = self.layer.x_shape[1:]
        line, rank = size * channels, 3 if parts == 1 else 4
        self.pixels, self.taps = (
            device.empty(parts * rows * columns * line),
            device.empty(parts * taps * filters * line),
        )
        box = depth, tile["TILE_H"] + halo, tile["TILE_W"] + halo, parts
        strides = line * columns, line, line * columns * rows
        maps = (
            tensor_map(
                self.taps, (channels, filters, parts * taps), (depth, tile["TILE_I"] // 2, 1), half=True, size=size
            ),
            tensor_map(
                self.pixels, (channels, rows, columns, parts)[:rank], box[:rank], half=True, strides=strides[: rank - 1],
                size=size,
            ),
        )  # fmt: skip
        self.weight_map, self.pixel_map = (device.upload(np.frombuffer(encoded, np.uint8)) for encoded in maps)
        self.buffers += [self.pixels, self.taps, self.weight_map, self.pixel_map]
        self.kernel.configure(dynamic_local_bytes=tile["STAGES_BYTES"] + 1024)

    def lay_out(self) -> tuple[int, ...]:
        self.group = (self.items,)
        return (2 * self.items * self.clusters(persistent=True),)

    def build_options(self) -> tuple[str, ...]:
        return COMPILER_OPTIONS

    def convert(self) -> None:
        self.queue.launch(self.pack, self.packing, self.pack_group, self.x, self.weight, self.pixels, self.taps)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.weight_map, self.pixel_map, self.bias, self.out)


class Tf32(Boxes):
    """Operands of 4 bytes, rounded to TF32, in the tiles of tensor_window.cu."""

    operands = "TF32"

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return too_large_for_a_box(layer(case), 11)


class Split(Boxes):
    """Operands of two parts of fp16, in the tiles of tensor_split.cu."""

    operands = "SPLIT"

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return too_large_for_a_box(layer(case), 7)
