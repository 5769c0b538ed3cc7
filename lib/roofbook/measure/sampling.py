"""Sampling: cold cache, warmed up, in rounds that interleave the variants, until there are enough samples.

Before some samples, drawn in secret, outputs and scratch memory are poisoned. The outputs of those samples are checked, and
they must not take longer than other samples: a kernel that finds its results already there has nothing to compute.
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
from .buffer_ledger import Snapshot
from .checked_runnable import BadValue, parts_of, seconds_of
from .checkpoint import Checkpoint
from .measurement import Measurement
from .policy import Policy
from .progress import Progress
from .verify import check_alive, clear_error_frames, lacks_memory, reason_of, run_on_other_operands

FIRST = 3
"""Number of first samples of which one is judged."""
SHARE = 1 / 8
"""Probability that a later sample is judged, until JUDGED are."""
JUDGED = 4
"""Number of judged samples after which no more are drawn."""
LONGER = 1.1
"""Median ratio of runs on poisoned outputs to runs on finished outputs above which work was left out."""
SUSPECT = LONGER
"""Ratio of the medians of judged and other samples above which pairs of runs decide whether work was left out."""
FIRST_PAIRS = 3
"""Number of first pairs of a trial that end it if none is longer by LONGER. If half of a kernel's pairs are longer, so many in
turn are not once in 8 times, and far more seldom if it leaves out a third of its work. Most honest kernels need no more."""
TRIALS = 4
"""Number of trials by pairs of runs, each of which has to find that work was left out."""
PAIRS, PAIRS_OF_LONG, LONG_S = 12, 8, 1.0
"""Number of pairs of a trial; the number for runs longer than LONG_S seconds, which are less noisy; LONG_S."""
AGAINST = 1 / 6
"""Share of pairs that may show no difference. Of 12 equal pairs in noise, so few do so by chance once in 50 times, and in
TRIALS in turn once in 7 million times; with 8 pairs once in 28 and in 600 000 times. More pairs would find hardly more kernels
that leave out work, and equal ones would run longer."""
RESOLUTION_S = 0.5e-6
"""Resolution of a GPU's events, by the CUDA Runtime API: a shorter difference shows nothing."""

_drawn = secrets.SystemRandom()

Judge = Callable[[Measurement, int], None]
"""Function that checks the outputs of the sample of this number, just taken; a wrong result becomes the reason."""


def sample(
    group: Sequence[Measurement],
    policy: Policy,
    progress: Progress,
    checkpoint: Checkpoint,
    judge: Judge,
    always_judged: Callable[[Measurement], bool] = lambda measurement: False,
) -> None:
    """Take the samples of measurements that are ready, all on one device; a failure becomes the reason of its measurement.

    The order is drawn by the seed of the run. Rounds are numbered after those of other groups in the run. always_judged:
    returns whether the next sample of a measurement is judged, whatever is drawn.
    """
    flush = flush_of(group[0].device) if policy.cache == "cold" else lambda: None
    clocks = provenance.Clocks(group[0].device.kind, group[0].device.pci_bus_id)
    _note_busy_cards(group, "before")
    active = []
    for measurement in group:
        progress(measurement.variant.name, "warm up")
        try:
            run_on_other_operands(measurement)
        except Exception as error:
            _fail(measurement, error, group)
            continue
        if measurement.samples and enough(measurement, policy):  # interrupted before it was verified again
            _end(measurement)
        else:
            active.append(measurement)
    rounds_of_incomplete = [set(measurement.rounds) for measurement in active if not enough(measurement, policy)]
    cut_rounds = (
        set[int]().union(*rounds_of_incomplete) - set[int].intersection(*rounds_of_incomplete)
        if rounds_of_incomplete
        else set[int]()
    )
    order = random.Random(group[0].seed)
    next_round = max((1 + max(measurement.rounds) for measurement in active if measurement.rounds), default=0)
    for turn, number in enumerate(count(max(next_round, checkpoint.first_round(group)))):
        if not active:
            break
        # Shuffled every second round and reversed in between, so that drift favours no position.
        if turn % 2 == 0:
            order.shuffle(active)
        else:
            active.reverse()
        for measurement in (m for m in active if len(m.samples) < policy.maximum):
            progress(measurement.variant.name, f"sample {len(measurement.samples) + 1} of at most {policy.maximum}")
            if not (always_judged(measurement) or _is_judged(measurement)):
                _take(measurement, number, group, flush, clocks)
            else:
                _take_judged(measurement, number, group, flush, clocks, progress, judge)
                if policy.cache == "warm":
                    _warm_again(active, progress)
            checkpoint.save_if_due()
        for measurement in active:
            if measurement.runnable and (
                len(measurement.samples) >= policy.maximum or enough(measurement, policy, cut_rounds)
            ):
                _compare_judged(measurement, group, flush, progress)
                if measurement.runnable:
                    _end(measurement)
        active = [measurement for measurement in active if measurement.runnable and not measurement.sampled]
    _note_busy_cards(group, "after")


def _note_busy_cards(group: Sequence[Measurement], when: str) -> None:
    """Record how busy the host's other cards are. Between two samples it would take too long."""
    device = group[0].device
    if device.kind == "gpu" and (busy_cards := neighbours(device.pci_bus_id)) is not None:
        for measurement in group:
            measurement.neighbours[when] = busy_cards


def _fail(measurement: Measurement, error: Exception, group: Sequence[Measurement]) -> None:
    """Release a measurement and set its reason. If it only lacks memory that others of the group hold, reset it instead."""
    measurement.release()
    measurement.reason = reason_of(error)
    check_alive(error, measurement.device)
    clear_error_frames(error)
    if lacks_memory(error) and any(other.runnable for other in group):
        measurement.reason = None
        measurement.start_over()


def _end(measurement: Measurement) -> None:
    """Record the facts of the runs of a measurement that has all of its samples."""
    try:
        facts = measurement.planned.facts()
        measurement.facts, measurement.sampled = {**facts, **threads.facts(measurement.variant, facts)}, True
    except Exception as error:
        measurement.release()
        measurement.reason = reason_of(error)


def _is_judged(measurement: Measurement) -> bool:
    """Draw whether the outputs of the next sample are checked. A kernel cannot know."""
    sample_count, judged_count = len(measurement.samples), len(measurement.poisoned)
    if judged_count >= JUDGED:
        return False
    if sample_count < FIRST:
        return judged_count == 0 and _drawn.randrange(FIRST - sample_count) == 0
    return judged_count == 0 or _drawn.random() < SHARE


def _take_judged(
    measurement: Measurement, number: int, group: Sequence[Measurement], flush: Callable[[], None], clocks: provenance.Clocks,
    progress: Progress, judge: Judge,
) -> None:  # fmt: skip
    """Take one sample on poisoned outputs and scratch memory, and check its own outputs.

    An untimed run on other operands comes first: a kernel that caches results while its operands stay the same has to compute.
    """
    sample_index = len(measurement.samples)
    try:
        run_on_other_operands(measurement)
        measurement.ledger.reset(measurement.planned)
    except Exception as error:
        _fail(measurement, error, group)
        return
    _take(measurement, number, group, flush, clocks, judged=True)
    if not measurement.runnable:
        return
    measurement.poisoned.append(sample_index)
    try:
        judge(measurement, sample_index)
    except Exception as error:
        _fail(measurement, error, group)
    if measurement.reason:
        measurement.release()


def _warm_again(active: Sequence[Measurement], progress: Progress) -> None:
    """Run the fastest measurement once, untimed: while outputs were checked, the device's threads fell asleep."""
    warm = [measurement for measurement in active if measurement.runnable and measurement.walls]
    if warm:
        fastest = min(warm, key=lambda measurement: measurement.walls[-1])
        progress(fastest.variant.name, "warm up again")
        with suppress(Exception):  # its next sample will say so
            fastest.planned.run()


def _compare_judged(
    measurement: Measurement, group: Sequence[Measurement], flush: Callable[[], None], progress: Progress
) -> None:
    """Fail a measurement whose runs on poisoned outputs take longer than its other samples: those left out work.

    If medians suggest so, pairs of runs decide (`ratio_if_longer`): on finished outputs and on poisoned ones, otherwise alike.
    """
    judged_seconds = [measurement.samples[index] for index in measurement.poisoned]
    other_seconds = [seconds for index, seconds in enumerate(measurement.samples) if index not in measurement.poisoned]
    if (
        not judged_seconds
        or not other_seconds
        or statistics.median(judged_seconds) <= SUSPECT * statistics.median(other_seconds)
    ):
        return
    try:
        pairs = PAIRS if min(measurement.walls) < LONG_S else PAIRS_OF_LONG
        progress(measurement.variant.name, "run whose outputs are kept, to compare")
        finished = _finished_outputs(measurement)
        if finished and not (finished.buffers or finished.arrays):
            return  # nothing here is poisoned before one run of a pair and finished before the other
        ratio = ratio_if_longer(
            lambda poisoned: _seconds_on(measurement, flush, finished, poisoned=poisoned),
            pairs,
            lambda number: progress(
                measurement.variant.name, f"sample pair {number} on finished and on poisoned outputs"
            ),
        )
    except Exception as error:
        _fail(measurement, error, group)
        return
    if ratio is not None:
        measurement.reason = (
            f"not accepted: a run on poisoned outputs takes {ratio:.3g} times as long as one that finds its results already "
            "there, so its samples left out work"
        )
        measurement.release()


def ratio_if_longer(
    seconds_on: Callable[[bool], float], pairs: int, before_pair: Callable[[int], None] = lambda number: None
) -> float | None:
    """Return how many times as long runs on poisoned outputs take as runs on finished ones; None if they are not longer.

    They are longer if each of TRIALS finds so: one of its FIRST_PAIRS is longer by LONGER, at most AGAINST of its pairs show
    no difference, and the medians differ by more than a factor LONGER and by more than RESOLUTION_S. The order within a pair is
    drawn, so that drift favours neither. In half of a trial's pairs the run on poisoned outputs comes second: a kernel whose
    second run of a pair is the longer one for that alone is never found longer.

    seconds_on: takes a run, on poisoned outputs if its argument is True. pairs: those of a trial. before_pair: gets the number
    of each pair.
    """
    longer_s, ratios = list[float](), list[float]()
    for trial in range(TRIALS):
        longer_s.clear()
        for number, poisoned_first in enumerate(_drawn.sample([index % 2 == 0 for index in range(pairs)], pairs)):
            before_pair(trial * pairs + number + 1)
            seconds = {poisoned: seconds_on(poisoned) for poisoned in (poisoned_first, not poisoned_first)}
            longer_s.append(seconds[True] - seconds[False])
            ratios.append(seconds[True] / max(seconds[False], 1e-12))
            none_is_longer = number + 1 == FIRST_PAIRS and max(ratios[-FIRST_PAIRS:]) <= LONGER
            if none_is_longer or sum(difference <= 0 for difference in longer_s) > AGAINST * pairs:
                return None
        if statistics.median(ratios[-pairs:]) <= LONGER or statistics.median(longer_s) <= RESOLUTION_S:
            return None
    return statistics.median(ratios)


def _finished_outputs(measurement: Measurement) -> Snapshot | None:
    """Return a copy of the outputs of a run on the timed inputs, for all pairs; None if they are too large to copy."""
    measurement.ledger.reset(measurement.planned)
    measurement.planned.run()
    return measurement.ledger.snapshot(measurement.planned)


def _seconds_on(
    measurement: Measurement, flush: Callable[[], None], finished: Snapshot | None, *, poisoned: bool
) -> float:
    """Return the seconds of a run on poisoned outputs, or on `finished` ones.

    Both are prepared alike, except for the last write: a run that follows another one at once can be faster for that alone.
    """
    run = measurement.planned.run
    run_on_other_operands(measurement)
    measurement.ledger.reset(measurement.planned)
    if leftover := measurement.ledger.snapshot(measurement.planned) if poisoned else finished:
        leftover.restore()
    elif not poisoned:
        run()
    flush()
    with (
        measurement.ledger.judging_timed_launches(poison=poisoned, paired=True) as judging_s,
        threads.on_own_processor(measurement.variant),
    ):
        start = time.perf_counter()
        own_seconds = run()
        return (
            time.perf_counter() - start - judging_s()
            if own_seconds is None
            else seconds_of(own_seconds, "what run() returned")
        )


def _take(
    measurement: Measurement, number: int, group: Sequence[Measurement], flush: Callable[[], None], clocks: provenance.Clocks,
    *, judged: bool = False,
) -> None:  # fmt: skip
    """Take one sample, of round `number`. judged: whether launches that the plan times itself are judged too."""
    start = time.perf_counter()
    flush()
    measurement.emptying += time.perf_counter() - start
    try:
        with measurement.ledger.judging_timed_launches() if judged else nullcontext(lambda: 0.0) as judging_s:
            with threads.on_own_processor(measurement.variant):
                start = time.perf_counter()
                own_seconds = measurement.planned.run()
                seconds = time.perf_counter() - start
            seconds -= judging_s()
        wall = seconds_of(seconds, "the time of a run")
        timed = wall if own_seconds is None else seconds_of(own_seconds, "what run() returned")
        parts = parts_of(measurement.planned.parts)
        if measurement.samples and parts.keys() != measurement.parts.keys():
            raise BadValue(f"a run has the parts {sorted(parts)}, the runs before it had {sorted(measurement.parts)}")
    except Exception as error:
        _fail(measurement, error, group)
        return
    measurement.samples.append(timed)
    measurement.walls.append(wall)
    for name, part in parts.items():
        measurement.parts.setdefault(name, []).append(part)
    measurement.rounds.append(number)
    measurement.clocks.append(clocks.read())  # last: a sample counts once its clocks are there


def enough(measurement: Measurement, policy: Policy, cut: Collection[int] = ()) -> bool:
    """Return whether no further sample is needed. cut: rounds that an interrupt cut short, which pair with few others.

    Samples of cut rounds, and those while the device throttled, do not count towards the minimum. Others replace them, up to
    the maximum; if one run exceeds the budget, up to twice `scarce`.
    """
    steady = [index for index, read in enumerate(measurement.clocks) if not provenance.slowed(read["throttle"])]
    n, spent = len({measurement.rounds[index] for index in steady}.difference(cut)), sum(measurement.walls)
    slow = spent >= 3 * policy.budget_s
    if n < (policy.few if slow or measurement.role == "sweep" else policy.minimum):
        scarce = n >= policy.scarce or len(set(measurement.rounds).difference(cut)) >= 2 * policy.scarce
        return scarce and spent / len(measurement.walls) >= policy.budget_s
    noise = stats.relative_standard_error([measurement.samples[index] for index in steady])
    return spent + measurement.emptying >= policy.budget_s or noise < policy.noise


class Flush:
    """Overwriting of the device's last cache by a copy. On a GPU at least 256 MiB: OpenCL reports only the first level.

    Lines that are set to persist in the cache are released first: `Device.release_persisting`.
    A CPU copies one part on each core: one memcpy uses one core, and would take most of a quick sample's time.
    """

    def __init__(self, device: Device) -> None:
        import numpy as np

        size = max(device.cache_bytes, (256 << 20) if device.kind == "gpu" else (8 << 20))
        parts = device.compute_units if device.kind == "cpu" else 1
        # Any contents but zeros will do: a random MiB, repeated.
        drawn = np.random.default_rng(0).integers(0, 255, 1 << 20, np.uint8)
        contents = np.resize(drawn, -(-size // parts))
        self.device = device
        self.copies = [(device.queue(), device.empty(contents.nbytes), device.upload(contents)) for _ in range(parts)]

    def __call__(self) -> None:
        self.device.release_persisting()
        for queue, target, source in self.copies:
            queue.copy(target, source)
        for queue, _, _ in self.copies:
            queue.finish()


@lru_cache(maxsize=2)  # a lab's device and its host
def flush_of(device: Device) -> Flush:
    """Return the flush of a device, made once for all cases: filling its buffers takes as long as sampling a quick case."""
    return Flush(device)
