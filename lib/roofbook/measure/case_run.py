"""How a time is taken: verified first, cold cache, warmed up, in rounds that interleave the variants, raw samples kept.

One call measures the variants of one case on one device and hands back one row of the store for each.
"""

import json
import math
import random
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import count
from typing import Any

from ..analysis import stats
from ..devices import provenance
from ..devices.contract import BuildFailed, Device, DriverFailed, OutOfMemory, Unsupported
from ..spec.lab import Case, Lab, Runnable, Variant
from ..store.parquet import cell_key, env_key
from .checkpoint import Samples, Unfinished, key_of

Progress = Callable[[str, str], None]
"""Told (variant, what happens now)."""


class OutOfTime(Exception):
    """A run that would outlast its limit."""


COMPILING_S = 10
"""A first run that outlasts its limit by more than this did so by itself, not by what its driver compiled."""


@dataclass(frozen=True)
class Policy:
    """What the protocol fixes. `cache` and `seed` are part of a cell's identity; budgets only say when to stop."""

    cache: str = "cold"
    seed: int = 20
    noise: float = 0.01
    """Stop when the relative standard error of a variant's median is below this..."""
    budget_s: float = 0.5
    """...or its samples have taken this long, seconds, what empties the cache before each of them included."""
    minimum: int = 10
    """Samples at least..."""
    scarce: int = 3
    """...and where one run outlasts `budget_s`."""
    maximum: int = 50
    limit_s: float = 150.0
    """A run that would take longer is not begun, seconds."""

    def identity(self) -> dict[str, Any]:
        return {"cache": self.cache, "seed": self.seed}


@dataclass
class Cell:
    """One variant on one case on its device, on its way to a row."""

    variant: Variant
    role: str
    device: Device
    backend: str
    runnable: Runnable | None = None
    reason: str | None = None
    error: float = math.nan
    bound: float = math.nan
    compared: str = ""
    samples: list[float] = field(default_factory=list)
    """Seconds of what the lab times."""
    walls: list[float] = field(default_factory=list)
    """Seconds of the whole call, the host's work included."""
    emptying: float = 0.0
    """Seconds for which the cache was emptied for it."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each part, by its name."""
    rounds: list[int] = field(default_factory=list)
    clocks: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    warm: bool = False
    """It has run on this device before it is timed."""
    whole: bool = False
    """All its samples are taken. An interrupted cell becomes no row: it would pass for fresh with a few."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def taken(self, run: str) -> Samples:
        """What `go_on` takes: of samples that are noted whole, their clocks last. An interrupt can come in the midst."""
        n = len(self.clocks)
        parts = {name: each[:n] for name, each in self.parts.items()}
        return {"run": run, "samples": self.samples[:n], "walls": self.walls[:n], "emptying": self.emptying, "parts": parts,
                "rounds": self.rounds[:n], "clocks": self.clocks, "started": self.started.isoformat()}  # fmt: skip

    def go_on(self, taken: Samples) -> None:
        """Begin with samples of an earlier process."""
        self.samples, self.walls, self.emptying = taken["samples"], taken["walls"], taken["emptying"]
        self.parts, self.rounds, self.clocks = taken["parts"], taken["rounds"], taken["clocks"]
        self.started = datetime.fromisoformat(taken["started"])


def where(variant: Variant, device: Device) -> tuple[Device | None, str]:
    """(device, backend) on which `variant` runs when the lab runs on `device`; no device where it cannot.

    `host` variants and `sequential` run on the CPU of the machine, wherever the lab runs.
    """
    from ..devices.find import host_cpu

    try:
        if variant.backends == {"host"}:
            return host_cpu(), "host"
        if variant.options.get("device") == "host":
            return host_cpu(), "opencl"
    except Unsupported:
        return None, "host"
    if device.backend not in variant.backends:
        return None, device.backend
    if getattr(device, "architecture", variant.architectures.start) not in variant.architectures:
        return None, device.backend
    return device, device.backend


def keys(
    lab: Lab, case: Case, variant: Variant, device: Device, backend: str, policy: Policy, units: int, **more: str
) -> tuple[str, str]:
    """(cell_key, env_key) of a cell as the code and the machine are now. more: what else tells it from a timed cell."""
    cell = {
        "lab": lab.name,
        "variant": variant.name,
        "case": {"name": case.name, **case.params},
        "units": units,
        "dtype": variant.dtype,
        **variant.fingerprint(),
        "backend": backend,
        "policy": policy.identity(),
        "device": device.slug,
        **more,
    }
    return cell_key(cell), env_key(provenance.environment(device))


def twin(variants: Sequence[Variant]) -> Variant:
    """The variant that is measured twice as an A/A pair: the one that most others are compared with."""
    parents = [variant.parent for variant in variants]
    return max(variants, key=lambda variant: (parents.count(variant.name), -variants.index(variant)))


def measure(
    lab: Lab,
    case: Case,
    variants: Iterable[Variant],
    device: Device,
    *,
    run: str,
    policy: Policy | None = None,
    progress: Progress = lambda variant, what: None,
    keep: Callable[[list[dict[str, Any]]], Any],
    unfinished: Unfinished | None = None,
    go_on: bool = True,
    finished: Mapping[str, Collection[str]] | None = None,
) -> None:
    """Verify and time `variants` on `case`, and hand the rows to `keep`; also when interrupted, those that are whole.

    A variant that fails to build, is wrong, or runs out of memory or time becomes a failed row with its reason. Samples of
    cells that are not whole go to `unfinished`, now and then and at the end. go_on: what it has of them already counts, the
    rows are of the run that these were taken in, and cells that `finished` has of that run, by their keys, are left out.
    """
    policy = policy or Policy()
    inputs = lab.inputs(case, policy.seed)
    cells = list(_cells(lab, case, list(variants), device))
    aside = _Aside(lab, case, cells, run, policy, unfinished, go_on)
    cells = aside.left(cells, (finished or {}).get(aside.run, ()))
    try:
        references: dict[int, Mapping[str, Any]] = {}
        for number, cell in enumerate(cells, 1):
            progress(cell.variant.name, f"check, {number} of {len(cells)}")
            cell.reason = None if cell.samples else _too_long(lab, case, cell, policy)
            if not cell.reason:
                _prepare(lab, case, cell, inputs, references, policy)
        for group in _groups(cells, device):
            _sample(group, policy, progress, aside)
    finally:
        rows = [row(lab, case, cell, aside.run, policy) for cell in cells if cell.reason or cell.whole]
        for cell in cells:
            if cell.runnable:
                cell.runnable.close()
        kept = False
        try:
            if rows:
                keep(rows)
            kept = True
        finally:
            aside.keep(are_rows=kept)


def _cells(lab: Lab, case: Case, variants: list[Variant], device: Device) -> Iterable[Cell]:
    here = []
    for variant in variants:
        place, backend = where(variant, device)
        if place is None or lab.skip_reason(variant, case):
            continue
        here.append(variant)
        yield Cell(variant, variant.role, place, backend)
    candidates = [variant for variant in here if variant.role == "step" and where(variant, device)[0] is device]
    if len(candidates) > 1:
        again = twin(candidates)
        yield Cell(again, "again", device, device.backend)


def _groups(cells: list[Cell], device: Device) -> Iterable[list[Cell]]:
    """Cells that are interleaved: those of one device, so that a GPU does not idle while the host's CPU works.

    `device` comes first: what an interrupted run keeps is what it was called for.
    """
    ready = [cell for cell in cells if cell.runnable and not cell.reason]
    for slug in sorted({cell.device.slug for cell in ready}, key=lambda slug: slug != device.slug):
        yield [cell for cell in ready if cell.device.slug == slug]


def _too_long(lab: Lab, case: Case, cell: Cell, policy: Policy) -> str | None:
    """Why a plain loop nest on one core is not begun here: by its time on the lab's first quick case it outlasts the limit.

    Others use a small case too badly to be judged by it; they run once and are judged by that.
    """
    if cell.variant.options.get("device") != "host":
        return None
    small = lab.verification_case(lab.cases("quick")[0], cell.variant)
    done = lab.work(small).flops * small.units
    more = lab.work(case).flops * lab.units(case, cell.variant, cell.device) / done
    if more <= 1:
        return None
    trial = None
    try:
        trial = cell.variant.plan(cell.device, cell.variant, small, lab.inputs(small, policy.seed))
        seconds = more * _once(trial)
        if seconds > policy.limit_s:  # a driver may have compiled in the first run
            seconds = more * _once(trial)
    except Exception as error:
        return reason_of(error)
    finally:
        if trial:
            trial.close()
    if seconds <= policy.limit_s:
        return None
    return reason_of(
        OutOfTime(f"by its time on {small.name} it would take about {seconds:.0f} s, the limit is {policy.limit_s:g} s")
    )


def _prepare(
    lab: Lab,
    case: Case,
    cell: Cell,
    inputs: Mapping[str, Any],
    references: dict[int, Mapping[str, Any]],
    policy: Policy,
) -> None:
    """Verify a cell on poisoned outputs and make what will be timed; a failure becomes the cell's reason."""
    variant = cell.variant
    trial = None
    try:
        small = lab.verification_case(case, variant)
        trial = variant.plan(cell.device, variant, small, inputs)
        if small.units not in references:
            references[small.units] = lab.reference(small, inputs)
        seconds = _once(trial)
        cell.error, cell.bound, cell.compared = lab.check(small, variant, trial.outputs(), references[small.units])
        cell.reason = wrong(cell.error, cell.bound, cell.compared)
        if cell.reason:
            return
        units = lab.units(case, variant, cell.device)
        whole = seconds / small.units * units
        let_in = bool(cell.samples)  # before it was interrupted
        if whole > policy.limit_s and not let_in and (units > small.units or whole < policy.limit_s + COMPILING_S):
            whole = _once(trial) / small.units * units  # a driver may have compiled in the first run
        if whole > policy.limit_s and not let_in:
            raise OutOfTime(
                f"a run{f' of {units} x {lab.unit}' if units > 1 else ''} would take {whole:.0f} s,"
                f" the limit is {policy.limit_s:g} s"
            )
        if units == small.units:  # what was verified is what will be timed, and it is warm
            cell.runnable, trial, cell.warm = trial, None, True
        else:
            trial.close()
            trial = None
            timed = Case(case.name, case.scale, case.params, units)
            cell.runnable = variant.plan(cell.device, variant, timed, inputs)
        cell.runnable.reset()
    except Exception as error:
        cell.reason = reason_of(error)
    finally:
        if trial:
            trial.close()


def wrong(error: float, bound: float, compared: str) -> str | None:
    """The reason of a result that is not accepted; None for one that is."""
    return None if error <= bound else f"wrong result: error {error:.3g}, allowed {bound:.3g} ({compared})"


def _once(trial: Runnable) -> float:
    """Seconds of one run on poisoned outputs."""
    trial.reset()
    start = time.perf_counter()
    trial.run()
    return time.perf_counter() - start


def reason_of(error: Exception) -> str:
    """One line for a failed row. What is not a failure of the kernel or the device is a defect of ours and is raised."""
    known: dict[type[Exception], str] = {
        BuildFailed: "does not build",
        OutOfMemory: "out of memory",
        MemoryError: "out of memory",
        OutOfTime: "out of time",
        Unsupported: "not supported here",
        DriverFailed: "the driver refused",
    }
    said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    for kind, words in known.items():
        if isinstance(error, kind):
            return f"{words}: {said}"
    if type(error).__module__.split(".")[0] in ("pyopencl", "cupy", "cupy_backends"):
        return f"{type(error).__name__}: {said}"
    raise error


class _Aside:
    """Puts samples aside until they are rows, so that an interrupted case goes on where it was, in the run that it began in."""

    EVERY_S = 30
    """Seconds of samples that are lost at most where nothing tells the process that it ends."""

    def __init__(
        self,
        lab: Lab,
        case: Case,
        cells: Sequence[Cell],
        run: str,
        policy: Policy,
        unfinished: Unfinished | None,
        go_on: bool,
    ) -> None:
        self.run, self.unfinished, self.last = run, unfinished, time.perf_counter()
        self.cells: dict[str, Cell] = {}
        if unfinished is None:
            return
        for cell in cells:
            units = lab.units(case, cell.variant, cell.device)
            found = keys(lab, case, cell.variant, cell.device, cell.backend, policy, units)
            self.cells[key_of(*found, cell.role)] = cell
        begun = {
            key: taken
            for key, taken in unfinished.cells.items()
            if go_on and key in self.cells and taken.keys() == self.cells[key].taken(run).keys()
        }
        self.run = max((taken["run"] for taken in begun.values()), default=run)
        for key, taken in begun.items():
            if taken["run"] == self.run:
                self.cells[key].go_on(taken)

    def left(self, cells: Sequence[Cell], rows: Collection[str]) -> list[Cell]:
        """Those of the cells that are no rows yet."""
        done = [cell for key, cell in self.cells.items() if key in rows]
        for cell in done:
            cell.whole = True  # one that was killed before its samples were dropped drops them now
        return [cell for cell in cells if not any(cell is each for each in done)]

    def now_and_then(self) -> None:
        if time.perf_counter() - self.last > self.EVERY_S:
            self.keep()

    def keep(self, *, are_rows: bool = False) -> None:
        """are_rows: of cells that are whole or failed there are rows by now."""
        self.last = time.perf_counter()
        if self.unfinished:
            done = {key for key, cell in self.cells.items() if cell.reason or (cell.whole and are_rows)}
            taken = {key: cell.taken(self.run) for key, cell in self.cells.items() if key not in done and cell.clocks}
            self.unfinished.keep(taken, done)


def _sample(cells: list[Cell], policy: Policy, progress: Progress, aside: _Aside) -> None:
    flush = _flush_of(cells[0].device) if policy.cache == "cold" else lambda: None
    clocks = provenance.Clocks(cells[0].device.nvml_index)
    active = []
    for cell in cells:
        progress(cell.variant.name, "warm up")
        try:
            assert cell.runnable is not None
            if not cell.warm:
                cell.runnable.run()
            active.append(cell)
        except Exception as error:
            cell.reason = reason_of(error)
    due = [set(cell.rounds) for cell in active if not _enough(cell, policy)]
    cut = set[int]().union(*due) - set[int].intersection(*due) if due else set[int]()
    order = random.Random(policy.seed)
    for number in count(max((1 + max(cell.rounds) for cell in active if cell.rounds), default=0)):
        # Drawn anew every second round and walked back in between: a drift then favours no place in the row.
        if number % 2 == 0:
            order.shuffle(active)
        else:
            active.reverse()
        for cell in (each for each in active if len(each.samples) < policy.maximum):
            progress(cell.variant.name, f"sample {number + 1} of at most {policy.maximum}")
            start = time.perf_counter()
            flush()
            cell.emptying += time.perf_counter() - start
            try:
                assert cell.runnable is not None
                start = time.perf_counter()
                told = cell.runnable.run()
                seconds = time.perf_counter() - start
            except Exception as error:
                cell.reason = reason_of(error)
                continue
            cell.samples.append(seconds if told is None else told)
            cell.walls.append(seconds)
            for name, part in cell.runnable.parts.items():
                cell.parts.setdefault(name, []).append(part)
            cell.rounds.append(number)
            cell.clocks.append(clocks.read())
            aside.now_and_then()
        for cell in active:
            if not cell.reason and (number + 1 >= policy.maximum or _enough(cell, policy, cut)):
                try:
                    assert cell.runnable is not None
                    cell.facts, cell.whole = cell.runnable.facts(), True
                except Exception as error:
                    cell.reason = reason_of(error)
        active = [cell for cell in active if not cell.reason and not cell.whole]
        if not active:
            break


def _enough(cell: Cell, policy: Policy, cut: Collection[int] = ()) -> bool:
    """cut: rounds that an interrupt cut short. They pair with few others, so that their samples are not of the least."""
    n, spent = len(set(cell.rounds).difference(cut)), sum(cell.walls)
    if n < policy.minimum:
        return n >= policy.scarce and spent / len(cell.walls) >= policy.budget_s
    return spent + cell.emptying >= policy.budget_s or stats.relative_standard_error(cell.samples) < policy.noise


class _Flush:
    """Overwrites the device's last cache by a copy. On a GPU at least 256 MiB: OpenCL tells of the first level only.

    A CPU copies with all its cores, each a part: a memcpy is one core's work, and most of a quick sample's time.
    """

    def __init__(self, device: Device) -> None:
        size = max(device.cache_bytes, (256 << 20) if device.kind == "gpu" else (8 << 20))
        parts = device.compute_units if device.kind == "cpu" else 1
        import numpy as np

        drawn = np.random.default_rng(0).integers(
            0, 255, 1 << 20, np.uint8
        )  # what it holds is no matter: a MiB, repeated
        held = np.resize(drawn, -(-size // parts))
        self.copies = [(device.queue(), device.empty(held.nbytes), device.upload(held)) for _ in range(parts)]

    def __call__(self) -> None:
        for queue, target, source in self.copies:
            queue.copy(target, source)
        for queue, _, _ in self.copies:
            queue.finish()


@lru_cache(maxsize=2)  # a lab's device and its host
def _flush_of(device: Device) -> _Flush:
    """Made once for all cases: to fill its buffers takes as long as to sample a quick cell."""
    return _Flush(device)


def written(policy: Policy) -> str:
    """As a row has it."""
    return json.dumps(asdict(policy), sort_keys=True)


def row(lab: Lab, case: Case, cell: Cell, run: str, policy: Policy) -> dict[str, Any]:
    """The row of the store that a cell becomes."""
    variant = cell.variant
    units = cell.runnable.units if cell.runnable else lab.units(case, variant, cell.device)
    key, environment = keys(lab, case, variant, cell.device, cell.backend, policy, units)
    work = lab.work(case)
    amount, rate = lab.rate(case)
    return {
        "run": run,
        "started": cell.started,
        "lab": lab.name,
        "variant": variant.name,
        "parent": variant.parent,
        "case": case.name,
        "scale": case.scale,
        "role": cell.role,
        "axis": variant.axis,
        "point": variant.point,
        "dtype": variant.dtype,
        "device": cell.device.slug,
        "device_name": cell.device.name,
        "device_kind": cell.device.kind,
        "backend": cell.backend,
        "policy": written(policy),
        "timed": lab.timed,
        "unit": lab.unit,
        "units": units,
        "cell_key": key,
        "env_key": environment,
        "source_sha256": variant.source.sha256 if variant.source else None,
        "status": "failed" if cell.reason else "ok",
        "reason": cell.reason,
        "samples_s": [] if cell.reason else cell.samples,
        "wall_s": [] if cell.reason else cell.walls,
        "rounds": [] if cell.reason else cell.rounds,
        "flops": work.flops,
        "bytes": lab.traffic(case, variant),
        "error": cell.error,
        "bound": cell.bound,
        "clock_mhz": [value for read in cell.clocks if (value := read["clock_mhz"]) is not None],
        "temperature_c": [value for read in cell.clocks if (value := read["temperature_c"]) is not None],
        "throttle": sorted({reason for read in cell.clocks for reason in read["throttle"]}),
        "extra": json.dumps({"rate_amount": amount, "rate_unit": rate, "footprint": work.footprint,
                             "error_is": cell.compared, "parts": cell.parts, **cell.facts}),
        "provenance": json.dumps(provenance.snapshot(cell.device)),
    }  # fmt: skip
