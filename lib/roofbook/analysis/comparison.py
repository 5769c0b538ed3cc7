"""Measurements of one case on several devices: times by device, ratios of two devices, and published times.

Serves the page that sets devices and backends side by side, and the command that does so for one case. All is plain data.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Any

from ..devices.backends import BROWSER, CUDA, OPENCL, WEBGPU
from ..errors import UsageError, one_of
from ..measure import stats
from ..store.published_results import figures, results_of
from .publication import publication
from .readings import Reading, Speedup, faster, newest
from .recorded import RecordedData, recorded
from .store_devices import StoreDevice, card_of

if TYPE_CHECKING:
    from ..spec.lab import Lab
    from ..spec.plan import Case
    from ..store.parquet import Store

SCALES = ("published", "large")
QUICK = "quick"
"""Scale that is compared too if a lab was measured at it on several CPUs, as on a reader's own machine, or in a browser."""
ROLES = ("step", "base", "peer", "dsl")


@dataclass(frozen=True)
class Time:
    """Seconds per unit. Ours is a median with its interval; a published time has no interval: low and high are NaN."""

    seconds: float
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    """Our time: whether it ran on the host and whether samples are few. A published time: `as` and its name there."""
    host: str = ""
    """Name of the host's device if the time was measured on the host."""
    wide: tuple[float, float] = (math.nan, math.nan)
    """Ends of the wider interval by which devices are compared, `RatioSide`; NaN for a published time and few samples."""
    card: str = ""
    """Our measurement as `store_devices.card_of` names it; '' for a published time, and for one of a browser."""


@dataclass(frozen=True)
class DevicePair:
    """Two devices whose times are compared: how many times as fast is `compared` as `reference`?"""

    compared: StoreDevice
    reference: StoreDevice

    def __str__(self) -> str:
        if self.compared.slug == self.reference.slug:
            return f"{self.compared.name}: {self.compared.backend_label} vs {self.reference.backend_label}"
        if platform := _other_platform(self.compared, self.reference):
            return f"{self.reference.name}: {platform} vs PoCL"
        return f"{self.compared} vs {self.reference}"


@dataclass(frozen=True)
class CaseComparison:
    """One case of a lab on all recorded devices. Variants: the ladder in its order, peers, points of sweeps."""

    lab: "Lab"
    scale: str
    case: str
    devices: Sequence[StoreDevice]
    times: Mapping[str, Mapping[StoreDevice, Time]]
    """Times by variant and device, of verified readings only."""
    lacks: Mapping[str, Mapping[StoreDevice, str]]
    """Reasons by variant and device for times that are missing."""
    published: Mapping[str, Mapping[str, Time]]
    """The shortest published time that covers the lab's timed work, by variant and the report's device."""
    ratios: Mapping[DevicePair, Mapping[str, Speedup]]
    """Ratios by pair and variant, without variants that ran on the host for both."""


@dataclass(frozen=True)
class PairSummary:
    """Summary of a pair's ratios over the ladder and the peers of a lab, on all of its cases."""

    pair: DevicePair
    lab: "Lab"
    measurements: int
    mean: float
    """Geometric mean of the ratios."""
    least: float
    greatest: float
    verdicts: Mapping[str, int]


def _other_platform(device: StoreDevice, reference: StoreDevice) -> str:
    """Return the platform of `device` if it is the CPU `reference` by a platform other than PoCL; else ''.

    The name of such a device is the CPU's, a comma, and the platform's.
    """
    return device.name.removeprefix(f"{reference.name}, ") if device.name.startswith(f"{reference.name}, ") else ""


def scales(store: "Store") -> Callable[["Lab"], Sequence[str]]:
    """Return a function from a lab to the scales at which it is compared, by the rows in the store now."""
    sql = "select distinct lab, device, device_kind, backend from cells where scale = ?"
    quick = at_quick(tuple(row.values()) for row in store.arrow(sql, [QUICK]).to_pylist())
    return lambda lab: (*SCALES, QUICK) if lab.name in quick else SCALES


def at_quick(measured: Iterable[tuple[str, ...]]) -> set[str]:
    """Return the labs that are compared at the scale quick too: those with several CPUs, or with runs in a browser.

    measured: (lab, device, kind of device, backend) of the rows at this scale.
    """
    distinct = set(measured)
    counts = Counter(lab for lab, _ in {(lab, device) for lab, device, kind, _ in distinct if kind == "cpu"})
    in_browser = {lab for lab, _, _, backend in distinct if backend == BROWSER}
    return {lab for lab, number in counts.items() if number > 1} | in_browser


def pairs(devices: Sequence[StoreDevice]) -> list[DevicePair]:
    """Return the pairs to compare.

    On each GPU OpenCL and WebGPU against CUDA, or WebGPU against OpenCL if it has no CUDA; a CPU by other platforms against
    PoCL; each GPU against each CPU, by the CPU's backend if the GPU has it. Devices of browsers are in no pair: their caches
    are warm, and nobody watched them.
    """
    devices = [device for device in devices if device.backend != BROWSER]
    by_backend = {(device.slug, device.backend): device for device in devices}
    chosen = []
    for backend, references in ((OPENCL.name, (CUDA.name,)), (WEBGPU.name, (CUDA.name, OPENCL.name))):
        for device in (device for device in devices if device.backend == backend):
            others = [by_backend[device.slug, name] for name in references if (device.slug, name) in by_backend]
            chosen += [DevicePair(device, other) for other in others[:1]]
    gpus: dict[str, StoreDevice] = {}
    for device in devices:
        if device.kind == "gpu":
            gpus.setdefault(device.slug, device)
    cpus = [device for device in devices if device.kind == "cpu"]
    chosen += [DevicePair(cpu, pocl) for cpu in cpus for pocl in cpus if _other_platform(cpu, pocl)]
    return chosen + [
        DevicePair(by_backend.get((gpu.slug, cpu.backend), gpu), cpu) for gpu in gpus.values() for cpu in cpus
    ]


def compared(
    lab: "Lab", store: "Store", scale: str, choose: Callable[[Sequence[StoreDevice]], Sequence[DevicePair]] = pairs
) -> list[CaseComparison]:
    """Return a comparison for every case of the lab at that scale with measurements in the store.

    choose: from the devices of a case, the pairs whose ratios are taken. A row counts if its kernel is, letter for letter, that
    of today's code; the newest of each variant, case and device is read. Variants are the ladder's, the peers, and points of
    sweeps with a published time.
    """
    records = recorded(lab, store, scale, parts=("recorded", "local"))
    published = _published(lab, store, records) if records else {}
    comparisons = []
    for case in lab.cases(scale):
        of_case = [record for record in records if case.name in [measured.name for measured in record.cases]]
        if of_case:
            comparisons.append(_compared(lab, scale, case, of_case, published.get(case.name, {}), choose))
    return comparisons


def on_case(lab: "Lab", store: "Store", case: str, on: Sequence[str] = ()) -> CaseComparison:
    """Return the comparison of a case on the devices that `on` names, each as DEVICE or DEVICE/BACKEND.

    The first device is compared with each of the others, at the first of `scales` that has all of them. Without `on`: on all
    devices of the store, with the pairs of `pairs`. Errors: UsageError for a case or a device that the store does not have.
    """

    def chosen(devices: Sequence[StoreDevice]) -> list[StoreDevice]:
        return list(dict.fromkeys(device for name in on for device in devices if name in (device.slug, device.id)))

    def missing(comparison: CaseComparison) -> list[str]:
        return [name for name in on if not any(name in (device.slug, device.id) for device in comparison.devices)]

    def choose(devices: Sequence[StoreDevice]) -> list[DevicePair]:
        listed = chosen(devices)
        return [DevicePair(listed[0], reference) for reference in listed[1:]]

    by_case: dict[str, list[CaseComparison]] = {}
    for scale in scales(store)(lab):
        for comparison in compared(lab, store, scale, choose if on else pairs):
            by_case.setdefault(comparison.case, []).append(comparison)
    if not by_case:
        problem = f"{lab.name} was not measured at scale {' or '.join(SCALES)} yet"
        raise UsageError(f"{problem}; `roofbook run {lab.name} --scale {SCALES[0]}` does it")
    if case not in by_case:
        raise one_of("recorded case", case, list(by_case))
    comparison = next((c for c in by_case[case] if not missing(c)), by_case[case][0])
    for name in missing(comparison):
        raise one_of("recorded device", name, [device.id for device in comparison.devices])
    return replace(comparison, devices=chosen(comparison.devices) if on else comparison.devices)


def _compared(
    lab: "Lab",
    scale: str,
    case: "Case",
    records: Sequence[RecordedData],
    published: Mapping[str, Mapping[str, Time]],
    choose: Callable[[Sequence[StoreDevice]], Sequence[DevicePair]],
) -> CaseComparison:
    points = [variant.name for variant in lab.all_variants() if variant.role == "sweep" and variant.name in published]
    candidates = [variant.name for variant in lab.all_variants() if variant.role in ROLES] + points
    readings = {record.store_device: newest(record.rows, case.name) for record in records}
    skipped = {record.store_device: record.skip_reasons(case) for record in records}
    names = [name for name in candidates if name in published or any(name in by_name for by_name in readings.values())]
    times: dict[str, dict[StoreDevice, Time]] = {name: {} for name in names}
    lacks: dict[str, dict[StoreDevice, str]] = {name: {} for name in names}
    for device, by_name in readings.items():
        for name in names:
            reading = by_name.get(name)
            if reading is None:
                lacks[name][device] = skipped[device].get(name, "not measured")
            elif reading.ok:
                has_card = device.backend != BROWSER
                card = card_of(lab.name, device.id, scale, reading.id) if has_card else ""
                times[name][device] = replace(_time(reading, device), card=card)
            else:
                lacks[name][device] = f"failed: {reading.reason}"
    ratios = {pair: dict(_ratios(names, pair, readings)) for pair in choose(list(readings))}
    ratios = {pair: by_name for pair, by_name in ratios.items() if by_name}
    published = {name: published[name] for name in names if name in published}
    return CaseComparison(lab, scale, case.name, list(readings), times, lacks, published, ratios)


def _time(reading: Reading, device: StoreDevice) -> Time:
    notes = ["on the host"] * _hosted(reading, device) + [reading.few] * bool(reading.few)
    host = str(reading.row["device_name"]) if _hosted(reading, device) else ""
    side = reading.side
    wide = (side.low, side.high) if side.n >= stats.FEWEST else (math.nan, math.nan)
    return Time(reading.median, reading.low, reading.high, ", ".join(notes), host, wide)


def _hosted(reading: Reading, device: StoreDevice) -> bool:
    return bool(reading.row["device"] != device.slug)


def _ratios(
    names: Iterable[str], pair: DevicePair, readings: Mapping[StoreDevice, Mapping[str, Reading]]
) -> Iterable[tuple[str, Speedup]]:
    for name in names:
        reading, reference = (readings[device].get(name) for device in (pair.compared, pair.reference))
        if reading is None or reference is None:
            continue
        if _hosted(reading, pair.compared) or _hosted(reference, pair.reference):
            continue
        if ratio := faster(reference, reading):
            yield name, ratio


def _published(lab: "Lab", store: "Store", records: Sequence[RecordedData]) -> dict[str, dict[str, dict[str, Time]]]:
    """Return published times per unit by our case, our variant and the report's device.

    Of trials the median counts, of several runs the shortest. Times are left out if the report states no size, if they cover a
    part of the timed work, or if the lab maps them to no variant of ours on any recorded device. A lab without published
    figures has none.
    """
    results = results_of(lab.name, store.root)
    if not (results / "published" / f"{lab.name}.csv").is_file():
        return {}
    table, report = figures(lab.name, results), publication(lab)
    mapping: dict[Any, str | tuple[str, str]] = {
        key: to for record in reversed(records) for key, to in report.mapping(record.device).items()
    }
    units = {case.name: int(case.params.get("iterations", 1)) for case in lab.cases("published")}
    trials: dict[tuple[str, str, str, str, str], list[float]] = {}
    for figure in table[table["seconds"].notna()].to_dict("records"):
        key = figure["variant"], figure["case"], figure["metric"]
        to = mapping.get((figure["variant"], figure["device"]), mapping.get(figure["variant"]))
        name = to[0] if isinstance(to, tuple) else to
        if (
            name is None
            or figure["case"] in report.unsized
            or any(of(*key) for of in (report.part, report.fact, report.lack))
        ):
            continue
        case = report.cases.get(figure["case"], figure["case"])
        seconds = figure["seconds"] / units.get(case, 1)
        trials.setdefault((case, name, figure["device"], figure["variant"], figure["table"]), []).append(seconds)
    shortest: dict[str, dict[str, dict[str, Time]]] = {}
    for (case, name, device, published_name, _), seconds in trials.items():
        time = Time(median(seconds), note=f"as {published_name}")
        by_device = shortest.setdefault(case, {}).setdefault(name, {})
        by_device[device] = min(by_device.get(device, time), time, key=lambda time: time.seconds)
    return shortest


def summaries(comparisons: Sequence[CaseComparison]) -> dict[DevicePair, list[PairSummary]]:
    """Return summaries of the ratios by pair and lab, in the order of the comparisons. Points of sweeps do not count.

    If two devices have any ratio by one backend, their ratios by different backends do not count.
    """
    ratios_by_pair: dict[DevicePair, dict[str, list[Speedup]]] = {}
    labs = {comparison.lab.name: comparison.lab for comparison in comparisons}
    for comparison in comparisons:
        steps = {variant.name for variant in (*comparison.lab.ladder, *comparison.lab.peers)}
        for pair, ratios in comparison.ratios.items():
            counted = [ratio for name, ratio in ratios.items() if name in steps]
            if counted:
                ratios_by_pair.setdefault(pair, {}).setdefault(comparison.lab.name, []).extend(counted)
    by_one_backend = {
        (pair.compared.slug, pair.reference.slug)
        for pair in ratios_by_pair
        if pair.compared.backend == pair.reference.backend
    }
    return {
        pair: [_summary(pair, labs[lab], ratios) for lab, ratios in by_lab.items()]
        for pair, by_lab in ratios_by_pair.items()
        if pair.compared.backend == pair.reference.backend
        or (pair.compared.slug, pair.reference.slug) not in by_one_backend
    }


def _summary(pair: DevicePair, lab: "Lab", ratios: Sequence[Speedup]) -> PairSummary:
    estimates = [ratio.estimate for ratio in ratios]
    mean = math.exp(sum(map(math.log, estimates)) / len(estimates))
    words = [ratio.word for ratio in ratios]
    counts = {word: words.count(word) for word in ("faster", "same", "undecided", "slower")}
    return PairSummary(pair, lab, len(ratios), mean, min(estimates), max(estimates), counts)
