"""The steps with Hopper's warpgroup products: a kernel a convolution, or one for both, with operands in one part or in two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Device
from ...devices.hopper import COMPILER_OPTIONS
from ...spec.kernel_constants import constants
from ...spec.plan import Case, Variant, least_bytes
from ...spec.source import Source
from .forward import HERE, Built, Forward
from .problem import CONV1, CONV2, LAYERS, Layer, convolution_bytes, pooled_bytes
from .registers import Pooled
from .whole import Whole


class BlockShape(NamedTuple):
    """A block of a kernel: its warpgroups, and options of how they sum and fetch."""

    warpgroups: int
    chains: int = 1
    """Number of sums that the tensor cores build of a tile, if operands have two parts."""
    prefetches: int = 0
    """Whether the next image is fetched to the L2 cache beforehand."""


class Warpgroup(Forward):
    """Persistent blocks whose warpgroups each have their own images. Knob `PARTS`: number of parts of an operand."""

    takes_count = True
    cuts: Mapping[int, Mapping[Layer, BlockShape]] = {
        2: {CONV1: BlockShape(4, chains=2), CONV2: BlockShape(2, chains=4, prefetches=1)}
    }
    """Shapes of blocks by parts: the fastest of those tried whose error is at most that of fp32 products."""

    traffic = staticmethod(convolution_bytes)

    def set_up(self) -> None:
        self.parts_of_operand = int(self.knobs["PARTS"])

    def shape(self, layer: Layer) -> BlockShape:
        return self.cuts[self.parts_of_operand][layer]

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return (128 * self.shape(layer).warpgroups,)

    def turned(self, layer: Layer) -> dict[str, Any]:
        warpgroups, chains, prefetches = self.shape(layer)
        cut = {"WARPGROUPS": warpgroups, "CHAINS": chains, "PREFETCHES": prefetches}
        return {**Forward.turned(self, layer), **cut}

    def shared_bytes(self, layer: Layer) -> int:
        """Return the bytes of a block's shared memory."""
        return self.bytes_of_block(self.source, layer)

    def bytes_of_block(self, source: Source, layer: Layer) -> int:
        """Return the bytes of the weights, and of the inputs of each warpgroup."""
        constant, number = constants(source), 1 + LAYERS.index(layer)
        pixels = self.shape(layer).warpgroups * constant[f"PIXELS_{number}"]
        return self.parts_of_operand * (constant[f"STEPS_{number}"] * constant["STEP_BYTES"] + pixels)

    def build(self, layer: Layer) -> Built:
        text = self.source.with_knobs(**self.turned(layer)).render(self.device.backend)
        kernel = self.device.build(text, COMPILER_OPTIONS).kernel(self.source.path.stem)
        kernel.configure(dynamic_local_bytes=self.shared_bytes(layer))
        weights = self.device.upload(self.weights[layer.name])
        return Built(kernel, None, weights, (weights,))

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        return (self.group_of(layer)[0] * min(count, self.device.compute_units),)


class WarpgroupPooled(Warpgroup, Pooled):
    """Persistent blocks of warpgroups, with ReLU and pool."""

    cuts: Mapping[int, Mapping[Layer, BlockShape]] = {
        1: {CONV1: BlockShape(6, prefetches=1), CONV2: BlockShape(5, prefetches=1)},
        2: {CONV1: BlockShape(4, chains=2, prefetches=1), CONV2: BlockShape(3, chains=4, prefetches=1)},
    }

    traffic = staticmethod(pooled_bytes)


class WholeWarpgroup(Whole, WarpgroupPooled):
    """Both convolutions in one kernel, with the maps between them on the chip; then the dense layers.

    With operands of one part, the dense layers are on tensor cores as well, with operands rounded as far. The maps between the
    convolutions are never written to memory, nor compared.
    """

    cut_of_both: Mapping[int, BlockShape] = {1: BlockShape(5), 2: BlockShape(2, chains=4)}

    traffic = staticmethod(least_bytes)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        if self.parts_of_operand == 1:
            self.build_dense(Source.of(HERE / "dense_tensor.cu", VALUES=int(np.prod(CONV2.pooled_shape))))

    def shape(self, layer: Layer) -> BlockShape:
        return self.cut_of_both[self.parts_of_operand]

    def shared_bytes(self, layer: Layer) -> int:
        return sum(super(WholeWarpgroup, self).shared_bytes(one) for one in LAYERS)

    def turned(self, layer: Layer) -> dict[str, Any]:
        shape = self.shape(layer)
        return {"WARPGROUPS": shape.warpgroups, "CHAINS": shape.chains}

    def submit(self) -> None:
        built, weights = self.built[CONV1], [self.built[layer].weights for layer in LAYERS]
        size, group = self.size(CONV1, self.batch), self.group_of(CONV1)
        self.queue.launch(built.kernel, size, group, self.stages[0], self.stages[-1], np.int32(self.batch), *weights)
        self.submit_dense(self.stages[-1])

    def maps(self) -> dict[str, NDArray[np.floating]]:
        return {"pool2": self.y[CONV2]}
