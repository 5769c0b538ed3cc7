"""Launches of a plan in the words of a submission's head, found by running it on several sizes.

The plan runs on a device, its launches are noted, and expressions of the sizes are looked for that have the noted values in all
runs. Serves `roofbook best`, whose files stand without the lab's host code. Whether a file is right is for the judge.
"""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from ..devices.contract import Buffer, Device, Queue, observed_by
from ..devices.find import open_device
from ..errors import UsageError
from . import registry
from .kernel_launch import TYPES, evaluate, signature_in
from .kernel_run import ceil_div
from .lab import Lab
from .plan import Case, Runnable, Variant
from .source import Source, rendered_sources
from .submission import UNIT, KernelLaunch, Submission, arrays_of, head_of, numbers_of

DIVISORS = (*range(2, 65), 96, 128, 192, 256, 512, 1024)
"""Divisors of a size that an expression may have."""


@dataclass
class _Observer:
    """Buffers that a plan makes, buffers that it reads, and its launches."""

    guard_bytes: int = 0
    buffers: list[Buffer] = field(default_factory=list)
    reads: list[Buffer] = field(default_factory=list)
    launches: list[tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]] = field(default_factory=list)

    def notice_build(self, device: Device, text: str, options: Sequence[str]) -> None:
        """Ignore a text: `rendered_sources` notes the sources."""

    def notice_buffer(self, device: Device, buffer: Buffer, guarded: Buffer) -> None:
        self.buffers.append(buffer)

    def notice_queue(self, device: Device, queue: Queue) -> None:
        launch, read = queue.launch, queue.read

        def noted_launch(kernel: Any, size: Sequence[int], group: Sequence[int], *arguments: Any) -> None:
            self.launches.append((kernel.name, tuple(size), tuple(group), arguments))
            launch(kernel, size, group, *arguments)

        def noted_read(buffer: Buffer, array: np.ndarray, offset: int = 0) -> np.ndarray:
            self.reads.append(buffer)
            return read(buffer, array, offset)

        queue.launch, queue.read = noted_launch, noted_read  # type: ignore[method-assign, assignment]


@dataclass(frozen=True)
class TracedRun:
    """A plan that is ready on a case, with its buffers by the names of the lab's arrays."""

    case: Case
    runnable: Runnable
    arrays: Mapping[str, Buffer]
    """Buffer of each input and output that the plan keeps as the lab has it."""
    launches: Sequence[tuple[str, tuple[int, ...], tuple[int, ...], tuple[Any, ...]]]
    """(kernel, work-items, group, arguments) of each launch of a run."""
    sources: Sequence[Source]
    numbers: Mapping[str, int | float]

    def name_of(self, buffer: Buffer) -> str:
        """Return the array's name; for a buffer that only the kernels use one made of its place among these."""
        for name, kept in self.arrays.items():
            if kept is buffer:
                return name
        own = dict.fromkeys(id(a) for *_, arguments in self.launches for a in arguments if isinstance(a, Buffer))
        return f"scratch_{list(own).index(id(buffer))}"


def traced(lab: Lab, variant: Variant, case: Case, device: Device, inputs: Mapping[str, Any]) -> TracedRun:
    """Run a variant once, and return it with what it launched. The caller closes its runnable."""
    observer = _Observer()
    with observed_by(observer), rendered_sources() as sources:
        runnable = variant.plan(device, variant, case, inputs)
    queue, arrays = device.queue(), dict[str, Buffer]()
    runnable.reset()
    contents = {name: np.ascontiguousarray(array).tobytes() for name, array in arrays_of(inputs).items()}
    for buffer in observer.buffers:
        held = queue.read(buffer, np.empty(buffer.nbytes, np.uint8)).tobytes() if hasattr(buffer, "memory") else b""
        for name, content in contents.items():
            if held == content:
                arrays.setdefault(name, buffer)
    observer.launches.clear()
    runnable.run()
    launches = list(observer.launches)
    observer.reads.clear()
    runnable.outputs()
    for name, buffer in zip(lab.output_arrays(case), observer.reads, strict=False):
        arrays[name] = buffer
    return TracedRun(case, runnable, arrays, launches, tuple(dict.fromkeys(sources)), numbers_of(lab, case))


def submitted_text(lab: Lab, variant: Variant, device: Device, cases: Sequence[Case]) -> str:
    """Return a variant as the text of a submission in the device's language: a head, and the kernels.

    cases: sizes on which it is run, the first one decides constants. Raise UsageError if its launches cannot be said in a head.
    """
    runs: list[TracedRun] = []
    try:
        runs += (traced(lab, variant, case, device, lab.inputs(case, 1)) for case in cases)
        return _said(runs, device.backend)
    finally:
        for run in runs:
            run.runnable.close()


def main(lab_name: str, variant: str, spec: str, case: str, *awkward: str) -> None:
    """Print the text of a submission, or the reason why there is none as the last line of standard error."""
    lab = registry.get(lab_name)
    lab.prepare()
    device = open_device(spec, lab.preferred_backend)
    try:
        cases = [lab.case(case), *map(lab.awkward_case, awkward)]
        print(submitted_text(lab, lab.variant(variant), device, cases))
    except UsageError as error:
        sys.exit(str(error))


def _said(runs: Sequence[TracedRun], backend: str) -> str:
    by_unit = [_by_unit(run) for run in runs]
    if len({tuple(kernel for kernel, *_ in launches) for launches, _ in by_unit}) > 1 or not by_unit[0][0]:
        raise UsageError("other sizes have other launches")
    texts, defines = _texts(runs)
    text = "\n".join(source.render(backend) for source in texts)
    launches, scratch = [], dict[str, tuple[str, str, str]]()
    for launch_of_runs in zip(*(launches for launches, _ in by_unit), strict=True):
        launches.append(_launch(runs, launch_of_runs, text, scratch))
    submission = Submission(tuple(launches), tuple(scratch.values()), tuple(defines.items()), by_unit[0][1])
    return f"{head_of(submission)}\n\n{text}\n"


def _by_unit(run: TracedRun) -> tuple[list[Any], tuple[tuple[str, str], ...]]:
    """Return the launches of the first unit, and the arrays that each unit exchanges."""
    units = run.runnable.units
    count, rest = divmod(len(run.launches), units)
    if rest or not count:
        raise UsageError(
            f"its {units} units have {len(run.launches)} launches in all, and a head says those of each unit"
        )
    first, swaps = list(run.launches[:count]), dict[frozenset[str], tuple[str, str]]()
    for before, after in zip(first, run.launches[count : 2 * count], strict=False):
        for one, other in zip(before[3], after[3], strict=True):
            if isinstance(one, Buffer) and one is not other:
                names = run.name_of(one), run.name_of(other)
                swaps.setdefault(frozenset(names), names)
    return first, tuple(swaps.values())


def _texts(runs: Sequence[TracedRun]) -> tuple[list[Source], dict[str, str]]:
    """Return the sources with knobs of sizes left as names, and (macro, number of the case) of each such knob."""
    defines: dict[str, str] = {}
    if len({tuple(source.path for source in run.sources) for run in runs}) > 1:
        raise UsageError("other sizes have other kernel files")
    texts = []
    for sources in zip(*(run.sources for run in runs), strict=True):
        symbols = {}
        for knob in dict(sources[0].knobs):
            values = [source.settings[knob] for source in sources]
            if len(set(values)) > 1 or _are(runs, knob, values):
                symbols[knob] = _symbol(runs, knob, values, defines)
        texts.append(sources[0].with_knobs(**symbols))
    return texts, defines


def _symbol(runs: Sequence[TracedRun], knob: str, values: Sequence[Any], defines: dict[str, str]) -> str:
    """Return the text of a knob whose value follows from sizes: macros, which `defines` gets, with the sizes' names."""
    if _are(runs, knob, values):
        expression = knob
    elif any(type(value) is not int for value in values):
        raise UsageError(f"its knob {knob} is {' and '.join(map(str, values))}, by no size of the case")
    else:
        expression = _expression(runs, values, None, f"the values of its knob {knob}")
    if "/" in expression:  # a head rounds up, and a kernel down
        raise UsageError(f"its knob {knob} is {expression}, rounded up")
    names = re.findall(r"[A-Za-z]\w*", expression)
    defines |= {f"size_{name}": name for name in names}
    symbol = re.sub(r"[A-Za-z]\w*", lambda match: f"size_{match[0]}", expression)
    return symbol if symbol == f"size_{knob}" else f"({symbol})"


def _are(runs: Sequence[TracedRun], name: str, values: Sequence[Any]) -> bool:
    """Return whether a number of the cases has these values."""
    return all(run.numbers.get(name) == value for run, value in zip(runs, values, strict=True))


def _launch(
    runs: Sequence[TracedRun], launch_of_runs: Sequence[Any], text: str, scratch: dict[str, tuple[str, str, str]]
) -> KernelLaunch:
    """Return a launch whose sizes and arguments hold in all runs. scratch: gets the arrays that only kernels use."""
    kernel = launch_of_runs[0][0]
    declared = signature_in(text, kernel)
    groups = [
        _expression(runs, values, None, f"the group of {kernel}")
        for values in zip(*(g for _, _, g, _ in launch_of_runs), strict=True)
    ]
    sizes = [
        _expression(runs, values, list(of_group), f"the work-items of {kernel}")
        for values, of_group in zip(
            zip(*(size for _, size, _, _ in launch_of_runs), strict=True),
            zip(*(g for _, _, g, _ in launch_of_runs), strict=True),
            strict=True,
        )
    ]
    names = []
    for argument, values in zip(
        declared, zip(*(arguments for *_, arguments in launch_of_runs), strict=True), strict=True
    ):
        if not argument.is_array:
            names.append(_number(runs, argument.name, values, kernel))
            continue
        names.append(runs[0].name_of(values[0]))
        if names[-1] not in runs[0].arrays:
            kind = next(kind for kind, dtype in TYPES.items() if dtype is argument.dtype)
            itemsize = np.dtype(argument.dtype).itemsize
            elements = _expression(
                runs, [value.nbytes // itemsize for value in values], None, f"the size of {argument.name}"
            )
            scratch[names[-1]] = (names[-1], kind, elements)
    return KernelLaunch(kernel, tuple(sizes), tuple(groups), tuple(names))


def _number(runs: Sequence[TracedRun], parameter: str, values: Sequence[Any], kernel: str) -> str:
    """Return the number of the case that an argument is. Raise UsageError for an argument that is none."""
    for name in (parameter, *runs[0].numbers):
        if all(
            name in run.numbers and value.dtype.type(run.numbers[name]) == value
            for run, value in zip(runs, values, strict=True)
        ):
            return name
    if all(value == 0 for value in values) and all(run.runnable.units == 1 for run in runs):
        return UNIT
    raise UsageError(f"{kernel}: its argument {parameter} is {values[0]}, which is no number of the case")


def _expression(runs: Sequence[TracedRun], values: Sequence[int], groups: Sequence[int] | None, noun: str) -> str:
    """Return an expression of sizes with these values. groups: values need only be equal once rounded up to these."""
    parts = groups or [1] * len(values)

    if len(set(values)) == 1 and not groups:
        return str(values[0])
    numbers = [
        {name: number for name, number in run.numbers.items() if isinstance(number, int) and name != "units"}
        for run in runs
    ]
    for text in _candidates(list(numbers[0])):
        if all(
            ceil_div(evaluate(text, sizes), part) * part == value > 0
            for sizes, value, part in zip(numbers, values, parts, strict=True)
        ):
            return text
    if len(set(values)) == 1:
        return str(values[0])
    raise UsageError(f"{noun}, {' and '.join(map(str, values))}, are no expression of the sizes that was looked for")


def _candidates(names: Sequence[str]) -> Iterator[str]:
    """Yield expressions of sizes, simple ones first."""
    for name in names:
        yield from (name, *(f"{name} - {less}" for less in (1, 2, 3, 4)))
    for name, number in product(names, DIVISORS):
        yield from (f"{name} / {number}", f"{name} * {number}")
    for first, second in product(names, names):
        yield from (f"{first} * {second}", f"{first} * ({second} - 2)")
    for first, second, number in product(names, names, DIVISORS):
        yield from (f"{first} * {second} / {number}", f"{first} * ({second} - 2) / {number}")
    for name, number, factor in product(names, DIVISORS, DIVISORS):
        yield f"({name} / {number}) * {factor}"


if __name__ == "__main__":
    main(*sys.argv[1:])
