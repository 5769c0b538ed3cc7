"""The plans that launch the layer's kernels: one launch, or the weights packed first; and the sizes of each launch."""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...peers import one_thread
from ...spec.kernel_constants import Constants, constants, work_items
from ...spec.kernel_run import KernelRun, ceil_div, fit
from ...spec.plan import Case, Variant, least_bytes, stated_conditions
from ...spec.source import Source
from .problem import Layer

HERE = Path(__file__).parent
PUBLISHED_SUB, PUBLISHED_GROUP = (4, 2, 14), (4, 8, 2)
"""The report's best sizes: filters, rows and columns of a sub-tile, and work-items of a group along each."""


def layer(case: Case) -> Layer:
    """Return the layer of a case."""
    return Layer(**case.params["layer"])


def weight_bytes(layer: Layer) -> int:
    """Return the bytes of a layer's weights in fp32."""
    return 4 * prod(layer.weight_shape)


def operand_bytes(layer: Layer) -> int:
    """Return the bytes of a layer's input and weights in fp32."""
    return 4 * prod(layer.x_shape) + weight_bytes(layer)


class Convolution(KernelRun):
    """The layer on a device: input, weights and bias in, pooled output back. `run` returns the seconds of its kernels."""

    kernel_name: str
    group: tuple[int, ...] = (1, 1, 1)

    @cached_property
    def constants(self) -> Constants:
        """Constants of the kernel's text for this layer."""
        return constants(self.variant.text.with_knobs(**self.sizes(self.variant.text)))

    conditions = staticmethod(stated_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        self.variant, self.layer = variant, layer(case)
        self.group = tuple(variant.options.get("group", self.group))
        self.size = self.lay_out()
        fit(device, self.group)
        self.source = variant.text.with_knobs(**self.sizes(variant.text), **self.turned())
        self.program = device.build(self.source.render(device.backend), self.build_options())
        self.kernel = self.program.kernel(self.kernel_name)
        self.x, self.weight, self.bias = (device.upload(inputs[name]) for name in ("x", "weight", "bias"))
        self.out = device.empty(4 * int(np.prod(self.layer.out_shape)))
        self.buffers = [self.x, self.weight, self.bias, self.out]

    @property
    def items(self) -> int:
        """Number of work-items of a group, if the kernel's text fixes it."""
        return work_items(self.variant.text, self.kernel_name)

    @abstractmethod
    def lay_out(self) -> tuple[int, ...]:
        """Return the global size."""

    def sizes(self, source: Source) -> dict[str, int]:
        """Return the layer's sizes as knobs of `source`."""
        one = self.layer
        every = {"CHANNELS": one.channels, "FILTERS": one.filters, "HEIGHT": one.height, "WIDTH": one.width}
        return every | {"TAPS": one.kernel}

    def turned(self) -> dict[str, Any]:
        """Return the knobs that follow from the launch."""
        return {}

    def clusters(self, persistent: bool) -> int:
        """Return the number of clusters of two blocks: one for each tile, or at most as many as the device holds."""
        tiles = self.constants["TILES_I"] * self.constants["TILES_W"] * self.constants["TILES_H"]
        return min(tiles, self.device.compute_units // 2) if persistent else tiles

    def build_options(self) -> tuple[str, ...]:
        return ()

    def arguments(self) -> tuple[Any, ...]:
        return self.x, self.weight, self.bias, self.out

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, *self.arguments())

    def reset(self) -> None:
        self.queue.write(self.out, np.full(self.layer.out_shape, np.nan, np.float32))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.queue.read(self.out, np.empty(self.layer.out_shape, np.float32)).astype(np.float64)}


class Sequential(one_thread.OneWorkItem, Convolution):
    """One work-item for everything."""

    kernel_name = "sequential"

    traffic = staticmethod(least_bytes)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.c = self.device.empty(4 * int(np.prod(self.layer.conv_shape)))
        self.buffers.append(self.c)

    def lay_out(self) -> tuple[int, ...]:
        self.group = (1,)
        return (1,)

    def arguments(self) -> tuple[Any, ...]:
        return self.x, self.weight, self.bias, self.c, self.out


class SequentialC(one_thread.AsC, Sequential):
    """The sequential loops compiled as C, on one thread."""


class Tiled(Convolution):
    """One work-item a sub-tile, in three dimensions: filters, rows, columns. Options: `sub`, `group`, the sides of a sub-tile
    and of a work-group."""

    kernel_name = "tiled"
    group = PUBLISHED_GROUP

    traffic = staticmethod(least_bytes)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        sub, group = variant.options.get("sub", PUBLISHED_SUB), variant.options.get("group", PUBLISHED_GROUP)
        reason = misfit(layer(case), sub, group)
        return f"not on this case: {reason}" if reason else None

    def lay_out(self) -> tuple[int, ...]:
        self.sub: tuple[int, ...] = self.variant.options.get("sub", PUBLISHED_SUB)
        sides = (self.layer.filters, self.layer.height, self.layer.width)
        return tuple(side // part for side, part in zip(sides, self.sub, strict=True))

    def turned(self) -> dict[str, Any]:
        return dict(zip(("SUB_I", "SUB_H", "SUB_W"), self.sub, strict=True))


def misfit(layer: Layer, sub: tuple[int, ...], group: tuple[int, ...]) -> str | None:
    """Return the reason why sub-tiles and work-groups of these sides do not cover the layer exactly; None if they do."""
    names = ("filters", "rows", "columns")
    for name, side, part, items in zip(names, (layer.filters, layer.height, layer.width), sub, group, strict=True):
        if side % part:
            return f"{side} {name} are no multiple of a sub-tile's {part}"
        if side // part % items:
            return f"{side // part} work-items along the {name} are no multiple of a group's {items}"
    return None


def too_large_for_a_box(layer: Layer, largest: int) -> str | None:
    """Return the reason why filters larger than `largest` x `largest` cannot be used with one box of pixels for all taps."""
    if layer.kernel <= largest:
        return None
    return f"not on this case: filters larger than {largest}x{largest}, whose box of pixels leaves no room for weights"


class LocalTile(Tiled):
    """One work-item a sub-tile, with the group's part of the input in local memory."""

    kernel_name = "local_tile"

    def turned(self) -> dict[str, Any]:
        return super().turned() | dict(zip(("LOCAL_0", "LOCAL_1", "LOCAL_2"), self.group, strict=True))


class Packed(Convolution):
    """Two launches, both timed: pack the weights by tiles of filters, then convolve."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; packed weights are written and read as well."""
        return least + 2 * weight_bytes(layer(case))

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        one = self.layer
        tile = self.constants["TILE_I"]
        packer = Source.of(HERE / "pack.k", CHANNELS=one.channels, FILTERS=one.filters, TAPS=one.kernel, TILE=tile)
        self.pack = device.build(packer.render(device.backend)).kernel("pack")
        values = one.terms * tile * ceil_div(one.filters, tile)
        self.packing, self.packed = (256 * ceil_div(values, 256),), device.empty(4 * values)
        self.buffers.append(self.packed)

    def submit(self) -> None:
        self.queue.launch(self.pack, self.packing, (256,), self.weight, self.packed)
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.packed, self.bias, self.out)


class Gemm(Packed):
    """The implicit matrix product: groups of 256 work-items compute 128 filters by 8 x 16 pixels."""

    kernel_name = "gemm"

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return "not on this case: filters larger than 5x5" if layer(case).kernel > 5 else None

    def lay_out(self) -> tuple[int, ...]:
        one, tile = self.layer, self.constants
        self.group = (tile["GROUP"], 1, 1)
        across, down = ceil_div(one.width, tile["TILE_W"]), ceil_div(one.height, tile["TILE_H"])
        return tile["GROUP"] * across, down, ceil_div(one.filters, tile["TILE_I"])


class Vectors(Packed):
    """One work-item for four filters by two rows by thirty-two columns, on explicit vectors."""

    kernel_name = "vectors"

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return "not on this case: narrower than 32 columns" if layer(case).width < 32 else None

    def lay_out(self) -> tuple[int, ...]:
        one = self.layer
        return (ceil_div(one.filters, self.constants["TILE_I"]), one.height // 2, ceil_div(one.width // 2 * 2, 32))
