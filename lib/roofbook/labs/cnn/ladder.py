"""The ladder of this lab and its peers: each step with its change, its expected effect, and its knobs."""

from pathlib import Path

from ...devices import hopper
from ...peers import one_thread, openvino, pytorch
from ...peers.python_kernel import python_kernel
from ...spec.hopper_step import CLUSTERS, PERSISTENT, PREPARED, ROUNDED, WGMMA, hopper_step
from ...spec.plan import ONE_WORK_ITEM, Variant
from ...spec.prediction import FASTER, FEW_PERCENT, NO_GAIN, SAME, SEVERAL, about, at_most, up_to
from ...spec.source import Source
from . import amx_bf16, bf16_dots, boxes, four_rows, languages, peers, plans, tensor, tuned, warps, winograd

HERE = Path(__file__).parent
LAYER = {"CHANNELS": 256, "FILTERS": 256, "HEIGHT": 224, "WIDTH": 224, "TAPS": 5}
"""Sizes of the published layer, for the kernels as shown; a plan sets the sizes of the case."""
SUB = dict(zip(("SUB_I", "SUB_H", "SUB_W"), plans.PUBLISHED_SUB, strict=True))
GROUP = dict(zip(("LOCAL_0", "LOCAL_1", "LOCAL_2"), plans.PUBLISHED_GROUP, strict=True))

TILED = Source.of(HERE / "tiled.k", **SUB, **LAYER)
"""Tiles and sub-tiles, without any of the report's five optimisations."""
GLOBAL_NUMBER = TILED.with_knobs(START="GLOBAL_NUMBER")
PERMUTED = GLOBAL_NUMBER.with_knobs(ORDER="OUTERMOST")
UNROLLED = PERMUTED.with_knobs(UNROLL="UNROLLED")
ALIGNED = UNROLLED.with_knobs(ALIGN="LINE")
SEPARATE = ALIGNED.with_knobs(STAGES="SEPARATE")
DECLARED = UNROLLED.with_knobs(ZEROS="DECLARED")
REPORTED = SEPARATE.with_knobs(SPACE="READ_ONLY", START="DIVIDED")
"""The best kernel of the report, in OpenCL."""
GEMM = Source.of(HERE / "gemm.k", **LAYER)
WINOGRAD = Source.of(HERE / "winograd.k", **LAYER)

NO_ADDRESS = {"NVRTC": "every index is a constant, so the sub-tile is in registers, which have no address to align"}
ZEROS = {"NVRTC": "the sub-tile is in registers, and whether a loop or a declaration set them to zero leaves no trace"}
"""Reason, by compiler, why two kernel texts become the same machine code."""

TENSOR = Source.of(HERE / "tensor.cu", **LAYER)
TENSOR_COLUMNS = Source.of(HERE / "tensor_columns.cu", **LAYER)
TENSOR_WINDOW = Source.of(HERE / "tensor_window.cu", **LAYER)
TENSOR_TURNS = TENSOR_WINDOW.with_knobs(BARRIERS="RELAXED", WAITS="ALL")
TENSOR_SPLIT = Source.of(HERE / "tensor_split.cu", **LAYER)

WARPS = Source.of(HERE / "warps.k", **LAYER)
PTX = frozenset({"ptx"})

SEQUENTIAL = Source.of(HERE / "sequential.k", **LAYER)

ONE_WORK_ITEM_STEP = Variant(
    "sequential", None, SEQUENTIAL, plans.Sequential,
    "One work-item computes the whole layer, one stage after another.",
    "The baseline: one core, one multiply-add at a time.",
    frozenset({"cpu"}), options={"device": "host"}, description=ONE_WORK_ITEM,
)  # fmt: skip

LADDER = (
    ONE_WORK_ITEM_STEP,
    one_thread.as_c(
        ONE_WORK_ITEM_STEP, plans.SequentialC,
        "The compiler unrolls the taps and turns the loop over columns into vectors: several times faster.",
        SEVERAL,
    ),
    Variant(
        "tiled", "sequential", TILED, plans.Tiled,
        "Each work-item takes a sub-tile of 4 filters by 2 rows by 14 columns through all stages.",
        "All cores work. But the taps are the innermost loops, so every product loads both of its operands.",
        differs=("source", "plan", "options"), predicts=FASTER,
    ),
    Variant(
        "global-id", "tiled", GLOBAL_NUMBER, plans.Tiled,
        "The sub-tile's origin is computed from get_global_id(), not from get_group_id() and get_local_id().",
        "Saves one addition and one multiplication: nothing to gain.", predicts=NO_GAIN,
    ),
    Variant(
        "global-id-divided", "global-id", TILED.with_knobs(START="DIVIDED"), plans.Tiled,
        "As in the report: get_global_id() is divided to get the group's number, and the sub-tile is where it was before.",
        "Three divisions in a work-item of thousands of operations: no effect.", predicts=SAME,
    ),
    Variant(
        "permuted", "global-id", PERMUTED, plans.Tiled,
        "The loops over channel and taps are outermost: one tap at a time for the whole sub-tile.",
        "A loaded weight is used for 28 outputs, an input for 4. But the loop over filters indexes the sub-tile at run time, "
        "which keeps it out of registers.",
    ),
    Variant(
        "unrolled", "permuted", UNROLLED, plans.Tiled,
        "The loop over filters is unrolled.",
        "All indices are now constants, so the sub-tile moves into registers: the largest step.", predicts={"gpu": FASTER},
    ),
    Variant(
        "aligned", "unrolled", ALIGNED, plans.Tiled,
        "The sub-tile is aligned to 128 bytes.",
        "No effect: registers have no address.",
        same_code=NO_ADDRESS, predicts=SAME,
    ),
    Variant(
        "fissioned", "aligned", SEPARATE, plans.Tiled,
        "The bias is the initial value; ReLU and pooling are separate loops.",
        "These stages are a few operations per output of thousands: no effect, though 1.22x was published.",
        predicts=SAME,
    ),
    Variant(
        "zeroed", "fissioned", SEPARATE.with_knobs(STAGES="ZEROED"), plans.Tiled,
        "Separate loops, but the sub-tile starts as zeros and the bias is added afterwards.",
        "One more operation per output. The report blames the zeros for the loss of its fused version.", predicts=SAME,
    ),
    Variant(
        "zeroed-declared", "zeroed", SEPARATE.with_knobs(STAGES="ZEROED", ZEROS="DECLARED"), plans.Tiled,
        "The sub-tile is set to zero in its declaration, = {{{0}}}, as in the report, not in a loop.",
        "In registers the time is the same. A compiler may clear a sub-tile in memory in one go.",
        same_code=ZEROS, predicts={"gpu": SAME},
    ),
    Variant(
        "fused-declared", "unrolled", DECLARED, plans.Tiled,
        "The fused loop, with the sub-tile set to zero in its declaration, as in the report.",
        "In registers the time is the same.",
        same_code=ZEROS, predicts={"gpu": SAME},
    ),
    Variant(
        "fused-declared-aligned", "fused-declared", DECLARED.with_knobs(ALIGN="LINE"), plans.Tiled,
        "The same sub-tile, aligned to 128 bytes: the report's fused version.",
        "The report gained a little here, and nothing in its version without zeros. Registers have no address.",
        same_code=NO_ADDRESS, predicts={"gpu": SAME},
    ),
    Variant(
        "constant", "fissioned", SEPARATE.with_knobs(SPACE="READ_ONLY"), plans.Tiled,
        "Input and weights are declared in constant memory.",
        "Constant memory holds 64 KiB on a GPU; the arrays take megabytes. It is refused, or the loads stay the same.",
        frozenset({"constant-pointers"}),
        same_code={"PoCL": "a CPU has no separate constant memory"}, predicts=SAME,
    ),
    Variant(
        "as-reported", "constant", REPORTED, plans.Tiled,
        "The report's best kernel as it was: operands in constant memory, and the group's number by a division.",
        "Three divisions in a work-item of thousands of operations: no effect.",
        frozenset({"constant-pointers"}), published="best (global 64x112x16, local 4x8x2)", predicts=SAME,
    ),
    Variant(
        "local-tile", "fissioned", Source.of(HERE / "local_tile.k", **SUB, **LAYER, **GROUP), plans.LocalTile,
        "A group copies its part of each channel to local memory and reads it from there.",
        "Neighbours already share inputs through the cache. Local memory is nearer, but two barriers per channel are new.",
        differs=("source", "plan"), shows={"local_tile": r"bar\.sync|barrier\.sync"},
    ),
    Variant(
        "implicit-gemm", "local-tile", GEMM, plans.Gemm,
        "128 filters by 8 x 16 pixels per group, 8 x 8 of them per work-item; weights packed, operands by 16-byte loads.",
        "Per channel a work-item does 62 loads of 16 bytes for 1600 multiply-adds: now arithmetic bounds it.",
        differs=("source", "plan"), shows={"gemm": r"ld\.shared\.v4\.(f32|b32|u32)"}, predicts=FASTER,
    ),
    Variant(
        "double-buffered", "implicit-gemm", GEMM.with_knobs(BUFFERS="TWO"), plans.Gemm,
        "The next channel is loaded into registers while this one is multiplied; one barrier per channel.",
        "With two groups per multiprocessor, one already computes while the other waits: a few per cent.",
        predicts=FEW_PERCENT,
    ),
    Variant(
        "winograd", "double-buffered", WINOGRAD, winograd.Winograd,
        "Winograd's algorithm in fp32: 36 products for a tile of 2 x 2 outputs, not 100, as a matrix product for each point. "
        "The mean errors may be four times those of plain sums, as a library's may.",
        "2.8 times fewer products. Values and sums pass through memory between four launches: twice as fast.",
        options={"transformed": True}, differs=("source", "plan", "options"), predicts={"gpu": about(2)},
    ),
    Variant(
        "vectors", "fissioned", Source.of(HERE / "vectors.k", **LAYER), plans.Vectors,
        "Explicit vectors of sixteen columns: 4 filters by 2 rows by 32 columns per work-item.",
        "For a CPU whose compiler does not vectorise the loops: outputs fill its vector registers.",
        frozenset({"vector-types"}), differs=("source", "plan"), predicts={"cpu": FASTER},
    ),
    Variant(
        "four-rows", "vectors", Source.of(HERE / "four_rows.k", **LAYER), four_rows.FourRows,
        "4 filters (2 with AVX2) by 4 rows by a register of columns; a work-item takes all filters; weights are not packed.",
        "A third fewer loads of inputs, no columns computed twice if a vector divides the width, no launch to pack weights. "
        "With AVX2, vectors of sixteen take two registers each, and the sums of `vectors` do not all fit.",
        frozenset({"cpu"}), kind="cpu", differs=("source", "plan"), predicts={"cpu": FASTER},
    ),
    Variant(
        "bf16-dots", "four-rows", Source.of(HERE / "bf16_dots.k", **LAYER), bf16_dots.Bf16Dots,
        "For a CPU with AVX-512 BF16: an instruction adds 32 products of bf16, two in each lane. Rounding operands is timed.",
        "Twice the products of a multiply-add in fp32, at the same rate of instructions: twice as fast.",
        frozenset({"cpu", "vector-types", "avx512-bf16"}), kind="cpu", options={"operand_roundoff": 2.0**-8},
        differs=("source", "plan", "options"), dtype="bfloat16", predicts={"cpu": about(2)},
    ),
    Variant(
        "amx-bf16", "bf16-dots", Source.of(HERE / "amx_bf16.k", **LAYER), amx_bf16.AmxBf16,
        "For a CPU with AMX: an instruction multiplies tiles of 16 filters, 32 channels, 16 pixels in bf16. Rounding is timed.",
        "An instruction has 256 times the products of `bf16-dots`'s and takes 16 cycles, where a core takes one of those in "
        "each: 16 times faster at its peak. Each needs a load of 1 KB, whose lines come from the second cache.",
        frozenset({"cpu", "vector-types", "amx-bf16"}), kind="cpu", options={"operand_roundoff": 2.0**-8},
        differs=("source", "plan"), dtype="bfloat16", predicts={"cpu": about(8)},
    ),
    Variant(
        "warps-staged", "double-buffered", WARPS.with_knobs(WEIGHTS="STAGED"), warps.Warps,
        "Tensor cores from OpenCL, by PTX in the text: products of a warp. Operands are fp16, laid out beforehand.",
        "On an H200 this product's peak is ten times that of FMAs. Local memory is busy for a third of the products' time, so "
        "300 us, where the peak would take 257.",
        PTX, kind="gpu", options=PREPARED, differs=("source", "plan", "options"), dtype="float16",
        shows={"tensor": r"mma\.sync\.aligned\.m16n8k16"}, predicts=about(11),
    ),
    Variant(
        "warps-fp16", "warps-staged", WARPS, warps.Warps,
        "Weights go straight to registers: they lie in memory in the order of the lanes, 16 bytes each.",
        "A barrier in 16 channels, not five. Two warps load the same weights, but the second finds them in the nearest cache.",
        PTX, kind="gpu", options=PREPARED, dtype="float16", predicts=FEW_PERCENT,
    ),
    Variant(
        "warps-tf32", "warps-fp16", WARPS.with_knobs(OPERANDS="TF32"), warps.Warps,
        "TF32 instead of fp16: operands of 4 bytes, rounded to as many digits as fp16 has.",
        "Twice the bytes and twice the products.",
        PTX, kind="gpu", options=PREPARED, dtype="tfloat32", shows={"tensor": r"tf32\.tf32"}, predicts=about(1 / 2),
    ),
    Variant(
        "warps-split", "warps-fp16", WARPS.with_knobs(OPERANDS="SPLIT", ROWS=8), warps.Warps,
        "Each operand is split into two fp16 parts; three products. Packing is timed. A warp has half as many pixels, for its "
        "small products have sums of their own.",
        "Three times the work of fp16, and four additions for each large product, which the other units do meanwhile.",
        PTX, kind="gpu", differs=("source", "options"), dtype="float16", predicts=about(1 / 3.4),
    ),
    hopper_step(
        "tensor-fp16", "double-buffered", TENSOR, tensor.Tensor,
        "Tensor cores: operands rounded to fp16, sums in fp32; TMA fetches shifted boxes of the input.",
        "Fifteen times the arithmetic rate of plain multiply-adds, and an error a thousand times larger.",
        WGMMA, options=ROUNDED, differs=("source", "plan", "options"), shows={"tensor": "wgmma.mma_async"}, predicts=up_to(15),
    ),
    hopper_step(
        "tensor-cluster", "tensor-fp16", TENSOR.with_knobs(BLOCKS=2), tensor.Tensor,
        "Two blocks form a cluster: each loads half of the pixels for both.",
        "A third less to read from the cache, which feeds the tensor cores.",
        CLUSTERS, options=ROUNDED, shows={"tensor": "multicast::cluster"}, predicts=FASTER,
    ),
    hopper_step(
        "tensor-cluster-4", "tensor-cluster", TENSOR.with_knobs(BLOCKS=4), tensor.Tensor,
        "Clusters of two by two: blocks of the same filters share their weights too.",
        "A quarter less again from the cache. But clusters of four do not fill the chip, and their blocks wait for each other.",
        CLUSTERS, options=ROUNDED,
    ),
    hopper_step(
        "tensor-bf16", "tensor-cluster", TENSOR.with_knobs(BLOCKS=2, ELEMENT="bf16"), tensor.Tensor,
        "bf16 instead of fp16.",
        "The same time; eight times the error, and the range of fp32.",
        CLUSTERS, options={"operand_roundoff": 2.0**-8}, differs=("source", "options"), dtype="bfloat16",
        shows={"tensor": r"\.bf16\.bf16"}, predicts=SAME,
    ),
    hopper_step(
        "tensor-prepared", "tensor-cluster", TENSOR.with_knobs(BLOCKS=2), tensor.Tensor,
        "Input and weights are converted beforehand, as a library's user would keep them.",
        "Shows the cost of the conversion: one pass over the input.",
        CLUSTERS, options=PREPARED, differs=("options",), predicts=FASTER,
    ),
    hopper_step(
        "tensor-columns", "tensor-prepared", TENSOR_COLUMNS, tensor.Columns,
        "One box of pixels is used for a column of taps, each one row further down; a cluster shares weights, not pixels.",
        "A little more than half as much to read from the cache.",
        CLUSTERS, options=PREPARED, differs=("source", "plan"), shows={"tensor": "%nctaid"}, predicts=FASTER,
    ),
    hopper_step(
        "tensor-persistent", "tensor-columns", TENSOR_COLUMNS, tensor.Columns,
        "As many clusters as the chip holds; each computes three tiles, one after another.",
        "Loads for the next tile begin while the last one is written.",
        CLUSTERS, options=PERSISTENT, differs=("options",), predicts=FASTER,
    ),
    hopper_step(
        "tensor-wide-stores", "tensor-persistent", TENSOR_COLUMNS.with_knobs(STORES="FOUR"), tensor.Columns,
        "Neighbouring threads exchange results in registers, so that each writes four outputs at once.",
        "A quarter of the stores; the tensor cores wait for them.",
        CLUSTERS, options=PERSISTENT, shows={"tensor": "shfl"}, predicts=FASTER,
    ),
    hopper_step(
        "tensor-window", "tensor-wide-stores", TENSOR_WINDOW, tensor.Window,
        "One box of pixels is used for all taps of its channels; pixels and sums are stored column by column.",
        "Two fifths less to read from the cache.",
        CLUSTERS, options=PERSISTENT, differs=("source", "plan"), predicts=FASTER,
    ),
    hopper_step(
        "tensor-relaxed", "tensor-window", TENSOR_WINDOW.with_knobs(BARRIERS="RELAXED"), tensor.Window,
        "Barriers use relaxed ordering: threads neither write nor read the data that goes through shared memory.",
        "Saves a chip-wide fence per iteration, during which the tensor cores idle: at most a tenth of the loop's time.",
        CLUSTERS, options=PERSISTENT, shows={"tensor": r"mbarrier\.arrive\.relaxed"}, predicts=at_most(1 / 0.9),
    ),
    hopper_step(
        "tensor-turns", "tensor-relaxed", TENSOR_TURNS, tensor.Window,
        "Each warpgroup waits for all its products of a tap while the other's are computed, so they take turns.",
        "The kernel that measures the peak waits like this and keeps the tensor cores busy. If interleaving costs time, "
        "this gains 3 %.",
        CLUSTERS, options=PERSISTENT, predicts=about(1.03),
    ),
    hopper_step(
        "tensor-tf32", "tensor-turns", TENSOR_TURNS.with_knobs(OPERANDS="TF32"), boxes.Tf32,
        "TF32 instead of fp16: operands of 4 bytes, rounded to as many digits as fp16 has.",
        "Twice the time: the matrix units take half as many numbers at once. The same error, and the range of fp32.",
        CLUSTERS, options=PREPARED, differs=("source", "plan", "options"), dtype="tfloat32", shows={"tensor": r"\.tf32\.tf32"},
        predicts=about(1 / 2),
    ),
    hopper_step(
        "tensor-turns-bf16", "tensor-turns", TENSOR_TURNS.with_knobs(ELEMENT="bf16"), tensor.Window,
        "bf16 instead of fp16, in the fastest kernel: this precision takes all eight steps after `tensor-bf16` at once.",
        "The units take either type at one rate, and the bytes are the same: as fast, with eight times the error.",
        CLUSTERS, options={**PERSISTENT, "operand_roundoff": 2.0**-8}, differs=("source", "options"), dtype="bfloat16",
        shows={"tensor": r"\.bf16\.bf16"}, predicts=SAME,
    ),
    hopper_step(
        "tensor-split", "tensor-cluster", TENSOR.with_knobs(BLOCKS=2, PRODUCTS=3), tensor.Tensor,
        "Each operand is split into two fp16 parts; three products, the small ones first.",
        "Three times the work of fp16 for the error of fp32: still several times as fast as fp32 multiply-adds.",
        CLUSTERS, differs=("source", "options"), predicts=about(1 / 3),
    ),
    hopper_step(
        "tensor-split-window", "tensor-split", TENSOR_SPLIT.with_knobs(BARRIERS="RELAXED"), boxes.Split,
        "tensor-relaxed with split operands: both parts arrive together, for three products. Threads add up sums of taps.",
        "Fewer bytes from the cache, both operands packed in one launch. The units cut off sums: shorter ones lose less.",
        CLUSTERS, differs=("source", "plan"), predicts=FASTER,
    ),
)  # fmt: skip

PEERS = (
    pytorch.on_cpu(peers.TorchConvolution),
    openvino.on_cpu(
        peers.OpenVino, "fp32", "OpenVINO on the CPU, fp32.", "All products, by code made for the processor.",
    ),
    openvino.on_cpu(
        peers.OpenVino, "bf16", "OpenVINO on the CPU, bf16.",
        "The method of `bf16-dots`; a CPU with AMX multiplies tiles of bf16 instead.",
        operand_roundoff=2.0**-8,
    ),
    Variant(
        "openmp", None, None, peers.OpenMP, "A page of C + OpenMP: 4 filters by 2 rows by 2 vectors in registers, all cores.",
        "Shows how fast a CPU can be without a library.", needs=frozenset({"host"}), role="peer",
    ),
    pytorch.on_gpu(
        "torch-fp32", peers.TorchConvolution, "PyTorch and cuDNN, fp32, TF32 off.",
        "The speed that a user of fp32 gets.", "fp32",
    ),
    pytorch.on_gpu(
        "torch-tf32", peers.TorchConvolution, "PyTorch and cuDNN, TF32, channels last.",
        "cuDNN's default, at its best.", "tf32", channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-fp16", peers.TorchConvolution, "PyTorch and cuDNN, fp16, channels last.",
        "Half precision, at its best.", "fp16", channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-bf16", peers.TorchConvolution, "PyTorch and cuDNN, bf16, channels last.",
        "The same bytes, fewer digits.", "bf16", channels_last=True,
    ),
    pytorch.on_gpu(
        "torch-compiled", peers.TorchConvolution, "PyTorch and cuDNN, fp16, channels last, by torch.compile.",
        "Bias, ReLU and pool become one kernel; the convolution stays the library's.", "fp16", channels_last=True, compile=True,
    ),
    pytorch.on_gpu(
        "cublas", peers.Product, "The input unfolded to a matrix, 25 times as large, and cuBLAS; fp32, TF32 off.",
        "The product runs near the peak, but the matrix is written and read first.", "fp32",
    ),
    pytorch.on_gpu(
        "cublas-prepared", peers.Product, "cuBLAS with the input unfolded beforehand: unfolding is not timed.",
        "Only the product with bias, ReLU and pool: its gain over `cublas` is the cost of unfolding.", "fp32", prepared=True,
    ),
    pytorch.on_gpu(
        "cudnn-fused-fp32", tuned.FusedConvolution,
        "cuDNN with bias and ReLU in the convolution's kernel, fp32, TF32 off; the pool by torch.compile.",
        "Writes and reads of the convolution's output are a few per cent of its time.", "fp32", compile=True,
    ),
    pytorch.on_gpu(
        "cudnn-fused-tf32", tuned.FusedConvolution,
        "cuDNN with bias and ReLU in the convolution's kernel, TF32; turning operands channels-last is timed.",
        "Should halve the time that eager TF32 spends outside its convolution.", "tf32", channels_last=True, compile=True,
    ),
    pytorch.on_gpu(
        "cudnn-fused-tf32-prepared", tuned.FusedConvolution,
        "cuDNN with bias and ReLU in the convolution's kernel, TF32, operands channels-last beforehand.",
        "Shows the cost of the layout.", "tf32", channels_last=True, compile=True, prepared=True,
    ),
    pytorch.on_gpu(
        "cudnn-fused", tuned.FusedConvolution,
        "cuDNN with bias and ReLU in the convolution's kernel, fp16; converting operands is timed.",
        "For a user whose data is fp32 in NumPy's order, before and after.", "fp16", channels_last=True, compile=True,
    ),
    pytorch.on_gpu(
        "cudnn-fused-prepared", tuned.FusedConvolution,
        "cuDNN with bias and ReLU in the convolution's kernel, fp16, operands converted beforehand.",
        "No extra pass for bias and ReLU: a little faster than the layer by torch.compile.",
        "fp16", channels_last=True, compile=True, prepared=True,
    ),
    pytorch.on_gpu(
        "cudnn-split", tuned.SplitConvolution,
        "cuDNN's own graph, operands split into two fp16 parts: three products in one kernel, the rest by torch.compile.",
        "The method of `tensor-split`, by a library: fp32's error bound at a third of fp16's rate.",
        dtype="float16", compile=True,
    ),
    pytorch.on_gpu(
        "torch-autotuned", tuned.Autotuned,
        "All of the layer by torch.compile in its mode max-autotune, fp16, operands converted beforehand.",
        "It times Triton's convolutions and cuDNN's; cuDNN's are made for this chip and will win.",
        "fp16", channels_last=True, compile=True, prepared=True,
    ),
    python_kernel(
        "triton-fp16", "tensor-prepared", languages.TritonLayer,
        "Triton: an implicit matrix product, fp16, operands laid out beforehand.",
        "Each tap reads its pixels from the L2 again, by copies that threads start: a fifth slower than `tensor-turns`.",
        dtype="float16", windows=32, filters=256, depth=64, warps=8, stages=3, **PREPARED,
    ),
    python_kernel(
        "triton-tf32", "tensor-tf32", languages.TritonLayer, "Triton: the same product in TF32, operands rounded beforehand.",
        "Twice the bytes and half the rate of fp16: about twice its time.",
        dtype="tfloat32", windows=32, filters=256, depth=32, warps=8, stages=3, **PREPARED,
    ),
    python_kernel(
        "triton-split", "tensor-split", languages.TritonLayer,
        "Triton: operands split into two fp16 parts, three products, the two small ones in a sum of their own.",
        "Three times the products of fp16, for the error of fp32.",
        dtype="float16", windows=32, filters=128, depth=64, warps=8, stages=3, prepared=True, split=True,
    ),
    python_kernel(
        "cute-fp16", "tensor-prepared", languages.CuteLayer,
        "CuTe DSL: an implicit matrix product by TMA and warpgroups, fp16, operands laid out beforehand.",
        "It says all that `tensor-prepared` says, such as boxes, clusters and a warp that fetches: as fast as that.",
        *CLUSTERS, dtype="float16", architectures=hopper.ARCHITECTURES, filters=128, across=16, down=16, depth=64, stages=4,
        cluster=2, **PREPARED,
    ),
)  # fmt: skip
