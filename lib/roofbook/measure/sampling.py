"""How samples are taken: cold cache, warmed up, in rounds that interleave the variants, until there are enough."""

import random
import time
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from itertools import count

from ..devices import provenance
from ..devices.contract import Device
from ..devices.nvml import neighbours
from ..peers import threads
from . import stats
from .checkpoint import Checkpoint
from .measurement import Measurement
from .policy import Policy
from .progress import Progress
from .verify import check_alive, forget, lacks_memory, reason_of


def sample(group: Sequence[Measurement], policy: Policy, progress: Progress, checkpoint: Checkpoint) -> None:
    """Take the samples of measurements that are ready, all of one device; a failure becomes the reason of its own one.

    In which order is drawn by the seed of their run. Their rounds come after those of others in the run.
    """
    flush = flush_of(group[0].device) if policy.cache == "cold" else lambda: None
    clocks = provenance.Clocks(group[0].device.kind, group[0].device.pci_bus_id)
    _look_around(group, "before")
    active = []
    for it in group:
        progress(it.variant.name, "warm up")
        try:
            assert it.runnable is not None
            if not it.warm:
                it.runnable.run()
        except Exception as error:
            _fail(it, error, group)
            continue
        if it.samples and enough(it, policy):  # interrupted before it was verified again
            _end(it)
        else:
            active.append(it)
    due = [set(it.rounds) for it in active if not enough(it, policy)]
    cut = set[int]().union(*due) - set[int].intersection(*due) if due else set[int]()
    order = random.Random(group[0].seed)
    begun = max((1 + max(it.rounds) for it in active if it.rounds), default=0)
    for turn, number in enumerate(count(max(begun, checkpoint.first_round(group)))):
        if not active:
            break
        # Drawn anew every second round and walked back in between: a drift then favours no place in the row.
        if turn % 2 == 0:
            order.shuffle(active)
        else:
            active.reverse()
        for it in (each for each in active if len(each.samples) < policy.maximum):
            progress(it.variant.name, f"sample {len(it.samples) + 1} of at most {policy.maximum}")
            _take(it, number, group, flush, clocks)
            checkpoint.now_and_then()
        for it in active:
            if it.runnable and (len(it.samples) >= policy.maximum or enough(it, policy, cut)):
                _end(it)
        active = [it for it in active if it.runnable and not it.sampled]
    _look_around(group, "after")


def _look_around(group: Sequence[Measurement], when: str) -> None:
    """Note how busy the other cards of the host are. In the midst it would take time between two samples."""
    device = group[0].device
    if device.kind == "gpu" and (found := neighbours(device.pci_bus_id)) is not None:
        for it in group:
            it.neighbours[when] = found


def _fail(it: Measurement, error: Exception, group: Sequence[Measurement]) -> None:
    """Give its memory back, and note its reason; none where it only lacks memory that others of the group hold."""
    it.release()
    it.reason = reason_of(error)
    check_alive(error, it.device)
    forget(error)
    if lacks_memory(error) and any(each.runnable for each in group):
        it.reason = None
        it.start_over()


def _end(it: Measurement) -> None:
    """What its runs tell besides their times, of one that has all of its samples."""
    try:
        assert it.runnable is not None
        told = it.runnable.facts()
        it.facts, it.sampled = {**told, **threads.facts(it.variant, told)}, True
    except Exception as error:
        it.release()
        it.reason = reason_of(error)


def _take(
    it: Measurement, number: int, group: Sequence[Measurement], flush: Callable[[], None], clocks: provenance.Clocks
) -> None:
    """One sample, of round `number`."""
    start = time.perf_counter()
    flush()
    it.emptying += time.perf_counter() - start
    try:
        assert it.runnable is not None
        with threads.in_place(it.variant):
            start = time.perf_counter()
            own = it.runnable.run()
            seconds = time.perf_counter() - start
    except Exception as error:
        _fail(it, error, group)
        return
    it.samples.append(seconds if own is None else own)
    it.walls.append(seconds)
    for name, part in it.runnable.parts.items():
        it.parts.setdefault(name, []).append(part)
    it.rounds.append(number)
    it.clocks.append(clocks.read())  # last: it marks the sample as noted whole


def enough(it: Measurement, policy: Policy, cut: Collection[int] = ()) -> bool:
    """Whether no further sample is needed. cut: rounds that an interrupt cut short, which pair with few others.

    Neither their samples are of the least, nor those of a device that slowed itself down: others are taken in their place, up
    to the maximum; where one run outlasts the budget, up to twice as many.
    """
    kept = [at for at, read in enumerate(it.clocks) if not provenance.slowed(read["throttle"])]
    n, spent = len({it.rounds[at] for at in kept}.difference(cut)), sum(it.walls)
    slow = spent >= 3 * policy.budget_s
    if n < (policy.few if slow or it.role == "sweep" else policy.minimum):
        scarce = n >= policy.scarce or len(set(it.rounds).difference(cut)) >= 2 * policy.scarce
        return scarce and spent / len(it.walls) >= policy.budget_s
    noise = stats.relative_standard_error([it.samples[at] for at in kept])
    return spent + it.emptying >= policy.budget_s or noise < policy.noise


class Flush:
    """Overwrites the device's last cache by a copy. On a GPU at least 256 MiB: OpenCL tells of the first level only.

    What the device holds there against being overwritten is let go of first: `Device.release_persisting`.

    A CPU copies with all its cores, each a part: a memcpy is one core's work, and most of a quick sample's time.
    """

    def __init__(self, device: Device) -> None:
        import numpy as np

        size = max(device.cache_bytes, (256 << 20) if device.kind == "gpu" else (8 << 20))
        parts = device.compute_units if device.kind == "cpu" else 1
        # What it holds is no matter, but that it is not zeros: a MiB, repeated.
        drawn = np.random.default_rng(0).integers(0, 255, 1 << 20, np.uint8)
        held = np.resize(drawn, -(-size // parts))
        self.device = device
        self.copies = [(device.queue(), device.empty(held.nbytes), device.upload(held)) for _ in range(parts)]

    def __call__(self) -> None:
        self.device.release_persisting()
        for queue, target, source in self.copies:
            queue.copy(target, source)
        for queue, _, _ in self.copies:
            queue.finish()


@lru_cache(maxsize=2)  # a lab's device and its host
def flush_of(device: Device) -> Flush:
    """Made once for all cases: to fill its buffers takes as long as to sample a quick case."""
    return Flush(device)
