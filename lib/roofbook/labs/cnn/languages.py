"""The layer in today's languages: an implicit matrix product on tensor cores.

Triton: in fp16, in TF32, or in three products of split operands. CuTe DSL: in fp16.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...devices.hopper import tensor_map
from ...peers.python_kernel import Cute, OneOutput, Triton, by_cute, by_triton, by_value
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant, stated_conditions
from .plans import layer, operand_bytes
from .problem import Array, rounded


class TritonLayer(Triton, OneOutput):
    """Operands are laid out beforehand.

    Options: `windows` of the pool, `filters` and `depth`, a number of channels, of a tile; `warps` of a block; `stages` of the
    pipeline of its loads; `split`, where an operand is the sum of two fp16 numbers.
    """

    sources = (Path(__file__).with_name("triton_layer.py"),)
    conditions = staticmethod(stated_conditions)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes: an operand has two bytes in fp16, and four in TF32 or if it is split."""
        is_half = variant.dtype == "float16" and not variant.options.get("split")
        return least - operand_bytes(layer(case)) / 2 if is_half else least

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        one, options, self.launches = layer(case), variant.options, case.units
        windows, filters, depth, warps = (options[name] for name in ("windows", "filters", "depth", "warps"))
        split = bool(options.get("split"))
        channels, padded = depth * ceil_div(one.channels, depth), filters * ceil_div(one.filters, filters)
        constants = {
            "HEIGHT": one.height, "WIDTH": one.width, "CHANNELS": channels, "FILTERS": one.filters, "PADDED": padded,
            "TAPS": one.kernel, "SPLIT": split, "WINDOWS": windows, "BLOCK_I": filters, "BLOCK_K": depth,
        }  # fmt: skip
        types = *("*fp32" if variant.dtype == "tfloat32" else "*fp16",) * 2, "*fp32", "*fp32"
        self.kernel = self.compiled(device, by_triton, types, tuple(constants.items()), warps, options["stages"])
        tiles = ceil_div(one.height // 2 * (one.width // 2), windows)
        self.group, self.size = (32 * warps, 1), (32 * warps * (padded // filters), tiles)
        pixels = np.zeros((*one.x_shape[1:], channels), np.float32)
        pixels[:, :, : one.channels] = inputs["x"].transpose(1, 2, 0)
        taps = np.zeros((one.kernel, one.kernel, padded, channels), np.float32)
        taps[:, :, : one.filters, : one.channels] = inputs["weight"].transpose(2, 3, 0, 1)
        operands = self.upload(*(parts(array, variant.dtype, split) for array in (pixels, taps)))
        out = self.written(np.full(one.out_shape, np.nan, np.float32))
        self.arguments = *operands, *self.upload(inputs["bias"]), out, *self.behind

    @staticmethod
    def function() -> Any:
        from . import triton_layer

        return triton_layer.layer


class CuteLayer(Cute, OneOutput):
    """Operands are fp16 numbers that are laid out beforehand.

    Options: `filters`, `across` and `down`, a number of pixels, and `depth`, a number of channels, of a block's tile; `stages`
    of its copies; `cluster`, a number of blocks with the same pixels.
    """

    sources = (Path(__file__).with_name("cute_layer.py"),)
    conditions = staticmethod(stated_conditions)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least - operand_bytes(layer(case)) / 2

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        one, self.launches = layer(case), case.units
        names = "filters", "across", "down", "depth", "stages", "cluster"
        filters, across, down, depth, stages, cluster = (variant.options[name] for name in names)
        channels, taps = depth * ceil_div(one.channels, depth), one.kernel
        types, tile = ("Float16", "Float16", "Float32", "Float32"), (filters, (across, down), depth)
        constants = one.height, one.width, channels, one.filters, taps, tile, stages, cluster
        shared_bytes = stages * (2 * depth * (filters + across * down) + 16)
        self.kernel = self.compiled(device, by_cute, types, constants, shared_bytes, cluster)
        items, blocks = 2 * filters + 32, cluster * ceil_div(one.filters, filters * cluster)
        self.group = items, 1, 1
        self.size = items * blocks, ceil_div(one.width, across), ceil_div(one.height, down)
        rows, columns = one.x_shape[1:]
        padded = np.zeros((rows, columns, channels), np.float16)
        padded[:, :, : one.channels] = inputs["x"].transpose(1, 2, 0)
        weights = np.zeros((one.filters, taps, taps, channels), np.float16)
        weights[..., : one.channels] = inputs["weight"].transpose(0, 2, 3, 1)
        pixels, weight, bias = self.upload(padded, weights, inputs["bias"])
        values, pixel, line = channels * taps**2, 2 * channels, 2 * columns * channels
        unfolded, box = (channels, one.width, one.height, taps, taps), (depth, across, down // cluster, 1, 1)
        maps = (
            tensor_map(weight, (values, one.filters), (depth, filters), True),
            tensor_map(pixels, unfolded, box, True, (pixel, line, pixel, line)),
        )
        out = self.written(np.full(one.out_shape, np.nan, np.float32))
        self.arguments = *map(by_value, maps), bias, out

    @staticmethod
    def function() -> Any:
        from . import cute_layer

        return cute_layer.layer


def parts(array: Array, dtype: str, split: bool) -> Array:
    """Return an operand rounded to a type; with `split`, the rounded operand and behind it the rest, rounded as well.

    Tensor cores cut TF32 operands off, and Triton hands them over as they are: rounded here, they lose nothing there.
    """
    if dtype == "tfloat32":
        return rounded(array, 11)
    high = array.astype(np.float16)
    return np.stack([high, (array - high).astype(np.float16)]) if split else high
