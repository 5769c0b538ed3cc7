"""The sparse layer in Triton and in CuTe DSL: all products, in int8 on tensor cores."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...devices.hopper import tensor_map_of_bytes
from ...peers.python_kernel import Cute, OneOutput, Triton, by_cute, by_triton, by_value
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant, stated_conditions
from .plans import SENTINEL, bytes_of_int8, layer, must_fit_a_byte


class TritonLayer(Triton, OneOutput):
    """Operands are bytes that are laid out beforehand.

    Options: `windows` of the pool and `filters` of a tile, fewer of them where that leaves half of the device idle; `warps` of
    a block; `stages` of the pipeline of its loads.
    """

    sources = (Path(__file__).with_name("triton_layer.py"),)
    traffic = staticmethod(bytes_of_int8)
    conditions = staticmethod(stated_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        must_fit_a_byte(inputs)
        one, options, self.launches = layer(case), variant.options, case.units
        windows, filters, warps = options["windows"], options["filters"], options["warps"]
        tiles = ceil_div((one.size // 2) ** 2, windows)
        while filters > 16 and 2 * tiles * ceil_div(one.filters, filters) < device.compute_units:
            filters //= 2
        block = next(channels for channels in (128, 64, 32) if one.depth % channels == 0 or channels == 32)
        channels, padded = block * ceil_div(one.depth, block), filters * ceil_div(one.filters, filters)
        constants = {
            "SIZE": one.size, "CHANNELS": channels, "FILTERS": one.filters, "PADDED": padded, "TAPS": one.kernel,
            "WINDOWS": windows, "BLOCK_I": filters, "BLOCK_K": block,
        }  # fmt: skip
        types = "*i8", "*i8", "*i32"
        self.kernel = self.compiled(device, by_triton, types, tuple(constants.items()), warps, options["stages"])
        self.group, self.size = (32 * warps, 1), (32 * warps * (padded // filters), tiles)
        border, side = one.kernel // 2, one.size + one.kernel - 1
        pixels = np.zeros((side, side, channels), np.int8)
        pixels[border : border + one.size, border : border + one.size, : one.depth] = inputs["x"].transpose(1, 2, 0)
        taps = np.zeros((one.kernel, one.kernel, padded, channels), np.int8)
        taps[:, :, : one.filters, : one.depth] = inputs["weight"].transpose(2, 3, 0, 1)
        out = self.written(np.full(one.out_shape, SENTINEL, np.int32))
        self.arguments = *self.upload(pixels, taps), out, *self.behind

    @staticmethod
    def function() -> Any:
        from . import triton_layer

        return triton_layer.layer


class CuteLayer(Cute, OneOutput):
    """Operands are bytes that are laid out beforehand.

    Options: `filters`, `across` and `down`, a number of pixels, and `depth`, a number of channels, of a block's tile; `stages`
    of its copies; `cluster`, a number of blocks with the same pixels.
    """

    sources = (Path(__file__).with_name("cute_layer.py"),)
    traffic = staticmethod(bytes_of_int8)
    conditions = staticmethod(stated_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        must_fit_a_byte(inputs)
        one, self.launches = layer(case), case.units
        names = "filters", "across", "down", "depth", "stages", "cluster"
        filters, across, down, depth, stages, cluster = (variant.options[name] for name in names)
        channels, taps = depth * ceil_div(one.depth, depth), one.kernel
        constants = one.size, channels, one.filters, taps, (filters, (across, down), depth), stages, cluster
        shared_bytes = stages * (depth * (filters + across * down) + 16)
        self.kernel = self.compiled(device, by_cute, ("Int8", "Int8", "Int32"), constants, shared_bytes, cluster)
        items, blocks = 2 * filters + 32, cluster * ceil_div(one.filters, filters * cluster)
        self.group = items, 1, 1
        self.size = items * blocks, ceil_div(one.size, across), ceil_div(one.size, down)
        border, side = taps // 2, one.size + taps - 1
        padded = np.zeros((side, side, channels), np.int8)
        padded[border : border + one.size, border : border + one.size, : one.depth] = inputs["x"].transpose(1, 2, 0)
        weights = np.zeros((one.filters, taps, taps, channels), np.int8)
        weights[..., : one.depth] = inputs["weight"].transpose(0, 2, 3, 1)
        pixels, weight = self.upload(padded, weights)
        values, line = channels * taps**2, side * channels
        unfolded, box = (channels, one.size, one.size, taps, taps), (depth, across, down // cluster, 1, 1)
        maps = (
            tensor_map_of_bytes(weight, (values, one.filters), (depth, filters), (values,)),
            tensor_map_of_bytes(pixels, unfolded, box, (channels, line, channels, line)),
        )
        out = self.written(np.full(one.out_shape, SENTINEL, np.int32))
        self.arguments = *map(by_value, maps), out

    @staticmethod
    def function() -> Any:
        from . import cute_layer

        return cute_layer.layer
