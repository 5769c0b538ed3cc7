"""History of a measurement: its versions, run by run and commit by commit, and the changes from one to the next.

Serves the card of a measurement and the page of history. A version is one measurement of a table: its runs by equal code, in an
equal environment. Each difference from the version before, or from run to run within one, is named.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

from ..devices import provenance
from ..escaping import read_json
from ..store.schema import CONTROL, PROFILE, age
from .machines import machine
from .readings import (
    FEW_RUNS,
    INPUT_FACTS,
    Reading,
    Speedup,
    faster,
    input_facts,
    measurement_of,
    number_field,
    read_measurement,
    text_field,
    unfit,
)  # fmt: skip

Row = Mapping[str, Any]
KEY = ("variant", "case", "device", "backend", "scale")
CODE, DRIVER, MACHINE = "code", "driver", "machine"
"""Kinds of change."""


@dataclass(frozen=True)
class Change:
    """A difference between two rows of a measurement: its kind, CODE, DRIVER or MACHINE, and a clause that describes it."""

    kind: str
    text: str


@dataclass(frozen=True)
class Version:
    """A measurement as it was for some time."""

    reading: Reading
    """The reading over all runs of the version. If all of them failed, it has the reason."""
    changes: tuple[Change, ...] = ()
    """Differences from the version before."""
    earlier: Reading | None = field(default=None, repr=False, compare=False)
    """The last earlier version with a time."""

    @cached_property
    def ratio(self) -> Speedup | None:
        """Speedup over the last earlier version with a time; None if either has none."""
        return faster(self.earlier, self.reading)

    @property
    def changed(self) -> bool:
        """Whether the time differs from the earlier one's beyond the noise of both."""
        return self.ratio is not None and not self.ratio.same

    @property
    def spread(self) -> float:
        """The longest median of a run over the shortest; 1 for one run."""
        medians = [run.median for run in self.reading.run_by_run] if self.reading.ok else [1.0]
        return max(medians) / min(medians)


def key_of(row: Row) -> tuple[str, ...]:
    """Return the key that all rows of a measurement share: variant, case, device, backend, scale, and whether a control."""
    return *(str(row[name]) for name in KEY), CONTROL if row.get("role") == CONTROL else ""


def by_measurement(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Return rows by `key_of`, oldest first. Rows of hardware counters are left out: their times are under a profiler."""
    rows_by_key: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda row: age(row["started"])):
        if row.get("role") != PROFILE:
            rows_by_key.setdefault(key_of(row), []).append(row)
    return rows_by_key


def versions(rows: Sequence[Row], reading: Reading | None = None) -> list[Version]:
    """Return the versions of a measurement, oldest first, from all its rows, oldest first.

    reading: the measurement in the tables, which is the last version.
    """
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(measurement_of(row), []).append(row)
    last = measurement_of(reading.row) if reading else None
    readings = [_read(version_rows) for key, version_rows in groups.items() if key != last]
    readings += [reading] if reading else []
    history = list[Version]()
    for current in readings:
        before = history[-1].reading if history else None
        changed = (
            (*changes(before.row, first_run(current).row), *maybe_another_card(before.row, current.row))
            if before
            else ()
        )
        history.append(Version(current, changed, _last_timed(history)))
    return history


def _last_timed(history: Sequence[Version]) -> Reading | None:
    """Return the reading of the last version with a time."""
    return next((version.reading for version in reversed(history) if version.reading.ok), None)


def first_run(reading: Reading) -> Reading:
    """Return the first run of a reading."""
    return reading.runs[-1]


def runs_with_changes(reading: Reading) -> list[tuple[Reading, tuple[Change, ...]]]:
    """Return a reading's runs, oldest first, each with the changes since the run before: machine, card, and its driver."""
    runs = list(reversed(reading.run_by_run))
    conditions = [conditions_of(run.row) for run in runs]
    changed = [changes_of_conditions(before, after) for before, after in itertools.pairwise(conditions)]
    return list(zip(runs, [(), *changed], strict=True))


def changes(was: Row, now: Row) -> tuple[Change, ...]:
    """Return the differences between two rows of a measurement, as far as both record them: code, then driver, then machine."""
    before, after = conditions_of(was), conditions_of(now)
    facts = input_facts(was), input_facts(now)
    inputs = [
        Change(DRIVER, f"{words}, {name}: {facts[0][name]} -> {facts[1][name]}")
        for name, words in INPUT_FACTS.items()
        if _differ(*facts, name)
    ]
    code = [Change(CODE, text) for text in _code(was, now)]
    return *code, *_environment(before, after), *inputs, *_machine(before, after)


def changes_of_conditions(before: "_Conditions", after: "_Conditions") -> tuple[Change, ...]:
    """Return `changes` of two rows of one version, which differ in no code and no input."""
    return () if before is after else _environment(before, after) + _machine(before, after)


@lru_cache(maxsize=1 << 14)
def _environment(before: "_Conditions", after: "_Conditions") -> tuple[Change, ...]:
    if not (before.environment and after.environment):
        return ()
    return tuple(Change(DRIVER, text) for text in provenance.differences(before.environment, after.environment))


@lru_cache(maxsize=1 << 14)
def _machine(before: "_Conditions", after: "_Conditions") -> tuple[Change, ...]:
    cards, old, new = (before.gpu, after.gpu), before.machine[1], after.machine[1]
    differences = list[Change]()
    if _differ(*cards, "driver"):
        differences.append(Change(DRIVER, f"the GPU's driver changed: {cards[0]['driver']} -> {cards[1]['driver']}"))
    if old and new and before.machine != after.machine:
        differences.append(Change(MACHINE, f"another machine: {old} -> {new}"))
    for name, words in _OF_CARD.items():
        if _differ(*cards, name):
            differences.append(Change(MACHINE, f"{words}: {cards[0][name]} -> {cards[1][name]}"))
    return tuple(differences)


def maybe_another_card(was: Row, now: Row) -> list[Change]:
    """Return the change to a possibly different GPU, if only the newer row names its GPU."""
    before, after = (conditions_of(row).gpu.get("uuid") for row in (was, now))
    return [Change(MACHINE, "perhaps another card: the earlier row does not say which it is of")] * bool(
        after and not before
    )


_OF_CARD = {
    "uuid": "another card",
    "power_limit_w": "another power limit, W",
    "application_clock_mhz": "another application clock, MHz",
}


def _code(was: Row, now: Row) -> list[str]:
    """Return clauses for the differences in code; none if both rows are of the same code."""
    if was["cell_key"] == now["cell_key"] and text_field(was, "timed") == text_field(now, "timed"):
        return []
    sources = text_field(was, "source_sha256"), text_field(now, "source_sha256")
    differences = ["the kernel's source changed"] * (sources[0] != sources[1])
    earlier, later = (_fields(text_field(row, "extra")).get("wgsl_sha256") for row in (was, now))
    differences += ["its translation to WGSL changed"] * (None not in (earlier, later) and earlier != later)
    if later and not earlier and not differences:
        differences.append("perhaps its translation to WGSL changed: the earlier row does not name its WGSL")
    if text_field(was, "timed") != text_field(now, "timed"):
        differences.append(f"what is timed changed: {text_field(was, 'timed')} -> {text_field(now, 'timed')}")
    units = number_field(was, "units"), number_field(now, "units")
    if units[0] != units[1] and not any(map(math.isnan, units)):
        differences.append(f"a sample repeats it {units[1]:.0f} times, no longer {units[0]:.0f}")
    policies = _fields(text_field(was, "policy")), _fields(text_field(now, "policy"))
    differences += [
        f"{name} of the protocol changed: {policies[0][name]} -> {policies[1][name]}"
        for name in ("cache", "seed")
        if _differ(*policies, name)
    ]
    return differences or ["its plan, its options or the host's code changed"]


def _differ(was: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    """Return whether both rows have the named field, with different values."""
    return was.get(name) is not None and now.get(name) is not None and bool(was[name] != now[name])


def _read(rows: Sequence[Row]) -> Reading:
    """Return the reading of a version's verified rows, which are oldest first; if none is verified, the newest failure."""
    newest_first = list(reversed(rows))
    newest = next((number for number, row in enumerate(newest_first) if not unfit(row)), 0)
    return read_measurement(newest_first[newest:], newest_first)


@dataclass(frozen=True, eq=False)
class _Conditions:
    """The parts of a row's provenance whose change is named. Equal ones are one object, so they are compared once."""

    environment: Mapping[str, Any]
    """Parts that count today (`provenance.counted`)."""
    gpu: Mapping[str, Any]
    machine: tuple[str, str | None]


_conditions_by_text: dict[str, _Conditions] = {}


def conditions_of(row: Row) -> _Conditions:
    """Return the conditions of a row: thousands of rows of a few machines differ in their commit and their time alone."""
    return _conditions(text_field(row, "provenance"))


@lru_cache(maxsize=1 << 16)
def _conditions(text: str | None) -> _Conditions:
    fields = read_json(text or "{}")
    environment = provenance.counted(fields.get("environment") or {})
    conditions = _Conditions(environment, fields.get("gpu") or {}, machine(text))
    return _conditions_by_text.setdefault(repr(conditions), conditions)


@lru_cache(maxsize=256)
def _fields(text: str | None) -> Mapping[str, Any]:
    fields: dict[str, Any] = read_json(text or "{}")
    return fields


def change_sentence(history: Sequence[Version]) -> str:
    """Return a sentence that says whether the measurement has changed over its runs and commits."""
    last = history[-1]
    earlier = [version for version in history[:-1] if version.reading.ok]
    moved = [version for version in history[1:] if version.changed]
    runs = sum(len(version.reading.runs) for version in history)
    if not last.reading.ok:
        return f"It has no time: {last.reading.reason}." + " It had one before." * bool(earlier)
    if runs == 1:
        return "It was measured in one run: nothing tells yet whether another would differ."
    if not earlier:
        wide = f"the longest median is {100 * (last.spread - 1):.2g} % above the shortest"
        return f"Unchanged code in {runs} runs, by {_commits(history)}: {wide}."
    extent = f"{len(history)} versions in {runs} runs, by {_commits(history)}"
    if not moved:
        return f"{extent}: its time did not change beyond the noise."
    few = all(version.ratio and FEW_RUNS[-1] in version.ratio.how for version in moved)
    sure = " in these runs; others may differ by more" * few
    return f"{extent}: its time changed {_times(len(moved))}{sure}."


def commit_of(row: Row) -> str | None:
    """Return the commit that a row names; None if it names none."""
    return (_fields(text_field(row, "provenance")).get("git") or {}).get("commit")


def _commits(history: Sequence[Version]) -> str:
    commits = {commit_of(run.row) for version in history for run in version.reading.runs} - {None}
    return f"{len(commits)} commit{'s' * (len(commits) != 1)}" if commits else "unnamed commits"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
