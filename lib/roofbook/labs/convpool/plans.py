"""The plans that launch the sparse layer's kernels: one kernel or two, with lists built in the kernel or before it."""

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device, Unsupported
from ...peers import one_thread
from ...spec.kernel_constants import Constants, constants, work_items
from ...spec.kernel_run import Converting, KernelRun, ceil_div, fit
from ...spec.plan import Case, Variant, stated_conditions
from ...spec.source import Source
from .problem import Layer

HERE = Path(__file__).parent
SENTINEL = -1
"""Value of outputs that no kernel has written: after ReLU none is negative."""
FAST_MATH = {"opencl": "-cl-fast-relaxed-math", "cuda": "--use_fast_math"}


def layer(case: Case) -> Layer:
    """Return the layer of a case."""
    return Layer(**case.params["layer"])


def nonzero_share(case: Case) -> float:
    """Return the share of a layer's weights that are not zero; the published one has one in each slice of a filter."""
    zeros = case.params["weight_zeros"]
    return 1 / layer(case).kernel ** 2 if zeros is None else 1 - zeros / 100


def nonzero_weights(case: Case) -> float:
    """Return the number of weights that are not zero."""
    return nonzero_share(case) * prod(layer(case).weight_shape)


class Convolution(KernelRun):
    """The layer on a device. `run` returns the seconds of its kernels, from the first to the last."""

    kernel_name: str

    @cached_property
    def constants(self) -> Constants:
        """Constants of the kernel's text for this layer."""
        return constants(self.variant.text.with_knobs(**self.sizes()))

    def items(self, kernel: str = "") -> int:
        """Return the number of work-items of a group that the text fixes for a kernel, by default the main one."""
        return work_items(self.variant.text, kernel or self.kernel_name)

    conditions = staticmethod(stated_conditions)

    @classmethod
    def verified_on(cls, variant: Variant) -> str:
        """Return "wide", for weights of 16 bits; "" if values are bytes."""
        return "" if variant.dtype == "int8" else "wide"

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        self.variant, self.layer = variant, layer(case)
        self.size = self.lay_out()
        fit(device, self.group)
        self.source = variant.text.with_knobs(**self.sizes(), **self.turned())
        fast = (FAST_MATH[device.backend],) if variant.options.get("fast_math") else ()
        self.program = device.build(self.source.render(device.backend), (*fast, *variant.options.get("build", ())))
        self.kernel = self.program.kernel(self.kernel_name)
        border = self.layer.kernel // 2
        padded = np.pad(inputs["x"], ((0, 0), (border, border), (border, border)))
        self.given = {"x": padded, "weight": inputs["weight"]}
        self.x, self.weight = self.place(padded), device.upload(inputs["weight"])
        self.conv = device.empty(4 * int(np.prod(self.layer.conv_shape)))
        self.out = device.empty(4 * int(np.prod(self.layer.out_shape)))
        self.buffers = [self.x, self.weight, self.conv, self.out]
        self.copies = {name: device.empty(array.nbytes) for name, array in self.given.items()}
        self.buffers += self.copies.values()
        self.received = np.empty(self.layer.out_shape, np.int32)

    @abstractmethod
    def lay_out(self) -> tuple[int, ...]:
        """Set the group if it follows from the layer, and return the global size."""

    def sizes(self) -> dict[str, int]:
        """Return the layer's sizes as knobs."""
        one = self.layer
        return {"DEPTH": one.depth, "FILTERS": one.filters, "SIZE": one.size, "TAPS": one.kernel}

    def turned(self) -> dict[str, Any]:
        """Return the knobs that follow from the launch."""
        return {}

    def place(self, padded: np.ndarray) -> Buffer:
        """Copy the input, with its border, to the device."""
        return self.device.upload(padded)

    def run(self) -> float:
        kernels = self.queue.laps(*self.laps())
        start = time.perf_counter()
        for name in ("x", "weight"):
            self.queue.write(self.copies[name], self.given[name])
        sent = time.perf_counter()
        self.queue.read(self.out, self.received)
        back = time.perf_counter()
        copies = {"copies in": sent - start, "copy out": back - sent, "copies": back - start}
        self.parts = copies | self.parts_of(kernels)
        return sum(kernels)

    def laps(self) -> Sequence[Callable[[], None]]:
        """Return the submissions that are timed, each by itself."""
        return (self.submit,)

    def parts_of(self, kernels: Sequence[float]) -> dict[str, float]:
        """Return the parts of a run by name, from the seconds of `laps`."""
        return {"kernels": sum(kernels)}

    def outputs_size(self) -> tuple[int, ...]:
        """Return the global size of a kernel with a work-item an output, in groups of 256."""
        return (256 * ceil_div(int(np.prod(self.layer.out_shape)), 256),)

    def reset(self) -> None:
        self.queue.write(self.conv, np.full(self.layer.conv_shape, SENTINEL, np.int32))
        self.queue.write(self.out, np.full(self.layer.out_shape, SENTINEL, np.int32))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.queue.read(self.out, np.empty(self.layer.out_shape, np.int32))}


class Sequential(one_thread.OneWorkItem, Convolution):
    """One work-item for everything."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes, the convolution's sums written and read."""
        return least + 8 * prod(layer(case).conv_shape)

    kernel_name = "sequential"
    group = (1,)

    def lay_out(self) -> tuple[int, ...]:
        return (1,)

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.weight, self.conv, self.out)


class SequentialC(one_thread.AsC, Sequential):
    """The sequential loops compiled as C, on one thread."""


class Pooled(Convolution):
    """A kernel for convolution and ReLU, with the name of its file, and one for pooling.

    With knob POOL = ATOMIC the outputs are cleared first, and the first kernel pools by atomic operations.
    """

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; what lies between the two launches, outputs or the convolution's sums, is written and read."""
        one = layer(case)
        is_atomic = variant.text.settings.get("POOL") == "ATOMIC"
        return least + 8 * prod(one.out_shape if is_atomic else one.conv_shape)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.kernel_name = variant.text.path.stem
        super().__init__(device, variant, case, inputs)
        self.atomic = self.source.settings.get("POOL") == "ATOMIC"
        ending = Source.of(HERE / "pool.k", FILTERS=self.layer.filters, SIZE=self.layer.size)
        program = device.build(ending.render(device.backend))
        self.pool, self.clear = program.kernel("pool"), program.kernel("clear")

    def lay_out(self) -> tuple[int, ...]:
        one = self.layer
        rows = self.variant.source is not None and self.variant.source.settings.get("GRID") == "ROW_GROUPS"
        self.group = (one.size,) if rows else (one.size**2,)
        return (one.filters * one.size**2,)

    def submit(self) -> None:
        if self.atomic:
            self.queue.launch(self.clear, self.outputs_size(), (256,), self.out)
        self.queue.launch(
            self.kernel, self.size, self.group, self.x, self.weight, self.out if self.atomic else self.conv
        )

    def submit_pool(self) -> None:
        self.queue.launch(self.pool, self.outputs_size(), (256,), self.conv, self.out)

    def laps(self) -> Sequence[Callable[[], None]]:
        return (self.submit,) if self.atomic else (self.submit, self.submit_pool)

    def parts_of(self, kernels: Sequence[float]) -> dict[str, float]:
        return super().parts_of(kernels) | ({} if self.atomic else {"pooling": kernels[1]})


class Lists(Pooled):
    """Convolution and pooling in two launches; the first kernel turns its filters into lists, a few channels at a time."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        layers, taps = int(variant.text.settings["LAYERS"]), layer(case).kernel ** 2
        needed = 4 * layers * (2 * taps + 1)
        if needed > device.local_bytes:
            raise Unsupported(
                f"lists of {layers} channels take {needed} bytes of local memory: {device.local_bytes} at most"
            )
        super().__init__(device, variant, case, inputs)

    def place(self, padded: np.ndarray) -> Buffer:
        if self.source.settings["STAGING"] == "IMAGE_READS":
            return self.device.image(padded.reshape(len(padded), -1))
        return super().place(padded)


class LineLists(Lists):
    """`Lists` with the input in an image of one dimension."""

    def place(self, padded: np.ndarray) -> Buffer:
        return self.device.image(padded.ravel())


class Built(Convolution):
    """Lists built once by a separate kernel, which is timed too; then one work-item a window of the pool."""

    kernel_name = "walk"
    group: tuple[int, ...] = (64, 1)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes, entries and lengths of all lists written and read."""
        one = layer(case)
        return least + 2 * (8 * nonzero_weights(case) + 4 * one.filters * one.depth)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        one = self.layer
        self.slices = one.filters * one.depth
        self.build = self.program.kernel("build")
        self.entries, self.counts = device.empty(8 * self.slices * one.kernel**2), device.empty(4 * self.slices)
        self.buffers += [self.entries, self.counts]

    def lay_out(self) -> tuple[int, ...]:
        windows = (self.layer.size // 2) ** 2
        return (64 * ceil_div(windows, 64), self.layer.filters)

    def submit_build(self) -> None:
        self.queue.launch(
            self.build, (256 * ceil_div(self.slices, 256),), (256,), self.weight, self.entries, self.counts
        )

    def submit(self) -> None:
        self.submit_build()
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.entries, self.counts, self.out)


class Both(Built):
    """Lists of weights and inputs by two kernels; then groups of one warp scatter products, and a last kernel adds up."""

    kernel_name = "scatter"
    group = (32,)

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes, also those of the maps of each group."""
        one = layer(case)
        maps = 4 * one.filters * int(variant.text.settings["PARTS"]) * (one.size + one.kernel - 1) ** 2
        return super().traffic(case, variant, least) + 2 * maps

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        one, (groups,) = self.layer, (size // 32 for size in self.size)
        self.build_neurons, self.add_up = self.program.kernel("build_neurons"), self.program.kernel("add_up")
        self.neurons, self.lengths = device.empty(8 * one.depth * one.size**2), device.empty(4 * one.depth)
        self.maps = device.empty(4 * groups * (one.size + one.kernel - 1) ** 2)
        self.buffers += [self.neurons, self.lengths, self.maps]

    def lay_out(self) -> tuple[int, ...]:
        return (32 * self.layer.filters * int(self.variant.text.settings["PARTS"]),)

    def submit(self) -> None:
        self.submit_build()
        self.queue.launch(self.build_neurons, (128 * self.layer.depth,), (128,), self.x, self.neurons, self.lengths)
        self.queue.launch(
            self.kernel, self.size, self.group, self.entries, self.counts, self.neurons, self.lengths, self.maps
        )
        self.queue.launch(self.add_up, self.outputs_size(), (256,), self.maps, self.out)


class Strips(Converting, Convolution):
    """Two kernels make bytes of the input and lists of the non-zero weights; a third computes sixteen outputs a work-item.

    Option `prepared`: bytes and lists are made once, not in each call.
    """

    kernel_name = "strips"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes that are moved. Unless `prepared`, they include writing the input as bytes, and the lists."""
        one = layer(case)
        if variant.options.get("prepared"):
            return 4 * nonzero_weights(case) + prod(one.x_shape) + 4 * prod(one.out_shape)
        return least + 8 * nonzero_weights(case) + 2 * prod(one.x_shape)

    @classmethod
    def verified_on(cls, variant: Variant) -> str:
        return ""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        tile = self.constants
        self.words = self.tiles * tile["CHUNKS"] * tile["CHUNK"] * tile["WORDS"]
        self.slices = self.layer.filters * tile["CHUNKS"]
        self.to_bytes, self.build = self.program.kernel("to_bytes"), self.program.kernel("build")
        self.bytes, self.counts = device.empty(4 * self.words), device.empty(4 * self.slices)
        self.entries = device.empty(4 * self.slices * tile["ROOM"])
        self.buffers += [self.bytes, self.counts, self.entries]

    def lay_out(self) -> tuple[int, ...]:
        tile = self.constants
        needed = max(4 * tile["CHUNK"] * tile["WORDS"], 2048 * tile["TOGETHER"])
        if needed > self.device.local_bytes:
            raise Unsupported(f"chunks of {needed} bytes of local memory: {self.device.local_bytes} at most")
        self.tiles = tile["TILES_ACROSS"] * tile["TILES_DOWN"]
        self.group = (self.items(), 1)
        return (self.group[0] * self.tiles, ceil_div(self.layer.filters, tile["TOGETHER"]))

    def convert(self) -> None:
        self.queue.launch(self.to_bytes, (256 * ceil_div(self.words, 256),), (256,), self.x, self.bytes)
        self.queue.launch(self.build, (512 * self.layer.filters,), (512,), self.weight, self.entries, self.counts)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.bytes, self.entries, self.counts, self.out)


class Tiles(Convolution):
    """Weights packed by tiles of filters, as floats; then the dense product from registers."""

    kernel_name = "tiles"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; weights as floats are written and read."""
        return least + 8 * prod(layer(case).weight_shape)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        sums = (
            np.abs(inputs["x"].astype(np.int64)).max()
            * np.abs(inputs["weight"].astype(np.int64)).sum(axis=(1, 2, 3)).max()
        )
        if sums >= 2**24:
            raise Unsupported(f"sums of up to {sums}: fp32 holds integers below {2**24} exactly")
        super().__init__(device, variant, case, inputs)
        one, tile = self.layer, self.constants
        self.values = one.depth * one.kernel**2 * tile["TILE_I"] * ceil_div(one.filters, tile["TILE_I"])
        self.pack, self.packed = self.program.kernel("pack"), device.empty(4 * self.values)
        self.buffers.append(self.packed)

    def lay_out(self) -> tuple[int, ...]:
        one, tile = self.layer, self.constants
        self.group = (self.items(), 1)
        across, down = tile["TILES_ACROSS"], ceil_div(one.size, tile["TILE_H"])
        return (self.group[0] * across * down, ceil_div(one.filters, tile["TILE_I"]))

    def submit(self) -> None:
        self.queue.launch(self.pack, (256 * ceil_div(self.values, 256),), (256,), self.weight, self.packed)
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.packed, self.out)


def bytes_of_int8(case: Case, variant: Variant, least: float) -> float:
    """Return the traffic of a plan that multiplies bytes: with `prepared` it reads them, otherwise it writes them first."""
    one = layer(case)
    as_bytes = prod(one.x_shape) + prod(one.weight_shape)
    return as_bytes + 4 * prod(one.out_shape) if variant.options.get("prepared") else least + 2 * as_bytes


class Tensor(Converting, Convolution):
    """NVIDIA's tensor cores in int8. Option `prepared`: operands are laid out once, not in each call."""

    kernel_name = "tensor"

    traffic = staticmethod(bytes_of_int8)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        must_fit_a_byte(inputs)
        super().__init__(device, variant, case, inputs)
        tile = self.constants
        slices, filters = tile["SLICES"], tile["TILES_I"] * tile["TILE_I"]
        self.to_pixels, self.to_taps = self.program.kernel("to_pixels"), self.program.kernel("to_taps")
        self.pixels = device.empty(tile["ROWS"] * tile["COLUMNS"] * slices * tile["SLICE"])
        self.packed = device.empty(filters * slices * tile["SLICE"] * tile["TAPS_2"])
        self.buffers += [self.pixels, self.packed]
        self.pixels_group, self.taps_group = (self.items("to_pixels"), 1, 1), (self.items("to_taps"), 1)
        self.pixels_size = self.pixels_group[0] * ceil_div(tile["COLUMNS"], 32), tile["ROWS"], slices
        self.taps_size = self.taps_group[0] * filters, slices
        staged = tile["LINES"] * tile["LINE"] * tile["PIXEL_BYTES"]
        sums = 4 * tile["TILE_I"] * tile["TILE_W"] * tile["TILE_H"]
        self.kernel.configure(dynamic_local_bytes=max(staged, (tile["PARTS"] - 1) * sums))

    def lay_out(self) -> tuple[int, ...]:
        self.group = (self.items(), 1)
        return (
            self.group[0] * self.constants["TILES_ACROSS"] * self.constants["TILES_DOWN"],
            self.constants["TILES_I"],
        )

    def convert(self) -> None:
        self.queue.launch(self.to_pixels, self.pixels_size, self.pixels_group, self.x, self.pixels)
        self.queue.launch(self.to_taps, self.taps_size, self.taps_group, self.weight, self.packed)

    def multiply(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.pixels, self.packed, self.out)


def must_fit_a_byte(inputs: Mapping[str, Any]) -> None:
    """Raise Unsupported if a value of `x` or `weight` is larger than 127."""
    largest = max(np.abs(inputs[name].astype(np.int64)).max() for name in ("x", "weight"))
    if largest > 127:
        raise Unsupported(f"values of up to {largest}: a byte holds 127")


def filters_too_large(case: Case) -> str | None:
    """Return why `to_taps` cannot lay out a layer's filters; None if it can.

    It keeps 128 channels of a filter in shared memory that the kernel declares, of which CUDA grants 48 KB.
    """
    return "not on this case: filters larger than 13x13" if layer(case).kernel > 13 else None
