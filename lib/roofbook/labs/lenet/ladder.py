"""The ladder of this lab and its peers: each step with its change, its expected effect, and its knobs."""

from pathlib import Path

from ...peers import one_thread, pytorch
from ...spec.hopper_step import ROUNDED, WGMMA, hopper_step
from ...spec.plan import Variant
from ...spec.prediction import FASTER, NO_GAIN, NO_LOSS, SLOWER, about, at_least, up_to
from ...spec.source import Source
from . import (
    forward,
    peers,
    producer,
    registers,
    reported,
    roles,
    sequential,
    streams,
    tuned,
    vectors,
    warpgroup,
    warps,
    whole,
    winograd,
)
from .problem import CONV2

HERE = Path(__file__).parent
LAYER = {"CHANNELS": CONV2.channels, "FILTERS": CONV2.filters, "SIZE": CONV2.size}
"""Sizes of the second convolution, for the kernels as shown; a plan sets each layer's sizes."""
LINEAR = Source.of(HERE / "linear.k", **LAYER)
LINEAR_CONSTANT = LINEAR.with_knobs(WEIGHTS="CONSTANT_MEMORY")
TILED_HALO = Source.of(HERE / "tiled_halo.k", **LAYER)
TILED_HALO_CONSTANT = TILED_HALO.with_knobs(WEIGHTS="CONSTANT_MEMORY")
TILED_HALO_ATOMIC = TILED_HALO_CONSTANT.with_knobs(CHANNELS_BY="ATOMIC")
DIRECT = Source.of(HERE / "direct.k", **LAYER)
DIRECT_CONSTANT = DIRECT.with_knobs(WEIGHTS="CONSTANT_MEMORY")
TILED = Source.of(HERE / "tiled.k", **LAYER)
TILED_CONSTANT = TILED.with_knobs(WEIGHTS="CONSTANT_MEMORY")
MULTIPLY = Source.of(HERE / "multiply.k", **LAYER)
MULTIPLY_CONSTANT = MULTIPLY.with_knobs(WEIGHTS="CONSTANT_MEMORY")
JOINT = Source.of(HERE / "joint.k", WEIGHTS="CONSTANT_MEMORY", **LAYER)
REGISTERS = Source.of(HERE / "registers.k", POOL=CONV2.pool, **LAYER)
FUSED_POOL = REGISTERS.with_knobs(ENDING="POOLED")
VECTORS = Source.of(HERE / "vectors.k", POOL=CONV2.pool, **LAYER)
FILTER_LANES = VECTORS.with_knobs(LANES="FILTERS_OF_PIXEL")
TENSOR = Source.of(HERE / "tensor.cu", **LAYER)
WARPS = Source.of(HERE / "warps.k", **LAYER)
WINOGRAD = Source.of(HERE / "winograd.k", POOL=CONV2.pool, **LAYER)
WINOGRAD_VECTORS = Source.of(HERE / "winograd_vectors.k", POOL=CONV2.pool, **LAYER)
PTX = frozenset({"ptx"})
WARPGROUP = Source.of(HERE / "warpgroup.cu", **LAYER)
PRODUCER = Source.of(HERE / "producer.cu", PARTS=2, WARPGROUPS=3)
WARPGROUP_WHOLE = Source.of(HERE / "warpgroup_whole.cu")
ROLES = Source.of(HERE / "roles.cu")
ON_CPU = frozenset({"cpu", "vector-types"})
NO_CONSTANT_MEMORY = {"PoCL": "a CPU has no separate constant memory"}

SEQUENTIAL = Source.of(HERE / "sequential.k", **LAYER)

LADDER = (
    Variant(
        "sequential-c", None, SEQUENTIAL, sequential.SequentialC,
        "Loops over images, filters and pixels in C, by the host's compiler with -O3, one thread.",
        "The obvious program: a sum may not be re-ordered, so the compiler forms vectors across pixels, or none.",
        frozenset({"host"}), options={"device": "host"}, role="base", description=one_thread.WORDS,
    ),
    Variant(
        "linear", None, LINEAR, reported.Linear,
        "One work-item per output; the outputs of all images form one line, in groups of 1024.",
        "The report's base: two loads per multiply-add, most of them from the L1 cache.",
        published="baseline (milestone 2)",
    ),
    Variant(
        "linear-constant", "linear", LINEAR_CONSTANT, reported.Linear,
        "The weights are in constant memory (#4).",
        "Neighbours in a line read the same weight at the same time; a constant cache sends it to all of them at once.",
        published="#4 constant memory", shows={"linear": r"ld\.const"},
        same_code=NO_CONSTANT_MEMORY, predicts={"gpu": FASTER},
    ),
    Variant(
        "tiled-halo", "linear", TILED_HALO, reported.TiledHalo,
        "All channels of the input are copied to local memory at once; 17 x 17 of 23 x 23 work-items have 2 x 2 outputs (#1).",
        "A loaded weight is used for four outputs. But nearly half of the work-items only load, and fewer groups fit at once.",
        differs=("source", "plan"), published="#1 tiled shared memory", shows={"tiled_halo": r"bar\.sync|barrier\.sync"},
    ),
    Variant(
        "tiled-halo-constant", "tiled-halo", TILED_HALO_CONSTANT, reported.TiledHalo,
        "Tiled, with the weights in constant memory (#1 and #4).",
        "The same gain as constant memory gave the base: about ten per cent.",
        published="#1+#4", shows={"tiled_halo": r"ld\.const"},
        same_code=NO_CONSTANT_MEMORY, predicts=about(1.1),
    ),
    Variant(
        "unrolled", "linear", MULTIPLY, forward.Unrolled,
        "The input is unrolled into a matrix in memory, 1000 images at a time, and multiplied by the weights in tiles (#2).",
        "The matrix is about forty times the input, and is written and read once: slower, whatever the product gains.",
        differs=("source", "plan"), shows={"multiply": r"bar\.sync|barrier\.sync"}, predicts=SLOWER,
    ),
    Variant(
        "unrolled-constant", "unrolled", MULTIPLY_CONSTANT, forward.Unrolled,
        "Unrolled, with the weights in constant memory (#2 and #4).",
        "No gain: the product reads each weight once per tile, and neighbours read different weights, one after another.",
        published="#2+#4 unroll + tiled matrix multiply", shows={"multiply": r"ld\.const"},
        same_code=NO_CONSTANT_MEMORY, predicts=NO_GAIN,
    ),
    Variant(
        "fused-constant", "unrolled-constant",
        Source.of(HERE / "fused.k", WEIGHTS="CONSTANT_MEMORY", **LAYER), forward.Fused,
        "One kernel unrolls while it loads its tile: no matrix in memory (#2, #3 and #4).",
        "No matrix goes through memory. But a multiply-add takes two loads from local memory, and layer 1 fills 4 of 16 rows.",
        differs=("source", "plan"), published="#2+#3+#4 fused unroll and multiply", predicts=FASTER,
    ),
    Variant(
        "linear-atomic", "linear-constant", LINEAR_CONSTANT.with_knobs(CHANNELS_BY="ATOMIC"), reported.LinearAtomic,
        "A group of 96 computes all input channels of its outputs, and adds them to zeros by atomic operations (#9 and #4).",
        "Layer 1 has one channel, so only the smaller groups differ. Layer 2 pays for four atomic additions per output.",
        differs=("source", "plan"), published="#9+#4 channel-parallel atomics",
        shows={"linear": r"(red|atom)\.(relaxed\.\w+\.)?global\.add\.f32"}, predicts=SLOWER,
    ),
    Variant(
        "tiled-halo-atomic", "tiled-halo-constant", TILED_HALO_ATOMIC, reported.TiledHaloAtomic,
        "Tiled, with one input channel per group and atomic additions to zeros (#1, #4 and #9).",
        "Slower, as without tiles: in layer 2 the additions cost more than parallel channels can save.",
        differs=("source", "plan"), published="#1+#4+#9",
        shows={"tiled_halo": r"(red|atom)\.(relaxed\.\w+\.)?global\.add\.f32"}, predicts=SLOWER,
    ),
    Variant(
        "joint", "fused-constant", JOINT, forward.Joint,
        "A work-item keeps 16 filters of one pixel in registers; weights go through local memory (#2, #3, #4 and #12).",
        "A register's input is used for 16 filters, a weight for 128 pixels: twice as fast in the layer with 16 filters.",
        differs=("source", "plan"), published="#2+#3+#4+#12 joint register and shared tiling", predicts=FASTER,
    ),
    Variant(
        "rotating-linear", "linear-constant", LINEAR_CONSTANT, reported.RotatingLinear,
        "Segments of 60 images on three queues in rotating roles: copy in, compute in groups of 96, copy out (#0 and #4).",
        "The op time grows, because kernels wait for copies. The layer time falls by the copies that overlap.",
        needs=frozenset({"streams"}), differs=("plan",), published="#0 streams (with #4; op time does not cover the work)",
        predicts=SLOWER,
    ),
    Variant(
        "rotating-halo", "tiled-halo-atomic", TILED_HALO_ATOMIC, reported.RotatingHalo,
        "The tiled and atomic kernels in segments of 125 images (#0, #1, #4 and #9).",
        "Slower again: a layer waits for the copies, whichever kernel overlaps them.",
        needs=frozenset({"streams"}), differs=("plan",), published="#0+#1+#4+#9", predicts=SLOWER,
    ),
    Variant(
        "rotating-joint", "joint", JOINT, reported.RotatingJoint,
        "The joint product in segments of 100 images (#0, #2, #3, #4 and #12).",
        "The fastest of the published kernels, but hardly a faster layer.",
        needs=frozenset({"streams"}), differs=("plan",), published="#0+#2+#3+#4+#12",
    ),
    Variant(
        "baseline", "linear", DIRECT, forward.Direct,
        "Groups of 16 x 16 pixels of one map, instead of a line of 1024 outputs.",
        "Neighbours in two directions share inputs. But 34 is two tiles and two pixels: in layer 2 half of the lanes idle.",
        differs=("source", "plan"),
    ),
    Variant(
        "constant", "baseline", DIRECT_CONSTANT, forward.Direct,
        "Groups of 16 x 16 pixels, with the weights in constant memory.",
        "A group reads the same weight at the same time; a constant cache sends it to all work-items at once: half the loads.",
        shows={"direct": r"ld\.const"},
        same_code=NO_CONSTANT_MEMORY, predicts={"gpu": FASTER},
    ),
    Variant(
        "tiled", "baseline", TILED, forward.Tiled,
        "Groups of 17 x 17 work-items copy the input to local memory, channel by channel; each work-item has 2 x 2 outputs.",
        "A loaded weight is used for four outputs. Local memory replaces a cache that held the input: a gain in layer 2 only.",
        differs=("source", "plan"), shows={"tiled": r"bar\.sync|barrier\.sync"}, predicts=FASTER,
    ),
    Variant(
        "tiled-constant", "tiled", TILED_CONSTANT, forward.Tiled,
        "Tiles in local memory, with the weights in constant memory.",
        "The same gain as constant memory gave the baseline: about ten per cent.",
        shows={"tiled": r"ld\.const"},
        same_code=NO_CONSTANT_MEMORY, predicts=about(1.1),
    ),
    Variant(
        "atomic-channels", "constant", DIRECT_CONSTANT.with_knobs(CHANNELS_BY="ATOMIC"), forward.Direct,
        "A group has one input channel and adds to the output by atomic operations.",
        "There are more than enough groups already, and layer 2 pays for four atomic additions per output.",
        shows={"direct": r"(red|atom)\.(relaxed\.\w+\.)?global\.add\.f32"}, predicts=SLOWER,
    ),
    Variant(
        "tiled-atomic", "tiled-constant", TILED_CONSTANT.with_knobs(CHANNELS_BY="ATOMIC"), forward.Tiled,
        "Tiled, with one input channel per group and atomic additions.",
        "Slower, as without tiles: in layer 2 the additions cost more than parallel channels can save.",
        shows={"tiled": r"(red|atom)\.(relaxed\.\w+\.)?global\.add\.f32"}, predicts=SLOWER,
    ),
    Variant(
        "streams", "constant", DIRECT_CONSTANT, streams.StreamsDirect,
        "Segments of at most 100 images on three queues: copies of one overlap kernels of another.",
        "The op time grows, because kernels wait for copies. The layer time falls by the copies that overlap.",
        needs=frozenset({"streams"}), differs=("plan",), predicts=SLOWER,
    ),
    Variant(
        "streams-tiled", "tiled-atomic", TILED_CONSTANT.with_knobs(CHANNELS_BY="ATOMIC"), streams.StreamsTiled,
        "The tiled and atomic kernels in segments.",
        "Slower again: a layer waits for the copies, whichever kernel overlaps them.",
        needs=frozenset({"streams"}), differs=("plan",), predicts=SLOWER,
    ),
    Variant(
        "streams-joint", "joint", JOINT, streams.StreamsJoint,
        "The joint product in segments.",
        "The fastest of the published kernels, but hardly a faster layer.",
        needs=frozenset({"streams"}), differs=("plan",),
    ),
    Variant(
        "pinned", "streams", DIRECT_CONSTANT, streams.StreamsDirect,
        "Page-locked memory on the host: the device copies by itself, in both directions at once.",
        "From pageable memory a copy passes through a driver buffer while the host waits, so nothing overlapped.",
        needs=frozenset({"streams", "pinned"}), options={"pinned": True}, differs=("options",),
    ),
    Variant(
        "registers", "joint", REGISTERS, registers.Registers,
        "A work-item keeps 32 to 40 outputs in registers, in a shape for each layer; inputs are copied to local memory once.",
        "A loaded input is used for 4 filters, a weight for 8 pixels, with one barrier: arithmetic bounds it.",
        differs=("source", "plan"), predicts=FASTER,
    ),
    Variant(
        "fused-pool", "registers", FUSED_POOL, registers.Pooled,
        "ReLU and pooling in registers: each work-item owns whole pooling windows.",
        "Writes a quarter of layer 1's output and a fourteenth of layer 2's. ReLU and pooling then cost nothing.",
        differs=("source", "plan"), predicts=NO_LOSS,
    ),
    Variant(
        "winograd", "fused-pool", WINOGRAD, winograd.Winograd,
        "Winograd's algorithm in fp32, along rows: ten products for four outputs and a row of taps, not 28. Weights are "
        "transformed in each call. The mean errors may be four times those of plain sums, as a library's may.",
        "2.8 times fewer products. Inputs and outputs must be transformed as well: at most 2.8 times as fast.",
        options={"transformed": True}, differs=("source", "plan", "options"), predicts={"gpu": up_to(2.8)},
    ),
    Variant(
        "vectors", "registers", VECTORS, vectors.Vectors,
        "For a CPU: explicit vectors of sixteen columns, 4 filters by a row in registers; a work-item takes whole images.",
        "No barrier, no copy of the input: each loaded vector is multiplied four times. Layer 2's rows do not fill their last "
        "vector.",
        ON_CPU, kind="cpu", differs=("source", "plan"), predicts=FASTER,
    ),
    Variant(
        "filter-lanes", "vectors", FILTER_LANES, vectors.Vectors,
        "Layer 2's vectors are the 16 filters of a pixel, 17 pixels in registers; a row's outputs are transposed at its end.",
        "No lane is idle, and an input is read once for the seven taps of a row: arithmetic bounds it.",
        ON_CPU, kind="cpu", predicts=FASTER,
    ),
    Variant(
        "pooled-vectors", "filter-lanes", FILTER_LANES.with_knobs(ENDING="POOLED"), vectors.PooledVectors,
        "ReLU and pool as well: a row of windows stays in the nearest cache until its last row of outputs.",
        "Nothing is transposed, and only a quarter of layer 1's output is written: this saves more than ReLU and pool cost.",
        ON_CPU, kind="cpu", differs=("source", "plan"), predicts=FASTER,
    ),
    Variant(
        "winograd-vectors", "pooled-vectors", WINOGRAD_VECTORS, winograd.WinogradVectors,
        "Winograd's algorithm as in `winograd`. Layer 1's vectors are sixteen tiles of four outputs, layer 2's the 16 filters. "
        "An image's transformed inputs stay in the second cache.",
        "With the transformations, counted in vector instructions: a third fewer for layer 1, less than half for layer 2.",
        ON_CPU, kind="cpu", options={"transformed": True}, differs=("source", "plan", "options"), predicts=about(1.9),
    ),
    Variant(
        "halves", "fused-pool", FUSED_POOL.with_knobs(ARITHMETIC="HALVES"), registers.Pooled,
        "Operands in fp16, two filters per product; a row of seven products is summed in fp16, rows are added up in fp32.",
        "Twice the products per instruction, but every seventh pays for adding to the fp32 sums: less than twice as fast.",
        frozenset({"half2"}), options={"operand_roundoff": 2.0**-11, "rounded_sums": 7, "conv1": "4x2x4/2x1"},
        differs=("source", "options"), dtype="float16", shows={"registers": r"fma\.rn\.f16x2"}, predicts=up_to(2),
    ),
    Variant(
        "tensor", "fused-pool", TENSOR, registers.Tensor,
        "Tensor cores, fp16 operands and sums in fp32: weights stay in registers, a block computes image after image.",
        "The arithmetic is hidden behind memory: the time left is that of reading the input once.",
        frozenset({"mma"}), options={"operand_roundoff": 2.0**-11}, differs=("source", "plan", "options"), dtype="float16",
        shows={"tensor": r"mma\.sync"}, predicts=FASTER,
    ),
    Variant(
        "warps", "fused-pool", WARPS, warps.Warps,
        "The method of `tensor` from OpenCL, by PTX in the text: tensor cores, fp16 operands and sums in fp32.",
        "The same instructions as from CUDA, and 24 KiB of local memory suffice, so the same time: a quarter of its parent's.",
        PTX, kind="gpu", options={"operand_roundoff": 2.0**-11}, differs=("source", "plan", "options"), dtype="float16",
        shows={"warps": r"mma\.sync"}, predicts=about(4.4),
    ),
    Variant(
        "warps-ahead", "warps", WARPS.with_knobs(INPUT="AHEAD"), warps.Warps,
        "The next image is copied to local memory, as it is, while the last one is multiplied; it is rounded from there.",
        "Copies hide behind products, so a group hardly waits for its image.",
        PTX, kind="gpu", options={"operand_roundoff": 2.0**-11}, dtype="float16", shows={"warps": r"cp\.async"},
        predicts=FASTER,
    ),
    Variant(
        "whole", "fused-pool", FUSED_POOL, whole.WholePooled,
        "The whole forward pass on the device, dense layers included; maps never return to the host.",
        "A few per cent more work, and only the input and the scores are copied.",
        differs=("plan",), predicts=at_least(1 / 1.1),
    ),
    Variant(
        "whole-tensor", "tensor", TENSOR, whole.WholeTensor,
        "The whole forward pass, convolutions on tensor cores.",
        "A few per cent more work than the faster convolutions.",
        frozenset({"mma"}), options={"operand_roundoff": 2.0**-11}, differs=("plan",), dtype="float16",
        predicts=at_least(1 / 1.1),
    ),
    Variant(
        "graph", "whole-tensor", TENSOR, whole.WholeTensor,
        "The three launches recorded as a CUDA graph.",
        "The gaps between kernels close. This shows if kernels are short: with few images.",
        frozenset({"mma", "graphs"}), options={"operand_roundoff": 2.0**-11, "graph": True}, differs=("options",),
        dtype="float16", predicts={"small": FASTER},
    ),
    hopper_step(
        "warpgroup", "tensor", WARPGROUP, warpgroup.WarpgroupPooled,
        "Hopper's warpgroup products, of overlapping operands in shared memory: neighbouring pixels are neighbouring columns.",
        "Threads load no operands, so memory and products overlap: up to three times as fast.",
        WGMMA, options=ROUNDED, differs=("source", "plan"), shows={"warpgroup": r"wgmma\.mma_async"}, predicts=up_to(3),
    ),
    hopper_step(
        "split-pool", "warpgroup", WARPGROUP.with_knobs(PARTS=2), warpgroup.WarpgroupPooled,
        "Each operand is split into two fp16 parts; three products, the small ones first, in several sums.",
        "Three times the products for the error of fp32: two to three times as slow, and a third of the time of fp32 products.",
        WGMMA, differs=("source", "options"), predicts=about(1 / 2.5),
    ),
    hopper_step(
        "split", "split-pool", WARPGROUP.with_knobs(PARTS=2, ENDING="MAPS"), warpgroup.Warpgroup,
        "Split operands without ReLU and pool: the same outputs as `registers`.",
        "Writes four and fourteen times as much: memory bounds layer 1, and short stores slow layer 2.",
        WGMMA, differs=("source", "plan"), predicts=SLOWER,
    ),
    hopper_step(
        "split-producer", "split", PRODUCER, producer.Producer,
        "Layer 1's warpgroups have roles: one fetches images and splits them, two multiply. Weights are in registers, and rows "
        "have less padding, so that a product has 88 columns.",
        "The warpgroups that multiply never wait for input. But threads still wait for their stores, in pieces of 32 bytes.",
        WGMMA, differs=("source", "plan"), shows={"producer": r"setmaxnreg"}, predicts=FASTER,
    ),
    hopper_step(
        "split-boxes", "split-producer", PRODUCER.with_knobs(STORES="BOXES"), producer.Producer,
        "Outputs go to shared memory; from there TMA writes a tile of a map as one box.",
        "Products no longer wait for stores, so memory bounds layer 1.",
        WGMMA, shows={"producer": r"cp\.async\.bulk\.tensor\.4d\.global"}, predicts=FASTER,
    ),
    hopper_step(
        "whole-fused", "whole-tensor", WARPGROUP_WHOLE, warpgroup.WholeWarpgroup,
        "The whole forward pass: one kernel takes an image through both convolutions on the chip, then dense layers in TF32.",
        "Two fifths of the bytes, and warpgroup products: two to three times as fast.",
        WGMMA, options=ROUNDED, differs=("source", "plan"), shows={"warpgroup_whole": r"wgmma\.mma_async"},
        predicts=about(2.5),
    ),
    hopper_step(
        "whole-split", "whole-fused", WARPGROUP_WHOLE.with_knobs(PARTS=2), warpgroup.WholeWarpgroup,
        "The whole pass in one kernel with operands split into two parts, and the dense layers in fp32.",
        "Three times the products, and room for the inputs of only two warpgroups a block, which wait more: a third as fast.",
        WGMMA, differs=("source", "options"), predicts=about(1 / 3),
    ),
    hopper_step(
        "whole-roles", "whole-fused", ROLES, roles.WholeRoles,
        "Warpgroups have roles, and work at once: one fetches images and computes scores, one computes layer 1, two compute "
        "layer 2 and the first dense layer, in fp16.",
        "One launch instead of two, and a tenth fewer products; weights in registers. Layers overlap: up to twice as fast.",
        WGMMA, options=ROUNDED, differs=("source", "plan"), shows={"roles": r"setmaxnreg"}, predicts=up_to(2),
    ),
)  # fmt: skip

PEERS = (
    pytorch.on_cpu(peers.Convolutions),
    Variant(
        "openmp", None, None, peers.OpenMP, "A page of C + OpenMP: 4 filters by 4 vectors of pixels in registers, all cores.",
        "Shows how fast a CPU can be without a library.", needs=frozenset({"host"}), role="peer",
    ),
    pytorch.on_gpu(
        "torch-fp32", peers.Convolutions, "PyTorch and cuDNN, fp32, TF32 off.",
        "The speed that a user of fp32 gets.", "fp32",
    ),
    pytorch.on_gpu(
        "torch-tf32", peers.Convolutions, "PyTorch and cuDNN, TF32, channels last.",
        "cuDNN's default, at its best.", "tf32", channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-fp16", peers.Convolutions, "PyTorch and cuDNN, fp16, channels last.",
        "Half of the bytes.", "fp16", channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-bf16", peers.Convolutions, "PyTorch and cuDNN, bf16, channels last.",
        "As many bytes, fewer digits.", "bf16", channels_last=True,
    ),
    pytorch.on_gpu(
        "cublas", peers.Products, "1000 images at a time unfolded to matrices, and cuBLAS; fp32, TF32 off.",
        "The step `unrolled` by a library: the matrix is about forty times the input, whoever multiplies it.", "fp32",
    ),
    pytorch.on_gpu(
        "torch-whole", peers.TorchWhole, "PyTorch and cuDNN, the whole forward pass, convolutions in fp16.",
        "Each layer, also ReLU and pooling, writes its output to memory for the next one.", "fp16", channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-whole-compiled", peers.TorchWhole, "The whole forward pass by torch.compile.",
        "ReLU and pool become one kernel; the convolutions stay the library's.", "fp16", channels_last=True, compile=True,
    ),
    pytorch.on_gpu(
        "torch-folded", tuned.Folded,
        "PyTorch and cuDNN, fp16: blocks of pixels folded into channels, ReLU and pool compiled, one CUDA graph a layer.",
        "cuDNN's tensor cores need several channels. From float32 images to pooled float32 maps, like `tensor`.",
        "fp16", compile=True,
    ),
    pytorch.on_gpu(
        "torch-folded-fp32", tuned.Folded,
        "PyTorch and cuDNN, fp32, TF32 off: blocks of pixels folded into channels, ReLU and pool compiled.",
        "The added products are all with zeros, but these kernels are made for more channels.",
        "fp32", compile=True, conv1="1x4", conv2="1x2",
    ),
    pytorch.on_gpu(
        "torch-whole-folded", tuned.FoldedWhole, "The whole forward pass by folded convolutions in fp16, as one CUDA graph.",
        "Between two convolutions there is one kernel, which reads and writes once.", "fp16", compile=True,
    ),
)  # fmt: skip
