"""Readings: the rows of the store as tables use them, with their medians and intervals, and the ratio of two of them."""

import math
import re
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ..devices.backends import BACKENDS, label
from ..devices.occupancy import recounted
from ..errors import UsageError, one_of
from ..escaping import printable, read_json
from ..measure import stats
from ..store.schema import CONTROL, MEASUREMENT, PROFILE, age
from .machines import is_one_host, machine
from .throttled import left_out, slowed, without_slowed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

TOO_FEW = "too few"


@dataclass(frozen=True)
class Reading:
    """The newest measurement of one variant on one case. Only a verified one (`ok`) has a time; the others have a `reason`.

    The median and its interval are over all runs of the same measurement: those with equal code, environment and policy.
    """

    variant: str
    row: Mapping[str, Any]
    reason: str = ""
    times: tuple[float, ...] = ()
    """Seconds per unit of each sample of the newest run."""
    median: float = math.nan
    low: float = math.nan
    high: float = math.nan
    exact: bool = True
    parent: str | None = None
    earlier: "tuple[Reading, ...]" = ()
    """Verified readings of the same measurement in other runs, one a run, the newest first."""
    left_out: int = 0
    """Number of samples dropped because the device throttled; neither `times` nor `row` has them."""
    slowed: int = 0
    """Number of throttled samples that count all the same, as too few others would remain."""
    history: "tuple[Mapping[str, Any], ...]" = field(default=(), repr=False, compare=False)
    """All rows of this variant on this case, the newest first, those of earlier measurements included."""
    is_outdated: bool = False
    """Whether a newer measurement exists that shares no run with the reading compared with."""

    @property
    def id(self) -> str:
        """Identifier among all readings of a lab on a device at a scale: variant, case, and whether it is a control.

        It is used in addresses, so it has no space and no #.
        """
        name, case = str(self.row["variant"]), str(self.row.get("case") or "")
        return re.sub(r"[\s#]", "_", printable("~".join([name, case, *[CONTROL] * (self.role == CONTROL)])))

    @property
    def runs(self) -> "tuple[Reading, ...]":
        """This reading once for each of its runs, the newest first."""
        return (self, *self.earlier)

    @property
    def run_by_run(self) -> "tuple[Reading, ...]":
        """`runs`, each with the median and the interval of that run alone."""
        alone = self
        if self.ok:
            alone = replace(self, earlier=(), history=(), **_fields_of(stats.median_ci(self.times)))
        return (alone, *self.earlier)

    @cached_property
    def side(self) -> stats.RatioSide:
        """This reading as a side of a ratio across runs."""
        return stats.side([run.times for run in self.runs])

    @property
    def samples(self) -> int:
        """Number of samples over all runs."""
        return sum(len(reading.times) for reading in self.runs)

    def of_times(self, times: "Callable[[Reading], Sequence[float]]") -> "Reading":
        """Return this reading with other times in each run, such as sums of some parts: seconds per unit, 0 or more."""
        samples = [tuple(times(run)) for run in self.runs]
        return over_runs(
            [
                replace(run, times=taken, earlier=(), history=(), **_fields_of(stats.median_ci(taken)))
                for run, taken in zip(self.runs, samples, strict=True)
            ]
        )

    def parts_together(self, names: Sequence[str]) -> "Reading":
        """Return this reading with the sum of the named parts as its time. Errors: KeyError for a part that it lacks."""
        if tuple(names) not in self._sums:
            self._sums[tuple(names)] = self.of_times(
                lambda run: [sum(sample) for sample in zip(*(run.parts[name] for name in names), strict=True)]
            )
        return self._sums[tuple(names)]

    @cached_property
    def _sums(self) -> "dict[tuple[str, ...], Reading]":
        """Cached results of `parts_together`, by names of parts."""
        return {}

    @cached_property
    def _ratios(self) -> "dict[int, tuple[Reading, Speedup]]":
        """Cached results of `faster`, by the reference's `id`, each with the reference, which keeps the `id` its own."""
        return {}

    @property
    def ok(self) -> bool:
        return not self.reason

    @property
    def role(self) -> str:
        return text_field(self.row, "role") or "step"

    @property
    def units(self) -> int:
        return int(self.row["units"])

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """Facts that a verified run recorded besides its time, such as its registers; none for other readings.

        How many groups fit is counted again for rows that are older than today's rule: see `occupancy.recounted`.
        """
        facts: dict[str, Any] = read_json(text_field(self.row, "extra") or "{}") if self.ok else {}
        architecture = re.search(r", sm_(\d+)", text_field(self.row, "provenance") or "")  # of the device's identity
        return recounted(facts, int(architecture[1])) if architecture else facts

    @cached_property
    def parts(self) -> Mapping[str, tuple[float, ...]]:
        """Seconds per unit of each part of a verified run, one for each sample, by the part's name.

        Errors: UsageError for a part without samples, or with one that is no finite number of at least 0.
        """
        times_by_part = {}
        for name, raw in self.facts.get("parts", {}).items():
            if not raw or not all(math.isfinite(seconds) and seconds >= 0 for seconds in raw):
                site = f"{self.variant} on {self.row['case']}"
                raise UsageError(f"{site}: part {name!r} holds {raw[:3]}; finite seconds of at least 0 are needed")
            times_by_part[name] = tuple(seconds / self.units for seconds in raw)
        return times_by_part

    @property
    def few(self) -> str:
        """'n = 3, range' if so few samples in so few runs give no interval of the median, only their extremes; else ''."""
        return "" if self.exact else f"n = {self.samples}, range"


@dataclass(frozen=True)
class Speedup:
    """Ratio of times, reference / reading, so above 1 is faster. `how` is empty for pairs over several runs."""

    estimate: float
    low: float
    high: float
    how: str
    runs: int = 1
    """Number of runs in which both were measured, so that their samples are pairs; 0 for none."""
    of: str = ""
    """`Reading.id` of the measurement that is compared with the reference."""

    @property
    def word(self) -> stats.Relation:
        """Relation of the two times. For `same` or `undecided` a table shows that word, not a number."""
        return stats.relation(self.low, self.high)

    @property
    def same(self) -> bool:
        """Whether no difference may be claimed."""
        return self.word in ("same", "undecided")

    def contradicts(self, reference: "Reading", reading: "Reading") -> bool:
        """Return whether the ratio of the two median times lies well outside the interval.

        Samples of the same round can differ by more than the medians do, if the times of a run cluster around two values. Only
        one of the two may have run on a slower machine. A ratio of other runs than the times, across runs or of an earlier
        measurement, says so itself.
        """
        if not (self.runs or SHARED_MACHINES in self.how) or EARLIER in self.how:
            return False
        of_medians = reference.median / reading.median
        return not self.low / stats.LEAST <= of_medians <= self.high * stats.LEAST

    @property
    def basis(self) -> str:
        """Samples that the ratio compares, as words that follow 'The ratio'."""
        return "pairs samples of the same round" if self.runs else "is of the machines that both ran on"


def _fields_of(middle: stats.Interval) -> dict[str, Any]:
    """Return the fields of a reading that has this median."""
    return {"median": middle.estimate, "low": middle.low, "high": middle.high, "exact": middle.exact}


def text_field(row: Mapping[str, Any], key: str) -> str | None:
    """Return a row's field as text; None if it is missing, null, NaN or ''."""
    value = row.get(key)
    return None if value is None or value != value or value == "" else str(value)


def number_field(row: Mapping[str, Any], key: str) -> float:
    """Return a row's field as a number; NaN if it is missing or null."""
    number = row.get(key)
    return math.nan if number is None else float(number)


def newest(rows: "pd.DataFrame", case: str | None = None, roles: Iterable[str] | None = None) -> dict[str, Reading]:
    """Return the newest reading of every variant of `case`, by name, in the order of the rows.

    roles: only these roles. Rows of hardware counters (role PROFILE), whose times are under a profiler, are read only if
    PROFILE is the only role named. `schema.age` decides which row is newer.
    Errors: UsageError for a case without rows, a sample that is not a positive finite number, or units that are none.
    """
    if case is not None and (cases := cases_of(rows)) and case not in cases:
        raise one_of("case", case, list(cases))
    wanted_roles = set(roles) if roles is not None else None
    profiled = wanted_roles == {PROFILE}
    part = rows if case is None else rows_of_case(rows, case)
    variants = _once(part, ("readings", profiled), lambda: _by_variant(part, profiled))
    return {
        variant.name: variant.reading
        for variant in variants
        if (wanted_roles is None or variant.role in wanted_roles) and variant.is_shown
    }


def cases_of(rows: "pd.DataFrame") -> tuple[str, ...]:
    """Return the names of the cases in the order of the rows."""
    return _once(rows, ("cases",), lambda: () if rows.empty else tuple(rows["case"].unique()))


def rows_of_case(rows: "pd.DataFrame", case: str) -> "pd.DataFrame":
    """Return the rows of a case: the same frame each time, so that its readings are computed once."""
    return rows if cases_of(rows) in ((), (case,)) else _once(rows, ("case", case), lambda: rows[rows["case"] == case])


def of_each_scale(rows: "pd.DataFrame", case: str) -> list["pd.DataFrame"]:
    """Return the rows of a case split by scale, the scale of the last row first."""

    def parts() -> list["pd.DataFrame"]:
        case_rows = rows_of_case(rows, case)
        return [case_rows[case_rows["scale"] == scale] for scale in case_rows["scale"].iloc[::-1].unique()]

    return _once(rows, ("scales", case), parts)


@dataclass
class _VariantRows:
    """All rows of a variant, the newest first, and its reading, computed on first use."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    control_of: "_VariantRows | None"
    """The variant that an A/A control is compared with, whose name it keeps."""

    @property
    def role(self) -> str:
        return text_field(self.rows[0], "role") or "step"

    @cached_property
    def reading(self) -> Reading:
        reading = read_runs(self.rows)
        return replace(reading, variant=self.name, parent=self.control_of.name) if self.control_of else reading

    @property
    def is_shown(self) -> bool:
        """Whether tables show it. A control that shares no run with its variant cannot show the noise of a run."""
        if not (self.control_of and self.reading.ok and self.control_of.reading.ok):
            return True
        runs = ({run.row["run"] for run in variant.reading.runs} for variant in (self, self.control_of))
        return bool(set.intersection(*runs))


Derived = TypeVar("Derived")
_DERIVED: dict[int, dict[tuple[Any, ...], Any]] = {}


def _once(rows: "pd.DataFrame", key: tuple[Any, ...], read: Callable[[], Derived]) -> Derived:
    """Return `read()`, called once for each data frame and key while the frame lives. Nobody changes a frame that was read.

    A page asks the same of one frame a hundred times.
    """
    if id(rows) not in _DERIVED:
        _DERIVED[id(rows)] = {}
        weakref.finalize(rows, _DERIVED.pop, id(rows), None)
    derived = _DERIVED[id(rows)]
    if key not in derived:
        derived[key] = read()
    answer: Derived = derived[key]
    return answer


def _by_variant(rows: "pd.DataFrame", profiled: bool) -> list[_VariantRows]:
    rows_by_variant: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for row in records(rows):
        if (row["role"] == PROFILE) == profiled:
            rows_by_variant.setdefault((str(row["variant"]), row["role"] == "again"), []).append(row)
    ordered = {
        key: sorted(reversed(variant_rows), key=lambda row: age(row["started"]), reverse=True)
        for key, variant_rows in rows_by_variant.items()
    }
    variants = {
        (name, again): _VariantRows(name, newest_first, None) for (name, again), newest_first in ordered.items()
    }
    for (name, again), variant in variants.items():
        if again and (original := variants.get((name, False))):
            variant.name, variant.control_of = f"{name} (A/A control)", original
    return list(variants.values())


def records(rows: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return each row as a dict by column name. `to_dict("records")` takes four times as long over columns of text."""
    columns = (rows[name] for name in rows.columns)
    fields = [column.tolist() if column.dtype.kind in "if" else column.to_numpy(object) for column in columns]
    names = [str(name) for name in rows.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)]


def read_runs(rows: Sequence[Mapping[str, Any]]) -> Reading:
    """Return the reading of the first row, the newest, over all runs of the same measurement among the rows."""
    newest_row = measurement_of(rows[0])
    return read_measurement([row for row in rows if measurement_of(row) == newest_row], rows)


def measurement_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return the fields that all runs of one measurement share."""
    facts = input_facts(row)
    return *[row.get(name) for name in MEASUREMENT], text_field(row, "timed"), *(facts.items() if facts else ())


def read_measurement(rows: Sequence[Mapping[str, Any]], history: Sequence[Mapping[str, Any]]) -> Reading:
    """Return the reading of a measurement's rows, the newest first: of the first row, over its verified runs.

    history: all rows of the variant on the case, the newest first.
    """
    first = replace(read(rows[0]), history=tuple(history))
    if not first.ok:
        return first
    runs = {rows[0]["run"]: first}
    for row in rows[1:]:
        if row["run"] not in runs and (reading := read(row)).ok:
            runs[row["run"]] = reading
    return over_runs(list(runs.values()))


INPUT_FACTS = {
    "source": "other images",
    **dict.fromkeys(
        ("torch", "cudnn graphs", "jax", "lbmpy", "openvino", "pystencils"), "another version of a library"
    ),
}
"""Facts of a run about its input and the library that it calls, each with the words for a difference.

Only runs with equal values are one measurement.
"""


def input_facts(row: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the facts among INPUT_FACTS that a row recorded, as text."""
    return _input_facts(text_field(row, "extra") or "{}")


@lru_cache(maxsize=1 << 15)
def _input_facts(extra: str) -> Mapping[str, str]:
    if not any(f'"{name}"' in extra for name in INPUT_FACTS):  # most rows have none of them, and much else
        return {}
    return {name: str(value) for name, value in read_json(extra).items() if name in INPUT_FACTS}


def over_runs(runs: Sequence[Reading]) -> Reading:
    """Return the first reading, with the median and the interval over all of them."""
    if len(runs) == 1:
        return runs[0]
    intervals = [stats.Interval(run.median, run.low, run.high, len(run.times), run.exact) for run in runs]
    return replace(runs[0], earlier=tuple(runs[1:]), **_fields_of(stats.median_over_runs(intervals)))


def read(row: Mapping[str, Any]) -> Reading:
    """Return one row as a reading. A row that failed or was not verified has its reason and no time.

    Samples that `throttled.left_out` names are dropped.
    """
    name = str(row["variant"])
    reason = unfit(row)
    if reason:
        return Reading(name, row, reason, parent=text_field(row, "parent"))
    dropped = slow = 0
    if positions := slowed(row):
        dropped, slow = len(left_out(row)), len(positions)
        row = without_slowed(row)
    raw = row.get("samples_s")
    samples = [float(seconds) for seconds in raw] if raw is not None else []
    if not samples or not all(map(math.isfinite, samples)) or min(samples) <= 0:
        raise UsageError(f"{name} on {row['case']}: samples_s holds {samples[:3]}…; positive finite seconds are needed")
    units = number_field(row, "units")
    if not (units > 0 and units.is_integer()):
        raise UsageError(f"{name} on {row['case']}: units is {units:g}; a whole number above 0 is needed")
    times = tuple([seconds / units for seconds in samples])
    fields = _fields_of(stats.interval_of(sorted(times)))
    parent = text_field(row, "parent")
    return Reading(name, row, "", times, parent=parent, left_out=dropped, slowed=slow - dropped, **fields)


def unfit(row: Mapping[str, Any]) -> str:
    """Return why a row may not give a number; '' if it may. A probe computes nothing, so it has no error to check."""
    if text_field(row, "status") != "ok":
        return text_field(row, "reason") or "failed, no reason recorded"
    error, limit = number_field(row, "error"), number_field(row, "bound")
    if error <= limit or (text_field(row, "role") == "probe" and math.isnan(limit)):
        return ""
    return f"not verified: error {error:.3g}, allowed {limit:.3g}"


FEW_RUNS = ("one run", "two runs", "these runs")
"""Words for a ratio that rests on one run or two, or on too few on either side.

Other runs may differ by more than its interval.
"""


def faster(reference: Reading | None, reading: Reading) -> Speedup | None:
    """Return reference / reading with its interval; None if either is missing or not verified.

    Samples of the same round are paired over the runs of `side_by_side`; without such pairs the ratio is across runs, on the
    machines of `on_shared_machines`.
    """
    if reference is None or not (reference.ok and reading.ok):
        return None
    ratios = reading._ratios
    if id(reference) not in ratios:
        ratios[id(reference)] = reference, _ratio(*side_by_side(reference, reading))
    return ratios[id(reference)][1]


def _ratio(reference: Reading, reading: Reading) -> Speedup:
    """Return reference / reading with its interval; both are verified, over the runs in which they are compared."""
    at_home = reference.row["device"] == reading.row["device"]
    pairs = list(_side_by_side(reference, reading)) if at_home else []
    # A run with fewer shared samples says nothing next to other runs.
    pairs = [samples for samples in pairs if len(samples[0]) > 2] or pairs
    if pairs:
        ratio = stats.over_runs([stats.paired_ratio(*samples) for samples in pairs])
        notes = [TOO_FEW] * (ratio.how == TOO_FEW)
        if not notes and len(pairs) < stats.ENOUGH_RUNS:
            notes = [f"in {FEW_RUNS[len(pairs) - 1]}"]
    else:
        shared = on_shared_machines(reference, reading) if at_home else None
        if shared:
            first, second = (stats.side([run.times for run in runs]) for runs in shared)
        else:
            first, second = reference.side, reading.side
        ratio, notes = across_runs(first, second, min(map(len, shared or (reference.runs, reading.runs))), at_home)
        notes += [SHARED_MACHINES] * bool(shared)
    notes += [EARLIER] * (reference.is_outdated or reading.is_outdated)
    notes += measured_otherwise(reference.row, reading.row)
    return Speedup(ratio.estimate, ratio.low, ratio.high, ", ".join(notes), len(pairs), reading.id)


def across_runs(
    reference: stats.RatioSide, side: stats.RatioSide, runs: int, at_home: bool = True
) -> tuple[stats.RatioEstimate, list[str]]:
    """Return reference / side of measurements that share no run, and notes on how the ratio was taken.

    runs: the fewer of both sides' runs. at_home: whether both are of one device.
    """
    ratio = stats.unpaired_ratio(reference, side)
    is_too_few = ratio.how == TOO_FEW
    few = runs < stats.ENOUGH_RUNS and not is_too_few
    others = f"across {FEW_RUNS[-1] if few else 'runs'}" if at_home else "across devices" + f" in {FEW_RUNS[-1]}" * few
    return ratio, [*[TOO_FEW] * is_too_few, others]


SHARED_MACHINES = "on the machines of both"
"""Words for a ratio across runs that leaves out runs on machines that only one of the two measurements has."""


def on_shared_machines(reference: Reading, reading: Reading) -> list[list[Reading]] | None:
    """Return the runs of each reading on machines that both ran on; None if all runs count.

    A launch takes longer on some hosts, so a mix of hosts on one side alone would count as a difference of the kernels. All
    runs count if none is on another machine, or if fewer than ENOUGH_RUNS of either side would remain: those have no interval
    over runs.
    """
    sides = reference.runs, reading.runs
    hosts = [[machine(text_field(run.row, "provenance")) for run in runs] for runs in sides]
    shared = [
        [
            run
            for run, host in zip(runs, own_hosts, strict=True)
            if any(is_one_host(host, other) for other in other_hosts)
        ]
        for runs, own_hosts, other_hosts in zip(sides, hosts, hosts[::-1], strict=True)
    ]
    lengths = [*map(len, shared)]
    return shared if min(lengths) >= stats.ENOUGH_RUNS and lengths != [*map(len, sides)] else None


EARLIER = "of an earlier measurement"
"""Words for a ratio whose runs are older than the times shown next to it."""


NEAR = 1.5
"""Largest ratio of two medians whose order may be due to a difference of machines."""


def fastest(readings: Iterable[Reading]) -> Reading | None:
    """Return the fastest verified reading; None for none.

    Runs come from several machines, on which even a launch takes different times. So the rounds that two readings share
    decide which is faster, or else their runs on the machines of both. Without either the shorter median does.
    """
    timed = sorted((reading for reading in readings if reading.ok), key=lambda reading: reading.median)
    best = next(iter(timed), None)
    for reading in timed[1:]:
        assert best
        if reading.median > NEAR * timed[0].median:
            break
        ratio = faster(best, reading)
        is_fair = ratio is not None and (ratio.runs > 0 or SHARED_MACHINES in ratio.how)
        if ratio and is_fair and ratio.low > 1 and EARLIER not in ratio.how:
            best = reading
    return best


def fastest_first(readings: Iterable[Reading]) -> list[Reading]:
    """Return the verified readings in the order in which `fastest` chooses among those that are left."""
    remaining, ordered = [reading for reading in readings if reading.ok], list[Reading]()
    while best := fastest(remaining):
        ordered.append(best)
        remaining = [reading for reading in remaining if reading is not best]
    return ordered


def side_by_side(left: Reading, right: Reading) -> tuple[Reading, Reading]:
    """Return both readings over the runs in which they are compared: the one rule of ladders, sentences and claims.

    These are the runs of the newest measurement of each. If those share no run, but earlier runs have verified rows of both,
    the newest measurement in the shared runs takes their place: side by side matters more than newest.
    """
    shared = {run.row["run"] for run in left.runs} & {run.row["run"] for run in right.runs}
    earlier = {row["run"] for row in left.history}.intersection(row["run"] for row in right.history)
    if shared or not earlier or left.row["device"] != right.row["device"]:
        return left, right
    verified = [[row for row in reading.history if not unfit(row)] for reading in (left, right)]
    shared = set.intersection(*({row["run"] for row in rows} for rows in verified))
    if not shared:
        return left, right
    sides = zip((left, right), verified, strict=True)
    first, second = (_in_runs(reading, rows, shared) for reading, rows in sides)
    return first, second


def _in_runs(reading: Reading, rows: Iterable[Mapping[str, Any]], runs: set[Any]) -> Reading:
    """Return the newest measurement of a reading in these runs, under the reading's own name."""
    newest_reading = read_runs([row for row in rows if row["run"] in runs])
    outdated = newest_reading.row["run"] != reading.row["run"]
    return replace(newest_reading, variant=reading.variant, parent=reading.parent, is_outdated=outdated)


def measured_otherwise(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Return the differences in how two rows were measured that change the meaning of a time. The number of samples is none."""
    policies = [_policy(text_field(row, "policy") or "{}") for row in (left, right)]
    differences = [words for name, words in _OF_POLICY.items() if policies[0].get(name) != policies[1].get(name)]
    differences += ["another time"] * (text_field(left, "timed") != text_field(right, "timed"))
    facts = input_facts(left), input_facts(right)
    if facts[0] != facts[1]:
        shared = facts[0].keys() & facts[1].keys()
        differences += [
            words for name, words in INPUT_FACTS.items() if name in shared and facts[0][name] != facts[1][name]
        ]
    return list(dict.fromkeys(differences))


@lru_cache(maxsize=256)
def _policy(policy: str) -> Mapping[str, Any]:
    fields: dict[str, Any] = read_json(policy)
    return fields


_OF_POLICY = {"cache": "another state of the caches", "seed": "other random inputs"}
"""Fields of a policy that change the meaning of a time, each with the words for a difference."""


def _side_by_side(left: Reading, right: Reading) -> "Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]":
    """Yield the samples of both readings from the rounds that both have, run by run."""
    right_runs = {run.row["run"]: run for run in right.runs}
    for run in left.runs:
        if (right_run := right_runs.get(run.row["run"])) is None:
            continue
        columns: list[Any] = [side.row.get("rounds") for side in (run, right_run)]
        rounds = [list(column) for column in columns if hasattr(column, "__len__")]  # a null reads as None or NaN
        if len(rounds) == 2:
            first, second = stats.by_round(run.times, rounds[0], right_run.times, rounds[1])
            if len(first):
                yield first, second


class Home(NamedTuple):
    """The device that a table or figure is about, and the backend of its steps."""

    device: str
    backend: str

    def has(self, reading: Reading) -> bool:
        """Return whether a reading is of this device, and no peer that another backend calls."""
        return reading.row["device"] == self.device and not self.other_backend(reading)

    def other_backend(self, reading: Reading) -> str:
        """Return the backend of a reading, as a reader sees it, where devices have it and it is not this one; else ''."""
        backend = str(reading.row.get("backend") or "")
        is_other = backend != self.backend and {backend, self.backend} <= BACKENDS.keys()
        return label(backend) if is_other else ""


def home_of(readings: Iterable[Reading]) -> Home:
    """Return the device that most of the readings are from, and the backend of most steps on it; '' for none."""
    listed = list(readings)
    devices = [str(reading.row["device"]) for reading in listed]
    device = max(dict.fromkeys(devices), key=devices.count, default="")
    on_device = [reading for reading in listed if reading.row["device"] == device]
    steps = [reading for reading in on_device if reading.role != "peer"] or on_device
    backends = [str(reading.row.get("backend") or "") for reading in steps]
    return Home(device, max(dict.fromkeys(backends), key=backends.count, default=""))


def called_by(peer: Reading, step: Reading) -> str:
    """Return the backend that calls a peer, as a reader sees it, where it is another than the step's; else ''."""
    return home_of([step]).other_backend(peer)


def points_in_order(points: Iterable[str]) -> list[str]:
    """Return points of a sweep sorted by their numbers ('2' before '16', '8x4' before '16x1'), words by name after them."""

    def key(point: str) -> tuple[int, list[float], str]:
        try:
            return 0, [float(part) for part in point.replace("/", "x").split("x")], point
        except ValueError:
            return 1, [], point

    return sorted(dict.fromkeys(points), key=key)


def of_kernel(counted: Mapping[str, Any], kernel: str, number: int, counter: str) -> float | None:
    """Return a counter of the `number`-th launch shape (from 1) of a kernel, out of `counters.counters_of`; None for none."""
    shapes = [shape for shape in counted["kernels"] if shape["kernel"] == kernel]
    return shapes[number - 1][counter] if 0 < number <= len(shapes) else None
