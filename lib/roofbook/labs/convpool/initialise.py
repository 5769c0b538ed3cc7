"""The time that a new process needs on a device: until it has a context with a buffer, and until a first kernel has run."""

import json
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device, DriverFailed
from ...spec.plan import Case, Plan, Variant, least_bytes, no_conditions
from ...spec.source import Source
from .problem import CASES

VALUES = 1024


class Initialisation(Plan):
    """A new process opens the device and runs one kernel, which sets `VALUES` integers to zero."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        first = CASES["test"][0]
        is_further = case.scale == "test" and case.name != first
        return f"on {first} alone: it computes no layer" if is_further else None

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.units, self.left = device, case.units, VALUES

    def reset(self) -> None:
        self.left = VALUES

    def run(self) -> float:
        program = f"import json; from {__name__} import main; print(json.dumps(main({self.device.spec!r})))"
        command = [sys.executable, "-c", program]
        process = subprocess.run(command, capture_output=True, text=True, check=False)
        if process.returncode:
            raise DriverFailed((process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
        measured = json.loads(process.stdout)
        self.left, self.parts = measured["left"], {name: measured[name] for name in ("context", "first kernel")}
        return float(sum(self.parts.values()))

    def outputs(self) -> dict[str, np.ndarray]:
        return {"left": np.array(self.left)}


def main(spec: str) -> dict[str, float]:
    """Open a device and run a kernel. Return the seconds of each step, and the number `left` of integers that are not zero."""
    from ...devices.find import open_device

    source = Source.of(Path(__file__).with_name("pool.k"), FILTERS=VALUES, SIZE=2)
    texts = {dialect: source.render(dialect) for dialect in ("opencl", "cuda")}
    if spec.startswith("cuda"):
        import cupy  # noqa: F401
    else:
        import pyopencl  # noqa: F401
    start = time.perf_counter()
    device = open_device(spec, "opencl")
    queue, buffer = device.queue(), device.upload(np.full(VALUES, -1, np.int32))
    context_end = time.perf_counter()
    queue.launch(device.build(texts[device.backend]).kernel("clear"), (VALUES,), (256,), buffer)
    queue.finish()
    kernel_end = time.perf_counter()
    left = int(np.count_nonzero(queue.read(buffer, np.empty(VALUES, np.int32))))
    return {"context": context_end - start, "first kernel": kernel_end - context_end, "left": left}
