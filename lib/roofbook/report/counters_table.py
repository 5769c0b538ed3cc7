"""What hardware counters counted, beside what was modelled and timed: one line a variant, and what changed over its parent."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from ..analysis import format as show
from ..analysis.case_data import CaseData
from ..analysis.readings import Reading, newest, number_field, of_each_scale
from ..devices.backends import label
from ..errors import UsageError
from ..measure.counters import BUSY, LIMITS
from ..store.schema import PROFILE
from .columns import Column
from .html import Cell, Standing, Table
from .run_parts import by_variant

if TYPE_CHECKING:
    import pandas as pd

COMPARED = {
    "dram_bytes": "DRAM bytes",
    "l2_bytes": "L2 bytes",
    "l1_bytes": "L1 bytes",
    "instructions": "instructions",
    "occupancy": "occupancy",
}
"""The counters of which one may be what a step changed most, in words."""
ALIKE = 1.05
"""Within this factor a counter has not changed."""

NOTES = (
    "Modelled: the minimum that a variant's data flow moves. Counted: by hardware counters, for the CUDA build, each kernel by "
    "itself and from a cold cache. Bytes that a cache keeps from one kernel to the next are counted again. Bytes written that "
    "are still in L2 when a kernel ends are not counted.",
    "Limit: the most used unit, as a share of its peak, with kernels weighted by their time; latency where none reaches "
    f"{show.percent(BUSY)}. Profiled / timed: the kernels' time under the profiler over the median, which may cover more.",
    "Compared with its parent: the time under the profiler, and the counter that changed by the largest factor. A profiled run "
    "may have fewer units than a timed one, so what a run does once weighs more.",
)


def counters(data: CaseData, profiles: "pd.DataFrame", caption: str = "") -> Table:
    """One line a counted variant in ladder order: bytes modelled and counted, instructions, occupancy, limit, time, and why.

    profiles: rows of role PROFILE, of any cases; the newest of a variant counts. The time is compared with ours where the same
    backend took it. `Table.frame` has amounts per unit, seconds and shares from 0 to 1. Errors: UsageError where nothing on
    the case was counted.
    """
    case, order, timed = data.case, data.order, data.readings
    counted = replace(data, rows=profiles[profiles["case"] == case], roles=(PROFILE,), skip_reasons={})
    found = newest(counted.rows, roles=counted.roles)
    names = [name for name in order if name in found]
    if not names:
        raise UsageError(f"no variant of {', '.join(order)} was counted on {case}")
    good = [found[name] for name in names if found[name].ok]
    unit = str(found[names[0]].row["unit"])

    def amount(name: str, head: str, letter: str, of: Callable[[Reading], float]) -> Column:
        prefix, size = show.prefix(of(each) for each in good)
        return _number(name, head + f" ({prefix}{letter})" * bool(prefix + letter), of, size, more=True)

    def parent(each: Reading) -> str:
        return _why(each, found.get(each.parent or ""))

    moved = show.prefix([_told("dram_bytes")(each) for each in good] + [_modelled(each) for each in good])
    columns = [
        _number("dram_bytes", f"DRAM ({moved[0]}B)", _told("dram_bytes"), moved[1]),
        _number("ratio", "DRAM / modelled", lambda each: _over(_told("dram_bytes")(each), _modelled(each))),
        Column.of("occupancy", Cell("Occupancy", "num"), _occupancy, _told("occupancy")),
        Column.of("limit", Cell("Limit"), _limit, lambda each: _counters(each)["limit"]),
        Column.of("against_parent", Cell("Compared with its parent"), lambda each: Cell(parent(each), "wrap"), parent),
        _number("bytes", f"Modelled ({moved[0]}B)", _modelled, moved[1], more=True),
        amount("l2_bytes", "L2", "B", _told("l2_bytes")),
        amount("l1_bytes", "L1", "B", _told("l1_bytes")),
        amount("instructions", "Instructions", "", _told("instructions")),
        Column(Cell("Use of each unit"), lambda each: Cell(_every_unit(each), "wrap"), more=True),
        _number("time_ratio", "Profiled / timed", lambda each: _slowdown(each, timed.get(each.variant)), more=True),
    ]
    tools = ", ".join(dict.fromkeys(str(each.facts["tool"]) for each in good))
    missing = [name for name in order if name not in found]
    notes = [f"Bytes and instructions are per {unit}, by {tools}."] * bool(good) + [Standing(each) for each in NOTES]
    notes += [f"Not counted: {', '.join(missing)}."] * bool(missing)
    caption = caption or f"Hardware counters on {case}"
    return by_variant(counted.with_order(names), columns, caption, notes, "counters")


def against(own: Mapping[str, Any], parent: Mapping[str, Any]) -> str:
    """What a step changed, in words: the kernels' time, the counter that changed by the largest factor, and the limit.

    own, parent: as `counters.total` has them. A counter that is 0 or unknown in one of the two has no factor.
    """
    said = []
    faster = _over(parent["seconds"], own["seconds"])
    if faster > 0:
        said.append("as fast" if _alike(faster) else f"{_times(faster)} as {'fast' if faster > 1 else 'slow'}")
    if known := _factors(own, parent):
        said.append(_changed(known, next(iter(known))))
    return "; ".join([*said, *_other_limit(own, parent)])


def moved(own: Mapping[str, Any], parent: Mapping[str, Any], word: str) -> str:
    """What counters say beside the measured effect of a step: at most two of them that changed, and the limit.

    The first goes with the effect: of a step that is `faster`, by `Speedup.word`, fewer bytes or instructions, or more
    occupancy; the reverse of one that is `slower`. The second goes against it. Each is the one of its kind with the largest
    factor; of a step that is neither, one is shown, the largest of all. These are facts beside each other: no counter says
    why. '' where no counter is known of both. own, parent: as `counters.total` has them.
    """
    known = _factors(own, parent)
    if not known:
        return ""
    changed = [words for words, factor in known.items() if not _alike(factor)]
    fits = [
        words for words in changed if ((known[words] > 1) == (words == COMPARED["occupancy"])) == (word == "faster")
    ]
    against_it = [words for words in changed if words not in fits]
    shown = [*fits[:1], *against_it[:1]] if word in ("faster", "slower") else changed[:1]
    told = [_changed(known, words) for words in shown] or [f"none changed by more than {show.percent(ALIKE - 1)}"]
    return "; ".join([*told, *_other_limit(own, parent)])


def _factors(own: Mapping[str, Any], parent: Mapping[str, Any]) -> dict[str, float]:
    """By its words, how many times as much a counter is of a step as of its parent: that which changed most first."""
    found = {words: _over(own[key], parent[key]) for key, words in COMPARED.items()}
    known = {words: factor for words, factor in found.items() if factor > 0}
    return dict(sorted(known.items(), key=lambda each: -abs(math.log(each[1]))))


def _changed(known: Mapping[str, float], words: str) -> str:
    factor = known[words]
    return "no counter changed" if _alike(factor) else f"{words} {'rose' if factor > 1 else 'fell'} {_times(factor)}"


def _other_limit(own: Mapping[str, Any], parent: Mapping[str, Any]) -> list[str]:
    if own["limit"] and parent["limit"] and own["limit"] != parent["limit"]:
        return [f"limit {own['limit']} instead of {parent['limit']}"]
    return []


def moved_by_step(profiles: "pd.DataFrame | None", own: Reading, parent: Reading, word: str) -> str:
    """`moved` of a step on a case, of what both were counted on alike; '' where not both were. profiles: rows of role PROFILE.

    own, parent: the measured readings. Where these are by another backend than what was counted, a bracket says by which.
    """
    if profiles is None or profiles.empty:
        return ""
    for rows in of_each_scale(profiles, own.row["case"]):
        found = newest(rows, roles=(PROFILE,))
        mine, other = found.get(own.variant), found.get(parent.variant)
        if mine and other and mine.ok and other.ok and mine.units == other.units:
            told = moved(_counters(mine), _counters(other), word)
            by = str(mine.row["backend"])
            return f"{told} (by {label(by)})" if told and by != own.row["backend"] else told
    return ""


def _counters(reading: Reading) -> Mapping[str, Any]:
    found: Mapping[str, Any] = reading.facts["counters"]
    return found


def _told(counter: str) -> Callable[[Reading], float]:
    """A counter of a reading; NaN where ncu did not tell it."""
    return lambda reading: math.nan if (found := _counters(reading)[counter]) is None else float(found)


def _modelled(reading: Reading) -> float:
    return number_field(reading.row, "bytes")


def _number(name: str, head: str, of: Callable[[Reading], float], size: float = 1.0, more: bool = False) -> Column:
    """A column of numbers in units of `size`, with a dash where there is none."""
    unit = "B" if name.endswith("bytes") else ""
    return Column.of(name, Cell(head, "num"), lambda each: Cell(show.number(of(each) / size), "num"), of, more, unit)


def _occupancy(reading: Reading) -> Cell:
    return Cell(show.percent(_told("occupancy")(reading)), "num")


def _limit(reading: Reading) -> Cell:
    """The limit with the largest share."""
    shares = _shares(reading)
    limit = _counters(reading)["limit"]
    if limit is None:
        return Cell(show.DASH)
    most = max(shares, key=lambda unit: shares[unit])
    share = show.percent(shares[most])
    return Cell(limit, small=share if limit == most else f"({most} {share})")


def _shares(reading: Reading) -> dict[str, float]:
    return {unit: _told(share)(reading) for share, unit in LIMITS.items()}


def _every_unit(reading: Reading) -> str:
    return ", ".join(f"{unit} {show.percent(share)}" for unit, share in _shares(reading).items())


def _slowdown(reading: Reading, timed: Reading | None) -> float:
    """Time under the profiler over ours; NaN where there is none of ours by the same backend."""
    if timed is None or not timed.ok or timed.row["backend"] != reading.row["backend"]:
        return math.nan
    return reading.median / timed.median


def _why(reading: Reading, parent: Reading | None) -> str:
    if reading.parent is None:
        return show.DASH
    if parent is None or not parent.ok:
        return f"{reading.parent} was not counted"
    return f"{reading.parent}: {against(_counters(reading), _counters(parent))}"


def _over(one: float | None, other: float | None) -> float:
    """one / other; NaN where either is unknown or the other 0."""
    return one / other if one is not None and other else math.nan


def _alike(factor: float) -> bool:
    return 1 / ALIKE <= factor <= ALIKE


def _times(factor: float) -> str:
    return f"{show.number(max(factor, 1 / factor))} times"
