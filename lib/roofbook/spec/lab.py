"""A lab: its cases, ladder and sweeps, its reference, and the least work that the algorithm needs.

Serves authors of labs. `Lab` is the contract of a lab; plan.py has that of the programs which it measures.
"""

import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..errors import UsageError, one_of
from ..paths import installing
from .plan import (
    ROUNDS_OPERANDS,
    SCALES,
    Case,
    Variant,
    missing,
)

if TYPE_CHECKING:
    import numpy as np

    from ..devices.contract import Device

DEVICE_CLOCK, HOST_CLOCK = "device", "host"
"""Clocks that time a lab's steps, see `Lab.clock`."""

AWKWARD_RUNS = 2
"""Number of small cases of awkward sizes on which each variant is verified before it is timed."""


@dataclass(frozen=True)
class Work:
    """Least work of one unit (a step, a call), from which the bound of a case is computed."""

    flops: float
    """Operations that the algorithm needs at least."""
    bytes: float
    """Bytes that it moves to and from memory at least."""
    footprint: float
    """Bytes that it keeps in use: they decide which memory level's bandwidth is the bound."""


@dataclass(frozen=True)
class Sweep:
    """One variant with one knob varied over many values."""

    axis: str
    """Name of the knob; `without` for a sweep that leaves out one optimisation at a time."""
    question: str
    """The question that its figure answers."""
    variants: tuple[Variant, ...]
    """The points, made by `Variant.at`."""
    sides: tuple[str, str] = ("columns", "rows")
    """Names of the two parts of a point such as `16x4` or `64x112x16/4x8x2`."""
    quick: tuple[str, ...] = ()
    """Points that are measured at scale `quick`, if all of them would take too long; empty for all."""
    tunes: bool = False
    """Whether the points are sizes of the launch or of tiles: the step at its fastest point is the same step, tuned."""

    def at_scale(self, scale: str) -> tuple[Variant, ...]:
        """Return the points that are measured at a scale.

        At `quick` these are the points of `quick`, and at `test` only the first and the last of them. At other scales, and
        at `test` for the axis `without`, all points are measured.
        """
        quick_points = tuple(v for v in self.variants if not self.quick or v.point in self.quick)
        if scale == "quick":
            return quick_points
        if scale != "test" or self.axis == "without":
            return self.variants
        return quick_points[:: max(1, len(quick_points) - 1)]


@dataclass(frozen=True)
class Series:
    """Times of some variants over cases that differ in one parameter, such as sparsity.

    The `variants` are measured on the cases of `points`, in addition to the ladder on the cases of the scale.
    """

    axis: str
    """Name of the parameter."""
    question: str
    """The question that its figure answers."""
    along: str
    """Label of the x axis, with its unit."""
    points: tuple[tuple[float, str], ...]
    """(x, case name); `Lab.case` must find each name."""
    variants: tuple[str, ...]
    """Names of the variants that are measured."""
    against: tuple[tuple[str, str], ...] = ()
    """Pairs of variants. The figure says from which x on the first is faster than the second."""


def by_make(reason: str | None) -> str | None:
    """Return a reason with the command that installs an extra here in place of pip's.

    >>> by_make("JAX is not installed: pip install 'roofbook[peers]'")
    'JAX is not installed: `make book WITH=peers` installs it'
    """
    return re.sub(r"pip install '?roofbook\[(\w+)\]'?", lambda of: installing(of[1]), reason) if reason else reason


class Lab(ABC):
    """A problem with seeded inputs, a float64 reference, a tolerance, a work model, and an ordered ladder.

    A lab is a subclass; the module that `registry.get` imports has an instance of it as `LAB`. A subclass must set the
    attributes without a default and write `cases`, `inputs`, `reference`, `check` and `work`. The other methods have a
    default that fits most labs; each says when to override it.

    A case is measured in this order. `prepare` fetches data, and `inputs` draws the inputs that are timed. Each variant is
    verified on fresh inputs (`verification_case`, `verified_on`, `verification_inputs`, `reference`, `check`) and on small
    awkward sizes (`awkward_runs`). Then it is timed with `units` units a sample, and the outputs of its last run are checked
    (`check_timed`). The statements of a lab's report are its `analysis.publication.Publication`.
    """

    name: str
    """Name of the lab: that of its folder."""
    title: str
    """Title of its page."""
    preferred_backend: str
    """Backend whose GPU `device = "auto"` prefers: `cuda` or `opencl`."""
    unit: str
    """Unit of work that a time is divided by, such as `step`."""
    timed: str
    """Part of the program that a time covers, such as `loop: launches, kernels and reads` or `kernel`."""
    clock: str = DEVICE_CLOCK
    """Clock of the steps' times: DEVICE_CLOCK, from the start of the first kernel to the end of the last, or HOST_CLOCK."""
    bases: tuple[str, ...]
    """Baselines of speedups in tables and figures. The first one with a time on the device and case is used."""
    best: str
    """Name of the step that sweeps, leave-one-out and comparisons start from."""
    ladder: tuple[Variant, ...]
    """The steps, bases and probes, each behind its parent."""
    sweeps: tuple[Sweep, ...] = ()
    """The knobs that are varied over many values."""
    peers: tuple[Variant, ...] = ()
    """Libraries and other programs for the same problem, with the role `peer`, and kernels in today's languages, `dsl`."""
    cache: str = "cold"
    """State of the caches when a sample begins: `cold`, or `warm` if warm caches are the subject."""
    cache_note: str = ""
    """Note below tables, if the launches that are timed find other caches than the sample began with."""
    recorded_runs: int = 3
    """Fresh processes that a recorded figure comes from. Set more if the host's time counts, which varies more."""
    other_sizes: str = ""
    """Case names that `sized` accepts, in the words of a message: `any HEIGHTxWIDTH`."""
    parts: tuple[str, ...] = ()
    """Columns of the table of parts: names of `Runnable.parts`."""
    host_reads: tuple[str, ...] = ()
    """Outputs of a submitted kernel that a timed run also reads to the host, by whose clock it is timed then, as steps are."""
    awkward: tuple[str, ...] = ()
    """Names of small cases of awkward sizes, such as odd ones, for `awkward_runs`."""
    facts_shown: Mapping[str, str] = {}
    """Further columns of the table of parts: name in `Runnable.facts` -> head, such as `accuracy` -> `Accuracy`."""

    @property
    def headline(self) -> tuple[str, ...]:
        """Baselines for the speedups in sentences and on the first page; the first one measured is used."""
        return self.bases

    @property
    def about(self) -> str:
        """The first line of the lab's module: the problem and its origin."""
        return (sys.modules[type(self).__module__].__doc__ or self.title).partition("\n")[0]

    @property
    def package(self) -> str:
        """Name of the lab's package, such as `roofbook.labs.cnn`."""
        return str(sys.modules[type(self).__module__].__package__)

    def prepare(self) -> None:
        """Fetch data from the network or elsewhere. Called before cases are planned or measured; override if any is needed."""

    @abstractmethod
    def cases(self, scale: str) -> Sequence[Case]:
        """Return the cases of a scale, the main case first. scale: one of SCALES.

        `quick` is for a small CPU, `published` has the sizes of the literature, `large` several times a GPU's cache, and
        `test` the smallest and most uneven sizes.
        """

    def series(self, scale: str) -> Sequence[Series]:
        """Return the series that are measured at a scale. Override if a parameter of the case is to be varied."""
        return ()

    def sized(self, name: str, scale: str) -> Case | None:
        """Return the case of a size that no scale lists; None if the name is no size.

        Called with a name that a user typed. Override to accept any size, and describe the names in `other_sizes`. Raise
        UsageError for a size that is impossible.
        """
        return None

    @abstractmethod
    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """Draw the inputs of a case, by name: the same for the same seed on each device, and never zeros.

        Called once for the inputs that are timed, and with secret seeds for those of checks. Plans, `reference` and
        `verification_inputs` receive the returned mapping. They must not change its arrays.
        """

    @abstractmethod
    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Compute the right outputs of `case.units` units from the inputs, in float64 or exactly.

        Called once for all variants that share a case and inputs. The result goes to `check`, so it may also hold whatever
        the tolerance depends on.
        """

    @abstractmethod
    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, "np.ndarray"], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        """Compare a variant's outputs with the reference. Return (error, tolerance, description of the error).

        outputs: arrays of `Runnable.outputs`. reference: result of `reference`, with the entries of `device_losses`. Outputs
        are accepted if `error <= tolerance`; a NaN is refused. Derive the tolerance from the rounding of the algorithm, not
        from the error of a kernel. Called for each variant after its first run, on the inputs for verification.
        """

    def check_timed(
        self,
        case: Case,
        variant: Variant,
        outputs: Mapping[str, "np.ndarray"],
        right: Callable[[Case], Mapping[str, Any]],
    ) -> tuple[float, float, str]:
        """Verify the run that was timed. Return (error, tolerance, description of the error), as `check` does.

        case: with the units of the timed run. outputs: arrays of its `Runnable.outputs`. right: returns the reference of the
        timed inputs for a case. Override if the run is too long for a full reference, and check the rest by other means, such
        as the first steps and the conserved mass.
        """
        return self.check(case, variant, outputs, right(case))

    @abstractmethod
    def work(self, case: Case) -> Work:
        """Return the least work of one unit of a case, whatever the variant. The bound of the case is computed from it."""

    def traffic(self, case: Case, variant: Variant) -> float:
        """Return the bytes per unit that the variant's data flow moves to and from memory at least, by its plan."""
        return float(variant.plan.traffic(case, variant, self.work(case).bytes))

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type["np.generic"], tuple[int, ...]]]:
        """Return output -> (type, shape) on a device, for kernels that a reader submits; see `spec.submission`.

        Override if a submitted kernel can be judged. An output that is an input, too, starts from it. Raise UsageError without.
        """
        raise UsageError(f"lab {self.name} does not say which arrays a submitted kernel writes, so it judges none")

    def numbers(self, case: Case) -> Mapping[str, Any]:
        """Return the numbers that a submitted kernel may use besides `sizes`, by name; other values are left out.

        Override to leave out parameters that are none of a kernel's business, or to add numbers.
        """
        return case.params

    def sizes(self, case: Case) -> Mapping[str, int]:
        """Return the knobs that hold the size of the case, with their values, for kernels that a page or a diff shows.

        Override if plans set the size by knobs. The default, no knobs, is for kernels that get it as arguments.
        """
        return {}

    def units(self, case: Case, variant: Variant, device: "Device") -> int:
        """Return the number of units in one timed sample, by the variant's plan."""
        return variant.plan.timed_units(case, variant, device)

    def verification_case(self, case: Case, variant: Variant) -> Case:
        """Return the case on which a variant is verified before it is timed.

        Override to return it with fewer units, if a reference of all would take too long.
        """
        return case

    def verified_on(self, variant: Variant) -> str:
        """Return the `name` of `verification_inputs` for a variant, by its plan; equal names share a reference."""
        return variant.plan.verified_on(variant)

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the inputs on which variants are verified before they are timed, by default those drawn by `inputs`.

        name: result of `verified_on`. inputs: drawn with a secret seed. Override if mistakes would hide on these inputs.
        """
        return inputs

    def awkward_case(self, name: str) -> Case:
        """Return the case of a name in `awkward`, at scale `test`. Override if it needs other parameters there."""
        return self.case(name, "test")

    def awkward_runs(self, case: Case, variant: Variant) -> Sequence[tuple[Variant, Case]]:
        """Return small runs of awkward sizes on which a variant is verified, too, before it is timed on `case`.

        These are the first AWKWARD_RUNS cases of `awkward` that the variant, with the plan's `small_options`, can run.
        """
        if small_options := variant.plan.small_options(variant):
            variant = replace(variant, options={**variant.options, **small_options})
        awkward_cases = [self.awkward_case(name) for name in self.awkward if name != case.name]
        runnable_cases = [small for small in awkward_cases if self.skip_reason(variant, small) is None]
        return [(variant, small) for small in runnable_cases[:AWKWARD_RUNS]]

    def device_losses(self, device: "Device", variant: Variant) -> Mapping[str, Any]:
        """Return measured errors of the device's own functions, by name; `check` finds them in its reference.

        Called once per device and variant. Override if a kernel calls functions whose accuracy is the device's choice, such
        as the native roots of OpenCL.
        """
        return {}

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        """Return why a variant cannot run a case on this machine; None if it can."""
        return by_make(missing(variant)) or variant.plan.refusal(case, variant)

    def case_class(self, case: Case) -> str:
        """Return `prediction.SMALL` or `prediction.LARGE` for a case that predictions mean by these words, otherwise ''.

        Override if predictions of the ladder say `small` or `large`.
        """
        return ""

    def conditions(self, variant: Variant) -> tuple[str, ...]:
        """Return how a variant's result or time differs from a plain step's, by its plan."""
        return variant.plan.conditions(variant)

    def exact_as(self) -> dict[str, str]:
        """Return the type whose plain steps are as exact as a variant, by the variant's name.

        This is the variant's `dtype`. It is float32 if other variants of the lab round their operands to that type and this
        one, which splits operands, does not.
        """
        rounds = {
            variant.name: any(condition.startswith(ROUNDS_OPERANDS) for condition in self.conditions(variant))
            for variant in self.all_variants()
        }
        lossy = {variant.dtype for variant in self.all_variants() if rounds[variant.name]}
        return {
            variant.name: "float32" if variant.dtype in lossy and not rounds[variant.name] else variant.dtype
            for variant in self.all_variants()
        }

    def rate(self, case: Case) -> tuple[float, str]:
        """Return (amount of one unit, name of the rate), such as millions of cells and `MLUPS`. A rate is amount / seconds.

        Override if the field has a rate of its own.
        """
        return self.work(case).flops / 1e9, "GFLOP/s"

    def all_variants(self) -> tuple[Variant, ...]:
        """Return the ladder, the peers and all points of sweeps."""
        points = tuple(variant for sweep in self.sweeps for variant in sweep.variants)
        return self.ladder + self.peers + points

    def at_scale(self, scale: str) -> tuple[Variant, ...]:
        """Return the variants that are measured at a scale by default."""
        points = tuple(variant for sweep in self.sweeps for variant in sweep.at_scale(scale))
        return self.ladder + self.peers + points

    def sweep_cases(self, cases: Sequence[Case]) -> Sequence[Case]:
        """Return the cases on which sweeps run: all of them at published and large scale, otherwise only the first."""
        return [case for case in cases if case is cases[0] or case.scale not in ("quick", "test")]

    def variant(self, name: str) -> Variant:
        """Return the variant of a name, peers and points of sweeps included. Raise UsageError if there is none.

        `STEP@KNOB=VALUE` is a step of the ladder with another value of any knob, see `turned`; several are joined by commas.
        """
        for candidate in self.all_variants():
            if candidate.name == name:
                return candidate
        if turned_name := _TURNED.fullmatch(name):
            step = next((step for step in self.ladder if step.name == turned_name["step"]), None)
            values = dict(setting.split("=") for setting in turned_name["knobs"].split(","))
            if step and step.source and not self._has_axis(step, values):
                return self.turned(step, values, must_differ=True)
        if self.case_or_none(name):
            raise UsageError(f"{name!r} is a case of {self.name}; a variant is meant here, such as {self.best!r}")
        points = [f"{sweep.variants[0].name.partition('=')[0]}={_points(sweep)}" for sweep in self.sweeps]
        valid = [variant.name for variant in self.ladder + self.peers]
        raise one_of("variant", name, valid + points, near=[variant.name for variant in self.all_variants()])

    def _has_axis(self, step: Variant, names: Iterable[str]) -> bool:
        """Return whether a name is that of a step's sweep alone, such as `wg`: it has the points of the sweep and no others."""
        axes = {sweep.axis for sweep in self.sweeps if any(point.parent == step.name for point in sweep.variants)}
        return bool(axes.intersection(names) - set(step.text.settings) - set(self.turnable_options(step)))

    def turned(self, step: Variant, values: Mapping[str, str], *, must_differ: bool = False) -> Variant:
        """Return a step with other values of its knobs as a point of a sweep; the step itself if it has these values already.

        values: knob -> value as text. A knob is one of the step's source, or an option of its plan (`turnable_options`), whose
        value is a number or sides such as `16x4`. Raise UsageError for a knob that the step lacks, that is a size or that makes
        a probe, and with `must_differ` if the code stays the same.
        """
        sizes, known = self.sizes(self.cases(SCALES[0])[0]), self.turnable_options(step)
        probes = self.probe_knobs()
        knobs: dict[str, int | str] = {}
        options: dict[str, int | tuple[int, ...]] = {}
        for name, value in sorted(values.items()):
            if name in sizes:
                raise UsageError(f"{name} is a size of the case: choose another case")
            if name in probes and name in step.text.settings:
                raise UsageError(f"{name} makes a probe, whose result is not right: measure {', '.join(probes[name])}")
            if name in known:
                options[name] = _option_value(name, value, known[name])
            else:
                knobs[name] = int(value) if value.isdecimal() else value
        source = step.text.turned(**knobs) if must_differ and not options else step.text.pinned_to(**knobs)
        knobs = {name: value for name, value in knobs.items() if step.text.settings[name] != value}
        options = {name: value for name, value in options.items() if step.options.get(name) != value}
        changed = {name: values[name] for name in sorted({**knobs, **options})}
        if not changed:
            return step
        variant = step.at(",".join(changed), ",".join(changed.values()), source if knobs else None, **options)
        return replace(variant, name=turned_name(step.name, changed))

    def is_probe(self, variant: Variant) -> bool:
        """Return whether a variant is a probe, or a point of a sweep of one."""
        probes = {step.name for step in self.ladder if step.role == "probe"}
        return variant.name in probes or (variant.role == "sweep" and variant.parent in probes)

    def probe_knobs(self) -> dict[str, list[str]]:
        """Return the knobs by which the text of a probe differs from its parent's, each with the names of these probes."""
        knobs: dict[str, list[str]] = {}
        for probe in self.ladder:
            parent = next((step for step in self.ladder if step.name == probe.parent), None)
            if (
                probe.role == "probe"
                and probe.source
                and parent
                and parent.source
                and probe.source.path == parent.source.path
            ):
                for name in sorted(
                    {name for name, _ in probe.source.knobs} - {name for name, _ in parent.source.knobs}
                ):
                    knobs.setdefault(name, []).append(probe.name)
        return knobs

    def turnable_options(self, step: Variant) -> dict[str, int | tuple[int, ...]]:
        """Return the options of a step's plan that are numbers or sides, each with a value; those of its sweeps too."""
        points = [variant for sweep in self.sweeps for variant in sweep.variants if variant.parent == step.name]
        return {
            name: value
            for variant in (*points, step)
            for name, value in variant.options.items()
            if type(value) is int or (isinstance(value, tuple) and value and all(type(side) is int for side in value))
        }

    def case(self, name: str, scale: str | None = None) -> Case:
        """Return the case of a name at `scale`, by default at the first scale that lists it, or of a size that `sized` accepts.

        Raise UsageError if there is none.
        """
        scales = (scale,) if scale else SCALES
        listed = [case for listing_scale in scales for case in self.cases(listing_scale)]
        for case in listed:
            if case.name == name:
                return case
        return self.other_case(name, scales[0], listed)

    def case_or_none(self, name: str, scale: str | None = None) -> Case | None:
        """Return the result of `case`; None if there is none."""
        try:
            return self.case(name, scale)
        except UsageError:
            return None

    def other_case(self, name: str, scale: str, listed: Sequence[Case], noun: str = "case") -> Case:
        """Return the case that `sized` makes of a name. Raise UsageError, with the names of `listed`, if it makes none.

        noun: names the value in the message.
        """
        if case := self.sized(name, scale):
            return case
        raise one_of(noun, name, [case.name for case in listed] + [self.other_sizes] * bool(self.other_sizes))


class NamedCases(Lab):
    """Base of the labs whose cases follow from their names."""

    case_names: Mapping[str, Sequence[str]]
    """Scale -> names of its cases, the main case first."""
    name_pattern: str
    """Regular expression for all names of cases that a user may type."""

    @abstractmethod
    def named_case(self, name: str, scale: str) -> Case:
        """Return the case of a name that matches the pattern. Raise UsageError for a size that is impossible."""

    def cases(self, scale: str) -> Sequence[Case]:
        return [self.named_case(name, scale) for name in self.case_names[scale]]

    def sized(self, name: str, scale: str) -> Case | None:
        return self.named_case(name, scale) if re.fullmatch(self.name_pattern, name) else None


_TURNED = re.compile(r"(?P<step>[^@]+)@(?P<knobs>[A-Za-z]\w*=[\w.+-]+(?:,[A-Za-z]\w*=[\w.+-]+)*)", re.ASCII)
"""Name of a step with other knobs, such as `tree@GROUP_SIZE=32`. Those in capitals go into the kernel."""


def turned_name(step: str, knobs: Mapping[str, object]) -> str:
    """Return the name by which `Lab.variant` knows a step with other knobs. Raise UsageError for what is no knob or value.

    >>> turned_name("tree", {"GROUP_SIZE": 32, "ACCUMULATE": "PAIRS"})
    'tree@ACCUMULATE=PAIRS,GROUP_SIZE=32'
    """
    if not knobs:
        return step
    settings = sorted(f"{knob}={value}" for knob, value in knobs.items())
    name = f"{step}@{','.join(settings)}"
    if not _TURNED.fullmatch(name) or "@" in step:
        raise UsageError(f"{', '.join(settings)!r} is no knob of {step}: write NAME=VALUE, such as GROUP_SIZE=32")
    return name


def _option_value(name: str, text: str, example: int | tuple[int, ...]) -> int | tuple[int, ...]:
    """Return the value of an option that a user typed, of the type of another value. Raise UsageError for what is none."""
    sides = text.split("x")
    if not all(side.isdecimal() and side.isascii() for side in sides) or (len(sides) > 1 and isinstance(example, int)):
        right = "a whole number" if isinstance(example, int) else "sides such as 16x4"
        raise UsageError(f"{name}={text}: the value is {right}")
    return int(text) if isinstance(example, int) else tuple(map(int, sides))


def _points(sweep: Sweep) -> str:
    """Return the points of a sweep for a message: all of them, or the first three and their number."""
    points = [str(variant.point) for variant in sweep.variants]
    return "|".join(points) if len(points) <= 12 else f"{'|'.join(points[:3])}|... ({len(points)} points)"
