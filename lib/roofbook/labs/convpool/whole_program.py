"""A whole program that computes one layer: a new process, timed from its first call of the device to the result on the host."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device, DriverFailed
from ...spec.plan import Case, Plan, Variant, least_bytes, no_conditions
from .plans import SENTINEL, layer

STEP = "lists"
"""The step whose kernels the program runs: the report's."""
GIVEN, RESULT = "given.npz", "result.npy"


class WholeProgram(Plan):
    """A new process opens the device, copies the operands there, runs the layer, and copies the result back."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.case, self.units = device, case, case.units
        self.folder = tempfile.TemporaryDirectory()
        np.savez(Path(self.folder.name) / GIVEN, x=inputs["x"], weight=inputs["weight"])

    def reset(self) -> None:
        (Path(self.folder.name) / RESULT).unlink(missing_ok=True)

    def run(self) -> float:
        case = json.dumps([self.case.name, self.case.scale, dict(self.case.params), self.case.units])
        arguments = ", ".join(map(repr, (self.device.spec, case, self.folder.name)))
        program = f"import json; from {__name__} import main; print(json.dumps(main({arguments})))"
        process = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        if process.returncode:
            raise DriverFailed((process.stderr.strip().splitlines() or [f"exit code {process.returncode}"])[-1])
        self.parts = json.loads(process.stdout)
        return float(self.parts["whole program"])

    def outputs(self) -> dict[str, np.ndarray]:
        result = Path(self.folder.name) / RESULT
        nothing = np.full(layer(self.case).out_shape, SENTINEL, np.int32)
        return {"out": np.load(result) if result.exists() else nothing}

    def facts(self) -> dict[str, Any]:
        return {"kernel share": self.parts["kernels"] / self.parts["whole program"]} if self.parts else {}

    def close(self) -> None:
        self.folder.cleanup()


def main(spec: str, case: str, folder: str) -> dict[str, float]:
    """Compute the layer of a case, written as JSON, from the operands in a folder, and leave the result there.

    Returns the seconds of the whole program and of its kernels.
    """
    from ...devices.find import open_device
    from ...spec import registry

    one, variant, operands = (
        Case(*json.loads(case)),
        registry.get("convpool").variant(STEP),
        dict(np.load(Path(folder) / GIVEN)),
    )
    if spec.startswith("cuda"):
        import cupy  # noqa: F401
    else:
        import pyopencl  # noqa: F401
    start = time.perf_counter()
    run = variant.plan(open_device(spec, "opencl"), variant, one, operands)
    run.run()
    result = run.outputs()["out"]
    seconds = time.perf_counter() - start
    np.save(Path(folder) / RESULT, result)
    return {"whole program": seconds, "kernels": run.parts["kernels"]}
