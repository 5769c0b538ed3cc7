"""How long a sweep takes on so many devices: by the seconds that each of its cases took, as the rows of the store tell.

Serves the planning of sweeps and the page on clusters. The unit is a case of a run: it cannot be divided, so the longest one
bounds every sweep, on however many devices.
"""

import heapq
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from ..store.parquet import Store
from ..store.schema import PROFILE

_SPANS = """
select "case", run, min(epoch(started)) as began,
       max(epoch(cast(regexp_extract(provenance, '"time": "([^"]+)"', 1) as timestamptz))) as ended, count(*) as n
from cells
where lab = ? and device = ? and role <> ? and regexp_matches(provenance, '"time": "[^"]+"')
group by "case", run order by run, began
"""
"""A row's `started` is when its case began in its process, the time of its provenance when it ended, in whole seconds."""


@dataclass(frozen=True)
class Cost:
    """What a lab's cases took on a device."""

    seconds: dict[str, float]
    """Of each case, from its first check to its rows: compiling, checks and samples; the median over its whole runs."""
    between: float
    """Seconds from one case to the next of a run: a process ends, another starts. 0 where no run has two cases."""


def seconds_of_cases(store: Store, lab: str, device: str) -> dict[str, float]:
    """`Cost.seconds` alone."""
    return cost_of(store, lab, device).seconds


def cost_of(store: Store, lab: str, device: str) -> Cost:
    """What the rows say of a lab on a device (its slug). Runs that have a part of a case only, as of `rerun`, do not count."""
    spans: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    gaps, last = list[float](), dict[str, Any](run="", ended=0.0)
    for row in store.arrow(_SPANS, [lab, device, PROFILE]).to_pylist():
        seconds = row["ended"] + 0.5 - row["began"]  # a time in whole seconds is half of one too early, on average
        if row["run"] == last["run"] and row["began"] >= last["ended"] - 1:
            gaps.append(row["began"] - last["ended"] - 0.5)
        last = row
        if seconds > 0:
            spans[row["case"]].append((row["n"], seconds))
    whole = {case: max(n for n, _ in those) for case, those in spans.items()}
    seconds = {case: statistics.median(each for n, each in those if n == whole[case]) for case, those in spans.items()}
    return Cost(seconds, max(0.0, statistics.median(gaps)) if gaps else 0.0)


def makespan(seconds: Iterable[float], devices: int) -> float:
    """Seconds until all is done, where each device takes the longest piece that is left as soon as it is free.

    At most 4/3 of the least that any order can reach (Graham, Bounds on multiprocessing timing anomalies, 1969).

    >>> makespan([3, 3, 2, 2, 2], 1), makespan([3, 3, 2, 2, 2], 2), makespan([3, 3, 2, 2, 2], 64)
    (12.0, 7.0, 3.0)
    """
    free = [0.0] * devices
    for each in sorted(seconds, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + each)
    return max(free)


@dataclass(frozen=True)
class Forecast:
    """A sweep on so many devices."""

    devices: int
    seconds: float
    speedup: float
    """Over one device."""
    busy: float
    """Share of the time that a device works, on average."""


def forecast(costs: Sequence[Cost], runs: int, devices: Sequence[int]) -> list[Forecast]:
    """Sweeps of all cases of `costs`, each in so many runs, with a start of a process for each."""
    pieces = [each + cost.between for cost in costs for each in cost.seconds.values() for _ in range(runs)]
    alone = sum(pieces)
    found = []
    for number in devices:
        seconds = makespan(pieces, number)
        found.append(Forecast(number, seconds, alone / seconds, alone / seconds / number))
    return found
