"""Sparse convolution and pooling in integers (NCTU, computer architecture): from a loop nest to lists of non-zeros.

The ladder follows the report, its failed attempts included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from typing import Any

import numpy as np

from ...devices.backends import CUDA
from ...spec.lab import NamedCases, Series, Sweep, Work
from ...spec.plan import Case, Variant
from . import plans
from .ladder import BOTH, LADDER, LISTS, PEERS, STRIPS
from .problem import CASES, check, inputs, irregular, named, narrowed, reference, widened

DENSE = ("unrolled", "tiles", "tensor-int8")
"""Steps that compute every product, from the report's to the fastest."""
ZEROS = (0, 25, 50, 75, 90, 95, 98)
"""Shares of zeros in the series, in %."""


class SparseConvolution(NamedCases):
    """The lab. A case has the name of its layer; its params are the layer's sizes."""

    name = "convpool"
    title = "Sparse convolution and pooling"
    preferred_backend = CUDA.name
    unit = "layer"
    timed = "kernels"
    bases = ("sequential-c", "sequential")
    best = "lists"
    ladder = LADDER
    peers = PEERS
    parts = ("kernels", "pooling", "copies in", "copy out", "copies", "context", "first kernel", "whole program")
    awkward = ("129x3x38x38-k3", "3x193x9x9-k5", "5x7x9x9-k3")
    """Layers with one filter more than whole tiles and an even map, or one channel more than whole turns and an odd map."""
    case_names = CASES
    name_pattern = ".*-k.*"
    other_sizes = (
        "any layer such as 64x64x32x32-k3, or 64x64x32x32-k3-w50-x80: 50 % of its weights and 80 % of its input zero"
    )

    def __init__(self) -> None:
        best, strips, both_sparse = (self.variant(name) for name in (self.best, "strips", "both-sparse"))
        self.sweeps = (
            Sweep("layers", "How many channels of lists at a time (TILING_FACTOR)?",
                  tuple(best.at("layers", layers, LISTS.with_knobs(LAYERS=layers)) for layers in (16, 32, 64, 128, 256)),
                  quick=("16", "64", "256"), tunes=True),
            Sweep("together", "How many filters per group, from registers?",
                  tuple(strips.at("together", many, STRIPS.with_knobs(TOGETHER=many)) for many in (1, 2, 4, 8)),
                  quick=("1", "4", "8"), tunes=True),
            Sweep("list parts", "How many work-items share a list, from registers?",
                  tuple(strips.at("list parts", many, STRIPS.with_knobs(PARTS=many)) for many in (1, 2, 4)),
                  quick=("1", "4"), tunes=True),
            Sweep("chunk", "How many channels at a time, from registers?",
                  tuple(strips.at("chunk", many, STRIPS.with_knobs(CHUNK=many)) for many in (16, 32, 48, 64)),
                  quick=("16", "64"), tunes=True),
            Sweep("parts", "How many maps per filter, both sides sparse?",
                  tuple(both_sparse.at("parts", many, BOTH.with_knobs(PARTS=many)) for many in (1, 2, 4, 8, 16)),
                  quick=("1", "4", "16"), tunes=True),
        )  # fmt: skip

    def named_case(self, name: str, scale: str) -> Case:
        layer, weights, values = named(name)
        return Case(name, scale, {"layer": asdict(layer), "weight_zeros": weights, "input_zeros": values}, 1)

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """Draw `x` and `weight`, int16 with the published sparsity, in the layer's shapes."""
        weights, values = case.params["weight_zeros"], case.params["input_zeros"]
        return inputs(
            plans.layer(case),
            seed,
            None if weights is None else 1 - weights / 100,
            None if values is None else 1 - values / 100,
        )

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return inputs with their values permuted; some weights need 16 bits for "wide", and all are small for "narrow"."""
        change = {"wide": widened, "narrow": narrowed}.get(name, dict)
        return change(irregular(inputs))

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return reference(plans.layer(case), inputs["x"], inputs["weight"])

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        if "left" in outputs:
            return float(outputs["left"]), 0.0, "integers that the first kernel did not set to zero"
        if variant.source and variant.source.settings.get("LEFT_OUT", "NOTHING") != "NOTHING":
            return (
                float(np.count_nonzero(outputs["out"])),
                0.0,
                "outputs that are not zero, although a probe without products stores zeros",
            )
        roundoff = float(variant.options.get("result_roundoff", 0.0))
        wrong, count = check(outputs["out"], reference["out"], roundoff)
        allowed = f"right to {roundoff:.1e} of their size" if roundoff else "exactly right"
        infinite = int(np.count_nonzero(np.isinf(outputs["out"])))
        note = f", {infinite} of them infinite" if infinite else ""
        return float(wrong), 0.0, f"outputs of {count} that are not {allowed}{note}"

    def series(self, scale: str) -> Sequence[Series]:
        layer = CASES[scale][0]
        shares = {"test": ZEROS[:: len(ZEROS) - 1], "quick": ZEROS[::3]}.get(scale, ZEROS)
        peer = ("torch-cpu", "torch-fp32", "torch-tf32", "torch-bf16")
        dense = (*DENSE, *peer)
        lists = ("lists", "built-lists", "strips", "cached-channels")
        lists_prepared = ("strips-prepared", "vnni-lists-prepared")
        dense_prepared = ("tensor-split-k", "tensor-parts", "warps-int8", "vnni", "amx")
        return (
            Series("weight zeros", "From how many zeros in the weights on does sparse beat dense?",
                   "zeros in the weights, %", tuple((zeros, f"{layer}-w{zeros}") for zeros in shares),
                   (*lists, *dense), tuple(product(lists, dense))),
            Series("weight zeros, operands prepared",
                   "From how many zeros in the weights on does sparse beat dense, if both find their operands laid out?",
                   "zeros in the weights, %", tuple((zeros, f"{layer}-w{zeros}") for zeros in shares),
                   (*lists_prepared, *dense_prepared), tuple(product(lists_prepared, dense_prepared))),
            Series("input zeros", "From how many zeros in the input on does it pay to skip those too?",
                   "zeros in the input, %, with one non-zero in each slice of a filter",
                   tuple((zeros, f"{layer}-x{zeros}") for zeros in shares),
                   (*lists[1:], "both-sparse"), tuple(("both-sparse", step) for step in ("strips", "built-lists", lists[-1]))),
        )  # fmt: skip

    def work(self, case: Case) -> Work:
        """Return the products of the weights that are not zero, and each byte of the layer once."""
        layer = plans.layer(case)
        return Work(layer.flops * plans.nonzero_share(case), layer.bytes, layer.bytes)

    def output_arrays(self, case: Case) -> Mapping[str, tuple[type[np.generic], tuple[int, ...]]]:
        return {"out": (np.int32, plans.layer(case).out_shape)}

    def sizes(self, case: Case) -> Mapping[str, int]:
        one = plans.layer(case)
        return {"DEPTH": one.depth, "FILTERS": one.filters, "SIZE": one.size, "TAPS": one.kernel}


LAB = SparseConvolution()
