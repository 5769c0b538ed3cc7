"""Evidence for each claim of the lab's report, the variants that its figures belong to, and conclusions.

The report: a convolution layer in OpenCL: UCLA CS133 (Parallel and Distributed Computing), lab 4.
"""

from collections.abc import Mapping

from ...analysis.evidence import NO_GAIN, Best, Crowded, Evidence, Pair
from ...analysis.publication import Publication
from ...devices.contract import Device
from . import CASES, LAB, SPLITS

(CASE,) = CASES["published"]


APART = "with and without zeros, both in separate loops; the published number is that of the whole fusion"


def without(optimisation: str, remark: str = "", below: float | None = None) -> tuple[Pair]:
    """Return the pair that shows the gain of an optimisation in the best step of the report."""
    return (Pair(f"fissioned@without={optimisation}", "fissioned", CASE, below, remark=remark),)


EVIDENCE: Mapping[str, tuple[Evidence, ...]] = {
    "parallel": (
        Pair("sequential", "fissioned", CASE, remark="one core of this machine's CPU by OpenCL, and the kernel alone"),
    ),
    "local-maximum": (Best("split", ("1792x64",), CASE),),
    "first-dimension": (
        Pair(
            "fissioned@split=896x32",
            "fissioned@split=1792x64",
            CASE,
            remark="the slowest and the fastest point of the report's table, even where others are so here",
        ),
    ),
    "more-than-cores": (Crowded("space", CASE),),
    "global-id": without("global number", below=NO_GAIN),
    "permutation": without("permutation"),
    "unrolling": without("unrolling"),
    "fission": (
        Pair(
            "fused-declared-aligned", "fissioned", CASE, remark="the fused version's zeros as the report declared them"
        ),
        *without("fission", "its zeros written by a loop"),
    ),
    "zero-init": (
        Pair("zeroed-declared", "fissioned", CASE, remark=f"zeros as the report declared them; {APART}"),
        *without("bias as start value", f"zeros written by a loop; {APART}"),
    ),
    "alignment-fused": (
        Pair("fused-declared", "fused-declared-aligned", CASE, remark="zeros as the report declared them"),
        Pair("unrolled", "aligned", CASE, remark="zeros written by a loop"),
    ),
    "alignment-fissioned": without("alignment", below=NO_GAIN),
}

PAIRS = (
    ("One sub-tile per work-item", [("tiled", "sequential")]),
    ("One tap at a time for the whole sub-tile", [("permuted", "global-id")]),
    ("Unrolled", [("unrolled", "permuted")]),
    ("Separate loops for the last stages", [("fissioned", "aligned")]),
    ("Through local memory", [("local-tile", "fissioned")]),
    ("As an implicit matrix product", [("implicit-gemm", "fissioned"), ("double-buffered", "implicit-gemm")]),
    ("Explicit vectors", [("vectors", "fissioned"), ("four-rows", "vectors")]),
    ("Tensor cores in fp16, conversion included", [("tensor-fp16", "double-buffered"), ("tensor-cluster", "tensor-fp16")]),
    ("Tensor cores, more taps from each box of pixels",
     [("tensor-columns", "tensor-prepared"), ("tensor-window", "tensor-wide-stores")]),
    ("Relaxed barriers", [("tensor-relaxed", "tensor-window")]),
    ("Two warpgroups in turns", [("tensor-turns", "tensor-relaxed")]),
    ("Tensor cores in TF32", [("tensor-tf32", "tensor-turns")]),
    ("Tensor cores in bf16", [("tensor-turns-bf16", "tensor-turns"), ("tensor-turns-bf16", "tensor-bf16")]),
    ("Tensor cores with split operands",
     [("tensor-split", "double-buffered"), ("tensor-split-window", "tensor-split"), ("tensor-split-window", "tensor-turns")]),
    ("Compared with PyTorch on the GPU in fp32", [("double-buffered", "torch-fp32"), ("tensor-split-window", "torch-fp32")]),
    ("Compared with cuDNN's graph of split operands", [("tensor-split-window", "cudnn-split")]),
    ("Compared with PyTorch and cuDNN in TF32, laid out beforehand",
     [("tensor-tf32", "torch-tf32"), ("tensor-tf32", "cudnn-fused-tf32-prepared")]),
    ("Compared with PyTorch and cuDNN in fp16, converted beforehand",
     [("tensor-turns", peer) for peer in ("torch-fp16", "torch-compiled", "cudnn-fused-prepared")]),
    ("Compared with PyTorch and cuDNN in bf16, converted beforehand", [("tensor-turns-bf16", "torch-bf16")]),
    ("Compared with cuDNN in fp16, conversion included", [("tensor-cluster", "cudnn-fused")]),
    ("Compared with PyTorch on the host's CPU", [("vectors", "torch-cpu"), ("four-rows", "torch-cpu")]),
)  # fmt: skip
"""Conclusions: (the change, the pairs (step, compared with) that show its effect)."""


class CourseLab(Publication):
    """The lab's report."""

    evidence = EVIDENCE
    pairs = PAIRS

    def mapping(self, device: Device) -> Mapping[str, str | tuple[str, str]]:
        best = LAB.best
        split = {
            f"{groups} work-groups x {items} work-items": f"{best}@split={groups}x{items}"
            for groups, items in (name.split("x") for name in SPLITS)
        }
        halves = {
            "get_global_id() for the tile start": (best, f"{best}@without=global number"),
            "loop permutation (j,p,q outermost)": (best, f"{best}@without=permutation"),
            "loop unrolling (i loop)": (best, f"{best}@without=unrolling"),
            "loop fission (bias, ReLU, pool apart; no zero-initialised sub-tile)": (best, f"{best}@without=fission"),
            "sub-tile aligned to 128 bytes (measured on the fused version)": ("aligned", "unrolled"),
        }
        ablation = {
            f"{name}: {word}": pair[at] for name, pair in halves.items() for at, word in enumerate(("with", "without"))
        }
        return {**super().mapping(device), **split, **ablation, "best vs sequential": (best, "sequential")}


PUBLICATION = CourseLab(LAB)
