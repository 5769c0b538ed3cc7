"""From rows of the store to what a table may say: which row counts, whether it is verified, how two compare."""

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..devices.occupancy import recounted
from ..errors import UsageError, one_of
from ..measure import stats
from ..store.schema import PROFILE, age

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

TOO_FEW = "too few"


@dataclass(frozen=True)
class Reading:
    """The newest row of one variant on one case. Only a verified one (`ok`) has a time; the others say `why` not."""

    variant: str
    row: Mapping[str, Any]
    why: str = ""
    times: tuple[float, ...] = ()
    median: float = math.nan
    low: float = math.nan
    high: float = math.nan
    exact: bool = True
    parent: str | None = None

    @property
    def ok(self) -> bool:
        return not self.why

    @property
    def role(self) -> str:
        return said(self.row, "role") or "step"

    @property
    def units(self) -> int:
        return int(self.row["units"])

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """What a verified run told besides its time, such as its registers; nothing for the others.

        How many groups fit is counted again for rows that are older than today's rule: `occupancy.recounted`.
        """
        told: dict[str, Any] = json.loads(said(self.row, "extra") or "{}") if self.ok else {}
        architecture = re.search(r", sm_(\d+)", said(self.row, "provenance") or "")  # of the device's identity
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
        """'n = 3, range' where so few samples give no interval of the median, only their extremes."""
        return "" if self.exact else f"n = {len(self.times)}, range"


@dataclass(frozen=True)
class Speedup:
    """How many times faster than the reference: reference / own, so above 1 is faster. `how` is empty when paired."""

    estimate: float
    low: float
    high: float
    same: bool
    how: str

    @property
    def word(self) -> stats.Relation:
        """What it comes to. Where that is `same` or `undecided`, a table says so in place of a number."""
        return stats.relation(self.low, self.high)


def said(row: Mapping[str, Any], key: str) -> str | None:
    """Text of a field that may be missing, null or NaN."""
    value = row.get(key)
    return None if value is None or value != value or value == "" else str(value)


def value(row: Mapping[str, Any], key: str) -> float:
    """Number of a field that may be missing or null: NaN then."""
    found = row.get(key)
    return math.nan if found is None else float(found)


def newest(rows: "pd.DataFrame", case: str | None = None, roles: Iterable[str] | None = None) -> dict[str, Reading]:
    """The newest reading of every variant of `case`, by name, in the order of the rows; `roles` keeps only these roles.

    What is newer than what, `schema.age` says.
    What counters counted (role PROFILE) is read where `roles` is that role alone: its times are under a profiler.
    Errors: UsageError for a case without rows, or a sample that is not a positive finite number.
    """
    if case is not None and not rows.empty:
        known = list(dict.fromkeys(rows["case"]))
        if case not in known:
            raise one_of("case", case, known)
        rows = rows[rows["case"] == case]
    wanted = set(roles) if roles is not None else None
    latest: dict[tuple[str, bool], Mapping[str, Any]] = {}
    for row in rows.to_dict("records"):
        if (row["role"] == PROFILE) != (wanted == {PROFILE}):
            continue
        key = str(row["variant"]), row["role"] == "again"
        if key not in latest or age(row["started"]) >= age(latest[key]["started"]):
            latest[key] = {str(name): field for name, field in row.items()}
    found = {}
    for (name, again), row in latest.items():
        reading = read(row)
        if again and (name, False) in latest:  # an A/A twin keeps its variant's name; it is compared with that variant
            reading = replace(reading, variant=f"{name} (A/A control)", parent=name)
        found[reading.variant] = reading
    return {name: each for name, each in found.items() if wanted is None or each.role in wanted}


def read(row: Mapping[str, Any]) -> Reading:
    """One row as a reading. A row that failed or was not verified keeps its reason and gives no time."""
    name = str(row["variant"])
    why = unfit(row)
    if why:
        return Reading(name, row, why, parent=said(row, "parent"))
    raw = row.get("samples_s")
    samples = [float(each) for each in raw] if raw is not None else []
    if not samples or not all(math.isfinite(each) and each > 0 for each in samples):
        raise UsageError(f"{name} on {row['case']}: samples_s holds {samples[:3]}…; positive finite seconds are needed")
    times = tuple(each / int(row["units"]) for each in samples)
    found = stats.median_ci(times)
    return Reading(name, row, "", times, found.estimate, found.low, found.high, found.exact, said(row, "parent"))


def unfit(row: Mapping[str, Any]) -> str:
    """Why this row may not give a number; '' when it may. A probe that computes nothing has nothing to check."""
    if said(row, "status") != "ok":
        return said(row, "reason") or "failed, no reason recorded"
    error, limit = value(row, "error"), value(row, "bound")
    if error <= limit or (said(row, "role") == "probe" and math.isnan(limit)):
        return ""
    return f"not verified: error {error:.3g}, allowed {limit:.3g}"


def fastest(readings: Iterable[Reading]) -> Reading | None:
    """The verified reading with the shortest median; None where there is none."""
    return min((each for each in readings if each.ok), key=lambda each: each.median, default=None)


def faster(reference: Reading | None, own: Reading) -> Speedup | None:
    """reference / own with its interval: by pairs of the same run and round, else across runs; None without both."""
    if reference is None or not (reference.ok and own.ok):
        return None
    at_home = reference.row["device"] == own.row["device"]
    pairs = _side_by_side(reference, own) if at_home and reference.row["run"] == own.row["run"] else None
    found = stats.paired_ratio(*pairs) if pairs else stats.unpaired_ratio(reference.times, own.times)
    notes: list[str] = [TOO_FEW] if found.how == TOO_FEW else []
    if not pairs:
        notes.append("across runs" if at_home else "across devices")
    notes += [f"other {what}" for what in ("policy", "timed") if said(reference.row, what) != said(own.row, what)]
    return Speedup(found.estimate, found.low, found.high, found.same, ", ".join(notes))


def _side_by_side(one: Reading, other: Reading) -> "tuple[NDArray[np.float64], NDArray[np.float64]] | None":
    """Samples of both from the rounds that both have; None where they share no round."""
    columns: list[Any] = [each.row.get("rounds") for each in (one, other)]
    rounds = [list(column) for column in columns if hasattr(column, "__len__")]  # a null reads as None or NaN
    if len(rounds) < 2:
        return None
    first, second = stats.by_round(one.times, rounds[0], other.times, rounds[1])
    return (first, second) if len(first) else None


def home_device(readings: Iterable[Reading]) -> str:
    """The device that most of the readings are from; '' for none."""
    devices = [str(reading.row["device"]) for reading in readings]
    return max(dict.fromkeys(devices), key=devices.count, default="")


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
