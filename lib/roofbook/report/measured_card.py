"""A measurement's card: where its number comes from, as data. The site's pages and its dialogs show the same of it.

A card has all that a sceptic would ask for: samples of each run, interval, spread between runs, commit, clocks, throttling,
verification, machine, the command that measures it again, and which versions it had.
"""

import json
import math
import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis import format as show
from ..analysis.history import Change, Version, answer, commit_of, within
from ..analysis.provenance_check import untraced
from ..analysis.readings import FEW_RUNS, Reading, number_field, text_field
from ..analysis.store_devices import machine
from ..devices.backends import label
from ..escaping import read_json
from ..measure.stats import CONFIDENCE, ENOUGH_RUNS
from ..store.schema import REASONS
from .status import card as facts_of_run

DIGITS = 4
"""Of samples in a card; the rows have all."""
_OF_A_MOMENT = ("time", "load_1min", "memory_available_bytes", "git", "neighbours")
"""Of what a row tells of its machine: what is another in each run."""


class Machines:
    """The machines of cards, each told once."""

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.listed: list[list[list[str]]] = []
        """Of each machine its facts: pairs of a name and what it is."""

    def number(self, provenance: str | None) -> int:
        """The place of the machine of a row in the list; -1 where the row tells nothing."""
        told = {name: fact for name, fact in read_json(provenance or "{}").items() if name not in _OF_A_MOMENT}
        if not told:
            return -1
        text = json.dumps(told, sort_keys=True)
        if text not in self.known:
            self.known[text] = len(self.listed)
            frame = facts_of_run(told, {}).frame
            named = [["machine", name]] if (name := machine(provenance)[1]) else []
            self.listed.append(
                [*named, *([str(fact).replace("_", " "), str(what)] for fact, what in frame.itertuples(index=False))]
            )
        return self.known[text]


def card(found: Sequence[Version], machines: Machines, what: str, scale: str, device: str | None) -> dict[str, Any]:
    """All of a measurement as JSON has it; texts are as a reader sees them, times in seconds per unit.

    found: its versions, of which the last is shown. what: what its variant changes. scale, device: those that the command needs
    to measure it again; device None for that of the lab's page.
    """
    last = found[-1].reading
    row = last.row
    times = [time for each in found for run in each.reading.runs if run.ok for time in run.times]
    name, size = show.time_unit([last.median] if last.ok else times)
    return {
        "id": last.id,
        "variant": last.variant,
        "case": str(row["case"]),
        "what": what,
        "unit": name,
        "seconds": size,
        "time": _text(last, size) + f" {name} per {row['unit']}" if last.ok else "",
        "why": last.reason,
        "answer": answer(found),
        "command": command(last, scale, device),
        "facts": facts(last),
        "versions": [_version(each, size, machines) for each in found],
        **({"axis": axis(times, size)} if times else {}),
    }


WIDE = 4.0
"""From this factor between the longest sample and the shortest on, the axis of a card is logarithmic."""


def axis(times: Sequence[float], size: float) -> dict[str, Any]:
    """The axis of samples in seconds: its ends, whether it is logarithmic, its ticks, each with its text in units of `size`."""
    least, most = min(times), max(times)
    if most > WIDE * least:
        low, high = least / 1.15, most * 1.15
        powers = range(math.floor(math.log10(low / size)), math.ceil(math.log10(high / size)) + 1)
        at = [digit * 10.0**power * size for power in powers for digit in (1, 2, 5)]
    else:
        room = max(0.08 * (most - least), 0.002 * most)
        low, high = least - room, most + room
        step = _step((high - low) / size / 4) * size
        at = [number * step for number in range(math.ceil(low / step), math.floor(high / step) + 1)]
    ticks = [[float(f"{each:.6g}"), show.tick(float(f"{each / size:.6g}"))] for each in at if low <= each <= high]
    return {"low": float(f"{low:.6g}"), "high": float(f"{high:.6g}"), "log": most > WIDE * least, "ticks": ticks}


def _step(least: float) -> float:
    """The shortest of 1, 2 or 5 times a power of ten that is at least this."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= least * (1 - 1e-9))


def command(reading: Reading, scale: str, device: str | None) -> str:
    """What a reader types to take it again, here or on a machine with such a device."""
    row = reading.row
    name = str(row["variant"])
    known = [str(row["lab"]), name, str(row["case"])]
    given = ["--scale", scale, "--device", device] if device else []
    return shlex.join(["roofbook", "rerun", *known, *given])


def facts(reading: Reading) -> list[list[str]]:
    """What holds of all of its runs: pairs of a name and what it is."""
    row = reading.row
    told = [
        ("Device", f"{text_field(row, 'device_name') or row['device']}, {label(str(row['backend']))}"),
        ("Devices", "; ".join(map(str, reading.facts.get("took_part", ())))),
        ("Threads", "each bound to a processor" if reading.facts.get("threads_bound") else ""),
        ("Compiler", _compilers(reading)),
        ("Variables", "; ".join(f"{name}={value}" for name, value in _environment(row).get("settings", {}).items())),
        ("Interval", _interval(reading)),
        ("Between runs", _between(reading)),
        ("Samples", _samples(reading)),
        ("Timed", text_field(row, "timed")),
        ("Precision", text_field(row, "dtype")),
        ("Verified", _verified(reading)),
        ("Checked while sampling", _checked_samples(reading)),
        ("Throttled", _throttled(reading)),
        ("Protocol", _protocol(row)),
        ("Kernel's source", (text_field(row, "source_sha256") or "")[:12]),
        ("Key of code", str(row["cell_key"])[:12]),
        ("Key of environment", str(row["env_key"])[:12]),
    ]
    return [[name, text] for name, text in told if text]


def _environment(row: Mapping[str, Any]) -> dict[str, Any]:
    return dict(json.loads(text_field(row, "provenance") or "{}").get("environment") or {})


def _compilers(reading: Reading) -> str:
    """Name the host's compilers of a program; say so where the row is older than that rows name them."""
    if named := _environment(reading.row).get("compilers"):
        return "; ".join(f"{what}: {version}" for what, version in named.items())
    return "not named: this row is older than the rule that rows name the host's compiler" * ("flags" in reading.facts)


def _checked_samples(reading: Reading) -> str:
    """Say how many samples had their own outputs checked; of a row by the earlier protocol, that none had."""
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


def _between(reading: Reading) -> str:
    if not reading.ok:
        return ""
    if len(reading.runs) == 1:
        return "one run: nothing is known of the next"
    medians = [each.median for each in reading.run_by_run]
    wide = show.number(100 * (max(medians) / min(medians) - 1), 2)
    return f"the longest median of {len(medians)} runs is {wide}{show.THIN}% above the shortest"


def _samples(reading: Reading) -> str:
    if not reading.ok:
        return ""
    runs = f" in {len(reading.runs)} runs" if len(reading.runs) > 1 else ""
    return f"{reading.samples}{runs}, each of {show.number(reading.units, places=0)} × {reading.row['unit']}"


def _verified(reading: Reading) -> str:
    error, limit = number_field(reading.row, "error"), number_field(reading.row, "bound")
    if math.isnan(limit):
        return "nothing to check: a probe that computes nothing" if reading.ok else ""
    what = reading.facts.get("error_is")
    return f"error {error:.3g}, allowed {limit:.3g}" + (f" ({what})" if what else "")


def _throttled(reading: Reading) -> str:
    """Which samples were taken of a device that was held down, and what became of them."""
    reasons = Counter(reason for each in reading.runs for reason in _throttle(each.row))
    if not reading.ok:
        return ""
    if not reasons:
        return "no sample" if _tells(reading.row) else "not known: this device does not tell"
    gone, kept = (sum(getattr(each, name) for each in reading.runs) for name in ("left_out", "slowed"))
    told = ", ".join(f"{reason} in {count}" if count else reason for reason, count in reasons.items())
    return told + f"; {gone} samples left out" * bool(gone) + f"; {kept} slowed samples count" * bool(kept)


def _tells(row: Mapping[str, Any]) -> bool:
    """Whether the row's device tells what holds its clock: a GPU does whose clock was read."""
    return row["device_kind"] == "gpu" and bool(_listed(row, "clock_mhz"))


def _throttle(row: Mapping[str, Any]) -> list[str]:
    """The reasons of a row, each as many times as it has samples with it."""
    each = [reason for text in _listed(row, "sample_throttle") for reason in (text or "").split(REASONS) if reason]
    return each or [str(reason) for reason in _listed(row, "throttle")]


def _protocol(row: Mapping[str, Any]) -> str:
    policy = read_json(text_field(row, "policy") or "{}")
    told = {
        "cache": "{} cache",
        "seed": "seed {}",
        "budget_s": "a budget of {} s",
        "maximum": "at most {} samples",
    }
    return ", ".join(words.format(policy[name]) for name, words in told.items() if name in policy)


def _listed(row: Mapping[str, Any], name: str) -> list[Any]:
    """A list of the row; a null reads as None or NaN."""
    found = row.get(name)
    return list(found) if found is not None and hasattr(found, "__len__") else []


def _text(reading: Reading, size: float) -> str:
    return show.interval(reading.median / size, reading.low / size, reading.high / size)


def _ends(reading: Reading) -> list[float]:
    return [_short(each) for each in (reading.median, reading.low, reading.high)]


def _short(seconds: float) -> float:
    return float(f"{seconds:.{DIGITS}g}")


def _version(version: Version, size: float, machines: Machines) -> dict[str, Any]:
    reading = version.reading
    made: dict[str, Any] = {"changes": _changes(version.changes)}
    if ratio := version.ratio:
        made["ratio"] = f"{show.factor(ratio.estimate, ratio.low, ratio.high)} times as fast as before"
        made |= {"word": ratio.word, "how": ratio.how}
    if not reading.ok:
        made["why"] = reading.reason
    else:
        made |= {"time": _text(reading, size), "seconds": _ends(reading)}
    made["runs"] = [_run(each, found, size, machines) for each, found in within(reading)]
    return made


def _changes(found: Sequence[Change]) -> list[list[str]]:
    return [[each.kind, each.text] for each in found]


def _run(reading: Reading, found: Sequence[Change], size: float, machines: Machines) -> dict[str, Any]:
    row = reading.row
    made: dict[str, Any] = {
        "run": str(row["run"]),
        "started": f"{row['started']:%Y-%m-%d %H:%M}",
        "commit": str(commit_of(row) or ""),
        "fault": untraced(row),
        "machine": machines.number(text_field(row, "provenance")),
    }
    if reading.ok:
        made |= {
            "time": _text(reading, size),
            "seconds": _ends(reading),
            "samples": [_short(each) for each in reading.times],
        }
    for name, field in (("clock", "clock_mhz"), ("temperature", "temperature_c")):
        read = [each for each in _listed(row, field) if each is not None and math.isfinite(each)]
        if read:
            made[name] = [min(read), max(read)]
    if reasons := list(dict.fromkeys(_throttle(row))) or ["not known"] * (not _tells(row)):
        made["throttle"] = reasons
    if reading.left_out:
        made["left_out"] = reading.left_out
    if found:
        made["changes"] = _changes(found)
    return made
