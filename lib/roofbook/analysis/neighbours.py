"""What the other cards of a host matter to a measurement: the same one, on one card, beside idle ones and beside busy ones.

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
"""Per cent at work, by NVML: at most so many on all other cards is idle, at least so many on one of them busy."""
_SAME = ("device_name", "lab", "case", "variant", "role", "backend", "units", "cell_key", "env_key", "policy")


@dataclass(frozen=True)
class IdleAgainstBusy:
    """A measurement on one card, in runs beside idle cards and in runs beside busy ones."""

    idle: Reading
    busy: Reading

    @property
    def lost(self) -> Speedup | None:
        """How many times as fast it is beside idle cards, across runs."""
        return faster(self.busy, self.idle)


def idle_against_busy(store: Store) -> list[IdleAgainstBusy]:
    """All that the store has in verified runs of both kinds on the same card, by the same code."""
    rows = store.arrow(
        "select * from cells where device_kind = 'gpu' and role <> ? and contains(provenance, '\"neighbours\"') "
        "order by started desc",
        [PROFILE],
    ).to_pylist()
    kinds: defaultdict[tuple[Any, ...], dict[bool, list[Mapping[str, Any]]]] = defaultdict(dict)
    for row in rows:
        told = read_json(row["provenance"])
        if (kind := _busy(told.get("neighbours") or {})) is not None:
            card = (told.get("gpu") or {}).get("uuid"), (told.get("git") or {}).get("commit")
            kinds[*(row[name] for name in _SAME), *card].setdefault(kind, []).append(row)
    found = [
        IdleAgainstBusy(read_runs(both[False]), read_runs(both[True])) for both in kinds.values() if len(both) == 2
    ]
    return sorted((each for each in found if each.idle.ok and each.busy.ok), key=lambda each: each.idle.id)


def _busy(neighbours: Mapping[str, list[float]]) -> bool | None:
    """Whether a row was beside a busy card; None where that is not clear, or there was no other."""
    before, after = neighbours.get("before") or [], neighbours.get("after") or []
    if not before or len(before) != len(after):
        return None
    if max(*before, *after) <= IDLE:
        return False
    return True if any(min(pair) >= BUSY for pair in zip(before, after, strict=True)) else None
