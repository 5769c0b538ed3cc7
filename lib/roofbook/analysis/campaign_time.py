"""How long a sweep takes on so many devices: by the seconds that each of its cases took, as the rows of the store tell.

And how long sweeps took that were done on one card of a host and on several. Serves the planning of sweeps and the page on
clusters. The unit is a case of a run: it cannot be divided, so the longest one bounds every sweep, on however many devices.
"""

import heapq
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..store.parquet import Store
from ..store.schema import PROFILE

_SPANS = """
select "case", run, min(epoch(started)) as began,
       max(epoch(try_cast(regexp_extract(provenance, '"time": "([^"]+)"', 1) as timestamptz))) as ended, count(*) as n
from cells
where lab = ? and device = ? and backend = ? and role <> ? and regexp_matches(provenance, '"time": "[^"]+"')
group by "case", run order by run, began
"""
"""A row's `started` is when its case began in its process, the time of its provenance when it ended, in whole seconds."""
HALF = 0.5
"""A time in whole seconds is half of one too early, on average."""


@dataclass(frozen=True)
class Cost:
    """What a lab's cases took on a device, by a backend."""

    seconds: dict[str, float]
    """Of each case, from its first check to its rows: compiling, checks and samples; the median over its whole runs."""
    start: float
    """Seconds from when a run began, which its name says, to when its first case did: the most of all runs. A process starts
    and opens the device. In most runs it did so while another one still measured, and on a cluster none does.
    """


def cost_of(store: Store, lab: str, device: str, backend: str) -> Cost:
    """What the rows say of a lab on a device (its slug). Runs that have a part of a case only, as of `rerun`, do not count."""
    spans: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    first: dict[str, float] = {}
    for row in store.arrow(_SPANS, [lab, device, backend, PROFILE]).to_pylist():
        first.setdefault(row["run"], row["began"])
        spans[row["case"]].append((row["n"], row["ended"] + HALF - row["began"]))
    whole = {case: max(n for n, _ in those) for case, those in spans.items()}
    seconds = {case: statistics.median(each for n, each in those if n == whole[case]) for case, those in spans.items()}
    starts = [began - HALF - _named(run) for run, began in first.items() if RUN.match(run)]
    return Cost(seconds, max([0.0, *starts]))


RUN = re.compile(r"\d{8}T\d{6}Z-")
"""How the name of a run begins: with when it did, in UTC."""


def _named(run: str) -> float:
    return datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


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


def forecast(costs: Sequence[tuple[Cost, int]], devices: Sequence[int]) -> list[Forecast]:
    """Sweeps of all cases of the costs, each with the number of its runs; a process starts for each case of a run."""
    pieces = [each + cost.start for cost, runs in costs for each in cost.seconds.values() for _ in range(runs)]
    alone = sum(pieces)
    found = []
    for number in devices:
        seconds = makespan(pieces, number)
        found.append(Forecast(number, seconds, alone / seconds, alone / seconds / number))
    return found


_PIECES = """
with measured as (
    select run, lab, device_name, backend, "case", started, variant || ' ' || role as what,
           regexp_extract(provenance, '"uuid": "([^"]+)"', 1) as card,
           regexp_extract(provenance, '"commit": "([^"]+)"', 1) as commit,
           try_cast(regexp_extract(provenance, '"time": "([^"]+)"', 1) as timestamptz) as ended
    from cells
    where device_kind = 'gpu' and role <> ? and regexp_matches(provenance, '"time": "[^"]+"')
)
select run, lab, device_name, backend, "case", card, commit, string_agg(what, ', ' order by what) as what, count(*) as n,
       epoch(min(started)) as began, epoch(max(ended)) as ended
from measured where card <> ''
group by run, lab, device_name, backend, "case", card, commit order by run, began
"""


@dataclass(frozen=True)
class SweepTimes:
    """One sweep, done again and again on one host, on one of its cards and on several."""

    lab: str
    device_name: str
    backend: str
    cases: int
    measurements: int
    seconds: dict[int, list[float]]
    """By the number of cards: of each run, from when the command began to the end of its last case."""
    modelled: dict[int, float]
    """By the number of cards, what `forecast` makes of the runs on one."""


def swept(store: Store) -> list[SweepTimes]:
    """All sweeps of two cases or more that the store has on one card and on several, that card among them, by the same code.

    The first run of a sweep compiles its kernels, and does not count.
    """
    runs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for piece in store.arrow(_PIECES, [PROFILE]).to_pylist():
        if RUN.match(piece["run"]):
            runs[piece["run"]].append(piece)
    alike: defaultdict[tuple[Any, ...], list[list[dict[str, Any]]]] = defaultdict(list)
    for pieces in runs.values():
        work = frozenset((each["case"], each["what"]) for each in pieces)
        alike[*(pieces[0][name] for name in ("lab", "device_name", "backend", "commit")), work].append(pieces)
    return [found for each in alike.values() if (found := _swept(each[1:]))]


def _swept(runs: Sequence[list[dict[str, Any]]]) -> SweepTimes | None:
    cards = [{each["card"] for each in pieces} for pieces in runs]
    several = set().union(*(each for each in cards if len(each) > 1))
    alone = [pieces for pieces, own in zip(runs, cards, strict=True) if len(own) == 1 and own <= several]
    if not alone or len(alone[0]) < 2:
        return None
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    for pieces, own in zip(runs, cards, strict=True):
        if own <= several:
            seconds[len(own)].append(max(each["ended"] for each in pieces) - _named(pieces[0]["run"]))
    took: defaultdict[str, list[float]] = defaultdict(list)
    for each in (each for pieces in alone for each in pieces):
        took[each["case"]].append(each["ended"] + HALF - each["began"])
    starts = [min(each["began"] for each in pieces) - HALF - _named(pieces[0]["run"]) for pieces in alone]
    cost = Cost({case: statistics.median(those) for case, those in took.items()}, max([0.0, *starts]))
    modelled = {each.devices: each.seconds for each in forecast([(cost, 1)], sorted(seconds))}
    first = alone[0]
    told = {name: first[0][name] for name in ("lab", "device_name", "backend")}
    return SweepTimes(
        **told,
        cases=len(first),
        measurements=sum(each["n"] for each in first),
        seconds=dict(seconds),
        modelled=modelled,
    )
