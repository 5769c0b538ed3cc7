"""The fastest variant of a lab on a device, by the rows of the store. Serves programs whose user names no variant.

If the device or the size at hand was not measured, the nearest that was measured replaces it.
"""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .. import paths
from ..devices import provenance
from ..devices.backends import label
from ..devices.contract import Device
from ..measure import stats
from ..paths import project_root
from ..spec.lab import Lab
from ..spec.plan import Variant
from ..store import selection
from ..store.environment_keys import with_current_environment
from ..store.parquet import Store
from ..store.row_cache import AT, FILE
from ..store.row_rules import lists_of
from ..store.schema import MEASUREMENT
from .throttled import times_of


@dataclass(frozen=True)
class Timed:
    """The newest measurement of a variant with the role `step`, if verified. seconds: median over its runs, per unit."""

    device: str
    device_name: str
    device_kind: str
    backend: str
    case: str
    variant: str
    run: str
    recorded: bool
    seconds: float


@dataclass(frozen=True)
class Choice:
    """A variant, and in one line the reason to choose it."""

    variant: Variant
    reason: str

    def __str__(self) -> str:
        return f"{self.variant.name}: {self.reason}"


def checkout_store() -> Store:
    """Return the store of the project around this folder, with the recorded rows of the installed book."""
    return Store.of_project(project_root(), "results")


def choices(
    lab: Lab, device: Device, case: str, size: Callable[[str], float], variants: Sequence[Variant], store: Store | None
) -> list[Choice]:
    """Return the variants with a time in the store, the fastest first, then `lab.best`, which runs anywhere.

    Times are this device's at this case; else at the nearest size measured on it; else those of a recorded device of the same
    kind and backend. size: from a case's name to its size, such as its cells. variants: those that can run the case.
    """
    names = {variant.name for variant in variants}
    times = [time for time in (timed(lab, store) if store else ()) if time.backend == device.backend]
    times = [time for time in times if time.variant in names]
    on_device = [time for time in times if time.device == device.slug]
    on_same_kind = [time for time in times if time.recorded and time.device_kind == device.kind]

    def distance(time: Timed) -> float:
        return abs(math.log(size(time.case) / size(case)))

    def nearest(candidates: list[Timed]) -> list[Timed]:
        """Return the times of the case of that name, else of the nearest size, on the device measured last."""
        of_case = [time for time in candidates if time.case == case]
        least = min(map(distance, candidates))
        best = max(of_case or [time for time in candidates if distance(time) == least], key=lambda time: time.run)
        return [time for time in candidates if (time.device, time.case) == (best.device, best.case)]

    ranked = []
    if candidates := on_device or on_same_kind:
        chosen = sorted(nearest(candidates), key=lambda time: time.seconds)
        first = chosen[0]
        site = f"{first.device_name} by {label(first.backend)} at {first.case}"
        lack = f"; {device.name} was not measured" if first.device != device.slug else ""
        lack += f", the measured size nearest to {case}" if first.case != case else ""
        for rank, time in enumerate(chosen):
            standing = "the fastest" if rank == 0 else f"number {rank + 1}"
            reason = f"{standing} of {len(chosen)} measured on {site}, run {time.run}{lack}"
            ranked.append(Choice(lab.variant(time.variant), reason))
    default = next((variant for variant in variants if variant.name == lab.best), None)
    if default and default.name not in [choice.variant.name for choice in ranked]:
        reason = f"the default: no store has a time by {label(device.backend)} on a {device.kind.upper()}"
        ranked.append(Choice(default, "the default: those that were measured cannot run here" if ranked else reason))
    return ranked


def timed(lab: Lab, store: Store) -> list[Timed]:
    """Return the newest measurement of each variant, case, backend and device, unless it failed.

    The result is cached until a file of the lab changes.
    """
    stamps = store.stamps(lab.name)
    if not stamps:
        return []
    key = paths.cache_key(lab.name, repr(stamps), provenance.COUNTING_RULE)
    text = paths.cached_text("fastest_variant", key, lambda: json.dumps([asdict(time) for time in _read(lab, store)]))
    return [Timed(**fields) for fields in json.loads(text)]


def _read(lab: Lab, store: Store) -> list[Timed]:
    """Return the result of `timed` from the checked rows, without DuckDB and pandas."""
    import numpy as np
    import pyarrow.compute as pc

    names = [name for name in Timed.__annotations__ if name not in ("recorded", "seconds")]
    columns = [*names, *MEASUREMENT, "provenance", "status", "started", "samples_s", "units", "sample_throttle", *AT]
    rows = selection.with_texts(store.table(lab.name), {"lab": [lab.name], "role": ["step"]}).select(columns)
    rows = with_current_environment(rows)
    rows = rows.take(selection.oldest_first(rows))
    is_timed = pc.and_(pc.equal(rows["status"].cast("string"), "ok"), pc.greater(rows["units"], 0)).fill_null(False)
    timed_rows = is_timed.to_numpy() & (lists_of(rows, "samples_s")[0] > 0)
    steps = selection.group_numbers(rows, _STEP)
    measurements = selection.group_numbers(rows, (*_STEP, *MEASUREMENT))
    newest = len(rows) - 1 - np.unique(steps[::-1], return_index=True)[1]
    newest = newest[timed_rows[newest]]
    runs = np.flatnonzero(timed_rows & np.isin(measurements, measurements[newest]))
    runs = runs[np.argsort(steps[runs], kind="stable")]
    run_medians = stats.medians(*times_of(rows.take(runs)))
    medians = stats.medians(run_medians, np.unique(steps[runs], return_counts=True)[1]).tolist()
    return [
        Timed(**{name: row[name] for name in names}, recorded=Path(row[FILE]).parts[-4] == "recorded", seconds=seconds)
        for row, seconds in zip(rows.take(newest).select([*names, FILE]).to_pylist(), medians, strict=True)
    ]


_STEP = ("device", "backend", "case", "variant")
