"""What the cells of a table say about one reading: its time, its ratios, its share of the bound, its check, its facts."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..analysis import format as show
from ..analysis.provenance_check import untraced
from ..analysis.readings import TOO_FEW, Home, Reading, Speedup, said, value
from ..analysis.roofline import Bound
from ..analysis.throttled import LEAST
from ..devices.backends import OPENCL
from ..devices.pocl_cpu import CALLS
from ..measure import stats
from ..spec.rounding import TIMES_ACCURATE
from .html import Cell, Row, Standing

SAME = (
    f"where it comes within {100 * (stats.LEAST - 1):g} % of 1, 'same' if all of it lies within"
    f" {100 * (stats.EQUAL - 1):g} % of 1, else 'undecided'"
)
"""What a note says of an interval, after naming it."""


def time_cell(reading: Reading, unit: float) -> Cell:
    """Median and interval in the column's unit; small print where the samples are few."""
    return Cell(
        show.interval(reading.median / unit, reading.low / unit, reading.high / unit),
        "num",
        small=f"({reading.few})" if reading.few else "",
        of=reading.id,
    )


def part_cell(reading: Reading, part: str, unit: float) -> Cell:
    """Median and interval of a part of the run in the column's unit; a dash where there is no such part."""
    if part not in reading.parts:
        return Cell(show.DASH, "num")
    found = reading.parts_together([part])
    text = show.interval(found.median / unit, found.low / unit, found.high / unit)
    return Cell(text, "num", small=f"({found.few})" if found.few else "", of=reading.id)


def fact_cell(reading: Reading, fact: str, digits: int = 4) -> Cell:
    """A fact of the run: a text or a whole number as it is, another number in so many digits, else a dash."""
    told: Any = reading.facts.get(fact)
    if told is None:
        return Cell(show.DASH, "num")
    if isinstance(told, float):
        return Cell(show.number(told, digits), "num", of=reading.id)
    if isinstance(told, int) and not isinstance(told, bool):
        return Cell(show.number(told, places=0), "num", of=reading.id)
    return Cell(str(told))


def samples_cell(reading: Reading) -> Cell:
    """How many samples in how many runs, of how many units each; how many are throttled. A note has the reasons."""
    gone, slowed = (sum(getattr(each, name) for each in reading.runs) for name in ("left_out", "slowed"))
    small = [f"{len(reading.runs)} runs"] * (len(reading.runs) > 1)
    small += [f"{gone} throttled left out"] * bool(gone) + [f"{slowed} throttled"] * bool(slowed)
    text = f"{reading.samples} \u00d7 {show.number(reading.units, places=0)}"
    return Cell(text, "num", small=f"({', '.join(small)})" if small else "", of=reading.id)


def _listed(field: Any) -> list[str]:
    """A list of the row; a null reads as None or NaN."""
    return list(field) if hasattr(field, "__len__") else []


def run_notes(readings: Iterable[Reading]) -> list[str]:
    """What a table says of how many runs its times are of; no note without a time."""
    return notes_of_runs(len(reading.runs) for reading in readings if reading.ok)


def notes_of_runs(numbers: Iterable[int]) -> list[str]:
    """The same of the numbers of runs."""
    counts = set(numbers)
    fewest, most = min(counts, default=0), max(counts, default=0)
    if most == 0:
        return []
    if most == 1:
        more = "The interval of a time of one run holds in this run, and another may differ by more than it says."
        return ["Each time is of one run.", Standing(more)]
    each = "each in a process of its own"
    if fewest >= stats.ENOUGH_RUNS:
        return [f"Times and ratios are over {_range(fewest, most)} runs, {each}, and intervals are between runs."]
    between = f"Intervals are between runs, {each}, where there are {stats.ENOUGH_RUNS} or more"
    return [
        Standing(
            f"{between}; else an interval holds in the runs that were taken, and another may differ by more than it says."
        )
    ]


def _range(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest} to {most}"


def ratio_cell(ratio: Speedup | None, *, known: str = "") -> Cell:
    """A ratio with its interval, or 'same' or 'undecided', or a dash where not both were measured.

    known: how the ratio was taken, where the column's head says so already.
    """
    if ratio is None:
        return Cell(show.DASH, "num")
    if TOO_FEW in ratio.how:
        return Cell(show.number(ratio.estimate), "num same", small=f"({ratio.how})", of=ratio.of)
    how = ratio.how or f"over {ratio.runs} runs"
    text, small = show.factor(ratio.estimate, ratio.low, ratio.high), f"({how})" if ratio.how != known else ""
    if ratio.same:
        wide = ratio.word == "undecided"
        ends = show.undecided(ratio.estimate, ratio.low, ratio.high) if wide else text[text.find("[") :]
        small = " ".join(filter(None, [ends, small]))
        return Cell(ratio.word, "num same", small=small, of=ratio.of)
    return Cell(text, "num faster" if ratio.estimate > 1 else "num slower", small=small, of=ratio.of)


def usual_how(ratios: Iterable[Speedup | None]) -> str:
    """How most of a column's ratios were taken: its head says it once."""
    ways = Counter(ratio.how for ratio in ratios if ratio and TOO_FEW not in ratio.how)
    return ways.most_common(1)[0][0] if ways else ""


def ratio_head(text: str, how: str) -> Cell:
    """The head of a column of ratios, most of which were taken so."""
    return Cell(text, "num", small=f"({how})" if how else "")


def floor_of(bounds: Mapping[str, Bound] | None, reading: Reading) -> Bound | None:
    """The bound of a reading's variant, which its A/A control shares, else of what it multiplies; None without either."""
    held = bounds or {}
    return held.get(str(reading.row["variant"])) or held.get(str(said(reading.row, "dtype")))


def above(floor: Bound | None, reading: Reading) -> bool:
    """Whether it is faster than its bound by more than a difference may be claimed of: then that is none."""
    return floor is not None and reading.role != "probe" and floor.seconds > stats.LEAST * reading.median


ABOVE = "a peak was measured too low, or less work is done than is counted"
"""Why a variant can be faster than its bound, which nothing can be."""


def share_cell(floor: Bound | None, reading: Reading) -> Cell:
    """Bound of the reading's dtype over its time. One that is faster has no share: what it is faster than is no bound."""
    if reading.role == "probe":
        return Cell(show.DASH, "num")
    if floor is None:
        return Cell(show.DASH, "num")  # a note has the precisions without a peak, and each bound
    if above(floor, reading):
        return Cell("above", "num above-bound", of=reading.id)
    return Cell(show.percent(min(1.0, floor.seconds / reading.median)), "num", of=reading.id)


def check_cell(reading: Reading) -> Cell:
    """The error as a part of what is allowed, which for a verified reading is at most 1."""
    error, limit = value(reading.row, "error"), value(reading.row, "bound")
    if math.isnan(limit):
        return Cell("nothing to check", "unchecked")
    part = error / limit if limit else 0.0
    small = f"({show.number(error)} × accurate)" if _of_native(reading) else ""
    return Cell(f"✓ {show.number(part, 2)}", "num verified", small=small, of=reading.id)


def _of_native(reading: Reading) -> bool:
    return str(reading.facts.get("error_is", "")).endswith(TIMES_ACCURATE)


def native_notes(readings: Iterable[Reading]) -> list[str]:
    """What native functions lost, where they lost more than the usual tolerance."""
    found = [(value(each.row, "error"), value(each.row, "bound")) for each in readings if _of_native(each)]
    if not found:
        return []
    errors, limits = zip(*found, strict=True)
    least, most = show.number(min(errors)), show.number(max(errors))
    return [
        "× accurate: OpenCL leaves the accuracy of native functions to the device. Here their errors are"
        f" {least if least == most else f'{least} to {most}'} times what is allowed with accurate functions;"
        f" {show.number(max(limits))} times is accepted."
    ]


def where(reading: Reading | None, home: Home) -> str:
    """Return small print for a line from another device, as `sequential` is on a GPU's ladder, or by another backend.

    `hosts` names the host.
    """
    if reading is None or not reading.ok:
        return ""
    if reading.row["device"] == home.device:
        backend = home.other_backend(reading)
        return f"(by {backend})" if backend else ""
    if reading.row["device_kind"] == "cpu":
        return "(on the host)"
    return f"(on {said(reading.row, 'device_name') or reading.row['device']})"


def hosts(readings: Iterable[Reading], home: Home) -> list[str]:
    """A note that says which CPU the host is of which `where` speaks; none where it speaks of none."""
    marked = [reading for reading in readings if where(reading, home) == "(on the host)"]
    names = dict.fromkeys(str(said(each.row, "device_name") or each.row["device"]) for each in marked)
    return [f"The host: {'; '.join(names)}."] * bool(names)


def throttle_notes(readings: Iterable[Reading]) -> list[str]:
    """What is said of samples of a device that slowed itself down or reached its power cap; nothing where there are none."""
    shown = [each for each in readings if each.ok]
    slowed = [each for each in shown if each.left_out + each.slowed]
    capped = [each for each in shown if each not in slowed and _held_by([each])]
    notes = []
    if slowed:
        told = f" ({', '.join(_held_by(slowed))})" if _held_by(slowed) else ""
        notes.append(
            f"Throttled: the device had slowed itself down, for its heat or for lack of power{told}. Such samples are left out"
            f" where at least {LEAST} others remain."
        )
    if capped:
        names = _those([each.variant for each in capped], len(shown))
        notes.append(f"Clocks were held down at times by: {', '.join(_held_by(capped))}. Such samples count: {names}.")
    return notes


def _held_by(readings: Iterable[Reading]) -> list[str]:
    """What held their clocks down at times, each reason once."""
    every = (why for each in readings for run in each.runs for why in _listed(run.row.get("throttle")))
    return list(dict.fromkeys(every))


def _faults(reading: Reading) -> list[str]:
    """Why runs of it cannot be traced, each reason once."""
    return [fault for fault in dict.fromkeys(untraced(each.row) for each in reading.runs) if fault]


MOST_NAMES = 6
"""That a note lists; of more it says how many."""


def commit_notes(readings: Iterable[Reading]) -> list[str]:
    """Which lines are of code that no commit names; nothing where all are traced."""
    shown = [each for each in readings if each.ok]
    faults = {each.variant: _faults(each) for each in shown}
    by_fault = {
        fault: [name for name, its in faults.items() if fault in its]
        for fault in dict.fromkeys(fault for its in faults.values() for fault in its)
    }

    said = "; ".join(f"{fault}: {_those(names, len(shown))}" for fault, names in by_fault.items())
    return [f"Not traced to their code: {said}."] * bool(said)


def compiler_notes(readings: Iterable[Reading]) -> list[str]:
    """Return a note that names the lines whose kernels call PoCL's built-in functions instead of inlining them."""
    shown = [each for each in readings if each.ok]
    calling = [
        each.variant
        for each in shown
        if each.row.get("backend") == OPENCL.name and CALLS in (said(each.row, "provenance") or "")
    ]
    names = _those(calling, len(shown))
    return [f"PoCL inlined no built-in function for this CPU, so kernels are slower than it allows: {names}."] * bool(
        calling
    )


def _those(names: list[str], of: int) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} of {of} lines"


def no_time(head: list[Cell], reading: Reading | None, span: int, lack: str = "not measured") -> Row:
    """A line that says why there is no time, in place of all its figures."""
    if reading is not None:
        return Row([*head, Cell(f"failed: {reading.why}", "reason", span=span)], "failed")
    return Row([*head, Cell(lack, "reason", span=span)], "absent")


def absence(name: str, skip_reasons: Mapping[str, str]) -> str:
    """Why a variant has no row."""
    return skip_reasons.get(name, "not measured")
