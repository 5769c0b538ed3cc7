"""The step in which one kernel with roles computes the whole network, dense layers included."""

from __future__ import annotations

import numpy as np

from ...spec.kernel_constants import constants, work_items
from ...spec.source import Source
from .problem import CONV1, LAYERS, Layer
from .warpgroup import WholeWarpgroup


class WholeRoles(WholeWarpgroup):
    """The whole forward pass as one launch: persistent blocks, whose warpgroups have roles, take image after image.

    The first dense layer multiplies in fp16; in `whole-fused` it does so in TF32, which has the range of fp32. So a last pooled
    map with a value above 65504, the largest number of fp16, gives wrong scores: the value becomes infinite. The check against
    the reference refuses such scores. With the trained weights of either data set no image of pixels from 0 to 255 has a value
    above 54.
    """

    def set_up(self) -> None:
        super().set_up()
        self.items = work_items(self.source, self.source.path.stem)

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return (self.items,)

    def shared_bytes(self, layer: Layer) -> int:
        return constants(self.source)["SHARED_BYTES"]

    def turned(self, layer: Layer) -> dict[str, int]:
        return {}

    def build_dense(self, source: Source) -> None:
        """Build nothing: the dense layers are part of the kernel."""

    def submit(self) -> None:
        size, group = self.size(CONV1, self.batch), self.group_of(CONV1)
        weights = [self.built[layer].weights for layer in LAYERS]
        arguments = self.stages[0], self.stages[-1], self.out, np.int32(self.batch), *weights, *self.dense
        self.queue.launch(self.built[CONV1].kernel, size, group, *arguments)
