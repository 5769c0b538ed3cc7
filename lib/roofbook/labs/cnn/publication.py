"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: a convolution layer in OpenCL: UCLA CS133 (Parallel and Distributed Computing), lab 4.
"""

from collections.abc import Mapping

from ...analysis import format as show
from ...analysis.evidence import NO_GAIN, Best, Evidence, ItemsPerCore, OrElse, Pair
from ...analysis.lab_data import Measured
from ...analysis.publication import Publication
from ...analysis.sentences import joined, without_missing
from ...devices.contract import Device
from . import CASES, LAB, SPLITS
from .whys import WHYS

(CASE,) = CASES["published"]


APART = "with and without zeros, both in separate loops; the published number is that of the whole fusion"


AS_REPORTED = "the report's own kernel: operands in constant memory, and the group's number by a division"
SIZES = "with operands in global memory; the report's are in constant memory"
ONE_CORE = "the loops in C on one core of this machine's CPU, and the kernel alone"


def as_reported(without: str, ours: Pair, best: str = "as-reported") -> OrElse:
    """Return the pair that shows the gain of an optimisation in the report's own kernel, or else in ours.

    best: the variant with it.
    """
    remark = "; ".join(filter(None, (AS_REPORTED, ours.remark)))
    first = Pair(f"as-reported@report={without}", best, CASE, ours.below, remark=remark)
    return OrElse(first, ours, "operands in global memory")


def without(optimisation: str, remark: str = "", below: float | None = None) -> tuple[OrElse]:
    """Return the pair that shows the gain of an optimisation in the best step of the report."""
    ours = Pair(f"fissioned@without={optimisation}", "fissioned", CASE, below, remark=remark)
    return (as_reported(optimisation, ours),)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "parallel": (
        OrElse(
            Pair("sequential-c", "as-reported", CASE, remark=f"{ONE_CORE}; {AS_REPORTED}"),
            Pair("sequential-c", "fissioned", CASE),
            "operands in global memory",
        ),
    ),
    "local-maximum": (Best("split", ("1792x64",), CASE, remark=SIZES),),
    "first-dimension": (
        Pair(
            "fissioned@split=896x32",
            "fissioned@split=1792x64",
            CASE,
            remark=f"the slowest and the fastest point of the report's table, even where others are so here; {SIZES}",
        ),
    ),
    "more-than-cores": (ItemsPerCore("space", CASE),),
    "global-id": without("global number", below=NO_GAIN),
    "permutation": without("permutation"),
    "unrolling": without("unrolling"),
    "fission": (
        as_reported(
            "fission",
            Pair("fused-declared-aligned", "fissioned", CASE, remark="the fused version's zeros as the report declared them"),
        ),
        Pair("fissioned@without=fission", "fissioned", CASE, remark="its zeros written by a loop"),
    ),
    "zero-init": (
        as_reported(
            "bias as start value",
            Pair("zeroed-declared", "fissioned", CASE, remark=f"zeros as the report declared them; {APART}"),
        ),
        Pair(
            "fissioned@without=bias as start value", "fissioned", CASE, remark=f"zeros written by a loop; {APART}",
        ),
    ),
    "alignment-fused": (
        as_reported(
            "fission and alignment",
            Pair("fused-declared", "fused-declared-aligned", CASE, remark="zeros as the report declared them"),
            best="as-reported@report=fission",
        ),
        Pair("unrolled", "aligned", CASE, remark="zeros written by a loop"),
    ),
    "alignment-fissioned": without("alignment", below=NO_GAIN),
}  # fmt: skip

PAIRS = (
    ("One sub-tile per work-item", [("tiled", "sequential")]),
    ("One tap at a time for the whole sub-tile", [("permuted", "global-id")]),
    ("Unrolled", [("unrolled", "permuted")]),
    ("Separate loops for the last stages", [("fissioned", "aligned")]),
    ("Through local memory", [("local-tile", "fissioned")]),
    ("As an implicit matrix product", [("implicit-gemm", "fissioned"), ("double-buffered", "implicit-gemm")]),
    ("Explicit vectors", [("vectors", "fissioned"), ("four-rows", "vectors")]),
    ("On a CPU, two products of bf16 by one instruction", [("bf16-dots", "four-rows")]),
    ("On a CPU, tiles of bf16 by one instruction", [("amx-bf16", "bf16-dots")]),
    ("Tensor cores in fp16, conversion included", [("tensor-fp16", "double-buffered"), ("tensor-cluster", "tensor-fp16")]),
    ("Tensor cores, more taps from each box of pixels",
     [("tensor-columns", "tensor-prepared"), ("tensor-window", "tensor-wide-stores")]),
    ("Relaxed barriers", [("tensor-relaxed", "tensor-window")]),
    ("Two warpgroups in turns", [("tensor-turns", "tensor-relaxed")]),
    ("Tensor cores in TF32", [("tensor-tf32", "tensor-turns")]),
    ("Tensor cores in bf16", [("tensor-turns-bf16", "tensor-turns"), ("tensor-turns-bf16", "tensor-bf16")]),
    ("Tensor cores with split operands",
     [("tensor-split", "double-buffered"), ("tensor-split-window", "tensor-split"), ("tensor-split-window", "tensor-turns")]),
    ("Tensor cores by PTX, in both languages",
     [("warps-fp16", "double-buffered"), ("warps-fp16", "warps-staged"), ("warps-split", "double-buffered"),
      ("warps-fp16", "tensor-turns")]),
    ("Compared with PyTorch on the GPU in fp32", [("double-buffered", "torch-fp32"), ("tensor-split-window", "torch-fp32")]),
    ("Compared with cuDNN's graph of split operands", [("tensor-split-window", "cudnn-split")]),
    ("Compared with PyTorch and cuDNN in TF32, laid out beforehand",
     [("tensor-tf32", "torch-tf32"), ("tensor-tf32", "cudnn-fused-tf32-prepared")]),
    ("Compared with PyTorch and cuDNN in fp16, converted beforehand",
     [("tensor-turns", peer) for peer in ("torch-fp16", "torch-compiled", "cudnn-fused-prepared")]),
    ("Compared with PyTorch and cuDNN in bf16, converted beforehand", [("tensor-turns-bf16", "torch-bf16")]),
    ("Compared with cuDNN in fp16, conversion included", [("tensor-cluster", "cudnn-fused")]),
    ("Compared with PyTorch on the host's CPU", [("vectors", "torch-cpu"), ("four-rows", "torch-cpu")]),
    ("Compared with OpenVINO on the host's CPU",
     [("four-rows", "openvino-fp32"), ("bf16-dots", "openvino-bf16"), ("amx-bf16", "openvino-bf16")]),
)  # fmt: skip
"""Conclusions: (the change, the pairs (step, compared with) that show its effect)."""


HELD_BACK = (
    ("with the outputs in registers", "unrolled", "permuted"),
    ("with each load serving more outputs", "implicit-gemm", "fissioned"),
)
"""Obstacles on the way to the arithmetic peak: (the remedy in words, the step with it, the step without)."""
MOST_NAMED = 3
"""Most gains that the answer names."""


class CourseLab(Publication):
    """The lab's report."""

    evidence = EVIDENCE
    whys = WHYS
    pairs = PAIRS

    stand_ins: Mapping[str, str] = {
        "as-reported": LAB.best,
        "sequential-c": "sequential",
        **{
            f"as-reported@report={point}": f"{LAB.best}@without={point}"
            for point in ("global number", "permutation", "unrolling", "fission")
        },
        "as-reported@report=fission and alignment": "unrolled",
    }

    def finding(self, measured: Measured) -> str:
        """Return the share of its bound that the fastest kernel of each precision reaches, and the steps that gained most."""
        case, sentences = measured.main_case, []
        by_dtype = measured.fastest_by(lambda variant: variant.dtype, case)
        shares = [
            f"{show.percent(share[0])} in {dtype} (`{name}`)"
            for dtype, name in by_dtype.items()
            if (share := measured.share_of_bound(name, case)) and share[0] is not None
        ]
        sentences += [
            f"On {case} the fastest kernel of each precision reaches this share of its bound: {joined(shares)}."
        ] * bool(shares)
        held_back = without_missing(
            (
                f"{words}, `{step}` is {measured.ratio_text(step, reference, case)} `{reference}`"
                for words, step, reference in HELD_BACK
            ),
            "; ",
        )
        ratios = [ratio for _, step, reference in HELD_BACK if (ratio := measured.ratio(step, reference, case))]
        gained = bool(ratios) and all(ratio.word == "faster" for ratio in ratios)
        sentences += ["Loads limited the first kernels."] * gained
        sentences += [f"{held_back[:1].upper()}{held_back[1:]}."] * bool(held_back)
        gains = sorted(measured.way(case), key=lambda gain: -gain.ratio.estimate)[:MOST_NAMED]
        named = [f"`{gain.step}` ({show.factor(gain.ratio.estimate)})" for gain in gains]
        sentences += [f"The largest factors on the way to the fastest kernel are {joined(named)}."] * bool(named)
        return " ".join(sentences)

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        best, undone = "as-reported", "as-reported@report"
        split = {
            f"{groups} work-groups x {items} work-items": f"{LAB.best}@split={groups}x{items}"
            for groups, items in (name.split("x") for name in SPLITS)
        }
        halves = {
            "get_global_id() for the tile start": (best, f"{undone}=global number"),
            "loop permutation (j,p,q outermost)": (best, f"{undone}=permutation"),
            "loop unrolling (i loop)": (best, f"{undone}=unrolling"),
            "loop fission (bias, ReLU, pool apart; no zero-initialised sub-tile)": (best, f"{undone}=fission"),
            "sub-tile aligned to 128 bytes (measured on the fused version)": (
                f"{undone}=fission",
                f"{undone}=fission and alignment",
            ),
        }
        ablation = {
            f"{name}: {word}": pair[at] for name, pair in halves.items() for at, word in enumerate(("with", "without"))
        }
        return {
            **super().mapping(device),
            **split,
            **ablation,
            "sequential": "sequential-c",
            "best vs sequential": (best, "sequential-c"),
        }


PUBLICATION = CourseLab(LAB)
