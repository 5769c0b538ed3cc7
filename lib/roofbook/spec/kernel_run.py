"""The base of most labs' plans: kernels on one queue, timed by the device from the first to the last."""

from abc import abstractmethod
from typing import Any

import numpy as np

from ..devices.contract import Buffer, Device, Kernel, Unsupported
from ..devices.occupancy import occupancy, share
from .plan import Plan, Variant


def ceil_div(size: int, part: int) -> int:
    """Return how many parts cover a size: `size / part`, rounded up."""
    return -(-size // part)


class KernelRun(Plan):
    """A runnable with one queue. `run` returns the seconds of all that `submit` launches.

    The `__init__` of a subclass sets `kernel`, `group` and `size`, and adds each buffer to `buffers`, which `close` releases.
    """

    kernel: Kernel
    """The kernel whose facts are stored."""
    group: tuple[int, ...]
    """Work-items of a group, by axis."""
    size: tuple[int, ...]
    """Work-items of a launch, by axis: the global size."""

    def __init__(self, device: Device, units: int) -> None:
        self.device, self.units = device, units
        self.queue = device.queue(profiling=True)
        self.buffers: list[Buffer] = []

    @abstractmethod
    def submit(self) -> None:
        """Queue all launches and copies that are timed."""

    def run(self) -> float:
        return self.queue.timed(self.submit)

    def facts(self) -> dict[str, Any]:
        items = int(np.prod(self.size))
        shape = {"group": "x".join(map(str, self.group)), "groups": items // int(np.prod(self.group))}
        shape |= {"work_items": items, "cores": self.device.cores}
        return {**shape, **resources(self.device, self.kernel, self.group)}

    def close(self) -> None:
        for buffer in self.buffers:
            buffer.release()


class Converting(KernelRun):
    """Base of a plan that converts its operands: once before a run with option `prepared`, otherwise timed in each run.

    The plan that it is mixed into follows it.
    """

    variant: Variant

    @property
    def prepared(self) -> bool:
        """Whether operands are converted before a run."""
        return bool(self.variant.options.get("prepared"))

    @abstractmethod
    def convert(self) -> None:
        """Queue the launches that convert operands."""

    @abstractmethod
    def multiply(self) -> None:
        """Queue the launches that follow."""

    def reset(self) -> None:
        super().reset()  # type: ignore[safe-super]  # that of the plan behind it
        if self.prepared:
            self.convert()
            self.queue.finish()

    def submit(self) -> None:
        if not self.prepared:
            self.convert()
        self.multiply()


def resources(device: Device, kernel: Kernel, group: tuple[int, ...]) -> dict[str, Any]:
    """Return the resources of a kernel by its compiler, and its occupancy if the device's multiprocessors are known.

    NVIDIA's published rule gives the resource that limits the occupancy. `occupancy` is the driver's count if it has one
    (`occupancy_by` is then `driver`), otherwise by the rule as well (`rule`).
    """
    compiled, items = kernel.resources(), int(np.prod(group))
    multiprocessor = device.multiprocessor
    if not multiprocessor:
        return compiled
    facts: dict[str, Any] = {**compiled, **occupancy(compiled, items, multiprocessor)}
    groups = kernel.groups_at_once(items)
    if groups is None:
        return {**facts, "occupancy_by": "rule"}
    return {**facts, "occupancy": share(groups, items, multiprocessor), "occupancy_by": "driver"}


def fit(device: Device, group: tuple[int, ...]) -> None:
    """Raise Unsupported if a work-group is larger than the device allows."""
    items = int(np.prod(group))
    if items > device.max_work_group:
        shape = f" ({'x'.join(map(str, group))})" if len(group) > 1 else ""
        raise Unsupported(f"{items} work-items a group{shape}: {device.max_work_group} at most")


def require_instructions(device: Device, feature: str) -> None:
    """Raise Unsupported if a device does not run kernels with the x86 instructions of a feature in their text."""
    if reason := device.lacks_instructions(feature):
        raise Unsupported(f"kernels with x86 instructions do not run on it: {reason}")


def require_ptx(device: Device, least: int) -> None:
    """Raise Unsupported if a device's compiler takes no PTX in a text, or its compute capability is below `least` / 10."""
    if device.ptx < least:
        words = f"this one has {device.ptx / 10}" if device.ptx else "it is none, and its compiler takes no PTX"
        raise Unsupported(f"an NVIDIA GPU of compute capability {least / 10} or higher is needed; {words}")
