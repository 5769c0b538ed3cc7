"""The ladder of this lab and its peers: each step with its change, its expected effect, and its knobs."""

from pathlib import Path
from typing import Any

from ...peers import one_thread
from ...peers.python_kernel import python_kernel
from ...spec.plan import ONE_WORK_ITEM, Variant
from ...spec.prediction import FASTER, NO_GAIN, SAME, SEVERAL, SLOWER, up_to
from ...spec.source import Source
from . import languages, peers, plans, streams
from .problem import PUBLISHED_PASSES

HERE = Path(__file__).parent

CHECKED = Source.of(HERE / "passes.k")
"""The straight port: one work-item an element, each with a bounds check."""
NO_IFS = CHECKED.with_knobs(BOUNDS="NONE")
COMPILED = NO_IFS.with_knobs(SIZES="COMPILED", HEIGHT=8192, WIDTH=8192)
"""The kernel at the published size; the plan sets the sizes of the case."""
ACCURATE = COMPILED.with_knobs(ROOT="ACCURATE")
NATIVE = ACCURATE.with_knobs(ROOT="NATIVE")
FLAT = Source.of(HERE / "flat.k", WIDTH=8192, COUNT=8190 * 8192)


def wide(lanes: int, source: Source = FLAT) -> Source:
    """Return the flat range with `lanes` elements a work-item."""
    return source.with_knobs(VECTOR=f"float{lanes}" if lanes > 1 else "float", LANES=lanes)


FUSED = FLAT.with_knobs(PASSES=PUBLISHED_PASSES)

SEQUENTIAL = Source.of(HERE / "sequential.k")

ONE_WORK_ITEM_STEP = Variant(
    "sequential", None, SEQUENTIAL, plans.Sequential,
    "One work-item walks all passes, rows and columns.",
    "The baseline: one core, one element at a time.",
    frozenset({"cpu"}), options={"device": "host"}, description=ONE_WORK_ITEM,
)  # fmt: skip

LADDER = (
    ONE_WORK_ITEM_STEP,
    one_thread.as_c(
        ONE_WORK_ITEM_STEP, plans.SequentialC,
        "Roots and divisions take most of the time, and vectors do many at once: several times faster.",
        SEVERAL,
    ),
    Variant(
        "checked", "sequential", CHECKED, plans.Passes,
        "One work-item per element. Each checks whether its element is inside the grid.",
        "All cores work. A pass reads three floats and writes one: memory bounds it, not the roots.",
        differs=("source", "plan", "options"), predicts=FASTER,
    ),
    Variant(
        "no-ifs", "checked", NO_IFS, plans.Passes,
        "No bounds check: the range covers the inner rows, and the width is a multiple of the work-group's.",
        "One of the most effective steps in the report. On a GPU, two comparisons should add little to three loads.",
        predicts={"gpu": SAME},
    ),
    Variant(
        "compiled-sizes", "no-ifs", COMPILED, plans.Passes,
        "Height and width are constants of the kernel, not arguments.",
        "Saves one or two integer multiplications: no effect if memory is the bound.", predicts={"gpu": SAME},
    ),
    Variant(
        "rsqrt", "compiled-sizes", ACCURATE, plans.Passes,
        "rsqrt(x) instead of 1/sqrt(x).",
        "One special-function instruction instead of a root and a division: faster only if memory is not the bound.",
        shows={"one_pass": r"\A(?![\s\S]*(sqrt\.rn|div\.rn))[\s\S]*rsqrt\.approx"},
        same_code={"PoCL": "its rsqrt is a root and a division, as is 1/sqrt"}, predicts={"gpu": SAME},
    ),
    Variant(
        "native-rsqrt", "rsqrt", NATIVE, plans.Passes,
        "native_rsqrt(x): its accuracy is up to the device.",
        "On NVIDIA both are the same instruction, so the time is the same. The table of errors shows the loss of accuracy.",
        shows={"one_pass": r"rsqrt\.approx\.ftz\.f32"},
        same_code={"PoCL": "its native_rsqrt is its rsqrt"}, predicts={"cuda": SAME},
    ),
    Variant(
        "local-memory", "native-rsqrt", NATIVE.with_knobs(STAGING="LOCAL_COPY", GROUP_SIZE=128), plans.Passes,
        "r, g and b go through local memory.",
        "No element is read twice, so there is nothing to share. A barrier and two more copies make it slower.",
        shows={"one_pass": r"bar\.sync|barrier\.sync"}, published="work-group 128x1, 1 task per work-item", predicts=SLOWER,
    ),
    Variant(
        "local-memory-tasks-2", "local-memory", NATIVE.with_knobs(STAGING="LOCAL_COPY", TASKS=2, GROUP_SIZE=128), plans.Passes,
        "Two elements per work-item, both through local memory: the kernel that the report times.",
        "A barrier now waits for twice as many loads, so more of them are in flight. The report found both equally fast.",
        published="work-group 128x1, 2 tasks per work-item", predicts={"gpu": FASTER},
    ),
    Variant(
        "tasks-2", "native-rsqrt", NATIVE.with_knobs(TASKS=2), plans.Passes,
        "Two elements per work-item: column j and column j + width/2.",
        "Half the work-items, each with twice the loads in flight. The report found it equally fast.", predicts=SAME,
    ),
    Variant(
        "tasks-4", "tasks-2", NATIVE.with_knobs(TASKS=4), plans.Passes,
        "Four elements per work-item.", "The same time: enough loads are in flight already.", predicts=SAME,
    ),
    Variant(
        "tasks-8", "tasks-4", NATIVE.with_knobs(TASKS=8), plans.Passes,
        "Eight elements per work-item.", "No gain, and fewer work-items to hide latency with.", predicts=NO_GAIN,
    ),
    Variant(
        "tasks-16", "tasks-8", NATIVE.with_knobs(TASKS=16), plans.Passes,
        "Sixteen elements per work-item.", "No gain: the loads of eight elements already fill the memory's queue.",
        predicts=NO_GAIN,
    ),
    Variant(
        "flat", "native-rsqrt", FLAT, plans.Flat,
        "The inner rows are one range: one index, one comparison, any width.",
        "Nothing to gain on a GPU, but any width works.",
        differs=("source", "plan"), predicts={"gpu": NO_GAIN},
    ),
    Variant(
        "float2", "flat", wide(2), plans.Flat,
        "Two neighbouring elements per work-item, as one float2.", "Half the load instructions.",
        shows={"flat": r"ld\.global\.(nc\.)?v2\.(f32|b32|u32)"}, predicts=FASTER,
    ),
    Variant(
        "float4", "float2", wide(4), plans.Flat,
        "float4: 16 bytes per load.", "The widest load of a GPU thread: the fewest instructions for the same bytes.",
        shows={"flat": r"ld\.global\.(nc\.)?v4\.(f32|b32|u32)"}, predicts={"gpu": FASTER},
    ),
    Variant(
        "float8", "float4", wide(8), plans.Flat,
        "float8: two 16-byte loads in a row.",
        "On a GPU, each load of a warp now skips every other 16 bytes; the cache must make up for it.",
        predicts={"gpu": NO_GAIN},
    ),
    Variant(
        "float16", "float8", wide(16), plans.Flat,
        "float16: a whole vector register of a CPU, a whole cache line.",
        "For a CPU whose compiler does not vectorise by itself, this step counts most.",
    ),
    Variant(
        "fused", "float4", wide(4, FUSED), plans.Flat,
        "All passes in one kernel: r and b do not change, so the root is computed once and added 23 times in order.",
        "One pass over memory instead of 23, and no bit of the result differs.", predicts={"gpu": up_to(23), "cpu": FASTER},
    ),
    Variant(
        "fused-float16", "fused", wide(16, FUSED), plans.Flat,
        "All passes in one kernel, on float16.", "Combines the two best steps for a CPU.", predicts={"cpu": FASTER},
    ),
    *streams.STEPS,
)  # fmt: skip


def torch_peer(
    name: str, change: str, needs: str, plan: type[peers.TorchStencil] = peers.TorchStencil, **options: Any
) -> Variant:
    """Return a peer in PyTorch on the host's CPU, or on the GPU of a backend that PyTorch supports."""
    return Variant(
        name, None, None, plan, change, "The code that a user of PyTorch would write.",
        needs=frozenset({needs}), role="peer", options=options,
    )  # fmt: skip


PEERS = (
    torch_peer("torch-cpu", "PyTorch on the CPU, eager.", "host", compile=False),
    torch_peer("torch-cpu-compiled", "PyTorch on the CPU, torch.compile of one pass.", "host", compile=True),
    torch_peer("torch-cpu-fused", "PyTorch on the CPU, torch.compile of all passes.", "host", peers.Fused, compile=True),
    Variant(
        "openmp", None, None, peers.OpenMP, "A page of C + OpenMP: all passes while an element is in a register, all cores.",
        "Shows how fast a CPU can be without OpenCL.", needs=frozenset({"host"}), role="peer",
    ),
    torch_peer("torch", "PyTorch, eager.", "pytorch", compile=False),
    torch_peer("torch-compiled", "PyTorch, torch.compile of one pass.", "pytorch", compile=True),
    torch_peer("torch-fused", "PyTorch, torch.compile of all passes.", "pytorch", peers.Fused, compile=True),
    python_kernel(
        "triton-fused", "fused", languages.TritonFused, "Triton: all passes on a block of elements.",
        "Memory bounds one pass over three grids: as fast as `fused`.", block=1024, warps=8,
    ),
    python_kernel(
        "numba-fused", "fused", languages.NumbaFused, "Numba: all passes on one element, in two dimensions.",
        "As many bytes, but one element a thread, and 64-bit indices: a little slower than `fused`.",
    ),
)  # fmt: skip
