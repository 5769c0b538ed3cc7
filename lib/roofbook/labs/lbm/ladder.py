"""The ladder of this lab and its peers: each step with its change, its expected effect, and its knobs.

The modules of special plans declare their own steps.
"""

from pathlib import Path

from ...peers import one_thread
from ...peers.python_kernel import python_kernel
from ...spec.plan import ONE_WORK_ITEM, Variant
from ...spec.prediction import FASTER, FEW_PERCENT, NO_GAIN, SAME, SEVERAL, SLOWER, about, up_to
from ...spec.source import Source
from . import (
    bands,
    deep_halo_ptx,
    fours,
    haskell,
    languages,
    on_chip,
    openacc,
    partly_ported,
    peers,
    persistent,
    plans,
    sharded,
    slabs,
    team,
    walk_down,
    walk_warps,
)

HERE = Path(__file__).parent

SEPARATE = Source.of(HERE / "separate.k")
"""Five kernels over an array of structures, like the course's program."""

FUSED = Source.of(HERE / "fused.k")
"""The arithmetic of the five kernels in one, with the course's choice for every knob."""

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
SUMMED_BY_WARPS = FLAT.with_knobs(PARTIALS="GRAPH", REDUCE="WARPS")
COMPARED = SUMMED_BY_WARPS.with_knobs(NEIGHBOUR="COMPARE")
IN_PLACE = Source.of(
    HERE / "in_place.k", LAYOUT="SOA", REDUCE="TREE", COUNT_CELLS=0, PARTIALS="KEPT", CONSTANTS="HOISTED", SOLID="char",
)  # fmt: skip
"""One grid, with the best values of the knobs that it still has."""
VECTORS = Source.of(HERE / "vectors.k", LAYOUT="SOA", PARTIALS="KEPT", CONSTANTS="HOISTED", SOLID="char")
"""A step on explicit vectors."""

WITHOUT = r"\A(?![\s\S]*{})"
"""Regular expression for code that does not match a pattern."""
HALVES = r"ld\.global\.[bu]16[\s\S]*cvt\.f32\.f16[\s\S]*cvt\.rn\.f16\.f32[\s\S]*st\.global\.[bu]16"
PERSISTENT = Source.of(
    HERE / "persistent.cu", NX=128, ROWS=1, CONSTANTS="HOISTED", LAYOUT="SOA", GRID="ONE", SOLID="char", EXCHANGE="FLAGS"
)  # fmt: skip
"""The whole loop over steps in one launch."""


SEQUENTIAL = Source.of(HERE / "sequential.k")

ONE_WORK_ITEM_STEP = Variant(
    "sequential", None, SEQUENTIAL, plans.Sequential,
    "One work-item walks the grid five times per time step.",
    "The baseline: one core, no vector units, and every population read and written three times per time step.",
    frozenset({"cpu"}), options={"group": (1, 1), "device": "host"}, description=ONE_WORK_ITEM,
)  # fmt: skip

LADDER = (
    ONE_WORK_ITEM_STEP,
    one_thread.as_c(
        ONE_WORK_ITEM_STEP, plans.SequentialC,
        "Cells with nine populations each fill no vector in one piece: hardly faster.",
        NO_GAIN,
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
        "Reads and writes each population once per time step, not three times: up to 3x if memory is the bound.",
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
        "The kernel returns at once. Only launches, empty groups, and copying and adding up their sums are left.",
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
        "6 levels instead of 64 additions in a row: a small gain, if the reduction takes any time.",
        published="binary-tree reduction, without tot_cells",
    ),
    Variant(
        "kept-partials", "tree", KEPT, plans.KeptPartials,
        "Partial sums stay on the device and are reduced there at the end.",
        "No read per time step, so the host never waits: about twice as fast if the host was the bottleneck.",
        differs=("source", "plan"), published="partial sums kept on the device until the end", predicts={"small": about(2)},
    ),
    Variant(
        "chunks-1792", "kept-partials", KEPT, plans.KeptPartials,
        "Partial sums are reduced every 1792 time steps.",
        "Less memory, no extra time: the buffer of partial sums is reused.",
        options={"chunk": 1792}, differs=("options",), predicts=SAME,
    ),
    Variant(
        "chunks-3584", "kept-partials", KEPT, plans.KeptPartials,
        "Partial sums are reduced every 3584 time steps.",
        "The same as with 1792.",
        options={"chunk": 3584}, differs=("options",), predicts=SAME,
    ),
    Variant(
        "cell-speeds-1792", "kept-partials", KEPT.with_knobs(REDUCE="CELLS"), plans.CellSpeeds,
        "The report's chunks: each cell stores its speed, and after 1792 time steps one work-item adds up those of a step.",
        "No reduction in the kernel, but 64 times as much to store, and a million additions one after the other at the end: "
        "slower on the large grid.",
        options={"chunk": 1792}, differs=("source", "plan", "options"), published="reduction in chunks of 1792 iterations",
        predicts={"large": SLOWER},
    ),
    Variant(
        "cell-speeds-3584", "cell-speeds-1792", KEPT.with_knobs(REDUCE="CELLS"), plans.CellSpeeds,
        "The same, after 3584 time steps: a work-item for each core of the report's GPU.",
        "Twice as many work-items add up at once, half as often: no gain on a small grid, where this takes no time.",
        options={"chunk": 3584}, differs=("options",), published="reduction in chunks of 3584 iterations",
        predicts={"small": NO_GAIN},
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
        "One launch per time step instead of two: about twice as fast if launches are the bound.",
        published="accelerate_flow fused by masking", predicts={"small": about(2)},
    ),
    Variant(
        "bit-neighbours", "accelerate-fused", ACCELERATED.with_knobs(NEIGHBOUR="BITS"), plans.KeptPartials,
        "Neighbours by bit masks: sides are powers of two.",
        "Saves one integer remainder per cell, which is hidden behind memory: no effect.",
        options={"powers_of_two": True}, differs=("source", "options"),
        published="power-of-two neighbours by bit operations", shows={"fused": WITHOUT.format(r"rem\.")}, predicts=SAME,
    ),
    Variant(
        "hoisted", "accelerate-fused", HOISTED, plans.KeptPartials,
        "The equilibrium multiplies by precomputed constants instead of dividing.",
        "Saves more than a dozen divisions per cell: no effect if memory is the bound, a large one if it is not.",
        published="constants hoisted out of the kernel", predicts={"large": SAME},
    ),
    Variant(
        "byte-obstacles", "hoisted", BYTES, plans.KeptPartials,
        "The obstacle map holds bytes, not words.",
        "Saves three of seventy-six bytes per cell: a few per cent if memory is the bound.",
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
    *fours.STEPS,
    *bands.STEPS,
    *team.STEPS,
    Variant(
        "c-host", "flat-grid", FLAT, plans.CHost,
        "The same launches from a loop in C; on OpenCL it sets only the argument that changes.",
        "Shows the cost of Python per launch: all of the time on the small grid, none on the large.",
        needs=frozenset({"driver-api"}),
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
        "The host leaves the loop: about a microsecond per launch remains.",
        needs=frozenset({"graphs"}), differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "warp-sums", "graph", SUMMED_BY_WARPS, plans.WarpSums,
        "Each warp adds up its speeds by shuffles and stores the sum.",
        "Five shuffles take the place of local memory and seven barriers. On 128x128 a multiprocessor has one or two groups, "
        "so nothing fills these waits.",
        needs=frozenset({"graphs"}), differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "compared-neighbours", "warp-sums", COMPARED, plans.WarpSums,
        "Neighbours by comparisons, not by remainders.",
        "A remainder takes a reciprocal and some 20 instructions. The addresses of five populations wait for one. On a small "
        "grid that is a few per cent of a step.",
        needs=frozenset({"graphs"}), predicts={"small": FEW_PERCENT},
    ),
    Variant(
        "warps-momentum", "compared-neighbours", COMPARED.with_knobs(OBSTACLE="MOMENTUM"), plans.WarpSums,
        "The equilibrium as a function of momentum: one reciprocal of the hardware, not two exact divisions.",
        "Each exact division has a branch for tiny and huge numbers. Two of them and a root stand one after the other.",
        needs=frozenset({"graphs"}), predicts={"small": FASTER},
    ),
    Variant(
        "loads-at-once", "warps-momentum", COMPARED.with_knobs(OBSTACLE="MOMENTUM", BOUNDED=1), plans.WarpSums,
        "The compiler knows the size of a group. So it may spend more registers, and loads the obstacle with the populations.",
        "To save registers, the compiler loaded the obstacle of `warps-momentum` after the sums of populations. So a step "
        "waited for the L2 twice. A wait is about a tenth of a microsecond.",
        needs=frozenset({"graphs"}), predicts={"small": FASTER},
    ),
    Variant(
        "early-launch", "loads-at-once", COMPARED.with_knobs(OBSTACLE="MOMENTUM", BOUNDED=1, EARLY=1), plans.EarlySteps,
        "A step's kernel is launched before the last one has ended, and waits for that end before it loads populations "
        "(programmatic dependent launch).",
        "Between two kernels of a graph a GPU computes nothing for some half a microsecond, a third of a step of 128x128. Now "
        "the next kernel's groups are on the chip by then, and have read the number of steps.",
        needs=frozenset({"graphs", "ptx"}), architectures=range(90, 1000), differs=("source", "plan"),
        shows={"fused": r"griddepcontrol\.wait[\s\S]*griddepcontrol\.launch_dependents"},
        predicts={"small": about(1.45), "large": FEW_PERCENT},
    ),
    *fours.GRAPHS,
    Variant(
        "in-place", "flat-grid", IN_PLACE, plans.InPlace,
        "One grid instead of two: each population is written where one was read (AA pattern).",
        "Half the memory. Writes hit lines that were just read, so no line is loaded only to be overwritten.",
        differs=("source", "plan"), predicts={"large": FASTER},
    ),
    Variant(
        "subgroup-sums", "in-place", IN_PLACE.with_knobs(REDUCE="SUBGROUP"), plans.InPlace,
        "The speeds of a group are added up by sums over subgroups, in CUDA over warps: one barrier, not seven.",
        "A group of 64 has two subgroups or so. If memory is the bound nothing changes; a small grid waits less at barriers.",
        needs=frozenset({"subgroups"}), predicts={"large": SAME, "small": FEW_PERCENT},
    ),
    Variant(
        "half-storage", "in-place", IN_PLACE.with_knobs(GRID="SIXTEEN", REST="0.1f"), plans.InPlace,
        "Populations are stored in fp16, as differences from rest; arithmetic stays in fp32.",
        "37 bytes per cell instead of 73: twice as fast if memory is the bound, with a larger error.",
        options={"unit_roundoff": 2.0**-14}, shows=dict.fromkeys(("from_neighbours", "in_the_cell"), HALVES),
        differs=("source", "options"), predicts={"large": about(2)},
    ),
    Variant(
        "half-storage-graph", "half-storage", IN_PLACE.with_knobs(GRID="SIXTEEN", PARTIALS="GRAPH", REST="0.1f"),
        plans.InPlaceGraph,
        "The time steps on fp16 storage as a CUDA graph.",
        "Shows the kernel without the host: half the bytes, half the time if memory is the bound.",
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
        "persistent", "in-place-graph", PERSISTENT, persistent.Persistent,
        "One launch: each block keeps its rows in registers; neighbours exchange rows and flags through the L2.",
        "Saves the launch of each time step, and reading and writing a small grid in each of them.",
        needs=frozenset({"cooperative"}), differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "tagged-halo", "persistent", PERSISTENT.with_knobs(EXCHANGE="TAGS"), persistent.Persistent,
        "Each exchanged value has the number of its time step in the same 8 bytes: no flag, no fence.",
        "A flag costs a round trip to the L2 before the row can be read. Here the reader waits for the value itself.",
        needs=frozenset({"cooperative"}), predicts=FASTER,
    ),
    *on_chip.STEPS,
    *walk_down.STEPS,
    *deep_halo_ptx.STEPS,
    *walk_warps.STEPS,
    *slabs.STEPS,
)  # fmt: skip

PEERS = (
    Variant(
        "openmp", None, None, plans.Native,
        "C + OpenMP, fused and vectorised, all cores.", "Shows how fast a CPU can be without OpenCL.",
        needs=frozenset({"host"}), role="peer", options={"program": "OpenMP"}, published="OpenMP on CPU",
    ),
    Variant(
        "given-c", None, None, plans.Native, "The course's own program in C, one thread.",
        "The course starts here. The report began a step further.",
        needs=frozenset({"host"}), role="peer", options={"program": "Given"},
    ),
    Variant(
        "openacc", None, None, openacc.OpenAcc,
        "C with OpenACC, by GCC: on the GPU if the device is one, on one core if it is a CPU.",
        "Shows the gain of directives on plain loops, without a kernel.",
        role="peer", published="OpenACC",
    ),
    Variant(
        "lbmpy-cpu", None, None, peers.OnCpu, "lbmpy on the CPU: two grids, explicit vectors, all cores.",
        "The same time step from a generator of lattice Boltzmann kernels.",
        needs=frozenset({"host"}), role="peer",
    ),
    Variant(
        "lbmpy", None, None, peers.OnGpu, "lbmpy: one grid (esoteric push), all time steps as one CUDA graph.",
        "The same time step from a generator of lattice Boltzmann kernels.",
        needs=frozenset({"cupy"}), role="peer", options={"pattern": "esopush", "block": (64, 4)},
    ),
    Variant(
        "lbmpy-bare", None, None, peers.OnGpu,
        "lbmpy, one grid (AA pattern), a CUDA graph: stream and collide only, no obstacles, no drive, no mean speeds.",
        "Less than the problem, but such libraries are usually timed like this.",
        needs=frozenset({"cupy"}), role="peer", options={"pattern": "aa", "block": (512, 1), "bare": True},
    ),
    Variant(
        "jax-cpu", None, None, sharded.Jax, "JAX on the CPU: array operations, compiled by XLA as one program.",
        "The same time step as a physicist would write it.",
        needs=frozenset({"host"}), role="peer",
    ),
    Variant(
        "jax", None, None, sharded.Jax, "JAX: array operations, all time steps as one program, compiled by XLA.",
        "The same time step as a physicist would write it.",
        needs=frozenset({"cupy"}), role="peer", options={"devices": 1},
    ),
    Variant(
        "jax-sharded", None, None, sharded.Jax,
        "JAX on two devices, half of the rows each: XLA exchanges their outermost rows in each step.",
        "Shows how a library for several devices solves it.",
        needs=frozenset({"cupy", "several"}), role="peer", options={"devices": 2},
    ),
    python_kernel(
        "triton-steps", "graph", languages.TritonSteps, "Triton: a kernel of one step, the launches as one CUDA graph.",
        "The same bytes as `graph`: as fast where memory is the bound.", "graphs", cells=512, warps=4,
    ),
    python_kernel(
        "numba-steps", "graph", languages.NumbaSteps, "Numba: a kernel of one step, the launches as one CUDA graph.",
        "The same bytes as `graph`, and divisions of full accuracy: a little slower.", "graphs",
    ),
)  # fmt: skip
