"""The plans that take a batch through the network: one convolution at a time, with its memory, copies and kernels.

All steps share the work between the convolutions, which is in none of their times.
"""

from __future__ import annotations

import math
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Buffer, Device, Kernel, Queue
from ...spec.kernel_run import ceil_div, fit, resources
from ...spec.plan import Case, Plan, Variant, stated_conditions
from ...spec.source import Source
from .network import CLASSES, SHAPES
from .problem import CONV1, CONV2, LAYERS, POOLS, Layer, convolution_bytes, sampled

HERE = Path(__file__).parent
MINIBATCH = 1000
"""Number of images whose unrolled input is in memory at a time, as published."""
LINE = 256
"""Number of work-items in a group of the simple kernels, which write one value each."""
POISON = 0xFF
"""Byte that fills the maps on the device before a verified run: it makes a NaN."""
Step = Callable[[], None]
HIDDEN = SHAPES["fc1"][0]


@lru_cache(maxsize=16)
def host(*shape: int) -> NDArray[np.float32]:
    """Return an array that all steps of a batch use in turn: at 10000 images, one for each step would take 2 GB a step.

    A batch has four shapes. Small batches, on which steps are verified in between, must not push them out.
    """
    return np.empty(shape, np.float32)


class Built(NamedTuple):
    """A convolution's program for one layer."""

    kernel: Kernel
    """The main kernel, which the facts describe."""
    before: Kernel | None
    """The kernel that prepares the input or the output of the main one."""
    weights: Buffer
    arguments: tuple[Buffer, ...]
    """Last arguments of each launch of the main kernel: its weights, unless they are in constant memory."""


class Forward(Plan):
    """Base of the plans: a batch through the network. `run` returns the device's seconds for both convolutions, the op time.

    The layer time in `parts` is the host's time for one convolution: memory, copies to and from the device, kernels.
    """

    group: tuple[int, ...]
    before: str | None = None
    """Name of the kernel launched before the main one, whose name is that of its file."""
    parts: dict[str, float]
    pooled = False
    """Whether the kernels write pooled maps."""
    takes_count = False
    """Whether the main kernel takes the number of images as an argument."""

    @classmethod
    def conditions(cls, variant: Variant) -> tuple[str, ...]:
        return (*stated_conditions(variant), *[POOLS] * cls.pooled)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.variant, self.source, self.units = device, variant, variant.text, case.units
        self.knobs = variant.text.settings
        self.constant = self.knobs.get("WEIGHTS") == "CONSTANT_MEMORY"
        self.queue = device.queue(profiling=True)
        self.x, self.labels, self.weights = inputs["x"], inputs["labels"], inputs["weights"]
        self.batch, self.data = len(self.x), {"source": inputs["source"], "images": inputs["images"]}
        self.sampled = sampled(self.batch)
        self.set_up()
        for layer in LAYERS:
            fit(device, self.group_of(layer))
        self.built = {layer: self.build(layer) for layer in LAYERS}
        self.rest = {layer: device.build(_rest(layer).render(device.backend)) for layer in LAYERS}
        self.dense = [device.upload(self.weights[name]) for name in SHAPES if name.startswith("fc")]
        self.y = {layer: host(self.batch, *self.y_shape(layer)) for layer in LAYERS}
        self.scores = np.empty((self.batch, CLASSES), np.float32)
        self.kept: dict[str, NDArray[np.float64]] = {}
        self.poisoned = False

    def set_up(self) -> None:
        """Set the attributes that follow from the knobs and options, such as the group."""

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        """Return the work-group of the main kernel."""
        return self.group

    def y_shape(self, layer: Layer) -> tuple[int, ...]:
        """Return the shape of the output of a layer's kernels for one image."""
        return layer.y_shape

    def turned(self, layer: Layer) -> dict[str, Any]:
        """Return the knobs that follow from the layer."""
        return {"CHANNELS": layer.channels, "FILTERS": layer.filters, "SIZE": layer.size}

    def build(self, layer: Layer) -> Built:
        """Build the layer's program, and copy its weights to the device unless each run does so."""
        program = self.device.build(self.source.with_knobs(**self.turned(layer)).render(self.device.backend))
        kernel, weights = program.kernel(self.source.path.stem), self.weights[layer.name]
        before = program.kernel(self.before) if self.before else None
        if self.constant:
            return Built(kernel, before, *program.constant("weights", weights.nbytes))
        buffer = self.device.upload(weights)
        return Built(kernel, before, buffer, (buffer,))

    @abstractmethod
    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        """Return the global size of the main kernel for `count` images."""

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        """Submit the kernels for `count` images, from image `first` on, of the buffers `x` and `y`: NCHW, float32."""
        built = self.built[layer]
        images = (np.int32(first), np.int32(count)) if self.takes_count else (np.int32(first),)
        queue.launch(built.kernel, self.size(layer, count), self.group_of(layer), x, y, *images, *built.arguments)

    def allocate(self, layer: Layer) -> list[Buffer]:
        """Allocate input, output, and any other memory of the device that the layer's kernels need."""
        return [self.device.empty(4 * self.batch * math.prod(shape)) for shape in (layer.x_shape, self.y_shape(layer))]

    @contextmanager
    def clock(self, *names: str) -> Iterator[None]:
        """Add the enclosed time to the named parts, by the host's clock."""
        start = time.perf_counter()
        yield
        seconds = time.perf_counter() - start
        for name in names:
            self.parts[name] = self.parts.get(name, 0.0) + seconds

    def run(self) -> float:
        self.parts: dict[str, float] = {}
        images = self.x
        for number, layer in enumerate(LAYERS, 1):
            images = self.convolve(number, layer, images)
        self.classify(images)
        self.kept, self.poisoned = self.outcome(), False
        self.parts |= {part: self.parts[f"{part} 1"] + self.parts[f"{part} 2"] for part in ("op", "layer")}
        return self.parts["op"]

    def convolve(self, number: int, layer: Layer, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """Do one convolution of a batch on the host, timed; then ReLU and pool, not timed. Return the pooled maps."""
        of_layer = f"layer {number}"
        with self.clock(of_layer, "allocate"):
            x, y, *extra_buffers = self.allocate(layer)
        if self.poisoned:
            self.queue.fill(y, POISON)
        if self.constant:
            with self.clock(of_layer, "copy to constant memory"):
                self.queue.write(self.built[layer].weights, self.weights[layer.name])
        self.parts[f"op {number}"] = self.through(of_layer, layer, x, y, images)
        pooled = self.pool(layer, y)
        with self.clock(of_layer, "free"):
            for buffer in (x, y, *extra_buffers):
                buffer.release()
        return pooled

    def through(self, of_layer: str, layer: Layer, x: Buffer, y: Buffer, images: NDArray[np.float32]) -> float:
        """Copy `images` to x, run the kernels, and copy y to the host. Return the op time of the same launches, once more."""
        with self.clock(of_layer, "copy"):
            self.queue.write(x, images)
        with self.clock(of_layer, "kernels"):
            self.launch(layer, self.queue, x, y, 0, self.batch)
            self.queue.finish()
        with self.clock(of_layer, "copy"):
            self.queue.read(y, self.y[layer])
        return self.op_time(layer, x, y)

    def op_time(self, layer: Layer, x: Buffer, y: Buffer) -> float:
        """Return the device's seconds for the layer's kernels."""
        return self.queue.timed(lambda: self.launch(layer, self.queue, x, y, 0, self.batch))

    def pool(self, layer: Layer, y: Buffer) -> NDArray[np.float32]:
        """Apply ReLU and pool to a convolution's output on the device. Return the pooled maps on the host."""
        pooled_host = host(self.batch, *layer.pooled_shape)
        pooled = self.device.empty(pooled_host.nbytes)
        size = LINE * ceil_div(math.prod(layer.pooled_shape), LINE), self.batch
        self.queue.launch(self.rest[layer].kernel("pool"), size, (LINE, 1), y, pooled)
        self.queue.read(pooled, pooled_host)
        pooled.release()
        return pooled_host

    def classify(self, images: NDArray[np.float32]) -> None:
        """Apply the two dense layers to pooled maps of the host."""
        pooled, scores = self.device.empty(images.nbytes), self.device.empty(self.scores.nbytes)
        self.queue.write(pooled, images)
        kernel = self.rest[CONV2].kernel("classify")
        self.queue.launch(kernel, (HIDDEN * self.batch,), (HIDDEN,), pooled, *self.dense, scores)
        self.queue.read(scores, self.scores)
        for buffer in (pooled, scores):
            buffer.release()

    def maps(self) -> dict[str, NDArray[np.floating]]:
        """Return the outputs of each layer on the host, by the names of the reference."""
        return {layer.name: y for layer, y in self.y.items()}

    def outcome(self) -> dict[str, NDArray[np.float64]]:
        """Return the maps of the sampled images and the scores of all."""
        maps = {name: y[self.sampled].astype(np.float64) for name, y in self.maps().items()}
        return {**maps, "scores": self.scores.astype(np.float64)}

    def reset(self) -> None:
        """Put NaNs into the scores, into the maps that `outputs` returns, and into one value of the maps of each other image.

        The next run fills all maps on the device. To fill them here too would take as long as two runs at 10000 images.
        """
        for y in self.y.values():
            y.reshape(self.batch, -1)[:, 0] = np.nan
            y[self.sampled] = np.nan
        self.scores.fill(np.nan)
        self.kept, self.poisoned = self.outcome(), True

    def outputs(self) -> dict[str, np.ndarray]:
        return dict(self.kept)

    def facts(self) -> dict[str, Any]:
        """Return facts on layer 2's main kernel, on layer 1's with `_1`, and the accuracy of the last run."""
        accuracy = float((self.scores.argmax(axis=1) == self.labels).mean())
        facts: dict[str, Any] = {"accuracy": accuracy, **self.data}
        for layer, ending in ((CONV2, ""), (CONV1, "_1")):
            group = self.group_of(layer)
            groups = math.prod(self.size(layer, self.batch)) // math.prod(group)
            shape = {"group": "x".join(map(str, group)), "groups": groups}
            taken = {**shape, **resources(self.device, self.built[layer].kernel, group)}
            facts |= {name + ending: value for name, value in taken.items()}
        return facts

    def close(self) -> None:
        for buffer in (*self.dense, *(built.weights for built in self.built.values())):
            buffer.release()


def fewer_images(case: Case, images: int) -> str | None:
    """Return the reason why a batch cannot be divided into parts of `images` images; None if it can."""
    return f"not on this case: fewer than {images} images" if images > case.params["batch"] else None


def _rest(layer: Layer) -> Source:
    """Return the kernels that follow a convolution: pool and dense layers."""
    sizes = {"FILTERS": layer.filters, "SIDE": layer.side, "POOL": layer.pool}
    return Source.of(HERE / "rest.k", **sizes, HIDDEN=HIDDEN, CLASSES=CLASSES)


class Direct(Forward):
    """One work-item an output; a group has `side` x `side` pixels of one filter, or of one filter and one channel."""

    group = (16, 16, 1)
    side = 16

    traffic = staticmethod(convolution_bytes)

    def set_up(self) -> None:
        self.before = "clear" if self.knobs["CHANNELS_BY"] == "ATOMIC" else None

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        width, height, _ = self.group
        planes = layer.filters * (layer.channels if self.before else 1)
        return width * planes, height * ceil_div(layer.side, self.side) ** 2, count

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        if clear := self.built[layer].before:
            values = LINE * ceil_div(layer.y_values, LINE)
            queue.launch(clear, (values, count), (LINE, 1), y, np.int32(first))
        super().launch(layer, queue, x, y, first, count)


class Tiled(Direct):
    """2 x 2 outputs a work-item, with the group's part of the input in local memory."""

    def set_up(self) -> None:
        super().set_up()
        tile = int(self.knobs["TILE_WIDTH"])
        self.group, self.side = (tile, tile, 1), 2 * tile


class Fused(Forward):
    """A matrix product for each image; a group computes a tile of `tile`, pixels by filters."""

    group = (16, 16, 1)
    tile = (16, 16)

    traffic = staticmethod(convolution_bytes)

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        (width, height, _), (pixels, filters) = self.group, self.tile
        return width * ceil_div(layer.side**2, pixels), height * ceil_div(layer.filters, filters), count


class Joint(Fused):
    """A matrix product in which a work-item has one pixel and 16 filters."""

    group = (128, 1, 1)
    tile = (128, 16)


class Unrolled(Fused):
    """Unroll the input of a mini-batch to matrices in memory, then multiply. Option `minibatch`: its number of images."""

    before = "unroll"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; the unrolled input is written and read as well."""
        matrices = sum(layer.terms * layer.side**2 for layer in LAYERS)
        return convolution_bytes(case, variant, least) + 8.0 * int(case.params["batch"]) * matrices

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return fewer_images(case, variant.options.get("minibatch", 0))

    @classmethod
    def small_options(cls, variant: Variant) -> Mapping[str, Any]:
        return {"minibatch": 3}

    def set_up(self) -> None:
        self.minibatch = int(self.variant.options.get("minibatch", MINIBATCH))

    def allocate(self, layer: Layer) -> list[Buffer]:
        matrices = 4 * min(self.batch, self.minibatch) * layer.terms * layer.side**2
        self.matrices = self.device.empty(matrices)
        return [*super().allocate(layer), self.matrices]

    def steps(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> Iterator[Step]:
        """Yield two launches for each mini-batch: unroll it, multiply it."""
        built, pixels = self.built[layer], LINE * ceil_div(layer.side**2, LINE)
        assert built.before
        for at in range(first, first + count, self.minibatch):
            many, start = min(self.minibatch, first + count - at), np.int32(at)
            global_size, local_size = (pixels, layer.channels, many), (LINE, 1, 1)
            yield partial(queue.launch, built.before, global_size, local_size, x, self.matrices, start)
            size = self.size(layer, many)
            yield partial(queue.launch, built.kernel, size, self.group, self.matrices, y, start, *built.arguments)

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        for step in self.steps(layer, queue, x, y, first, count):
            step()

    def op_time(self, layer: Layer, x: Buffer, y: Buffer) -> float:
        laps = self.queue.laps(*self.steps(layer, self.queue, x, y, 0, self.batch))
        self.parts["unroll"] = self.parts.get("unroll", 0.0) + sum(laps[::2])
        return sum(laps)

    def facts(self) -> dict[str, Any]:
        """Return the facts, with the unrolling's share of the kernels' time."""
        return {**super().facts(), "share of unroll": self.parts["unroll"] / self.parts["op"]}
