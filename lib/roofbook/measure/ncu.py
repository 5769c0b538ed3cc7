"""Runs of variants under NVIDIA's ncu, which reads a GPU's hardware counters, and their rows: `roofbook profile`.

ncu runs the kernels of a process one by one, by default each from a cold cache, as often as needed to read all counters.
"""

import os
import re
import shutil
import sys
from collections.abc import Sequence
from glob import glob
from pathlib import Path
from typing import Any

from ..devices.backends import CUDA, has
from ..devices.contract import Device
from ..devices.find import open_device
from ..errors import Failed, UsageError
from ..paths import scratch_folder
from ..process_tree import how_ended, run_tool
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..store.identity import new_run_id
from ..store.parquet import Store
from ..store.schema import PROFILE
from . import messages
from .checked_runnable import check_of
from .counters import METRICS, counters_of, error_without_table, parse
from .measurement import Measurement
from .placement import Setting, keys, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row
from .schedule import Done, Planned, with_states

NCU_PATHS = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
"""Patterns of paths at which ncu is looked for if it is not on PATH."""

_OPTIONS = (
    *("--clock-control", "none", "--profile-from-start", "off", "--target-processes", "application-only"),
    *("--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)),
)


def find_ncu() -> str:
    """Return the path of ncu, on PATH or in the folders of CUDA or Nsight Compute. Raises UsageError if there is none."""
    path = shutil.which("ncu") or max((path for place in NCU_PATHS for path in glob(place)), default=None)
    if not path:
        folders = " or ".join(NCU_PATHS)
        raise UsageError(f"no ncu, which reads the counters: install NVIDIA Nsight Compute, on PATH or as {folders}")
    return path


def open_cuda(spec: str = "auto") -> Device:
    """Return the CUDA device of that name, or the first one for `auto`. Raises UsageError if there is none."""
    if spec != "auto":
        device = open_device(spec)
        if not has(device.backend, "counters"):
            raise UsageError(f"{device.spec} is not a CUDA device; hardware counters need one")
        return device
    if not (cuda_devices := CUDA.devices()):
        raise UsageError("no CUDA device; hardware counters need one, with an NVIDIA driver and CuPy")
    return cuda_devices[0]


def plan(
    lab: Lab, case: Case, variants: Sequence[Variant], device: Device, store: Store, policy: Policy
) -> list[Planned]:
    """Return the measurements of variants that run on a CUDA device and case, with their states in the store."""
    setting, cells = Setting(lab, case, device, policy), []
    for variant in variants:
        target = target_of(variant, device)
        if target and target.device is device and not lab.skip_reason(variant, case):
            units = lab.verification_case(case, variant).units
            cells.append((case, variant, target, keys(setting, variant, target, units, tool="ncu")))
    return with_states(lab, cells, store, PROFILE)


def bring_up_to_date(
    cells: Sequence[Planned],
    store: Store,
    policy: Policy,
    *,
    remeasure: bool = False,
    progress: Progress = silent,
) -> Done:
    """Profile the cells that are not fresh (with `remeasure`: all), one after the other. Each row is stored at once.

    Errors: UsageError if there is no ncu, or it may not count.
    """
    due = [cell for cell in cells if remeasure or cell.state != "fresh"]
    run, failed = new_run_id(), 0
    if not due:
        return Done(run, 0, len(cells), 0)
    ncu = find_ncu()
    tool = _version(ncu)
    with scratch_folder() as scratch:
        for number, cell in enumerate(due, 1):
            progress(f"{cell.case.name} {cell.variant.name}", f"under ncu, {number} of {len(due)}")
            cell_row = _row(cell, run, (ncu, tool), policy, scratch)
            store.append([cell_row])
            failed += cell_row["status"] == "failed"
    return Done(run, len(due), len(cells) - len(due), failed)


def _row(cell: Planned, run: str, ncu: tuple[str, str], policy: Policy, scratch: Path) -> dict[str, Any]:
    """Profile a cell, and return its row: its role is PROFILE, and its facts hold the counters. ncu: path and version."""
    path, version = ncu
    measurement = Measurement(cell.variant, PROFILE, cell.device, cell.backend)
    units = cell.lab.verification_case(cell.case, cell.variant).units
    try:
        output, outcome = _run_ncu(cell, path, policy, scratch)
        if outcome.get("reason"):
            measurement.reason = outcome["reason"]
        else:
            units = outcome["units"]
            measurement.checks.append(check_of((outcome["error"], outcome["tolerance"], outcome["compared"])))
            measurement.facts = counters_of(parse(output), units) | {"tool": version}
            seconds = measurement.facts["counters"]["seconds"]
            if not seconds:
                raise Failed("ncu reported no time of a kernel")
            measurement.samples = [seconds * units]
    except Failed as error:
        measurement.reason = str(error)
    profile_row = row(Setting(cell.lab, cell.case, cell.device, policy), measurement, run)
    profile_columns = {
        "units": units,
        "timed": "kernels under a profiler",
        "cell_key": cell.cell_key,
        "env_key": cell.env_key,
    }
    return profile_row | profile_columns


LIMIT_S = 3600.0
"""Seconds that ncu may take for one variant: it runs each kernel once for each group of counters."""
_RESULTS: tuple[dict[str, Any], ...] = (
    {"units": messages.whole_above_zero, "error": float, "tolerance": float, "compared": str},
    {"reason": str},
)
"""Shapes of the result file of `profiler_worker`; `reason` is why a variant was not profiled."""


def _run_ncu(cell: Planned, ncu: str, policy: Policy, scratch: Path) -> tuple[str, dict[str, Any]]:
    """Return ncu's output, and the result of the profiled process. Errors: Failed if that process wrote none."""
    outcome_file = scratch / "result.json"
    outcome_file.unlink(missing_ok=True)
    command = [
        *(ncu, *_OPTIONS, sys.executable, "-m", f"{__package__}.profiler_worker"),
        *(cell.lab.name, cell.variant.name, cell.case.name, "--scale", cell.case.scale, "--device", cell.device.spec),
        *("--seed", str(policy.seed), "--scratch", str(scratch), "--out", str(outcome_file)),
    ]
    environment = {**os.environ, "LC_ALL": "C"}  # for numbers with a decimal point
    run = run_tool(command, limit_s=LIMIT_S, env=environment)
    output = run.output + run.errors
    if run.out_of_time:
        raise Failed(f"ncu did not end within {LIMIT_S:g} s")
    if not outcome_file.exists():
        error = error_without_table(output.splitlines())
        if isinstance(error, UsageError):
            raise error
        complaints = [line for line in run.errors.splitlines() if line.strip() and not line.startswith("==")]
        ended = f"exit code {run.code}" if run.code >= 0 else how_ended(run.code)
        raise Failed(f"the profiled process died: {complaints[-1] if complaints else ended}")
    try:
        return output, messages.expect(messages.parse(outcome_file.read_bytes()), *_RESULTS)
    except messages.BadMessage as bad:
        raise Failed(f"the profiled process wrote an invalid result: {bad}") from None


def _version(ncu: str) -> str:
    """Return name and version, such as `ncu 2025.3.1.0`."""
    output = run_tool([ncu, "--version"], limit_s=60.0).output
    match = re.search(r"Version (\S+)", output)
    return f"ncu {match[1]}" if match else "ncu"
