"""Page on a GPU that nobody measured: the steps that apply to it, and bounds scaled from a recorded device, as estimates.

book/_assets/my-gpu.js computes the estimates from a reader's numbers; this module writes what it computes from.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ..analysis.recorded import RecordedData
from ..devices.backends import BACKENDS
from ..escaping import escape, script_json
from ..spec import registry
from .front_page import on_one_device

PRESETS: Mapping[str, Mapping[str, Any]] = {
    "NVIDIA A100 80 GB": {"bandwidth": 2039, "rate": 19.5, "tensor": 312, "local": 163, "capability": 80},
    "NVIDIA RTX 4090": {"bandwidth": 1008, "rate": 82.6, "tensor": 165, "local": 99, "capability": 89},
    "Apple M3 Max": {"bandwidth": 400, "rate": 14.2, "tensor": 0, "local": 32, "capability": 0},
    "AMD MI300X": {"bandwidth": 5300, "rate": 163.4, "tensor": 1307, "local": 64, "capability": 0},
}
"""Figures of data sheets: GB/s; TFLOP/s in fp32, and in fp16 by matrix units with sums in fp32; KiB of local memory that a
group may have; and the compute capability of an NVIDIA GPU, 10 x major + minor."""
FIELDS = (
    ("bandwidth", "Memory bandwidth, GB/s"), ("rate", "fp32, TFLOP/s"), ("tensor", "fp16 by matrix units, TFLOP/s"),
    ("local", "Local memory of a group, KiB"),
    ("capability", "NVIDIA compute capability x 10; 0 for others"),
)  # fmt: skip
"""(name, label) of each number that a reader gives."""


def form(records: Sequence[RecordedData], ranks: Mapping[str, int]) -> str:
    """Return the form in which a reader chooses or describes a GPU; '' without records."""
    if not on_one_device(records, ranks):
        return ""
    options = "".join(f"<option>{escape(name)}</option>" for name in PRESETS)
    fields = "".join(
        f'<label>{escape(label)} <input type="number" name="{name}" min="0" step="any"></label>'
        for name, label in FIELDS
    )
    return (
        '<p class="table-note">This page needs JavaScript.</p>\n<form class="pick my-gpu" hidden><div class="pick-line">'
        f'<label>GPU <select name="preset">{options}<option value="">my own</option></select></label></div>'
        f'<div class="pick-line">{fields}</div><div class="my-gpu-tables" role="status"></div></form>\n'
        '<script src="_static/my-gpu.js" defer></script>'
    )


def script(records: Sequence[RecordedData], ranks: Mapping[str, int]) -> str:
    """Return the script with the measured steps of each lab on the device with which all pages open."""
    chosen = on_one_device(records, ranks)
    if not chosen:
        return ""
    labs = [lab for data in chosen if data.lab.name in registry.names_of_site() if (lab := _lab(data))]
    contents = {"device": str(chosen[0].store_device), "presets": PRESETS, "labs": labs}
    return f"roofbookMyGpu({script_json(json.loads(json.dumps(contents)))});\n"


def _lab(data: RecordedData) -> dict[str, Any] | None:
    """Return a lab's steps on its largest case: times, bounds by memory and arithmetic, and what each step needs."""
    case, peaks = data.case(), data.peaks
    if peaks is None:
        return None
    work, steps = data.lab.work(case), []
    for variant in data.lab.ladder:
        reading = data.on(case.name).readings.get(variant.name)
        if variant.role != "step" or reading is None or not reading.ok or variant.dtype not in peaks.flops:
            continue
        if reading.row["device_kind"] != "gpu":
            continue
        steps.append({
            "name": variant.name, "seconds": reading.median, "dtype": variant.dtype,
            "bytes": data.lab.traffic(case, variant), "flops": variant.plan.operations(case, variant, work.flops),
            "bandwidth": peaks.bandwidth_for(work.footprint), "rate": peaks.flops[variant.dtype],
            "local": int(reading.facts.get("local_bytes") or 0), "first": variant.architectures.start,
            "last": variant.architectures.stop, "nvidia": not {"opencl"} & set(variant.backends & BACKENDS.keys()),
            "ptx": "ptx" in (variant.source.needs if variant.source else ()),
        })  # fmt: skip
    if not steps:
        return None
    return {"name": data.lab.name, "title": data.lab.title, "case": case.name, "unit": data.lab.unit, "steps": steps}
