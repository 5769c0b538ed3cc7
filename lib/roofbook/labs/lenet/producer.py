"""The steps in which the warpgroups of layer 1 have roles: one prepares operands, the others multiply."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Queue
from ...devices.hopper import COMPILER_OPTIONS, tensor_map
from ...spec.kernel_constants import Constants, constants
from ...spec.source import Source
from .forward import HERE, Built
from .problem import CONV2, Layer
from .warpgroup import Warpgroup

LAYER_2 = Source.of(HERE / "warpgroup.cu", PARTS=2, ENDING="MAPS")


class Producer(Warpgroup):
    """Layer 1 by producer.cu, in slots that one warpgroup fills and the others empty; layer 2 by the kernel of `split`."""

    sources = LAYER_2.files

    @cached_property
    def constants(self) -> Constants:
        """Constants of the text of layer 1's kernel."""
        return constants(self.source)

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return super().group_of(layer) if layer == CONV2 else (128 * int(self.knobs["WARPGROUPS"]),)

    def shared_bytes(self, layer: Layer) -> int:
        if layer == CONV2:
            return self.bytes_of_block(LAYER_2, layer)
        constant = self.constants
        boxes = 4 * constant["CONSUMERS"] * constant["BOX_BYTES"]  # one for each of a consumer's four warps
        slots = constant["SLOTS"] * constant["PARTS"] * constant["PIXELS"]
        barriers = 8 * 2 * (constant["SLOTS"] + constant["RING"])
        return boxes + slots + constant["RING"] * 4 * constant["CHUNK_FLOATS"] + barriers

    def build(self, layer: Layer) -> Built:
        source = LAYER_2.with_knobs(**self.turned(layer)) if layer == CONV2 else self.source
        program = self.device.build(source.render(self.device.backend), COMPILER_OPTIONS)
        kernel = program.kernel(source.path.stem)
        kernel.configure(dynamic_local_bytes=self.shared_bytes(layer))
        weights = self.device.upload(self.weights[layer.name])
        return Built(kernel, None, weights, (weights,))

    def allocate(self, layer: Layer) -> list[Buffer]:
        """Allocate input, output and TMA's description of layer 1's output, which launches use until the next call.

        Its dimensions are columns, pairs of rows, the two rows of a pair, maps. So a box has all upper rows before the lower
        ones, though an upper row and its lower one are neighbours in memory.
        """
        x, y = super().allocate(layer)
        if layer == CONV2:
            return [x, y]
        row, places, pairs = 4 * layer.side, self.constants["PLACES"], self.constants["PAIRS"]
        sizes = layer.side, layer.side // 2, 2, self.batch * layer.filters
        described = tensor_map(
            y,
            sizes,
            (8 * places, pairs, 2, 1),
            half=False,
            strides=(2 * row, row, row * layer.side),
            size=4,
            swizzled=False,
        )
        self.map: Any = self.device.upload(np.frombuffer(described, np.uint8))
        return [x, y, self.map]

    def launch(self, layer: Layer, queue: Queue, x: Buffer, y: Buffer, first: int, count: int) -> None:
        if layer == CONV2:
            super().launch(layer, queue, x, y, first, count)
            return
        built, range_ = self.built[layer], (np.int32(first), np.int32(count))
        queue.launch(
            built.kernel, self.size(layer, count), self.group_of(layer), x, y, *range_, *built.arguments, self.map
        )
