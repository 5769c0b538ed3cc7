"""A measurement: one variant on one case and device, until it becomes a row of the store. All of measure/ works on it."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..devices.contract import Device
from ..spec.plan import Runnable, Variant
from .buffer_ledger import BufferLedger

Samples = Mapping[str, Any]
"""Samples of a measurement for JSON: its run, times, parts, rounds, clocks, the judged samples, and when it began."""


class Check(NamedTuple):
    """Error of outputs, the largest error that is accepted, and the name of the compared quantity."""

    error: float
    tolerance: float
    compared: str

    def share(self) -> float:
        """Return error / tolerance; infinity if it is a NaN, or if an error has tolerance 0."""
        share = self.error / self.tolerance if self.tolerance else math.inf * self.error if self.error else 0.0
        return math.inf if math.isnan(share) else share


@dataclass
class Measurement:
    """State of a measurement: its runnable, checks, samples, clocks, and the reason if it failed."""

    variant: Variant
    role: str
    device: Device
    backend: str
    runnable: Runnable | None = None
    ledger: BufferLedger = field(default_factory=BufferLedger)
    """Device buffers of `runnable`."""
    reason: str | None = None
    """Why it failed; None if it did not."""
    checks: list[Check] = field(default_factory=list)
    """Checks of its outputs: before the samples, on inputs by `seed`, and after the last sample, on the timed inputs."""
    seed: int | None = None
    """Seed of the inputs of the first check, drawn for the run."""
    samples: list[float] = field(default_factory=list)
    """Seconds of the part of each run that the lab times."""
    walls: list[float] = field(default_factory=list)
    """Seconds of each whole call, the host's work included."""
    emptying: float = 0.0
    """Seconds spent on emptying the cache before its samples."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each part, by its name."""
    rounds: list[int] = field(default_factory=list)
    poisoned: list[int] = field(default_factory=list)
    """Numbers of the samples that were taken on poisoned outputs and then checked."""
    sample_checks: list[Check] = field(default_factory=list)
    """Checks of the outputs of those `poisoned` samples that this process took."""
    clocks: list[dict[str, Any]] = field(default_factory=list)
    neighbours: dict[str, Any] = field(default_factory=dict)
    """Load of the host's other cards, `before` and `after` its samples; empty for a CPU."""
    facts: dict[str, Any] = field(default_factory=dict)
    run_s: float = 0.0
    """Expected seconds of a timed run, from the run that verified it."""
    sampled: bool = False
    """Whether all its samples are taken."""
    is_complete: bool = False
    """Whether it was verified again after its last sample. Only then it becomes a row."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def planned(self) -> Runnable:
        """The runnable of a measurement that is ready."""
        assert self.runnable is not None
        return self.runnable

    def start_over(self) -> None:
        """Drop its checks and samples, so that it can be prepared once more."""
        self.emptying, self.parts = 0.0, {}
        self.checks, self.samples, self.walls, self.rounds, self.clocks = [], [], [], [], []
        self.poisoned, self.sample_checks = [], []

    def release(self) -> None:
        """Release the device's memory and keep the samples. An error of closing becomes the reason, unless there is one."""
        runnable, self.runnable, self.ledger = self.runnable, None, BufferLedger()
        if runnable:
            try:
                runnable.close()
            except Exception as error:
                self.reason = self.reason or f"close: {type(error).__name__}: {error}"

    @property
    def nearest(self) -> Check:
        """Check with the largest error relative to its tolerance; NaN without any check."""
        return max((*self.checks, *self.sample_checks), key=Check.share, default=Check(math.nan, math.nan, ""))

    def samples_so_far(self, run: str) -> Samples:
        """Return the samples that are complete, for `resume`. Clocks are recorded last; an interrupt may come before."""
        n = len(self.clocks)
        parts = {name: seconds[:n] for name, seconds in self.parts.items()}
        return {"run": run, "samples": self.samples[:n], "walls": self.walls[:n], "emptying": self.emptying, "parts": parts,
                "rounds": self.rounds[:n], "poisoned": [number for number in self.poisoned if number < n],
                "clocks": self.clocks, "started": self.started.isoformat()}  # fmt: skip

    def resume(self, samples_so_far: Samples) -> None:
        """Continue with samples of an earlier process."""
        self.samples, self.walls, self.emptying = (
            samples_so_far["samples"],
            samples_so_far["walls"],
            samples_so_far["emptying"],
        )
        self.parts, self.rounds, self.clocks = (
            samples_so_far["parts"],
            samples_so_far["rounds"],
            samples_so_far["clocks"],
        )
        self.poisoned = samples_so_far["poisoned"]
        self.started = datetime.fromisoformat(samples_so_far["started"])
