"""What the plans of most labs share: kernels on one device, timed by the device from the first to the last."""

from abc import abstractmethod
from typing import Any

import numpy as np

from ..devices.contract import Buffer, Device, Kernel, Unsupported
from ..devices.occupancy import occupancy
from .lab import Runnable


def ceiling(size: int, part: int) -> int:
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
    """What the compiler says a kernel takes and, where the device tells what there is, how many groups fit."""
    taken = kernel.resources()
    place = device.multiprocessor
    return {**taken, **occupancy(taken, int(np.prod(group)), place)} if place else taken


def fit(device: Device, group: tuple[int, ...]) -> None:
    """Raises Unsupported where a group is larger than the device takes."""
    items = int(np.prod(group))
    if items > device.max_work_group:
        shape = f" ({'x'.join(map(str, group))})" if len(group) > 1 else ""
        raise Unsupported(f"{items} work-items a group{shape}: {device.max_work_group} at most")
