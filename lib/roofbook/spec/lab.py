"""What a lab is made of: cases, variants in a ladder, sweeps, and the work that the algorithm needs at least."""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..devices import backends
from ..errors import one_of
from .host_code import hash_of_plan
from .prediction import Predicted, check_words
from .source import Source

if TYPE_CHECKING:
    import numpy as np

    from ..devices.contract import Device

SCALES = ("quick", "published", "large", "test")
PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "tfloat32": "TF32"}
"""What sentences call the types that operands and results are rounded to."""
ROUNDS_OPERANDS = "rounds operands to"
"""How a condition of `Lab.conditions` begins that says what is multiplied."""
LAID_OUT = "finds its operands laid out beforehand"
"""Of `Lab.conditions`: what turns operands into the type and order that are multiplied is not timed."""
CHANNELS_LAST = "leaves results channels-last"
"""The same of results that lie in memory as a library writes them: a step's lie as NumPy would have them."""

AWKWARD_RUNS = 2
"""Number of small cases of awkward sizes on which each variant is verified before it is timed."""

ONE_WORK_ITEM = "one work-item on the host's CPU"
"""What a sentence says of a kernel for one work-item: `Variant.said`."""


def unlike(mine: Sequence[str], its: Sequence[str]) -> tuple[list[str], list[str]]:
    """Of the conditions of two variants, as `Lab.conditions` has them, those of each alone; none where they are alike.

    >>> unlike(["rounds operands to fp16", LAID_OUT], ["rounds operands to fp16"])
    (['finds its operands laid out beforehand'], [])
    """
    return [each for each in mine if each not in its], [each for each in its if each not in mine]


@dataclass(frozen=True)
class Work:
    """FLOPs and bytes of one unit (a step, a call) that the algorithm needs at least, and the bytes it keeps in use."""

    flops: float
    bytes: float
    footprint: float


@dataclass(frozen=True)
class Case:
    """A problem size. `params` is plain data that the lab understands; `units` is what one timed sample repeats."""

    name: str
    scale: str
    params: Mapping[str, Any]
    units: int


class Runnable(ABC):
    """A variant on a case on a device, ready to run. Made by the variant's plan, driven by `measure`."""

    units: int
    """Units (steps, calls) of one run."""
    parts: Mapping[str, float] = MappingProxyType({})
    """Seconds of parts of the last run by name, such as copies, whether or not the lab's own time covers them."""

    @abstractmethod
    def reset(self) -> None:
        """Restore the inputs and fill every output with NaN (integers: a sentinel). Not timed."""

    @abstractmethod
    def run(self) -> float | None:
        """Do all `units`, host work included, and return when the device has finished.

        Seconds where the time in question is not that of the whole call: of the kernels alone, or of the queueing.
        """

    @abstractmethod
    def outputs(self) -> dict[str, "np.ndarray"]:
        """What `run` computed, in the lab's own layout, as float64 or integer arrays."""

    def facts(self) -> dict[str, Any]:
        """What a reader wants to know of this run besides its time: work-group, launches, registers..."""
        return {}

    @staticmethod
    def compilers(variant: "Variant") -> dict[str, str]:
        """Name the host's compilers that make this program, with versions: part of the key and of the row.

        A variant in C has `peers.compilers.c_compiler()` here. What the device's own driver compiles is named by the driver.
        """
        return {}

    def close(self) -> None:
        """Release the device's memory."""


Plan = Callable[["Device", "Variant", Case, Mapping[str, Any]], Runnable]


@dataclass(frozen=True)
class Variant:
    """One named optimisation over its parent.

    `differs` names all in which it differs from the parent: `source`, `plan` or `options`; a test holds it to that. `shows` are
    regular expressions that the PTX of a kernel must match and its parent's does not, by kernel name; `omits` are those that
    the parent's matches and its own must not.
    """

    name: str
    parent: str | None
    source: Source | None
    plan: Plan
    change: str
    expect: str
    needs: frozenset[str] = frozenset()
    """The features without which a backend cannot run it, beside those that its source needs; `host` for a host's program."""
    role: str = "step"
    """`step`; `base`, a program to compare steps with; `probe`, which shows a cost and computes nothing; `peer`; `sweep`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    differs: tuple[str, ...] = ("source",)
    shows: Mapping[str, str] = field(default_factory=dict)
    omits: Mapping[str, str] = field(default_factory=dict)
    same_code: Mapping[str, str] = field(default_factory=dict)
    """Compiler, `NVRTC` or `PoCL` -> why it makes the same machine code of it as of its parent. A test finds others."""
    published: str | None = None
    axis: str | None = None
    point: str | None = None
    predicts: Predicted | None = None
    """What `expect` says of its time beside the parent's, as a range that measurements can refute. None: nothing."""
    said: str = ""
    """What a sentence says that it is, where speedups are over it."""
    dtype: str = "float32"
    """What is multiplied: it says which roof of the device is the variant's own."""
    kind: str | None = None
    """`cpu` or `gpu` where it is for devices of that kind alone, whichever backend has them."""
    architectures: range = range(80, 1000)
    """Compute capabilities of NVIDIA GPUs (10 x major + minor) that the code is for."""

    def __post_init__(self) -> None:
        """ValueError for a word that means nothing: it would only make nothing of what was meant."""
        backends.check(self.needs)
        if self.kind not in (None, "cpu", "gpu"):
            raise ValueError(f"variant {self.name}: kind is {self.kind!r}; cpu, gpu or None is meant")
        if unknown := set(self.differs) - {"source", "plan", "options"}:
            raise ValueError(
                f"variant {self.name}: differs in {', '.join(sorted(unknown))}; source, plan and options can"
            )
        check_words(self.name, self.predicts)

    @property
    def backends(self) -> frozenset[str]:
        """The names of the backends that have what it needs; of a program of the host, `host` alone."""
        if backends.HOST in self.needs:
            return frozenset({backends.HOST})
        return backends.with_features(self.needs | (self.source.needs if self.source else frozenset()))

    def is_for(self, backend: str, kind: str) -> bool:
        """Whether it is for devices of that kind by that backend."""
        return backend in self.backends and self.kind in (None, kind)

    @property
    def languages(self) -> frozenset[str]:
        """The names of the languages that its kernel is compiled in; of a program of the host that has one, C."""
        return frozenset({backends.C.name}) if backends.HOST in self.needs else self.backends

    def at(self, axis: str, point: object, source: Source | None = None, **options: Any) -> "Variant":
        """A point of a sweep: this variant with one thing set otherwise, named `name@axis=point`."""
        return replace(
            self,
            name=f"{self.name}@{axis}={point}",
            parent=self.name,
            role="sweep",
            axis=axis,
            point=str(point),
            source=source or self.source,
            options={**self.options, **options},
            change=f"{axis} = {point}",
            expect="",
            differs=(*(["source"] if source else []), *(["options"] if options else [])),
            shows={},
            omits={},
            same_code={},
            published=None,
            predicts=None,
        )

    def fingerprint(self) -> dict[str, Any]:
        """What of this variant decides a result: the kernel, the host code that drives it, and its options."""
        return {
            "source": self.source.sha256 if self.source else None,
            "plan": self.plan.__qualname__ if hasattr(self.plan, "__qualname__") else type(self.plan).__qualname__,
            "host": hash_of_plan(self.plan),
            "options": {name: str(value) for name, value in sorted(self.options.items())},
        }


@dataclass(frozen=True)
class Sweep:
    """One variant with one thing varied. `question` is what its figure answers."""

    axis: str
    question: str
    variants: tuple[Variant, ...]
    sides: tuple[str, str] = ("columns", "rows")
    """What the two parts of a point such as `16x4` or `64x112x16/4x8x2` are."""
    quick: tuple[str, ...] = ()
    """The points that are measured at the scale `quick`, where all would take a reader's patience; none for all."""

    def at_scale(self, scale: str) -> tuple[Variant, ...]:
        """The points that are measured: at `test` the first and the last of `quick`, of what is left out all."""
        telling = tuple(each for each in self.variants if not self.quick or each.point in self.quick)
        if scale == "quick":
            return telling
        if scale != "test" or self.axis == "without":
            return self.variants
        return telling[:: max(1, len(telling) - 1)]


@dataclass(frozen=True)
class Series:
    """How time goes with something of the case, such as its sparsity, for some variants. `question` is what its figure answers.

    Its cells are measured beside those of the ladder: `variants` on the cases of `points`.
    """

    axis: str
    question: str
    along: str
    """The label of the x axis, with its unit."""
    points: tuple[tuple[float, str], ...]
    """(x, case name), as `Lab.case` finds it."""
    variants: tuple[str, ...]
    against: tuple[tuple[str, str], ...] = ()
    """Pairs of variants: from which x on is the first the faster one?"""


def by_make(reason: str | None) -> str | None:
    """Return a reason with the project's own command in place of pip's for one of its extras, which no registry has.

    >>> by_make("JAX is not installed: pip install 'roofbook[peers]'")
    'JAX is not installed: `make book WITH=peers` installs it'
    """
    return (
        re.sub(r"pip install '?roofbook\[(\w+)\]'?", r"`make book WITH=\1` installs it", reason) if reason else reason
    )


class Lab(ABC):
    """A problem with seeded inputs, a float64 reference, a tolerance, a work model, and an ordered ladder.

    What a lab says of the report that it comes from is its `analysis.publication.Publication`.
    """

    name: str
    title: str
    preferred_backend: str
    """The backend whose GPU `device = "auto"` prefers."""
    unit: str
    """What a time is given per, such as `step`."""
    timed: str
    """What a time covers, such as `loop: launches, kernels and reads` or `kernel`."""
    bases: tuple[str, ...]
    """What speedups in tables and figures are over: of these the first that has a time on that device and case."""
    best: str
    """The step that sweeps, leave-one-out and comparisons start from."""
    ladder: tuple[Variant, ...]
    sweeps: tuple[Sweep, ...] = ()
    peers: tuple[Variant, ...] = ()
    cache: str = "cold"
    """What a sample finds: `cold` caches, or `warm` ones where they are what is measured."""
    cache_note: str = ""
    """What the launches find that are timed, as a note below tables, where they are not what a sample begins with."""
    recorded_runs: int = 3
    """Processes started afresh that a recorded figure comes from: more where the host's time counts, which moves more."""
    other_sizes: str = ""
    """What names of cases `sized` takes beside the listed ones, as a message says it: `any HEIGHTxWIDTH`."""
    parts: tuple[str, ...] = ()
    """Parts of a run, by their names in `Runnable.parts`, that the table of parts shows, in its order."""
    awkward: tuple[str, ...] = ()
    """Names of small cases of awkward sizes, such as odd ones: `awkward_runs` takes those that a variant is for."""
    facts_shown: Mapping[str, str] = {}
    """Facts of a run -> the heads of their columns in the table of parts, such as `accuracy` -> `Accuracy`."""

    @property
    def headline(self) -> tuple[str, ...]:
        """The same of the speedups in sentences and on the first page."""
        return self.bases

    @property
    def about(self) -> str:
        """What it computes and where it comes from: the first line of its module."""
        return (sys.modules[type(self).__module__].__doc__ or self.title).partition("\n")[0]

    @property
    def package(self) -> str:
        """The name of the package that it is, such as `roofbook.labs.cnn`."""
        return str(sys.modules[type(self).__module__].__package__)

    def prepare(self) -> None:
        """Fetch what the lab needs from elsewhere, such as data, before its cells are planned."""

    @abstractmethod
    def cases(self, scale: str) -> Sequence[Case]: ...

    def series(self, scale: str) -> Sequence[Series]:
        """Over which of its cases, beside those of `cases`, the lab follows some variants."""
        return ()

    def sized(self, name: str, scale: str) -> Case | None:
        """A case of a size that no scale lists; None where the name is no size. UsageError where the size is impossible."""
        return None

    @abstractmethod
    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]: ...

    @abstractmethod
    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The right outputs in float64, kept by the caller for all variants of the case."""

    @abstractmethod
    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, "np.ndarray"], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        """(error, tolerance, what the error is). The caller accepts only `error <= tolerance`."""

    def check_timed(
        self,
        case: Case,
        variant: Variant,
        outputs: Mapping[str, "np.ndarray"],
        right: Callable[[Case], Mapping[str, Any]],
    ) -> tuple[float, float, str]:
        """As `check`, of a run of what was timed. case: with its units. right: the reference of the timed inputs on a case.

        A lab whose timed run does more than a reference can says here what can be told of it.
        """
        return self.check(case, variant, outputs, right(case))

    @abstractmethod
    def work(self, case: Case) -> Work: ...

    def traffic(self, case: Case, variant: Variant) -> float:
        """Bytes a unit that the data flow of `variant` moves to and from memory at least: modelled, not counted."""
        return self.work(case).bytes

    def sizes(self, case: Case) -> Mapping[str, int]:
        """The knobs of kernels that are the size of the case; none where kernels are given sizes as arguments."""
        return {}

    def units(self, case: Case, variant: Variant, device: "Device") -> int:
        """Units of one timed sample."""
        return case.units

    def verification_case(self, case: Case, variant: Variant) -> Case:
        """The case on which a variant is verified before it is timed: by default the same, with fewer units if need be."""
        return case

    def verified_on(self, variant: Variant) -> str:
        """The name of the inputs that a variant is verified on. Variants of one name share them, and their reference."""
        return ""

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs of that name, made of those that `inputs` gives: by default these, else such as show what these hide."""
        return inputs

    def awkward_case(self, name: str) -> Case:
        """Return the case of a name in `awkward`, at the scale `test`."""
        return self.case(name, "test")

    def awkward_runs(self, case: Case, variant: Variant) -> Sequence[tuple[Variant, Case]]:
        """Return small runs of awkward sizes on which a variant is verified too before it is timed on `case`.

        They are AWKWARD_RUNS of the lab's `awkward` cases at most: the first ones that the variant is for. A lab may give the
        variant other options there, such as a chunk that a small run has several of.
        """
        others = [self.awkward_case(name) for name in self.awkward if name != case.name]
        fitting = [other for other in others if self.skip_reason(variant, other) is None]
        return [(variant, other) for other in fitting[:AWKWARD_RUNS]]

    def device_losses(self, device: "Device", variant: Variant) -> Mapping[str, Any]:
        """Return measured errors of a device's own functions that `check` allows for, as entries of the reference.

        Such as those of native roots, whose accuracy OpenCL leaves to the device. By default there are none.
        """
        return {}

    def __init_subclass__(cls, **options: Any) -> None:
        """Let the lab's own `skip_reason` name the project's command: plans say what pip would be told."""
        super().__init_subclass__(**options)
        if "skip_reason" in vars(cls):
            own = vars(cls)["skip_reason"]
            setattr(cls, "skip_reason", wraps(own)(lambda self, *where: by_make(own(self, *where))))  # noqa: B010

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        """Why a variant is not for a case, such as a side that is no power of two; None where it is."""
        return None

    def case_class(self, case: Case) -> str:
        """`prediction.SMALL` or `LARGE` of a case that predictions speak of so; '' of others."""
        return ""

    def conditions(self, variant: Variant) -> tuple[str, ...]:
        """In what a variant's result or time is unlike that of a plain step, in words such as `rounds operands to fp16`.

        A comparison of two variants is like for like where these are equal.
        """
        return ()

    def exact_as(self, variant: Variant) -> str:
        """The type whose plain steps are as exact: the variant's own, but float32 where others of the lab round operands to
        that type and this one, which splits them, loses nothing."""

        def rounds(each: Variant) -> bool:
            return any(said.startswith(ROUNDS_OPERANDS) for said in self.conditions(each))

        lossy = any(rounds(each) for each in self.all_variants() if each.dtype == variant.dtype)
        return "float32" if lossy and not rounds(variant) else variant.dtype

    def rate(self, case: Case) -> tuple[float, str]:
        """(amount of one unit, name of the rate), such as cells and `MLUPS`; a rate is amount / seconds."""
        return self.work(case).flops / 1e9, "GFLOP/s"

    def all_variants(self) -> tuple[Variant, ...]:
        swept = tuple(variant for sweep in self.sweeps for variant in sweep.variants)
        return self.ladder + self.peers + swept

    def at_scale(self, scale: str) -> tuple[Variant, ...]:
        """The variants that are measured at a scale, unless others are asked for."""
        swept = tuple(variant for sweep in self.sweeps for variant in sweep.at_scale(scale))
        return self.ladder + self.peers + swept

    def swept(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Of the cases that are measured, those on which the sweeps are: all at the sizes of the literature, else the first."""
        return [case for case in cases if case is cases[0] or case.scale not in ("quick", "test")]

    def variant(self, name: str) -> Variant:
        """The variant of that name, sweep points and peers included."""
        for candidate in self.all_variants():
            if candidate.name == name:
                return candidate
        swept = [f"{each.variants[0].name.partition('=')[0]}={_points(each)}" for each in self.sweeps]
        valid = [variant.name for variant in self.ladder + self.peers]
        raise one_of("variant", name, valid + swept, near=[variant.name for variant in self.all_variants()])

    def case(self, name: str, scale: str | None = None) -> Case:
        """The case of that name, at `scale` or at the first scale that has it, or of any size that the lab takes."""
        scales = (scale,) if scale else SCALES
        found = [case for each in scales for case in self.cases(each)]
        for case in found:
            if case.name == name:
                return case
        return self.other_case(name, scales[0], found)

    def other_case(self, name: str, scale: str, listed: Sequence[Case], what: str = "case") -> Case:
        """A case that is not among `listed`, by its size. UsageError with what would be right."""
        if case := self.sized(name, scale):
            return case
        raise one_of(what, name, [case.name for case in listed] + [self.other_sizes] * bool(self.other_sizes))


def _points(sweep: Sweep) -> str:
    """The points of a sweep for a message: all of them, or a few and how many there are."""
    points = [str(variant.point) for variant in sweep.variants]
    return "|".join(points) if len(points) <= 12 else f"{'|'.join(points[:3])}|... ({len(points)} points)"
