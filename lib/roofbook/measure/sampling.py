"""How samples are taken: cold cache, warmed up, in rounds that interleave the variants, until there are enough.

Before some samples, drawn in secret, outputs and scratch memory are poisoned. The outputs of those very samples are checked,
and they must not take longer than the others: a kernel that finds its results already there has nothing to do.
"""

import random
import secrets
import statistics
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from functools import lru_cache
from itertools import count

from ..devices import provenance
from ..devices.contract import Device
from ..devices.nvml import neighbours
from ..peers import threads
from . import stats
from .buffer_ledger import Held
from .checked_runnable import BadValue, parts_of, seconds_of
from .checkpoint import Checkpoint
from .measurement import Measurement
from .policy import Policy
from .progress import Progress
from .verify import check_alive, forget, lacks_memory, reason_of, run_on_others

FIRST = 3
"""One of so many first samples is judged..."""
SHARE = 1 / 8
"""...and of those after them this share, by chance..."""
JUDGED = 4
"""...until so many are."""
SUSPECT = 1.05
"""From this ratio on of judged samples to others, by their medians, pairs of runs decide whether work was left out."""
LONGER = 1.1
"""Ratio of runs on poisoned outputs to runs on finished ones, by the median of pairs, from which on work was left out."""
PAIRS, PAIRS_OF_LONG, LONG_S = 20, 8, 1.0
"""Pairs of runs that decide; of runs longer than LONG_S, which noise moves less, fewer."""
AGAINST = 1 / 6
"""Share of pairs that may show no difference: of 20, so few do by chance once in 800 times, and on a busy machine some do."""

_drawn = secrets.SystemRandom()

Judge = Callable[[Measurement, int], None]
"""Checks the outputs of the sample of this number, which was just taken; a wrong result becomes the reason."""


def sample(
    group: Sequence[Measurement], policy: Policy, progress: Progress, checkpoint: Checkpoint, judge: Judge
) -> None:
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
            run_on_others(it)
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
            if not _is_judged(it):
                _take(it, number, group, flush, clocks)
            else:
                _take_judged(it, number, group, flush, clocks, progress, judge)
                if policy.cache == "warm":
                    _warm_again(active, progress)
            checkpoint.now_and_then()
        for it in active:
            if it.runnable and (len(it.samples) >= policy.maximum or enough(it, policy, cut)):
                _compare_judged(it, group, flush, progress)
                if it.runnable:
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
        facts = it.runnable.facts()
        it.facts, it.sampled = {**facts, **threads.facts(it.variant, facts)}, True
    except Exception as error:
        it.release()
        it.reason = reason_of(error)


def _is_judged(it: Measurement) -> bool:
    """Draw whether the next sample is one whose outputs are checked. Nothing that a kernel can see tells."""
    taken, judged = len(it.samples), len(it.poisoned)
    if judged >= JUDGED:
        return False
    if taken < FIRST:
        return judged == 0 and _drawn.randrange(FIRST - taken) == 0
    return judged == 0 or _drawn.random() < SHARE


def _take_judged(
    it: Measurement, number: int, group: Sequence[Measurement], flush: Callable[[], None], clocks: provenance.Clocks,
    progress: Progress, judge: Judge,
) -> None:  # fmt: skip
    """Take one sample on poisoned outputs and scratch memory, and check its own outputs.

    A run on other operands comes before it, untimed: a kernel that keeps results as long as operands stay has to compute.
    """
    at = len(it.samples)
    try:
        assert it.runnable is not None
        run_on_others(it)
        it.ledger.reset(it.runnable)
    except Exception as error:
        _fail(it, error, group)
        return
    _take(it, number, group, flush, clocks, judged=True)
    if not it.runnable:
        return
    it.poisoned.append(at)
    try:
        judge(it, at)
    except Exception as error:
        _fail(it, error, group)
    if it.reason:
        it.release()


def _warm_again(active: Sequence[Measurement], progress: Progress) -> None:
    """Run the fastest of the measurements once, untimed: while a result was checked, the device's threads fell asleep."""
    known = [it for it in active if it.runnable and it.walls]
    if known:
        fastest = min(known, key=lambda it: it.walls[-1])
        assert fastest.runnable is not None
        progress(fastest.variant.name, "warm up again")
        with suppress(Exception):  # its next sample will say so
            fastest.runnable.run()


def _compare_judged(
    it: Measurement, group: Sequence[Measurement], flush: Callable[[], None], progress: Progress
) -> None:
    """Fail a measurement whose runs on poisoned outputs take longer than its other samples: those did not do the work.

    Where medians make it seem so, pairs of runs decide, each of one on finished outputs and one on poisoned ones, which differ
    in nothing else. More than AGAINST of them without a difference end them.
    """
    judged = [it.samples[at] for at in it.poisoned]
    others = [seconds for at, seconds in enumerate(it.samples) if at not in it.poisoned]
    if not judged or not others or statistics.median(judged) <= SUSPECT * statistics.median(others):
        return
    ratios: list[float] = []
    try:
        pairs = PAIRS if min(it.walls) < LONG_S else PAIRS_OF_LONG
        progress(it.variant.name, "run whose outputs are kept, to compare")
        finished = _finished_outputs(it)
        for number in range(pairs):
            progress(it.variant.name, f"sample pair {number + 1} on finished and on poisoned outputs")
            seconds_on_finished = _seconds_on(it, flush, finished, poisoned=False)
            seconds_on_poisoned = _seconds_on(it, flush, finished, poisoned=True)
            ratios.append(seconds_on_poisoned / max(seconds_on_finished, 1e-12))
            if sum(ratio <= 1 for ratio in ratios) > AGAINST * pairs:
                return
    except Exception as error:
        _fail(it, error, group)
        return
    if (ratio := statistics.median(ratios)) > LONGER:
        it.reason = (
            f"not accepted: a run on poisoned outputs takes {ratio:.3g} times as long as one that finds its results already "
            "there, so its samples left out work"
        )
        it.release()


def _finished_outputs(it: Measurement) -> Held | None:
    """Copy what a run on the timed inputs leaves, for all pairs; None where that is too large for a copy."""
    assert it.runnable is not None
    it.ledger.reset(it.runnable)
    it.runnable.run()
    return it.ledger.held(it.runnable)


def _seconds_on(it: Measurement, flush: Callable[[], None], finished: Held | None, *, poisoned: bool) -> float:
    """Return the seconds of a run on poisoned outputs, or on `finished` ones.

    The same happens before both, but for what is written last: a run that follows another one at once can be quicker for that.
    """
    assert it.runnable is not None
    run = it.runnable.run
    run_on_others(it)
    it.ledger.reset(it.runnable)
    if held := it.ledger.held(it.runnable) if poisoned else finished:
        held.put_back()
    elif not poisoned:
        run()
    flush()
    with it.ledger.judging_timed_launches(poison=poisoned) as judging_s, threads.on_own_processor(it.variant):
        start = time.perf_counter()
        own = run()
        return time.perf_counter() - start - judging_s() if own is None else seconds_of(own, "what run() returned")


def _take(
    it: Measurement, number: int, group: Sequence[Measurement], flush: Callable[[], None], clocks: provenance.Clocks,
    *, judged: bool = False,
) -> None:  # fmt: skip
    """Take one sample, of round `number`. judged: launches that it times itself are judged as well, outside of its time."""
    start = time.perf_counter()
    flush()
    it.emptying += time.perf_counter() - start
    try:
        assert it.runnable is not None
        with it.ledger.judging_timed_launches() if judged else nullcontext(lambda: 0.0) as judging_s:
            with threads.on_own_processor(it.variant):
                start = time.perf_counter()
                own = it.runnable.run()
                seconds = time.perf_counter() - start
            seconds -= judging_s()
        wall = seconds_of(seconds, "the time of a run")
        timed = wall if own is None else seconds_of(own, "what run() returned")
        parts = parts_of(it.runnable.parts)
        if it.samples and parts.keys() != it.parts.keys():
            raise BadValue(f"a run has the parts {sorted(parts)}, the runs before it had {sorted(it.parts)}")
    except Exception as error:
        _fail(it, error, group)
        return
    it.samples.append(timed)
    it.walls.append(wall)
    for name, part in parts.items():
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
