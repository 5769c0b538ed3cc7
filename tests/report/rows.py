"""Rows as the store gives them, made up: those that several tests of the report read."""

import json
from typing import Any

import numpy as np
import pandas as pd

from roofbook.spec.lab import Series

STARTED = pd.Timestamp("2026-01-01T10:00:00Z")


def row(variant: str, seconds: float, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a verified row of 20 samples of 100 steps around `seconds` per step; all rows of a round share its noise."""
    count = fields.pop("n", 20)
    run = fields.pop("run", "20260101T100000Z-aaaaaa")
    drift = 1 + 0.05 * np.sin(np.arange(count)) + 0.002 * np.cos(7.0 * np.arange(count) + len(variant))
    defaults = {
        "run": run, "started": STARTED, "lab": "lbm", "variant": variant, "case": "256x256", "parent": parent,
        "scale": "quick", "role": "step", "axis": None, "point": None, "dtype": "float32", "device": "some-gpu",
        "device_name": "Some GPU", "device_kind": "gpu", "backend": "opencl", "policy": "{}", "timed": "loop",
        "unit": "step", "units": 100, "status": "ok", "reason": None, "samples_s": (100 * seconds * drift).tolist(),
        "rounds": list(range(count)), "flops": 6.5e6, "bytes": 4.7e6, "error": 1e-7, "bound": 1e-6, "extra": "{}",
        "provenance": "{}",
    }  # fmt: skip
    return defaults | fields


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(list(rows))


ORDER = ["sequential", "port", "fused", "soa", "texture", "peer"]


def lab_rows() -> pd.DataFrame:
    return frame(
        row("sequential", 4.2e-3, device="some-cpu", device_name="Some CPU", device_kind="cpu", backend="opencl"),
        row("port", 1.8e-4, "sequential"),
        row("port-again", 1.8e-4, "port", role="again"),
        row("fused", 1.1e-4, "port"),
        row("soa", 2.4e-5, "fused", status="failed", reason="wrong result: max error 3 > 1e-6"),
        row("peer", 3.1e-5, None, role="peer"),
    )


def sweep_rows() -> pd.DataFrame:
    shapes = {"16x1": 2e-5, "2x8": 5e-5, "16x4": 2e-5, "2x4": 8e-5}
    points = [
        row(f"fused@wg={point}", time, "fused", role="sweep", axis="wg", point=point) for point, time in shapes.items()
    ]
    points[1] |= {"status": "failed", "reason": "work-group too large"}
    return frame(row("fused", 2.2e-5), *points)


def shapes(*, columns: int, rows: int) -> pd.DataFrame:
    """Return a sweep over pairs such as '64x112x1/4x1', all slower than the last of the first column; half of them failed."""
    sweep = []
    for at in range(columns):
        for down in range(rows):
            point = f"64x112x{at + 1}/4x{down + 1}"
            point_row = row(
                f"a@size={point}", 1e-3 * (1 + at + rows - down), "a", role="sweep", axis="size", point=point
            )
            if at % 2:
                reason = f"work-group of {2048 + down} work-items is over the limit of 1024"
                point_row |= {"status": "failed", "reason": reason}
            sweep.append(point_row)
    return frame(*sweep)


def even(variant: str, seconds: float, parent: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return a row of 20 samples that are all alike."""
    return row(variant, seconds, parent, samples_s=[100 * seconds] * 20, **fields)


def bandwidth_rows() -> pd.DataFrame:
    return frame(
        even("cpu", 1.0, bytes=2e9, device="some-cpu"),
        even("plain", 1e-3, "cpu", bytes=2e9),
        even("wide", 1e-3, "plain", bytes=3e9),
        row("cached", 1e-3, "wide", bytes=6e9),
        even("broken", 1e-3, "wide", status="failed", reason="wrong result: error 7.77, allowed 1"),
        even("idle", 1e-3, "wide", bytes=0.0),
        even("library", 1e-3, None, role="peer", bytes=4e9),
    )


def row_with_facts(variant: str, seconds: float = 1e-3, *, facts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """Return a row with facts of its run."""
    return row(variant, seconds, extra=json.dumps(facts), **fields)


def part_rows() -> pd.DataFrame:
    parts = {"op 1": [0.2] * 10 + [0.4] * 11, "copy": [0.0] * 21}
    return frame(
        row_with_facts("plain", facts={"parts": parts, "accuracy": 0.88614, "images": 12000, "data": "fashion"}),
        row_with_facts("short", facts={"parts": {"op 1": [0.3]}, "accuracy": 0.9}),
        row_with_facts("wrong", facts={"parts": parts, "accuracy": 0.77}, error=2e-6),
    )


def spans(queues: int, rounds: int, length: float = 1e-3) -> list[list[Any]]:
    """Return rounds of copy, kernel, copy on queues in turn; with several queues, each kind waits for its engine alone."""
    free: dict[Any, float] = {}
    timeline: list[list[Any]] = []
    for at in range(rounds):
        queue = at % queues
        for kind in ("to device", "kernel", "to host"):
            start = max(free.get(queue, 0.0), free.get(kind, 0.0))
            free[queue] = free[kind] = start + length
            timeline.append([queue, kind, start, start + length])
    return timeline


def traced_rows(rounds: int = 10) -> pd.DataFrame:
    return frame(
        row_with_facts("streams", facts={"timeline": spans(3, rounds)}),
        row_with_facts("serial", facts={"timeline": spans(1, rounds)}),
        row("plain", 1e-3),
        row_with_facts("wrong", facts={"timeline": spans(1, 2)}, error=2e-6),
    )


ZEROS = Series(
    "zeros", "From where on do lists pay?", "zeros, %", ((0, "z0"), (50, "z50"), (80, "z80"), (90, "z90"), (98, "z98")),
    ("dense", "lists", "both"), (("lists", "dense"), ("both", "dense"), ("dense", "lists"), ("both", "lists")),
)  # fmt: skip


def series_rows() -> pd.DataFrame:
    """Return a series: dense is level, lists halve at each point and cross it at x = 65, both is twice as fast as dense."""
    measured = []
    for at, (_, case) in enumerate(ZEROS.points):
        times = {"dense": 1e-3, "lists": 2.0 ** (1.5 - at) * 1e-3, "both": 5e-4}
        measured += [even(name, seconds, case=case) for name, seconds in times.items()]
    measured[-1] |= {"status": "failed", "reason": "out of memory"}
    return frame(*[fields for fields in measured if (fields["variant"], fields["case"]) != ("both", "z50")])
