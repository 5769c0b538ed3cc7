"""Scripts from which a page runs a step in the reader's browser: kernels in WGSL, buffers, and the launches of the step's plan.

The page of a lab's kernels (kernels_page.py) has a button for each of them; book/_assets/run-here.js loads and runs them.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from ..devices.backends import WEBGPU
from ..devices.contract import BuildFailed, OutOfMemory, Unsupported
from ..devices.launch_recorder import (
    STANDARD,
    USUAL,
    Event,
    LaunchRecorder,
    RecordedLaunch,
    RecordedRead,
    RecordedWait,
    RecordedWrite,
)
from ..escaping import script_json
from ..spec.browser_run import BrowserRun, Reads, browser_run, drawn
from ..spec.lab import Lab
from ..spec.plan import Case, Variant

NAN = int(np.float32(np.nan).view(np.uint32))
"""Bits of the NaN with which plans poison outputs."""
GRANTED = {
    "maxComputeInvocationsPerWorkgroup": STANDARD["max-compute-invocations-per-workgroup"],
    "maxComputeWorkgroupStorageSize": STANDARD["max-compute-workgroup-storage-size"],
    "maxStorageBuffersPerShaderStage": STANDARD["max-storage-buffers-per-shader-stage"],
    "maxComputeWorkgroupSizeX": 256,
    "maxComputeWorkgroupSizeY": 256,
    "maxComputeWorkgroupSizeZ": 64,
}
"""Limits of each device, by their names in JavaScript. A page asks for more where a step needs it."""


class LabScripts(NamedTuple):
    """The scripts of a lab's steps."""

    of_steps: dict[str, str]
    """Step -> its script, of the steps that a page can run."""
    reasons: dict[str, str]
    """Step -> why no page can run it on the first case, of the other steps that WGSL can say."""


def scripts(lab: Lab) -> LabScripts:
    """Return the scripts of a lab's steps; none if the lab has no `browser.py`."""
    run = browser_run(lab)
    if run is None:
        return LabScripts({}, {})
    steps = [v for v in lab.ladder if v.is_for(WEBGPU.name, "gpu") and v.role == "step"]
    recordings: dict[str, list[dict[str, Any] | str]] = {step.name: [] for step in steps}
    for case in map(lab.case, run.cases):
        operands = drawn_inputs(lab, case)
        for step in steps:
            recordings[step.name].append(recorded_or_reason(lab, step, case, operands))
    code = run.script.read_text(encoding="utf-8")
    of_steps, reasons = {}, {}
    for step in steps:
        if cases := [recorded for recorded in recordings[step.name] if not isinstance(recorded, str)]:
            of_steps[step.name] = _script(lab, step, run, code, cases)
        else:
            reasons[step.name] = str(recordings[step.name][0])
    return LabScripts(of_steps, reasons)


def _script(lab: Lab, step: Variant, run: BrowserRun, code: str, cases: list[dict[str, Any]]) -> str:
    """Return the script of a step. Its fields are named as those of the store's rows where these have the same."""
    row = {"lab": lab.name, "variant": step.name, "parent": step.parent, "role": step.role, "dtype": step.dtype}
    row |= {"unit": lab.unit, "source_sha256": step.text.sha256}
    return f"roofbookRunHere.take({script_json({**row, 'ranges': run.ranges, 'code': code, 'cases': cases})});\n"


def run_of(lab: Lab) -> BrowserRun:
    """Return the runs of a lab that has some."""
    run = browser_run(lab)
    assert run, f"{lab.name} does not run in a browser"
    return run


class DrawnInputs(NamedTuple):
    """A lab's inputs of a case, from numbers that a page draws too."""

    sizes: Mapping[str, int]
    """Number of drawn numbers by name."""
    inputs: Mapping[str, Any]
    arrays: Mapping[str, np.ndarray]
    """The bytes of the arrays that plans put in buffers, by which a buffer is known."""


def drawn_inputs(lab: Lab, case: Case, seed: int = 0) -> DrawnInputs:
    """Return the lab's inputs of a case from the numbers that a page draws with a seed."""
    run = run_of(lab)
    if run.inputs and run.sizes:
        sizes = run.sizes(case)
        inputs = run.inputs(case, drawn(run, sizes, seed))
    else:
        shapes = {name: array.shape for name, array in lab.inputs(case, seed).items()}
        sizes = {name: int(np.prod(shape)) for name, shape in shapes.items()}
        numbers = drawn(run, sizes, seed)
        inputs = {name: numbers[name].reshape(shape) for name, shape in shapes.items()}
    return DrawnInputs(sizes, inputs, {name: _bytes(array) for name, array in run.arrays(inputs).items()})


def recorded_case(lab: Lab, variant: Variant, case: Case, operands: DrawnInputs) -> dict[str, Any] | None:
    """Return what a step's plan does on a case; None if a page cannot do it. operands: result of `drawn_inputs`."""
    recorded = recorded_or_reason(lab, variant, case, operands)
    return None if isinstance(recorded, str) else recorded


def recorded_or_reason(lab: Lab, variant: Variant, case: Case, operands: DrawnInputs) -> dict[str, Any] | str:
    """Return what a step's plan does on a case, or why a page cannot do it. operands: result of `drawn_inputs`.

    The plan is recorded with the limits that each GPU has, or else with those of most computers.
    """
    run = run_of(lab)
    if run.units:
        case = replace(case, units=run.units)
    if reason := lab.skip_reason(variant, case):
        return reason
    if isinstance(allowed := run.allowed(variant), str):
        return allowed
    for limits in (STANDARD, USUAL):
        device = LaunchRecorder(limits)
        units = lab.units(case, variant, device)
        if run.units not in (0, units):
            return f"its runs have another number of {lab.unit}s than those of a page"
        try:
            plan = variant.plan(device, variant, replace(case, units=units), operands.inputs)
            plan.reset()
            begin = len(device.events)
            plan.run()
            recording = Recording(device, range(begin, len(device.events)), operands.arrays)
            outputs = run.raw_outputs(operands.inputs, plan.outputs(), device.reads)
            prepares = any(isinstance(event, RecordedLaunch) for event in device.events[:begin])
        except (Unsupported, OutOfMemory, BuildFailed) as error:
            reason = str(error)
            continue
        if recorded := outputs and recording.described(outputs, variant):
            return {
                "case": case.name,
                "params": {**case.params, "units": units},
                "inputs": operands.sizes,
                "allowed": allowed,
                **recorded,
            }
        return "kernels lay out its operands before a run" if prepares else "its host computes, not the device alone"
    assert reason, "the last limits were refused"
    return reason


class BufferCopy(NamedTuple):
    """A whole buffer whose content the host passes to another."""

    source: int
    target: int


Step = RecordedLaunch | BufferCopy | RecordedRead | RecordedWait
"""Part of a run that a page does."""


class Recording:
    """Run of a plan, as a page does it again. run: numbers of the events of its run. arrays: see `DrawnInputs`.

    A page fills buffers with arrays or with equal words, launches kernels in order, copies a buffer where the host passes its
    content to another one, waits where the host waits for a kernel within what is timed, and reads whole buffers.
    """

    def __init__(self, device: LaunchRecorder, run: range, arrays: Mapping[str, np.ndarray]) -> None:
        self.device, self.run, self.arrays = device, run, arrays
        self.timed = [number for lap in device.laps for number in lap if number in run]
        """Numbers of the events that the plan times by the device; none if it times the whole run."""
        reads = Counter(event.buffer for event in self._events(run) if isinstance(event, RecordedRead))
        self.read_often = {buffer for buffer, count in reads.items() if count > 1}
        """Buffers that the host reads several times in a run: each of their contents counts."""

    def _events(self, numbers: Iterable[int]) -> list[Event]:
        return [self.device.events[number] for number in numbers]

    def described(self, outputs: Reads, variant: Variant) -> dict[str, Any] | None:
        """Return buffers, outputs, texts and launches, and their order; None if a page cannot do it."""
        contents, steps = self._contents(), self._steps()
        if contents is None or steps is None:
            return None
        launches = list(dict.fromkeys(step for _, step in steps if isinstance(step, RecordedLaunch)))
        used = {buffer for launch in launches for buffer in launch.buffers}
        used |= {read.buffer for reads in outputs.values() for read in reads}
        used |= {buffer for _, step in steps if isinstance(step, BufferCopy) for buffer in step}
        numbers = {buffer: number for number, buffer in enumerate(sorted(used))}
        buffers = [
            {"bytes": self.device.buffers[buffer].nbytes, **self._content(contents.get(buffer))} for buffer in numbers
        ]
        if any("unknown" in buffer for buffer in buffers):
            return None
        texts = list(dict.fromkeys(launch.kernel.program.text for launch in launches))
        order = _order([step for _, step in steps], launches, numbers)
        timed = _order([step for number, step in steps if number in self.timed], launches, numbers)
        return {
            "buffers": buffers,
            "outputs": {name: self._output(reads, numbers) for name, reads in outputs.items()},
            "texts": texts,
            "own": _own_text(texts, launches, variant),
            "needs": _needs(launches),
            "launches": [_launch(launch, texts, numbers) for launch in launches],
            "order": order,
            **({"timed": timed} if self.timed and timed != order else {}),
        }

    def _contents(self) -> dict[int, np.ndarray] | None:
        """Return buffer -> the bytes that the host wrote last before a run, or in it before anything used the buffer.

        None if kernels run before it, or if the host writes in a run what no page can know.
        """
        contents, used, reads = {}, set[int](), list[RecordedRead]()
        for number, event in enumerate(self.device.events[: self.run.stop]):
            if isinstance(event, RecordedLaunch):
                if number not in self.run:
                    return None
                used.update(event.buffers)
            elif isinstance(event, RecordedRead):
                reads.append(event)
            elif isinstance(event, RecordedWrite) and not _passed_on(event, reads):
                if event.buffer in used:
                    return None
                contents[event.buffer] = event.content
        return contents

    def _steps(self) -> list[tuple[int, Step]] | None:
        """Return the launches, copies, waits and reads of a run with the numbers of their events.

        A buffer is copied when the host reads it, not when the host writes what it read. None if kernels use the target before.
        """
        steps, used, reads = list[tuple[int, Step]](), dict[int, int](), dict[RecordedRead, int]()
        last = max((n for n in self.run if isinstance(self.device.events[n], RecordedLaunch)), default=-1)
        for number, event in zip(self.run, self._events(self.run), strict=True):
            if isinstance(event, RecordedLaunch):
                steps.append((number, event))
                used.update(dict.fromkeys(event.buffers, number))
            elif isinstance(event, RecordedRead):
                reads[event] = number
                if event.buffer in self.read_often:
                    steps.append((number, event))
            elif isinstance(event, RecordedWrite):
                if (read := _passed_on(event, reads)) is None:
                    continue
                if used.get(event.buffer, -1) > reads[read]:
                    return None
                steps.append((reads[read], BufferCopy(read.buffer, event.buffer)))
            elif not self.timed and number < last:
                steps.append((number, event))
        return sorted(steps, key=itemgetter(0))

    def _content(self, content: np.ndarray | None) -> dict[str, Any]:
        """Return the array that a buffer holds before a run, or its equal words: NaN if the host writes nothing."""
        if content is None:
            return {"word": NAN}
        if content.nbytes % 4 == 0 and _equal((words := content.view(np.uint32))[1:], words[:-1]):
            return {"word": int(words[0])}
        names = (name for name, array in self.arrays.items() if _equal(array, content))
        return {"array": name} if (name := next(names, None)) else {"unknown": True}

    def _output(self, reads: Sequence[RecordedRead], numbers: Mapping[int, int]) -> dict[str, Any]:
        """Return an output as a page reads it: the buffer, its type, and whether all contents in a run belong to it."""
        (buffer,) = {read.buffer for read in reads}
        return {"buffer": numbers[buffer], "dtype": reads[0].dtype, "each": buffer in self.read_often}


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _equal(first: np.ndarray, second: np.ndarray) -> bool:
    """Return whether two flat arrays of one type are equal. Most that differ do so in their first elements."""
    return len(first) == len(second) and all(
        np.array_equal(first[part], second[part]) for part in (slice(64), slice(64, None))
    )


def _passed_on(write: RecordedWrite, reads: Iterable[RecordedRead]) -> RecordedRead | None:
    """Return the read whose result the host writes to another buffer."""
    return next((read for read in reads if _equal(_bytes(read.marks), write.content)), None)


def _order(steps: Iterable[Step], launches: Sequence[RecordedLaunch], numbers: Mapping[int, int]) -> list[Any]:
    """Return steps as a page takes them: a launch with its repetitions as a pair of numbers, everything else as an object."""
    order: list[Any] = []
    for step, equal in groupby(steps):
        if isinstance(step, RecordedLaunch):
            order.append([launches.index(step), len(list(equal))])
        elif isinstance(step, BufferCopy):
            order.append({"copy": [numbers[step.source], numbers[step.target]]})
        elif isinstance(step, RecordedRead):
            order.append({"read": numbers[step.buffer]})
        else:
            order.append({"wait": True})
    return order


def _launch(launch: RecordedLaunch, texts: Sequence[str], numbers: Mapping[int, int]) -> dict[str, Any]:
    kernel = launch.kernel
    return {
        "text": texts.index(kernel.program.text),
        "kernel": kernel.name,
        "constants": kernel.constants(launch.group),
        "group": int(np.prod(launch.group)),
        "groups": launch.groups,
        "bindings": [
            [argument.binding, kernel.access(argument.name), numbers[buffer]]
            for argument, buffer in zip(kernel.buffers, launch.buffers, strict=True)
        ],
        "numbers": list(launch.numbers),
    }


def fingerprint(texts: Sequence[str]) -> str:
    """Return the SHA-256 of the texts of a step on a case, as a page writes it into its rows."""
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def _own_text(texts: Sequence[str], launches: Sequence[RecordedLaunch], variant: Variant) -> int:
    """Return the number of the text that a reader may change: of a step's own file, the one that is launched last."""
    text = variant.text.render(WEBGPU.name)
    kernels = [launch.kernel for launch in launches if f"fn {launch.kernel.name}(" in text]
    return texts.index(kernels[-1].program.text) if kernels else 0


def _needs(launches: Sequence[RecordedLaunch]) -> dict[str, int]:
    """Return the limits that launches need above those of each device, by their names in JavaScript."""
    sizes = [max(side) for side in zip(*((*launch.group, 1, 1)[:3] for launch in launches), strict=True)]
    needs = {
        "maxComputeInvocationsPerWorkgroup": max(int(np.prod(launch.group)) for launch in launches),
        "maxComputeWorkgroupStorageSize": max(launch.kernel.local_bytes for launch in launches),
        "maxStorageBuffersPerShaderStage": max(len(launch.buffers) for launch in launches),
        **{f"maxComputeWorkgroupSize{axis}": size for axis, size in zip("XYZ", sizes, strict=True)},
    }
    return {name: need for name, need in needs.items() if need > GRANTED[name]}
