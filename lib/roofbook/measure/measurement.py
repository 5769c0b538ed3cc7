"""One variant on one case on its device, on its way to a row of the store. Each module of measure/ adds its part."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ..devices.contract import Device
from ..spec.lab import Runnable, Variant
from .buffer_ledger import BufferLedger

Samples = Mapping[str, Any]
"""What was taken of a measurement: its run, times, parts, rounds, clocks, which samples were judged, and when it began; as
JSON has it."""


class Check(NamedTuple):
    """An error of outputs, the largest that is accepted, and what the error is of."""

    error: float
    tolerance: float
    compared: str

    def share(self) -> float:
        """Error over tolerance; infinite where it is a NaN or where none is allowed."""
        share = self.error / self.tolerance if self.tolerance else math.inf * self.error if self.error else 0.0
        return math.inf if math.isnan(share) else share


@dataclass
class Measurement:
    """What is known of it so far: that it failed, how far it is right, its samples and the clocks beside them."""

    variant: Variant
    role: str
    device: Device
    backend: str
    runnable: Runnable | None = None
    ledger: BufferLedger = field(default_factory=BufferLedger)
    """Device buffers of `runnable`."""
    reason: str | None = None
    """Why it failed; None as long as it did not."""
    checks: list[Check] = field(default_factory=list)
    """Checks of its outputs: before it is timed, on inputs by `seed`, and after its last sample, on those that were timed."""
    seed: int | None = None
    """Drawn for the run."""
    samples: list[float] = field(default_factory=list)
    """Seconds of what the lab times."""
    walls: list[float] = field(default_factory=list)
    """Seconds of the whole call, the host's work included."""
    emptying: float = 0.0
    """Seconds for which the cache was emptied for it."""
    parts: dict[str, list[float]] = field(default_factory=dict)
    """Seconds of each part, by its name."""
    rounds: list[int] = field(default_factory=list)
    poisoned: list[int] = field(default_factory=list)
    """Numbers of the samples before which outputs were poisoned, and whose own outputs were checked."""
    sample_checks: list[Check] = field(default_factory=list)
    """Checks of the outputs of `poisoned` samples, those of this process."""
    clocks: list[dict[str, Any]] = field(default_factory=list)
    neighbours: dict[str, Any] = field(default_factory=dict)
    """How busy the host's other cards were, `before` and `after` its samples; empty for a CPU."""
    facts: dict[str, Any] = field(default_factory=dict)
    run_s: float = 0.0
    """Seconds that a timed run takes, by the run on which it was verified."""
    sampled: bool = False
    """All its samples are taken..."""
    whole: bool = False
    """...and it was verified again. An interrupted one becomes no row: it would pass for fresh with a few samples."""
    started: datetime = field(default_factory=lambda: datetime.now(UTC))

    def start_over(self) -> None:
        """Forget what was found and taken of it: it is made ready once more."""
        self.emptying, self.parts = 0.0, {}
        self.checks, self.samples, self.walls, self.rounds, self.clocks = [], [], [], [], []
        self.poisoned, self.sample_checks = [], []

    def release(self) -> None:
        """Give the device's memory back; what was measured stays. An error of it becomes the reason, unless there is one."""
        runnable, self.runnable, self.ledger = self.runnable, None, BufferLedger()
        if runnable:
            try:
                runnable.close()
            except Exception as error:
                self.reason = self.reason or f"close: {type(error).__name__}: {error}"

    @property
    def nearest(self) -> Check:
        """The check whose error comes nearest to its tolerance, or exceeds it; NaN for none."""
        return max((*self.checks, *self.sample_checks), key=Check.share, default=Check(math.nan, math.nan, ""))

    def taken(self, run: str) -> Samples:
        """What `go_on` takes: of samples that are noted whole, their clocks last. An interrupt can come in the midst."""
        n = len(self.clocks)
        parts = {name: each[:n] for name, each in self.parts.items()}
        return {"run": run, "samples": self.samples[:n], "walls": self.walls[:n], "emptying": self.emptying, "parts": parts,
                "rounds": self.rounds[:n], "poisoned": [number for number in self.poisoned if number < n],
                "clocks": self.clocks, "started": self.started.isoformat()}  # fmt: skip

    def go_on(self, taken: Samples) -> None:
        """Begin with samples of an earlier process."""
        self.samples, self.walls, self.emptying = taken["samples"], taken["walls"], taken["emptying"]
        self.parts, self.rounds, self.clocks = taken["parts"], taken["rounds"], taken["clocks"]
        self.poisoned = taken["poisoned"]
        self.started = datetime.fromisoformat(taken["started"])
