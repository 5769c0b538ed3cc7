"""A made-up lab and a made-up device, timed by a clock that the tests set."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np

from roofbook.devices import contract
from roofbook.measure.case_run import measure_case
from roofbook.measure.placement import Setting
from roofbook.measure.policy import Policy
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Variant

from ..plain_plan import PlainPlan

RIGHT = np.arange(1.0, 9.0)
CASE = Case("small", "test", {"n": 8}, units=10)
QUIET = Policy(cache="warm", budget_s=1000, noise=0.0, minimum=10, maximum=12)
"""Policy that takes all 12 samples of each measurement."""


class Clock:
    """Seconds that pass only when a test lets them."""

    def __init__(self) -> None:
        self.now = 100.0

    def perf_counter(self) -> float:
        return self.now


class Log(list[tuple[str, str]]):
    """Events as (variant, event), in the order in which they happened."""

    def of(self, event: str) -> list[str]:
        return [name for name, logged in self if logged == event]


class Made(PlainPlan):
    """A plan that the options of its variant control: how long a run takes, which values it returns, where it fails."""

    def __init__(self, device: Any, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.name, self.units, self.options = device, variant.name, case.units, variant.options
        self.timed = case.units == CASE.units
        self.runs = 0
        self.held = 0.0
        self.hold(self.options.get("holds", 0.0))
        self.step(f"plan on {inputs['name']}" if "name" in inputs else "plan")
        seconds = self.options.get("seconds", 0.1)
        self.seconds = cycle(seconds if isinstance(seconds, list) else [seconds])

    def step(self, stage: str) -> None:
        """Log a stage; raise the error that the options have for it, such as {'run': error} or {'timed run 4': error}."""
        self.device.log.append((self.name, f"{'timed' if self.timed else 'trial'} {stage}"))
        failures = self.options.get("fails", {})
        for key in (stage, f"timed {stage}" if self.timed else f"trial {stage}"):
            if key in failures:
                raise failures[key]

    def hold(self, share: float) -> None:
        """Take this share of the device's memory in addition."""
        if share > self.device.room:
            self.device.log.append((self.name, "no room"))
            raise contract.OutOfMemory("more than is left")
        self.held += share
        self.device.room -= share

    def reset(self) -> None:
        self.step("reset")
        self.values = np.full(8, np.nan)

    def run(self) -> float | None:
        if self.timed and self.runs and np.isnan(self.values).any():  # as the check after the last sample has it
            self.step("last run")
            self.values = np.array(self.options.get("last", self.options.get("value", RIGHT)), float)
            return None
        self.runs += 1
        if self.timed and self.runs == self.options.get("grows", (0, 0))[0]:
            self.hold(self.options["grows"][1])
        self.device.clock.now += next(self.seconds) * (1 if self.timed else self.units / CASE.units)
        if not self.timed and self.runs == 1:
            self.device.clock.now += self.options.get("compiles", 0)
        self.step("run")
        self.step(f"run {self.runs}")
        self.values = np.array(self.options.get("value", RIGHT), float)
        own_time: float | None = self.options.get("told")
        return own_time

    def outputs(self) -> dict[str, np.ndarray]:
        self.step("outputs")
        return {"values": self.values}

    def facts(self) -> dict[str, Any]:
        self.step("facts")
        return {"group": "64x1"}

    def close(self) -> None:
        self.hold(-self.held)
        self.step("close")


class Memory(contract.Buffer):
    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def release(self) -> None:
        """Nothing is held."""


class Queue(contract.Queue):
    def __init__(self, log: Log) -> None:
        self.log = log

    def launch(
        self, kernel: contract.Kernel, global_size: Sequence[int], local_size: Sequence[int], *args: Any
    ) -> None:
        raise NotImplementedError

    def write(self, buffer: contract.Buffer, array: np.ndarray) -> None:
        assert array.nbytes <= buffer.nbytes and array.min() < array.max(), (
            "zeros flush nothing on hardware that compresses them"
        )

    def read(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> np.ndarray:
        raise NotImplementedError

    def copy(self, target: contract.Buffer, source: contract.Buffer) -> None:
        assert target is not source
        self.log.append(("flush", "copy"))
        assert min(source.nbytes, target.nbytes) >= Device.cache_bytes > 1 << 22

    def send(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> None:
        raise NotImplementedError

    def receive(self, buffer: contract.Buffer, array: np.ndarray, offset: int = 0) -> None:
        raise NotImplementedError

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        raise NotImplementedError

    def finish(self) -> None:
        self.log.append(("flush", "finish"))


class Device(contract.Device):
    """A made-up device with a log and a clock."""

    backend, kind, name, spec = "opencl", "cpu", "Made Up 1000", "opencl:0"
    compute_units = max_work_group = max_clock_mhz = 1
    memory_bytes, cache_bytes, local_bytes = 1 << 30, 20 << 20, 1 << 15

    def __init__(self, log: Log, clock: Clock, name: str = "Made Up 1000") -> None:
        self.log, self.clock, self.name, self.room = log, clock, name, 1.0

    def identity(self) -> dict[str, str]:
        return {"backend": self.backend, "model": self.name, "driver": "1.0"}

    def build(self, text: str, options: Sequence[str] = ()) -> contract.Program:
        raise NotImplementedError

    def empty(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def queue(self, profiling: bool = False) -> Queue:
        return Queue(self.log)


class Toy(Lab):
    """A lab with eight values, verified on 2 units and timed on 10."""

    name, title, preferred_backend, unit, timed, bases, best = "toy", "Toy", "opencl", "pass", "loop", ("a",), "a"
    allowed = 0.5

    def __init__(self, *variants: Variant) -> None:
        self.ladder = variants
        self.references = 0

    def cases(self, scale: str) -> Sequence[Case]:
        return [CASE]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"seed": seed}

    def verification_case(self, case: Case, variant: Variant) -> Case:
        return replace(case, units=2)

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        self.references += 1
        return {"values": RIGHT}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        if outputs["values"].shape != reference["values"].shape:
            raise ValueError("shapes differ")
        return float(np.abs(outputs["values"] - reference["values"]).max()), self.allowed, "largest difference"

    def work(self, case: Case) -> Work:
        return Work(flops=2e9, bytes=3.0, footprint=4.0)

    def traffic(self, case: Case, variant: Variant) -> float:
        return float(variant.options.get("moves", super().traffic(case, variant)))

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        return "not on this case" if variant.options.get("skipped") else None


def made(
    name: str, parent: str | None = None, role: str = "step", needs: Sequence[str] = (), **options: Any
) -> Variant:
    return Variant(name, parent, None, Made, "", "", frozenset(needs), role, options)


class Bench:
    """Measures variants of the toy lab, and has their rows and a log of all events."""

    def __init__(self) -> None:
        self.log, self.clock = Log(), Clock()
        self.device = Device(self.log, self.clock)
        self.rows: list[dict[str, Any]] = []
        self.told: list[tuple[str, str]] = []
        self.lab = Toy()

    def __call__(self, *variants: Variant, policy: Policy = QUIET, **arguments: Any) -> list[dict[str, Any]]:
        self.lab.ladder = variants
        self.log.clear()
        self.rows = []
        settings: dict[str, Any] = {"run": "20260101T000000Z-abcdef", "keep": self.rows.extend, **arguments}
        measure_case(
            Setting(self.lab, CASE, self.device, policy), variants,
            progress=lambda variant, stage: self.told.append((variant, stage)), **settings,
        )  # fmt: skip
        return self.rows

    def row(self, name: str, role: str = "step") -> dict[str, Any]:
        (wanted_row,) = (row for row in self.rows if (row["variant"], row["role"]) == (name, role))
        return wanted_row


def samples_by_round(rows: Sequence[Mapping[str, Any]], log: Log) -> list[list[str]]:
    """Return the names of the variants in the order of each round, from the log of runs."""
    runs = [name for name in log.of("timed run")]
    rounds: list[list[str]] = []
    at = len(rows)  # each was warmed up by one run
    for number in range(max(number for row in rows for number in row["rounds"]) + 1):
        taking_part = sum(number in row["rounds"] for row in rows)
        rounds.append(runs[at : at + taking_part])
        at += taking_part
    assert at == len(runs)
    return rounds
