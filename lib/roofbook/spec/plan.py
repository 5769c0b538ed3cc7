"""Cases, the plans that run them, and the variants of a ladder, with the conditions under which two of them are compared.

Serves authors of labs. `Plan` is the contract of a program that a lab measures. lab.py has the lab that they are part of.
"""

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..devices import backends
from ..devices.contract import Unsupported
from ..errors import UsageError
from .host_code import hash_of_plan
from .prediction import Predicted, check_words
from .source import Source

if TYPE_CHECKING:
    import numpy as np

    from ..devices.contract import Device

SCALES = ("quick", "published", "large", "test")
PRECISIONS = {"float16": "fp16", "bfloat16": "bf16", "tfloat32": "TF32"}
"""Types that operands and results can be rounded to, with their names in sentences."""
ROUNDS_OPERANDS = "rounds operands to"
"""Start of a condition of `Plan.conditions`; the name of the type in which the variant multiplies follows."""
ROUNDS_RESULTS = "rounds results to"
"""Start of a condition; the name of the type follows."""
LAID_OUT = "starts from operands that are already laid out"
"""Condition: converting and reordering the operands is not timed."""
UNFOLDED = "starts from an input that is already unfolded"
"""Condition: the input is written out for a matrix product before the time begins."""
CHANNELS_LAST = "leaves results channels-last"
"""Condition: the output is channels-last (NHWC); a step's output is channels-first."""
TRANSFORMS = "transforms operands by Winograd's algorithm"
"""Condition: the mean errors may be up to TRANSFORMS_CLEARANCE times those of plain sums, as those of a library may."""
ONE_WORK_ITEM = "one work-item on the host's CPU"
"""`Variant.description` of a kernel for one work-item."""


@dataclass(frozen=True)
class Case:
    """A problem size."""

    name: str
    """The size in words that a user types, such as `128x128`."""
    scale: str
    """One of SCALES."""
    params: Mapping[str, Any]
    """The size as plain data, such as `{"nx": 128, "ny": 128}`; only the lab reads it."""
    units: int
    """Units (steps, calls) of one timed sample."""


class Runnable(ABC):
    """A variant on a case on a device, ready to run, as `measure` drives it.

    `reset`, `run` and `outputs` are called in this order, `run` many times, and `close` last.
    """

    units: int
    """Units (steps, calls) of one run."""
    parts: Mapping[str, float] = MappingProxyType({})
    """Seconds of parts of the last run by name, such as copies, even if the time of the run leaves them out."""

    @abstractmethod
    def reset(self) -> None:
        """Restore the inputs and fill each output with NaN (integers: a sentinel). Not timed.

        Called before each run whose outputs are compared, so that an element which no kernel writes is found.
        """

    @abstractmethod
    def run(self) -> float | None:
        """Do all `units`, host work included, and return when the device has finished.

        Returns None to be timed by the clock from call to return. Returns seconds if another time is in question, such as
        that of the kernels alone.
        """

    @abstractmethod
    def outputs(self) -> dict[str, "np.ndarray"]:
        """Return the outputs of the last `run` by name, in the layout of `Lab.reference`, as float64 or integer arrays.

        Called after a run whose outputs are compared. Not timed.
        """

    def facts(self) -> dict[str, Any]:
        """Return facts of this run beside its time, such as work-group, launches and registers: they are stored in the row."""
        return {}

    def close(self) -> None:
        """Release the memory of the device. Called once, after the last run. Override if any was allocated."""


class Plan(Runnable):
    """Host code of a variant: the class makes the variant ready to run, and answers for it before anything runs.

    `__init__` does all that is not timed: it builds kernels, allocates buffers and copies inputs. Each plan states its
    `traffic` and `conditions`, since no default would be right for a new one. It may override `refusal`, `timed_units`,
    `small_options`, `verified_on`, `missing` and `compilers`.
    """

    @abstractmethod
    def __init__(self, device: "Device", variant: "Variant", case: Case, inputs: Mapping[str, Any]) -> None:
        """Make everything ready for `reset` and `run`. inputs: result of `Lab.inputs`."""
        self.units = case.units

    @classmethod
    @abstractmethod
    def traffic(cls, case: Case, variant: "Variant", least: float) -> float:
        """Return the bytes per unit that the data flow moves to and from memory at least: a model, not a count.

        least: bytes that the algorithm needs, `Work.bytes`. Return it if this plan moves each value once.
        """

    @classmethod
    def operations(cls, case: Case, variant: "Variant", least: float) -> float:
        """Return the operations per unit. least: `Work.flops`, by which the problem is counted; a plan may need fewer."""
        return least

    @classmethod
    @abstractmethod
    def conditions(cls, variant: "Variant") -> tuple[str, ...]:
        """Return how a variant's result or time differs from a plain step's, in words such as `rounds operands to fp16`.

        Two variants with equal conditions are compared like for like; otherwise the page names the differences. Return () for
        a plain step, and `stated_conditions` if options say all. Use the constants of this module.
        """

    @classmethod
    def refusal(cls, case: Case, variant: "Variant") -> str | None:
        """Return why a variant cannot run a case, such as a side that is no power of two; None if it can.

        Called before anything is planned or compiled. Override if not all cases can be run.
        """
        return None

    @classmethod
    def timed_units(cls, case: Case, variant: "Variant", device: "Device") -> int:
        """Return the number of units in one timed sample. Override if this plan needs more or fewer than `case.units`."""
        return case.units

    @classmethod
    def small_options(cls, variant: "Variant") -> Mapping[str, Any]:
        """Return options with which a small run has several parts, such as a chunk that is smaller than the run."""
        return {}

    @classmethod
    def verified_on(cls, variant: "Variant") -> str:
        """Return the `name` of `Lab.verification_inputs`; variants with equal names share a reference."""
        return ""

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why no such program runs on this machine; None if it may."""
        return None

    @staticmethod
    def compilers(variant: "Variant") -> dict[str, str]:
        """Return the names and versions of the host's compilers that make this program: part of the row and of its key.

        Override for a program that a compiler of the host makes; one in C returns `peers.compilers.c_compiler()`. A kernel
        that the device's driver compiles needs nothing here.
        """
        return {}


@dataclass(frozen=True)
class Variant:
    """One named optimisation over its parent."""

    name: str
    parent: str | None
    """Name of the variant that this one changes; None if it changes none."""
    source: Source | None
    """Kernel text with its knobs; None for a program without a kernel of ours."""
    plan: type[Plan]
    """Host code that drives the kernel."""
    change: str
    """The change over the parent, in a sentence of the page."""
    expect: str
    """The expected effect and its reason, in a sentence of the page, written before the measurement."""
    needs: frozenset[str] = frozenset()
    """Features that a backend must have to run it, beside those that its source needs; `host` for a program of the host."""
    role: str = "step"
    """`step`; `base`, a program to compare steps with; `probe`, which shows a cost and has no right result; `peer`; `sweep`;
    or `dsl`, a kernel in a language of today, such as Triton."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the plan, such as the work-group."""
    differs: tuple[str, ...] = ("source",)
    """All fields that differ from the parent's: `source`, `plan`, `options`. A test compares them."""
    shows: Mapping[str, str] = field(default_factory=dict)
    """Kernel name -> regular expression that the PTX of this variant must match and its parent's must not."""
    omits: Mapping[str, str] = field(default_factory=dict)
    """Kernel name -> regular expression that the PTX of the parent must match and this variant's must not."""
    same_code: Mapping[str, str] = field(default_factory=dict)
    """Compiler, `NVRTC` or `PoCL` -> why its machine code is the same as of the parent. A test finds unlisted cases."""
    published: str | None = None
    """Name of this variant in the lab's report, by which published figures are found."""
    axis: str | None = None
    """Name of the knob that a point of a sweep sets; None for other variants."""
    point: str | None = None
    """Value of that knob."""
    predicts: Predicted | None = None
    """The effect in `expect` as a range of speedups over the parent, which measurements can refute; None for no prediction."""
    description: str = ""
    """Noun phrase for this variant in sentences about speedups over it."""
    dtype: str = "float32"
    """Type in which it multiplies: selects the peak of the device that bounds it."""
    kind: str | None = None
    """`cpu` or `gpu` if it is only for devices of that kind, by any backend."""
    architectures: range = range(80, 1000)
    """Compute capabilities of NVIDIA GPUs (10 x major + minor) that the code is for."""

    def __post_init__(self) -> None:
        """Raise ValueError for an unknown word in `needs`, `kind`, `differs` or `predicts`."""
        backends.check(self.needs)
        if self.kind not in (None, "cpu", "gpu"):
            raise ValueError(f"variant {self.name}: kind is {self.kind!r}; it must be cpu, gpu or None")
        if unknown := set(self.differs) - {"source", "plan", "options"}:
            raise ValueError(
                f"variant {self.name}: differs in {', '.join(sorted(unknown))}; only source, plan and options can differ"
            )
        check_words(self.name, self.predicts)

    @property
    def only_for(self) -> str:
        """The devices that it is for, in words, if it is not for all of a backend: an architecture or a kind; else ''."""
        first, last = self.architectures.start, self.architectures.stop
        if first > 80:
            capability = f"{first // 10}.{first % 10}"
            return f"NVIDIA GPUs of compute capability {capability}{' or later' if last >= 1000 else ' alone'}"
        return {"cpu": "CPUs", "gpu": "GPUs"}.get(self.kind or "", "")

    @property
    def text(self) -> Source:
        """Kernel text with its knobs, of a variant that has a kernel of ours."""
        assert self.source is not None, f"{self.name} has no kernel"
        return self.source

    @property
    def backends(self) -> frozenset[str]:
        """Names of the backends that have all features it needs; for a program of the host, only `host`."""
        if backends.HOST in self.needs:
            return frozenset({backends.HOST})
        return backends.with_features(self.needs | (self.source.needs if self.source else frozenset()))

    def is_for(self, backend: str, kind: str) -> bool:
        """Return whether the variant can run on devices of a kind (`cpu` or `gpu`) by a backend."""
        runs = not self.lacking(backend) if backend in backends.ON_REQUEST else backend in self.backends
        return runs and self.kind in (None, kind)

    def lacking(self, backend: str) -> str:
        """Return what a backend lacks to run this variant, in a phrase; '' if it lacks nothing.

        Of several features, one that says all is named alone. backend: a name of `backends.BACKENDS` or `backends.ON_REQUEST`.
        """
        features = {**backends.BACKENDS, **backends.ON_REQUEST}[backend].features
        if missing := (self.needs | (self.source.needs if self.source else frozenset())) - features:
            most = next((name for name in ("cpu", "cuda-c++", "ptx") if name in missing), "")
            return "; ".join(backends.FEATURES[name] for name in ([most] if most else sorted(missing)))
        if self.source is None:
            return "a kernel in the neutral dialect"
        try:
            self.source.render(backend)
        except Unsupported as reason:
            return str(reason)
        return ""

    @property
    def languages(self) -> frozenset[str]:
        """Names of the languages in which its source can be rendered; for a program of the host, only C."""
        return frozenset({backends.C.name}) if backends.HOST in self.needs else self.backends

    def at(self, axis: str, point: object, source: Source | None = None, **options: Any) -> "Variant":
        """Return a point of a sweep: this variant, named `name@axis=point`, with another source or other options."""
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
        """Return everything that can change this variant's result: kernel text, host code, options."""
        return {
            "source": self.source.sha256 if self.source else None,
            "plan": self.plan.__qualname__ if hasattr(self.plan, "__qualname__") else type(self.plan).__qualname__,
            "host": hash_of_plan(self.plan),
            "options": {name: str(value) for name, value in sorted(self.options.items())},
        }


def differing_conditions(first: Sequence[str], second: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the conditions that only the first variant has, and those that only the second has.

    first, second: results of `Plan.conditions`.

    >>> differing_conditions(["rounds operands to fp16", LAID_OUT], ["rounds operands to fp16"])
    (['starts from operands that are already laid out'], [])
    """
    only_first = [condition for condition in first if condition not in second]
    return only_first, [condition for condition in second if condition not in first]


def least_bytes(case: Case, variant: Variant, least: float) -> float:
    """Return the traffic of a plan that moves each value of the problem once."""
    return least


def no_conditions(variant: Variant) -> tuple[str, ...]:
    """Return the conditions of a plain step: none."""
    return ()


def stated_conditions(variant: Variant) -> tuple[str, ...]:
    """Return the conditions that the options of a variant state.

    `operand_roundoff`: operands are rounded. `precision` or `result_roundoff`: results are, to a type of two bytes.
    `prepared`: operands are laid out beforehand. `channels_last`: they are, and results keep this order. `transformed`:
    products are of operands that Winograd's algorithm transformed.
    """
    options, last = variant.options, bool(variant.options.get("channels_last"))
    precision = PRECISIONS.get(variant.dtype, variant.dtype)
    rounds_results = options.get("precision") in ("fp16", "bf16") or "result_roundoff" in options
    return (
        *[f"{ROUNDS_OPERANDS} {precision}"] * ("operand_roundoff" in options),
        *[f"{ROUNDS_RESULTS} {precision}"] * rounds_results,
        *[LAID_OUT] * (last or bool(options.get("prepared"))),
        *[CHANNELS_LAST] * last,
        *[TRANSFORMS] * bool(options.get("transformed")),
    )


def missing(variant: Variant) -> str | None:
    """Return the reason, in one line, why a variant's program cannot run on this machine; None if it can.

    Raises UsageError if the variable CC, which names a compiler, has quotation marks that do not match.
    """
    command = os.environ.get("CC", "")
    try:
        shlex.split(command)  # here, since the code in peers/cc.py is part of the identity of measurements
    except ValueError as error:
        raise UsageError(f"CC={command} is no command: {str(error).lower()}") from None
    return variant.plan.missing()
