"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: milestone optimisations in CUDA: UIUC ECE408, milestone 3.
"""

import math
from collections.abc import Mapping
from functools import partial

from ...analysis import format as show
from ...analysis.conclusions import conclusions
from ...analysis.evidence import CounterRatio, Evidence, Fact, FactSpread, Pair, Share, SumOfParts, pair_on
from ...analysis.lab_data import Measured
from ...analysis.publication import Publication
from ...analysis.readings import of_kernel
from ...analysis.sentences import joined
from ...devices.contract import Device
from . import LAB, streams
from .whys import WHYS

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
"""Published quantity -> the parts of our run whose sum it is. API times are those of both layers together."""
PUBLISHED_FACTS = {
    "accuracy": "accuracy",
    "registers per thread": "registers",
    "shared memory per block": "local_bytes",
    "block limit by registers": "groups_by_registers",
    "block limit by shared memory": "groups_by_local_memory",
}
PUBLISHED_COUNTERS = {"throughput": ("linear", "tiled-halo"), "memory throughput": ("linear", "linear-atomic")}
"""Quantity read from hardware counters, of each layer -> our steps. The report's tables repeat the baseline's figures."""

CASE = "batch-10000"
"""The largest published batch, whose times show the effects."""
API = ("copy", "allocate", "free")
CONVOLUTIONS = (1, 2)
FEW = 4
"""Number of variants that a sentence names; it counts more of them."""


pair = partial(pair_on, CASE)
"""Return the evidence of a claim that rests on one pair of variants, on `CASE`."""


def layer_time(slower: str, faster: str, remark: str = "") -> tuple[Pair]:
    """Return the pair of both layers' times, with their copies and memory."""
    return (Pair(SumOfParts(slower, ("layer",)), SumOfParts(faster, ("layer",)), CASE, remark=remark),)


def op_times(slower: str, faster: str) -> tuple[Pair, ...]:
    """Return the pairs of each layer's kernel times."""
    return tuple(
        Pair(SumOfParts(slower, (f"op {number}",)), SumOfParts(faster, (f"op {number}",)), CASE)
        for number in CONVOLUTIONS
    )


UNROLLING = (
    "with #4, as in the report's table; the unrolling has groups of 256 here, and of 96 in the report, which also waits for the"
    " device after each kernel"
)
CHANNELS = (
    "layer 2 has one channel a group here: the report's blocks of 23 x 23 x 4 are more threads than a CUDA device takes"
)
CALLS = "the calls are the same whichever direct kernel runs: these are of the book's own"


def share_spread(number: int) -> FactSpread:
    """Return the evidence of how evenly the queues share the device's time in a layer."""
    layer = f"layer {number}"
    shares = tuple(f"share of stream {queue + 1}, {layer}" for queue in range(streams.QUEUES))
    return FactSpread("rotating-linear", shares, CASE, f"share of {layer}")


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "constant": pair("linear", "linear-constant"),
    "constant-theory": (Pair("linear", "linear-constant", CASE, below=2.0),),
    "api-time": (
        Pair(
            SumOfParts("baseline", API), SumOfParts("constant", (*API, "copy to constant memory")), CASE,
            remark=f"by the host's clock, without the wait for kernels; the report: a profiler's times of the calls; {CALLS}",
        ),
    ),
    "tiled": (Pair("linear", "tiled-halo", CASE, below=1.01),),
    "tiled-layers": op_times("linear", "tiled-halo"),
    "tiled-constant": pair("tiled-halo", "tiled-halo-constant"),
    "unroll-matmul": pair("linear", "unrolled-constant", UNROLLING),
    "unroll-share": (
        Share(
            "unrolled-constant", "unroll", ("op",), CASE,
            remark=f"of the kernels of both layers; a quantity: it is the same or another; {UNROLLING}",
        ),
    ),
    "fused-unroll": pair("unrolled-constant", "fused-constant"),
    "atomics-layers": op_times("linear-constant", "linear-atomic"),
    "atomics-throughput": (CounterRatio("memory", "linear", "linear-atomic", CASE, kernel="linear", number=2),),
    "joint": pair("fused-constant", "joint"),
    "joint-resources": (
        Fact("registers", "fused-constant", "joint", CASE, "of layer 2's kernel"),
        Fact("local_bytes", "joint", "fused-constant", CASE, "of layer 2's kernel"),
    ),
    "streams": layer_time("linear", "rotating-linear", "streams have constant memory (#4) too"),
    "streams-even": tuple(share_spread(number) for number in CONVOLUTIONS),
    "streams-9": layer_time("tiled-halo-atomic", "rotating-halo", CHANNELS),
    "streams-12": layer_time("joint", "rotating-joint"),
    "op-time-streams": (
        Pair(
            SumOfParts("streams", ("op",)),
            SumOfParts("streams", tuple(f"op {number} as published" for number in CONVOLUTIONS)),
            CASE,
            remark="from the first kernel to the end of the last, over a wait for what is done already, which is what the"
            " report's op time covered; of the book's own segments, since that wait is the same for any",
        ),
    ),
}  # fmt: skip
"""Evidence by claim. A claim about a direct kernel is judged by the kernel as the report launched it, since launches decide its
time. Calls and waits, which are the same for every kernel, are judged by the book's own."""

PAIRS = (
    ("Weights in constant memory", [("linear-constant", "linear"), ("tiled-halo-constant", "tiled-halo")]),
    ("Tiled", [("tiled-halo", "linear"), ("tiled-halo-constant", "linear-constant")]),
    ("Unrolled in memory", [("unrolled-constant", "linear-constant"), ("unrolled-constant", "unrolled")]),
    ("Unrolled while loading", [("fused-constant", "unrolled-constant"), ("fused-constant", "linear-constant")]),
    ("Channels in parallel", [("linear-atomic", "linear-constant"), ("tiled-halo-atomic", "tiled-halo-constant")]),
    ("Sums in registers", [("joint", "fused-constant"), ("joint", "linear-constant")]),
    ("In segments, by op time",
     [("rotating-linear", "linear-constant"), ("rotating-halo", "tiled-halo-atomic"), ("rotating-joint", "joint")]),
    ("Squares of pixels in place of lines", [("baseline", "linear"), ("constant", "linear-constant")]),
    ("The same, in constant memory and tiled", [("constant", "baseline"), ("tiled", "baseline"), ("tiled-constant", "tiled")]),
    ("Products compared with squares", [(name, "constant") for name in ("unrolled-constant", "fused-constant", "joint")]),
    ("Tiles without work-items for the halo", [("tiled", "tiled-halo"), ("tiled-constant", "tiled-halo-constant")]),
    ("The same, with channels in parallel", [("atomic-channels", "constant"), ("tiled-atomic", "tiled-constant")]),
    ("The same, in segments, by op time", [("streams", "constant"), ("pinned", "streams")]),
    ("Blocks of outputs in registers", [("registers", "joint"), ("fused-pool", "registers")]),
    ("With fewer products, and larger errors", [("winograd", "fused-pool"), ("winograd-vectors", "pooled-vectors")]),
    ("On explicit vectors",
     [("vectors", "registers"), ("filter-lanes", "vectors"), ("pooled-vectors", "filter-lanes")]),
    ("In fp16", [("halves", "fused-pool"), ("tensor", "fused-pool"), ("warpgroup", "tensor")]),
    ("On tensor cores by PTX, in both languages", [("warps", "fused-pool"), ("warps-ahead", "warps"), ("warps", "tensor")]),
    ("In two fp16 parts, as exact as fp32", [("split", "registers"), ("split-pool", "fused-pool")]),
    ("Warpgroups with roles in layer 1",
     [("split-producer", "split"), ("split-boxes", "split-producer"), ("split-boxes", "split")]),
    ("With the dense layers included",
     [("whole", "fused-pool"), ("whole-tensor", "tensor"), ("graph", "whole-tensor"), ("whole-fused", "whole-tensor"),
      ("whole-roles", "whole-fused"), ("whole-split", "whole")]),
    ("Compared with PyTorch on the GPU in fp32",
     [("split-pool", "torch-folded-fp32"), ("winograd", "torch-folded-fp32"), ("split-boxes", "torch-fp32"),
      ("split", "torch-fp32"), ("registers", "torch-fp32"), ("joint", "torch-fp32")]),
    ("Compared with PyTorch in fp16",
     [("warpgroup", "torch-fp16"), ("tensor", "torch-fp16"), ("whole-roles", "torch-whole"), ("whole-fused", "torch-whole"),
      ("whole-tensor", "torch-whole")]),
    ("Compared with PyTorch on the host's CPU",
     [("registers", "torch-cpu"), ("joint", "torch-cpu"), ("filter-lanes", "torch-cpu")]),
    ("Compared with a page of C", [("filter-lanes", "openmp"), ("vectors", "openmp")]),
)  # fmt: skip
"""Conclusions: (the change, the pairs (step, compared with) that show its effect)."""


BASELINE = "baseline"
"""Step with which the lab's own ladder begins."""
NOTICED = 1 / 0.9
"""Least factor of a caller's time that counts as noticed."""


class Milestone(Publication):
    """The lab's report."""

    evidence = EVIDENCE
    whys = WHYS
    pairs = PAIRS
    cases = PUBLISHED_CASES

    def finding(self, measured: Measured) -> str:
        """Return by how much the kernels' time and a caller's time fell, and the steps that a caller notices."""
        case = measured.main_case
        waits = {
            variant.name: part
            for variant in LAB.ladder
            if (part := next((part for part in ("layer", "pass") if measured.part(variant.name, case, part)), None))
        }
        caller = {name: measured.part(name, case, part) or math.inf for name, part in waits.items()}
        if BASELINE not in caller or not (fastest := measured.fastest(case)) or len(caller) < FEW:
            return ""
        best = min(caller, key=lambda name: caller[name])
        words = f"On {case} `{fastest}` is {measured.ratio_text(fastest, BASELINE, case)} `{BASELINE}` by op time. "
        words += (
            f"A caller waits for copies and memory as well: {show.duration(caller[BASELINE])} with `{BASELINE}`, "
            f"and {show.duration(caller[best])} with `{best}`, the shortest wait"
        )
        words += f", which is {show.factor(caller[BASELINE] / caller[best])} times as fast. "
        noticed = []
        for name, part in waits.items():
            parent = LAB.variant(name).parent
            ratio = measured.ratio_of_parts((name, part), (parent, waits[parent]), case) if parent in waits else None
            if ratio and ratio.word == "faster" and ratio.estimate > NOTICED:
                noticed.append(f"`{name}` ({show.factor(ratio.estimate)})")
        comparison = (
            f"More than a tenth of its parent's wait is saved by {joined(noticed)}"
            if noticed
            else "No step saves a tenth of it"
        )
        return f"{words}{comparison}. The other steps change what a profiler shows, and hardly what a caller waits for."

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        shares = {f"#0 streams, stream {queue + 1}": "rotating-linear" for queue in range(streams.QUEUES)}
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
        """Return ncu's Memory Throughput of each layer's main kernel, by published variant, case and metric."""
        published_case, published = "batch 10000", {}
        for metric, names in PUBLISHED_COUNTERS.items():
            for variant in map(LAB.variant, names):
                counters = measured.counted(variant.name, PUBLISHED_CASES[published_case])
                if counters is None or variant.source is None:
                    continue
                for number in (1, 2):
                    share = of_kernel(counters, variant.source.path.stem, number, "memory")
                    if share is not None:
                        published[str(variant.published), published_case, f"layer {number} {metric}"] = show.percent(
                            share
                        )
        return published

    def summary(self, measured: Measured) -> str:
        """Return a paragraph on the images and the conclusions. Cases that were not measured are left out."""
        sentences, last_source = list[str](), ""
        for case in [c.name for c in measured.cases]:
            base = measured.base(case)
            source, images, accuracy = (measured.fact(base, case, name) for name in ("source", "images", "accuracy"))
            if source:
                sentences += ["**Images.**"] * (not sentences)
                sentences += [f"{source[:1].upper()}{source[1:]}."] * (source != last_source)
                sentences.append(
                    f"On {case}, with {images} different images, `{base}` classifies {show.percent(accuracy)} correctly."
                )
                last_source = source
                for other_source, names in self._elsewhere(measured, case, source).items():
                    subject = joined(names) if len(names) <= FEW else f"{len(names)} steps and peers"
                    sentences.append(f"There {subject} had others: {other_source}.")
        return "\n\n".join(filter(None, [" ".join(sentences), conclusions(LAB, measured)]))

    @staticmethod
    def _elsewhere(measured: Measured, case: str, source: str) -> dict[str, list[str]]:
        """Return the variants that were measured on other images than `source`, by the source of those."""
        names_by_source: dict[str, list[str]] = {}
        for variant in (*LAB.ladder, *LAB.peers):
            other_source = measured.fact(variant.name, case, "source")
            if other_source and other_source != source:
                names_by_source.setdefault(other_source, []).append(f"`{variant.name}`")
        return names_by_source


PUBLICATION = Milestone(LAB)
