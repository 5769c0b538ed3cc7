"""Runs variants under NVIDIA's ncu, which reads a GPU's hardware counters, and keeps what it counted: `roofbook profile`.

ncu runs the kernels of a process one by one, by default each from a cold cache, as often as it takes to read all counters.
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
from ..spec.lab import Case, Lab, Variant
from ..store.identity import new_run_id
from ..store.parquet import Store
from ..store.schema import PROFILE
from . import messages
from .checked_runnable import check_of
from .counters import METRICS, counted, parse, unable
from .measurement import Measurement
from .placement import Setting, keys, target_of
from .policy import Policy
from .progress import Progress, silent
from .row import row
from .schedule import Done, Planned, with_states

PLACES = ("/usr/local/cuda*/bin/ncu", "/opt/nvidia/nsight-compute/*/ncu")
"""Where ncu is looked for beside PATH."""

_OPTIONS = (
    *("--clock-control", "none", "--profile-from-start", "off", "--target-processes", "application-only"),
    *("--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(METRICS)),
)


def find_ncu() -> str:
    """The path of ncu: on PATH, else where CUDA or Nsight Compute are installed. UsageError where there is none."""
    found = shutil.which("ncu") or max((path for place in PLACES for path in glob(place)), default=None)
    if not found:
        places = " or ".join(PLACES)
        raise UsageError(f"no ncu, which reads the counters: install NVIDIA Nsight Compute, on PATH or as {places}")
    return found


def open_cuda(spec: str = "auto") -> Device:
    """The CUDA device of that name, the first for `auto`. UsageError where it is none."""
    if spec != "auto":
        device = open_device(spec)
        if not has(device.backend, "counters"):
            raise UsageError(f"{device.spec} is not a CUDA device; hardware counters need one")
        return device
    if not (found := CUDA.devices()):
        raise UsageError("no CUDA device; hardware counters need one, with an NVIDIA driver and CuPy")
    return found[0]


def plan(
    lab: Lab, case: Case, variants: Sequence[Variant], device: Device, store: Store, policy: Policy
) -> list[Planned]:
    """The cells of these variants that run on a CUDA device and on this case, and whether the store has their counters."""
    at, chosen = Setting(lab, case, device, policy), []
    for variant in variants:
        target = target_of(variant, device)
        if target and target.device is device and not lab.skip_reason(variant, case):
            units = lab.verification_case(case, variant).units
            chosen.append((case, variant, target, keys(at, variant, target, units, tool="ncu")))
    return with_states(lab, chosen, store, PROFILE)


def bring_up_to_date(
    cells: Sequence[Planned],
    store: Store,
    policy: Policy,
    *,
    remeasure: bool = False,
    progress: Progress = silent,
) -> Done:
    """Count those cells that are not fresh (with `remeasure`: all), one after the other; each row is kept at once.

    Errors: UsageError where there is no ncu, or it may not count.
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
            made = _row(cell, run, (ncu, tool), policy, scratch)
            store.append([made])
            failed += made["status"] == "failed"
    return Done(run, len(due), len(cells) - len(due), failed)


def _row(cell: Planned, run: str, ncu: tuple[str, str], policy: Policy, scratch: Path) -> dict[str, Any]:
    """A cell's row: like that of a timed one, but for its role, what is timed, and what is counted. ncu: path, version."""
    path, version = ncu
    mine = Measurement(cell.variant, PROFILE, cell.device, cell.backend)
    units = cell.lab.verification_case(cell.case, cell.variant).units
    try:
        said, told = _watched(cell, path, policy, scratch)
        if told.get("reason"):
            mine.reason = told["reason"]
        else:
            units = told["units"]
            mine.checks.append(check_of((told["error"], told["tolerance"], told["compared"])))
            mine.facts = counted(parse(said), units) | {"tool": version}
            seconds = mine.facts["counters"]["seconds"]
            if not seconds:
                raise Failed("ncu reported no time of a kernel")
            mine.samples = [seconds * units]
    except Failed as why:
        mine.reason = str(why)
    made = row(Setting(cell.lab, cell.case, cell.device, policy), mine, run)
    own = {"units": units, "timed": "kernels under a profiler", "cell_key": cell.cell_key, "env_key": cell.env_key}
    return made | own


LIMIT_S = 3600.0
"""Seconds that ncu may take for one variant: it runs kernels again for each group of counters."""
_RESULTS: tuple[dict[str, Any], ...] = (
    {"units": messages.whole_above_zero, "error": float, "tolerance": float, "compared": str},
    {"reason": str},
)
"""Shapes of what `profiler_worker` writes; `reason` is why a variant was not counted."""


def _watched(cell: Planned, ncu: str, policy: Policy, scratch: Path) -> tuple[str, dict[str, Any]]:
    """What ncu printed, and what the process that it watched told. Errors: Failed where that process told nothing."""
    told = scratch / "told.json"
    told.unlink(missing_ok=True)
    command = [
        *(ncu, *_OPTIONS, sys.executable, "-m", f"{__package__}.profiler_worker"),
        *(cell.lab.name, cell.variant.name, cell.case.name, "--scale", cell.case.scale, "--device", cell.device.spec),
        *("--seed", str(policy.seed), "--scratch", str(scratch), "--out", str(told)),
    ]
    plain = {**os.environ, "LC_ALL": "C"}  # numbers as Python writes them
    run = run_tool(command, limit_s=LIMIT_S, env=plain)
    said = run.output + run.errors
    if run.out_of_time:
        raise Failed(f"ncu did not end within {LIMIT_S:g} s")
    if not told.exists():
        why = unable(said.splitlines())
        if isinstance(why, UsageError):
            raise why
        own = [line for line in run.errors.splitlines() if line.strip() and not line.startswith("==")]
        ended = f"exit code {run.code}" if run.code >= 0 else how_ended(run.code)
        raise Failed(f"the profiled process died: {own[-1] if own else ended}")
    try:
        return said, messages.expect(messages.parse(told.read_bytes()), *_RESULTS)
    except messages.BadMessage as bad:
        raise Failed(f"the profiled process wrote what is no result: {bad}") from None


def _version(ncu: str) -> str:
    """`ncu 2025.3.1.0`."""
    said = run_tool([ncu, "--version"], limit_s=60.0).output
    found = re.search(r"Version (\S+)", said)
    return f"ncu {found[1]}" if found else "ncu"
