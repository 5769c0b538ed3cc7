"""What the plans of most labs share: kernels on one device, timed by the device from the first to the last."""

from abc import abstractmethod
from typing import Any

import numpy as np

from ..devices.contract import Buffer, Device, Kernel, Unsupported
from ..devices.occupancy import occupancy, share
from .lab import Runnable


def ceil_div(size: int, part: int) -> int:
    """How many parts cover the size."""
    return -(-size // part)


class KernelRun(Runnable):
    """A runnable of one queue. `run` tells the seconds of all that `submit` launches; its facts are those of `kernel`."""

    kernel: Kernel
    group: tuple[int, ...]
    size: tuple[int, ...]
    """The global size."""

    def __init__(self, device: Device, units: int) -> None:
        self.device, self.units = device, units
        self.queue = device.queue(profiling=True)
        self.buffers: list[Buffer] = []

    @abstractmethod
    def submit(self) -> None:
        """Queue all that is timed."""

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


def resources(device: Device, kernel: Kernel, group: tuple[int, ...]) -> dict[str, Any]:
    """What the compiler says a kernel takes and, where the device tells what there is, how many groups fit.

    What sets the limit is told by NVIDIA's published rule. `occupancy` is the driver's own count where there is one, and then
    `occupancy_by` is `driver`; else it is by that rule as well.
    """
    taken, items = kernel.resources(), int(np.prod(group))
    place = device.multiprocessor
    if not place:
        return taken
    found: dict[str, Any] = {**taken, **occupancy(taken, items, place)}
    groups = kernel.groups_at_once(items)
    if groups is None:
        return {**found, "occupancy_by": "rule"}
    return {**found, "occupancy": share(groups, items, place), "occupancy_by": "driver"}


def fit(device: Device, group: tuple[int, ...]) -> None:
    """Raises Unsupported where a group is larger than the device takes."""
    items = int(np.prod(group))
    if items > device.max_work_group:
        shape = f" ({'x'.join(map(str, group))})" if len(group) > 1 else ""
        raise Unsupported(f"{items} work-items a group{shape}: {device.max_work_group} at most")
