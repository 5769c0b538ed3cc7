"""The process that a race checker watches: `python -m roofbook.measure.sanitizer_worker ORDER`. sanitize.py starts it.

It runs each variant once, on the lab's verification case, and compares the result. Kernels are compiled with line numbers.
"""

import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ..devices import cuda, opencl
from ..devices.contract import Device
from ..devices.opencl import SIMULATOR
from ..spec import registry
from ..spec.lab import Case, Lab, Variant
from ..spec.source import line_directives
from .checked_runnable import check_of, checked_runnable, close_silently, plain_text, same_shapes
from .ncu import open_cuda
from .verify import reason_if_wrong, reason_of

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


def run(
    lab: Lab, variant: Variant, case: Case, device: Device, *, seed: int, compare: bool = True,
    announce: Callable[[str], Any] = lambda stage: None,
) -> dict[str, Any]:  # fmt: skip
    """Return `error`, `tolerance` and what was `compared`, each None without `compare`; else the `reason` why it did not run.

    announce: takes what the variant is at.
    """
    runnable = None
    try:
        announce("inputs")
        small = lab.verification_case(case, variant)
        inputs = lab.verification_inputs(small, lab.verified_on(variant), lab.inputs(case, seed))
        with line_directives():
            announce("plan")
            runnable = checked_runnable(variant.plan(device, variant, small, inputs), announce)
            announce("run")
            runnable.reset()
            runnable.run()
        if compare:
            outputs = runnable.outputs()
            announce("check")
            right = lab.reference(small, inputs)
            same_shapes(outputs, right)
            result = check_of(lab.check(small, variant, outputs, right))._asdict()
        else:
            result = {"error": None, "tolerance": None, "compared": None}
        closing, runnable = runnable, None
        closing.close()
        return result
    except Exception as why:
        return {"reason": plain_text(reason_of(why))}
    finally:
        close_silently(runnable)


def simulate(
    lab: Lab,
    variant: Variant,
    case: Case,
    *,
    seed: int,
    compare: bool,
    announce: Callable[[str], Any] = lambda stage: None,
) -> dict[str, Any]:
    """`run` under Oclgrind, with the `tool` and whether the kernel was `optimised`.

    A result that is wrong is computed once more from code that no optimiser touched: Oclgrind extends the sign of a vector of
    conditions wrongly, which only optimised code does to what a scalar decides.
    """
    told: dict[str, Any] = {}
    for own in ((), UNOPTIMISED):
        device = SimulatedDevice(own)
        tool = f"{SIMULATOR} {device.device.driver_version.rpartition(' ')[2]}"
        told = {
            **run(lab, variant, case, device, seed=seed, compare=compare, announce=announce),
            "tool": tool,
            "optimised": not own,
        }
        if not compare or "reason" in told or not reason_if_wrong(told["error"], told["tolerance"], told["compared"]):
            break
    return told


def main(order: str) -> None:
    """Write a line of JSON for each variant of the order, which `sanitize` writes."""
    os.chdir("/")  # a compiler names files from the folder that they share with the one where it runs
    given = json.loads(order)
    lab = registry.get(given["lab"])
    lab.prepare()
    with Path(given["out"]).open("a") as out:

        def write(**message: Any) -> None:
            print(json.dumps(message), file=out, flush=True)

        for name, size, scale in given["chosen"]:
            print(f"\n{given['mark']}{name}", file=sys.stderr, flush=True)

            def announce(stage: str, name: str = name) -> None:
                write(variant=name, stage=stage)

            variant, case, seed = lab.variant(name), lab.case(size, scale), given["seed"]
            if given["device"] is None:
                result = simulate(lab, variant, case, seed=seed, compare=not given["ends"], announce=announce)
            else:
                place = LinedDevice(int(open_cuda(given["device"]).spec.partition(":")[2]))
                result = run(lab, variant, case, place, seed=seed, announce=announce)
                result |= {"tool": "compute-sanitizer", "optimised": True}
            write(variant=name, result=result)


if __name__ == "__main__":
    main(sys.argv[1])
