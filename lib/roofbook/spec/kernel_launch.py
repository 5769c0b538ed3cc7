"""One launch of a kernel whose arguments are found by name: the arrays, scalars and sizes that its signature lists.

Serves `KernelLab`. The numbers of work-items and the shapes of arrays are expressions of sizes, such as `n / LANES`.
"""

import ast
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from ..devices.contract import Device
from ..errors import UsageError
from .host_code import tokens_of
from .kernel_constants import constants
from .kernel_run import KernelRun, ceil_div, fit
from .plan import Case, Variant, least_bytes, no_conditions
from .source import Source

Expression = str | int
Shape = Expression | tuple[Expression, ...]
"""An expression for each axis; alone for one axis. For work-items, the first axis is that of GLOBAL_ID(0)."""

TYPES: Mapping[str, type[np.generic]] = {
    "float": np.float32, "double": np.float64, "half": np.float16, "HALF": np.float16,
    "char": np.int8, "short": np.int16, "int": np.int32, "long": np.int64,
    "uchar": np.uint8, "ushort": np.uint16, "uint": np.uint32, "ulong": np.uint64, "unsigned": np.uint32,
}  # fmt: skip
"""Type of a kernel's argument -> that of NumPy. A vector such as `float4` counts as its elements."""
GROUPS = ((64,), (16, 16), (8, 8, 4))
"""Work-items of a group if a step states none, by the number of axes."""

_OPERATIONS = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.Div: ceil_div, ast.FloorDiv: operator.floordiv,
}  # fmt: skip


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel."""

    name: str
    dtype: type[np.generic]
    is_array: bool


@dataclass(frozen=True)
class NamedLaunch:
    """Host side of a launch: it is an option of a variant, and so part of the identity of its measurements."""

    kernel: str
    """Name of the kernel."""
    work_items: Shape
    """Number of work-items that have work, by axis; the launch rounds it up to whole groups."""
    writes: tuple[tuple[str, Shape], ...]
    """(name, shape) of each output."""
    scalars: tuple[tuple[str, float], ...] = ()
    """(name, value) of each constant argument."""


def evaluate(expression: Expression, names: Mapping[str, int]) -> int:
    """Return the value of an expression of +, -, *, %, // and /, which rounds up. Raise UsageError for any other.

    >>> evaluate("(n + 1) / LANES", {"n": 8, "LANES": 4})
    3
    """

    def value(node: ast.AST) -> int:
        match node:
            case ast.Constant(value=int(number)):
                return number
            case ast.Name(id=name) if name in names:
                return names[name]
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATIONS:
                return int(_OPERATIONS[type(op)](value(left), value(right)))
        known_names = ", ".join(sorted(names))
        raise UsageError(f"{expression!r} is no expression of + - * / // % and {known_names}")

    try:
        return value(ast.parse(str(expression).strip(), mode="eval").body)
    except (SyntaxError, ZeroDivisionError) as error:
        raise UsageError(f"{expression!r} has no value: {error}") from None


def shape_of(shape: Shape, names: Mapping[str, int]) -> tuple[int, ...]:
    """Return the value of each axis of a shape."""
    return tuple(evaluate(axis, names) for axis in (shape if isinstance(shape, tuple) else (shape,)))


@lru_cache
def signature(source: Source, kernel: str) -> tuple[Argument, ...]:
    """Return the arguments of a kernel, in order. Raise UsageError if there is no such kernel, or for an unknown type."""
    return signature_in(source.resolve(), kernel, source.path.name)


def signature_in(text: str, kernel: str, file: str = "the text") -> tuple[Argument, ...]:
    """Return the arguments of a kernel of an expanded text, as `signature` does. file: its name in messages."""
    heads = _heads(text)
    if kernel not in heads:
        raise UsageError(f"{file} has no kernel {kernel}; it has {', '.join(heads) or 'none'}")
    declarations = [words for words in heads[kernel].split(",") if words.strip()]
    return tuple(_argument(words, f"{file}, {kernel}") for words in declarations)


def main_kernel(source: Source) -> str:
    """Return the name of the only kernel of a text; if there are several, the name of its file."""
    names = list(_heads(source.resolve()))
    return names[0] if len(names) == 1 else source.path.stem


def _heads(text: str) -> dict[str, str]:
    """Return kernel -> its arguments as they are declared, for each kernel of an expanded text."""
    head = r"(?:\bKERNEL\w*|\b(?:__)?kernel|__global__)\b[^;{}]*?\bvoid (?:__\w+ \( [^()]* \) )?(\w+) \( ([^()]*)\)"
    return dict(re.findall(head, tokens_of(text)))


def _argument(declaration: str, kernel: str) -> Argument:
    """Return the argument of a declaration such as `GLOBAL const float * RESTRICT x`. kernel: its name, for the message."""
    *words, name = re.findall(r"\w+", re.sub(r"\bunsigned (?=char|short|int|long)", "u", declaration)) or [""]
    bases = [re.sub(r"(?<=[a-z])(?:2|3|4|8|16)$", "", word) for word in words]
    types = [TYPES[base] for base in bases if base in TYPES]
    if not types:
        raise UsageError(f"{kernel}: argument {declaration.strip()!r} has none of the types {', '.join(TYPES)}")
    return Argument(name, types[-1], "*" in declaration)


class LaunchByName(KernelRun):
    """One launch of the kernel of the variant's `NamedLaunch`, with sizes of the case as arguments or knobs."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        launch: NamedLaunch = variant.options["launch"]
        source = variant.text.of_size(size_knobs(variant.text, case))
        names = {**constants(source), **case.params}
        work_items = shape_of(launch.work_items, names)
        groups = variant.options.get("group", GROUPS[len(work_items) - 1])
        self.group = tuple(1 if count == 1 else group for count, group in zip(work_items, groups, strict=True))
        fit(device, self.group)
        self.size = tuple(ceil_div(count, group) * group for count, group in zip(work_items, self.group, strict=True))
        self.kernel = device.build(source.render(device.backend)).kernel(launch.kernel)
        arguments = signature(source, launch.kernel)
        self.first = {name: shape_of(shape, case.params) for name, shape in launch.writes}
        types = {argument.name: argument.dtype for argument in arguments}
        self.start = {name: inputs.get(name, unwritten(shape, types[name])) for name, shape in self.first.items()}
        values = {**dict(launch.scalars), **case.params}
        arrays = {name: device.upload(array) for name, array in {**inputs, **self.start}.items() if name in types}
        self.buffers.extend(arrays.values())
        self.written = {name: arrays[name] for name in self.start}
        self.arguments = [
            arrays[argument.name] if argument.is_array else argument.dtype(values[argument.name])
            for argument in arguments
        ]

    def submit(self) -> None:
        for _ in range(self.units):
            self.queue.launch(self.kernel, self.size, self.group, *self.arguments)

    def reset(self) -> None:
        for name, buffer in self.written.items():
            self.queue.write(buffer, self.start[name])

    def outputs(self) -> dict[str, np.ndarray]:
        arrays = {
            name: self.queue.read(buffer, np.empty_like(self.start[name])) for name, buffer in self.written.items()
        }
        return {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def size_knobs(source: Source, case: Case) -> dict[str, int]:
    """Return the documented knobs of a text that are named as a size of the case, in capitals, with their values."""
    documented = source.documented()
    return {name.upper(): size for name, size in case.params.items() if name.upper() in documented}


def unwritten(shape: tuple[int, ...], dtype: type[np.generic]) -> np.ndarray:
    """Return an array of values that no kernel writes: NaN, or the least integer."""
    return np.full(shape, np.nan if issubclass(dtype, np.floating) else np.iinfo(dtype).min, dtype)  # type: ignore[type-var]
