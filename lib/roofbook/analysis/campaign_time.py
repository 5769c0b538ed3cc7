"""Time that each case of a lab took on a device, from the rows of the store.

Serves the planning of a campaign (a run over many cases), which begins with the longest case, and the study of campaign times.
"""

import re
import statistics
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime

from ..store.parquet import Store
from ..store.schema import PROFILE

_SPANS = """
select "case", run, min(epoch(started)) as began,
       max(epoch(try_cast(regexp_extract(provenance, '"time": "([^"]+)"', 1) as timestamptz))) as ended, count(*) as n
from cells
where lab = ? and device = ? and backend = ? and role <> ? and regexp_matches(provenance, '"time": "[^"]+"')
  and ('' = ? or scale = ?)
group by "case", run order by run, began
"""
"""Query of the start and the end of each case of a run.

A row's `started` is the start of its case in its process; the time of its provenance is the end, in whole seconds.
"""
_HALF = 0.5
"""Mean of the seconds that are cut off from a time in whole seconds."""


@dataclass(frozen=True)
class Cost:
    """Seconds that a lab's cases took on a device, by a backend."""

    seconds: dict[str, float]
    """Seconds of each case from its first check to its rows: compiling, checks and samples; the median over its whole runs."""
    rows: dict[str, int]
    """Number of rows of each case in such a run."""
    start: float
    """The longest time from the start of a run, which its name gives, to the start of its first case.

    A process starts and opens the device. In most runs it did so while another one still measured; on a cluster none does.
    """


def cost_of(store: Store, lab: str, device: str, backend: str, scale: str = "") -> Cost:
    """Return the seconds of a lab's cases on a device, from its rows. device: its name in the store. scale: '' for all.

    Runs with only a part of a case, as of `rerun`, do not count.
    """
    spans: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    first: dict[str, float] = {}
    for row in store.arrow(_SPANS, [lab, device, backend, PROFILE, scale, scale]).to_pylist():
        first.setdefault(row["run"], row["began"])
        spans[row["case"]].append((row["n"], row["ended"] + _HALF - row["began"]))
    rows_of_whole = {case: max(n for n, _ in runs) for case, runs in spans.items()}
    seconds = {
        case: statistics.median(length for n, length in runs if n == rows_of_whole[case])
        for case, runs in spans.items()
    }
    starts = [began - _HALF - _start(run) for run, began in first.items() if _RUN.match(run)]
    return Cost(seconds, rows_of_whole, max([0.0, *starts]))


_RUN = re.compile(r"\d{8}T\d{6}Z-")
"""Pattern of the start of a run's name: its start time in UTC."""


def _start(run: str) -> float:
    """Return the seconds since 1970 of a run's start, from its name."""
    return datetime.strptime(run[:16], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
