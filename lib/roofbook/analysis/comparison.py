"""The same cells on several devices: times of each recorded place, ratios of two of them, published times beside them.

Serves the page that sets devices and backends side by side, and the command that does so for one case. All is plain data.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from ..devices.backends import CUDA, OPENCL
from ..errors import UsageError, one_of
from ..paths import project_root
from ..store.published import figures
from .publication import publication
from .readings import Reading, Speedup, faster, newest
from .recorded import RecordedData, recorded
from .store_devices import StoreDevice, card_of

if TYPE_CHECKING:
    from ..spec.lab import Case, Lab
    from ..store.parquet import Store

SCALES = ("published", "large")
QUICK = "quick"
"""Compared too where a lab was measured at this scale on a CPU by several platforms, as a reader's own machine may be."""
ROLES = ("step", "base", "peer")


@dataclass(frozen=True)
class Time:
    """Seconds per unit: the median of ours with its interval; a published time has none, low and high are NaN."""

    seconds: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    """Of ours, whether it ran on the host and whether samples are few; of a published one, `as` its name there."""
    host: str = ""
    """The name of the device that it is of, where that is the place's host and not the place itself."""
    of: str = ""
    """The measurement that ours is of, as `store_devices.card_of` names it."""


@dataclass(frozen=True)
class DevicePair:
    """Two places whose times are compared with each other: how many times as fast is `own` as `reference`?"""

    own: StoreDevice
    reference: StoreDevice

    def __str__(self) -> str:
        if self.own.device == self.reference.device:
            return f"{self.own.name}: {self.own.by} vs {self.reference.by}"
        if platform := _other_platform(self.own, self.reference):
            return f"{self.reference.name}: {platform} vs PoCL"
        return f"{self.own} vs {self.reference}"


@dataclass(frozen=True)
class Comparison:
    """One case of a lab on all recorded places. Variants: the ladder in its order, peers, points of sweeps."""

    lab: "Lab"
    scale: str
    case: str
    places: Sequence[StoreDevice]
    times: Mapping[str, Mapping[StoreDevice, Time]]
    """By variant. Only verified readings are times."""
    lacks: Mapping[str, Mapping[StoreDevice, str]]
    """By variant, why a place has no time of it."""
    published: Mapping[str, Mapping[str, Time]]
    """By variant and device, the shortest published time that covers what the lab times."""
    ratios: Mapping[DevicePair, Mapping[str, Speedup]]
    """By variant. None of a variant that runs on the host for both."""


@dataclass(frozen=True)
class PairSummary:
    """The ratios of a pair over the ladder and the peers of a lab, on all of its cases."""

    pair: DevicePair
    lab: "Lab"
    cells: int
    mean: float
    """Geometric."""
    least: float
    greatest: float
    verdicts: Mapping[str, int]


def _other_platform(own: StoreDevice, reference: StoreDevice) -> str:
    """The platform of `own`, where that is the CPU `reference` by another than PoCL, which a name does not say."""
    return own.name.removeprefix(f"{reference.name}, ") if own.name.startswith(f"{reference.name}, ") else ""


def scales(store: "Store") -> Callable[["Lab"], Sequence[str]]:
    """The scales at which a lab is compared, as the store is now."""
    found = store.arrow("select distinct lab, device from cells where scale = ? and device_kind = 'cpu'", [QUICK])
    quick = at_quick((row["lab"], row["device"]) for row in found.to_pylist())
    return lambda lab: (*SCALES, QUICK) if lab.name in quick else SCALES


def at_quick(cpus: Iterable[tuple[str, str]]) -> set[str]:
    """The labs that are compared at the scale quick too: by lab, each CPU that it was measured on at that scale."""
    found = Counter(lab for lab, _ in set(cpus))
    return {lab for lab, number in found.items() if number > 1}


def pairs(places: Sequence[StoreDevice]) -> list[DevicePair]:
    """OpenCL against CUDA on each GPU that has both; a CPU by other platforms against PoCL; each GPU against each CPU, by the
    CPU's backend where it has it.
    """
    by = {(place.device, place.backend): place for place in places}
    found = [
        DevicePair(place, by[place.device, CUDA.name])
        for place in places
        if place.backend == OPENCL.name and (place.device, CUDA.name) in by
    ]
    gpus: dict[str, StoreDevice] = {}
    for place in places:
        if place.kind == "gpu":
            gpus.setdefault(place.device, place)
    cpus = [place for place in places if place.kind == "cpu"]
    found += [DevicePair(own, pocl) for own in cpus for pocl in cpus if _other_platform(own, pocl)]
    return found + [DevicePair(by.get((gpu.device, cpu.backend), gpu), cpu) for gpu in gpus.values() for cpu in cpus]


def compared(
    lab: "Lab", store: "Store", scale: str, choose: Callable[[Sequence[StoreDevice]], Sequence[DevicePair]] = pairs
) -> list[Comparison]:
    """Every case of the lab at that scale of which the store has cells, with the ratios of the pairs that `choose` gives.

    A row counts if its kernel is, letter for letter, that of today's code; the newest of each variant, case and place is
    read. Variants are the ladder's and the peers, and those points of sweeps of which a time was published.
    """
    found = recorded(lab, store, scale, parts=("recorded", "local"))
    theirs = _published(lab, store, found) if found else {}
    made = []
    for case in lab.cases(scale):
        here = [record for record in found if case.name in [each.name for each in record.cases]]
        if here:
            made.append(_compared(lab, scale, case, here, theirs.get(case.name, {}), choose))
    return made


def on_case(lab: "Lab", store: "Store", case: str, on: Sequence[str] = ()) -> Comparison:
    """A case on these places, each DEVICE or DEVICE/BACKEND, the first compared with each other.

    At the first of `scales` that has all of them. Without `on`: on all of the store, the pairs as `pairs` has them. Errors:
    UsageError for a case or place that the store does not have.
    """

    def chosen(places: Sequence[StoreDevice]) -> list[StoreDevice]:
        return list(dict.fromkeys(place for name in on for place in places if name in (place.device, place.id)))

    def missing(made: Comparison, names: Sequence[str]) -> list[str]:
        return [name for name in names if not any(name in (place.device, place.id) for place in made.places)]

    def choose(places: Sequence[StoreDevice]) -> list[DevicePair]:
        mine = chosen(places)
        return [DevicePair(mine[0], other) for other in mine[1:]]

    made: dict[str, list[Comparison]] = {}
    for scale in scales(store)(lab):
        for each in compared(lab, store, scale, choose if on else pairs):
            made.setdefault(each.case, []).append(each)
    if not made:
        known = f"{lab.name} was not measured at scale {' or '.join(SCALES)} yet"
        raise UsageError(f"{known}; `roofbook run {lab.name} --scale {SCALES[0]}` does it")
    if case not in made:
        raise one_of("recorded case", case, list(made))
    found = next((each for each in made[case] if not missing(each, on)), made[case][0])
    for name in missing(found, on):
        raise one_of("recorded device", name, [place.id for place in found.places])
    return replace(found, places=chosen(found.places) if on else found.places)


def _compared(
    lab: "Lab",
    scale: str,
    case: "Case",
    here: Sequence[RecordedData],
    theirs: Mapping[str, Mapping[str, Time]],
    choose: Callable[[Sequence[StoreDevice]], Sequence[DevicePair]],
) -> Comparison:
    swept = [each.name for each in lab.all_variants() if each.role == "sweep" and each.name in theirs]
    known = [each.name for each in lab.all_variants() if each.role in ROLES] + swept
    readings = {record.place: newest(record.rows, case.name) for record in here}
    excuses = {record.place: record.skip_reasons(case) for record in here}
    names = [name for name in known if name in theirs or any(name in found for found in readings.values())]
    times: dict[str, dict[StoreDevice, Time]] = {name: {} for name in names}
    lacks: dict[str, dict[StoreDevice, str]] = {name: {} for name in names}
    for place, found in readings.items():
        for name in names:
            reading = found.get(name)
            if reading is None:
                lacks[name][place] = excuses[place].get(name, "not measured")
            elif reading.ok:
                of = card_of(lab.name, place.id, scale, reading.id)
                times[name][place] = replace(_time(reading, place), of=of)
            else:
                lacks[name][place] = f"failed: {reading.reason}"
    ratios = {pair: dict(_ratios(names, pair, readings)) for pair in choose(list(readings))}
    kept = {pair: mine for pair, mine in ratios.items() if mine}
    published = {name: theirs[name] for name in names if name in theirs}
    return Comparison(lab, scale, case.name, list(readings), times, lacks, published, kept)


def _time(reading: Reading, place: StoreDevice) -> Time:
    notes = ["on the host"] * _hosted(reading, place) + [reading.few] * bool(reading.few)
    host = str(reading.row["device_name"]) if _hosted(reading, place) else ""
    return Time(reading.median, reading.low, reading.high, ", ".join(notes), host)


def _hosted(reading: Reading, place: StoreDevice) -> bool:
    return bool(reading.row["device"] != place.device)


def _ratios(
    names: Iterable[str], pair: DevicePair, readings: Mapping[StoreDevice, Mapping[str, Reading]]
) -> Iterable[tuple[str, Speedup]]:
    for name in names:
        own, reference = (readings[place].get(name) for place in (pair.own, pair.reference))
        if own is None or reference is None or _hosted(own, pair.own) or _hosted(reference, pair.reference):
            continue
        if ratio := faster(reference, own):
            yield name, ratio


def _published(lab: "Lab", store: "Store", found: Sequence[RecordedData]) -> dict[str, dict[str, dict[str, Time]]]:
    """Our case -> our variant -> device -> the published time per unit: of trials the median, of several runs the shortest.

    Only times of a size that the report states, that cover what the lab times as a whole, and of which ours is a variant by
    the lab's own mapping on any of the recorded devices. A lab without published figures has none.
    """
    results = store.root if (store.root / "published").is_dir() else project_root() / "results"
    if not (results / "published" / f"{lab.name}.csv").is_file():
        return {}
    table, said = figures(lab.name, results), publication(lab)
    mapping: dict[Any, str | tuple[str, str]] = {
        key: to for record in reversed(found) for key, to in said.mapping(record.device).items()
    }
    units = {case.name: int(case.params.get("iterations", 1)) for case in lab.cases("published")}
    trials: dict[tuple[str, str, str, str, str], list[float]] = {}
    for figure in table[table["seconds"].notna()].to_dict("records"):
        key = figure["variant"], figure["case"], figure["metric"]
        to = mapping.get((figure["variant"], figure["device"]), mapping.get(figure["variant"]))
        name = to[0] if isinstance(to, tuple) else to
        if name is None or figure["case"] in said.unsized or any(of(*key) for of in (said.part, said.fact, said.lack)):
            continue
        case = said.cases.get(figure["case"], figure["case"])
        seconds = figure["seconds"] / units.get(case, 1)
        trials.setdefault((case, name, figure["device"], figure["variant"], figure["table"]), []).append(seconds)
    shortest: dict[str, dict[str, dict[str, Time]]] = {}
    for (case, name, device, theirs, _), seconds in trials.items():
        time, mine = Time(median(seconds), note=f"as {theirs}"), shortest.setdefault(case, {}).setdefault(name, {})
        mine[device] = min(mine.get(device, time), time, key=lambda each: each.seconds)
    return shortest


def summaries(made: Sequence[Comparison]) -> dict[DevicePair, list[PairSummary]]:
    """What the ratios come to, by pair and lab, in the order of the comparisons. Points of sweeps do not count.

    Of two devices that one backend has anywhere, a case that only different backends have does not count either.
    """
    found: dict[DevicePair, dict[str, list[Speedup]]] = {}
    labs = {each.lab.name: each.lab for each in made}
    for each in made:
        steps = {variant.name for variant in (*each.lab.ladder, *each.lab.peers)}
        for pair, ratios in each.ratios.items():
            mine = [ratio for name, ratio in ratios.items() if name in steps]
            if mine:
                found.setdefault(pair, {}).setdefault(each.lab.name, []).extend(mine)
    by_one = {(pair.own.device, pair.reference.device) for pair in found if pair.own.backend == pair.reference.backend}
    return {
        pair: [_summary(pair, labs[lab], own) for lab, own in by.items()]
        for pair, by in found.items()
        if pair.own.backend == pair.reference.backend or (pair.own.device, pair.reference.device) not in by_one
    }


def _summary(pair: DevicePair, lab: "Lab", ratios: Sequence[Speedup]) -> PairSummary:
    estimates = [ratio.estimate for ratio in ratios]
    mean = math.exp(sum(map(math.log, estimates)) / len(estimates))
    said = [ratio.word for ratio in ratios]
    counts = {word: said.count(word) for word in ("faster", "same", "undecided", "slower")}
    return PairSummary(pair, lab, len(ratios), mean, min(estimates), max(estimates), counts)
