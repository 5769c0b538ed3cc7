"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: sparse convolution and pooling in CUDA: NCTU computer architecture, final project.
"""

from collections.abc import Mapping
from functools import partial

from ...analysis import format as show
from ...analysis.conclusions import PARAGRAPH, probe_shares
from ...analysis.evidence import (
    HALF,
    LITTLE,
    NO_GAIN,
    Best,
    Counterexample,
    Evidence,
    Fact,
    OrElse,
    Pair,
    Share,
    pair_on,
)
from ...analysis.lab_data import Measured
from ...analysis.publication import Publication
from ...analysis.sentences import without_missing
from ...devices.contract import Device
from . import LAB
from .problem import PUBLISHED_CASES
from .whys import WHYS

CASE = next(iter(PUBLISHED_CASES.values()))
DENSE = ("row-groups", "filter-groups", "unrolled", "shared-index", "tiles")
"""Steps that compute the same products, all of them."""


pair = partial(pair_on, CASE)
"""Return the evidence of a claim that rests on one pair of variants, on `CASE`."""


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "gpu": pair("sequential", "lists", "one core of this machine's CPU by OpenCL, and the kernels without copies"),
    "grid": pair("row-groups", "filter-groups"),
    "occupancy": (
        Fact("occupancy", "row-groups", "filter-groups", CASE, "theoretical occupancy; the report: 25 % and 99.9 %"),
    ),
    "occupancy-not-speed": (
        Counterexample("occupancy", DENSE, CASE, "all compute the same products, tiles in fp32, the others in integers"),
    ),
    "atomic-pool": pair(
        "atomic-pool", "filter-groups", "both with dense filters; the report's 10 ms are those of its sparse version"
    ),
    "pool-kernel": (Share("lists", "pooling", ("kernels",), CASE, HALF),),
    "cached-loads": pair(
        "uncached", "cached",
        "loads of the layer's kernel by ld.global.cg and by ld.global.ca; the report's flag was of all loads",
    ),
    "fast-math": (Pair("filter-groups", "fast-math", CASE, below=NO_GAIN),),
    "unroll": (*pair("filter-groups", "unrolled"), Pair("filter-groups", "unrolled", CASE, below=LITTLE)),
    "hoist": pair("unrolled", "shared-index"),
    "sparse": pair("filter-groups", "lists"),
    "input-shared": pair("input-in-local", "lists"),
    "tiling-128": (Best("layers", ("128",), CASE, remark="why larger ones are slower is not looked at"),),
    "textures": (
        OrElse(
            Pair("lists", "line-image", CASE, below=NO_GAIN, remark="images of one dimension, as in the report"),
            Pair("lists", "images", CASE, below=NO_GAIN),
            "images of two dimensions",
        ),
    ),
    "init": pair(
        "initialisation", "lists",
        "a new process from its first call of the device, imports excluded, until a first small kernel has run, over the"
        " kernels of a layer",
    ),
    "copies": (
        Share(
            "whole-program", "kernels", ("whole program",), CASE,
            remark="a new process from its first call of the device until the result is on the host, imports excluded; its"
            " kernels are compiled or found in the driver's cache, where the report's were compiled beforehand",
        ),
    ),
}  # fmt: skip

PAIRS = (
    ("One group per filter", [("filter-groups", "row-groups")]),
    ("Pooled by atomic operations", [("atomic-pool", "filter-groups")]),
    ("Keeping to the L1 cache, and bypassing it", [("cached", "filter-groups"), ("uncached", "cached")]),
    ("Unrolled, and with one index per group", [("unrolled", "filter-groups"), ("shared-index", "unrolled")]),
    ("With lists in local memory", [("lists", "filter-groups"), ("lists", "unrolled")]),
    ("With the input in local memory, or as an image",
     [("input-in-local", "lists"), ("images", "lists"), ("line-image", "lists")]),
    ("With lists built once", [("built-lists", "lists")]),
    ("On explicit vectors", [("vectors", "built-lists"), ("cached-channels", "vectors")]),
    ("On a CPU, four entries by one instruction", [("vnni-lists", "cached-channels"), ("vnni-lists-prepared", "vnni-lists")]),
    ("Sums in registers", [("strips", "built-lists"), ("strips", "unrolled")]),
    ("With bytes and lists made beforehand", [("strips-prepared", "strips")]),
    ("Zeros skipped on both sides", [("both-sparse", "built-lists"), ("both-sparse", "strips")]),
    ("Every product, from registers", [("tiles", "unrolled"), ("tiles", "strips")]),
    ("Every product, on tensor cores", [("tensor-int8", "tiles"), ("tensor-int8", "strips")]),
    ("With warpgroup products",
     [("tensor-window", "tensor-prepared"), ("tensor-split-k", "tensor-window"), ("tensor-tall", "tensor-split-k"),
      ("tensor-parts", "tensor-split-k"), ("tensor-multicast", "tensor-parts")]),
    ("Every product, on tensor cores by PTX, in both languages", [("warps-int8", "tiles"), ("warps-int8", "tensor-prepared")]),
    ("Every product, by dot products of bytes on a CPU", [("vnni", "vnni-lists-prepared")]),
    ("Every product, by tiles of bytes on a CPU", [("amx", "vnni")]),
    ("Compared with PyTorch on the GPU",
     [("strips", "torch-fp32"), ("strips", "torch-tf32"), ("tensor-parts", "torch-tf32")]),
    ("Compared with PyTorch on the host's CPU",
     [("built-lists", "torch-cpu"), ("strips", "torch-cpu"), ("cached-channels", "torch-cpu")]),
    ("Compared with OpenVINO on the host's CPU",
     [("amx", "openvino-int8"), ("vnni", "openvino-int8"), ("vnni-lists-prepared", "openvino-int8"),
      ("cached-channels", "openvino-fp32")]),
    ("Compared with a page of C", [("vectors", "openmp"), ("cached-channels", "openmp")]),
)  # fmt: skip
"""Conclusions: (the change, the pairs (step, compared with) that show its effect)."""


SPARSE = "lists"
"""First step that leaves out zeros; those that descend from it do, too, up to `BYTES`."""
BYTES = "vnni"
"""First step for a CPU that computes every product again, many bytes at once; so do those that descend from it."""
WORDS = {"dense": "one by one", "tensor": "on tensor cores", "bytes": "many at a time"}
"""How steps of each kind multiply by zeros."""
PROBED = "tensor-parts"
PROBES = {"tensor-no-products": "without products", "tensor-launch": "if it only stores zeros"}
"""Probes of this step, with words for how each differs from it."""


def _kind(name: str) -> str:
    """Return `sparse` if a step leaves out zeros, or else how it multiplies by them, as in `WORDS`."""
    step: str | None = name
    while step:
        if step == BYTES:
            return "bytes"
        if step == SPARSE:
            return "sparse"
        if step.startswith(("tensor-", "warps-")):
            return "tensor"
        step = LAB.variant(step).parent
    return "dense"


class FinalProject(Publication):
    """The lab's report."""

    evidence = EVIDENCE
    whys = WHYS
    pairs = PAIRS
    cases = PUBLISHED_CASES

    def finding(self, measured: Measured) -> str:
        """Return for each layer how the fastest kernel that leaves out zeros compares with those that multiply by them."""
        paragraphs = []
        for case in [case.name for case in measured.cases]:
            fastest = measured.fastest_by(lambda variant: _kind(variant.name), case)
            sparse = fastest.get("sparse")
            comparisons = without_missing(
                (
                    f"{measured.ratio_text(sparse, fastest[kind], case)} `{fastest[kind]}`, "
                    f"the fastest that multiplies by them {words}"
                    for kind, words in WORDS.items()
                    if sparse and kind in fastest
                ),
                ", and ",
            )
            sentences = [f"On {case} the fastest kernel that leaves out zeros, `{sparse}`, is {comparisons}."]
            sentences = [*sentences * bool(comparisons), probe_shares(measured, PROBED, case, PROBES)]
            paragraphs.append(" ".join(filter(None, sentences)))
        return PARAGRAPH.join(filter(None, paragraphs))

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        rows, groups, lists = "grid one block per filter row", "grid one block per filter", "lists"
        return {
            "sequential CPU": "sequential",
            "conv+ReLU kernel and pool kernel": lists,
            "both kernels, profiler": lists,
            "speedup over CPU": (lists, "sequential"),
            "host-device copies, profiler": lists,
            "2x2 max pool kernel": lists,
            "sparse filter lists in shared memory vs dense (at least)": (lists, "filter-groups"),
            f"{rows}: occupancy": "row-groups",
            f"{groups}: occupancy": "filter-groups",
            f"{rows}: speedup over CPU": ("row-groups", "sequential"),
            f"{groups}: speedup over CPU": ("filter-groups", "sequential"),
            "CUDA initialisation": "initialisation",
            "whole timeline, profiler": "whole-program",
            "kernels in the whole timeline, profiler": "whole-program",
        }

    def part(self, variant: str, case: str, metric: str) -> str | None:
        return {"host-device copies, profiler": "copies", "2x2 max pool kernel": "pooling"}.get(variant)

    def fact(self, variant: str, case: str, metric: str) -> str | None:
        return {"occupancy": "occupancy", "share": "kernel share"}.get(metric)

    def counted(self, measured: Measured) -> Mapping[tuple[str, str, str], str]:
        """Return the best TILING_FACTOR, and the extra time of atomic pooling, by published variant, case and metric."""
        published_case, case = next(iter(PUBLISHED_CASES.items()))
        published = {}
        if best := measured.fastest_point("layers", case):
            published["TILING_FACTOR found best", published_case, "parameter"] = f"{best} layers"
        with_atomics, without = (measured.seconds(name, case) for name in ("atomic-pool", "filter-groups"))
        if with_atomics and without:
            for end in ("low", "high"):
                name = f"one kernel with atomic max pooling: extra time ({end} end)"
                published[name, published_case, "time"] = f"{show.number((with_atomics - without) * 1e3)}{show.THIN}ms"
        return published


PUBLICATION = FinalProject(LAB)
