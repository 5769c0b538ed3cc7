"""Hardware counters of a GPU: the metrics that NVIDIA's ncu reads, and its output as numbers.

ncu.py runs the profiler. All amounts are per unit (a step, a call) of the lab.
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
"""Counter -> ncu's metrics that add up to it. `instructions` counts warps; `ffma`, `fadd`, `fmul` count threads, in fp32.

`tensor_instructions` are all instructions of the tensor pipe: on an H200, kernels without any matrix product have some.
"""
SHARES: Mapping[str, str] = {
    "occupancy": "sm__warps_active.avg.pct_of_peak_sustained_active",
    "dram": "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    "l2": "lts__throughput.avg.pct_of_peak_sustained_elapsed",
    "l1": "l1tex__throughput.avg.pct_of_peak_sustained_elapsed",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "memory": "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
}
"""Counter -> ncu's metric in per cent of a peak. `memory` is called Memory Throughput in ncu's report."""
LIMITS: Mapping[str, str] = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "SM"}
"""Units of the GPU that may limit a kernel, by the name of their share."""
LEAST_LIMITING_SHARE = 0.6
"""Share of its peak from which on a unit limits a kernel; below it, as in ncu's own rule, latency does."""
METRICS = (DURATION, *(metric for metrics in AMOUNTS.values() for metric in metrics), *SHARES.values())

_SIZES = {"": 1.0, "inst": 1.0, "byte": 1.0, "%": 0.01, "ns": 1e-9, "nsecond": 1e-9}  # of base units, by ncu's names
_WAITING_KERNEL = "wait_ns"  # the kernel of cuda.Queue that keeps the device busy before timed launches


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel: its name, grid and block as `16x1024x1`, and ncu's metrics; None for an unknown one."""

    kernel: str
    grid: str
    block: str
    values: Mapping[str, float | None]


def parse(text: str) -> list[Launch]:
    """Return the launches in ncu's raw CSV page, in its order. Text around the table is skipped.

    Values are seconds, bytes, instructions and shares from 0 up. Errors: UsageError if ncu may not or cannot count on this
    machine; Failed if it listed no kernel, or a metric in another unit than a base unit.
    """
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise error_without_table(lines)
    table = filter(_is_whole, csv.DictReader(line for line in lines[start:] if line.startswith('"')))
    units: dict[str, str] = next(table, {})
    if not {"Kernel Name", "Grid Size", "Block Size"} <= units.keys():
        raise Failed("ncu wrote a table without names of kernels, or without a line of units")
    sizes = {metric: _size(metric, units[metric]) for metric in METRICS if metric in units}
    launches = []
    for fields in table:
        values = {metric: _number(fields[metric], size) for metric, size in sizes.items()}
        grid, block = ("x".join(re.findall(r"\d+", fields[name])) for name in ("Grid Size", "Block Size"))
        launches.append(Launch(fields["Kernel Name"], grid, block, values))
    if not launches:
        raise error_without_table(lines)
    return launches


def _is_whole(fields: Mapping[str | None, Any]) -> bool:
    """Return whether a line of a table has as many fields as the head."""
    return None not in fields and None not in fields.values()


def error_without_table(lines: Iterable[str]) -> UsageError | Failed:
    """Return why ncu printed no table: UsageError if it may not or cannot count on this machine, else Failed."""
    errors = [line.removeprefix("==ERROR== ") for line in lines if line.startswith("==ERROR==")]
    if any("ERR_NVGPUCTRPERM" in line for line in errors):
        return UsageError(
            "ncu may not read the GPU's counters: run as root, or have the driver allow it to all "
            "(NVreg_RestrictProfilingToAdminUsers=0, developer.nvidia.com/ERR_NVGPUCTRPERM)"
        )
    if any("initialize" in line for line in errors):
        return UsageError(f"ncu cannot count on this machine: {errors[0]}")
    return Failed(f"ncu counted no kernel{f': {errors[0]}' if errors else ''}")


def _size(metric: str, unit: str) -> float:
    if unit not in _SIZES:
        raise Failed(f"ncu gave {metric} in {unit!r}; base units are needed: {', '.join(filter(None, _SIZES))}")
    return _SIZES[unit]


def _number(text: str, size: float) -> float | None:
    """Return a number with thousands separators, times `size`; None for `n/a`, `nan` and other text."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value * size if math.isfinite(value) else None


def total(launches: Sequence[Launch], units: int) -> dict[str, Any]:
    """Return the counters of all launches, per unit of a run of `units`.

    They are AMOUNTS, `flops` (2 ffma + fadd + fmul), `seconds` and `launches`; SHARES weighted by time, from 0 to 1; and the
    `limit`. A counter that ncu did not report for each launch is None.
    """
    seconds = [launch.values.get(DURATION) for launch in launches]
    totals: dict[str, Any] = {
        name: _sum([launch.values.get(metric) for launch in launches for metric in metrics], units)
        for name, metrics in AMOUNTS.items()
    }
    totals["flops"] = _sum([totals["ffma"], totals["ffma"], totals["fadd"], totals["fmul"]], 1)
    for name, metric in SHARES.items():
        totals[name] = _weighted([launch.values.get(metric) for launch in launches], seconds)
    return {**totals, "limit": limit(totals), "seconds": _sum(seconds, units), "launches": len(launches) / units}


def _sum(values: Sequence[float | None], units: int) -> float | None:
    numbers = [value for value in values if value is not None]
    return math.fsum(numbers) / units if len(numbers) == len(values) else None


def _weighted(values: Sequence[float | None], weights: Sequence[float | None]) -> float | None:
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if v is not None and w is not None]
    total_weight = math.fsum(weight for _, weight in pairs)
    if len(pairs) < len(values) or total_weight <= 0:
        return None
    return math.fsum(value * weight for value, weight in pairs) / total_weight


def limit(shares: Mapping[str, float | None]) -> str | None:
    """Return the unit of LIMITS with the largest share of its peak; None if a share is unknown.

    It is `latency` if no unit reaches LEAST_LIMITING_SHARE.
    """
    known_shares = {name: share for name in LIMITS if (share := shares.get(name)) is not None}
    if len(known_shares) < len(LIMITS):
        return None
    largest = max(known_shares, key=lambda name: known_shares[name])
    return LIMITS[largest] if known_shares[largest] >= LEAST_LIMITING_SHARE else "latency"


def counters_of(launches: Sequence[Launch], units: int) -> dict[str, Any]:
    """Return `counters`, the total, and `kernels`, the totals of each kernel and launch shape in the order of first launches.

    Each of `kernels` has its name, grid and block. Launches that only wait before a timed part are left out. Errors: Failed
    if there are no others.
    """
    groups: dict[tuple[str, str, str], list[Launch]] = {}
    measured = [launch for launch in launches if launch.kernel != _WAITING_KERNEL]
    if not measured:
        raise Failed("ncu counted no kernel")
    for launch in measured:
        groups.setdefault((launch.kernel, launch.grid, launch.block), []).append(launch)
    labels = [dict(zip(("kernel", "grid", "block"), key, strict=True)) for key in groups]
    kernels = [name | total(group, units) for name, group in zip(labels, groups.values(), strict=True)]
    return {"counters": total(measured, units), "kernels": kernels}
