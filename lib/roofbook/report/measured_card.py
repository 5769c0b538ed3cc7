"""A measurement's card: where its number comes from, as data. Pages and dialogs of the site show it.

A card has all that a sceptic asks for: samples of each run, interval, spread between runs, commit, clocks, throttling,
verification, machine, the command that measures it again, and its earlier versions.
"""

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis import format as show
from ..analysis.history import Change, Version, change_sentence, commit_of, runs_with_changes
from ..analysis.machines import machine, machine_count
from ..analysis.provenance_check import untraced
from ..analysis.readings import FEW_RUNS, Reading, Speedup, number_field, text_field
from ..analysis.sentences import ratio_words
from ..devices.backends import label
from ..escaping import read_json
from ..measure.stats import CONFIDENCE, ENOUGH_RUNS
from ..store.schema import REASONS
from .cell_format import interval_text, listed
from .status import run_facts

DIGITS = 4
"""Significant digits of samples in a card; the rows have all digits."""
_CHANGING_FACTS = ("time", "load_1min", "memory_available_bytes", "git", "neighbours")
"""Facts of a row's machine that differ in each run."""


class Machines:
    """The machines of cards, each listed once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.listed: list[list[list[str]]] = []
        """Facts of each machine: pairs of a name and a text."""

    def number(self, provenance: str | None) -> int:
        """Return the index in `listed` of the machine of a row; -1 if the row has no facts of it."""
        lasting = {name: fact for name, fact in read_json(provenance or "{}").items() if name not in _CHANGING_FACTS}
        if not lasting:
            return -1
        text = json.dumps(lasting, sort_keys=True)
        if text not in self.known:
            self.known[text] = len(self.listed)
            named = [["machine", name]] if (name := machine(provenance)[1]) else []
            self.listed.append(
                [*named, *([name.replace("_", " "), fact] for name, fact in run_facts(lasting, {}).items())]
            )
        return self.known[text]


def card(
    versions: Sequence[Version],
    machines: Machines,
    change: str,
    scale: str,
    device: str | None,
    over_parent: Speedup | None = None,
) -> dict[str, Any]:
    """Return a measurement as JSON data; texts are as readers see them, times in seconds per unit.

    versions: the last one is shown. change: what its variant changes. scale, device: options of the command that measures it
    again; device None for that of the lab's page. over_parent: the ratio of its time to its parent's.
    """
    last = versions[-1].reading
    row = last.row
    times = [time for version in versions for run in version.reading.runs if run.ok for time in run.times]
    name, size = show.time_unit([last.median] if last.ok else times)
    return {
        "id": last.id,
        "variant": last.variant,
        "case": str(row["case"]),
        "what": change,
        "unit": name,
        "seconds": size,
        "time": interval_text(last, size) + f" {name} per {row['unit']}" if last.ok else "",
        "why": last.reason,
        "answer": change_sentence(versions),
        "command": command(last, scale, device),
        "facts": [*_compared(last, over_parent), *facts(last)],
        "versions": [_version(version, size, machines) for version in versions],
        **({"axis": axis(times, size)} if times else {}),
    }


LOGARITHMIC_FROM = 4.0
"""Factor between the longest and the shortest sample from which the axis of a card is logarithmic."""


def axis(times: Sequence[float], size: float) -> dict[str, Any]:
    """Return the axis of samples in seconds: its ends, whether it is logarithmic, and ticks with texts in units of `size`."""
    least, most = min(times), max(times)
    if most > LOGARITHMIC_FROM * least:
        low, high = least / 1.15, most * 1.15
        powers = range(math.floor(math.log10(low / size)), math.ceil(math.log10(high / size)) + 1)
        ticks_at = [digit * 10.0**power * size for power in powers for digit in (1, 2, 5)]
    else:
        room = max(0.08 * (most - least), 0.002 * most)
        low, high = least - room, most + room
        step = _step((high - low) / size / 4) * size
        ticks_at = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    ticks = [[float(f"{tick:.6g}"), show.tick(float(f"{tick / size:.6g}"))] for tick in ticks_at if low <= tick <= high]
    return {
        "low": float(f"{low:.6g}"),
        "high": float(f"{high:.6g}"),
        "log": most > LOGARITHMIC_FROM * least,
        "ticks": ticks,
    }


def _step(least: float) -> float:
    """Return the least of 1, 2 or 5 times a power of ten that is not below `least`."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def command(reading: Reading, scale: str, device: str | None) -> str:
    """Return the command that measures a reading again, here or on a machine with such a device."""
    row = reading.row
    name = str(row["variant"])
    measurement = [str(row["lab"]), name, str(row["case"])]
    device_options = ["--scale", scale, "--device", device] if device else []
    return shlex.join(["roofbook", "rerun", *measurement, *device_options])


def _compared(reading: Reading, over_parent: Speedup | None) -> list[list[str]]:
    """Return the fact that compares a reading with its parent, or an A/A control with its original; [] for none."""
    if over_parent is None:
        return []
    how = f" ({over_parent.how})" if over_parent.how else ""
    return [["Compared with", f"its parent: {ratio_words(over_parent)} {reading.parent}{how}"]]


def facts(reading: Reading) -> list[list[str]]:
    """Return pairs of a name and a text: the facts that all runs of a reading share."""
    row = reading.row
    name_texts = [
        ("Device", f"{text_field(row, 'device_name') or row['device']}, {label(str(row['backend']))}"),
        ("Devices", "; ".join(map(str, reading.facts.get("took_part", ())))),
        ("Threads", "each bound to a processor" if reading.facts.get("threads_bound") else ""),
        ("Compiler", _compilers(reading)),
        ("Variables", "; ".join(f"{name}={value}" for name, value in _environment(row).get("settings", {}).items())),
        ("Interval", _interval(reading)),
        ("Between runs", _spread(reading)),
        ("Samples", _samples(reading)),
        ("Timed", text_field(row, "timed")),
        ("Precision", text_field(row, "dtype")),
        ("Verified", _verified(reading)),
        ("Checked while sampling", _checked_samples(reading)),
        ("Throttled", _throttled(reading)),
        ("Protocol", _protocol(row)),
        ("Kernel's source", (text_field(row, "source_sha256") or "")[:12]),
        ("Kernel's WGSL", str(reading.facts.get("wgsl_sha256") or "")[:12]),
        ("Key of code", str(row["cell_key"])[:12]),
        ("Key of environment", str(row["env_key"])[:12]),
    ]
    return [[name, text] for name, text in name_texts if text]


def _environment(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(text_field(row, "provenance") or "{}").get("environment") or {})


def _compilers(reading: Reading) -> str:
    """Name the host's compilers of a program, or say that the row is too old to name them."""
    if compilers := _environment(reading.row).get("compilers"):
        return "; ".join(f"{role}: {version}" for role, version in compilers.items())
    return "not named: this row is older than the rule that rows name the host's compiler" * ("flags" in reading.facts)


def _checked_samples(reading: Reading) -> str:
    """Say how many samples had their own outputs checked; none had in the earlier protocol."""
    if not reading.ok:
        return ""
    checks = reading.facts.get("checks")
    samples = checks.get("samples") if isinstance(checks, Mapping) else None
    if samples is None:
        return "no sample: measured by the earlier protocol, which checked a run before the samples and one after them"
    return f"{len(samples)} of the newest run's samples, drawn at random, by their own outputs" if samples else ""


def _interval(reading: Reading) -> str:
    if not reading.ok:
        return ""
    if reading.few:
        return f"{reading.few}: so few samples give no {CONFIDENCE} interval, and the brackets hold the extremes"
    runs = len(reading.runs)
    over = f"over {runs} runs" if runs >= ENOUGH_RUNS else f"in {FEW_RUNS[runs - 1]}; another may differ by more"
    return f"{CONFIDENCE} of the median, {over}"


def _spread(reading: Reading) -> str:
    if not reading.ok:
        return ""
    if len(reading.runs) == 1:
        return "one run: nothing is known of the next"
    medians = [run.median for run in reading.run_by_run]
    percent = show.number(100 * (max(medians) / min(medians) - 1), 2)
    count = machine_count(text_field(run.row, "provenance") for run in reading.runs)
    machines = f" on {count} machines or GPUs" * (count > 1)
    return f"the longest median of {len(medians)} runs{machines} is {percent}{show.THIN}% above the shortest"


def _samples(reading: Reading) -> str:
    if not reading.ok:
        return ""
    runs = f" in {len(reading.runs)} runs" if len(reading.runs) > 1 else ""
    return f"{reading.samples}{runs}, each of {show.number(reading.units, places=0)} × {reading.row['unit']}"


def _verified(reading: Reading) -> str:
    error, limit = number_field(reading.row, "error"), number_field(reading.row, "bound")
    if math.isnan(limit):
        return "nothing to check: a probe that computes nothing" if reading.ok else ""
    explanation = reading.facts.get("error_is")
    return f"error {error:.3g}, allowed {limit:.3g}" + (f" ({explanation})" if explanation else "")


def _throttled(reading: Reading) -> str:
    """Say why the device's clock was held down in samples, and whether these count."""
    reasons = Counter(reason for run in reading.runs for reason in _throttle_reasons(run.row))
    if not reading.ok:
        return ""
    if not reasons:
        return "no sample" if _reports_throttling(reading.row) else "not known: this device does not tell"
    left_out, slowed = (sum(getattr(run, name) for run in reading.runs) for name in ("left_out", "slowed"))
    counts = ", ".join(f"{reason} in {count}" if count else reason for reason, count in reasons.items())
    return (
        counts + f"; {left_out} samples left out" * bool(left_out) + f"; {slowed} slowed samples count" * bool(slowed)
    )


def _reports_throttling(row: Mapping[str, Any]) -> bool:
    """Return whether the row's device reports what holds its clock: a GPU does if its clock was read."""
    return row["device_kind"] == "gpu" and bool(listed(row, "clock_mhz"))


def _throttle_reasons(row: Mapping[str, Any]) -> list[str]:
    """Return the reasons why a row's clock was held down, each once per sample."""
    by_sample = [reason for text in listed(row, "sample_throttle") for reason in (text or "").split(REASONS) if reason]
    return by_sample or [str(reason) for reason in listed(row, "throttle")]


def _protocol(row: Mapping[str, Any]) -> str:
    policy = read_json(text_field(row, "policy") or "{}")
    formats = {
        "cache": "{} cache",
        "seed": "seed {}",
        "budget_s": "a budget of {} s",
        "maximum": "at most {} samples",
    }
    return ", ".join(words.format(policy[name]) for name, words in formats.items() if name in policy)


def _interval_ends(reading: Reading) -> list[float]:
    return [_rounded(seconds) for seconds in (reading.median, reading.low, reading.high)]


def _rounded(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")


def _version(version: Version, size: float, machines: Machines) -> dict[str, Any]:
    reading = version.reading
    fields: dict[str, Any] = {"changes": _changes(version.changes)}
    if ratio := version.ratio:
        fields["ratio"] = f"{show.factor(ratio.estimate, ratio.low, ratio.high)} times as fast as before"
        fields |= {"word": ratio.word, "how": ratio.how}
    if not reading.ok:
        fields["why"] = reading.reason
    else:
        fields |= {"time": interval_text(reading, size), "seconds": _interval_ends(reading)}
    fields["runs"] = [_run(run, run_changes, size, machines) for run, run_changes in runs_with_changes(reading)]
    return fields


def _changes(changes: Sequence[Change]) -> list[list[str]]:
    return [[change.kind, change.text] for change in changes]


def _run(reading: Reading, changes: Sequence[Change], size: float, machines: Machines) -> dict[str, Any]:
    row = reading.row
    fields: dict[str, Any] = {
        "run": str(row["run"]),
        "started": f"{row['started']:%Y-%m-%d %H:%M}",
        "commit": str(commit_of(row) or ""),
        "fault": untraced(row),
        "machine": machines.number(text_field(row, "provenance")),
    }
    if reading.ok:
        fields |= {
            "time": interval_text(reading, size),
            "seconds": _interval_ends(reading),
            "samples": [_rounded(seconds) for seconds in reading.times],
        }
    for name, field in (("clock", "clock_mhz"), ("temperature", "temperature_c")):
        read = [
            reading_of_sample
            for reading_of_sample in listed(row, field)
            if reading_of_sample is not None and math.isfinite(reading_of_sample)
        ]
        if read:
            fields[name] = [min(read), max(read)]
    if reasons := list(dict.fromkeys(_throttle_reasons(row))) or ["not known"] * (not _reports_throttling(row)):
        fields["throttle"] = reasons
    if reading.left_out:
        fields["left_out"] = reading.left_out
    if changes:
        fields["changes"] = _changes(changes)
    return fields
