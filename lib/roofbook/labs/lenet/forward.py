"""How the host drives the network: a convolution at a time on one queue, each with its memory, copies and kernels.

The parts between the convolutions are the same for all steps and in none of their times.
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
from ...spec.lab import Case, Runnable, Variant
from ...spec.source import Source
from .network import CLASSES, SHAPES
from .problem import CONV1, CONV2, LAYERS, Layer, sampled

HERE = Path(__file__).parent
MINIBATCH = 1000
"""Images whose unrolled input is in memory at a time, as published."""
LINE = 256
"""Work-items of a group of the simple kernels: those that write one value each."""
Step = Callable[[], None]
HIDDEN = SHAPES["fc1"][0]


@lru_cache(maxsize=4)
def host(*shape: int) -> NDArray[np.float32]:
    """An array of the host that all steps of a batch use in turn: one each would take 2 GB a step at 10000 images."""
    return np.empty(shape, np.float32)


class Built(NamedTuple):
    """A convolution's program for one layer."""

    kernel: Kernel
    """The main one: facts are of it."""
    before: Kernel | None
    """The one that prepares what it needs."""
    weights: Buffer
    arguments: tuple[Buffer, ...]
    """What each launch of the main kernel ends with, for its weights."""


class Forward(Runnable):
    """A batch through the network. `run` tells the device's seconds for the kernels of both convolutions, the op time.

    The layer time of `parts` is what the host waits for with one convolution: memory, copies to and from the device, kernels.
    """

    group: tuple[int, ...]
    before: str | None = None
    """The kernel that goes before the main one, which is named as its file."""
    parts: dict[str, float]
    pooled = False
    """Whether its kernels write pooled maps."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source is not None
        self.device, self.variant, self.source, self.units = device, variant, variant.source, case.units
        self.knobs = variant.source.settings
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
        """Sets what follows from the knobs and options, such as the group."""

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        """The group of the main kernel."""
        return self.group

    def y_shape(self, layer: Layer) -> tuple[int, ...]:
        """What a layer's kernels leave of one image."""
        return layer.y_shape

    def turned(self, layer: Layer) -> dict[str, Any]:
        """The knobs that follow from the layer."""
        return {"CHANNELS": layer.channels, "FILTERS": layer.filters, "SIZE": layer.size}

    def build(self, layer: Layer) -> Built:
        """The layer's program; its weights on the device, unless each run copies them."""
        program = self.device.build(self.source.with_knobs(**self.turned(layer)).render(self.device.backend))
        kernel, weights = program.kernel(self.source.path.stem), self.weights[layer.name]
        before = program.kernel(self.before) if self.before else None
        if self.constant:
            return Built(kernel, before, *program.constant("weights", weights.nbytes))
        buffer = self.device.upload(weights)
        return Built(kernel, before, buffer, (buffer,))

    @abstractmethod
    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        """The global size of the main kernel for `count` images."""

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        """Submit the kernels for `count` images from image `first` of the buffers on: `x` and `y` as NCHW, float32."""
        built = self.built[layer]
        queue.launch(
            built.kernel, self.size(layer, count), self.group_of(layer), x, y, np.int32(first), *built.arguments
        )

    def allocate(self, layer: Layer) -> list[Buffer]:
        """Input, output, and what else the layer's kernels need of the device's memory."""
        return [self.device.empty(4 * self.batch * math.prod(shape)) for shape in (layer.x_shape, self.y_shape(layer))]

    @contextmanager
    def clock(self, *names: str) -> Iterator[None]:
        """Adds what it encloses to these parts, by the host's clock."""
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
        self.parts |= {what: self.parts[f"{what} 1"] + self.parts[f"{what} 2"] for what in ("op", "layer")}
        return self.parts["op"]

    def convolve(self, number: int, layer: Layer, images: NDArray[np.float32]) -> NDArray[np.float32]:
        """One convolution of a batch of the host, timed; then ReLU and pool, not timed. The pooled maps, on the host."""
        of_layer = f"layer {number}"
        with self.clock(of_layer, "allocate"):
            x, y, *more = self.allocate(layer)
        if self.poisoned:
            self.queue.write(y, self.y[layer])
        if self.constant:
            with self.clock(of_layer, "copy to constant memory"):
                self.queue.write(self.built[layer].weights, self.weights[layer.name])
        self.parts[f"op {number}"] = self.through(of_layer, layer, x, y, images)
        pooled = self.pool(layer, y)
        with self.clock(of_layer, "free"):
            for buffer in (x, y, *more):
                buffer.release()
        return pooled

    def through(self, of_layer: str, layer: Layer, x: Buffer, y: Buffer, images: NDArray[np.float32]) -> float:
        """Copies `images` to x and y to the host, the kernels between. The op time: of the same launches, once more."""
        with self.clock(of_layer, "copy"):
            self.queue.write(x, images)
        with self.clock(of_layer, "kernels"):
            self.launch(layer, self.queue, x, y, 0, self.batch)
            self.queue.finish()
        with self.clock(of_layer, "copy"):
            self.queue.read(y, self.y[layer])
        return self.op_time(layer, x, y)

    def op_time(self, layer: Layer, x: Buffer, y: Buffer) -> float:
        """The device's seconds for the layer's kernels."""
        return self.queue.timed(lambda: self.launch(layer, self.queue, x, y, 0, self.batch))

    def pool(self, layer: Layer, y: Buffer) -> NDArray[np.float32]:
        """ReLU and pool of a convolution's output, on the host."""
        pooled_host = host(self.batch, *layer.pooled_shape)
        pooled = self.device.empty(pooled_host.nbytes)
        size = LINE * ceil_div(math.prod(layer.pooled_shape), LINE), self.batch
        self.queue.launch(self.rest[layer].kernel("pool"), size, (LINE, 1), y, pooled)
        self.queue.read(pooled, pooled_host)
        pooled.release()
        return pooled_host

    def classify(self, images: NDArray[np.float32]) -> None:
        """The two dense layers on the pooled maps of the host."""
        pooled, scores = self.device.empty(images.nbytes), self.device.empty(self.scores.nbytes)
        self.queue.write(pooled, images)
        kernel = self.rest[CONV2].kernel("classify")
        self.queue.launch(kernel, (HIDDEN * self.batch,), (HIDDEN,), pooled, *self.dense, scores)
        self.queue.read(scores, self.scores)
        for buffer in (pooled, scores):
            buffer.release()

    def maps(self) -> dict[str, NDArray[np.floating]]:
        """What the host received of each layer, by the names of the reference."""
        return {layer.name: y for layer, y in self.y.items()}

    def outcome(self) -> dict[str, NDArray[np.float64]]:
        """The maps of the sampled images, and the scores of all."""
        maps = {name: y[self.sampled].astype(np.float64) for name, y in self.maps().items()}
        return {**maps, "scores": self.scores.astype(np.float64)}

    def reset(self) -> None:
        for array in (*self.y.values(), self.scores):
            array.fill(np.nan)
        self.kept, self.poisoned = self.outcome(), True

    def outputs(self) -> dict[str, np.ndarray]:
        return dict(self.kept)

    def facts(self) -> dict[str, Any]:
        """Of layer 2's main kernel, of layer 1's with `_1`, and of the last run: the share of images that it got right."""
        right = float((self.scores.argmax(axis=1) == self.labels).mean())
        found: dict[str, Any] = {"accuracy": right, **self.data}
        for layer, ending in ((CONV2, ""), (CONV1, "_1")):
            group = self.group_of(layer)
            groups = math.prod(self.size(layer, self.batch)) // math.prod(group)
            shape = {"group": "x".join(map(str, group)), "groups": groups}
            taken = {**shape, **resources(self.device, self.built[layer].kernel, group)}
            found |= {name + ending: value for name, value in taken.items()}
        return found

    def close(self) -> None:
        for buffer in (*self.dense, *(built.weights for built in self.built.values())):
            buffer.release()


def _rest(layer: Layer) -> Source:
    """What follows a convolution."""
    sizes = {"FILTERS": layer.filters, "SIDE": layer.side, "POOL": layer.pool}
    return Source.of(HERE / "rest.k", **sizes, HIDDEN=HIDDEN, CLASSES=CLASSES)


class Direct(Forward):
    """A work-item an output; a group `side` x `side` pixels of one filter, or of one filter and one channel."""

    group = (16, 16, 1)
    side = 16

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
    """The same, with 2 x 2 outputs a work-item and the group's part of the input in local memory."""

    def set_up(self) -> None:
        super().set_up()
        tile = int(self.knobs["TILE_WIDTH"])
        self.group, self.side = (tile, tile, 1), 2 * tile


class Fused(Forward):
    """A matrix product for each image, a group a tile of `tile` pixels by filters."""

    group = (16, 16, 1)
    tile = (16, 16)

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        (width, height, _), (pixels, filters) = self.group, self.tile
        return width * ceil_div(layer.side**2, pixels), height * ceil_div(layer.filters, filters), count


class Joint(Fused):
    """A work-item one pixel and 16 filters."""

    group = (128, 1, 1)
    tile = (128, 16)


class Unrolled(Fused):
    """The input of a mini-batch as matrices in memory first; option `minibatch` is how many images it has."""

    before = "unroll"

    def set_up(self) -> None:
        self.minibatch = int(self.variant.options.get("minibatch", MINIBATCH))

    def allocate(self, layer: Layer) -> list[Buffer]:
        matrices = 4 * min(self.batch, self.minibatch) * layer.terms * layer.side**2
        self.matrices = self.device.empty(matrices)
        return [*super().allocate(layer), self.matrices]

    def steps(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> Iterator[Step]:
        """Two for each mini-batch: unroll it, multiply it."""
        built, pixels = self.built[layer], LINE * ceil_div(layer.side**2, LINE)
        assert built.before
        for at in range(first, first + count, self.minibatch):
            many, start = min(self.minibatch, first + count - at), np.int32(at)
            whole, line = (pixels, layer.channels, many), (LINE, 1, 1)
            yield partial(queue.launch, built.before, whole, line, x, self.matrices, start)
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
        """With the unrolling's share of the kernels' time."""
        return {**super().facts(), "share of unroll": self.parts["unroll"] / self.parts["op"]}
