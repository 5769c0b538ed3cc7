"""Sparse convolution and pooling in integers (NCTU, computer architecture): from a loop nest to lists of what is not zero.

The ladder follows the report, its failed attempts included.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

from ...devices import hopper
from ...devices.backends import CUDA
from ...peers import missing, one_thread
from ...spec.lab import CHANNELS_LAST, LAID_OUT, ONE_WORK_ITEM, PRECISIONS, Case, Lab, Series, Sweep, Variant, Work
from ...spec.prediction import FASTER, NO_GAIN, SAME, SEVERAL, SLOWER, about
from ...spec.source import Source
from . import peers, plans, tensor, tuned, vectors
from .initialise import Initialisation
from .problem import PUBLISHED, check, inputs, named, reference, widened

HERE = Path(__file__).parent
CLUSTERS = frozenset({"wgmma", "clusters"})
CACHE_OPERATORS = frozenset({"cache-operators"})
LAYER = {"DEPTH": 512, "FILTERS": 512, "SIZE": 32, "TAPS": 3}
"""The published layer: what a kernel's text shows; a plan sets the case's own."""
ROWS = Source.of(HERE / "dense.k", **LAYER)
PIXELS = ROWS.with_knobs(GRID="FILTER_GROUPS")
UNROLLED = PIXELS.with_knobs(UNROLL="UNROLLED")
SHARED = UNROLLED.with_knobs(INDEX="SHARED")
STRIPS = Source.of(HERE / "strips.k", **LAYER)
BOTH = Source.of(HERE / "both.k", **LAYER)
TENSOR = Source.of(HERE / "tensor.cu", **LAYER)
WINDOW = Source.of(HERE / "tensor_window.cu", **LAYER)
SPLIT_K = Source.of(HERE / "tensor_split_k.cu", **LAYER)
POOL = Source.of(HERE / "pool.k", FILTERS=512, SIZE=32)
LISTS = Source.of(HERE / "lists.k", **LAYER)
VECTORS = Source.of(HERE / "vectors.k", **LAYER)
ON_CPU = frozenset({"cpu", "vector-types"})

SEQUENTIAL = Source.of(HERE / "sequential.k", **LAYER)

LADDER = (
    Variant(
        "sequential", None, SEQUENTIAL, plans.Sequential,
        "One work-item computes the whole layer, zeros included.",
        "The baseline: one core, and eight of nine products are by zero.",
        frozenset({"cpu"}), options={"device": "host"}, dtype="int32", said=ONE_WORK_ITEM,
    ),
    Variant(
        "sequential-c", "sequential", SEQUENTIAL, plans.SequentialC,
        "The same loops in C, by the host's compiler with -O3; it may not re-order a sum either.",
        "Sums of integers may be taken in any order, so the compiler adds up vectors: several times faster.",
        frozenset({"host"}), options={"device": "host"}, differs=("plan",), role="base", said=one_thread.WORDS, dtype="int32",
        predicts=SEVERAL,
    ),
    Variant(
        "row-groups", "sequential", ROWS, plans.Pooled,
        "One group per row of a filter's map, one work-item per column; pooling is a second kernel.",
        "Groups of 32 give a quarter of the full occupancy: too few work-items to hide memory latency.",
        differs=("source", "plan", "options"), dtype="int32",
    ),
    Variant(
        "filter-groups", "row-groups", PIXELS, plans.Pooled,
        "One group per filter, one work-item per pixel.",
        "Groups of 1024 give full occupancy, and each input that a group loads serves a whole map.",
        dtype="int32", predicts={"gpu": FASTER},
    ),
    Variant(
        "atomic-pool", "filter-groups", PIXELS.with_knobs(POOL="ATOMIC"), plans.Pooled,
        "Pooling inside the kernel by atomic maximum: a failed attempt of the report.",
        "Saves writing and reading a map, costs four atomic operations per output: one or two milliseconds more, it says.",
        shows={"dense": r"red\.(global\.)?max|atom\.(global\.)?max"}, dtype="int32", predicts=SLOWER,
    ),
    Variant(
        "cached", "filter-groups", PIXELS.with_knobs(LOADS="CACHED"), plans.Pooled,
        "Global loads name the L1 cache (ld.global.ca), in place of the path for read-only data.",
        "Nothing to gain: on today's GPUs both are the same cache. It is here to be compared with the next step.",
        CACHE_OPERATORS, dtype="int32", shows={"dense": r"ld\.global\.ca\.[su]16"}, omits={"dense": r"ld\.global\.nc"},
        predicts=NO_GAIN,
    ),
    Variant(
        "uncached", "cached", PIXELS.with_knobs(LOADS="UNCACHED"), plans.Pooled,
        "The same loads bypass the L1 cache, as on the report's GPU before it set the architecture flag (ld.global.cg).",
        "Every work-item of a group reads the same weight and its neighbours' inputs: the L1 cache serves most of them.",
        CACHE_OPERATORS, dtype="int32", shows={"dense": r"ld\.global\.cg\.[su]16"}, omits={"dense": r"ld\.global\.ca"},
        predicts=SLOWER,
    ),
    Variant(
        "fast-math", "filter-groups", PIXELS, plans.Pooled,
        "Compiled for fast arithmetic.",
        "No effect: the kernel has no floating point.",
        options={"fast_math": True}, differs=("options",), dtype="int32",
        same_code=dict.fromkeys(("NVRTC", "PoCL"), "the flag is about floating point, and the kernel has none"), predicts=SAME,
    ),
    Variant(
        "unrolled", "filter-groups", UNROLLED, plans.Pooled,
        "The loops over the taps are unrolled.",
        "Fewer comparisons and indices for the same products.",
        dtype="int32", predicts=FASTER,
    ),
    Variant(
        "shared-index", "unrolled", SHARED, plans.Pooled,
        "The first work-item computes where the filter begins, for the whole group.",
        "Compilers already compute group-uniform values once. The barrier is new.",
        shows={"dense": r"bar\.sync|barrier\.sync"}, dtype="int32", predicts=NO_GAIN,
    ),
    Variant(
        "lists", "filter-groups", LISTS, plans.Lists,
        "The group turns 128 channels of its filter into sparse lists in local memory, then walks the lists.",
        "One product in nine is left: several times as fast.",
        differs=("source", "plan"), dtype="int32", predicts=SEVERAL,
    ),
    Variant(
        "input-in-local", "lists", LISTS.with_knobs(STAGING="LOCAL_COPY"), plans.Lists,
        "The input is copied to local memory too, one channel at a time: a failed attempt of the report.",
        "With one product per pixel and channel there is nothing to share. Two barriers per channel make it slower.",
        dtype="int32", predicts=SLOWER,
    ),
    Variant(
        "images", "lists", LISTS.with_knobs(STAGING="IMAGE_READS"), plans.Lists,
        "The input is an image, read through the texture units: a failed attempt of the report.",
        "Texture units have a cache of their own for neighbours, but a cache already holds the input.",
        needs=frozenset({"images"}), shows={"lists": r"tex\.2d"}, dtype="int32", predicts=NO_GAIN,
    ),
    Variant(
        "built-lists", "lists", Source.of(HERE / "built.k", **LAYER), plans.Built,
        "A separate kernel builds the lists once; each work-item owns a pooling window.",
        "Each entry serves four products, pooling needs no memory, and no group searches for zeros again.",
        differs=("source", "plan"), dtype="int32", predicts=FASTER,
    ),
    Variant(
        "vectors", "built-lists", VECTORS, vectors.Vectors,
        "For a CPU: one launch in which a work-item writes a filter's list and walks it, with 8 x 32 outputs in vectors.",
        "An entry is read once for 256 products. The input of all channels passes through the nearest cache once a filter.",
        ON_CPU, differs=("source", "plan"), dtype="int32", predicts={"cpu": FASTER},
    ),
    Variant(
        "cached-channels", "vectors", VECTORS.with_knobs(TOGETHER=8, CHUNK=32), vectors.Cached,
        "Some channels at a time, for eight filters in turn, whose sums are put by meanwhile.",
        "Eight filters find their inputs in the nearest cache. A layer with few channels was there already.",
        ON_CPU, differs=("source", "plan"), dtype="int32",
    ),
    Variant(
        "strips", "built-lists", STRIPS, plans.Strips,
        "Sixteen outputs per work-item in registers; the input is in local memory as bytes, shared by eight filters.",
        "An entry is read once for sixteen products, and one word loads four inputs: now arithmetic bounds it.",
        differs=("source", "plan"), shows={"strips": r"dp4a"}, dtype="int32", predicts=FASTER,
    ),
    Variant(
        "both-sparse", "built-lists", BOTH, plans.Both,
        "Inputs as lists too: only pairs of non-zeros are multiplied, and added to a map in local memory.",
        "A fifth of the products is left. Each reads and writes memory at scattered addresses.",
        differs=("source", "plan"), dtype="int32",
    ),
    Variant(
        "tiles", "shared-index", Source.of(HERE / "tiles.k", **LAYER), plans.Tiles,
        "Dense again, in fp32 and from registers: 32 filters by 8 x 16 outputs per group, 4 by 2 x 4 per work-item.",
        "Nine times the products of the lists, but nothing to look up: each load serves four to eight products.",
        differs=("source", "plan"), predicts=FASTER,
    ),
    Variant(
        "tensor-int8", "tiles", TENSOR, plans.Tensor,
        "Tensor cores: values as bytes, exact sums in int32; a tile of input in shared memory serves all taps.",
        "About twenty times the rate of multiply-adds: even nine times the products then cost less than lists.",
        frozenset({"mma"}), differs=("source", "plan"), dtype="int8", shows={"tensor": r"mma\.sync.*s8"}, predicts=FASTER,
    ),
    Variant(
        "tensor-prepared", "tensor-int8", TENSOR, plans.Tensor,
        "Input and weights are laid out beforehand, as a library's user would keep them.",
        "Shows the cost of the layout: two launches, one pass over input and weights.",
        frozenset({"mma"}), options={"prepared": True}, differs=("options",), dtype="int8", predicts=FASTER,
    ),
    Variant(
        "tensor-window", "tensor-prepared", WINDOW, tensor.Window,
        "Warpgroup products from shared memory; clusters of eight blocks load each weight once for all of them.",
        "Twice as fast: latency bounds it, and asynchronous products and copies hide latency.",
        CLUSTERS, options={"prepared": True, "build": ("-arch=sm_90a",)}, differs=("source", "plan", "options"),
        dtype="int8", architectures=hopper.ARCHITECTURES, shows={"tensor": r"wgmma\.mma_async.*s8"}, predicts=about(2),
    ),
    Variant(
        "tensor-split-k", "tensor-window", SPLIT_K, tensor.SplitK,
        "Two blocks split the products of a tile, so each one's weights fit its shared memory; at the end they exchange sums.",
        "No copy waits for a product, and clusters of two fit on every multiprocessor.",
        CLUSTERS, options={"prepared": True, "build": ("-arch=sm_90a",)}, differs=("source", "plan"),
        dtype="int8", architectures=hopper.ARCHITECTURES, shows={"tensor": r"wgmma\.mma_async.*m64n128k32.*s8"},
        predicts=FASTER,
    ),
    Variant(
        "initialisation", "sequential", POOL, Initialisation,
        "No layer at all: a new process opens the device and runs one small kernel.",
        "The time before a program's first result, however fast its kernels are.",
        role="probe", differs=("source", "plan", "options"), dtype="int32",
    ),
)  # fmt: skip

PEERS = (
    Variant(
        "torch-cpu", None, None, peers.TorchConvolution, "PyTorch on the CPU, fp32, channels last.", "oneDNN, at its best.",
        needs=frozenset({"host"}), role="peer", options={"precision": "fp32", "channels_last": True},
    ),
    Variant(
        "openmp", None, None, peers.OpenMP, "A page of C + OpenMP: lists of non-zeros, sums in registers, all cores.",
        "What a CPU can do when it skips the zeros.", needs=frozenset({"host"}), role="peer",
    ),
    Variant(
        "torch-fp32", None, None, peers.TorchConvolution, "PyTorch and cuDNN, fp32, TF32 off.", "All products, in fp32.",
        needs=frozenset({"pytorch"}), role="peer", options={"precision": "fp32"},
    ),
    Variant(
        "torch-tf32", None, None, peers.TorchConvolution, "PyTorch and cuDNN, TF32, channels last.",
        "These integers fit TF32: exact, on tensor cores.",
        needs=frozenset({"pytorch"}), role="peer", dtype="tfloat32", options={"precision": "tf32", "channels_last": True},
    ),
    Variant(
        "torch-fp16", None, None, peers.TorchConvolution, "PyTorch and cuDNN, fp16, channels last.",
        "Operands are exact, results are rounded to fp16.",
        needs=frozenset({"pytorch"}), role="peer", dtype="float16",
        options={"precision": "fp16", "channels_last": True, "result_roundoff": 2.0**-11},
    ),
    Variant(
        "torch-bf16", None, None, peers.TorchConvolution, "PyTorch and cuDNN, bf16, channels last.",
        "Operands are exact, results are rounded to bf16, which has the range for any sum.",
        needs=frozenset({"pytorch"}), role="peer", dtype="bfloat16",
        options={"precision": "bf16", "channels_last": True, "result_roundoff": 2.0**-8},
    ),
    Variant(
        "torch-compiled", None, None, peers.TorchConvolution, "PyTorch and cuDNN, fp16, channels last, by torch.compile.",
        "ReLU and pool become one kernel; the convolution stays the library's.",
        needs=frozenset({"pytorch"}), role="peer", dtype="float16",
        options={"precision": "fp16", "channels_last": True, "result_roundoff": 2.0**-11, "compile": True},
    ),
    Variant(
        "cublas", None, None, peers.Product, "The input unfolded to a matrix, 9 times as large, and cuBLAS; fp32, TF32 off.",
        "All products, and the matrix is written and read first.",
        needs=frozenset({"pytorch"}), role="peer", options={"precision": "fp32"},
    ),
    Variant(
        "cudnn-int8", None, None, tuned.CudnnInt8,
        "cuDNN's own graph in int8, exact sums in int32, ReLU and pool by torch.compile; making bytes of int16 is timed.",
        "What `tensor-int8` does, by a library.",
        needs=frozenset({"pytorch"}), role="peer", dtype="int8", options={"compile": True},
    ),
    Variant(
        "cudnn-int8-prepared", None, None, tuned.CudnnInt8,
        "cuDNN's own graph in int8, exact sums in int32, ReLU and pool by torch.compile; operands are bytes beforehand.",
        "Two kernels, and between them sums of four bytes, where `tensor-prepared` has one.",
        needs=frozenset({"pytorch"}), role="peer", dtype="int8", options={"compile": True, "prepared": True},
    ),
    Variant(
        "cublas-int8", None, None, tuned.CublasInt8, "The input unfolded as bytes and cuBLAS in int8; unfolding is timed.",
        "A quarter of the bytes of `cublas`; small tiles leave most of the chip idle.",
        needs=frozenset({"pytorch"}), role="peer", dtype="int8", options={"compile": True},
    ),
    Variant(
        "cublas-int8-prepared", None, None, tuned.CublasInt8,
        "The input unfolded as bytes and cuBLAS in int8, with the matrix ready in memory: unfolding is not timed.",
        "Only the product with ReLU and pool.",
        needs=frozenset({"pytorch"}), role="peer", dtype="int8", options={"compile": True, "prepared": True},
    ),
)  # fmt: skip

DENSE = ("unrolled", "tiles", "tensor-int8")
"""Steps that compute every product, from what the report had to the best."""
ZEROS = (0, 25, 50, 75, 90, 95, 98)
"""Shares of zeros of the series, in %."""

CASES = {
    "quick": ("64x64x32x32-k3",),
    "published": tuple(layer.name for layer in PUBLISHED),
    "large": ("1024x1024x32x32-k3",),
    "test": ("5x7x9x9-k3", "3x2x7x7-k5"),
}


class SparseConvolution(Lab):
    """The lab. A case goes by its layer's name; its params are the layer's sizes."""

    name = "convpool"
    title = "Sparse convolution and pooling"
    preferred_backend = CUDA.name
    unit = "layer"
    timed = "kernels"
    bases = ("sequential-c", "sequential")
    best = "lists"
    ladder = LADDER
    peers = PEERS
    parts = ("kernels", "pooling", "copies in", "copy out", "copies", "context", "first kernel")
    other_sizes = (
        "any layer such as 64x64x32x32-k3, or 64x64x32x32-k3-w50-x80: 50 % of its weights and 80 % of its input zero"
    )

    def __init__(self) -> None:
        best, strips, both = (self.variant(name) for name in (self.best, "strips", "both-sparse"))
        self.sweeps = (
            Sweep("layers", "How many channels of lists at a time (TILING_FACTOR)?",
                  tuple(best.at("layers", layers, LISTS.with_knobs(LAYERS=layers)) for layers in (16, 32, 64, 128, 256)),
                  quick=("16", "64", "256")),
            Sweep("together", "How many filters per group, from registers?",
                  tuple(strips.at("together", many, STRIPS.with_knobs(TOGETHER=many)) for many in (1, 2, 4, 8)),
                  quick=("1", "4", "8")),
            Sweep("list parts", "How many work-items share a list, from registers?",
                  tuple(strips.at("list parts", many, STRIPS.with_knobs(PARTS=many)) for many in (1, 2, 4)),
                  quick=("1", "4")),
            Sweep("chunk", "How many channels at a time, from registers?",
                  tuple(strips.at("chunk", many, STRIPS.with_knobs(CHUNK=many)) for many in (16, 32, 48, 64)),
                  quick=("16", "64")),
            Sweep("parts", "How many maps per filter, both sides sparse?",
                  tuple(both.at("parts", many, BOTH.with_knobs(PARTS=many)) for many in (1, 2, 4, 8, 16)),
                  quick=("1", "4", "16")),
        )  # fmt: skip

    def cases(self, scale: str) -> Sequence[Case]:
        return [_case(name, scale) for name in CASES[scale]]

    def sized(self, name: str, scale: str) -> Case | None:
        return _case(name, scale) if "-k" in name else None

    def inputs(self, case: Case, seed: int) -> Mapping[str, Any]:
        """`x` and `weight`, int16 with the published sparsity, in the layer's shapes."""
        weights, values = case.params["weight_zeros"], case.params["input_zeros"]
        return inputs(
            plans.layer(case),
            seed,
            None if weights is None else 1 - weights / 100,
            None if values is None else 1 - values / 100,
        )

    def verified_on(self, variant: Variant) -> str:
        """`wide` weights, but where values are bytes, and for libraries, whose exactness has no room for them."""
        narrow = variant.dtype == "int8" or variant.plan is plans.Strips
        return "" if narrow or variant.role in ("probe", "peer") else "wide"

    def verification_inputs(self, case: Case, name: str, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return widened(inputs) if name else inputs

    def reference(self, case: Case, inputs: Mapping[str, Any]) -> Mapping[str, Any]:
        return reference(plans.layer(case), inputs["x"], inputs["weight"])

    def check(
        self, case: Case, variant: Variant, outputs: Mapping[str, np.ndarray], reference: Mapping[str, Any]
    ) -> tuple[float, float, str]:
        if variant.role == "probe":
            return float(outputs["left"]), 0.0, "integers that the first kernel did not set to zero"
        roundoff = float(variant.options.get("result_roundoff", 0.0))
        wrong, of = check(outputs["out"], reference["out"], roundoff)
        allowed = f"right to {roundoff:.1e} of their size" if roundoff else "exactly right"
        return float(wrong), 0.0, f"outputs of {of} that are not {allowed}"

    def conditions(self, variant: Variant) -> tuple[str, ...]:
        """Products of these integers are exact in each type that is multiplied here."""
        options = variant.options
        found = [f"rounds results to {PRECISIONS[variant.dtype]}"] if "result_roundoff" in options else []
        if variant.plan is tuned.CublasInt8:
            return (*found, *["finds the input unfolded beforehand"] * bool(options.get("prepared")))
        last = bool(options.get("channels_last"))
        return (*found, *[LAID_OUT] * (last or bool(options.get("prepared"))), *[CHANNELS_LAST] * last)

    def skip_reason(self, variant: Variant, case: Case) -> str | None:
        if variant.plan is Initialisation and case.scale == "test" and case.name != CASES["test"][0]:
            return f"on {CASES['test'][0]} alone: it computes no layer"
        if variant.plan in (tuned.CudnnInt8, tuned.CublasInt8) and not missing(variant):
            one = plans.layer(case)
            if one.depth % 16 or one.filters % 16 or one.size < 5:
                return "not on this case: int8 takes depth and filters by sixteen, and maps of 5x5 at least"
        return missing(variant)

    def series(self, scale: str) -> Sequence[Series]:
        layer = CASES[scale][0]
        shares = {"test": ZEROS[:: len(ZEROS) - 1], "quick": ZEROS[::3]}.get(scale, ZEROS)
        peer = ("torch-cpu", "torch-fp32", "torch-tf32", "torch-bf16")
        dense = (*DENSE, *peer)
        lists = ("lists", "built-lists", "strips", "cached-channels")
        return (
            Series("weight zeros", "From how many zeros in the weights on does sparse beat dense?",
                   "zeros in the weights, %", tuple((zeros, f"{layer}-w{zeros}") for zeros in shares),
                   (*lists, *dense), tuple(product(lists, dense))),
            Series("input zeros", "From how many zeros in the input on does it pay to skip those too?",
                   "zeros in the input, %, with one non-zero in each slice of a filter",
                   tuple((zeros, f"{layer}-x{zeros}") for zeros in shares),
                   (*lists[1:], "both-sparse"), tuple(("both-sparse", each) for each in ("strips", "built-lists", lists[-1]))),
        )  # fmt: skip

    def work(self, case: Case) -> Work:
        """The products of the weights that are not zero; each byte of the layer once."""
        layer, zeros = plans.layer(case), case.params["weight_zeros"]
        left = 1 / layer.kernel**2 if zeros is None else 1 - zeros / 100
        return Work(layer.flops * left, layer.bytes, layer.bytes)

    def sizes(self, case: Case) -> Mapping[str, int]:
        one = plans.layer(case)
        return {"DEPTH": one.depth, "FILTERS": one.filters, "SIZE": one.size, "TAPS": one.kernel}

    def traffic(self, case: Case, variant: Variant) -> float:
        """Input, weights and output once, in the type that is multiplied; what lies between launches is written and read."""
        layer, plan = plans.layer(case), variant.plan
        knobs = variant.source.settings if variant.source else {}
        x, weight, out = 2 * prod(layer.x_shape), 2 * prod(layer.weight_shape), 4 * prod(layer.out_shape)
        kept = self.work(case).flops / 2 / layer.size**2  # weights that are not zero
        between = 0.0
        if plan in (plans.Sequential, plans.SequentialC, plans.Pooled, plans.Lists):
            between = out if knobs.get("POOL") == "ATOMIC" else 4 * prod(layer.conv_shape)
        elif plan in (plans.Built, plans.Both):
            between = 8 * kept + 4 * layer.filters * layer.depth
            if plan is plans.Both:
                between += 4 * layer.filters * int(knobs["PARTS"]) * (layer.size + layer.kernel - 1) ** 2
        elif plan in (vectors.Vectors, vectors.Cached):
            between = 8 * kept
        elif plan is plans.Strips:
            between = 4 * kept + x / 2
        elif plan is plans.Tiles:
            between = 2 * weight
        elif plan in (plans.Tensor, tensor.Window, tensor.SplitK):
            if variant.options.get("prepared"):
                return (x + weight) / 2 + out
            between = (x + weight) / 2
        elif plan in (tuned.CudnnInt8, tuned.CublasInt8):
            laid = (x * (layer.kernel**2 if plan is tuned.CublasInt8 else 1) + weight) / 2
            between = 4 * prod(layer.conv_shape)
            if variant.options.get("prepared"):
                return laid + out + 2 * between
            between += laid
        elif plan is peers.Product:
            between = 4 * layer.kernel**2 * prod(layer.x_shape) + 4 * prod(layer.conv_shape)
        precision = variant.options.get("precision")
        wide, narrow = (2 if precision in ("fp32", "tf32") else 1), (2 if precision in ("fp16", "bf16") else 1)
        return wide * (x + weight) + out / narrow + 2 * between


def _case(name: str, scale: str) -> Case:
    layer, weights, values = named(name)
    return Case(name, scale, {"layer": asdict(layer), "weight_zeros": weights, "input_zeros": values}, 1)


LAB = SparseConvolution()
