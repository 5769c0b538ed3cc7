"""The ladder of this lab and its peers: each step with its change, its expected effect, and its knobs."""

from pathlib import Path

from ...devices import hopper
from ...peers import one_thread, openvino, pytorch
from ...peers.python_kernel import python_kernel
from ...spec.hopper_step import CLUSTERS, hopper_step
from ...spec.plan import ONE_WORK_ITEM, Variant
from ...spec.prediction import FASTER, NO_GAIN, SAME, SEVERAL, SLOWER, about
from ...spec.source import Source
from . import amx, languages, parts, peers, plans, tensor, tuned, vectors, vnni, warps
from .initialise import Initialisation
from .whole_program import WholeProgram

HERE = Path(__file__).parent
CACHE_OPERATORS = frozenset({"cache-operators"})
LAYER = {"DEPTH": 512, "FILTERS": 512, "SIZE": 32, "TAPS": 3}
"""Sizes of the published layer, for the kernels as shown; a plan sets the sizes of the case."""
ROWS = Source.of(HERE / "dense.k", **LAYER)
PIXELS = ROWS.with_knobs(GRID="FILTER_GROUPS")
UNROLLED = PIXELS.with_knobs(UNROLL="UNROLLED")
SHARED = UNROLLED.with_knobs(INDEX="SHARED")
STRIPS = Source.of(HERE / "strips.k", **LAYER)
BOTH = Source.of(HERE / "both.k", **LAYER)
TENSOR = Source.of(HERE / "tensor.cu", **LAYER)
WINDOW = Source.of(HERE / "tensor_window.cu", **LAYER)
SPLIT_K = Source.of(HERE / "tensor_split_k.cu", **LAYER)
PARTS = Source.of(HERE / "tensor_parts.cu", **LAYER)
WARPS = Source.of(HERE / "warps.k", **LAYER)
PTX = frozenset({"ptx"})
POOL = Source.of(HERE / "pool.k", FILTERS=512, SIZE=32)
LISTS = Source.of(HERE / "lists.k", **LAYER)
VECTORS = Source.of(HERE / "vectors.k", **LAYER)
ON_CPU = frozenset({"cpu", "vector-types"})
VNNI = Source.of(HERE / "vnni.k", **LAYER)
VNNI_LISTS = Source.of(HERE / "vnni_lists.k", **LAYER)
AMX = Source.of(HERE / "amx.k", **LAYER)
ON_VNNI = ON_CPU | {"vnni"}

SEQUENTIAL = Source.of(HERE / "sequential.k", **LAYER)

ONE_WORK_ITEM_STEP = Variant(
    "sequential", None, SEQUENTIAL, plans.Sequential,
    "One work-item computes the whole layer, zeros included.",
    "The baseline: one core, and eight of nine products are by zero.",
    frozenset({"cpu"}), options={"device": "host"}, dtype="int32", description=ONE_WORK_ITEM,
)  # fmt: skip

LADDER = (
    ONE_WORK_ITEM_STEP,
    one_thread.as_c(
        ONE_WORK_ITEM_STEP, plans.SequentialC,
        "Sums of integers may be taken in any order, so the compiler adds up vectors: several times faster.",
        SEVERAL,
    ),
    Variant(
        "row-groups", "sequential", ROWS, plans.Pooled,
        "One group per row of a filter's map, one work-item per column; pooling is a second kernel.",
        "Groups of 32 fill half of a multiprocessor or less: too few work-items to hide memory latency.",
        differs=("source", "plan", "options"), dtype="int32",
    ),
    Variant(
        "filter-groups", "row-groups", PIXELS, plans.Pooled,
        "One group per filter, one work-item per pixel.",
        "Groups of 1024 give full occupancy, and each input that a group loads is used for a whole map.",
        dtype="int32", predicts={"gpu": FASTER},
    ),
    Variant(
        "atomic-pool", "filter-groups", PIXELS.with_knobs(POOL="ATOMIC"), plans.Pooled,
        "Pooling inside the kernel by atomic maximum: a failed attempt of the report.",
        "Saves writing and reading a map, costs four atomic operations per output: the report lost one or two milliseconds.",
        shows={"dense": r"red\.(global\.)?max|atom\.(global\.)?max"}, dtype="int32", predicts=SLOWER,
    ),
    Variant(
        "cached", "filter-groups", PIXELS.with_knobs(LOADS="CACHED"), plans.Pooled,
        "Global loads name the L1 cache (ld.global.ca), instead of the path for read-only data.",
        "Nothing to gain: on today's GPUs both are the same cache. The next step is compared with this one.",
        CACHE_OPERATORS, dtype="int32", shows={"dense": r"ld\.global\.ca\.[su]16"}, omits={"dense": r"ld\.global\.nc"},
        predicts=NO_GAIN,
    ),
    Variant(
        "uncached", "cached", PIXELS.with_knobs(LOADS="UNCACHED"), plans.Pooled,
        "The same loads bypass the L1 cache, as on the report's GPU before it set the architecture flag (ld.global.cg).",
        "Every work-item of a group reads the same weight and its neighbours' inputs, mostly from the L1 cache.",
        CACHE_OPERATORS, dtype="int32", shows={"dense": r"ld\.global\.cg\.[su]16"}, omits={"dense": r"ld\.global\.ca"},
        predicts=SLOWER,
    ),
    Variant(
        "fast-math", "filter-groups", PIXELS, plans.Pooled,
        "Compiled for fast arithmetic.",
        "No effect: the kernel has no floating point.",
        needs=frozenset({"fast-math"}), options={"fast_math": True}, differs=("options",), dtype="int32",
        same_code=dict.fromkeys(("NVRTC", "PoCL"), "the flag is about floating point, and the kernel has none"), predicts=SAME,
    ),
    Variant(
        "unrolled", "filter-groups", UNROLLED, plans.Pooled,
        "The loops over the taps are unrolled.",
        "The same products, with fewer comparisons and indices.",
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
        "The group turns 128 channels of its filter into lists of non-zeros in local memory, then walks the lists.",
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
        "Texture units have their own cache for neighbours, but another cache already holds the input.",
        needs=frozenset({"images"}), shows={"lists": r"tex\.2d"}, dtype="int32", predicts=NO_GAIN,
    ),
    Variant(
        "line-image", "lists", LISTS.with_knobs(STAGING="LINE_READS"), plans.LineLists,
        "The input is an image of one dimension, as in the report.",
        "Its lines in the texture units' cache hold neighbours of a row, like those of any cache: nothing to gain.",
        needs=frozenset({"images"}), shows={"lists": r"tex\.1d"}, differs=("source", "plan"), dtype="int32", predicts=NO_GAIN,
    ),
    Variant(
        "built-lists", "lists", Source.of(HERE / "built.k", **LAYER), plans.Built,
        "A separate kernel builds the lists once; each work-item owns a pooling window.",
        "Each entry is used for four products, pooling needs no memory, and no group searches for zeros again.",
        differs=("source", "plan"), dtype="int32", predicts=FASTER,
    ),
    Variant(
        "vectors", "built-lists", VECTORS, vectors.Vectors,
        "For a CPU: one launch in which a work-item writes a filter's list and walks it, with 8 x 32 outputs in vectors.",
        "An entry is read once for 256 products. The input of all channels passes through the nearest cache once a filter.",
        ON_CPU, kind="cpu", differs=("source", "plan"), dtype="int32", predicts={"cpu": FASTER},
    ),
    Variant(
        "cached-channels", "vectors", VECTORS.with_knobs(TOGETHER=8, CHUNK=32), vectors.Cached,
        "Some channels at a time, for eight filters in turn, whose sums wait in memory.",
        "Eight filters find their inputs in the nearest cache. The input of a layer with few channels was there already.",
        ON_CPU, kind="cpu", differs=("source", "plan"), dtype="int32",
    ),
    Variant(
        "vnni-lists", "cached-channels", VNNI_LISTS, vnni.VnniLists,
        "For a CPU with AVX-512 VNNI: bytes of four entries are interleaved, and one instruction multiplies and adds them.",
        "For 64 outputs and four entries, eight instructions interleave and four multiply and add. Vectors of int32 take "
        "sixteen that widen, sixteen that multiply and sixteen that add: four times as many.",
        ON_VNNI, kind="cpu", differs=("source", "plan"), dtype="int8", predicts={"cpu": about(4)},
    ),
    Variant(
        "vnni-lists-prepared", "vnni-lists", VNNI_LISTS, vnni.VnniLists,
        "Bytes and lists are made beforehand, as a library's user would keep them.",
        "Shows the cost of both: one pass over input and weights.",
        ON_VNNI, kind="cpu", options={"prepared": True}, differs=("options",), dtype="int8", predicts={"cpu": FASTER},
    ),
    Variant(
        "strips", "built-lists", STRIPS, plans.Strips,
        "Sixteen outputs per work-item in registers; the input is in local memory as bytes, shared by eight filters.",
        "An entry is read once for sixteen products, and one word loads four inputs: now arithmetic bounds it.",
        differs=("source", "plan"), shows={"strips": r"dp4a"}, dtype="int32", predicts=FASTER,
    ),
    Variant(
        "strips-prepared", "strips", STRIPS, plans.Strips,
        "Bytes and lists are made beforehand, as a library's user would keep them.",
        "Shows the cost of both: two launches, one pass over input and weights.",
        options={"prepared": True}, differs=("options",), dtype="int32", predicts=FASTER,
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
        "Nine times the products of the lists, but nothing to look up: each load is used for four to eight products.",
        differs=("source", "plan"), predicts=FASTER,
    ),
    Variant(
        "tensor-int8", "tiles", TENSOR, plans.Tensor,
        "Tensor cores: values as bytes, exact sums in int32; a tile of input in shared memory is used for all taps.",
        "About twenty times the rate of multiply-adds: even nine times the products then cost less than lists.",
        frozenset({"mma"}), differs=("source", "plan"), dtype="int8", shows={"tensor": r"mma\.sync.*s8"}, predicts=FASTER,
    ),
    Variant(
        "tensor-prepared", "tensor-int8", TENSOR, plans.Tensor,
        "Input and weights are laid out beforehand, as a library's user would keep them.",
        "Shows the cost of the layout: two launches, one pass over input and weights.",
        frozenset({"mma"}), options={"prepared": True}, differs=("options",), dtype="int8", predicts=FASTER,
    ),
    hopper_step(
        "tensor-window", "tensor-prepared", WINDOW, tensor.Window,
        "Warpgroup products from shared memory; clusters of eight blocks load each weight once for all of them.",
        "Latency is the bound, and asynchronous products and copies hide it: twice as fast.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, differs=("source", "plan", "options"),
        dtype="int8", shows={"tensor": r"wgmma\.mma_async.*s8"}, predicts=about(2),
    ),
    hopper_step(
        "tensor-split-k", "tensor-window", SPLIT_K, tensor.SplitK,
        "Two blocks split the products of a tile, so each one's weights fit its shared memory; at the end they exchange sums.",
        "No copy waits for a product, and clusters of two fill every multiprocessor.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, differs=("source", "plan"), dtype="int8",
        shows={"tensor": r"wgmma\.mma_async.*m64n128k32.*s8"}, predicts=FASTER,
    ),
    hopper_step(
        "tensor-tall", "tensor-split-k", SPLIT_K.with_knobs(TILE_H=32), tensor.SplitK,
        "Blocks of 32 x 8 outputs instead of 16 x 8: half as many blocks, and products twice as wide.",
        "A product of 64 by 128 reads 96 bytes of shared memory a cycle, of 128 that there are; of 64 by 256, 80. With "
        "1024 channels and filters, 128 blocks fill the chip once, not twice, and read 62 MB from the cache instead of 102: 17 "
        "us instead of 29. On smaller layers half of the chip is idle.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, dtype="int8",
        shows={"tensor": r"wgmma\.mma_async.*m64n256k32.*s8"},
    ),
    hopper_step(
        "tensor-parts", "tensor-split-k", PARTS, parts.Parts,
        "One to eight blocks share the products of a tile, as many as the chip has room for. Tiles have 32 or 16 rows if pairs "
        "of blocks then fill the chip, and otherwise 8. Boxes of pixels lie ready in memory, so a copy needs no description of "
        "the tensor. A barrier counts the sums that come from other blocks.",
        "With 1024 channels and filters 128 halves of tiles of 32 rows fill an H200 once, where the parent's 256 halves of 16 "
        "rows take two turns. With 192 channels and 256 filters 128 halves of 8 rows fill it, where the parent's 64 leave half "
        "of it idle. With 96 channels and 128 filters 128 quarters of 8 rows do. With 512 channels and filters both steps have "
        "the same halves. There only two waits are saved: for the tensor's description, and for the other block.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, differs=("source", "plan"), dtype="int8",
        shows={"tensor": r"st\.async\.weak"}, omits={"tensor": r"cp\.async\.bulk\.tensor"}, predicts=FASTER,
    ),
    hopper_step(
        "tensor-multicast", "tensor-parts", PARTS.with_knobs(SHARING=2), parts.Parts,
        "Neighbouring tiles of the same filters are in one cluster, and the weights of each step are fetched once for two "
        "blocks.",
        "A step is 128 channels at one tap. With tiles of 16 x 8 outputs and 3 x 3 taps it reads 8 KB of weights and 2.6 KB of "
        "pixels from the L2. If two blocks share the weights, each reads half of them.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, dtype="int8",
        shows={"tensor": r"multicast::cluster"}, predicts=FASTER,
    ),
    hopper_step(
        "tensor-no-products", "tensor-parts", PARTS.with_knobs(LEFT_OUT="PRODUCTS_ALONE"), parts.Parts,
        "No product. Blocks fetch all operands, exchange sums of zero, and store them.",
        "The time of a launch, of the copies from the L2 and of the exchange.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, dtype="int8", role="probe",
        omits={"tensor": r"wgmma\.mma_async"},
    ),
    hopper_step(
        "tensor-launch", "tensor-parts", PARTS.with_knobs(LEFT_OUT="ALL_BUT_STORES"), parts.Parts,
        "A launch of the same clusters, whose blocks store zeros and end.",
        "The least time of any kernel that stores the result.",
        CLUSTERS, options={"prepared": True, "build": hopper.COMPILER_OPTIONS}, dtype="int8", role="probe",
        omits={"tensor": r"cp\.async\.bulk"},
    ),
    Variant(
        "warps-int8", "tiles", WARPS, warps.Warps,
        "Tensor cores from OpenCL, by PTX in the text: products of a warp in int8. Operands are laid out beforehand.",
        "On an H200 products take 4 us at the peak, copies from L2 6 and a launch 3. They hide each other only in part: 15 us.",
        PTX, kind="gpu", options={"prepared": True}, differs=("source", "plan", "options"), dtype="int8",
        shows={"tensor": r"mma\.sync.*s8"}, predicts=about(11),
    ),
    Variant(
        "vnni", "vnni-lists-prepared", VNNI, vnni.Vnni,
        "For a CPU with AVX-512 VNNI: every product, in bytes; tiles of filters and pixels in registers, and no list.",
        "Nine times the products, but nothing to interleave: three times as many instructions. The published layer of 512 "
        "filters is 38 million of them. At one a cycle these take 5 ms on two cores at 3.7 GHz.",
        ON_VNNI, kind="cpu", options={"prepared": True}, differs=("source", "plan"), dtype="int8",
        predicts={"cpu": about(1 / 3)},
    ),
    Variant(
        "amx", "vnni", AMX, amx.Amx,
        "For a CPU with AMX: every product, by one instruction for a tile of 16 filters, 64 channels and 16 pixels.",
        "An instruction has 256 times the products of `vnni`'s and takes 16 cycles, where a core takes one or two of those a "
        "cycle: eight times faster at its peak. Each needs a load of 1 KB, whose lines come from the second cache.",
        ON_CPU | {"amx-int8"}, kind="cpu", options={"prepared": True}, differs=("source", "plan"), dtype="int8",
        predicts={"cpu": about(4)},
    ),
    Variant(
        "initialisation", "sequential", POOL, Initialisation,
        "No layer at all: a new process opens the device and runs one small kernel.",
        "The time before a program's first result, however fast its kernels are.",
        needs=frozenset({"driver-api"}),
        role="probe", differs=("source", "plan", "options"), dtype="int32",
    ),
    Variant(
        "whole-program", "lists", LISTS, WholeProgram,
        "A new process with one layer in it: it opens the device, copies the operands there, and copies the result back.",
        "Most of the time is the driver's start. The report's kernels took a fifth of such a program; faster ones take less.",
        role="probe", differs=("plan",), dtype="int32",
    ),
)  # fmt: skip

PEERS = (
    pytorch.on_cpu(peers.TorchConvolution),
    openvino.on_cpu(
        peers.OpenVino, "fp32", "OpenVINO on the CPU, fp32.", "All products, by code made for the processor.",
    ),
    openvino.on_cpu(
        peers.OpenVino, "bf16", "OpenVINO on the CPU, bf16.",
        "Operands are exact, results may be rounded to bf16; a CPU with AVX-512 BF16 or AMX multiplies it faster.",
        result_roundoff=2.0**-8,
    ),
    openvino.on_cpu(
        peers.OpenVino, "int8", "OpenVINO on the CPU, quantised to int8: the input is rounded in each call.",
        "All products, in bytes, with exact sums: the method of `vnni`, and of AMX where the CPU has it.",
    ),
    Variant(
        "openmp", None, None, peers.OpenMP, "A page of C + OpenMP: lists of non-zeros, sums in registers, all cores.",
        "Shows how fast a CPU can be if it skips the zeros.", needs=frozenset({"host"}), role="peer",
    ),
    pytorch.on_gpu(
        "torch-fp32", peers.TorchConvolution, "PyTorch and cuDNN, fp32, TF32 off.",
        "All products, in fp32.", "fp32",
    ),
    pytorch.on_gpu(
        "torch-tf32", peers.TorchConvolution, "PyTorch and cuDNN, TF32, channels last.",
        "These integers fit TF32: exact, on tensor cores.", "tf32", exact_operands=True, channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-fp16", peers.TorchConvolution, "PyTorch and cuDNN, fp16, channels last.",
        "Operands are exact, results are rounded to fp16, which ends at 65504. Larger results, as with 1024 channels, become "
        "infinite, so they are wrong.", "fp16", exact_operands=True, channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-bf16", peers.TorchConvolution, "PyTorch and cuDNN, bf16, channels last.",
        "Operands are exact, results are rounded to bf16, which has the range for any sum.",
        "bf16", exact_operands=True, channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-compiled", peers.TorchConvolution, "PyTorch and cuDNN, fp16, channels last, by torch.compile.",
        "ReLU and pool become one kernel; the convolution stays the library's. Results above 65504 become infinite, as "
        "with `torch-fp16`.", "fp16", exact_operands=True, channels_last=True, compile=True,
    ),
    pytorch.on_gpu(
        "cublas", peers.Product, "The input unfolded to a matrix, 9 times as large, and cuBLAS; fp32, TF32 off.",
        "All products, and the matrix is written and read first.", "fp32",
    ),
    pytorch.on_gpu(
        "cudnn-int8", tuned.CudnnInt8,
        "cuDNN's own graph in int8, exact sums in int32, ReLU and pool by torch.compile; converting int16 to bytes is timed.",
        "The method of `tensor-int8`, by a library.", dtype="int8", compile=True,
    ),
    pytorch.on_gpu(
        "cudnn-int8-prepared", tuned.CudnnInt8,
        "cuDNN's own graph in int8, exact sums in int32, ReLU and pool by torch.compile; operands are bytes beforehand.",
        "Two kernels, with sums of four bytes in memory between them; `tensor-prepared` is one kernel.",
        dtype="int8", compile=True, prepared=True,
    ),
    pytorch.on_gpu(
        "cublas-int8", tuned.CublasInt8, "The input unfolded as bytes and cuBLAS in int8; unfolding is timed.",
        "A quarter of the bytes of `cublas`; small tiles leave most of the chip idle.", dtype="int8", compile=True,
    ),
    pytorch.on_gpu(
        "cublas-int8-prepared", tuned.CublasInt8,
        "The input unfolded as bytes and cuBLAS in int8, with the matrix ready in memory: unfolding is not timed.",
        "Only the product with ReLU and pool.", dtype="int8", compile=True, prepared=True,
    ),
    python_kernel(
        "triton-int8", "tensor-prepared", languages.TritonLayer, "Triton: all products in int8, operands laid out beforehand.",
        "Each tap reads its pixels from the L2 again, and no cluster shares weights: half as fast as `tensor-split-k`.",
        dtype="int8", prepared=True, windows=16, filters=64, warps=4, stages=7,
    ),
    python_kernel(
        "cute-int8", "tensor-prepared", languages.CuteLayer,
        "CuTe DSL: all products in int8 by TMA and warpgroups, operands laid out beforehand.",
        "One warp starts all copies, and two blocks share pixels: between `triton-int8` and `tensor-split-k`.",
        *CLUSTERS, dtype="int8", architectures=hopper.ARCHITECTURES, prepared=True, filters=64, across=16, down=4, depth=128,
        stages=8, cluster=2,
    ),
)  # fmt: skip
