"""From rows of the store to what a table may say: which row counts, whether it is verified, how two compare."""

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
from .throttled import left_out, slowed, without_slowed

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

TOO_FEW = "too few"


@dataclass(frozen=True)
class Reading:
    """The newest row of one variant on one case. Only a verified one (`ok`) has a time; the others say `why` not.

    The median and its interval are over all runs of the same measurement: of equal code, environment and policy.
    """

    variant: str
    row: Mapping[str, Any]
    reason: str = ""
    times: tuple[float, ...] = ()
    """Of the newest run."""
    median: float = math.nan
    low: float = math.nan
    high: float = math.nan
    exact: bool = True
    parent: str | None = None
    earlier: "tuple[Reading, ...]" = ()
    """The same measurement in other runs, each by itself, the newest first; verified ones alone."""
    left_out: int = 0
    """Samples of a device that slowed itself down, which do not count: neither here nor in `row`."""
    slowed: int = 0
    """Such samples that count all the same, as too few others would remain."""
    history: "tuple[Mapping[str, Any], ...]" = field(default=(), repr=False, compare=False)
    """All rows of this variant on this case, the newest first, those of earlier measurements included."""
    is_outdated: bool = False
    """Whether a newer measurement exists, which shares no run with what this one is compared with."""

    @property
    def id(self) -> str:
        """What it is known by among all of a lab on a device at a scale: its variant, its case, and whether it is a control.

        It stands in addresses, so it has no space and no #.
        """
        name, case = str(self.row["variant"]), str(self.row.get("case") or "")
        return re.sub(r"[\s#]", "_", printable("~".join([name, case, *[CONTROL] * (self.role == CONTROL)])))

    @property
    def runs(self) -> "tuple[Reading, ...]":
        """It in each of its runs, the newest first."""
        return (self, *self.earlier)

    @property
    def run_by_run(self) -> "tuple[Reading, ...]":
        """The same, each with the median and the interval of that run alone."""
        return (replace(self, earlier=())._at(stats.median_ci(self.times)) if self.ok else self, *self.earlier)

    @property
    def samples(self) -> int:
        """How many there are, over all runs."""
        return sum(len(each.times) for each in self.runs)

    def of_times(self, times: "Callable[[Reading], Sequence[float]]") -> "Reading":
        """The same with other times in each run, such as the sum of some parts. Seconds per unit, of at least 0."""
        runs = [replace(each, times=tuple(times(each)), earlier=(), history=()) for each in self.runs]
        return _over_runs([each._at(stats.median_ci(each.times)) for each in runs])

    def _at(self, middle: stats.Interval) -> "Reading":
        return replace(self, median=middle.estimate, low=middle.low, high=middle.high, exact=middle.exact)

    def parts_together(self, names: Sequence[str]) -> "Reading":
        """The same by the sum of these of its parts. Errors: KeyError for one that it lacks."""
        return self.of_times(lambda run: [sum(each) for each in zip(*(run.parts[name] for name in names), strict=True)])

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
        """What a verified run told besides its time, such as its registers; nothing for the others.

        How many groups fit is counted again for rows that are older than today's rule: `occupancy.recounted`.
        """
        told: dict[str, Any] = read_json(text_field(self.row, "extra") or "{}") if self.ok else {}
        architecture = re.search(r", sm_(\d+)", text_field(self.row, "provenance") or "")  # of the device's identity
        return recounted(told, int(architecture[1])) if architecture else told

    @cached_property
    def parts(self) -> Mapping[str, tuple[float, ...]]:
        """Seconds per unit that each part of a verified run took, one a sample, by the part's name.

        Errors: UsageError for a part without samples, or with one that is no finite number of at least 0.
        """
        found = {}
        for name, raw in self.facts.get("parts", {}).items():
            if not raw or not all(math.isfinite(each) and each >= 0 for each in raw):
                where = f"{self.variant} on {self.row['case']}"
                raise UsageError(f"{where}: part {name!r} holds {raw[:3]}; finite seconds of at least 0 are needed")
            found[name] = tuple(each / self.units for each in raw)
        return found

    @property
    def few(self) -> str:
        """'n = 3, range' where so few samples, in so few runs, give no interval of the median, only their extremes."""
        return "" if self.exact else f"n = {self.samples}, range"


@dataclass(frozen=True)
class Speedup:
    """How many times faster than the reference: reference / own, so above 1 is faster. `how` is empty for pairs over runs."""

    estimate: float
    low: float
    high: float
    how: str
    runs: int = 1
    """Those that both have in common, so that their samples are pairs; 0 for none."""
    of: str = ""
    """The measurement that is compared with the reference, as `Reading.id` has it."""

    @property
    def word(self) -> stats.Relation:
        """What it comes to. Where that is `same` or `undecided`, a table says so in place of a number."""
        return stats.relation(self.low, self.high)

    @property
    def same(self) -> bool:
        """No difference may be claimed."""
        return self.word in ("same", "undecided")


def text_field(row: Mapping[str, Any], key: str) -> str | None:
    """Text of a field that may be missing, null or NaN."""
    value = row.get(key)
    return None if value is None or value != value or value == "" else str(value)


def number_field(row: Mapping[str, Any], key: str) -> float:
    """Number of a field that may be missing or null: NaN then."""
    found = row.get(key)
    return math.nan if found is None else float(found)


def newest(rows: "pd.DataFrame", case: str | None = None, roles: Iterable[str] | None = None) -> dict[str, Reading]:
    """The newest reading of every variant of `case`, by name, in the order of the rows; `roles` keeps only these roles.

    What is newer than what, `schema.age` says.
    What counters counted (role PROFILE) is read where `roles` is that role alone: its times are under a profiler.
    Errors: UsageError for a case without rows, a sample that is not a positive finite number, or units that are none.
    """
    if case is not None and (known := cases_of(rows)) and case not in known:
        raise one_of("case", case, list(known))
    wanted = set(roles) if roles is not None else None
    profiled = wanted == {PROFILE}
    found = _once(rows, ("readings", case, profiled), lambda: _found(_part(rows, case=case), profiled))
    return {each.name: each.reading for each in found if (wanted is None or each.role in wanted) and each.is_shown}


def cases_of(rows: "pd.DataFrame") -> tuple[str, ...]:
    """The cases that there are rows of, in the order of the rows."""
    return _once(rows, ("cases",), lambda: () if rows.empty else tuple(rows["case"].unique()))


def of_each_scale(rows: "pd.DataFrame", case: str) -> list["pd.DataFrame"]:
    """The rows of a case, those of each scale by themselves, the scale of the last row first."""

    def parts() -> list["pd.DataFrame"]:
        here = _part(rows, case=case)
        return [_part(here, scale=scale) for scale in here["scale"].iloc[::-1].unique()]

    return _once(rows, ("scales", case), parts)


def _part(rows: "pd.DataFrame", **wanted: str | None) -> "pd.DataFrame":
    """The rows whose fields have these values; None for any."""
    for column, value in wanted.items():
        if value is not None and not rows.empty:
            rows = rows[rows[column] == value]
    return rows


@dataclass
class _Found:
    """All rows of a variant, the newest first, and its reading, made when it is asked for."""

    name: str
    rows: Sequence[Mapping[str, Any]]
    control_of: "_Found | None"
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
        """Whether it says anything: a control that shares no run with its variant says nothing of a run's noise."""
        if not (self.control_of and self.reading.ok and self.control_of.reading.ok):
            return True
        runs = ({each.row["run"] for each in one.reading.runs} for one in (self, self.control_of))
        return bool(set.intersection(*runs))


Known = TypeVar("Known")
_KNOWN: dict[int, dict[tuple[Any, ...], Any]] = {}


def _once(rows: "pd.DataFrame", what: tuple[Any, ...], read: Callable[[], Known]) -> Known:
    """What `read` finds in a data frame, once while that lives: a page asks a hundred times of one that nobody changes."""
    if id(rows) not in _KNOWN:
        _KNOWN[id(rows)] = {}
        weakref.finalize(rows, _KNOWN.pop, id(rows), None)
    known = _KNOWN[id(rows)]
    if what not in known:
        known[what] = read()
    found: Known = known[what]
    return found


def _found(rows: "pd.DataFrame", profiled: bool) -> list[_Found]:
    those: dict[tuple[str, bool], list[Mapping[str, Any]]] = {}
    for row in records(rows):
        if (row["role"] == PROFILE) == profiled:
            those.setdefault((str(row["variant"]), row["role"] == "again"), []).append(row)
    ordered = {
        key: sorted(reversed(mine), key=lambda row: age(row["started"]), reverse=True) for key, mine in those.items()
    }
    found = {(name, again): _Found(name, mine, None) for (name, again), mine in ordered.items()}
    for (name, again), each in found.items():
        if again and (own := found.get((name, False))):
            each.name, each.control_of = f"{name} (A/A control)", own
    return list(found.values())


def records(rows: "pd.DataFrame") -> list[dict[str, Any]]:
    """Each row by its fields' names. As `to_dict("records")`, which takes four times as long over columns of text."""
    columns = (rows[name] for name in rows.columns)
    fields = [each.tolist() if each.dtype.kind in "if" else each.to_numpy(object) for each in columns]
    names = [str(name) for name in rows.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*fields, strict=True)]


def read_runs(rows: Sequence[Mapping[str, Any]]) -> Reading:
    """The newest of these rows, which come first, with the runs of the same measurement before it."""
    first = replace(read(rows[0]), history=tuple(rows))
    if not first.ok:
        return first
    runs = {rows[0]["run"]: first}
    for row in rows[1:]:
        if (
            row["run"] not in runs
            and all(row.get(name) == rows[0].get(name) for name in (*MEASUREMENT, "timed"))
            and input_facts(row) == input_facts(rows[0])
            and not unfit(row)
        ):
            runs[row["run"]] = read(row)
    return _over_runs(list(runs.values()))


INPUT_FACTS = {
    "source": "other images",
    **dict.fromkeys(("torch", "cudnn graphs", "jax", "lbmpy", "pystencils"), "another version of a library"),
}
"""What a run tells of its input and of the library that it calls, and what to say where that differs: only runs with the
same are one measurement."""


def input_facts(row: Mapping[str, Any]) -> Mapping[str, str]:
    """Of a row, what it tells of INPUT_FACTS."""
    return _input_facts(text_field(row, "extra") or "{}")


@lru_cache(maxsize=1 << 15)
def _input_facts(told: str) -> Mapping[str, str]:
    if not any(f'"{name}"' in told for name in INPUT_FACTS):  # most tell nothing, and much else
        return {}
    return {name: str(value) for name, value in read_json(told).items() if name in INPUT_FACTS}


def _over_runs(runs: Sequence[Reading]) -> Reading:
    """The first of them, over all of them."""
    if len(runs) == 1:
        return runs[0]
    each = [stats.Interval(one.median, one.low, one.high, len(one.times), one.exact) for one in runs]
    return replace(runs[0], earlier=tuple(runs[1:]))._at(stats.median_over_runs(each))


def read(row: Mapping[str, Any]) -> Reading:
    """One row as a reading. A row that failed or was not verified keeps its reason and gives no time.

    Samples of a device that slowed itself down are left out, as `throttled.left_out` has it.
    """
    name = str(row["variant"])
    why = unfit(row)
    if why:
        return Reading(name, row, why, parent=text_field(row, "parent"))
    gone, slow = len(left_out(row)), len(slowed(row))
    row = without_slowed(row)
    raw = row.get("samples_s")
    samples = [float(each) for each in raw] if raw is not None else []
    if not samples or not all(math.isfinite(each) and each > 0 for each in samples):
        raise UsageError(f"{name} on {row['case']}: samples_s holds {samples[:3]}…; positive finite seconds are needed")
    units = number_field(row, "units")
    if not (units > 0 and units.is_integer()):
        raise UsageError(f"{name} on {row['case']}: units is {units:g}; a whole number above 0 is needed")
    times = tuple(each / units for each in samples)
    found = Reading(name, row, "", times, parent=text_field(row, "parent"), left_out=gone, slowed=slow - gone)
    return found._at(stats.median_ci(times))


def unfit(row: Mapping[str, Any]) -> str:
    """Why this row may not give a number; '' when it may. A probe that computes nothing has nothing to check."""
    if text_field(row, "status") != "ok":
        return text_field(row, "reason") or "failed, no reason recorded"
    error, limit = number_field(row, "error"), number_field(row, "bound")
    if error <= limit or (text_field(row, "role") == "probe" and math.isnan(limit)):
        return ""
    return f"not verified: error {error:.3g}, allowed {limit:.3g}"


def fastest(readings: Iterable[Reading]) -> Reading | None:
    """The verified reading with the shortest median; None where there is none."""
    return min((each for each in readings if each.ok), key=lambda each: each.median, default=None)


FEW_RUNS = ("one run", "two runs", "these runs")
"""What a ratio says of itself that rests on one run or two, or on too few of either side: others may differ by more than its
interval says."""


def faster(reference: Reading | None, own: Reading) -> Speedup | None:
    """Return reference / own with its interval: by pairs of the same round over the runs of `side_by_side`, else across runs.

    None without both.
    """
    if reference is None or not (reference.ok and own.ok):
        return None
    reference, own = side_by_side(reference, own)
    at_home = reference.row["device"] == own.row["device"]
    pairs = list(_side_by_side(reference, own)) if at_home else []
    pairs = [each for each in pairs if len(each[0]) > 2] or pairs  # a run that shares less says nothing beside others
    if pairs:
        found = stats.over_runs([stats.paired_ratio(*each) for each in pairs])
    else:
        found = stats.unpaired_ratio(*([each.times for each in side.runs] for side in (reference, own)))
    notes: list[str] = [TOO_FEW] if found.how == TOO_FEW else []
    few = (len(pairs) or min(len(reference.runs), len(own.runs))) < stats.ENOUGH_RUNS and not notes
    if not pairs:
        notes.append(
            f"across {FEW_RUNS[-1] if few else 'runs'}" if at_home else "across devices" + f" in {FEW_RUNS[-1]}" * few
        )
    elif few:
        notes.append(f"in {FEW_RUNS[len(pairs) - 1]}")
    notes += [EARLIER] * (reference.is_outdated or own.is_outdated)
    notes += measured_otherwise(reference.row, own.row)
    return Speedup(found.estimate, found.low, found.high, ", ".join(notes), len(pairs), own.id)


EARLIER = "of an earlier measurement"
"""What a ratio says of itself whose runs are older than the times beside it."""


def side_by_side(one: Reading, other: Reading) -> tuple[Reading, Reading]:
    """Return both readings over the runs in which they are compared: the one rule of ladders, sentences and claims.

    These are the runs of the newest measurement of each. If those share no run, but earlier runs have verified rows of both,
    the newest measurement in the shared runs takes their place: side by side matters more than newest.
    """
    shared = {run.row["run"] for run in one.runs} & {run.row["run"] for run in other.runs}
    if shared or one.row["device"] != other.row["device"]:
        return one, other
    verified = [[row for row in reading.history if not unfit(row)] for reading in (one, other)]
    shared = set.intersection(*({row["run"] for row in rows} for rows in verified))
    if not shared:
        return one, other
    sides = zip((one, other), verified, strict=True)
    first, second = (_in_runs(reading, rows, shared) for reading, rows in sides)
    return first, second


def _in_runs(reading: Reading, rows: Iterable[Mapping[str, Any]], runs: set[Any]) -> Reading:
    """Return the newest measurement of a reading in these runs, under the reading's own name."""
    made = read_runs([row for row in rows if row["run"] in runs])
    outdated = made.row["run"] != reading.row["run"]
    return replace(made, variant=reading.variant, parent=reading.parent, is_outdated=outdated)


def measured_otherwise(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """In what two rows were measured differently, as far as it changes what a time is: not in how many samples there are."""
    policies = [_policy(text_field(row, "policy") or "{}") for row in (one, other)]
    found = [what for name, what in _OF_POLICY.items() if policies[0].get(name) != policies[1].get(name)]
    found += ["another time"] * (text_field(one, "timed") != text_field(other, "timed"))
    both = input_facts(one).keys() & input_facts(other).keys()
    found += [
        what
        for name, what in INPUT_FACTS.items()
        if name in both and input_facts(one)[name] != input_facts(other)[name]
    ]
    return list(dict.fromkeys(found))


@lru_cache(maxsize=256)
def _policy(told: str) -> Mapping[str, Any]:
    found: dict[str, Any] = read_json(told)
    return found


_OF_POLICY = {"cache": "another state of the caches", "seed": "other random inputs"}
"""Fields of a policy that decide what a time is, and what to say where they differ."""


def _side_by_side(one: Reading, other: Reading) -> "Iterator[tuple[NDArray[np.float64], NDArray[np.float64]]]":
    """Samples of both from the rounds that both have, run by run."""
    others = {each.row["run"]: each for each in other.runs}
    for mine in one.runs:
        columns: list[Any] = [each.row.get("rounds") for each in (mine, others.get(mine.row["run"])) if each]
        rounds = [list(column) for column in columns if hasattr(column, "__len__")]  # a null reads as None or NaN
        if len(rounds) == 2:
            theirs = others[mine.row["run"]]
            first, second = stats.by_round(mine.times, rounds[0], theirs.times, rounds[1])
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
    there = [reading for reading in listed if reading.row["device"] == device]
    steps = [reading for reading in there if reading.role != "peer"] or there
    backends = [str(reading.row.get("backend") or "") for reading in steps]
    return Home(device, max(dict.fromkeys(backends), key=backends.count, default=""))


def called_by(peer: Reading, step: Reading) -> str:
    """Return the backend that calls a peer, as a reader sees it, where it is another than the step's; else ''."""
    return home_of([step]).other_backend(peer)


def points_in_order(points: Iterable[str]) -> list[str]:
    """Points of a sweep sorted by their numbers ('2' before '16', '8x4' before '16x1'), words by name after them."""

    def key(point: str) -> tuple[int, list[float], str]:
        try:
            return 0, [float(part) for part in point.replace("/", "x").split("x")], point
        except ValueError:
            return 1, [], point

    return sorted(dict.fromkeys(points), key=key)


def of_kernel(counted: Mapping[str, Any], kernel: str, number: int, counter: str) -> float | None:
    """A counter of the `number`-th launch shape (from 1) of a kernel, of what `counters.counted` gave; None for none such."""
    mine = [each for each in counted["kernels"] if each["kernel"] == kernel]
    return mine[number - 1][counter] if 0 < number <= len(mine) else None
