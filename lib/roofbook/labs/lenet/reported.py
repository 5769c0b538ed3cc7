"""The direct kernels as the lab's report launched them: outputs in a line, groups with the halo, channels in a group, streams.

The plans of `forward` and `streams` launch this project's own kernels for the same ideas.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Buffer, Queue
from ...spec.kernel_run import ceil_div
from .forward import LINE, Forward, Joint, Step
from .network import KERNEL
from .problem import Layer, convolution_bytes
from .streams import Streams


class Linear(Forward):
    """One work-item an output, with the outputs of all images in one line."""

    group: tuple[int, ...] = (1024,)
    takes_count = True

    traffic = staticmethod(convolution_bytes)

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        wide, *deep = self.group_of(layer)
        return wide * ceil_div(count * layer.y_values, wide), *deep


class TiledHalo(Forward):
    """Groups of 23 x 23 work-items for 34 x 34 outputs: half of these, and a halo of 6. The group's input is in local memory.

    The input is that of all channels, or of one channel if sums are atomic. For atomic sums the report has blocks of
    23 x 23 x C. With the four channels of layer 2 these would be 2116 threads, more than any CUDA device takes. So C is in the
    grid here, and the blocks stay 23 x 23.
    """

    traffic = staticmethod(convolution_bytes)

    def set_up(self) -> None:
        tile = int(self.knobs["TILE_WIDTH"])
        self.group, self.side = (tile + KERNEL - 1, tile + KERNEL - 1, 1), 2 * tile
        self.atomic = self.knobs["CHANNELS_BY"] == "ATOMIC"

    def size(self, layer: Layer, count: int) -> tuple[int, ...]:
        width, height, _ = self.group
        planes = layer.filters * (layer.channels if self.atomic else 1)
        return width * planes, height * ceil_div(layer.side, self.side) ** 2, count


class Cleared(Forward):
    """Outputs cleared before atomic sums: the part `clear`, which the layer time includes and the op time does not."""

    before = "clear"

    def clear(self, layer: Layer, y: Buffer, first: int, count: int) -> None:
        """Write zeros for `count` images from image `first` of y on, and wait for them."""
        kernel = self.built[layer].before
        assert kernel
        self.queue.launch(kernel, (LINE * ceil_div(layer.y_values, LINE), count), (LINE, 1), y, np.int32(first))
        self.queue.finish()

    def through(self, of_layer: str, layer: Layer, x: Buffer, y: Buffer, images: NDArray[np.float32]) -> float:
        with self.clock(of_layer, "clear"):
            self.clear(layer, y, 0, self.batch)
        return super().through(of_layer, layer, x, y, images)

    def op_time(self, layer: Layer, x: Buffer, y: Buffer) -> float:
        self.clear(layer, y, 0, self.batch)
        return super().op_time(layer, x, y)


class LinearAtomic(Cleared, Linear):
    """Groups of `items` work-items, outputs by input channels: 96 by 1 in layer 1, 24 by 4 in layer 2."""

    items = 96

    def group_of(self, layer: Layer) -> tuple[int, ...]:
        return self.items // layer.channels, layer.channels


class TiledHaloAtomic(Cleared, TiledHalo):
    """One input channel a group, added by atomic operations."""


class Rotating(Streams):
    """Three queues in rotating roles: one copies a segment in, one computes the segment before, one copies the segment before
    that out. `images`: number of images in a segment; a smaller batch is one segment.
    """

    images: int

    def set_up(self) -> None:
        super().set_up()
        self.segment = int(self.variant.options.get("segment", self.images))

    def through(self, of_layer: str, layer: Layer, x: Buffer, y: Buffer, images: NDArray[np.float32]) -> float:
        x_host, y_host = self.host_arrays(layer, images)
        parts = [(first, min(first + self.segment, self.batch)) for first in range(0, self.batch, self.segment)]

        def submit() -> None:
            for turn in range(len(parts) + 2):
                for behind, do in enumerate((copy_in, compute, copy_out)):
                    if 0 <= turn - behind < len(parts):
                        do(self.queues[(turn - behind) % len(self.queues)], *parts[turn - behind])

        def copy_in(queue: Queue, first: int, last: int) -> None:
            queue.send(x, x_host[first:last], offset=first * x_host[0].nbytes)

        def compute(queue: Queue, first: int, last: int) -> None:
            self.launch(layer, queue, x, y, first, last - first)

        def copy_out(queue: Queue, first: int, last: int) -> None:
            queue.receive(y, y_host[first:last], offset=first * y_host[0].nbytes)

        return self.overlapped(of_layer, layer, submit, y_host)

    def overlapped(self, of_layer: str, layer: Layer, submit: Step, y_host: NDArray[np.float32]) -> float:
        """Run `submit`, which fills y_host. Return the seconds from the start of the first kernel to the end of the last."""
        with self.clock(of_layer, "copies and kernels"):
            self.spans[of_layer] = self.device.traced(self.queues, submit)
        with self.clock(f"op {of_layer[-1]} as published"):
            for queue in self.queues:
                queue.finish()
        if y_host is not self.y[layer]:
            self.y[layer][...] = y_host
        kernels = [span for span in self.spans[of_layer] if span.what == "kernel"]
        return max(span.end for span in kernels) - min(span.start for span in kernels)


class RotatingLinear(Rotating, Linear):
    """Rotating queues, with outputs in a line, in smaller groups."""

    group = (96,)
    images = 60


class RotatingHalo(Cleared, Rotating, TiledHalo):
    """Rotating queues, with the tiled and atomic kernels. All outputs are cleared before the first segment."""

    images = 125


class RotatingJoint(Rotating, Joint):
    """Rotating queues, with the joint product."""

    images = 100
