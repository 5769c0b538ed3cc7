"""D2Q9 lattice Boltzmann (University of Bristol, Advanced HPC): a driven flow around obstacles, step by step to the floor.

The ladder follows the published report; past its end stand the fields' own next steps: bytes, one grid, half precision.
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
from ...peers import missing, one_thread
from ...spec.lab import ONE_WORK_ITEM, Case, Lab, Sweep, Variant, Work
from ...spec.prediction import FASTER, FEW_PERCENT, LARGE, NO_GAIN, SAME, SEVERAL, SLOWER, SMALL, about, up_to
from ...spec.rounding import mean_square_over, worst
from ...spec.source import Source
from . import bands, haskell, on_chip, openacc, partly_ported, plans, programs, team
from .problem import (
    Params,
    bound,
    box,
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
    from ...analysis.quickest import Choice

HERE = Path(__file__).parent

SEPARATE = Source.of(HERE / "separate.k")
"""Five kernels over an array of structures, as the course's program is written."""

FUSED = Source.of(HERE / "fused.k")
"""The same arithmetic in one kernel, every knob where the course has it."""

SOA = FUSED.with_knobs(LAYOUT="SOA", GRID="NINE")
STRUCT = SOA.with_knobs(GRID="STRUCT")
NO_COUNT = STRUCT.with_knobs(COUNT_CELLS=0)
TREE = NO_COUNT.with_knobs(REDUCE="TREE")
KEPT = TREE.with_knobs(PARTIALS="KEPT")
SELECTED = KEPT.with_knobs(OBSTACLE="SELECT_BOTH")
ACCELERATED = SELECTED.with_knobs(ACCELERATE="FUSED")
HOISTED = ACCELERATED.with_knobs(CONSTANTS="HOISTED")
BYTES = HOISTED.with_knobs(SOLID="char")
FLAT = BYTES.with_knobs(GRID="ONE")
IN_PLACE = Source.of(
    HERE / "in_place.k", LAYOUT="SOA", REDUCE="TREE", COUNT_CELLS=0, PARTIALS="KEPT", CONSTANTS="HOISTED", SOLID="char",
)  # fmt: skip
"""One grid, what is left of the knobs at their best."""
VECTORS = Source.of(HERE / "vectors.k", LAYOUT="SOA", PARTIALS="KEPT", CONSTANTS="HOISTED", SOLID="char")
"""The same step on explicit vectors."""

WITHOUT = r"\A(?![\s\S]*{})"
"""Regular expression of a code that has no such thing."""
HALVES = r"ld\.global\.[bu]16[\s\S]*cvt\.f32\.f16[\s\S]*cvt\.rn\.f16\.f32[\s\S]*st\.global\.[bu]16"
PERSISTENT = Source.of(
    HERE / "persistent.cu", NX=128, ROWS=1, CONSTANTS="HOISTED", LAYOUT="SOA", GRID="ONE", SOLID="char", EXCHANGE="FLAGS"
)  # fmt: skip
"""The whole loop in one launch."""


SEQUENTIAL = Source.of(HERE / "sequential.k")

LADDER = (
    Variant(
        "sequential", None, SEQUENTIAL, plans.Sequential,
        "One work-item walks the grid five times per time step.",
        "The baseline: one core, no vector units, and every population read and written three times per time step.",
        frozenset({"cpu"}), options={"group": (1, 1), "device": "host"}, said=ONE_WORK_ITEM,
    ),
    Variant(
        "sequential-c", "sequential", SEQUENTIAL, plans.SequentialC,
        "The same loops in C, by the host's compiler with -O3; it may not re-order a sum either.",
        "Cells with nine populations each fill no vector in one piece: hardly faster.",
        frozenset({"host"}), options={"group": (1, 1), "device": "host"}, differs=("plan",), role="base", said=one_thread.WORDS,
        predicts=NO_GAIN,
    ),
    Variant(
        "partly-ported", "sequential", Source.of(HERE / "partly_ported.k"), partly_ported.PartlyPorted,
        "The grid goes to the device, accelerate_flow and propagate run there, it comes back, and the host's C does the rest.",
        "Where the report began. Two copies of the grid per time step cost more than the two kernels save.",
        differs=("source", "plan", "options"), published="given program, some kernels in OpenCL", predicts=SLOWER,
    ),
    Variant(
        "ported", "partly-ported", SEPARATE, plans.SeparateKernels,
        "Five kernels, one work-item per cell; the host waits after each. The grid stays on the device.",
        "No copies, and all cores work: many times faster on the large grid, less on the small one, where five waits remain.",
        options={"finish": True}, differs=("source", "plan", "options"), published="all kernels in OpenCL",
        predicts={"large": SEVERAL, "small": FASTER},
    ),
    Variant(
        "no-finish", "ported", SEPARATE, plans.SeparateKernels,
        "No clFinish between the kernels: the queue is in order anyway.",
        "Saves four waits per time step, a fixed cost: it matters on the small grid only.",
        differs=("options",), published="no clFinish between kernels", predicts={"small": FASTER, "large": SAME},
    ),
    Variant(
        "fused", "no-finish", FUSED, plans.Fused,
        "Propagate, rebound, collision and av_velocity in one kernel.",
        "Reads and writes each population once per time step, not three times: up to 3x where memory bounds it.",
        differs=("source", "plan"), published="propagate, rebound, collision, av_velocity fused", predicts={"large": up_to(3)},
    ),
    Variant(
        "soa", "fused", SOA, plans.Fused,
        "Structure of arrays: nine buffers, one per direction.",
        "Neighbouring work-items read neighbouring addresses: a GPU uses whole cache lines, a CPU whole vectors.",
        published="coalesced access (structure of arrays)", predicts={"large": FASTER},
    ),
    Variant(
        "no-compute", "soa", SOA.with_knobs(PROBE=1), plans.Fused,
        "The kernel returns at once: the cost of the host alone.",
        "On the small grid it takes as long as with the computation: there the host is the bottleneck.",
        role="probe", published="kernels with the computation removed", shows={"fused": WITHOUT.format(r"\w\.global")},
        predicts={"small": SAME},
    ),
    Variant(
        "one-buffer", "soa", SOA.with_knobs(GRID="ONE"), plans.Fused,
        "One buffer for the whole grid: 2 grid arguments, not 18.",
        "Each argument costs the host time: faster wherever the host is the bottleneck.",
        published="one buffer for the whole grid (3D)", predicts={"small": FASTER},
    ),
    Variant(
        "device-struct", "soa", STRUCT, plans.Fused,
        "Nine pointers in a structure in device memory: 2 grid arguments.",
        "As few arguments as with one buffer, no index arithmetic, one more load per work-item.",
        published="struct of pointers built on the device", shows={"fused": r"ld\.global(\.nc)?\.[bu]64"},
        predicts={"small": FASTER},
    ),
    Variant(
        "no-count", "device-struct", NO_COUNT, plans.Fused,
        "The number of fluid cells is known: only |u| is reduced.",
        "Saves one local array, one buffer and one read per time step.",
        published="reduction in local memory by one work-item, without tot_cells", predicts={"small": FASTER},
    ),
    Variant(
        "tree", "no-count", TREE, plans.Fused,
        "The work-group reduces by halving instead of by one work-item.",
        "6 levels instead of 64 additions in a row: a small gain, where the reduction shows at all.",
        published="binary-tree reduction, without tot_cells",
    ),
    Variant(
        "kept-partials", "tree", KEPT, plans.KeptPartials,
        "Partial sums stay on the device and are reduced there at the end.",
        "No read per time step, so the host never waits: about twice as fast where the host was the bottleneck.",
        differs=("source", "plan"), published="partial sums kept on the device until the end", predicts={"small": about(2)},
    ),
    Variant(
        "chunks-1792", "kept-partials", KEPT, plans.KeptPartials,
        "Partial sums are reduced every 1792 time steps.",
        "Less memory, no extra time: the buffer of partial sums is reused.",
        options={"chunk": 1792}, differs=("options",), published="reduction in chunks of 1792 iterations", predicts=SAME,
    ),
    Variant(
        "chunks-3584", "kept-partials", KEPT, plans.KeptPartials,
        "Partial sums are reduced every 3584 time steps.",
        "As with 1792.",
        options={"chunk": 3584}, differs=("options",), published="reduction in chunks of 3584 iterations", predicts=SAME,
    ),
    Variant(
        "select", "kept-partials", SELECTED, plans.KeptPartials,
        "Computes both results for every cell and selects by the obstacle map.",
        "Obstacles are few and clustered, so hardly any lane diverges: little to gain.",
        published="branch-free obstacle handling (mask and select)", predicts=NO_GAIN,
    ),
    Variant(
        "accelerate-fused", "select", ACCELERATED, plans.KeptPartials,
        "Each cell of row ny-2 accelerates its own result for the next time step.",
        "One launch per time step instead of two: about twice as fast where launches bound it.",
        published="accelerate_flow fused by masking", predicts={"small": about(2)},
    ),
    Variant(
        "bit-neighbours", "accelerate-fused", ACCELERATED.with_knobs(NEIGHBOUR="BITS"), plans.KeptPartials,
        "Neighbours by bit masks: sides are powers of two.",
        "Saves one integer remainder per cell, which memory time hides: no effect.",
        options={"powers_of_two": True}, differs=("source", "options"),
        published="power-of-two neighbours by bit operations", shows={"fused": WITHOUT.format(r"rem\.")}, predicts=SAME,
    ),
    Variant(
        "hoisted", "accelerate-fused", HOISTED, plans.KeptPartials,
        "The equilibrium multiplies by precomputed constants instead of dividing.",
        "Saves more than a dozen divisions per cell: no effect where memory bounds it, a large one where it does not.",
        published="constants hoisted out of the kernel", predicts={"large": SAME},
    ),
    Variant(
        "byte-obstacles", "hoisted", BYTES, plans.KeptPartials,
        "The obstacle map holds bytes, not words.",
        "Saves three of seventy-six bytes per cell: a few per cent where memory bounds it.",
        shows={"fused": r"ld\.global(\.nc)?\.[bsu]8"}, predicts={"large": FEW_PERCENT},
    ),
    Variant(
        "flat-grid", "byte-obstacles", FLAT, plans.KeptPartials,
        "One buffer for the grid again, now that little other overhead is left.",
        "No pointers to load before the populations, so a GPU starts its loads earlier.", predicts={"gpu large": FASTER},
    ),
    Variant(
        "vectors", "flat-grid", VECTORS, plans.Vectors,
        "Explicit vectors: each work-item computes sixteen cells of a row.",
        "Without vectorisation by the compiler, most of a CPU core is idle: many times faster there.",
        needs=frozenset({"vector-types"}), options={"group": (8, 1), "narrowest": 16},
        differs=("source", "plan", "options"), predicts={"cpu": SEVERAL},
    ),
    *bands.STEPS,
    team.STEP,
    Variant(
        "c-host", "flat-grid", FLAT, plans.CHost,
        "The same launches from a loop in C; on OpenCL it sets only the argument that changes.",
        "Shows the cost of Python per launch: all of the time on the small grid, none on the large.",
        differs=("plan",), published="C host", predicts={"small": FASTER, "large": SAME},
    ),
    Variant(
        "haskell-host", "c-host", FLAT, haskell.HaskellHost,
        "The same launches from a loop in Haskell.",
        "Compiled too, and each launch is one call of the driver: as fast as C.",
        needs=frozenset({"opencl-api"}), differs=("plan",), published="Haskell host", predicts=SAME,
    ),
    Variant(
        "graph", "flat-grid", FLAT.with_knobs(PARTIALS="GRAPH"), plans.GraphedSteps,
        "256 time steps are recorded once and submitted as one CUDA graph.",
        "The host leaves the loop: about half a microsecond per launch remains.",
        needs=frozenset({"graphs"}), differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "in-place", "flat-grid", IN_PLACE, plans.InPlace,
        "One grid instead of two: each population is written where one was read (AA pattern).",
        "Half the memory. Writes hit lines that were just read, so no line is loaded only to be overwritten.",
        differs=("source", "plan"), predicts={"large": FASTER},
    ),
    Variant(
        "half-storage", "in-place", IN_PLACE.with_knobs(GRID="SIXTEEN", REST="0.1f"), plans.InPlace,
        "Populations are stored in fp16, as differences from rest; arithmetic stays in fp32.",
        "37 bytes per cell instead of 73: twice as fast where memory bounds it, with a larger error.",
        options={"unit_roundoff": 2.0**-14}, shows=dict.fromkeys(("from_neighbours", "in_the_cell"), HALVES),
        differs=("source", "options"), predicts={"large": about(2)},
    ),
    Variant(
        "half-storage-graph", "half-storage", IN_PLACE.with_knobs(GRID="SIXTEEN", PARTIALS="GRAPH", REST="0.1f"),
        plans.InPlaceGraph,
        "The time steps on fp16 storage as a CUDA graph.",
        "Shows the kernel without the host: half the bytes, half the time where memory bounds it.",
        needs=frozenset({"graphs"}), options={"unit_roundoff": 2.0**-14}, differs=("source", "plan"),
        predicts={"small": FASTER},
    ),
    Variant(
        "fast-math", "half-storage-graph", IN_PLACE.with_knobs(GRID="SIXTEEN", PARTIALS="GRAPH", REST="0.1f"),
        plans.InPlaceGraph,
        "Approximate division and square root (a compiler option).",
        "With half the bytes, arithmetic begins to show: two divisions and a root per cell are dozens of instructions.",
        needs=frozenset({"graphs"}), options={"unit_roundoff": 2.0**-14, "fast_math": True}, differs=("options",),
        predicts=FASTER,
    ),
    Variant(
        "in-place-graph", "in-place", IN_PLACE.with_knobs(PARTIALS="GRAPH"), plans.InPlaceGraph,
        "The in-place time steps as a CUDA graph.",
        "Shows the kernel without the host. One grid of medium size then stays in the L2.",
        needs=frozenset({"graphs"}), differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "persistent", "in-place-graph", PERSISTENT, plans.Persistent,
        "One launch: each block keeps its rows in registers; neighbours exchange rows and flags through the L2.",
        "Saves the half microsecond of a graph node, and reading and writing a small grid in each time step.",
        needs=frozenset({"cooperative"}), differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "tagged-halo", "persistent", PERSISTENT.with_knobs(EXCHANGE="TAGS"), plans.Persistent,
        "Each exchanged value carries the number of its time step in the same 8 bytes: no flag, no fence.",
        "A flag costs a round trip to the L2 before the row can be read. Here the reader waits for the value itself.",
        needs=frozenset({"cooperative"}), predicts=FASTER,
    ),
    *on_chip.STEPS,
)  # fmt: skip

SHAPES = (
    "1x16", "1x64", "4x1", "4x4", "4x16", "16x1", "16x4", "16x16", "32x1", "64x1", "64x4", "128x1", "256x1", "256x4", "1024x1",
)  # fmt: skip
"""Columns x rows. Those with one row, and 1x16, were published."""
QUICK_SHAPES = ("1x16", "4x4", "16x16", "64x1", "1024x1")


def shape(text: str) -> tuple[int, int]:
    """`16x4` -> (16, 4)."""
    x, _, y = text.partition("x")
    return int(x), int(y)


def _queued(kind: str, count: int) -> Variant:
    source = Source.of(HERE / "arguments.k", ARGUMENTS=f"{kind.upper()}_{count}", COUNT=count)
    parent = None if count == COUNTS[0] else f"queue@{kind}s={COUNTS[0]}"
    return Variant(
        f"queue@{kind}s={count}", parent, source, plans.QueueOnly, f"{count} {kind} arguments", "", role="sweep",
        options={"kind": kind, "count": count}, differs=("source", "options"), axis=f"{kind}s", point=str(count),
    )  # fmt: skip


def _without(best: Variant) -> tuple[Variant, ...]:
    """The best step with one of its optimisations taken back."""
    assert best.source is not None
    undone: dict[str, dict[str, int | str]] = {
        "structure of arrays": {"LAYOUT": "AOS"},
        "one buffer": {"GRID": "STRUCT"},
        "tree reduction": {"REDUCE": "SERIAL"},
        "select": {"OBSTACLE": "BRANCH"},
        "fused acceleration": {"ACCELERATE": "SEPARATE"},
        "hoisted constants": {"CONSTANTS": "DIVIDED"},
        "byte obstacles": {"SOLID": "int"},
    }
    return tuple(best.at("without", name, best.source.with_knobs(**knobs)) for name, knobs in undone.items())


COUNTS = (1, 2, 4, 8, 16, 24)
QUICK_COUNTS = ("1", "8", "24")
LAUNCHES = {"quick": 2000, "test": 50}
"""Launches of one sample of the queue time; elsewhere as many as were published."""
ONE_CORE = ("sequential", "sequential-c", "partly-ported", "given-c")
"""Variants whose time is that of one core of the host."""

# FLOPs of a cell in fused.k with constants hoisted: density 8, velocity 12, u^2 3, equilibrium 9 x 8, relaxation 9 x 3,
# |u| 1 and its sum 1. Counted by hand from the source, an operation each for +, -, *, / and sqrt.
FLOPS_PER_CELL = 8 + 12 + 3 + 9 * 8 + 9 * 3 + 1 + 1


def _stores_half(variant: Variant) -> bool:
    """Whether populations are stored in fp16."""
    return bool(variant.source and variant.source.settings.get("GRID") == "SIXTEEN")


class Lattice(Lab):
    """The lab. A case's params are those of the course's parameter file, the obstacles go by the case's name."""

    name = "lbm"
    title = "Lattice Boltzmann"
    preferred_backend = OPENCL.name
    unit = "step"
    timed = "loop: launches, kernels and reads"
    recorded_runs = 5
    bases = ("sequential-c", "sequential")
    best = "flat-grid"
    ladder = LADDER
    peers = programs.PEERS

    def __init__(self) -> None:
        best = next(variant for variant in LADDER if variant.name == self.best)
        self.sweeps = (
            Sweep("without", "What is each optimisation worth in the best kernel?", _without(best)),
            Sweep(
                "wg",
                "Which shape of work-group?",
                tuple(best.at("wg", text, group=shape(text)) for text in SHAPES),
                quick=QUICK_SHAPES,
            ),
            Sweep(
                "buffers",
                "What does a buffer argument cost?",
                tuple(_queued("buffer", count) for count in COUNTS),
                quick=QUICK_COUNTS,
            ),
            Sweep(
                "integers",
                "What does an integer argument cost?",
                tuple(_queued("integer", count) for count in COUNTS),
                quick=QUICK_COUNTS,
            ),
        )

    def cases(self, scale: str) -> Sequence[Case]:
        return [
            Case(name, scale, {**asdict(_problem(name)[0]), "check_steps": check}, steps)
            for name, (steps, check) in CASES[scale].items()
        ]

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """`params`, `obstacles` (ny, nx) and a state off equilibrium: f (9, ny, nx), each population 10 % around rest."""
        params, obstacles = _problem(case.name)
        noise = np.random.default_rng(seed).uniform(-0.1, 0.1, (9, params.ny, params.nx)).astype(np.float32)
        return {"params": params, "obstacles": obstacles, "f": initial(params, np.float32) * (1 + noise)}

    def verification_case(self, case: Case, variant: Variant) -> Case:
        steps = int(case.params["check_steps"])
        if variant.role == "probe":  # an even number: the grids have changed places twice, and the first is untouched
            steps -= steps % 2
        return Case(case.name, case.scale, case.params, steps)

    def verified_on(self, variant: Variant) -> str:
        return "thin"

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """The same with cells that are too `thin` to be driven."""
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
        if variant.role == "probe":
            changed = float(np.abs(outputs["f"] - reference["start"]).max())
            return changed, 0.0, "change of a population, where none should change"
        if variant.options.get("bare"):
            f = _open_and_undriven(case, reference["start"])
            said = "largest error of a population without obstacles or drive, over its tolerance"
            return error(outputs["f"], f) / bound(case.units), 1.0, said
        f, right = outputs["f"], reference["f"]
        allowed = reference["allowed"][_stores_half(variant)]
        over, what = worst({
            "largest error of a population": error(f, right) / allowed.largest,
            "root mean square error of the populations": mean_square_over(
                mean_square_error(f, right), allowed.mean_square**2, right.size
            ),
            "largest error of a mean speed": error_av_vels(outputs["av_vels"], reference["av_vels"]) / allowed.speeds,
        })  # fmt: skip
        return over, 1.0, f"{what}, over its tolerance"

    def check_timed(
        self,
        case: Case,
        variant: Variant,
        outputs: Mapping[str, np.ndarray],
        right: Callable[[Case], Mapping[str, Any]],
    ) -> tuple[float, float, str]:
        """Of more steps than a reference takes: the first as it has them, and of the last state its mass and its mean speed."""
        small = self.verification_case(case, variant)
        if case.units <= small.units and variant.role != "probe":
            return self.check(case, variant, outputs, right(case))
        reference = right(small)
        if variant.role == "probe" or "arguments" in outputs:
            return self.check(small, variant, outputs, reference)
        f, half = np.asarray(outputs["f"], np.float64), _stores_half(variant)
        told = {"change of the mass": mass_error(f, reference["start"]) / tolerance_of_mass(case.units)}
        if "av_vels" in outputs:
            obstacles, speeds = _problem(case.name)[1], outputs["av_vels"]
            first = error_av_vels(speeds[: small.units], reference["av_vels"])
            told["error of a mean speed of the first steps"] = first / reference["allowed"][half].speeds
            last = error_of_last(f, obstacles, speeds)
            told["error of the last mean speed"] = last / tolerance_of_last(f, obstacles, float(speeds[-1]), half)
            told["mean speeds that are no positive number"] = 2.0 * (not (np.isfinite(speeds) & (speeds > 0)).all())
        over, what = worst(told)
        return over, 1.0, f"{what}, over its tolerance"

    def work(self, case: Case) -> Work:
        """Per step. Bytes: nine populations read and written and a byte of obstacle map, a cell. FLOPs as in fused.k."""
        cells = case.params["nx"] * case.params["ny"]
        return Work(flops=FLOPS_PER_CELL * cells, bytes=BYTES_PER_CELL * cells, footprint=BYTES_PER_CELL * cells)

    def case_class(self, case: Case) -> str:
        """The small and the large grid are the smallest and the largest of the report, and what is beyond these."""
        cells = case.params["nx"] * case.params["ny"]
        return SMALL if cells <= 128 * 128 else LARGE if cells >= 1024 * 1024 else ""

    def conditions(self, variant: Variant) -> tuple[str, ...]:
        said = {
            "unit_roundoff": "stores populations in fp16",
            "fast_math": "approximates divisions and roots",
            "bare": "leaves out obstacles, drive and mean speeds",
        }
        return tuple(words for option, words in said.items() if variant.options.get(option))

    def traffic(self, case: Case, variant: Variant) -> float:
        """What a step moves between kernels: populations in the format that keeps them, each time a kernel has all of them, and
        the obstacle map each time it is asked. In one launch for all steps only what neighbouring blocks exchange, in one for
        several steps, or a walk of several, a share."""
        nx, ny = case.params["nx"], case.params["ny"]
        knobs = variant.source.settings if variant.source else {}
        if variant.plan is bands.Bands:
            return float(BYTES_PER_CELL * nx * ny / bands.steps_at(variant, nx))
        if variant.plan is team.Team:
            return float(BYTES_PER_CELL * nx * ny / team.steps_of_a_walk(nx, ny))
        if variant.plan is on_chip.Strips:
            return float(BYTES_PER_CELL * nx * ny / on_chip.STEPS_OF_A_PASS)
        if variant.plan in (on_chip.DeepHalo, on_chip.Resident):
            return on_chip.told(variant, nx, ny) or self.work(case).bytes
        if variant.plan is plans.Persistent:
            rows = plans.rows_of_a_block(nx, ny, plans.Persistent.blocks_at_most)
            word = 8 if knobs["EXCHANGE"] == "TAGS" else 4
            return float(2 * CROSSING * word * nx * ny // rows) if rows else self.work(case).bytes
        separate = variant.plan in (
            plans.Sequential,
            plans.SequentialC,
            partly_ported.PartlyPorted,
            plans.SeparateKernels,
        )
        populations, asked = (5, 3) if separate else (2, 1)  # propagate and collision write too, av_velocity only reads
        if variant.plan is partly_ported.PartlyPorted:  # each of its two copies reads them all and writes them
            populations += 4
        value = 2 if knobs.get("GRID") == "SIXTEEN" else 4
        solid = 4 if separate or knobs.get("SOLID") == "int" else 0 if variant.options.get("bare") else 1
        return float(nx * ny * (9 * value * populations + solid * asked))

    def units(self, case: Case, variant: Variant, device: Device) -> int:
        if variant.plan is plans.QueueOnly:
            return LAUNCHES.get(case.scale, 50000)
        if variant.plan is bands.Bands:  # two launches at least
            return max(case.units, 2 * bands.steps_at(variant, case.params["nx"]))
        if variant.plan is team.Team:  # two walks
            return max(case.units, 2 * team.steps_of_a_walk(case.params["nx"], case.params["ny"]))
        if variant.plan is on_chip.Strips:  # two passes
            return max(case.units, 2 * on_chip.STEPS_OF_A_PASS)
        openacc_on_host = variant.plan is openacc.OpenAcc and device.kind == "cpu"
        if variant.name in ONE_CORE or openacc_on_host:  # a second or two a sample is enough
            cells = case.params["nx"] * case.params["ny"]
            return min(case.units, max(4, 30_000_000 // int(cells)))
        if "chunk" in variant.options:
            return case.units + int(variant.options["chunk"])
        return case.units

    def rate(self, case: Case) -> tuple[float, str]:
        return case.params["nx"] * case.params["ny"] / 1e6, "MLUPS"

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        params = case.params
        cells = params["nx"] * params["ny"]
        if variant.options.get("powers_of_two") and any(side & (side - 1) for side in (params["nx"], params["ny"])):
            return "not on this case: a side is not a power of two"
        if variant.plan is plans.Persistent and not plans.rows_of_a_block(params["nx"], params["ny"], 128):
            return "not on this case: the grid does not fit the registers of one block per multiprocessor"
        if variant in on_chip.STEPS and (why := on_chip.refusal(variant, params["nx"], params["ny"])):
            return why
        if variant.options.get("narrowest", 0) > params["nx"]:
            return f"not on this case: narrower than {variant.options['narrowest']} cells"
        if variant.options.get("chunk", 0) > case.units and cells > 1 << 17 and case.scale in ("quick", "test"):
            return "not on this case at this scale: a sample has fewer time steps than a chunk"
        if variant.plan is plans.QueueOnly and case.name != self.cases(case.scale)[0].name:
            return "not on this case: queue time does not depend on the grid"
        return missing(variant)


BYTES_PER_CELL = 9 * 4 * 2 + 1
CROSSING = 6
"""Populations of a column that cross the sides of its block, upwards and downwards."""

CASES: dict[str, dict[str, tuple[int, int]]] = {
    "quick": {"128x128": (50, 21), "1024x1024": (2, 4)},
    "published": {"128x128": (4000, 51), "128x256": (4000, 51), "256x256": (4000, 51), "1024x1024": (1000, 10)},
    "large": {"4096x4096": (50, 2)},
    "test": {"40x24": (8, 5)},
}
"""Scale -> case -> (steps of a timed sample, steps of the check). An in-place variant needs an even number when timed."""


_published = lru_cache(published)


@lru_cache(maxsize=4)
def _problem(name: str) -> tuple[Params, np.ndarray]:
    """The published case of that name, else a closed box."""
    nx, ny = shape(name)
    return _published().get(name) or box(nx, ny)


def _open_and_undriven(case: Case, start: np.ndarray) -> np.ndarray:
    """The reference's f after a case's steps from `start`, were no cell blocked and nothing driven."""
    params = Params(**{**{field.name: case.params[field.name] for field in fields(Params)}, "accel": 0.0})
    return reference(params, np.zeros((params.ny, params.nx), bool), case.units, start)[0]


def simulate(
    device_spec: str,
    variant: str | None,
    params: Params,
    obstacles: np.ndarray,
    tell: Callable[[str], None] = lambda line: None,
) -> tuple[np.ndarray, np.ndarray]:
    """Run a whole case as the course's program does, from fluid at rest. `tell` gets a line: which variant runs, and why.

    Returns f (9, ny, nx) and av_vels (iterations,), float32. Raises UsageError for an unknown device or variant, or one
    that is not for this device or case.
    """
    device = open_device(device_spec, LAB.preferred_backend)
    case = Case(f"{params.nx}x{params.ny}", "course", asdict(params), params.iterations)
    candidates = [_named(variant, device, case)] if variant else _quickest(device, case)
    for choice in candidates:
        try:
            done = _simulated(choice.variant, device, case, params, obstacles)
        except (BuildFailed, DriverFailed, OutOfMemory, Unsupported) as error:
            why = str(error).splitlines()[0]
            if choice is candidates[-1]:
                raise UsageError(f"variant {choice.variant.name!r} cannot run this: {why}") from error
            tell(f"{choice.variant.name} cannot run this: {why}")
        else:
            tell(f"{choice}")
            return done
    raise AssertionError("there is one candidate at least")


def _simulated(
    chosen: Variant, device: Device, case: Case, params: Params, obstacles: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    if chosen.plan in _IN_CHUNKS:
        # A whole run's partial sums may not fit the device: add them up as often as 64 MiB of them fill.
        slots = math.ceil(params.nx * params.ny / 16)
        chosen = replace(chosen, options={"chunk": max(2, (16 << 20) // slots), **chosen.options})
    run = chosen.plan(
        device, chosen, case, {"params": params, "obstacles": obstacles, "f": initial(params, np.float32)}
    )
    assert isinstance(run, plans.Simulation)
    try:
        plans.Simulation.reset(run)  # the state alone: that no partial sum is left unwritten is for `measure` to check
        run.run()
        outputs = run.outputs()
    finally:
        run.close()
    return outputs["f"].astype(np.float32), outputs["av_vels"].astype(np.float32)


_IN_CHUNKS = (plans.KeptPartials, plans.Vectors, plans.InPlace)


def _named(name: str, device: Device, case: Case) -> "Choice":
    """The variant that a user names. UsageError where it cannot run."""
    from ...analysis.quickest import Choice

    chosen = LAB.variant(name)
    why = LAB.skip_reason(chosen, case) or (None if device.backend in chosen.backends else f"not on {device.spec}")
    if why or chosen not in LAB.ladder or chosen.role == "probe":
        raise UsageError(f"variant {name!r} cannot run this: {why or 'it simulates nothing'}")
    return Choice(chosen, "as asked for")


def _quickest(device: Device, case: Case) -> "list[Choice]":
    """The steps for a user who names none, the fastest first, of those that keep the course's single precision."""
    from ...analysis.quickest import choices, here

    def cells(name: str) -> float:
        return math.prod(shape(name))

    def fits(variant: Variant) -> bool:
        """Whether all blocks of a persistent kernel can run at once, and 32 bits number the partial sums that a plan keeps."""
        if variant.plan is plans.Persistent:
            rows = plans.rows_of_a_block(case.params["nx"], case.params["ny"], plans.Persistent.blocks_at_most)
            if case.params["ny"] // rows > device.compute_units:
                return False
        if variant.plan in (on_chip.DeepHalo, on_chip.Resident):
            return on_chip.blocks_at_once(variant, case.params["nx"], case.params["ny"]) <= device.compute_units
        return variant.plan in (*_IN_CHUNKS, bands.Bands, team.Team) or cells(case.name) / 16 * case.units < 2**31

    runnable = [
        variant
        for variant in LAB.ladder
        if variant.role == "step" and device.backend in variant.backends and "unit_roundoff" not in variant.options
        and not LAB.skip_reason(variant, case) and fits(variant)
    ]  # fmt: skip
    return choices(LAB, device, case.name, cells, runnable, here())


LAB = Lattice()
