"""Chains of arithmetic (made up for the tests of the gate): kernels of known length, into which a slowdown can be planted.

The dictionary below names variants and their extra steps in thousandths: to edit that line is the change that a gate sees.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roofbook.devices.contract import Device
from roofbook.spec.kernel_run import KernelRun
from roofbook.spec.lab import Lab, Work
from roofbook.spec.plan import Case, Variant, least_bytes, no_conditions
from roofbook.spec.source import Source

PLANTED: dict[str, int] = {}
ITEMS = 64
LENGTHS = {f"chain-{number}": 8000 + 1000 * number for number in range(8)}


class Chain(KernelRun):
    """One work-group, so one core of a CPU."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        assert variant.source
        self.group = self.size = (ITEMS,)
        self.kernel = device.build(variant.source.render(device.backend)).kernel("chain")
        self.start, self.out = self.buffers = [device.upload(inputs["start"]), device.upload(inputs["start"])]

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.start, self.out, np.uint32(0))

    def reset(self) -> None:
        self.queue.write(self.out, np.arange(ITEMS, dtype=np.uint32))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"out": self.queue.read(self.out, np.empty(ITEMS, np.uint32)).astype(np.int64)}


def made(name: str, steps: int) -> Variant:
    extra = {"EXTRA": steps * PLANTED[name] // 1000} if name in PLANTED else {}
    source = Source.of(Path(__file__).parent / "chain.k", STEPS=steps, **extra)
    return Variant(name, None, source, Chain, "", "", options={"steps": steps})


class Chains(Lab):
    """The lab. Each variant is a chain of its own length."""

    name, title, preferred_backend, unit, timed = "chains", "Chains", "opencl", "call", "kernel"
    bases, best, cache = ("chain-0",), "chain-0", "warm"
    ladder = tuple(made(name, steps) for name, steps in LENGTHS.items())

    def cases(self, scale: str) -> Sequence[Case]:
        return [Case("one-group", scale, {"items": ITEMS}, units=1)]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        return {"start": np.random.default_rng(seed).integers(0, 1 << 32, ITEMS, np.uint32)}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """By squaring: x -> a x + b, so many times."""
        ends = {}
        for name, steps in LENGTHS.items():
            a, b, factor, term = 1, 0, 1664525, 1013904223
            while steps:
                if steps & 1:
                    a, b = a * factor % (1 << 32), (b * factor + term) % (1 << 32)
                factor, term, steps = factor * factor % (1 << 32), term * (factor + 1) % (1 << 32), steps >> 1
            ends[name] = (inputs["start"].astype(np.uint64) * a + b) % (1 << 32)
        return ends

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        """Whole numbers: each is right or wrong."""
        return float((outputs["out"] != reference[variant.name].astype(np.int64)).sum()), 0.0, "wrong numbers"

    def work(self, case: Case) -> Work:
        return Work(1.0, 8.0 * ITEMS, 8.0 * ITEMS)


LAB = Chains()
