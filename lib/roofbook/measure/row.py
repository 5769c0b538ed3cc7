"""Conversion of a measurement to a row of the store."""

from collections.abc import Sequence
from typing import Any

from .. import strict_json
from ..devices import provenance
from ..store.row_rules import LONGEST_S, SHORTEST_S, is_time
from ..store.schema import REASONS
from . import placement
from .checked_runnable import plain_text
from .measurement import Measurement
from .placement import Setting, Target, keys


def checks(measurement: Measurement) -> dict[str, Any]:
    """Return the checks of a measurement's outputs for JSON.

    `before` and `after` are the checks around the samples, `seed` made the inputs of the first one, and `samples` holds the
    numbers of the samples that were taken on poisoned outputs and checked.
    """
    checks_by_time = dict(zip(("before", "after"), (check._asdict() for check in measurement.checks), strict=False))
    return {"seed": measurement.seed, **checks_by_time, "samples": measurement.poisoned}


def reason_without_times(measurement: Measurement) -> str | None:
    """Return why the samples are invalid: a time out of range, or columns of unequal lengths. None if valid."""
    columns: list[Sequence[float]] = [
        measurement.samples,
        measurement.walls,
        measurement.rounds,
        *measurement.parts.values(),
    ]
    lengths = {len(numbers) for numbers in columns if numbers}
    if len(lengths) > 1:
        return f"not accepted: of its samples there are {' and '.join(map(str, sorted(lengths)))} numbers"
    bad = next(
        (seconds for seconds in (*measurement.samples, *measurement.walls) if not is_time(seconds)),
        None,
    )
    return None if bad is None else f"not accepted: a sample of {bad:g} s; a time is {SHORTEST_S:g} to {LONGEST_S:g} s"


def row(setting: Setting, measurement: Measurement, run: str) -> dict[str, Any]:
    """Return all columns of a measurement's row, without samples if it failed. The machine's state is read now."""
    reason = measurement.reason or reason_without_times(measurement)
    lab, case, variant = setting.lab, setting.case, measurement.variant
    units = lab.units(case, variant, measurement.device)
    key, environment = keys(setting, variant, Target(measurement.device, measurement.backend), units)
    work = lab.work(case)
    amount, rate = lab.rate(case)
    wgsl = placement.wgsl_sha256(lab, case, variant, Target(measurement.device, measurement.backend))
    throttle = [REASONS.join(read["throttle"]) for read in measurement.clocks]
    return {
        "run": run,
        "started": measurement.started,
        "lab": lab.name,
        "variant": variant.name,
        "parent": variant.parent,
        "case": case.name,
        "scale": case.scale,
        "role": measurement.role,
        "axis": variant.axis,
        "point": variant.point,
        "dtype": variant.dtype,
        "device": measurement.device.slug,
        "device_name": measurement.device.name,
        "device_kind": measurement.device.kind,
        "backend": measurement.backend,
        "policy": setting.policy.as_json(),
        "timed": lab.timed,
        "unit": lab.unit,
        "units": units,
        "cell_key": key,
        "env_key": environment,
        "source_sha256": variant.source.sha256 if variant.source else None,
        "status": "failed" if reason else "ok",
        "reason": plain_text(reason) if reason else None,
        "samples_s": [] if reason else measurement.samples,
        "wall_s": [] if reason else measurement.walls,
        "rounds": [] if reason else measurement.rounds,
        "flops": variant.plan.operations(case, variant, work.flops),
        "bytes": lab.traffic(case, variant),
        "error": measurement.nearest.error,
        "bound": measurement.nearest.tolerance,
        "clock_mhz": [value for read in measurement.clocks if (value := read["clock_mhz"]) is not None],
        "temperature_c": [value for read in measurement.clocks if (value := read["temperature_c"]) is not None],
        "throttle": sorted({reason for read in measurement.clocks for reason in read["throttle"]}),
        "sample_throttle": throttle if any(throttle) and not reason else [],
        "extra": strict_json.dumps({"rate_amount": amount, "rate_unit": rate, "footprint": work.footprint,
                             "error_is": measurement.nearest.compared, "checks": checks(measurement),
                             "parts": measurement.parts, **({"wgsl_sha256": wgsl} if wgsl else {}),
                             **measurement.facts}),
        "provenance": strict_json.dumps(
            provenance.snapshot(measurement.device)
            | {"environment": placement.environment(variant, Target(measurement.device, measurement.backend))}
            | ({"neighbours": measurement.neighbours} if measurement.neighbours else {})
        ),
    }  # fmt: skip
