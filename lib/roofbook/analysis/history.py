"""A measurement over time: the versions that it had, run by run and commit by commit, and what changed from one to the next.

Serves the card of a measurement and the page of history. A version is what a table takes for one measurement: its runs by equal
code, in an equal environment. All that differs from the version before, or from run to run within one, is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from ..devices import provenance
from ..escaping import read_json
from ..store.schema import CONTROL, MEASUREMENT, PROFILE, age
from .readings import FEW_RUNS, INPUT_FACTS, Reading, Speedup, faster, input_facts, read_runs, text_field, unfit
from .store_devices import machine

Row = Mapping[str, Any]
KEY = ("variant", "case", "device", "backend", "scale")
CODE, DRIVER, MACHINE = "code", "driver", "machine"
"""The kinds of what may change."""


@dataclass(frozen=True)
class Change:
    """What differs between two rows of a measurement: its kind, CODE, DRIVER or MACHINE, and what it is in a clause."""

    kind: str
    text: str


@dataclass(frozen=True)
class Version:
    """A measurement as it was for a time."""

    reading: Reading
    """Over its runs. One that failed in all of them says why."""
    changes: tuple[Change, ...] = ()
    """What is other than in the version before."""
    ratio: Speedup | None = None
    """How many times as fast as the last one before that has a time; None where it or this one has none."""

    @property
    def changed(self) -> bool:
        """Whether its time is another beyond the noise of both."""
        return self.ratio is not None and not self.ratio.same

    @property
    def spread(self) -> float:
        """The longest median of a run over the shortest; 1 of one run."""
        medians = [each.median for each in self.reading.run_by_run] if self.reading.ok else [1.0]
        return max(medians) / min(medians)


def key_of(row: Row) -> tuple[str, ...]:
    """What rows of one measurement have in common through all of its history: what it is called, where it is measured."""
    return *(str(row[name]) for name in KEY), CONTROL if row.get("role") == CONTROL else ""


def by_measurement(rows: Sequence[Row]) -> dict[tuple[str, ...], list[Row]]:
    """Rows by `key_of`, oldest first. Those of hardware counters are left out: their times are under a profiler."""
    found: dict[tuple[str, ...], list[Row]] = {}
    for row in sorted(rows, key=lambda each: age(each["started"])):
        if row.get("role") != PROFILE:
            found.setdefault(key_of(row), []).append(row)
    return found


def versions(rows: Sequence[Row], shown: Reading | None = None) -> list[Version]:
    """The versions of a measurement, oldest first, of all its rows, oldest first.

    shown: its reading in the tables, which is the last version as it is there.
    """
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_version_of(row), []).append(row)
    last = _version_of(shown.row) if shown else None
    made = [_read(mine) for key, mine in groups.items() if key != last]
    made += [shown] if shown else []
    found = list[Version]()
    for reading in made:
        before = found[-1].reading if found else None
        timed = next((each.reading for each in reversed(found) if each.reading.ok), None)
        ratio = faster(timed, reading) if timed and reading.ok else None
        changed = (*changes(before.row, oldest(reading).row), *_unknown(before.row, reading.row)) if before else ()
        found.append(Version(reading, changed, ratio))
    return found


def oldest(reading: Reading) -> Reading:
    """The first of its runs."""
    return reading.runs[-1]


def within(reading: Reading) -> list[tuple[Reading, tuple[Change, ...]]]:
    """Its runs, oldest first, each with what is other than in the run before: the machine, its card, that card's driver."""
    runs = list(reversed(reading.run_by_run))
    befores = [None, *runs]
    return [
        (each, changes(before.row, each.row) if before else ()) for before, each in zip(befores, runs, strict=False)
    ]


def stretches(found: Sequence[Version]) -> list[Version]:
    """The same versions, each cut where another machine, card or driver of a card took over from run to run.

    So a time that moved with the machine alone is a change of its own, compared with the last time before it.
    """
    cut = list[Version]()
    for version in found:
        groups: list[tuple[list[Reading], tuple[Change, ...]]] = []
        for run, changed in within(version.reading) if version.reading.ok else [(version.reading, ())]:
            if changed or not groups:
                groups.append(([], changed if groups else version.changes))
            groups[-1][0].append(run)
        for runs, changed in groups:
            reading = read_runs([each.row for each in reversed(runs)]) if len(groups) > 1 else version.reading
            timed = next((each.reading for each in reversed(cut) if each.reading.ok), None)
            cut.append(Version(reading, changed, faster(timed, reading) if timed and reading.ok else None))
    return cut


def changes(was: Row, now: Row) -> tuple[Change, ...]:
    """What differs between two rows of a measurement, as far as both tell. Code first, then driver, then machine."""
    found = [Change(CODE, what) for what in _code(was, now)]
    before, after = _told(text_field(was, "provenance")), _told(text_field(now, "provenance"))
    old, new = before.get("environment"), after.get("environment")
    if old and new:
        named = provenance.differences(old, new)
        if text_field(now, "device_kind") == "gpu":  # older rows of GPUs name PoCL where it was merely installed
            named = [each for each in named if not each.startswith("pocl")]
        found += [Change(DRIVER, each) for each in named]
    told = input_facts(was), input_facts(now)
    found += [
        Change(DRIVER, f"{what}, {name}: {told[0][name]} -> {told[1][name]}")
        for name, what in INPUT_FACTS.items()
        if _differ(*told, name)
    ]
    cards = before.get("gpu") or {}, after.get("gpu") or {}
    if _differ(*cards, "driver"):
        found.append(Change(DRIVER, f"the GPU's driver changed: {cards[0]['driver']} -> {cards[1]['driver']}"))
    machines = [machine(text_field(row, "provenance")) for row in (was, now)]
    if machines[0][1] and machines[1][1] and machines[0] != machines[1]:
        found.append(Change(MACHINE, f"another machine: {machines[0][1]} -> {machines[1][1]}"))
    for name, what in _OF_CARD.items():
        if _differ(*cards, name):
            found.append(Change(MACHINE, f"{what}: {cards[0][name]} -> {cards[1][name]}"))
    return tuple(found)


def _unknown(was: Row, now: Row) -> list[Change]:
    """That it may have been another card, where only the later row says which it is of."""
    before, after = ((_told(text_field(row, "provenance")).get("gpu") or {}).get("uuid") for row in (was, now))
    return [Change(MACHINE, "perhaps another card: the earlier row does not say which it is of")] * bool(
        after and not before
    )


_OF_CARD = {
    "uuid": "another card",
    "power_limit_w": "another power limit, W",
    "application_clock_mhz": "another application clock, MHz",
}


def _code(was: Row, now: Row) -> list[str]:
    """What is other code in a clause; nothing where both rows are of the same."""
    if was["cell_key"] == now["cell_key"] and text_field(was, "timed") == text_field(now, "timed"):
        return []
    sources = text_field(was, "source_sha256"), text_field(now, "source_sha256")
    found = ["the kernel's source changed"] * (sources[0] != sources[1])
    if text_field(was, "timed") != text_field(now, "timed"):
        found.append(f"what is timed changed: {text_field(was, 'timed')} -> {text_field(now, 'timed')}")
    if was["units"] == was["units"] and now["units"] == now["units"] and was["units"] != now["units"]:
        found.append(f"a sample repeats it {int(now['units'])} times, no longer {int(was['units'])}")
    policies = _told(text_field(was, "policy")), _told(text_field(now, "policy"))
    found += [
        f"{name} of the protocol changed: {policies[0][name]} -> {policies[1][name]}"
        for name in ("cache", "seed")
        if _differ(*policies, name)
    ]
    return found or ["its plan, its options or the host's code changed"]


def _differ(was: Mapping[str, Any], now: Mapping[str, Any], name: str) -> bool:
    """Whether both tell something of that name, and not the same."""
    return was.get(name) is not None and now.get(name) is not None and bool(was[name] != now[name])


def _version_of(row: Row) -> tuple[str, ...]:
    told = (f"{name} {value}" for name, value in sorted(input_facts(row).items()))
    return *(str(row[name]) for name in MEASUREMENT), text_field(row, "timed") or "", *told


def _read(rows: Sequence[Row]) -> Reading:
    """Of rows of one version, oldest first, the verified ones; where none is, the newest failure."""
    good = [row for row in rows if not unfit(row)]
    return read_runs(list(reversed(good or rows)))


@lru_cache(maxsize=4096)
def _told(text: str | None) -> Mapping[str, Any]:
    found: dict[str, Any] = read_json(text or "{}")
    return found


def answer(found: Sequence[Version]) -> str:
    """Whether the measurement has changed over its runs and commits, in a sentence."""
    last = found[-1]
    earlier = [each for each in found[:-1] if each.reading.ok]
    moved = [each for each in found[1:] if each.changed]
    runs = sum(len(each.reading.runs) for each in found)
    if not last.reading.ok:
        return f"It has no time: {last.reading.reason}." + " It had one before." * bool(earlier)
    if runs == 1:
        return "It was measured in one run: nothing tells yet whether another would differ."
    if not earlier:
        wide = f"the longest median is {100 * (last.spread - 1):.2g} % above the shortest"
        return f"Unchanged code in {runs} runs, by {_commits(found)}: {wide}."
    if not moved:
        told = "its time did not change beyond the noise"
        return f"{len(found)} versions in {runs} runs, by {_commits(found)}: {told}."
    few = all(each.ratio and FEW_RUNS[-1] in each.ratio.how for each in moved)
    sure = " in these runs; others may differ by more" * few
    return f"{len(found)} versions in {runs} runs, by {_commits(found)}: its time changed {_times(len(moved))}{sure}."


def commit_of(row: Row) -> str | None:
    """The commit that a row names."""
    return (_told(text_field(row, "provenance")).get("git") or {}).get("commit")


def _commits(found: Sequence[Version]) -> str:
    known = {commit_of(run.row) for each in found for run in each.reading.runs} - {None}
    return f"{len(known)} commit{'s' * (len(known) != 1)}" if known else "unnamed commits"


def _times(number: int) -> str:
    return {1: "once", 2: "twice"}.get(number, f"{number} times")
