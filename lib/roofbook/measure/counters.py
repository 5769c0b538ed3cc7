"""What a GPU's hardware counters say of a run: what NVIDIA's ncu is asked, and its output as numbers.

Serves ncu.py, which runs it, and whoever reads what was counted. All amounts are per unit (a step, a call) of the lab.
"""

import csv
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import Failed, UsageError

DURATION = "gpu__time_duration.sum"
AMOUNTS: Mapping[str, tuple[str, ...]] = {
    "dram_bytes": ("dram__bytes_read.sum", "dram__bytes_write.sum"),
    "l2_bytes": ("lts__t_bytes.sum",),
    "l1_bytes": ("l1tex__t_bytes.sum",),
    "instructions": ("smsp__inst_executed.sum",),
    "ffma": ("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",),
    "fadd": ("smsp__sass_thread_inst_executed_op_fadd_pred_on.sum",),
    "fmul": ("smsp__sass_thread_inst_executed_op_fmul_pred_on.sum",),
    "tensor_instructions": ("sm__inst_executed_pipe_tensor.sum",),
}
"""Counter -> ncu's metrics whose sum it is. Instructions are those of warps; `ffma`, `fadd`, `fmul` those of threads, in fp32.

`tensor_instructions` are all that the tensor pipe executes: on an H200 kernels without any matrix product have some.
"""
SHARES: Mapping[str, str] = {
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
}
"""Counter -> ncu's metric in per cent of a peak. `memory` is what ncu's own report calls Memory Throughput."""
LIMITS: Mapping[str, str] = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "SM"}
"""The units of the GPU of which one may be the limit, by the name of their share."""
BUSY = 0.6
"""A unit below this share of its peak limits nothing: ncu's own rule, which then speaks of latency."""
METRICS = (DURATION, *(metric for metrics in AMOUNTS.values() for metric in metrics), *SHARES.values())

_SIZES = {"": 1.0, "inst": 1.0, "byte": 1.0, "%": 0.01, "ns": 1e-9, "nsecond": 1e-9}  # of base units, by ncu's names
_WAITING = "wait_ns"  # the kernel by which cuda.Queue keeps the device busy before what is timed


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel: its name, grid and block as `16x1024x1`, and ncu's metrics, None where it could not tell."""

    kernel: str
    grid: str
    block: str
    values: Mapping[str, float | None]


def parse(text: str) -> list[Launch]:
    """The launches that ncu's raw page in CSV lists, in its order; all that stands around the table is skipped.

    Seconds, bytes, instructions and shares from 0 up. Errors: UsageError where ncu may not or cannot count on this machine;
    Failed where it listed no kernel, or a metric in a unit that is no base unit.
    """
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise unable(lines)
    table = [fields for fields in csv.reader(line for line in lines[start:] if line.startswith('"'))]
    names, units = table[0], table[1] if len(table) > 1 else []
    place = {name: names.index(name) for name in ("Kernel Name", "Grid Size", "Block Size", *METRICS) if name in names}
    if len(units) != len(names) or not {"Kernel Name", "Grid Size", "Block Size"} <= set(place):
        raise Failed("ncu wrote a table without names of kernels, or without a line of units")
    sizes = {metric: _size(metric, units[place[metric]]) for metric in METRICS if metric in place}
    launches = []
    for fields in table[2:]:
        if len(fields) == len(names):
            values = {metric: _number(fields[place[metric]], size) for metric, size in sizes.items()}
            grid, block = ("x".join(re.findall(r"\d+", fields[place[name]])) for name in ("Grid Size", "Block Size"))
            launches.append(Launch(fields[place["Kernel Name"]], grid, block, values))
    if not launches:
        raise unable(lines)
    return launches


def unable(lines: Iterable[str]) -> UsageError | Failed:
    """Why ncu's output has no table: UsageError where it may not or cannot count on this machine, Failed for this run alone."""
    said = [line.removeprefix("==ERROR== ") for line in lines if line.startswith("==ERROR==")]
    if any("ERR_NVGPUCTRPERM" in line for line in said):
        return UsageError(
            "ncu may not read the GPU's counters: run as root, or have the driver allow it to all "
            "(NVreg_RestrictProfilingToAdminUsers=0, developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
    if any("initialize" in line for line in said):
        return UsageError(f"ncu cannot count on this machine: {said[0]}")
    return Failed(f"ncu counted no kernel{f': {said[0]}' if said else ''}")


def _size(metric: str, unit: str) -> float:
    if unit not in _SIZES:
        raise Failed(f"ncu gave {metric} in {unit!r}; base units are needed: {', '.join(filter(None, _SIZES))}")
    return _SIZES[unit]


def _number(text: str, size: float) -> float | None:
    """A number with its thousands separators; None for `n/a`, `nan` and what is no number."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value * size if math.isfinite(value) else None


def total(launches: Sequence[Launch], units: int) -> dict[str, Any]:
    """Counters of these launches together, per unit of a run of `units`: AMOUNTS, `flops` (2 ffma + fadd + fmul), `seconds`
    and `launches`; SHARES weighted by time, from 0 to 1; and the `limit`. What ncu did not tell of each launch is None.
    """
    seconds = [launch.values.get(DURATION) for launch in launches]
    found: dict[str, Any] = {
        name: _sum([launch.values.get(metric) for launch in launches for metric in metrics], units)
        for name, metrics in AMOUNTS.items()
    }
    found["flops"] = _sum([found["ffma"], found["ffma"], found["fadd"], found["fmul"]], 1)
    for name, metric in SHARES.items():
        found[name] = _weighted([launch.values.get(metric) for launch in launches], seconds)
    return {**found, "limit": limit(found), "seconds": _sum(seconds, units), "launches": len(launches) / units}


def _sum(values: Sequence[float | None], units: int) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / units if len(known) == len(values) else None


def _weighted(values: Sequence[float | None], weights: Sequence[float | None]) -> float | None:
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None and w is not None]
    whole = math.fsum(weight for _, weight in pairs)
    if len(pairs) < len(values) or whole <= 0:
        return None
    return math.fsum(value * weight for value, weight in pairs) / whole


def limit(shares: Mapping[str, float | None]) -> str | None:
    """The unit with the largest share of its peak, of LIMITS; `latency` where none reaches BUSY; None where one is unknown."""
    known = {name: share for name in LIMITS if (share := shares.get(name)) is not None}
    if len(known) < len(LIMITS):
        return None
    largest = max(known, key=lambda name: known[name])
    return LIMITS[largest] if known[largest] >= BUSY else "latency"


def counted(launches: Sequence[Launch], units: int) -> dict[str, Any]:
    """`counters`: the total; `kernels`: the same of each kernel and launch shape, with its name, grid and block, in the order
    of their first launches. What only waits before a timed part is left out. Errors: Failed where nothing else was launched."""
    groups: dict[tuple[str, str, str], list[Launch]] = {}
    mine = [launch for launch in launches if launch.kernel != _WAITING]
    if not mine:
        raise Failed("ncu counted no kernel")
    for launch in mine:
        groups.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch)
    named = [dict(zip(("kernel", "grid", "block"), key, strict=True)) for key in groups]
    kernels = [name | total(group, units) for name, group in zip(named, groups.values(), strict=True)]
    return {"counters": total(mine, units), "kernels": kernels}
