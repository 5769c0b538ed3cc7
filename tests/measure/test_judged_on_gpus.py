"""The corpus of judged kernels on the first GPU of each backend: in CUDA C++ by CUDA, and as it is by OpenCL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Command, every_device
from tests.measure.judged_kernels import CASES, CHEATS, HONEST, OFTEN, Judged
from tests.measure.judged_kernels_gpu import CUDA_CHEATS, CUDA_HONEST, CUDA_TIMED_CHEATS, cuda_twin, opencl_twin

LIMIT_S = 30.0
"""Seconds that a request to a kernel's process may take here."""


def on_gpus() -> list[Any]:
    """Return (device, kernel) for each kernel of the corpus on the first GPU of each backend; a skipped test if it has none."""
    params = []
    for param in every_device():
        (device,) = param.values
        if pytest.mark.gpu.mark not in [mark.mark for mark in param.marks]:
            continue
        if device is None:
            params.append(pytest.param(None, None, id=param.id, marks=param.marks))
        elif device.spec.endswith(":0") or device.backend == "opencl":
            kernels = [*HONEST, *CHEATS]
            if device.backend == "cuda":
                kernels = [*filter(None, map(cuda_twin, kernels)), *CUDA_HONEST, *CUDA_CHEATS, *CUDA_TIMED_CHEATS]
            else:
                kernels = [*filter(None, map(opencl_twin, kernels))]
            for kernel in kernels:
                marks = param.marks if kernel.name in OFTEN else [*param.marks, pytest.mark.thorough]
                params.append(pytest.param(device.spec, kernel, id=f"{param.id}-{kernel.name}", marks=marks))
    return params


@pytest.mark.parametrize(("device", "kernel"), on_gpus())
def test_a_kernel_is_judged_on_a_gpu_as_on_a_cpu(command: Command, tmp_path: Path, device: str, kernel: Judged) -> None:
    file = tmp_path / f"mine{kernel.suffix}"
    file.write_text(kernel.text, encoding="utf-8")
    options = ["--time" if kernel in CUDA_TIMED_CHEATS else "--no-time", "--limit", f"{LIMIT_S:g}"]
    code, out, err = command(
        "judge", kernel.lab, str(file), "--case", CASES[kernel.lab], "--device", device, "--json", *options
    )
    judgement = json.loads(out) if out else {}
    assert code == kernel.code, (err, judgement)
    reasons = [case["reason"] for case in judgement.get("cases", ()) if case["reason"]]
    reason = " ".join([err, judgement.get("cannot_be_built") or "", *reasons])
    assert kernel.reason in reason and "Traceback" not in reason and err.count("\n") <= 1, reason
