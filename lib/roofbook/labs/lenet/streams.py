"""Streams: a batch in segments on several queues, so that copies and kernels of different segments overlap."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import Buffer, Device, Span
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Variant
from .forward import Direct, Forward, Joint, Tiled, fewer_images
from .problem import Layer

QUEUES = 3
SEGMENT = 100
"""Largest number of images in a segment, one of three published numbers. A small batch has smaller segments, one a queue."""


class Streams(Forward):
    """A batch in segments on several queues. Options: `segment`, its number of images; `queues`, 1 for no overlap; `pinned`.

    `pinned` takes page-locked host arrays. The op time covers the work: from the start of the first kernel to the end of the
    last, waits included. The published op time is the part `op 1 as published`: a call that has nothing left to do.
    """

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        return fewer_images(case, variant.options.get("segment", 0))

    @classmethod
    def small_options(cls, variant: Variant) -> Mapping[str, Any]:
        return {"segment": 3} if "segment" in variant.options else {}

    def set_up(self) -> None:
        super().set_up()
        options = self.variant.options
        self.queues = [self.device.queue(profiling=True) for _ in range(int(options.get("queues", QUEUES)))]
        self.segment = int(options.get("segment", min(SEGMENT, ceil_div(self.batch, QUEUES))))
        self.spans: dict[str, list[Span]] = {}

    def host_arrays(self, layer: Layer, images: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return the host's arrays for the layer's input, filled with `images`, and for its output."""
        if not self.variant.options.get("pinned"):
            return images, self.y[layer]
        x = pinned(self.device, self.batch, *layer.x_shape)
        x[...] = images
        return x, pinned(self.device, self.batch, *self.y_shape(layer))

    def through(self, of_layer: str, layer: Layer, x: Buffer, y: Buffer, images: NDArray[np.float32]) -> float:
        x_host, y_host = self.host_arrays(layer, images)

        def submit() -> None:
            for number, first in enumerate(range(0, self.batch, self.segment)):
                queue, last = self.queues[number % len(self.queues)], min(first + self.segment, self.batch)
                queue.send(x, x_host[first:last], offset=first * x_host[0].nbytes)
                self.launch(layer, queue, x, y, first, last - first)
                queue.receive(y, y_host[first:last], offset=first * y_host[0].nbytes)

        with self.clock(of_layer, "copies and kernels"):
            self.spans[of_layer] = self.device.traced(self.queues, submit)
        with self.clock(f"op {of_layer[-1]} as published"):
            for queue in self.queues:
                queue.finish()
        if y_host is not self.y[layer]:
            self.y[layer][...] = y_host
        kernels = [span for span in self.spans[of_layer] if span.what == "kernel"]
        return max(span.end for span in kernels) - min(span.start for span in kernels)

    def facts(self) -> dict[str, Any]:
        """Return the facts, with the first layer's timeline, and each queue's share of the device's busy time by layer."""
        facts = super().facts()
        busy = {
            (of_layer, queue): sum(span.end - span.start for span in spans if span.queue == queue)
            for of_layer, spans in self.spans.items()
            for queue in range(len(self.queues))
        }
        shares = {
            f"share of stream {queue + 1}, {of_layer}": seconds / sum(busy.values())
            for (of_layer, queue), seconds in busy.items()
        }
        timeline = [[span.queue, span.what, span.start, span.end] for span in self.spans["layer 1"]]
        return {**facts, **shares, "timeline": timeline}


@lru_cache(maxsize=16)
def pinned(device: Device, *shape: int) -> NDArray[np.float32]:
    """Return a page-locked array that all steps of a batch use in turn."""
    array: NDArray[np.float32] = device.pinned(shape, np.float32)
    return array


class StreamsDirect(Streams, Direct):
    """One work-item an output, in segments."""


class StreamsTiled(Streams, Tiled):
    """Tiles in local memory, in segments."""


class StreamsJoint(Streams, Joint):
    """The joint product, in segments."""
