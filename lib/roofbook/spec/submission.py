"""A kernel in a file of its own, for a lab: its head says how it is launched. Serves `roofbook judge`.

Each statement of the head is one comment line. Sizes are expressions of the case's sizes, such as `width / 4`:

    // launch smooth(r, b, g): width, height - 2; group 32, 8
    // scratch rows: float, height * width
    // define TILE = 16
    // swap rows, g

A line of prose in the code may begin with such a word; in the comments before the code it may not.

`launch` names a kernel, the arrays and numbers that it gets, the work-items that have work by axis, and those of a group. The
launches of a file follow each other, in each unit of a run. Without a list of arguments they are matches by their names in the
kernel; a whole number may stand there, too. `swap` exchanges two arrays after each unit.
"""

import math
import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.contract import Buffer, BuildFailed, Device, Kernel, Unsupported
from ..errors import UsageError
from .kernel_launch import GROUPS, TYPES, Argument, evaluate, signature_in, unwritten
from .kernel_run import KernelRun, ceil_div, fit
from .lab import Lab
from .plan import Case, Variant, least_bytes, no_conditions
from .source import COMMENT_OR_STRING, Knob, Source, stranger_text

SUFFIXES = {".cl": "OpenCL C", ".cu": "CUDA C++", ".k": "the dialect of this book"}
"""Endings of a submitted file's name, and the language that each stands for."""
STATEMENTS = ("launch", "scratch", "define", "swap")
RESERVED = frozenset(
    {
        *TYPES, "auto", "break", "case", "const", "continue", "default", "defined", "do", "else", "enum", "extern", "for",
        "goto", "if", "inline", "register", "restrict", "return", "signed", "sizeof", "static", "struct", "switch", "typedef",
        "union", "void", "volatile", "while", "global", "local", "private", "constant", "kernel", "bool", "size_t",
    }
)  # fmt: skip
"""Words of the languages, which no macro of a head may be."""
MOST_LAUNCHES = 100
"""Largest number of launches of a unit."""
MOST_CHARACTERS = 200
"""Largest number of characters of an expression."""
MOST_WORK_ITEMS = 1 << 32
"""Largest number of work-items of a launch."""
UNIT = "unit"
"""Name of the argument that counts the units of a run, from 0."""
_STATEMENT = re.compile(rf"^\s*//\s*({'|'.join(STATEMENTS)})\b[ \t]+(.*?)\s*$", re.M)
_CODE = re.compile(r"^[ \t]*(?!//)\S", re.M)
_LAUNCH = re.compile(
    r"(?P<kernel>\w+)\s*(?:\((?P<arguments>[\w\s,]*)\))?\s*:(?P<size>[^;:]+)(?:;\s*group\b(?P<group>[^;:]+))?"
)
_SCRATCH = re.compile(r"(?P<name>\w+)\s*:\s*(?P<type>\w+)\s*,(?P<shape>.+)")
_DEFINE = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*=\s*(?P<value>[\w.+-]+)")
_SWAP = re.compile(r"(?P<first>\w+)\s*,\s*(?P<second>\w+)")
_GLOBAL = re.compile(r'(extern\s*"C"\s*|template\s*<[^;{}]*>\s*|static\s+)?\b__global__')
_ASSEMBLY = re.compile(r"\b(?:__)?asm(?:__)?\b")
_FORMS = {
    "launch": "launch KERNEL(ARGUMENT, ...): SIZE, ...; group SIZE, ...",
    "scratch": "scratch NAME: TYPE, ELEMENTS",
    "define": "define NAME = VALUE",
    "swap": "swap ARRAY, ARRAY",
}


@dataclass(frozen=True)
class KernelLaunch:
    """One launch of a kernel in each unit of a run."""

    kernel: str
    work_items: tuple[str, ...]
    """Expression of the work-items that have work, by axis; rounded up to whole groups."""
    group: tuple[str, ...] = ()
    """Expression of the work-items of a group, by axis; empty for 64, 16 x 16 or 8 x 8 x 4."""
    arguments: tuple[str, ...] = ()
    """Names of arrays and numbers, or whole numbers, in the kernel's order; empty if they are the names of its arguments."""


@dataclass(frozen=True)
class Submission:
    """How the kernels of a file are launched."""

    launches: tuple[KernelLaunch, ...]
    scratch: tuple[tuple[str, str, str], ...] = ()
    """(name, type, expression of the number of elements) of each array that only the kernels use."""
    defines: tuple[tuple[str, str], ...] = ()
    """(name, value) of each macro; a value that is the name of a size becomes its number."""
    swaps: tuple[tuple[str, str], ...] = ()
    """Pairs of arrays that are exchanged after each unit."""

    def as_data(self) -> dict[str, Any]:
        """Return the submission as JSON data."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> "Submission":
        """Return the submission that `as_data` gave."""
        launches = (
            KernelLaunch(
                launch_data["kernel"], *(tuple(launch_data[name]) for name in ("work_items", "group", "arguments"))
            )
            for launch_data in data["launches"]
        )
        return cls(tuple(launches), *(tuple(map(tuple, data[name])) for name in ("scratch", "defines", "swaps")))


def submission_of(text: str, options: Iterable[tuple[str, str]] = ()) -> Submission:
    """Return how the kernels of a file are launched, by the head of its text and by options in the same words.

    options: (statement, its words). A launch among them takes the place of all launches of the head. Raise UsageError for a
    statement of another form, and for a file without a launch.
    """
    matches: dict[str, list[re.Match[str]]] = {name: [] for name in STATEMENTS}
    options = list(options)
    has_launch = any(name == "launch" for name, _ in options)
    forms = {"launch": _LAUNCH, "scratch": _SCRATCH, "define": _DEFINE, "swap": _SWAP}
    comments = COMMENT_OR_STRING.sub(lambda match: match[0] if match[0].startswith("//") else "", text)
    code = _CODE.search(comments)
    head = [
        (match[1], match[2])
        for match in _STATEMENT.finditer(comments)
        if code is None or match.start() < code.start() or forms[match[1]].fullmatch(match[2])
    ]
    for name, words in [*(pair for pair in head if not (has_launch and pair[0] == "launch")), *options]:
        match = forms[name].fullmatch(words.strip())
        if not match:
            shown = words if len(words) <= MOST_CHARACTERS else f"{words[:MOST_CHARACTERS]}..."
            raise UsageError(f"`{name} {shown}` is no statement of a kernel's head: write `{_FORMS[name]}`")
        matches[name].append(match)
    if not matches["launch"]:
        raise UsageError(f"the file does not say how it is launched: write `// {_FORMS['launch']}` into its head")
    if len(matches["launch"]) > MOST_LAUNCHES:
        raise UsageError(f"the head has {len(matches['launch'])} launches; {MOST_LAUNCHES} at most")
    launches = [
        KernelLaunch(match["kernel"], _parts(match["size"]), _parts(match["group"]), _parts(match["arguments"]))
        for match in matches["launch"]
    ]
    for launch in launches:
        if not 1 <= len(launch.work_items) <= 3 or len(launch.group) not in (0, len(launch.work_items)):
            raise UsageError(f"launch {launch.kernel}: one to three sizes, and as many of a group, are needed")
    for match in matches["scratch"]:
        if match["type"] not in TYPES:
            raise UsageError(f"scratch {match['name']}: unknown type {match['type']}; valid: {', '.join(TYPES)}")
    for name in (match["name"] for match in matches["define"]):
        if name in RESERVED or name.startswith("__"):
            raise UsageError(f"define {name}: this is a word of the language; a macro needs a name of its own")
    sizes = [size for launch in launches for size in (*launch.work_items, *launch.group)]
    for size in [*sizes, *(match["shape"] for match in matches["scratch"])]:
        if len(size) > MOST_CHARACTERS:
            raise UsageError(f"the size `{size[:40]}...` has {len(size)} characters; {MOST_CHARACTERS} at most")
    return Submission(
        tuple(launches),
        tuple((match["name"], match["type"], match["shape"].strip()) for match in matches["scratch"]),
        tuple((match["name"], match["value"]) for match in matches["define"]),
        tuple((match["first"], match["second"]) for match in matches["swap"]),
    )


def head_of(submission: Submission) -> str:
    """Return the comment lines that say a submission, as `submission_of` reads them."""
    lines = []
    for launch in submission.launches:
        arguments = f"({', '.join(launch.arguments)})" if launch.arguments else ""
        group = f"; group {', '.join(launch.group)}" if launch.group else ""
        lines.append(f"// launch {launch.kernel}{arguments}: {', '.join(launch.work_items)}{group}")
    lines += [f"// scratch {name}: {kind}, {elements}" for name, kind, elements in submission.scratch]
    lines += [f"// define {name} = {value}" for name, value in submission.defines]
    return "\n".join([*lines, *(f"// swap {first}, {second}" for first, second in submission.swaps)])


def _parts(text: str | None) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",")) if text and text.strip() else ()


def arrays_of(inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Return the arrays among a lab's inputs by name, those of nested mappings too."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            arrays[name] = value
        elif isinstance(value, Mapping):
            arrays |= arrays_of(value)
    return arrays


def numbers_of(lab: Lab, case: Case) -> dict[str, int | float]:
    """Return the numbers of a case that kernels and expressions may use, by name: its sizes, and `units`."""
    numbers: dict[str, int | float] = {"units": case.units, **lab.sizes(case)}
    pending = [lab.numbers(case)]
    while pending:
        for name, value in pending.pop().items():
            if isinstance(value, Mapping):
                pending.append(value)
            elif isinstance(value, int | float) and not isinstance(value, bool):
                numbers[name] = value
    return numbers


def lab_folder(lab: Lab) -> Path:
    """Return the folder of a lab, where its kernel files lie."""
    return Path(str(sys.modules[type(lab).__module__].__file__)).parent


@dataclass(frozen=True)
class SubmittedText(Source):
    """The text of a submitted file: OpenCL C, CUDA C++ or the dialect, by the ending of its name."""

    lab_folder: Path = Path()
    """Folder of the lab, whose kernel files the text may include."""

    def render(self, dialect: str) -> str:
        """Return the text in a plain language. Raise BuildFailed for a text that cannot be expanded."""
        try:
            text = stranger_text(self.path, self.knobs, dialect, self.lab_folder)
            return _with_plain_names(text) if self.path.suffix == ".cu" else text
        except Exception as error:  # a text that is no kernel can raise anything in the preprocessor
            raise BuildFailed(" ".join(str(error).split()) or type(error).__name__) from error


def _with_plain_names(text: str) -> str:
    """Return a text of CUDA C++ whose kernels keep the names that they have in it, templates aside: `extern "C"`."""
    return _GLOBAL.sub(lambda match: match[0] if match[1] else f'extern "C" {match[0]}', text)


class SubmittedRun(KernelRun):
    """The launches of a submission: arrays of the lab, scratch, and numbers of the case as arguments."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        try:
            self._plan(device, variant, case, inputs)
        except UsageError as error:  # the head does not fit the kernels or the lab
            raise BuildFailed(str(error)) from None

    def _plan(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        """Build the kernels, and upload the arrays that they use. Raise UsageError for a head that does not fit them."""
        lab: Lab = variant.options["lab"]
        submission: Submission = variant.options["submission"]
        numbers = numbers_of(lab, case)
        self.sizes = {name: number for name, number in numbers.items() if isinstance(number, int)}
        self.operands = {name: _plain(array) for name, array in arrays_of(inputs).items()}
        self.forms = dict(lab.output_arrays(case))
        _refuse_names_of_lab(submission, {*numbers, UNIT, *self.operands, *self.forms})
        defines: dict[str, Knob] = {name: numbers.get(value, value) for name, value in submission.defines}
        self.sizes |= {name: int(value) for name, value in defines.items() if str(value).isdecimal()}
        text = variant.text
        text = SubmittedText(text.path, tuple(sorted(defines.items())), lab_folder=getattr(text, "lab_folder", Path()))
        code = text.render(device.backend)
        if device.kind == "cpu" and _ASSEMBLY.search(COMMENT_OR_STRING.sub("", code)):
            raise UsageError("assembly is for GPUs: on a CPU it reaches what no kernel may, such as files")
        program = device.build(code, device.verbose)
        self.log = program.log()
        signatures = {launch.kernel: signature_in(code, launch.kernel) for launch in submission.launches}
        self.start = {
            name: self.operands[name] if name in self.operands else unwritten(shape, dtype)
            for name, (dtype, shape) in self.forms.items()
        }
        names = {name for launch in submission.launches for name in _names(launch, signatures[launch.kernel])}
        self.arrays: dict[str, Buffer] = {
            name: self._kept(device.upload(array))
            for name, array in {**self.operands, **self.start}.items()
            if name in names or name in self.start
        }
        self.types = {name: array.dtype.type for name, array in {**self.operands, **self.start}.items()}
        for name, kind, elements in submission.scratch:
            self.types[name] = TYPES[kind]
            count = max(1, evaluate(elements, self.sizes)) * np.dtype(TYPES[kind]).itemsize
            if count > device.memory_bytes:
                raise UsageError(f"scratch {name} has more bytes than the memory of the device, {device.memory_bytes}")
            self.arrays[name] = self._kept(device.empty(count))
        self.swaps = submission.swaps
        for pair in self.swaps:
            self._check_swap(*pair)
        self.numbers = numbers
        self.host_reads = {name: np.empty_like(self.start[name]) for name in lab.host_reads}
        self.steps = [
            self._step(launch, program.kernel(launch.kernel), signatures[launch.kernel])
            for launch in submission.launches
        ]
        self._check_outputs(names)
        self.kernel, self.size, self.group, _ = self.steps[0]
        self.present = dict(self.arrays)

    def _kept(self, buffer: Buffer) -> Buffer:
        self.buffers.append(buffer)
        return buffer

    def _step(
        self, launch: KernelLaunch, kernel: Kernel, arguments: tuple[Argument, ...]
    ) -> tuple[Kernel, tuple[int, ...], tuple[int, ...], list[tuple[str, type[np.generic]]]]:
        """Return a launch with its sizes as numbers, and (name, type) of each argument. Raise UsageError if they do not fit."""
        work_items = [evaluate(size, self.sizes) for size in launch.work_items]
        group = tuple(evaluate(size, self.sizes) for size in launch.group) or tuple(
            1 if count == 1 else part for count, part in zip(work_items, GROUPS[len(work_items) - 1], strict=True)
        )
        if min(*work_items, *group) < 1:
            raise UsageError(f"launch {launch.kernel}: {work_items} work-items in groups of {list(group)}: 1 at least")
        if math.prod(work_items) > MOST_WORK_ITEMS:
            raise UsageError(f"launch {launch.kernel} has more than {MOST_WORK_ITEMS} work-items")
        try:
            fit(self.device, group)
        except Unsupported as error:
            raise UsageError(f"launch {launch.kernel}: {error}") from None
        names = _names(launch, arguments)
        if len(names) != len(arguments):
            raise UsageError(f"{launch.kernel} has {len(arguments)} arguments, and its launch gives {len(names)}")
        for name, argument in zip(names, arguments, strict=True):
            self._check(launch.kernel, name, argument)
        size = tuple(ceil_div(count, part) * part for count, part in zip(work_items, group, strict=True))
        types = [(name, argument.dtype) for name, argument in zip(names, arguments, strict=True)]
        return kernel, size, group, types

    def _check(self, kernel: str, name: str, argument: Argument) -> None:
        """Raise UsageError for an argument that the lab does not have, or that has another type there."""
        if argument.is_array:
            if name not in self.arrays:
                raise UsageError(f"{kernel}: there is no array {name}; valid: {', '.join(sorted(self.types))}")
            if np.dtype(self.types[name]) != np.dtype(argument.dtype):
                types = [kind for kind, dtype in TYPES.items() if np.dtype(dtype) == np.dtype(self.types[name])]
                raise UsageError(f"{kernel}: the elements of {name} are of type {types[0] if types else 'another'}")
        elif name not in {*self.numbers, UNIT} and not name.isdecimal():
            raise UsageError(f"{kernel}: there is no number {name}; valid: {', '.join(sorted({*self.numbers, UNIT}))}")

    def _check_swap(self, first: str, second: str) -> None:
        """Raise UsageError unless both are arrays of one type and size."""
        for name in (first, second):
            if name not in self.arrays:
                raise UsageError(
                    f"swap {first}, {second}: no launch has an array {name}; there are {', '.join(self.arrays)}"
                )
        forms = {(np.dtype(self.types[name]), self.arrays[name].nbytes) for name in (first, second)}
        if len(forms) > 1:
            raise UsageError(f"swap {first}, {second}: the two differ in type or size")

    def _check_outputs(self, names: set[str]) -> None:
        """Raise UsageError for an output that no launch has, nor an array that is exchanged with it.

        names: of the arguments of all launches.
        """
        for output in self.forms:
            reached, before = {output}, set[str]()
            while reached != before:
                before = set(reached)
                reached |= {name for pair in self.swaps if reached & set(pair) for name in pair}
            if not reached & names:
                raise UsageError(f"no launch has the output {output}")

    def run(self) -> float | None:  # type: ignore[override]
        if not self.host_reads:
            return super().run()
        self.submit()
        for name, array in self.host_reads.items():
            self.queue.read(self.present[name], array)
        return None

    def submit(self) -> None:
        for unit in range(self.units):
            values = {**self.numbers, UNIT: unit}
            for kernel, size, group, arguments in self.steps:
                values_given = [
                    self.present[name] if name in self.present else dtype(values.get(name, name))
                    for name, dtype in arguments
                ]
                self.queue.launch(kernel, size, group, *values_given)
            for first, second in self.swaps:
                self.present[first], self.present[second] = self.present[second], self.present[first]

    def reset(self) -> None:
        self.present = dict(self.arrays)
        for name, array in self.start.items():
            self.queue.write(self.arrays[name], array)

    def outputs(self) -> dict[str, np.ndarray]:
        arrays = {name: self.queue.read(self.present[name], np.empty_like(array)) for name, array in self.start.items()}
        return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def _names(launch: KernelLaunch, arguments: tuple[Argument, ...]) -> tuple[str, ...]:
    return launch.arguments or tuple(argument.name for argument in arguments)


def _refuse_names_of_lab(submission: Submission, names: set[str]) -> None:
    """Raise UsageError for a macro or scratch array that has the name of one of the lab's arrays or numbers.

    A macro may stand for the size of its own name: then a kernel need not get it as an argument.
    """
    own = [("define", name) for name, value in submission.defines if value != name]
    own += [("scratch", name) for name, *_ in submission.scratch]
    for statement, name in own:
        if name in names:
            raise UsageError(f"{statement} {name}: the lab has this name for an array or number of its own")
    if len({name for name, *_ in submission.scratch}) < len(submission.scratch):
        raise UsageError("two scratch arrays have one name")


def _plain(array: np.ndarray) -> np.ndarray:
    """Return an array as kernels see it: Booleans are ints."""
    return np.ascontiguousarray(array.astype(np.int32) if array.dtype == bool else array)


def head_for(lab: Lab, case: Case) -> str:
    """Return a head to start from, with the arrays and numbers of a case as comments. Raise UsageError as `output_arrays`."""
    outputs = lab.output_arrays(case)
    inputs = {name: _plain(array) for name, array in arrays_of(lab.inputs(case, 1)).items()}
    kinds = {np.dtype(dtype): kind for kind, dtype in reversed(list(TYPES.items()))}
    forms = {name: (kinds.get(array.dtype, "?"), array.shape) for name, array in inputs.items()}
    written = {name: (kinds.get(np.dtype(dtype), "?"), shape) for name, (dtype, shape) in outputs.items()}

    def lines(arrays: Mapping[str, tuple[str, tuple[int, ...]]]) -> list[str]:
        return [f"//   {name}: {kind}, {' x '.join(map(str, shape))}" for name, (kind, shape) in arrays.items()]

    numbers = ", ".join(f"{name} = {value}" for name, value in numbers_of(lab, case).items())
    changed_in_place = [name for name in written if name in forms]
    return "\n".join([
        f"// A kernel for {lab.name}, on {case.name}. Inputs:",
        *lines({name: form for name, form in forms.items() if name not in written}),
        f"// Outputs{', of which ' + ', '.join(changed_in_place) + ' starts as an input' if changed_in_place else ''}:",
        *lines(written),
        f"// Numbers: {numbers}, {UNIT} = 0, 1, ...",
        f"// Each of {case.units} units of a run (a {lab.unit}) launches:",
        f"// launch NAME({', '.join([*forms, *(name for name in written if name not in forms)])}): SIZE; group 64",
    ])  # fmt: skip
