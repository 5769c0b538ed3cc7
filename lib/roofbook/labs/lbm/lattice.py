"""D2Q9 lattice Boltzmann (University of Bristol, Advanced HPC): a driven flow around obstacles.

The ladder follows the published report. Steps of our own come after it: bytes, one grid, half precision, several steps at once.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...devices.backends import OPENCL
from ...devices.contract import BuildFailed, Device, DriverFailed, OutOfMemory, Unsupported
from ...devices.find import open_device
from ...errors import UsageError
from ...spec.lab import HOST_CLOCK, Lab, Series, Sweep, Work
from ...spec.plan import Case, Variant
from ...spec.prediction import LARGE, SMALL
from ...spec.rounding import mean_square_over, worst
from ...spec.source import Source
from . import grid, plans, replay, slabs
from .course_backend import PREFERRED
from .ladder import LADDER, PEERS
from .problem import (
    AWKWARD_STEPS,
    CASES,
    Params,
    asymmetric,
    bound,
    box,
    disturb,
    error,
    error_av_vels,
    error_of_last,
    followed,
    initial,
    mass_error,
    mean_square_error,
    published,
    reference,
    tolerance,
    tolerance_of_last,
    tolerance_of_mass,
    with_thin_cells,
)

if TYPE_CHECKING:
    from ...analysis.fastest_variant import Choice

HERE = Path(__file__).parent

SHAPES = (
    "1x16", "1x64", "4x1", "4x4", "4x16", "16x1", "16x4", "16x16", "32x1", "64x1", "64x4", "128x1", "256x1", "256x4", "1024x1",
)  # fmt: skip
"""Shapes of work-groups, columns x rows. Those with one row, and 1x16, were published."""
QUICK_SHAPES = ("1x16", "4x4", "16x16", "64x1", "1024x1")


def shape(text: str) -> tuple[int, int]:
    """Parse a text such as `16x4` to (16, 4)."""
    x, _, y = text.partition("x")
    return int(x), int(y)


C_SHAPES = ("1x16", "16x1", "32x1", "64x1", "128x1", "256x1")
"""Shapes that are measured with the loop in C: those of the report's claims and their neighbours."""
C_STEPS = (
    "ported", "no-finish", "fused", "soa", "no-compute", "one-buffer", "device-struct", "no-count", "tree", "kept-partials",
    "cell-speeds-1792", "select", "accelerate-fused", "bit-neighbours", "hoisted",
)  # fmt: skip
"""Steps that are measured with the loop in C as well: those of the report."""


def _queued(kind: str, count: int, host: str = "") -> Variant:
    """Return a point of the sweep over numbers of arguments. host: `c-` if the loop is in C."""
    source = Source.of(HERE / "arguments.k", ARGUMENTS=f"{kind.upper()}_{count}", COUNT=count)
    axis, plan = f"{host}{kind}s", replay.QueueFromC if host else plans.QueueOnly
    parent = None if count == COUNTS[0] else f"queue@{axis}={COUNTS[0]}"
    return Variant(
        f"queue@{axis}={count}", parent, source, plan, f"{count} {kind} arguments", "", role="sweep",
        options={"kind": kind, "count": count}, differs=("source", "options"), axis=axis, point=str(count),
    )  # fmt: skip


def _without(best: Variant) -> tuple[Variant, ...]:
    """Return variants of the best step, each without one of its optimisations."""
    undone: dict[str, dict[str, int | str]] = {
        "structure of arrays": {"LAYOUT": "AOS"},
        "one buffer": {"GRID": "STRUCT"},
        "tree reduction": {"REDUCE": "SERIAL"},
        "select": {"OBSTACLE": "BRANCH"},
        "fused acceleration": {"ACCELERATE": "SEPARATE"},
        "hoisted constants": {"CONSTANTS": "DIVIDED"},
        "byte obstacles": {"SOLID": "int"},
    }
    return tuple(best.at("without", name, best.text.with_knobs(**knobs)) for name, knobs in undone.items())


COUNTS = (1, 2, 4, 8, 16, 24)
QUICK_COUNTS = ("1", "8", "24")
AWKWARD = ("33x97", "65x19", "64x16", "32x64")
"""Grids with odd sizes, one taller than wide and one wider than tall; the others are for steps that need powers of two."""

ROUGHLY = 0.1
"""Largest relative error of a mean speed if a group may have read words of a later step at its edges."""

# FLOPs of a cell in fused.k with constants hoisted: density 8, velocity 12, u^2 3, equilibrium 9 x 8, relaxation 9 x 3,
# |u| 1 and its sum 1. Counted by hand from the source, one operation for each +, -, *, / and sqrt.
FLOPS_PER_CELL = 8 + 12 + 3 + 9 * 8 + 9 * 3 + 1 + 1


class Lattice(Lab):
    """The lab. A case's params are those of the course's parameter file; its name decides the obstacles."""

    name = "lbm"
    title = "Lattice Boltzmann"
    preferred_backend = OPENCL.name
    unit = "step"
    timed = "loop: launches, kernels and reads"
    clock = HOST_CLOCK
    recorded_runs = 5
    bases = ("sequential-c", "sequential")
    best = "flat-grid"
    host_reads = ("av_vels",)
    awkward = AWKWARD
    ladder = LADDER
    peers = PEERS

    def __init__(self) -> None:
        best, c_host = (next(variant for variant in LADDER if variant.name == name) for name in (self.best, "c-host"))
        self.sweeps = (
            Sweep("without", "What is each optimisation worth in the best kernel?", _without(best)),
            Sweep(
                "wg",
                "Which shape of work-group?",
                tuple(best.at("wg", text, group=shape(text)) for text in SHAPES),
                quick=QUICK_SHAPES,
                tunes=True,
            ),
            Sweep(
                "step",
                "What does each step of the report bring where the loop is in C?",
                tuple(replay.from_c(v, v.name, c_host) for v in LADDER if v.name in C_STEPS),
                quick=("no-finish", "soa", "accelerate-fused"),
            ),
            Sweep(
                "c-wg",
                "Which shape of work-group, with the loop in C?",
                tuple(c_host.at("c-wg", text, group=shape(text)) for text in C_SHAPES),
                quick=("1x16", "32x1"),
                tunes=True,
            ),
            *(
                Sweep(
                    f"{host}{kind}s",
                    f"What does {words} argument cost{', with the loop in C' * bool(host)}?",
                    tuple(_queued(kind, count, host) for count in COUNTS),
                    quick=QUICK_COUNTS,
                )
                for host in ("", "c-")
                for kind, words in (("buffer", "a buffer"), ("integer", "an integer"))
            ),
            Sweep("devices", "How much do more devices bring?", slabs.COUNTED, quick=("1", "2")),
        )

    def cases(self, scale: str) -> Sequence[Case]:
        return [_case(name, scale, *steps) for name, steps in CASES[scale].items()]

    def sized(self, name: str, scale: str) -> Case | None:
        """Return a grid of the series, as a closed box unless it is a published one."""
        columns, rows = slabs.GROWN[scale]
        cells_by_name = {f"{columns}x{many}": columns * many for many in rows}
        return _case(name, scale, *steps_of_size(cells_by_name[name], scale)) if name in cells_by_name else None

    def series(self, scale: str) -> Sequence[Series]:
        columns, rows = slabs.GROWN[scale]
        points = tuple((float(many), f"{columns}x{many}") for many in rows)
        grown = tuple(
            point.name for point in slabs.COUNTED if scale not in ("quick", "test") or point.point in ("1", "2")
        )
        return (
            Series("rows", "From how many rows on do several devices pay?", f"rows of {columns} cells", points, grown,
                   tuple((name, grown[0]) for name in grown[1:])),
        )  # fmt: skip

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """Return `params`, `obstacles` (ny, nx) and a state off equilibrium: f (9, ny, nx), populations within 10 % of rest."""
        params, obstacles = problem_of(case.name)
        f = initial(params, np.float32)
        disturb(f, seed, 0.1)
        return {"params": params, "obstacles": obstacles, "f": f}

    def awkward_case(self, name: str) -> Case:
        """Return a small grid of any size, with the steps of two walks and one more."""
        return _case(name, "test", AWKWARD_STEPS, AWKWARD_STEPS)

    def verification_case(self, case: Case, variant: Variant) -> Case:
        steps = int(case.params["check_steps"])
        if grid.computes_nothing(variant):  # an even number: grids have been swapped twice, the first is unchanged
            steps -= steps % 2
        if grid.left_out(variant) == "WAITS":  # in the first step no group needs what another one computes
            steps = 1
        return Case(case.name, case.scale, case.params, steps)

    def verified_on(self, variant: Variant) -> str:
        return "thin"

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return inputs with cells that are too `thin` to be driven."""
        return {**inputs, "f": with_thin_cells(inputs["params"], inputs["obstacles"], inputs["f"])}

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        params, obstacles = inputs["params"], inputs["obstacles"]
        run, cells = followed(params, obstacles, case.units, inputs["f"].astype(np.float64)), int((~obstacles).sum())
        allowed = {half: tolerance(run, params, cells, half) for half in (False, True)}
        return {"f": run.f, "av_vels": run.av_vels, "start": inputs["f"], "allowed": allowed}

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        if "arguments" in outputs:
            return float(abs(outputs["arguments"] - variant.options["count"]).max()), 0.0, "arguments counted"
        if grid.computes_nothing(variant):
            changed = float(np.abs(outputs["f"] - reference["start"]).max())
            return changed, 0.0, "change of a population, where none should change"
        if grid.left_out(variant) == "STEPS":
            undriven = np.arange(case.params["ny"]) != case.params["ny"] - 2
            changed = np.abs((outputs["f"] - reference["start"])[:, undriven])
            largest = float(np.append(changed, np.abs(outputs["av_vels"])).max())
            return largest, 0.0, "change of a population outside the driven row, or mean speed, where none should be"
        if variant.options.get("bare"):
            f = _open_and_undriven(case, reference["start"])
            measure = "largest error of a population without obstacles or drive, over its tolerance"
            return error(outputs["f"], f) / bound(case.units), 1.0, measure
        f, right = outputs["f"], reference["f"]
        allowed = reference["allowed"][grid.stores_half(variant)]
        largest, error_name = worst({
            "largest error of a population": error(f, right) / allowed.largest,
            "root mean square error of the populations": mean_square_over(
                mean_square_error(f, right), allowed.mean_square**2, right.size
            ),
            "largest error of a mean speed": error_av_vels(outputs["av_vels"], reference["av_vels"]) / allowed.speeds,
        })  # fmt: skip
        return largest, 1.0, f"{error_name}, over its tolerance"

    def check_timed(
        self,
        case: Case,
        variant: Variant,
        outputs: Mapping[str, np.ndarray],
        right: Callable[[Case], Mapping[str, Any]],
    ) -> tuple[float, float, str]:
        """Check a run that is too long for a reference: the first steps by it, and mass and mean speed of the last state."""
        small = self.verification_case(case, variant)
        if case.units <= small.units and not grid.computes_nothing(variant):
            return self.check(case, variant, outputs, right(case))
        reference = right(small)
        if grid.computes_nothing(variant) or grid.left_out(variant) == "STEPS" or "arguments" in outputs:
            return self.check(small, variant, outputs, reference)
        if grid.left_out(variant) == "WAITS":
            of_first = error_av_vels(outputs["av_vels"][:1], reference["av_vels"][:1])
            return of_first, ROUGHLY, "relative error of the first step's mean speed"
        f, half = outputs["f"], grid.stores_half(variant)
        ratios = {"change of the mass": mass_error(f, reference["start"]) / tolerance_of_mass(case.units)}
        if "av_vels" in outputs:
            obstacles, speeds = problem_of(case.name)[1], outputs["av_vels"]
            first = error_av_vels(speeds[: small.units], reference["av_vels"])
            ratios["error of a mean speed of the first steps"] = first / reference["allowed"][half].speeds
            last = error_of_last(f, obstacles, speeds)
            ratios["error of the last mean speed"] = last / tolerance_of_last(f, obstacles, float(speeds[-1]), half)
            ratios["mean speeds that are no positive number"] = 2.0 * (not (np.isfinite(speeds) & (speeds > 0)).all())
        largest, error_name = worst(ratios)
        return largest, 1.0, f"{error_name}, over its tolerance"

    def work(self, case: Case) -> Work:
        """Return the work of a step. Bytes a cell: nine populations read and written, one of obstacle map. FLOPs of fused.k."""
        cells = case.params["nx"] * case.params["ny"]
        return Work(
            flops=FLOPS_PER_CELL * cells, bytes=grid.BYTES_PER_CELL * cells, footprint=grid.BYTES_PER_CELL * cells
        )

    def case_class(self, case: Case) -> str:
        """Return SMALL for the report's smallest grid and smaller ones, LARGE for its largest and larger ones."""
        cells = case.params["nx"] * case.params["ny"]
        return SMALL if cells <= 128 * 128 else LARGE if cells >= 1024 * 1024 else ""

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type[np.generic], tuple[int, ...]]]:
        shape = 9, case.params["ny"], case.params["nx"]
        return {"f": (np.float32, shape), "av_vels": (np.float32, (case.units,))}

    def numbers(self, case: Case) -> Mapping[str, Any]:
        names = "nx", "ny", "density", "accel", "omega"
        fluid_cells = int((~problem_of(case.name)[1]).sum())
        return {name: case.params[name] for name in names} | {"fluid_cells": fluid_cells}

    def rate(self, case: Case) -> tuple[float, str]:
        return case.params["nx"] * case.params["ny"] / 1e6, "MLUPS"


def _case(name: str, scale: str, steps: int, check: int) -> Case:
    return Case(name, scale, {**asdict(_params(name)), "check_steps": check}, steps)


def steps_of_size(cells: int, scale: str) -> tuple[int, int]:
    """Return (steps of a timed sample, steps of the check) for a grid of the series: about the work of the listed cases."""
    most, work = (4000, 1 << 30) if scale in ("published", "large") else (50, 1 << 21)
    return max(2, min(most, work // cells) // 2 * 2), max(2, min(21, (1 << 22) // cells))


_published = lru_cache(published)


@lru_cache(maxsize=4)
def problem_of(name: str) -> tuple[Params, np.ndarray]:
    """Return the published or awkward case with a name; otherwise a closed box of its size."""
    nx, ny = shape(name)
    if name in AWKWARD:
        return asymmetric(nx, ny)
    return _published().get(name) or box(nx, ny)


@lru_cache(maxsize=256)
def _params(name: str) -> Params:
    """Return the params of `problem_of`; cached by themselves, since the map of a large grid takes much memory and time."""
    return problem_of(name)[0]


def _open_and_undriven(case: Case, start: np.ndarray) -> np.ndarray:
    """Return the reference's f after a case's steps from `start`, with no cell blocked and nothing driven."""
    params = Params(**{**{field.name: case.params[field.name] for field in fields(Params)}, "accel": 0.0})
    return reference(params, np.zeros((params.ny, params.nx), bool), case.units, start)[0]


def simulate(
    device_spec: str,
    variant: str | None,
    params: Params,
    obstacles: np.ndarray,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run a whole case like the course's program, from fluid at rest. `tell` gets a line with the variant and the reason.

    Returns f (9, ny, nx) and av_vels (iterations,), float32. Raises UsageError if the device or variant is unknown, or the
    variant cannot run this case on this device.
    """
    device = open_device(device_spec, PREFERRED)
    case = Case(f"{params.nx}x{params.ny}", "course", asdict(params), params.iterations)
    candidates = [_named(variant, device, case)] if variant else _quickest(device, case)
    for choice in candidates:
        try:
            result = _simulated(choice.variant, device, case, params, obstacles)
        except (BuildFailed, DriverFailed, OutOfMemory, Unsupported) as error:
            reason = str(error).splitlines()[0]
            if choice is candidates[-1]:
                raise UsageError(f"variant {choice.variant.name!r} cannot run this: {reason}") from error
            tell(f"{choice.variant.name} cannot run this: {reason}")
        else:
            tell(f"{choice}")
            return result
    raise AssertionError("there is one candidate at least")


def _simulated(
    variant: Variant, device: Device, case: Case, params: Params, obstacles: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    variant = replace(variant, options={**(run_options(variant, case, device) or {}), **variant.options})
    run = variant.plan(
        device, variant, case, {"params": params, "obstacles": obstacles, "f": initial(params, np.float32)}
    )
    try:
        if isinstance(
            run, plans.Simulation
        ):  # the state alone: whether a partial sum is left unwritten is for `measure`
            plans.Simulation.reset(run)
        else:
            run.reset()
        run.run()
        outputs = run.outputs()
    finally:
        run.close()
    return outputs["f"].astype(np.float32), outputs["av_vels"].astype(np.float32)


def run_options(variant: Variant, case: Case, device: Device) -> Mapping[str, Any] | None:
    """Return the options with which a step of the ladder runs all steps of a case at once; None if it cannot."""
    assert issubclass(variant.plan, plans.Simulation | slabs.Slabs)
    return variant.plan.run_options(case, device)


def _named(name: str, device: Device, case: Case) -> "Choice":
    """Return the variant that a user names. Raises UsageError if it cannot run."""
    from ...analysis.fastest_variant import Choice

    variant = LAB.variant(name)
    reason = LAB.skip_reason(variant, case) or (
        None if variant.is_for(device.backend, device.kind) else f"not on {device.spec}"
    )
    if reason or variant not in LAB.ladder or variant.role == "probe":
        raise UsageError(f"variant {name!r} cannot run this: {reason or 'it simulates nothing'}")
    return Choice(variant, "as asked for")


def _quickest(device: Device, case: Case) -> "list[Choice]":
    """Return the steps for a user who names none, fastest first, in the course's single precision and on one device."""
    from ...analysis.fastest_variant import checkout_store, choices

    def cells(name: str) -> float:
        return math.prod(shape(name))

    runnable = [
        variant
        for variant in LAB.ladder
        if variant.role == "step" and variant.is_for(device.backend, device.kind) and "unit_roundoff" not in variant.options
        and "devices" not in variant.options and not LAB.skip_reason(variant, case)
        and run_options(variant, case, device) is not None
    ]  # fmt: skip
    return choices(LAB, device, case.name, cells, runnable, checkout_store())


LAB = Lattice()
