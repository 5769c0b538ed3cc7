"""Cells of one reading in a table: its time, ratios, share of the bound, check and facts. Also the notes on such cells."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from ..analysis import format as show
from ..analysis.provenance_check import untraced
from ..analysis.readings import TOO_FEW, Home, Reading, Speedup, faster, number_field, text_field
from ..analysis.roofline import Bound
from ..analysis.sentences import joined
from ..analysis.throttled import LEAST
from ..devices.backends import OPENCL
from ..devices.pocl_cpu import CALLS
from ..measure import stats
from ..spec.rounding import TIMES_ACCURATE
from .html import Cell, Row, StandingNote

INTERVAL_WORDS = (
    f"where it comes within {100 * (stats.LEAST - 1):g} % of 1, 'same' if all of it lies within"
    f" {100 * (stats.EQUAL - 1):g} % of 1, else 'undecided'"
)
"""Words of a note that follow the name of an interval: how a table reads it."""


def interval_text(reading: Reading, unit: float) -> str:
    """Return the median and its interval. unit: in seconds."""
    return show.interval(reading.median / unit, reading.low / unit, reading.high / unit)


def time_cell(reading: Reading, unit: float) -> Cell:
    """Return the cell of the median and its interval. unit: in seconds. Small print if the samples are few."""
    small = f"({reading.few})" if reading.few else ""
    return Cell(interval_text(reading, unit), "num", small=small, card_id=reading.id)


def part_cell(reading: Reading, part: str, unit: float) -> Cell:
    """Return the cell of the median and interval of a part of the run; a dash without such a part. unit: in seconds."""
    return time_cell(reading.parts_together([part]), unit) if part in reading.parts else Cell(show.DASH, "num")


def fact_cell(reading: Reading, fact: str) -> Cell:
    """Return the cell of a fact of the run: a text or a whole number as it is, another number with four digits, else a dash."""
    fact_value: Any = reading.facts.get(fact)
    if fact_value is None:
        return Cell(show.DASH, "num")
    if isinstance(fact_value, float):
        return Cell(show.number(fact_value, 4), "num", card_id=reading.id)
    if isinstance(fact_value, int) and not isinstance(fact_value, bool):
        return Cell(show.number(fact_value, places=0), "num", card_id=reading.id)
    return Cell(str(fact_value))


def samples_cell(reading: Reading) -> Cell:
    """Return the cell of the samples: their number, units per sample, runs, and throttled samples. A note has the reasons."""
    left_out, slowed = (sum(getattr(run, name) for run in reading.runs) for name in ("left_out", "slowed"))
    small = [f"{len(reading.runs)} runs"] * (len(reading.runs) > 1)
    small += [f"{left_out} throttled left out"] * bool(left_out) + [f"{slowed} throttled"] * bool(slowed)
    text = f"{reading.samples} \u00d7 {show.number(reading.units, places=0)}"
    return Cell(text, "num", small=f"({', '.join(small)})" if small else "", card_id=reading.id)


def listed(row: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list of the row; a null, which reads as None or NaN, gives an empty one."""
    return list(row[name]) if hasattr(row.get(name), "__len__") else []


def run_notes(readings: Iterable[Reading]) -> list[str]:
    """Return the note on how many runs the times are over; none without a time."""
    return run_count_notes(len(reading.runs) for reading in readings if reading.ok)


def run_count_notes(numbers: Iterable[int]) -> list[str]:
    """Return the note on how many runs the times are over, from the number of runs of each."""
    counts = set(numbers)
    fewest, most = min(counts, default=0), max(counts, default=0)
    if most == 0:
        return []
    if most == 1:
        caveat = "The interval of a time of one run holds in this run, and another may differ by more than it says."
        return ["Each time is of one run.", StandingNote(caveat)]
    separate = "each in a process of its own"
    if fewest >= stats.ENOUGH_RUNS:
        return [
            f"Times and ratios are over {_range_text(fewest, most)} runs, {separate}, and intervals are between runs."
        ]
    between = f"Intervals are between runs, {separate}, where there are {stats.ENOUGH_RUNS} or more"
    return [
        StandingNote(
            f"{between}; else an interval holds in the runs that were taken, and another may differ by more than it says."
        )
    ]


MOST_PAIRS = 3
"""Number of ratios that a note lists before it counts the others."""


def time_ratio_notes(pairs: Iterable[tuple[Reading | None, Reading | None]]) -> list[str]:
    """Return the note on ratios that the two times of a table contradict, the largest difference first; none without any.

    pairs: reference and reading of each ratio.
    """
    differences = {}
    for reference, reading in pairs:
        ratio = faster(reference, reading) if reading else None
        if reference and reading and ratio and ratio.contradicts(reference, reading):
            of_times = reference.median / reading.median
            shown = f"'{ratio.word}'" if ratio.same else show.number(ratio.estimate)
            text = f"{reading.variant} vs {reference.variant} ({show.number(of_times)}, not {shown})"
            differences[text] = abs(math.log(of_times / ratio.estimate))
    texts = sorted(differences, key=lambda text: -differences[text])
    if not texts:
        return []
    others = [show.several(len(texts) - MOST_PAIRS, "other")] * (len(texts) > MOST_PAIRS)
    return [
        f"Dividing two times gives another ratio for {joined([*texts[:MOST_PAIRS], *others])}. A ratio compares two variants "
        "in the same rounds, or on the machines of both; a time is the median of all runs of its variant."
    ]


def _range_text(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest} to {most}"


def ratio_cell(ratio: Speedup | None, *, head_how: str = "") -> Cell:
    """Return the cell of a ratio with its interval, or 'same' or 'undecided', or a dash if not both were measured.

    head_how: how the ratio was taken, if the column's head says so already.
    """
    if ratio is None:
        return Cell(show.DASH, "num")
    if TOO_FEW in ratio.how:
        return Cell(show.number(ratio.estimate), "num same", small=f"({ratio.how})", card_id=ratio.of)
    how = ratio.how or f"over {ratio.runs} runs"
    text = ratio_text(ratio.estimate, ratio.low, ratio.high, ratio.word)
    small = f"({how})" if ratio.how != head_how else ""
    if ratio.same:
        small = f"{text[text.find('[') :]} {small}".rstrip()
        return Cell(ratio.word, "num same", small=small, card_id=ratio.of)
    return Cell(text, "num faster" if ratio.estimate > 1 else "num slower", small=small, card_id=ratio.of)


def ratio_text(estimate: float, low: float, high: float, word: str) -> str:
    """Return a ratio with its interval; if nothing may be claimed, an end beyond a factor of ten is cut."""
    text = show.factor(estimate, low, high)
    return f"{text.partition(' [')[0]} {show.undecided(estimate, low, high)}" if word == "undecided" else text


def usual_how(ratios: Iterable[Speedup | None]) -> str:
    """Return how most ratios of a column were taken, for its head to say once."""
    counts = Counter(ratio.how for ratio in ratios if ratio and TOO_FEW not in ratio.how)
    return counts.most_common(1)[0][0] if counts else ""


def ratio_head(text: str, how: str) -> Cell:
    """Return the head of a column of ratios. how: how most of them were taken."""
    return Cell(text, "num", small=f"({how})" if how else "")


def bound_of(bounds: Mapping[str, Bound] | None, reading: Reading) -> Bound | None:
    """Return the bound of a reading's variant, which its A/A control shares, or that of its dtype; None without either.

    A variant on another device, and a peer that another backend calls, have none: the peaks are not theirs.
    """
    bounds = bounds or {}
    floor = bounds.get(str(reading.row["variant"])) or bounds.get(str(text_field(reading.row, "dtype")))
    return floor if floor and (not floor.device or Home(floor.device, floor.backend).has(reading)) else None


def is_above_bound(floor: Bound | None, reading: Reading) -> bool:
    """Return whether a reading is faster than its bound by more than the least difference that a table claims."""
    return floor is not None and reading.role != "probe" and floor.seconds > stats.LEAST * reading.median


ABOVE_REASON = "a peak was measured too low, or less work is done than is counted"
"""Explanation of a variant that is faster than its bound, which nothing can be."""


SEVERAL_UNITS = (
    "A kernel that takes less time for a unit than that does several units in one launch, so it has a share."
)
"""Explanation of a share of a bound that is less than the time of a launch."""

LAUNCH_NOTE = (
    "'launch': an empty kernel takes longer than the bound, so a share of the bound would say nothing about the kernel. "
    "The empty kernel is timed alone by the device's clock. If many launches are timed together, one in a graph counts if it "
    f"is cheaper. {SEVERAL_UNITS}"
)
"""Note on cells of shares without a share, in a table of several cases."""


def launch_notes(head: str, bounds: Mapping[str, Bound] | None, readings: Iterable[Reading]) -> list[str]:
    """Return the note that an empty kernel takes longer than some of a case's bounds, and its time. head: before the colon.

    A second sentence explains the shares of readings that take less time than the empty kernel.
    """
    bounds_times = [(floor, reading.median) for reading in readings if (floor := bound_of(bounds, reading))]
    below = [(floor, seconds) for floor, seconds in bounds_times if floor.is_below_launch]
    launches = {floor.launch for floor, seconds in below if floor.launch and floor.share_of(seconds) is None}
    several = f" {SEVERAL_UNITS}" * any(floor.share_of(seconds) is not None for floor, seconds in below)
    return [
        f"{head}: {launch.words} takes {show.duration(launch.seconds)}, longer than the bound, so a share of the bound "
        f"would say nothing about the kernel.{several}"
        for launch in launches
    ]


def share_cell(floor: Bound | None, reading: Reading) -> Cell:
    """Return the cell of the bound as a share of the reading's time; 'above' if the reading is faster than its bound.

    If a launch is the floor of the time, the cell has no share.
    """
    if floor is None or reading.role == "probe":  # a note lists the bounds, and precisions without a peak
        return Cell(show.DASH, "num")
    if is_above_bound(floor, reading):
        return Cell("above", "num above-bound", card_id=reading.id)
    share = floor.share_of(reading.median)
    if share is None:
        return Cell("launch", "num", card_id=reading.id)
    return Cell(show.percent(min(1.0, share)), "num", card_id=reading.id)


def check_cell(reading: Reading) -> Cell:
    """Return the cell of the error as a part of the tolerance; at most 1 for a verified reading."""
    error, limit = number_field(reading.row, "error"), number_field(reading.row, "bound")
    if math.isnan(limit):
        return Cell("nothing to check", "unchecked")
    part = error / limit if limit else 0.0
    small = f"({show.number(error)} × accurate)" if _is_native(reading) else ""
    return Cell(f"✓ {show.number(part, 2)}", "num verified", small=small, card_id=reading.id)


def _is_native(reading: Reading) -> bool:
    return str(reading.facts.get("error_is", "")).endswith(TIMES_ACCURATE)


def native_notes(readings: Iterable[Reading]) -> list[str]:
    """Return the note on the errors of native functions that exceed the usual tolerance."""
    errors_limits = [
        (number_field(reading.row, "error"), number_field(reading.row, "bound"))
        for reading in readings
        if _is_native(reading)
    ]
    if not errors_limits:
        return []
    errors, limits = zip(*errors_limits, strict=True)
    least, most = show.number(min(errors)), show.number(max(errors))
    return [
        "× accurate: OpenCL leaves the accuracy of native functions to the device. Here their errors are"
        f" {least if least == most else f'{least} to {most}'} times what is allowed with accurate functions;"
        f" {show.number(max(limits))} times is accepted."
    ]


def device_note(reading: Reading | None, home: Home) -> str:
    """Return small print for a line from another device, as `sequential` is on a GPU's ladder, or by another backend.

    `host_notes` names the host.
    """
    if reading is None or not reading.ok:
        return ""
    if reading.row["device"] == home.device:
        backend = home.other_backend(reading)
        return f"(by {backend})" if backend else ""
    if reading.row["device_kind"] == "cpu":
        return "(on the host)"
    return f"(on {text_field(reading.row, 'device_name') or reading.row['device']})"


def host_notes(readings: Iterable[Reading], home: Home) -> list[str]:
    """Return the note that names the CPUs of lines that say "(on the host)"; none if no line does."""
    on_host = [reading for reading in readings if device_note(reading, home) == "(on the host)"]
    names = dict.fromkeys(str(text_field(reading.row, "device_name") or reading.row["device"]) for reading in on_host)
    return [f"The host: {'; '.join(names)}."] * bool(names)


def throttle_notes(readings: Iterable[Reading]) -> list[str]:
    """Return the notes on samples of a device that slowed itself down or reached its power cap; none without such samples."""
    timed = [reading for reading in readings if reading.ok]
    slowed = [reading for reading in timed if reading.left_out + reading.slowed]
    capped = [reading for reading in timed if reading not in slowed and _throttle_reasons([reading])]
    notes = []
    if slowed:
        reasons = f" ({', '.join(_throttle_reasons(slowed))})" if _throttle_reasons(slowed) else ""
        notes.append(
            f"Throttled: the device had slowed itself down, for its heat or for lack of power{reasons}. Such samples are left"
            f" out where at least {LEAST} others remain."
        )
    if capped:
        names = _names_or_count([reading.variant for reading in capped], len(timed))
        notes.append(
            f"Clocks were held down at times by: {', '.join(_throttle_reasons(capped))}. Such samples count: {names}."
        )
    return notes


def _throttle_reasons(readings: Iterable[Reading]) -> list[str]:
    """Return the reasons why clocks were held down at times, each once."""
    reasons = (reason for reading in readings for run in reading.runs for reason in listed(run.row, "throttle"))
    return list(dict.fromkeys(reasons))


def _faults(reading: Reading) -> list[str]:
    """Return the reasons why runs of a reading cannot be traced, each once."""
    return [fault for fault in dict.fromkeys(untraced(run.row) for run in reading.runs) if fault]


MOST_NAMES = 6
"""Number of names that a note lists before it switches to a count."""


def commit_notes(readings: Iterable[Reading]) -> list[str]:
    """Return the note on lines whose code no commit names; none if all are traced."""
    timed = [reading for reading in readings if reading.ok]
    faults = {reading.variant: _faults(reading) for reading in timed}
    by_fault = {
        fault: [name for name, its_faults in faults.items() if fault in its_faults]
        for fault in dict.fromkeys(fault for its_faults in faults.values() for fault in its_faults)
    }

    text = "; ".join(f"{fault}: {_names_or_count(names, len(timed))}" for fault, names in by_fault.items())
    return [f"Not traced to their code: {text}."] * bool(text)


def compiler_notes(readings: Iterable[Reading]) -> list[str]:
    """Return a note that names the lines whose kernels call PoCL's built-in functions instead of inlining them."""
    timed = [reading for reading in readings if reading.ok]
    calling = [
        reading.variant
        for reading in timed
        if reading.row.get("backend") == OPENCL.name and CALLS in (text_field(reading.row, "provenance") or "")
    ]
    names = _names_or_count(calling, len(timed))
    return [f"PoCL inlined no built-in function for this CPU, so kernels are slower than it allows: {names}."] * bool(
        calling
    )


def _names_or_count(names: list[str], total: int) -> str:
    return ", ".join(names) if len(names) <= MOST_NAMES else f"{len(names)} of {total} lines"


def row_without_time(head: list[Cell], reading: Reading | None, span: int, lack: str = "not measured") -> Row:
    """Return a row that says why there is no time, in place of all its figures."""
    if reading is not None:
        return Row([*head, Cell(f"failed: {reading.reason}", "reason", span=span)], "failed")
    return Row([*head, Cell(lack, "reason", span=span)], "absent")


def absence_reason(name: str, skip_reasons: Mapping[str, str]) -> str:
    """Return why a variant has no row."""
    return skip_reasons.get(name, "not measured")
