"""How the host drives the sparse layer: one kernel or two, with lists found in the kernel or built before."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...device import Device, Unsupported
from ...devices import host_cpu
from ...kernel_run import KernelRun, fit
from ...lab import Case, Variant
from ...source import Source
from .problem import Layer

HERE = Path(__file__).parent
SENTINEL = -1
"""No output is negative after ReLU."""
FAST_MATH = {"opencl": "-cl-fast-relaxed-math", "cuda": "--use_fast_math"}


def layer(case: Case) -> Layer:
    """The layer of a case."""
    return Layer(**case.params["layer"])


class Convolution(KernelRun):
    """The layer on a device. `run` tells the seconds of its kernels, from the first to the last."""

    kernel_name: str

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source is not None
        super().__init__(device, case.units)
        self.variant, self.layer = variant, layer(case)
        self.size = self.lay_out()
        fit(device, self.group)
        self.source = variant.source.turn(**self.sizes(), **self.turned())
        fast = (FAST_MATH[device.backend],) if variant.options.get("fast_math") else ()
        self.program = device.build(self.source.render(device.backend), (*fast, *variant.options.get("build", ())))
        self.kernel = self.program.kernel(self.kernel_name)
        border = self.layer.kernel // 2
        padded = np.pad(inputs["x"], ((0, 0), (border, border), (border, border)))
        self.x, self.weight = device.upload(padded), device.upload(inputs["weight"])
        self.conv = device.empty(4 * int(np.prod(self.layer.conv_shape)))
        self.out = device.empty(4 * int(np.prod(self.layer.out_shape)))
        self.buffers = [self.x, self.weight, self.conv, self.out]

    @abstractmethod
    def lay_out(self) -> tuple[int, ...]:
        """Sets the group where it follows from the layer; returns the global size."""

    def sizes(self) -> dict[str, int]:
        """The layer as knobs."""
        one = self.layer
        return {"DEPTH": one.depth, "FILTERS": one.filters, "SIZE": one.size, "TAPS": one.kernel}

    def turned(self) -> dict[str, Any]:
        """The knobs that follow from the launch."""
        return {}

    def reset(self) -> None:
        self.queue.write(self.conv, np.full(self.layer.conv_shape, SENTINEL, np.int32))
        self.queue.write(self.out, np.full(self.layer.out_shape, SENTINEL, np.int32))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.queue.read(self.out, np.empty(self.layer.out_shape, np.int32))}


class Sequential(Convolution):
    """One work-item, on the host's CPU device wherever the lab runs."""

    kernel_name = "sequential"
    group = (1,)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device if device.kind == "cpu" else host_cpu(), variant, case, inputs)

    def lay_out(self) -> tuple[int, ...]:
        return (1,)

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.weight, self.conv, self.out)


class Pooled(Convolution):
    """A kernel for convolution and ReLU, named as its file, and one for pooling.

    Or zeros first and atomic pooling, where the knob says so.
    """

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source is not None
        self.kernel_name = variant.source.path.stem
        super().__init__(device, variant, case, inputs)
        self.atomic = dict(self.source.knobs).get("POOL") == "ATOMIC"
        ending = Source.of(HERE / "pool.k", FILTERS=self.layer.filters, SIZE=self.layer.size)
        program = device.build(ending.render(device.backend))
        self.pool, self.clear = program.kernel("pool"), program.kernel("clear")
        self.outputs_size = (-(-int(np.prod(self.layer.out_shape)) // 256) * 256,)

    def lay_out(self) -> tuple[int, ...]:
        one = self.layer
        rows = self.variant.source is not None and dict(self.variant.source.knobs).get("GRID") == "ROW_GROUPS"
        self.group = (one.size,) if rows else (one.size**2,)
        return (one.filters * one.size**2,)

    def submit(self) -> None:
        if self.atomic:
            self.queue.launch(self.clear, self.outputs_size, (256,), self.out)
            self.queue.launch(self.kernel, self.size, self.group, self.x, self.weight, self.out)
        else:
            self.queue.launch(self.kernel, self.size, self.group, self.x, self.weight, self.conv)
            self.queue.launch(self.pool, self.outputs_size, (256,), self.conv, self.out)


class Lists(Pooled):
    """The same two launches; the first kernel turns its filters into sparse lists, a few channels at a time."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        assert variant.source is not None
        layers, taps = int(dict(variant.source.knobs)["LAYERS"]), layer(case).kernel ** 2
        needed = 4 * layers * (2 * taps + 1)
        if needed > device.local_bytes:
            raise Unsupported(
                f"lists of {layers} channels take {needed} bytes of local memory: {device.local_bytes} at most"
            )
        super().__init__(device, variant, case, inputs)


class Built(Convolution):
    """Lists built once by a kernel of its own, which is timed too; then a work-item a window of the pool."""

    kernel_name = "walk"
    group: tuple[int, ...] = (64, 1)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        one = self.layer
        self.slices = one.filters * one.depth
        self.build = self.program.kernel("build")
        self.entries, self.counts = device.empty(8 * self.slices * one.kernel**2), device.empty(4 * self.slices)
        self.buffers += [self.entries, self.counts]

    def lay_out(self) -> tuple[int, ...]:
        windows = (self.layer.size // 2) ** 2
        return (-(-windows // 64) * 64, self.layer.filters)

    def submit_build(self) -> None:
        size = -(-self.slices // 256) * 256
        self.queue.launch(self.build, (size,), (256,), self.weight, self.entries, self.counts)

    def submit(self) -> None:
        self.submit_build()
        self.queue.launch(self.kernel, self.size, self.group, self.x, self.entries, self.counts, self.out)


class Both(Built):
    """Lists of both sides, built by two kernels; then a group some filters, whose maps stay in local memory."""

    kernel_name = "scatter"
    group = (256,)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.lines = self.layer.depth * self.layer.size
        self.build_neurons = self.program.kernel("build_neurons")
        self.neurons, self.lengths = device.empty(8 * self.lines * self.layer.size), device.empty(4 * self.lines)
        self.buffers += [self.neurons, self.lengths]

    def lay_out(self) -> tuple[int, ...]:
        assert self.variant.source is not None
        together = int(dict(self.variant.source.knobs)["TOGETHER"])
        return (256 * -(-self.layer.filters // together),)

    def submit(self) -> None:
        self.submit_build()
        size = -(-self.lines // 256) * 256
        self.queue.launch(self.build_neurons, (size,), (256,), self.x, self.neurons, self.lengths)
        self.queue.launch(
            self.kernel, self.size, self.group, self.entries, self.counts, self.neurons, self.lengths, self.out
        )
