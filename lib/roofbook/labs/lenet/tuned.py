"""The network by cuDNN at its best: blocks of pixels are folded into channels, since tensor cores need several channels.

With one or four channels cuDNN has no fast kernel. A block of pixels can be folded into channels, like the space-to-depth of
residual networks' first layers. That adds products, all with zeros, and is several times as fast.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...spec.plan import Variant, stated_conditions
from .network import CLASSES, KERNEL
from .peers import Network, dense
from .problem import CONV1, CONV2, LAYERS, POOLS, Layer, conditions_of_whole, convolution_bytes, pooled_bytes, sampled


class Block(NamedTuple):
    """A block of input pixels that become channels of one pixel, and of as many output pixels that become filters."""

    rows: int
    columns: int

    @classmethod
    def of(cls, text: str) -> Block:
        """Parse a text such as `1x8`, rows by columns."""
        return cls(*map(int, text.split("x")))

    @property
    def taps(self) -> tuple[int, int]:
        """Height and width of the filters over blocks."""
        return blocks(KERNEL - 1 + self.rows, self.rows), blocks(KERNEL - 1 + self.columns, self.columns)

    def sides(self, layer: Layer) -> tuple[int, int]:
        """Return the rows and columns of blocks of a layer's input that all of its outputs need."""
        down, across = (blocks(layer.side, size) + taps - 1 for size, taps in zip(self, self.taps, strict=True))
        return down, across


Call = Callable[[Any], Any]


def blocks(size: int, block: int) -> int:
    return -(-size // block)


def folded_filters(weight: Any, block: Block) -> Any:
    """Turn filters (F, C, 7, 7) into filters over blocks: (rows * columns * F, rows * columns * C, ...)."""
    filters, channels = weight.shape[:2]
    (rows, columns), (height, width) = block, block.taps
    folded = weight.new_zeros(rows, columns, filters, height, rows, width, columns, channels)
    for row in range(rows):
        for column in range(columns):
            taps = weight.new_zeros(filters, channels, height * rows, width * columns)
            taps[:, :, row : row + KERNEL, column : column + KERNEL] = weight
            folded[row, column] = taps.unflatten(3, (width, columns)).unflatten(2, (height, rows)).movedim(1, -1)
    ordered = folded.permute(0, 1, 2, 4, 6, 7, 3, 5)
    return ordered.reshape(rows * columns * filters, rows * columns * channels, height, width)


# PyTorch compiles functions of tensors with constant numbers. These functions return such functions for a layer.


def folding(block: Block, layer: Layer, dtype: Any) -> Call:
    """Return a function that folds images (N, C, S, S) to (N, rows * columns * C, down, across), channels last.

    Beyond the edge of the images are zeros.
    """
    import torch
    from torch.nn import functional

    (rows, columns), (down, across) = block, block.sides(layer)
    height, width = min(layer.size, down * rows), min(layer.size, across * columns)
    edge = (0, across * columns - width, 0, down * rows - height)

    def fold(x: Any) -> Any:
        x = functional.pad(x.to(dtype)[:, :, :height, :width], edge)
        x = x.unflatten(3, (across, columns)).unflatten(2, (down, rows)).permute(0, 3, 5, 1, 2, 4)
        return x.flatten(1, 3).contiguous(memory_format=torch.channels_last)

    return fold


def pooling(block: Block, layer: Layer) -> Call:
    """Return a function that applies ReLU and pool to a convolution over blocks (N, rows * columns * F, ...): (N, F, ...).

    The edge cuts off the last windows. The result is float32 in NumPy's order.
    """
    from torch.nn import functional

    (rows, columns), filters, side, size = block, layer.filters, layer.side, layer.pool

    def pooled(y: Any) -> Any:
        y = y.unflatten(1, (rows, columns, filters)).permute(0, 3, 4, 1, 5, 2)
        maps = functional.relu(y.flatten(4, 5).flatten(2, 3)[:, :, :side, :side])
        return functional.max_pool2d(maps, size, ceil_mode=True).float().contiguous()

    return pooled


def passing(pool: Call, fold: Call) -> Call:
    """Return a function that turns the output of a convolution over blocks into the next convolution's input."""

    def between(y: Any) -> Any:
        return fold(pool(y))

    return between


class Folded(Network):
    """Each convolution by itself, with ReLU and pool: from float32 images to float32 maps, both in NumPy's order.

    `run` calls each twice, and returns the seconds of both second calls, each also a part. On a GPU a call is one CUDA graph.
    Options `conv1` and `conv2` set a layer's `Block`, as rows by columns.
    """

    best: Mapping[Layer, str] = {CONV1: "4x8", CONV2: "2x4"}
    """Default blocks: they give 128 filters, for which cuDNN has its fastest kernels of fp16."""

    traffic = staticmethod(pooled_bytes)

    @classmethod
    def conditions(cls, variant: Variant) -> tuple[str, ...]:
        return (*stated_conditions(variant), POOLS)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        self.x, dtype = self.tensor(self.images), self.form["dtype"]
        self.calls: dict[Layer, Callable[[], Any]] = {}
        self.maps: dict[Layer, Any] = {}
        self.filters, self.fold, self.pool = {}, {}, {}
        self.blocks = {layer: Block.of(self.options.get(layer.name, block)) for layer, block in self.best.items()}
        for layer, block in self.blocks.items():
            folded = folded_filters(self.tensor(inputs["weights"][layer.name]), block)
            self.filters[layer] = folded.to(dtype).contiguous(memory_format=self.torch.channels_last)
            self.fold[layer] = self.compiled(folding(block, layer, dtype))
            self.pool[layer] = self.compiled(pooling(block, layer))

    def poison(self) -> None:
        self.sampled = sampled(len(self.images))
        shapes = {name_of(layer): (len(self.sampled), *layer.pooled_shape) for layer in LAYERS}
        shapes["scores"] = (len(self.images), CLASSES)
        self.kept = {name: np.full(shape, np.nan) for name, shape in shapes.items()}
        for maps in self.maps.values():
            maps.fill_(float("nan"))

    def through(self, layer: Layer) -> None:
        """Compute a layer's maps from those of the layer before."""
        x = self.x if layer == CONV1 else self.maps[CONV1]
        self.maps[layer] = self.pool[layer](self.torch.conv2d(self.fold[layer](x), self.filters[layer]))

    def compute(self) -> None:
        for number, layer in enumerate(LAYERS, 1):
            if layer not in self.calls:
                self.calls[layer] = recorded(self, partial(self.through, layer))
            self.calls[layer]()
            self.parts[f"op {number}"], _ = self.timed(self.calls[layer])
            self.kept[name_of(layer)] = self.array(self.maps[layer][self.sampled])
        scores = dense(self.maps[CONV2], self.fc1, self.fc1_bias, self.fc2, self.fc2_bias)
        self.kept["scores"] = self.array(scores)
        self.seconds = self.parts["op"] = self.parts["op 1"] + self.parts["op 2"]

    def close(self) -> None:
        for cache in (self.calls, self.maps, self.filters):
            cache.clear()
        super().close()


class FoldedWhole(Folded):
    """The whole forward pass, one CUDA graph on a GPU. `run` returns its seconds; the part `pass` includes the copies."""

    traffic = staticmethod(convolution_bytes)
    conditions = staticmethod(conditions_of_whole)

    def prepare(self, inputs: Mapping[str, Any]) -> None:
        super().prepare(inputs)
        pool, fold = pooling(self.blocks[CONV1], CONV1), folding(self.blocks[CONV2], CONV2, self.form["dtype"])
        self.between = self.compiled(passing(pool, fold))
        self.dense = self.compiled(dense)
        self.forward: Callable[[], Any] | None = None
        self.scores: Any = None

    def poison(self) -> None:
        self.kept = {"scores": np.full((len(self.images), CLASSES), np.nan)}
        if self.scores is not None:
            self.scores.fill_(float("nan"))

    def all_of_it(self) -> None:
        first, last = LAYERS
        maps = self.between(self.torch.conv2d(self.fold[first](self.x), self.filters[first]))
        maps = self.pool[last](self.torch.conv2d(maps, self.filters[last]))
        self.scores = self.dense(maps, self.fc1, self.fc1_bias, self.fc2, self.fc2_bias)

    def compute(self) -> None:
        if self.forward is None:
            self.forward = recorded(self, self.all_of_it)
        start = time.perf_counter()
        self.x.copy_(self.torch.from_numpy(self.images))
        self.forward()
        scores = self.scores.cpu()
        self.parts["pass"] = time.perf_counter() - start
        self.kept["scores"] = self.array(scores)
        self.seconds, _ = self.timed(self.forward)

    def close(self) -> None:
        self.forward = None
        super().close()


def name_of(layer: Layer) -> str:
    """Return the name of a layer's pooled maps in `network`."""
    return layer.name.replace("conv", "pool")


def recorded(peer: Network, call: Callable[[], None]) -> Callable[[], Any]:
    """Record a call as one CUDA graph, after a first call that compiles it; on a CPU return the call itself."""
    call()
    if peer.place.type == "cpu":
        return call
    graph = peer.torch.cuda.CUDAGraph()
    peer.torch.cuda.synchronize()
    with peer.torch.cuda.graph(graph):
        call()
    replay: Callable[[], Any] = graph.replay
    return replay
