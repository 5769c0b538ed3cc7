"""Effect of a host's other cards on a measurement: one card measured next to idle cards, and next to busy ones.

Serves the page on clusters. A row of a GPU says how busy the other cards were before its samples and after them.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..escaping import read_json
from ..store.parquet import Store
from ..store.schema import PROFILE
from .readings import Reading, Speedup, faster, read_runs

IDLE, BUSY = 5.0, 50.0
"""Per cent at work, by NVML. Idle: all other cards at most this; busy: one of them at least this."""
_SAME = ("device_name", "lab", "case", "variant", "role", "backend", "units", "cell_key", "env_key", "policy")


@dataclass(frozen=True)
class IdleAgainstBusy:
    """A measurement on one card, in runs next to idle cards and in runs next to busy ones."""

    idle: Reading
    busy: Reading

    @property
    def lost(self) -> Speedup | None:
        """Speedup of the runs next to idle cards over those next to busy ones, across runs."""
        return faster(self.busy, self.idle)


def idle_against_busy(store: Store) -> list[IdleAgainstBusy]:
    """Return every measurement with verified runs of both kinds on the same card, by the same code."""
    rows = store.arrow(
        "select * from cells where device_kind = 'gpu' and role <> ? and contains(provenance, '\"neighbours\"') "
        "order by started desc",
        [PROFILE],
    ).to_pylist()
    kinds: defaultdict[tuple[Any, ...], dict[bool, list[Mapping[str, Any]]]] = defaultdict(dict)
    for row in rows:
        facts = read_json(row["provenance"])
        if (kind := _busy(facts.get("neighbours") or {})) is not None:
            card = (facts.get("gpu") or {}).get("uuid"), (facts.get("git") or {}).get("commit")
            kinds[*(row[name] for name in _SAME), *card].setdefault(kind, []).append(row)
    comparisons = [
        IdleAgainstBusy(read_runs(rows_by_kind[False]), read_runs(rows_by_kind[True]))
        for rows_by_kind in kinds.values()
        if len(rows_by_kind) == 2
    ]
    verified = [comparison for comparison in comparisons if comparison.idle.ok and comparison.busy.ok]
    return sorted(verified, key=lambda comparison: comparison.idle.id)


def _busy(neighbours: Mapping[str, list[float]]) -> bool | None:
    """Return whether a row was measured next to a busy card; None if that is not clear, or if there was no other card."""
    before, after = neighbours.get("before") or [], neighbours.get("after") or []
    if not before or len(before) != len(after):
        return None
    if max(*before, *after) <= IDLE:
        return False
    return True if any(min(pair) >= BUSY for pair in zip(before, after, strict=True)) else None
