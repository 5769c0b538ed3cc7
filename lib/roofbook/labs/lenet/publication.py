"""What the lab says of the report that it comes from: evidence for each claim, where its figures belong, and conclusions.

The report: milestone optimisations in CUDA: UIUC ECE408, milestone 3.
"""

from collections.abc import Mapping

from ...analysis import format as show
from ...analysis.evidence import Counted, Even, Evidence, Fact, Pair, Parts, Share
from ...analysis.lab_data import Measured
from ...analysis.publication import Demonstration, Publication
from ...analysis.readings import of_kernel
from ...analysis.sentences import conclusions
from ...devices.contract import Device
from . import LAB, streams

PUBLISHED_CASES = {
    **{f"batch {images}": f"batch-{images}" for images in (100, 1000, 10000)},
    **dict.fromkeys(("batch 10000 layer 1", "batch 10000 layer 2", ""), "batch-10000"),
}
"""Case name in results/published -> ours. Figures of API time name no batch: the report profiles its largest."""
PUBLISHED_TIMES = {
    "op time 1": ("op 1",), "op time 2": ("op 2",), "op time 1+2": ("op 1", "op 2"),
    "layer time 1": ("layer 1",), "layer time 2": ("layer 2",), "layer time sum": ("layer 1", "layer 2"),
    "layer 1 duration": ("op 1",), "layer 2 duration": ("op 2",), "API time: memcpy": ("copy",),
    "API time: malloc": ("allocate",), "API time: free": ("free",),
    "API time: memcpy to symbol": ("copy to constant memory",),
}  # fmt: skip
"""What is published -> the parts of our run whose sum it is. API times are those of both layers together."""
PUBLISHED_FACTS = {
    "accuracy": "accuracy",
    "registers per thread": "registers",
    "shared memory per block": "local_bytes",
    "block limit by registers": "groups_by_registers",
    "block limit by shared memory": "groups_by_local_memory",
}
PUBLISHED_COUNTERS = {"throughput": ("baseline", "tiled"), "memory throughput": ("baseline", "atomic-channels")}
"""What was read from hardware counters, of each layer -> our steps. The baseline's figures are the same in both tables."""

CASE = "batch-10000"
"""The largest published batch: effects are those of its times."""
API = ("copy", "allocate", "free")
CONVOLUTIONS = (1, 2)


def pair(slower: str, faster: str, remark: str = "") -> tuple[Pair]:
    return (Pair(slower, faster, CASE, remark=remark),)


def layer_time(slower: str, faster: str, remark: str = "") -> tuple[Pair]:
    """Both layers with their copies and memory."""
    return (Pair(Parts(slower, ("layer",)), Parts(faster, ("layer",)), CASE, remark=remark),)


def op_times(slower: str, faster: str, remark: str) -> tuple[Pair, ...]:
    """The kernels of each layer."""
    return tuple(
        Pair(Parts(slower, (f"op {number}",)), Parts(faster, (f"op {number}",)), CASE, remark=remark)
        for number in CONVOLUTIONS
    )


OP_TIME = "kernels of both layers; groups of 16 x 16 pixels here, of 1024 outputs in a line in the report"
TILES = "groups of 17 x 17 threads load the input channel by channel here; the report's of 23 x 23 load all channels at once"
CHANNELS = (
    "groups of 16 x 16 pixels and one channel here, which clear their outputs within the op time; the report's have 96 threads"
    " for outputs and channels, and a memset clears before the op time"
)
SEGMENTS = "segments of 100 images here; of 60 in the report, 100 or 125 where a combination needs them"


def even(number: int) -> Even:
    """How evenly the queues share the device's time in a layer."""
    layer = f"layer {number}"
    shares = tuple(f"share of stream {queue + 1}, {layer}" for queue in range(streams.QUEUES))
    return Even("streams", shares, CASE, f"share of {layer}")


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "constant": pair("baseline", "constant", OP_TIME),
    "constant-theory": (Pair("baseline", "constant", CASE, below=2.0, remark=OP_TIME),),
    "api-time": (
        Pair(
            Parts("baseline", API), Parts("constant", (*API, "copy to constant memory")), CASE,
            remark="by the host's clock, without the wait for kernels; the report: a profiler's times of the calls",
        ),
    ),
    "tiled": pair("baseline", "tiled", TILES),
    "tiled-layers": op_times("baseline", "tiled", TILES),
    "tiled-constant": pair("tiled", "tiled-constant", TILES),
    "unroll-matmul": pair("baseline", "unrolled-constant", "with constant memory (#4), as in the report's table"),
    "unroll-share": (
        Share(
            "unrolled-constant", "unroll", ("op",), CASE,
            remark="of the kernels of both layers, with #4; a quantity: it is the same or another",
        ),
    ),
    "fused-unroll": pair("unrolled-constant", "fused-constant"),
    "atomics-layers": op_times("constant", "atomic-channels", CHANNELS),
    "atomics-throughput": (
        Counted("memory", "baseline", "atomic-channels", CASE, kernel="direct", number=2, remark=CHANNELS),
    ),
    "joint": pair("fused-constant", "joint"),
    "joint-resources": (
        Fact("registers", "fused-constant", "joint", CASE, "of layer 2's kernel"),
        Fact("local_bytes", "joint", "fused-constant", CASE, "of layer 2's kernel"),
    ),
    "streams": layer_time("baseline", "streams", f"streams have constant memory (#4) too; {SEGMENTS}"),
    "streams-even": tuple(even(number) for number in CONVOLUTIONS),
    "streams-9": layer_time("tiled-atomic", "streams-tiled", SEGMENTS),
    "streams-12": layer_time("joint", "streams-joint", SEGMENTS),
    "op-time-streams": (
        Pair(
            Parts("streams", ("op",)),
            Parts("streams", tuple(f"op {number} as published" for number in CONVOLUTIONS)),
            CASE,
            remark="from the first kernel to the end of the last, over a wait for what is done already, which is what the"
            " report's op time covered",
        ),
    ),
}  # fmt: skip

PAIRS = (
    ("Weights in constant memory", [("constant", "baseline"), ("tiled-constant", "tiled")]),
    ("Tiled", [("tiled", "baseline"), ("tiled-constant", "constant")]),
    ("Unrolled in memory", [("unrolled-constant", "constant"), ("unrolled-constant", "unrolled")]),
    ("Unrolled while loading", [("fused-constant", "unrolled-constant"), ("fused-constant", "constant")]),
    ("Channels in parallel", [("atomic-channels", "constant"), ("tiled-atomic", "tiled-constant")]),
    ("Sums in registers", [("joint", "fused-constant"), ("joint", "constant")]),
    ("In segments, by op time", [("streams", "constant"), ("pinned", "streams")]),
    ("Blocks of outputs in registers", [("registers", "joint"), ("fused-pool", "registers")]),
    ("In fp16", [("halves", "fused-pool"), ("tensor", "fused-pool")]),
    ("With the dense layers included", [("whole", "fused-pool"), ("whole-tensor", "tensor"), ("graph", "whole-tensor")]),
    ("Compared with PyTorch on the GPU in fp32", [("registers", "torch-fp32"), ("joint", "torch-fp32")]),
    ("Compared with PyTorch in fp16", [("tensor", "torch-fp16"), ("whole-tensor", "torch-whole")]),
    ("Compared with PyTorch on the host's CPU", [("registers", "torch-cpu"), ("joint", "torch-cpu")]),
)  # fmt: skip
"""What changes, and the pairs (step, compared with) that show it."""


class Milestone(Publication):
    """Of the lab's report."""

    evidence = EVIDENCE
    pairs = PAIRS
    cases = PUBLISHED_CASES

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        shares = {f"#0 streams, stream {queue + 1}": "streams" for queue in range(streams.QUEUES)}
        unrolling = {"#2 unroll kernel share of device time": "unrolled-constant"}
        return {**super().mapping(device), **shares, **unrolling}

    def part(self, variant: str, case: str, metric: str) -> str | tuple[str, ...] | None:
        if metric == "API time: total":
            return ("copy", "allocate", "free") + ("copy to constant memory",) * (variant == "#4 constant memory")
        parts = PUBLISHED_TIMES.get(metric)
        if parts and variant.startswith("#0") and metric.startswith("op time"):
            return tuple(f"{op} as published" for op in parts)
        return parts

    def fact(self, variant: str, case: str, metric: str) -> str | None:
        if metric != "share of device time":
            return PUBLISHED_FACTS.get(metric)
        *_, stream = variant.partition(", ")
        return f"share of {stream}, {case.removeprefix('batch 10000 ')}" if stream else "share of unroll"

    def lack(self, variant: str, case: str, metric: str) -> str | None:
        return "needs hardware counters" if metric.endswith("throughput") else None

    def counted(self, measured: Measured) -> Mapping[tuple[str, str, str], str]:
        """Memory Throughput of each layer's main kernel, as ncu reports it."""
        theirs, found = "batch 10000", {}
        for metric, names in PUBLISHED_COUNTERS.items():
            for variant in map(LAB.variant, names):
                told = measured.counted(variant.name, PUBLISHED_CASES[theirs])
                if told is None or variant.source is None:
                    continue
                for number in (1, 2):
                    share = of_kernel(told, variant.source.path.stem, number, "memory")
                    if share is not None:
                        found[str(variant.published), theirs, f"layer {number} {metric}"] = show.percent(share)
        return found

    def summary(self, measured: Measured) -> str:
        """One paragraph on the images and one a case. What was not measured is left out."""
        said: list[str] = []
        (base,) = LAB.bases
        for case in [each.name for each in measured.cases]:
            source, images, accuracy = (measured.fact(base, case, name) for name in ("source", "images", "accuracy"))
            if source:
                said += [f"**Images.** {source[:1].upper()}{source[1:]}."] * (not said)
                said.append(
                    f"On {case}, with {images} different images, `{base}` classifies {show.percent(accuracy)} correctly."
                )
        return "\n\n".join(filter(None, [" ".join(said), conclusions(LAB, measured)]))

    def demonstration(self, device: Device) -> Demonstration:
        from .demonstration import demonstration

        return demonstration(device)


PUBLICATION = Milestone(LAB)
