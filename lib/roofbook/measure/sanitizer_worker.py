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
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..spec.source import line_directives
from .checked_runnable import check_of, checked_runnable, closed_after, plain_text, same_shapes
from .ncu import open_cuda
from .verify import reason_if_wrong, reason_of

UNOPTIMISED = ("-cl-opt-disable",)


class SimulatedDevice(opencl.OpenCLDevice):
    """Oclgrind's device, with additional compiler options for each kernel."""

    def __init__(self, kernel_options: Sequence[str] = ()) -> None:
        (simulator,) = opencl.simulators()
        super().__init__(simulator.device, 0)
        self.kernel_options = kernel_options

    def build(self, text: str, options: Sequence[str] = ()) -> opencl.Program:
        return super().build(text, (*options, *self.kernel_options))


class LinedDevice(cuda.CudaDevice):
    """CUDA device whose kernels are compiled with line numbers."""

    def build(self, text: str, options: Sequence[str] = ()) -> cuda.Program:
        return super().build(text, (*options, "-lineinfo"))


def run(
    lab: Lab, variant: Variant, case: Case, device: Device, *, seed: int, compare: bool = True,
    announce: Callable[[str], Any] = lambda stage: None,
) -> dict[str, Any]:  # fmt: skip
    """Run a variant once. Return `error`, `tolerance` and `compared`, each None without `compare`; or the failure's `reason`.

    announce: called with each stage.
    """
    try:
        announce("inputs")
        small = lab.verification_case(case, variant)
        inputs = lab.verification_inputs(small, lab.verified_on(variant), lab.inputs(case, seed))
        with line_directives():
            announce("plan")
            planned = checked_runnable(variant.plan(device, variant, small, inputs), announce)
            with closed_after(planned) as runnable:
                announce("run")
                runnable.reset()
                runnable.run()
                if not compare:
                    return {"error": None, "tolerance": None, "compared": None}
                outputs = runnable.outputs()
                announce("check")
                right = lab.reference(small, inputs)
                same_shapes(outputs, right)
                return check_of(lab.check(small, variant, outputs, right))._asdict()
    except Exception as why:
        return {"reason": plain_text(reason_of(why))}


def simulate(
    lab: Lab,
    variant: Variant,
    case: Case,
    *,
    seed: int,
    compare: bool,
    announce: Callable[[str], Any] = lambda stage: None,
) -> dict[str, Any]:
    """Run a variant under Oclgrind, and return the results of `run`, the `tool`, and whether the kernel was `optimised`.

    If the result is wrong, the kernel runs again without optimisation: Oclgrind sign-extends vectors of conditions wrongly,
    and optimisers turn scalar conditions into vectors.
    """
    outcome: dict[str, Any] = {}
    for kernel_options in ((), UNOPTIMISED):
        device = SimulatedDevice(kernel_options)
        tool = f"{SIMULATOR} {device.device.driver_version.rpartition(' ')[2]}"
        outcome = {
            **run(lab, variant, case, device, seed=seed, compare=compare, announce=announce),
            "tool": tool,
            "optimised": not kernel_options,
        }
        if (
            not compare
            or "reason" in outcome
            or not reason_if_wrong(outcome["error"], outcome["tolerance"], outcome["compared"])
        ):
            break
    return outcome


def main(order: str) -> None:
    """Write a line of JSON for each variant of an order of `sanitize`."""
    os.chdir("/")  # compilers print paths relative to the working folder
    fields = json.loads(order)
    lab = registry.get(fields["lab"])
    lab.prepare()
    with Path(fields["out"]).open("a") as out:

        def write(**message: Any) -> None:
            print(json.dumps(message), file=out, flush=True)

        for name, size, scale in fields["chosen"]:
            if fields["mark"]:
                print(f"\n{fields['mark']}{name}", file=sys.stderr, flush=True)

            def announce(stage: str, name: str = name) -> None:
                write(variant=name, stage=stage)

            variant, case, seed = lab.variant(name), lab.case(size, scale), fields["seed"]
            if fields["device"] is None:
                result = simulate(lab, variant, case, seed=seed, compare=not fields["ends"], announce=announce)
            else:
                place = LinedDevice(int(open_cuda(fields["device"]).spec.partition(":")[2]))
                result = run(lab, variant, case, place, seed=seed, announce=announce)
                result |= {"tool": "compute-sanitizer", "optimised": True}
            write(variant=name, result=result)
            announce("end")


if __name__ == "__main__":
    main(sys.argv[1])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # under compute-sanitizer, Python and the driver often crash in an orderly exit
