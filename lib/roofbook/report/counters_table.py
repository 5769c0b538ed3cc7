"""Table of hardware counters beside modelled bytes and times: a line for each variant, and its changes over its parent."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, newest, number_field, of_each_scale
from ..devices.backends import label
from ..errors import UsageError
from ..measure.counters import LEAST_LIMITING_SHARE, LIMITS
from ..store.schema import PROFILE
from .columns import Column, number_column
from .html import Cell, StandingNote, Table
from .run_parts import table_by_variant

if TYPE_CHECKING:
    import pandas as pd

COMPARED = {
    "dram_bytes": "DRAM bytes",
    "l2_bytes": "L2 bytes",
    "l1_bytes": "L1 bytes",
    "instructions": "instructions",
    "occupancy": "occupancy",
}
"""Counters that may be a step's largest change, and their names in words."""
UNCHANGED = 1.05
"""Largest factor at which a counter counts as unchanged."""

NOTES = (
    "Modelled: the minimum that a variant's data flow moves. Counted: by hardware counters, for the CUDA build, each kernel by "
    "itself and from a cold cache. Bytes that a cache keeps from one kernel to the next are counted again. Bytes written that "
    "are still in L2 when a kernel ends are not counted.",
    "Limit: the most used unit, as a share of its peak, with kernels weighted by their time; latency where none reaches "
    f"{show.percent(LEAST_LIMITING_SHARE)}. Profiled / timed: the kernels' time under the profiler over the median, which may "
    "cover more.",
    "Compared with its parent: the time under the profiler, and the counter that changed by the largest factor. A profiled run "
    "may have fewer units than a timed one, so work that is done once per run weighs more.",
)


def counters(data: CaseData, profiles: "pd.DataFrame") -> Table:
    """Return a table with a line for each counted variant in ladder order: bytes, instructions, occupancy, limit, time, change.

    profiles: rows of role PROFILE, of any cases; the newest of a variant counts. Its time is compared with ours if both are
    by the same backend. `Table.frame` has amounts per unit, seconds, and shares from 0 to 1. Errors: UsageError if nothing
    was counted on the case.
    """
    case, order, timed = data.case, data.order, data.readings
    counted = replace(data, rows=profiles[profiles["case"] == case], roles=(PROFILE,), skip_reasons={})
    readings = newest(counted.rows, roles=counted.roles)
    names = [name for name in order if name in readings]
    if not names:
        raise UsageError(f"no variant of {', '.join(order)} was counted on {case}")
    ok = [readings[name] for name in names if readings[name].ok]
    unit = str(readings[names[0]].row["unit"])

    def amount(name: str, head: str, letter: str) -> Column[Reading]:
        prefix, size = show.prefix(map(_counter(name), ok))
        shown_unit = f" ({prefix}{letter})" * bool(prefix + letter)
        return number_column(head + shown_unit, name, _counter(name), size, letter, on_demand=True)

    def parent(reading: Reading) -> str:
        return _parent_text(reading, readings.get(reading.parent or ""))

    def dram_over_modelled(reading: Reading) -> float:
        return _quotient(_counter("dram_bytes")(reading), _modelled_bytes(reading))

    def slowdown(reading: Reading) -> float:
        return _slowdown(reading, timed.get(reading.variant))

    letter, size = show.prefix(count(reading) for reading in ok for count in (_counter("dram_bytes"), _modelled_bytes))
    columns = [
        number_column(f"DRAM ({letter}B)", "dram_bytes", _counter("dram_bytes"), size, "B"),
        number_column("DRAM / modelled", "ratio", dram_over_modelled),
        Column("Occupancy", _occupancy, "num", {"occupancy": _counter("occupancy")}),
        Column("Limit", _limit, fields={"limit": lambda reading: _counters(reading)["limit"]}),
        Column(
            "Compared with its parent", lambda reading: Cell(parent(reading), "wrap"), "", {"against_parent": parent}
        ),
        number_column(f"Modelled ({letter}B)", "bytes", _modelled_bytes, size, "B", on_demand=True),
        amount("l2_bytes", "L2", "B"),
        amount("l1_bytes", "L1", "B"),
        amount("instructions", "Instructions", ""),
        Column("Use of each unit", lambda reading: Cell(_every_unit(reading), "wrap"), on_demand=True),
        number_column("Profiled / timed", "time_ratio", slowdown, on_demand=True),
    ]
    tools = ", ".join(dict.fromkeys(str(reading.facts["tool"]) for reading in ok))
    missing = [name for name in order if name not in readings]
    notes = [f"Bytes and instructions are per {unit}, by {tools}."] * bool(ok) + [
        StandingNote(note_text) for note_text in NOTES
    ]
    notes += [f"Not counted: {', '.join(missing)}."] * bool(missing)
    caption = f"Hardware counters on {case}"
    return table_by_variant(counted.with_order(names), columns, caption, notes, "counters")


def changes_in_words(step: Mapping[str, Any], parent: Mapping[str, Any]) -> str:
    """Describe a step's changes in words: the kernels' time, the counter that changed by the largest factor, and the limit.

    step, parent: as returned by `counters.total`. A counter that is 0 or unknown in one of the two has no factor.
    """
    parts = []
    faster = _quotient(parent["seconds"], step["seconds"])
    if faster > 0:
        parts.append(
            "as fast" if _is_unchanged(faster) else f"{_times_text(faster)} as {'fast' if faster > 1 else 'slow'}"
        )
    if factors := _factors(step, parent):
        parts.append(_change_text(factors, next(iter(factors))))
    return "; ".join([*parts, *_limit_change(step, parent)])


def changed_counters(step: Mapping[str, Any], parent: Mapping[str, Any], word: str) -> str:
    """Return the counters that changed with a step of this measured effect: at most two of them, and the limit.

    word: the effect, as `Speedup.word`. The first counter agrees with the effect: for `faster` fewer bytes or instructions,
    or more occupancy; for `slower` the reverse. The second disagrees with it. Each is the one with the largest factor of its
    kind; for any other effect only the largest of all is named. These are facts side by side: no counter gives a cause. '' if
    no counter is known of both. step, parent: as returned by `counters.total`.
    """
    factors = _factors(step, parent)
    if not factors:
        return ""
    changed = [words for words, factor in factors.items() if not _is_unchanged(factor)]
    expected = [
        words for words in changed if ((factors[words] > 1) == (words == COMPARED["occupancy"])) == (word == "faster")
    ]
    unexpected = [words for words in changed if words not in expected]
    named = [*expected[:1], *unexpected[:1]] if word in ("faster", "slower") else changed[:1]
    parts = [_change_text(factors, words) for words in named] or [
        f"none changed by more than {show.percent(UNCHANGED - 1)}"
    ]
    return "; ".join([*parts, *_limit_change(step, parent)])


def _factors(step: Mapping[str, Any], parent: Mapping[str, Any]) -> dict[str, float]:
    """Return how many times as much each counter is of a step as of its parent, by its name in words; largest change first."""
    all_factors = {words: _quotient(step[key], parent[key]) for key, words in COMPARED.items()}
    factors = {words: factor for words, factor in all_factors.items() if factor > 0}
    return dict(sorted(factors.items(), key=lambda word_factor: -abs(math.log(word_factor[1]))))


def _change_text(factors: Mapping[str, float], words: str) -> str:
    factor = factors[words]
    return (
        "no counter changed"
        if _is_unchanged(factor)
        else f"{words} {'rose' if factor > 1 else 'fell'} {_times_text(factor)}"
    )


def _limit_change(step: Mapping[str, Any], parent: Mapping[str, Any]) -> list[str]:
    if step["limit"] and parent["limit"] and step["limit"] != parent["limit"]:
        return [f"limit {step['limit']} instead of {parent['limit']}"]
    return []


def changed_counters_of_step(profiles: "pd.DataFrame | None", step: Reading, parent: Reading, word: str) -> str:
    """Return `changed_counters` for a step on a case, if both were counted on it with the same units; otherwise ''.

    profiles: rows of role PROFILE. step, parent: the measured readings. If the counters are of another backend, a bracket
    names it.
    """
    for readings in _counted_by_scale(profiles, step):
        own_counted, parent_counted = readings.get(step.variant), readings.get(parent.variant)
        if own_counted and parent_counted and own_counted.units == parent_counted.units:
            text = changed_counters(_counters(own_counted), _counters(parent_counted), word)
            return text + _other_backend(own_counted, step) * bool(text)
    return ""


def counters_of_step(profiles: "pd.DataFrame | None", step: Reading) -> str:
    """Return the bytes that a step moved through DRAM on a case, and what limited its kernels; '' if it was not counted.

    profiles: rows of role PROFILE. step: the measured reading.
    """
    for readings in _counted_by_scale(profiles, step):
        if counted := readings.get(step.variant):
            moved, limit = _counter("dram_bytes")(counted), _limit(counted)
            modelled = show.quantity(_modelled_bytes(counted), "B")
            parts = [
                f"{show.quantity(moved, 'B')} through DRAM per {counted.row['unit']} (modelled: {modelled})"
                * (moved >= 0),
                f"limit {limit.text} {limit.small}".strip() * (limit.text != show.DASH),
            ]
            return "; ".join(filter(None, parts)) + _other_backend(counted, step)
    return ""


def _counted_by_scale(profiles: "pd.DataFrame | None", step: Reading) -> Iterator[dict[str, Reading]]:
    """Yield the counted readings on a step's case by variant, for each scale at which some were counted."""
    if profiles is None or profiles.empty:
        return
    for rows in of_each_scale(profiles, step.row["case"]):
        readings = newest(rows, roles=(PROFILE,))
        yield {name: reading for name, reading in readings.items() if reading.ok}


def _other_backend(counted: Reading, step: Reading) -> str:
    backend = str(counted.row["backend"])
    return f" (by {label(backend)})" if backend != step.row["backend"] else ""


def _counters(reading: Reading) -> Mapping[str, Any]:
    counted: Mapping[str, Any] = reading.facts["counters"]
    return counted


def _counter(counter: str) -> Callable[[Reading], float]:
    """Return a function from a reading to a counter; NaN if ncu did not report it."""
    return lambda reading: math.nan if (count := _counters(reading)[counter]) is None else float(count)


def _modelled_bytes(reading: Reading) -> float:
    return number_field(reading.row, "bytes")


def _occupancy(reading: Reading) -> Cell:
    return Cell(show.percent(_counter("occupancy")(reading)), "num")


def _limit(reading: Reading) -> Cell:
    """Return the cell of the limit with its share; if another unit has a larger share, it is named too."""
    shares = _shares(reading)
    limit = _counters(reading)["limit"]
    if limit is None:
        return Cell(show.DASH)
    busiest = max(shares, key=lambda unit: shares[unit])
    share = show.percent(shares[busiest])
    return Cell(limit, small=share if limit == busiest else f"({busiest} {share})")


def _shares(reading: Reading) -> dict[str, float]:
    return {unit: _counter(share)(reading) for share, unit in LIMITS.items()}


def _every_unit(reading: Reading) -> str:
    return ", ".join(f"{unit} {show.percent(share)}" for unit, share in _shares(reading).items())


def _slowdown(reading: Reading, timed: Reading | None) -> float:
    """Return the time under the profiler over ours; NaN without a time of ours by the same backend."""
    if timed is None or not timed.ok or timed.row["backend"] != reading.row["backend"]:
        return math.nan
    return reading.median / timed.median


def _parent_text(reading: Reading, parent: Reading | None) -> str:
    if reading.parent is None:
        return show.DASH
    if parent is None or not parent.ok:
        return f"{reading.parent} was not counted"
    return f"{reading.parent}: {changes_in_words(_counters(reading), _counters(parent))}"


def _quotient(numerator: float | None, denominator: float | None) -> float:
    """Return numerator / denominator; NaN if either is unknown or the denominator is 0."""
    return numerator / denominator if numerator is not None and denominator else math.nan


def _is_unchanged(factor: float) -> bool:
    return 1 / UNCHANGED <= factor <= UNCHANGED


def _times_text(factor: float) -> str:
    return f"{show.number(max(factor, 1 / factor))} times"
