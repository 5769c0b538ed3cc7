"""Scripts from which a page runs a step in the reader's browser: kernels in WGSL, buffers, and the launches of the step's plan.

The page of a lab's kernels (kernels_page.py) has a button for each of them; book/_assets/run-here.js loads and runs them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

import numpy as np

from ..devices.backends import WEBGPU
from ..devices.contract import BuildFailed, OutOfMemory, Unsupported
from ..devices.launch_recorder import LaunchRecorder, RecordedLaunch
from ..escaping import script_json
from ..spec.browser_run import BrowserRun, browser_run
from ..spec.lab import Lab
from ..spec.plan import Case, Variant

NAN = int(np.float32(np.nan).view(np.uint32))
"""Bits of the NaN with which plans poison outputs."""


def scripts(lab: Lab) -> dict[str, str]:
    """Return step -> its script, for the steps that a page can run; none if the lab has no `browser.py`."""
    run = browser_run(lab)
    if run is None:
        return {}
    steps = [v for v in lab.ladder if v.is_for(WEBGPU.name, "gpu") and v.role == "step"]
    cases: dict[str, list[dict[str, Any]]] = {step.name: [] for step in steps}
    for case in map(lab.case, run.cases):
        inputs = marked_inputs(lab, case)
        for step in steps:
            if recorded := recorded_case(lab, step, case, inputs):
                cases[step.name].append(recorded)
    check = run.check.read_text(encoding="utf-8")
    return {step.name: _script(lab, step, run, check, cases[step.name]) for step in steps if cases[step.name]}


def _script(lab: Lab, step: Variant, run: BrowserRun, check: str, cases: list[dict[str, Any]]) -> str:
    """Return the script of a step. Its fields are named as those of the store's rows where these have the same."""
    row = {"lab": lab.name, "variant": step.name, "parent": step.parent, "role": step.role, "dtype": step.dtype}
    row |= {"unit": lab.unit, "source_sha256": step.text.sha256}
    return f"roofbookRunHere.take({script_json({**row, 'ranges': run.ranges, 'check': check, 'cases': cases})});\n"


def recorded_case(lab: Lab, variant: Variant, case: Case, inputs: Mapping[str, np.ndarray]) -> dict[str, Any] | None:
    """Return what a step's plan does on a case; None if a page cannot do it. inputs: result of `marked_inputs`.

    A page can fill buffers with inputs, zeros or NaNs, launch kernels in order, and read whole buffers as outputs.
    """
    if lab.skip_reason(variant, case):
        return None
    device = LaunchRecorder()
    units = lab.units(case, variant, device)
    try:
        plan = variant.plan(device, variant, replace(case, units=units), inputs)
        uploaded = [buffer.content for buffer in device.buffers]
        device.written.clear()
        plan.reset()
        restored, marks_before = list(dict.fromkeys(device.written)), len(device.reads)
        if device.launches:
            return None
        plan.run()
        if len(device.written) > len(restored) or len(device.reads) > marks_before:
            return None
        outputs = _outputs(device, plan.outputs())
    except (Unsupported, OutOfMemory, BuildFailed):
        return None
    contents = [buffer.content if buffer.number in restored else uploaded[buffer.number] for buffer in device.buffers]
    buffers = [
        {"bytes": buffer.nbytes, **_content(content, inputs)}
        for buffer, content in zip(device.buffers, contents, strict=True)
    ]
    if not outputs or any("unknown" in buffer for buffer in buffers):
        return None
    return {
        "case": case.name,
        "params": {**case.params, "units": units},
        "inputs": {name: array.size for name, array in inputs.items()},
        "buffers": buffers,
        "outputs": outputs,
        **_launches(device.launches),
    }


def fingerprint(texts: Sequence[str]) -> str:
    """Return the SHA-256 of the texts of a step on a case, as a page writes it into its rows."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def marked_inputs(lab: Lab, case: Case) -> dict[str, np.ndarray]:
    """Return inputs of the lab's shapes whose elements all differ, so that a buffer is known by its content."""
    marked, first = {}, 1 << 23
    for name, array in lab.inputs(case, 0).items():
        marked[name] = np.arange(first, first + array.size, dtype=np.uint32).view(np.float32).reshape(array.shape)
        first += array.size
    return marked


def _content(content: np.ndarray | None, inputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return what a buffer holds before a run; {} for NaNs, which a page writes too where the host writes nothing."""
    if content is None or (content.nbytes % 4 == 0 and np.all(content.view(np.uint32) == NAN)):
        return {}
    if not content.any():
        return {"zeros": True}
    for name, array in inputs.items():
        if array.nbytes == content.nbytes and np.array_equal(
            array.reshape(-1).view(np.uint32), content.view(np.uint32)
        ):
            return {"input": name}
    return {"unknown": True}


def _outputs(device: LaunchRecorder, outputs: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return output -> buffer and type; {} if one is not a buffer as it is."""
    buffers: dict[str, Any] = {}
    for name, array in outputs.items():
        for read in device.reads:
            if array.size == read.marks.size and np.array_equal(array.ravel(), read.marks):
                buffers[name] = {"buffer": read.buffer, "dtype": read.dtype}
    return buffers if buffers.keys() == outputs.keys() else {}


def _launches(launches: Sequence[RecordedLaunch]) -> dict[str, Any]:
    """Return the different texts and launches, and the order of the launches as (launch, repetitions)."""
    different = list(dict.fromkeys(launches))
    texts = list(dict.fromkeys(launch.kernel.program.text for launch in different))
    described = [
        {
            "text": texts.index(launch.kernel.program.text),
            "kernel": launch.kernel.name,
            "constants": launch.kernel.constants(launch.group),
            "group": int(np.prod(launch.group)),
            "groups": launch.groups,
            "bindings": [
                [argument.binding, launch.kernel.access(argument.name), buffer]
                for argument, buffer in zip(launch.kernel.buffers, launch.buffers, strict=True)
            ],
            "numbers": list(launch.numbers),
        }
        for launch in different
    ]
    order = [(different.index(launch), len(list(same))) for launch, same in groupby(launches)]
    return {"texts": texts, "launches": described, "order": order}
