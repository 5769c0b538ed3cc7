"""Time of a campaign (a run over many cases) on several devices: forecast from the store's times of cases, and measured.

The measured campaigns ran on one card of a host and on several. Serves the planning of campaigns and the page on clusters. The
unit is a case of a run: it cannot be divided, so the longest one bounds every campaign, on any number of devices.
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
"""Query of the start and the end of each case of a run.

A row's `started` is the start of its case in its process; the time of its provenance is the end, in whole seconds.
"""
HALF = 0.5
"""Mean of the seconds that are cut off from a time in whole seconds."""


@dataclass(frozen=True)
class Cost:
    """Seconds that a lab's cases took on a device, by a backend."""

    seconds: dict[str, float]
    """Seconds of each case from its first check to its rows: compiling, checks and samples; the median over its whole runs."""
    start: float
    """The longest time from the start of a run, which its name gives, to the start of its first case.

    A process starts and opens the device. In most runs it did so while another one still measured; on a cluster none does.
    """


def cost_of(store: Store, lab: str, device: str, backend: str) -> Cost:
    """Return the seconds of a lab's cases on a device, from its rows. device: its name in the store.

    Runs with only a part of a case, as of `rerun`, do not count.
    """
    spans: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    first: dict[str, float] = {}
    for row in store.arrow(_SPANS, [lab, device, backend, PROFILE]).to_pylist():
        first.setdefault(row["run"], row["began"])
        spans[row["case"]].append((row["n"], row["ended"] + HALF - row["began"]))
    rows_of_whole = {case: max(n for n, _ in runs) for case, runs in spans.items()}
    seconds = {
        case: statistics.median(length for n, length in runs if n == rows_of_whole[case])
        for case, runs in spans.items()
    }
    starts = [began - HALF - _start(run) for run, began in first.items() if RUN.match(run)]
    return Cost(seconds, max([0.0, *starts]))


RUN = re.compile(r"\d{8}T\d{6}Z-")
"""Pattern of the start of a run's name: its start time in UTC."""


def _start(run: str) -> float:
    """Return the seconds since 1970 of a run's start, from its name."""
    return datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()


def makespan(seconds: Iterable[float], devices: int) -> float:
    """Return the seconds until all pieces are done, if each device that is free takes the longest piece left.

    At most 4/3 of the least that any order can reach (Graham, Bounds on multiprocessing timing anomalies, 1969).

    >>> makespan([3, 3, 2, 2, 2], 1), makespan([3, 3, 2, 2, 2], 2), makespan([3, 3, 2, 2, 2], 64)
    (12.0, 7.0, 3.0)
    """
    free = [0.0] * devices
    for piece in sorted(seconds, reverse=True):
        heapq.heappush(free, heapq.heappop(free) + piece)
    return max(free)


@dataclass(frozen=True)
class Forecast:
    """The forecast of a campaign on a number of devices."""

    devices: int
    seconds: float
    speedup: float
    """Speedup over one device."""
    busy: float
    """Mean share of the time that a device works."""


def forecast(costs: Sequence[tuple[Cost, int]], devices: Sequence[int]) -> list[Forecast]:
    """Return the forecast of a campaign for each number of devices.

    costs: (cost, number of runs) of each lab; the campaign has all of their cases. A process starts for each case of a run.
    """
    pieces = [case_s + cost.start for cost, runs in costs for case_s in cost.seconds.values() for _ in range(runs)]
    alone = sum(pieces)
    forecasts = []
    for n_devices in devices:
        seconds = makespan(pieces, n_devices)
        forecasts.append(Forecast(n_devices, seconds, alone / seconds, alone / seconds / n_devices))
    return forecasts


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
class CampaignTimes:
    """Measured times of one campaign, repeated on one host, on one of its cards and on several."""

    lab: str
    device_name: str
    backend: str
    cases: int
    measurements: int
    seconds: dict[int, list[float]]
    """Seconds of each run from the start of the command to the end of its last case, by the number of cards."""
    modelled: dict[int, float]
    """Seconds that `forecast` predicts from the runs on one card, by the number of cards."""


def measured_campaigns(store: Store) -> list[CampaignTimes]:
    """Return the campaigns of two cases or more that the store has on one card and on several, by the same code.

    The one card is among the several. The first run of a campaign compiles its kernels, and does not count.
    """
    runs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for piece in store.arrow(_PIECES, [PROFILE]).to_pylist():
        if RUN.match(piece["run"]):
            runs[piece["run"]].append(piece)
    repetitions: defaultdict[tuple[Any, ...], list[list[dict[str, Any]]]] = defaultdict(list)
    for pieces in runs.values():
        work = frozenset((piece["case"], piece["what"]) for piece in pieces)
        repetitions[*(pieces[0][name] for name in ("lab", "device_name", "backend", "commit")), work].append(pieces)
    return [times for equal_runs in repetitions.values() if (times := _campaign_times(equal_runs[1:]))]


def _campaign_times(runs: Sequence[list[dict[str, Any]]]) -> CampaignTimes | None:
    """Return the times of runs of one campaign, each as its pieces; None without runs on one card and on several."""
    cards_by_run = [{piece["card"] for piece in pieces} for pieces in runs]
    several = set().union(*(cards for cards in cards_by_run if len(cards) > 1))
    alone = [pieces for pieces, cards in zip(runs, cards_by_run, strict=True) if len(cards) == 1 and cards <= several]
    if not alone or len(alone[0]) < 2:
        return None
    seconds: defaultdict[int, list[float]] = defaultdict(list)
    for pieces, cards in zip(runs, cards_by_run, strict=True):
        if cards <= several:
            seconds[len(cards)].append(max(piece["ended"] for piece in pieces) - _start(pieces[0]["run"]))
    case_seconds: defaultdict[str, list[float]] = defaultdict(list)
    for piece in (piece for pieces in alone for piece in pieces):
        case_seconds[piece["case"]].append(piece["ended"] + HALF - piece["began"])
    starts = [min(piece["began"] for piece in pieces) - HALF - _start(pieces[0]["run"]) for pieces in alone]
    medians = {case: statistics.median(lengths) for case, lengths in case_seconds.items()}
    modelled = forecast([(Cost(medians, max([0.0, *starts])), 1)], sorted(seconds))
    first = alone[0]
    names = {name: first[0][name] for name in ("lab", "device_name", "backend")}
    return CampaignTimes(
        **names,
        cases=len(first),
        measurements=sum(piece["n"] for piece in first),
        seconds=dict(seconds),
        modelled={model.devices: model.seconds for model in modelled},
    )
