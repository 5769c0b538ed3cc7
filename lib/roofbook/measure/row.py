"""The row of the store that a measurement becomes."""

import math
from collections.abc import Sequence
from typing import Any

from .. import strict_json
from ..devices import provenance
from ..store.schema import REASONS
from . import placement
from .checked_runnable import plain_text
from .measurement import Measurement
from .placement import Setting, Target, keys


def checks(it: Measurement) -> dict[str, Any]:
    """Return the checks of its outputs as JSON has them: both, the seed of the first one's inputs, and those of samples.

    `samples` holds the numbers of the samples that were taken on poisoned outputs and whose own outputs were checked.
    """
    both = dict(zip(("before", "after"), (check._asdict() for check in it.checks), strict=False))
    return {"seed": it.seed, **both, "samples": it.poisoned}


def why_no_times(it: Measurement) -> str | None:
    """Say why samples cannot be a row: a time that is none, or as many of one kind as not of another. None where they can."""
    columns: list[Sequence[float]] = [it.samples, it.walls, it.rounds, *it.parts.values()]
    lengths = {len(numbers) for numbers in columns if numbers}
    if len(lengths) > 1:
        return f"not accepted: of its samples there are {' and '.join(map(str, sorted(lengths)))} numbers"
    bad = next((seconds for seconds in (*it.samples, *it.walls) if not (math.isfinite(seconds) and seconds > 0)), None)
    return None if bad is None else f"not accepted: a sample of {bad:g} s; a time is finite and above 0"


def row(at: Setting, it: Measurement, run: str) -> dict[str, Any]:
    """All columns of it, a failed one without samples. The machine is asked for its state now."""
    reason = it.reason or why_no_times(it)
    lab, case, variant = at.lab, at.case, it.variant
    units = lab.units(case, variant, it.device)
    key, environment = keys(at, variant, Target(it.device, it.backend), units)
    work = lab.work(case)
    amount, rate = lab.rate(case)
    throttle = [REASONS.join(read["throttle"]) for read in it.clocks]
    return {
        "run": run,
        "started": it.started,
        "lab": lab.name,
        "variant": variant.name,
        "parent": variant.parent,
        "case": case.name,
        "scale": case.scale,
        "role": it.role,
        "axis": variant.axis,
        "point": variant.point,
        "dtype": variant.dtype,
        "device": it.device.slug,
        "device_name": it.device.name,
        "device_kind": it.device.kind,
        "backend": it.backend,
        "policy": at.policy.as_json(),
        "timed": lab.timed,
        "unit": lab.unit,
        "units": units,
        "cell_key": key,
        "env_key": environment,
        "source_sha256": variant.source.sha256 if variant.source else None,
        "status": "failed" if reason else "ok",
        "reason": plain_text(reason) if reason else None,
        "samples_s": [] if reason else it.samples,
        "wall_s": [] if reason else it.walls,
        "rounds": [] if reason else it.rounds,
        "flops": work.flops,
        "bytes": lab.traffic(case, variant),
        "error": it.nearest.error,
        "bound": it.nearest.tolerance,
        "clock_mhz": [value for read in it.clocks if (value := read["clock_mhz"]) is not None],
        "temperature_c": [value for read in it.clocks if (value := read["temperature_c"]) is not None],
        "throttle": sorted({reason for read in it.clocks for reason in read["throttle"]}),
        "sample_throttle": throttle if any(throttle) and not reason else [],
        "extra": strict_json.dumps({"rate_amount": amount, "rate_unit": rate, "footprint": work.footprint,
                             "error_is": it.nearest.compared, "checks": checks(it), "parts": it.parts, **it.facts}),
        "provenance": strict_json.dumps(
            provenance.snapshot(it.device)
            | {"environment": placement.environment(variant, Target(it.device, it.backend))}
            | ({"neighbours": it.neighbours} if it.neighbours else {})
        ),
    }  # fmt: skip
