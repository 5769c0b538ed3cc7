"""History of all measurements in a table of the store, computed by column: a lab may have been measured in a million runs.

Serves `roofbook history`. history.py has the versions of one measurement, for its card, and the clauses for their changes.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from ..measure import stats
from ..store import selection
from ..store.row_cache import AT
from ..store.row_rules import verified
from ..store.schema import CONTROL, MEASUREMENT, PROFILE, ROLES
from .history import (
    KEY,
    Change,
    Row,
    changes,
    changes_of_conditions,
    conditions_of,
    maybe_another_card,
    versions,
)
from .readings import Reading, Speedup, across_runs, faster, input_facts, measured_otherwise, over_runs, unfit
from .throttled import times_of

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Stretch:
    """Runs of one version of a measurement on one machine, or the failure of a version that never succeeded.

    A version is cut where another machine, card or driver of a card took over. So a time that moved with the machine alone is a
    change of its own, compared with the last time before it.
    """

    oldest: Row
    """Row of the oldest run."""
    runs: int
    median: float
    """Seconds per unit, over all runs; NaN for a failure."""
    reason: str
    """Reason of a failure; '' otherwise."""
    changes: tuple[Change, ...]
    """Differences from the stretch before."""
    ratio: Speedup | None
    """Speedup over the last earlier stretch with a time; None if either has none."""

    @property
    def changed(self) -> bool:
        """Whether the time differs from the earlier one's beyond the noise of both."""
        return self.ratio is not None and not self.ratio.same


def stretches(table: "pa.Table") -> Iterator[list[Stretch]]:
    """Yield the stretches of each measurement in a table of the store, oldest first."""
    rows = _Rows.of_table(table)
    runs = _runs(rows)
    for _, of_measurement in groupby(_sections(rows, runs), attrgetter("measurement")):
        yield _compared(list(of_measurement), rows)


class _Rows(NamedTuple):
    """Rows of a table, with numbers of their measurements and versions, each by its oldest row."""

    table: "pa.Table"
    oldest_first: "NDArray[np.int64]"
    """Row numbers of the table; the other numbers are in this order."""
    measurement: "NDArray[np.int64]"
    version: "NDArray[np.int64]"
    with_shared_runs: set[int]
    """Measurements of which several versions were measured in one run, so that their samples are pairs."""

    @classmethod
    def of_table(cls, table: "pa.Table") -> "_Rows":
        import pyarrow as pa
        import pyarrow.compute as pc

        roles = {"role": [role for role in ROLES if role != PROFILE]}
        rows = selection.with_texts(table.select([*_FIELDS, *_LISTS, *AT]), roles)
        order = selection.oldest_first(rows)
        keys = rows.select([*KEY, *MEASUREMENT, "run", "timed"]).take(order)
        keys = keys.append_column("is_control", pc.equal(rows["role"].cast("string"), CONTROL).take(order))
        extras, numbers = selection.coded(rows, "extra")
        inputs = pa.array([repr(input_facts({"extra": extra})) for extra in (*extras.to_pylist(), None)])
        keys = keys.append_column("inputs", inputs.dictionary_encode().take(pa.array(numbers[order] % len(inputs))))
        key = (*KEY, "is_control")
        measurement = selection.group_numbers(keys, key)
        version = selection.group_numbers(keys, (*key, *MEASUREMENT, "timed", "inputs"))
        shared = selection.with_several(selection.group_numbers(keys, (*key, "run")), version)
        return cls(rows, order, measurement, version, {*measurement[shared].tolist()})

    def take(self, numbers: "NDArray[np.int64]", columns: Sequence[str]) -> "pa.Table":
        """Return columns of the rows with these numbers, counted from the oldest row."""
        return self.table.select(columns).take(self.oldest_first[numbers])


_COMPARED = (
    *("device_kind", "policy", "timed", "cell_key", "source_sha256", "units", "extra", "provenance"),
    *("role", "status", "reason", "error", "bound"),
)
"""Columns by which two runs differ, or in which a failed one has its reason."""
_FIELDS = tuple({**dict.fromkeys((*_COMPARED, *KEY, *MEASUREMENT, "run", "started"))})
"""Columns of a row apart from its lists."""
_LISTS = ("samples_s", "sample_throttle", "rounds")


def _runs(rows: _Rows) -> "NDArray[np.int64]":
    """Return the row numbers that stand for the runs: the newest verified row of each run, version after version.

    A version without a verified row has its newest row alone.
    """
    import numpy as np

    fit = verified(rows.table)[rows.oldest_first]
    is_timed = np.bincount(rows.version, fit) > 0
    candidates = np.flatnonzero(fit | ~is_timed[rows.version])[::-1]
    texts, numbers = selection.coded(rows.table, "run")
    labels = rows.version * (len(texts) + 1) + np.where(fit, numbers[rows.oldest_first] + 1, 0)
    newest = candidates[np.unique(labels[candidates], return_index=True)[1]]
    return newest[np.lexsort((newest, rows.version[newest], rows.measurement[newest]))]


class _Section(NamedTuple):
    """Runs of a stretch, not yet compared."""

    measurement: int
    version: int
    oldest: Row
    newest: Row
    runs: int
    median: float
    side: stats.RatioSide | None
    """Side of a ratio across runs; None for a failure."""


def _sections(rows: _Rows, runs: "NDArray[np.int64]") -> Iterator[_Section]:
    """Yield the sections of all measurements, one measurement after another, oldest first."""
    import numpy as np

    version = rows.version[runs]
    starts = np.flatnonzero(_is_cut(rows.take(runs, ["provenance"]), version))
    counts = np.diff([*starts, len(runs)])
    fit = verified(rows.table)[rows.oldest_first[runs]]
    timed = fit[starts]
    times, samples = times_of(rows.take(runs[fit], ["units", "samples_s", "sample_throttle"]))
    sides = stats.sides(times, samples, counts[timed])
    middles = iter(zip(stats.medians(stats.medians(times, samples), counts[timed]).tolist(), sides, strict=True))
    oldest = _dictionaries(rows.take(runs[starts], _FIELDS))
    newest = _dictionaries(rows.take(runs[starts + counts - 1], _COMPARED))
    measurements, versions_of = rows.measurement[runs[starts]].tolist(), version[starts].tolist()
    columns = (measurements, versions_of, oldest, newest, counts.tolist())
    for *fields, is_timed in zip(*columns, timed.tolist(), strict=True):
        yield _Section(*fields, *(next(middles) if is_timed else (math.nan, None)))


def _is_cut(table: "pa.Table", version: "NDArray[np.int64]") -> "NDArray[np.bool_]":
    """Return for each run whether a section begins with it."""
    import numpy as np

    groups = selection.group_numbers(table, ("provenance",))
    first = np.unique(groups, return_index=True)[1]
    conditions = [conditions_of(row) for row in _dictionaries(table.take(first))]
    distinct = list(dict.fromkeys(conditions))
    number_of = {condition: number for number, condition in enumerate(distinct)}
    numbers = np.array([number_of[condition] for condition in conditions], np.int64)[groups]
    pairs, pair_of = np.unique(numbers[:-1] * len(distinct) + numbers[1:], return_inverse=True)
    is_change = [
        bool(changes_of_conditions(*(distinct[n] for n in divmod(pair, len(distinct))))) for pair in pairs.tolist()
    ]
    moved = np.array(is_change, bool)[pair_of]
    return np.concatenate([np.ones(min(1, len(version)), bool), moved | (version[1:] != version[:-1])])


def _dictionaries(table: "pa.Table") -> Iterator[dict[str, Any]]:
    """Yield the rows of a table as dictionaries, which share equal texts. All of them at once would take much memory."""
    import pyarrow as pa

    fields: dict[str, Sequence[Any]] = {}
    for field in table.schema:
        if pa.types.is_dictionary(field.type):
            values, indices = selection.coded(table, field.name)
            texts = [*values.to_pylist(), None]
            fields[field.name] = [texts[index] for index in indices.tolist()]
        else:
            fields[field.name] = table[field.name].to_pylist()
    return (dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True))


def _compared(sections: Sequence[_Section], rows: _Rows) -> list[Stretch]:
    """Return the sections of a measurement as stretches, each compared with the last one before it that has a time."""
    shares_runs = sections[0].measurement in rows.with_shared_runs
    ratios = _ratios_of_readings(_readings(sections, rows)) if shares_runs else _ratios(sections)
    newest_rows = {section.version: section.newest for section in sections}
    compared = list[Stretch]()
    before: _Section | None = None
    for section, ratio in zip(sections, ratios, strict=True):
        changed: tuple[Change, ...] = ()
        if before and before.version == section.version:
            changed = changes_of_conditions(conditions_of(before.newest), conditions_of(section.oldest))
        elif before:
            unknown = maybe_another_card(before.newest, newest_rows[section.version])
            changed = (*changes(before.newest, section.oldest), *unknown)
        reason = "" if section.side else unfit(section.newest)
        compared.append(Stretch(section.oldest, section.runs, section.median, reason, changed, ratio))
        before = section
    return compared


def _ratios(sections: Iterable[_Section]) -> Iterator[Speedup | None]:
    """Yield the ratio of each section over the last one before it that has a time. No two of them share a run."""
    before: _Section | None = None
    for section in sections:
        if before and before.side and section.side:
            ratio, notes = across_runs(before.side, section.side, min(before.runs, section.runs))
            notes += measured_otherwise(before.newest, section.newest)
            yield Speedup(ratio.estimate, ratio.low, ratio.high, ", ".join(notes), 0)
        else:
            yield None
        before = section if section.side else before


def _readings(sections: Sequence[_Section], rows: _Rows) -> Iterator[Reading]:
    """Yield the sections of a measurement as readings, which hold all samples with their rounds."""
    import numpy as np

    numbers = np.flatnonzero(rows.measurement == sections[0].measurement)
    history = versions(rows.take(numbers, rows.table.column_names).to_pylist())
    for version, (_, of_version) in zip(history, groupby(sections, attrgetter("version")), strict=True):
        counts = [section.runs for section in of_version]
        runs = reversed(version.reading.run_by_run)
        yield from (
            [version.reading] if len(counts) == 1 else [over_runs(list(islice(runs, count))[::-1]) for count in counts]
        )


def _ratios_of_readings(readings: Iterable[Reading]) -> Iterator[Speedup | None]:
    """Yield the ratio of each reading over the last one before it that has a time, by rounds where they share a run."""
    before: Reading | None = None
    for reading in readings:
        yield faster(before, reading)
        before = reading if reading.ok else before
