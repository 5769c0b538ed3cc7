"""The process that a tool for races watches: `python -m roofbook.measure.sanitized ORDER`. Serves sanitize.py, which starts it.

Runs variants once, each on the lab's own checking case, and compares their results. Kernels tell the tool their lines.
"""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..devices import cuda, opencl
from ..devices.contract import Device
from ..devices.opencl import SIMULATOR
from ..spec import registry
from ..spec.lab import Case, Lab, Variant
from ..spec.source import lined
from .ncu import open_cuda
from .sanitize import BEGINS
from .verify import reason_of, wrong

UNOPTIMISED = ("-cl-opt-disable",)


class SimulatedDevice(opencl.OpenCLDevice):
    """Oclgrind's device, with options of its own for each kernel."""

    def __init__(self, own: Sequence[str] = ()) -> None:
        (found,) = opencl.simulators()
        super().__init__(found.device, 0)
        self.own = own

    def build(self, text: str, options: Sequence[str] = ()) -> opencl.Program:
        return super().build(text, (*options, *self.own))


class LinedDevice(cuda.CudaDevice):
    """A CUDA device whose kernels keep their lines."""

    def build(self, text: str, options: Sequence[str] = ()) -> cuda.Program:
        return super().build(text, (*options, "-lineinfo"))


def run(lab: Lab, variant: Variant, case: Case, device: Device, *, seed: int, compare: bool = True) -> dict[str, Any]:
    """`error`, `tolerance` and what was `compared`, each None without `compare`; else the `reason` why it did not run."""
    runnable = None
    try:
        small = lab.verification_case(case, variant)
        inputs = lab.verification_inputs(small, lab.verified_on(variant), lab.inputs(case, seed))
        with lined():
            runnable = variant.plan(device, variant, small, inputs)
            runnable.reset()
            runnable.run()
        if not compare:
            return {"error": None, "tolerance": None, "compared": None}
        right = lab.reference(small, inputs)
        error, tolerance, compared = lab.check(small, variant, runnable.outputs(), right)
        return {"error": float(error), "tolerance": float(tolerance), "compared": compared}
    except Exception as why:
        return {"reason": reason_of(why)}
    finally:
        if runnable:
            runnable.close()


def simulate(lab: Lab, variant: Variant, case: Case, *, seed: int, compare: bool) -> dict[str, Any]:
    """`run` under Oclgrind, with the `tool` and whether the kernel was `optimised`.

    A result that is wrong is computed once more from code that no optimiser touched: Oclgrind extends the sign of a vector of
    conditions wrongly, which only optimised code does to what a scalar decides.
    """
    told: dict[str, Any] = {}
    for own in ((), UNOPTIMISED):
        device = SimulatedDevice(own)
        tool = f"{SIMULATOR} {device.device.driver_version.rpartition(' ')[2]}"
        told = {**run(lab, variant, case, device, seed=seed, compare=compare), "tool": tool, "optimised": not own}
        if not compare or "reason" in told or not wrong(told["error"], told["tolerance"], told["compared"]):
            break
    return told


def main(order: str) -> None:
    """Write a line of JSON for each variant of the order, which `sanitize` writes."""
    os.chdir("/")  # a compiler names files from the folder that they share with the one where it runs
    given = json.loads(order)
    lab = registry.get(given["lab"])
    lab.prepare()
    with Path(given["out"]).open("a") as out:
        for name, size, scale in given["chosen"]:
            print(BEGINS.format(name), file=sys.stderr, flush=True)
            variant, case, seed = lab.variant(name), lab.case(size, scale), given["seed"]
            if given["device"] is None:
                told = simulate(lab, variant, case, seed=seed, compare=not given["ends"])
            else:
                place = LinedDevice(int(open_cuda(given["device"]).spec.partition(":")[2]))
                told = {**run(lab, variant, case, place, seed=seed), "tool": "compute-sanitizer"}
            print(json.dumps(told), file=out, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
