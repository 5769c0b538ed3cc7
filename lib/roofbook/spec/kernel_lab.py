"""A small lab: arrays, their right values, and kernels whose arguments are found by name. All else has a default.

Serves authors of labs, and those of `roofbook new lab`. `Lab` is the contract in full; a `KernelLab` can override any of it.
"""

import inspect
import re
import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from .kernel_launch import Argument, LaunchByName, NamedLaunch, Shape, main_kernel, shape_of, signature, size_knobs
from .lab import NamedCases, Sweep, Work
from .magnitude import magnitudes
from .plan import ONE_WORK_ITEM, SCALES, Case, Variant
from .prediction import Predicted
from .rounding import ROUNDING, mean_square_over, worst
from .source import Knob, Source

Size = int | tuple[int, ...]
SIZES: Sequence[Mapping[str, Sequence[Size]]] = (
    {"quick": [1 << 20], "published": [1 << 24], "large": [1 << 26], "test": [1000, 65]},
    {"quick": [(1024, 1024)], "published": [(4096, 4096)], "large": [(8192, 8192)], "test": [(33, 65), (7, 130)]},
    {"quick": [(256,) * 3], "published": [(512,) * 3], "large": [(1024,) * 3], "test": [(17, 9, 33), (5, 64, 31)]},
)
"""Sizes of the cases by scale, for labs of one, two and three dimensions."""


@dataclass(frozen=True)
class Step:
    """One row of the ladder. Whatever it does not state is as in its parent."""

    name: str
    parent: str | None
    """Name of the step that this one changes; None for the first one."""
    change: str
    """The change over the parent, in a sentence of the page."""
    expect: str
    """The expected effect and its reason, in a sentence, written before the measurement."""
    predicts: Predicted | None = None
    """The expected effect as a range of speedups over the parent, such as `prediction.FASTER`."""
    defines: Mapping[str, Knob] = field(default_factory=dict)
    """Knobs of the kernel's text that differ from the parent's."""
    file: str = ""
    """File with the kernel; that of a first step is the lab's name with `.k`. Another file leaves the parent's knobs."""
    kernel: str = ""
    """Name of the kernel, if its file has several and none has the file's name."""
    work_items: Shape = ""
    """Number of work-items that have work, for each axis, such as `n` or `("columns / LANES", "rows")`; one by default."""
    published: str | None = None
    """Name of this step in the lab's report."""
    group: tuple[int, ...] = ()
    """Work-items of a group, by axis. The default is 64, 16 x 16 or 8 x 8 x 4."""


class KernelLab(NamedCases):
    """A lab whose every step is one launch of a kernel.

    A subclass states `reads`, `writes` and `steps`, and writes `compute` and `operations`. Kernels lie in its folder. An
    argument of a kernel is an array of `reads` or `writes`, a constant of `scalars`, or a size, by its name. A size is also
    a knob of its name in capitals, if the kernel's text documents that knob.

    The tolerance follows from the operations: a float is off by k u M at most. k is the number of operations for each output, u
    is the unit roundoff of the output's type, and M is the sum of absolute terms (`magnitude.magnitudes`). The root mean square
    of all errors may be what k independent roundings explain (`rounding`). Integers are exact. This holds for sums, differences
    and products; a lab that computes more, or counts no operations, states its `tolerance`.
    """

    preferred_backend = "opencl"
    unit = "call"
    timed = "kernels"
    dimensions: Sequence[str] = ("n",)
    """Names of the sizes of a case."""
    scales: Mapping[str, Sequence[Size]] = {}
    """Scale -> sizes of its cases, the main case first; a scale that is left out has those of `SIZES`."""
    reads: Mapping[str, Shape]
    """Input -> shape, of sizes. An array in `writes` too is changed in place."""
    writes: Mapping[str, Shape]
    """Output -> shape, of sizes."""
    scalars: Mapping[str, float] = {}
    """Constant argument -> value."""
    tolerance: float | None = None
    """Allowed error of an element, relative to the largest value of its output; None to derive it from the operations."""
    steps: Sequence[Step]
    """The ladder. A step with one work-item runs on the host's CPU."""
    varies: Mapping[str, Sequence[Knob | tuple[int, ...]]] = {}
    """Knob of the step `best`, or `group`, -> its values in a sweep."""

    def __init__(self) -> None:
        """Make the ladder of the steps. Raise UsageError for an argument that is not declared, or operations that are not."""
        module = sys.modules[type(self).__module__]
        self.folder = Path(str(module.__file__)).parent
        self.name = getattr(self, "name", self.folder.name)
        self.title = getattr(self, "title", self.name.capitalize())
        self.case_names = {
            scale: [self._name(size) for size in self.scales.get(scale, SIZES[len(self.dimensions) - 1][scale])]
            for scale in SCALES
        }
        number = r"[1-9]\d{0,8}"  # a kernel's int holds it
        self.name_pattern = (
            "x".join([number] * len(self.dimensions)) if len(self.dimensions) > 1 else f"{self.dimensions[0]}{number}"
        )
        self.other_sizes = (
            f"any {'x'.join(self.dimensions).upper()}"
            if len(self.dimensions) > 1
            else f"any {self.name_pattern[0]}NUMBER"
        )
        self.awkward = tuple(self.case_names["test"])
        self.ladder = tuple(self._ladder())
        self.bases = getattr(self, "bases", (self.ladder[0].name,))
        self.best = getattr(self, "best", self.ladder[-1].name)
        self.types = {argument.name: np.dtype(argument.dtype) for argument in self._arguments()}
        self.sweeps = tuple(self._sweep(knob, values) for knob, values in self.varies.items())
        if self.tolerance is None and not self.work(self.cases("test")[0]).flops > 0:
            raise UsageError("it counts no operations: return their number in `operations`, or state a `tolerance`")

    @abstractmethod
    def compute(self, *args: Any, **kwargs: Any) -> Mapping[str, Any]:
        """Return the right outputs by name. Its parameters are inputs, in float64, scalars and sizes, by their names."""

    def operations(self, *args: Any, **kwargs: Any) -> float:
        """Return the number of operations on floats that a call needs. Its parameters are sizes, by their names."""
        return 0

    def operations_per_output(self, **sizes: int) -> float:
        """Return the most operations on the way to one output. Override if some outputs need more than others, as in a scan."""
        outputs = sum(int(np.prod(shape_of(shape, sizes))) for shape in self.writes.values())
        return max(1.0, float(_called(self.operations, sizes)) / outputs)

    def draw(self, random: np.random.Generator, name: str, shape: tuple[int, ...]) -> np.ndarray:
        """Draw an input: floats from the normal distribution, integers from -8 to 8. Override for other values."""
        dtype = self.types[name]
        if dtype.kind == "f":
            return random.standard_normal(shape, np.float32).astype(dtype, copy=False)
        return random.integers(0 if dtype.kind == "u" else -8, 8, shape, dtype, endpoint=True)

    # -- the contract of `Lab` ---------------------------------------------------------------------------------------------

    def named_case(self, name: str, scale: str) -> Case:
        sizes = [int(number) for number in re.findall(r"\d+", name.removeprefix(self.dimensions[0]))]
        return Case(name, scale, dict(zip(self.dimensions, sizes, strict=True)), units=1)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        random = np.random.default_rng(seed)
        return {name: self.draw(random, name, shape_of(shape, case.params)) for name, shape in self.reads.items()}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the outputs, and under `magnitudes` those of their elements if the tolerance needs them."""
        exact = {name: array.astype(np.float64) if array.dtype.kind == "f" else array for name, array in inputs.items()}
        values = {**exact, **dict(self._scalars()), **case.params}
        right = {name: np.asarray(output) for name, output in _called(self.compute, values).items()}
        if missing := self.writes.keys() ^ right.keys():
            raise UsageError(f"lab {self.name}: compute and writes differ in {', '.join(sorted(missing))}")
        for name, shape in self.writes.items():
            if right[name].shape != (expected := shape_of(shape, case.params)):
                raise UsageError(
                    f"lab {self.name}: compute returns {name} as {right[name].shape}, and writes says {expected}"
                )
        if self.tolerance is not None or all(self.types[name].kind != "f" for name in right):
            return right
        try:
            sums = magnitudes(lambda **arguments: _called(self.compute, arguments), values)
            if any(np.any(sums[name] < np.abs(right[name]) * (1 - 1e-9)) for name in sums):
                raise UsageError("a magnitude is smaller than its value")
        except UsageError as error:
            raise UsageError(
                f"lab {self.name}: {error}; the default tolerance is for sums, differences and products: state a `tolerance`"
            ) from None
        return {**right, "magnitudes": sums}

    def numbers(self, case: Case) -> Mapping[str, Any]:
        return {**case.params, **self.scalars}

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type[np.generic], tuple[int, ...]]]:
        return {name: (self.types[name].type, shape_of(shape, case.params)) for name, shape in self.writes.items()}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        ratios: dict[str, float] = {}
        for name in self.writes:
            right = reference[name]
            if outputs[name].shape != right.shape:
                raise ValueError(f"{name} must be {right.shape}, not {outputs[name].shape}")
            error, dtype = np.abs(outputs[name] - right), self.types[name]
            largest = f"largest error of an element of {name}"
            if dtype.kind != "f":
                ratios[largest] = float("inf") if error.any() else 0.0
            elif self.tolerance is not None:
                limit = self.tolerance * np.abs(right).max()
                ratios[largest] = float(error.max() / limit) if limit else (0.0 if not error.any() else float("inf"))
            else:
                count, facts = self.operations_per_output(**case.params), np.finfo(dtype)
                roundoff = float(facts.eps) / (1 if dtype == np.float64 else 2)  # the reference itself has 53 bits
                rounding = roundoff * reference["magnitudes"][name] + float(facts.tiny)
                ratios[largest] = float((error / (count * rounding)).max())
                expected = count * float(np.square(ROUNDING * rounding).mean())
                ratios[f"root mean square error of {name}"] = mean_square_over(
                    float(np.square(error).mean()), expected, error.size
                )
        ratio, error_name = worst(ratios)
        return ratio, 1.0, f"{error_name}, over its tolerance"

    def work(self, case: Case) -> Work:
        """Return the operations, and the bytes of each input and each output once."""
        moved = [(name, shape) for arrays in (self.reads, self.writes) for name, shape in arrays.items()]
        nbytes = [(name, int(np.prod(shape_of(s, case.params))) * self.types[name].itemsize) for name, s in moved]
        return Work(_called(self.operations, case.params), sum(n for _, n in nbytes), sum(dict(nbytes).values()))

    def sizes(self, case: Case) -> Mapping[str, int]:
        return {name: size for variant in self.ladder for name, size in size_knobs(variant.text, case).items()}

    def rate(self, case: Case) -> tuple[float, str]:
        work = self.work(case)
        return (work.flops / 1e9, "GFLOP/s") if work.flops else (work.bytes / 1e9, "GB/s")

    # -- the ladder --------------------------------------------------------------------------------------------------------

    def _name(self, size: Size) -> str:
        """Return the name of a case, such as `n1000` or `640x480`."""
        sizes = size if isinstance(size, tuple) else (size,)
        return f"{self.dimensions[0]}{sizes[0]}" if len(sizes) == 1 else "x".join(map(str, sizes))

    def _scalars(self) -> tuple[tuple[str, float], ...]:
        """Return (name, value) of each constant argument, a float as float32 has it."""
        return tuple((name, float(np.float32(v)) if isinstance(v, float) else v) for name, v in self.scalars.items())

    def _ladder(self) -> list[Variant]:
        variants: dict[str | None, Variant] = {}
        for step in self.steps:
            if step.parent is not None and step.parent not in variants:
                raise UsageError(f"step {step.name}: its parent {step.parent} must be a step before it")
            variants[step.name] = self._variant(step, variants.get(step.parent))
        return list(variants.values())

    def _variant(self, step: Step, parent: Variant | None) -> Variant:
        path = self.folder / (step.file or (parent.text.path.name if parent else f"{self.name}.k"))
        knobs = dict(parent.text.knobs) if parent and parent.text.path == path else {}
        source = Source.of(path, **{**knobs, **step.defines})
        before: NamedLaunch | None = parent.options["launch"] if parent else None
        launch = NamedLaunch(
            step.kernel or (before.kernel if before and not step.file else main_kernel(source)),
            step.work_items or (before.work_items if before else "1"),
            tuple(self.writes.items()),
            self._scalars(),
        )
        options: dict[str, Any] = {"launch": launch}
        axes = len(launch.work_items) if isinstance(launch.work_items, tuple) else 1
        before_group = parent.options.get("group", ()) if parent else ()
        group = step.group or (before_group if len(before_group) == axes else ())
        options |= {"group": group} if group else {}
        on_host: dict[str, Any] = {}
        if launch.work_items == "1":
            options["device"] = "host"
            on_host = {"needs": frozenset({"cpu"}), "description": ONE_WORK_ITEM}
        differs = {
            "source": parent and source.resolve() != parent.text.resolve(),
            "options": parent and options != dict(parent.options),
        }
        return Variant(
            step.name, step.parent, source, LaunchByName, step.change, step.expect,
            options=options, predicts=step.predicts, published=step.published,
            differs=tuple(name for name, is_so in differs.items() if is_so) or ("source",), **on_host,
        )  # fmt: skip

    def _sweep(self, knob: str, values: Sequence[Knob | tuple[int, ...]]) -> Sweep:
        """Return a sweep of the best step over values of a knob, or over work-groups."""
        best = self.variant(self.best)
        if knob == "group":
            groups = [value if isinstance(value, tuple) else (int(value),) for value in values]
            points = tuple(best.at(knob, "x".join(map(str, group)), group=group) for group in groups)
            return Sweep(knob, "Which shape of work-group?", points)
        sources = [(value, best.text.with_knobs(**{knob: value})) for value in values if not isinstance(value, tuple)]
        return Sweep(knob, f"Which {knob}?", tuple(best.at(knob, value, source) for value, source in sources))

    def _arguments(self) -> list[Argument]:
        """Return the arguments of all steps' kernels. Raise UsageError for one that is not declared, or of two types."""
        declared: dict[bool, Mapping[str, object]] = {
            True: {**self.reads, **self.writes},
            False: {**self.scalars, **dict.fromkeys(self.dimensions)},
        }
        types: dict[str, Argument] = {}
        for variant in self.ladder:
            launch: NamedLaunch = variant.options["launch"]
            arguments = signature(variant.text, launch.kernel)
            kernel = f"{variant.text.path.name}, {launch.kernel}"
            for argument in arguments:
                if argument.name not in declared[argument.is_array]:
                    kinds = "reads or writes" if argument.is_array else "scalars or dimensions"
                    raise UsageError(
                        f"{kernel}: {argument.name} is none of the lab's {kinds}, {', '.join(declared[argument.is_array])}"
                    )
                if argument.is_array and types.setdefault(argument.name, argument) != argument:
                    raise UsageError(f"{kernel}: {argument.name} has another type than in an earlier step")
            if unwritten := self.writes.keys() - {argument.name for argument in arguments}:
                raise UsageError(f"{kernel}: no argument is the output {', '.join(sorted(unwritten))}")
        return list(types.values())


def _called(function: Any, values: Mapping[str, Any]) -> Any:
    """Call a function with those of the values that its parameters name."""
    return function(**{name: values[name] for name in inspect.signature(function).parameters if name in values})
