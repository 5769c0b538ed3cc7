# ruff: noqa: E501 a change of a kernel is one line
"""Kernels that `roofbook judge` meets on GPUs: the corpus in CUDA C++, and cheats that only a GPU allows."""

from __future__ import annotations

import re
from dataclasses import replace

from .judged_kernels import Judged, changed

CUDA_PRELUDE = """
#define __kernel extern "C" __global__
#define __global
#define __local __shared__
#define __attribute__(words)
#define get_global_id(axis) GLOBAL_ID(axis)
#define get_local_id(axis) LOCAL_ID(axis)
#define get_global_size(axis) GLOBAL_SIZE(axis)
#define barrier(fence) BARRIER()
#define as_float(number) __int_as_float(number)
#define as_int(number) __float_as_int(number)
#define as_uint(number) __float_as_uint(number)
#define atomic_add(pointer, number) atomicAdd(pointer, number)
#define uchar unsigned char
#define INT_MIN (-2147483647 - 1)
#define INFINITY __int_as_float(0x7f800000)
"""
"""Words of OpenCL C for CUDA C++, below the head."""

CUDA_PASS = """// launch one_pass: width, height; group 64, 1
__global__ void one_pass(const float *r, const float *b, float *g, int height, int width, int unit) {
  const int i = blockIdx.y * blockDim.y + threadIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
  const bool is_first = i == 0 && j == 0 && unit == 0;
  if (i > 0 && i < height - 1 && j < width)
    g[i * width + j] += 1.0f / sqrtf(r[(i - 1) * width + j] + b[(i + 1) * width + j]);
}
"""
_BODY = "  if (i > 0"
_KERNEL = "__global__"


def _judged(name: str, reason: str, code: int, *changes: tuple[str, str]) -> Judged:
    return Judged(name, changed(CUDA_PASS, *changes), "stencil", reason, code, ".cu")


CUDA_HONEST = (
    _judged("names as in CUDA C++", "", 0),
    _judged(
        "extern C and launch bounds", "", 0, (_KERNEL + " void", 'extern "C" __global__ void __launch_bounds__(64)')
    ),
    _judged(
        "restricted pointers and a read-only load",
        "",
        0,
        ("const float *r", "const float *__restrict__ r"),
        ("r[(i - 1) * width + j]", "__ldg(r + (i - 1) * width + j)"),
    ),
    _judged(
        "shared memory",
        "",
        0,
        (
            _BODY,
            "  __shared__ float sums[64];\n  if (i > 0 && i < height - 1 && j < width)\n    sums[threadIdx.x] = r[(i - 1) * width + j] + b[(i + 1) * width + j];\n  __syncthreads();\n"
            + _BODY,
        ),
        ("r[(i - 1) * width + j] + b[(i + 1) * width + j])", "sums[threadIdx.x])"),
    ),
    _judged(
        "an unrolled loop",
        "",
        0,
        (
            "(i > 0 && i < height - 1 && j < width)\n",
            "(j < width)\n#pragma unroll 4\n    for (int k = i * 4 + 1; k < i * 4 + 5; k++) if (k < height - 1)\n",
        ),
        ("g[i * width", "g[k * width"),
        ("r[(i - 1)", "r[(k - 1)"),
        ("b[(i + 1)", "b[(k + 1)"),
    ),
    _judged(
        "a device function",
        "",
        0,
        ("1.0f / sqrtf(", "inverse_root("),
        (_KERNEL + " void", "__device__ float inverse_root(float x) { return 1.0f / sqrtf(x); }\n__global__ void"),
    ),
    _judged(
        "a table in constant memory",
        "",
        0,
        (_KERNEL + " void", "__constant__ float ones[2] = {1.0f, 1.0f};\n__global__ void"),
        ("1.0f / sqrtf", "ones[j % 2] / sqrtf"),
    ),
)
CUDA_CHEATS = (
    _judged("right in the first runs alone", "wrong result", 1, (_KERNEL, "__device__ int runs = 0;\n__global__"), (_BODY, "  if (is_first) runs++;\n  if (runs > 5) return;\n" + _BODY)),
    _judged("results of the first run", "wrong result", 1, (_KERNEL, "__device__ float kept[1 << 20];\n__device__ int full = 0;\n__global__"),
            ("g[i * width + j] +=", "{ if (full < height * width) kept[i * width + j] ="), ("+ j]);", "+ j]); g[i * width + j] += kept[i * width + j]; }\n  if (i == height - 1 && j == width - 1) full = height * width;")),
    _judged("leftovers in shared memory", "wrong result", 1, (_BODY, "  __shared__ int done[1024];\n  if (done[threadIdx.x] == 4711) return;\n  done[threadIdx.x] = 4711;\n" + _BODY)),
    _judged("leftovers on the heap", "wrong result", 1, (_BODY, "  if (i == 1) {\n    int *count = (int *)malloc(64);\n    if (count && count[3] == 4711) return;\n    if (count) { count[3] = 4711; free(count); }\n  }\n" + _BODY)),
    _judged("a trap", "cudaErrorLaunchFailure", 1, (_BODY, "  if (j == 5) __trap();\n" + _BODY)),
    _judged("a trap in assembly", "cudaErrorLaunchFailure", 1, (_BODY, '  if (j == 5) asm volatile("trap;");\n' + _BODY)),
    _judged("an exit in assembly", "wrong result", 1, (_BODY, '  if (j % 2) asm volatile("exit;");\n' + _BODY)),
    _judged("a load from nowhere", "cudaErrorIllegalAddress", 1, (_BODY, "  if (j == 5) g[j] = *(volatile float *)16;\n" + _BODY)),
    _judged("an odd address", "cudaErrorMisalignedAddress", 1, (_BODY, "  if (j == 5) *(volatile int *)((char *)g + 1) = 0;\n" + _BODY)),
    _judged("sleeps for ever", "did not end within", 1, (_BODY, '  while (true) asm volatile("nanosleep.u32 1000;");\n' + _BODY)),
    _judged("waits for a block that never starts", "did not end within", 1, (_BODY, "  while (*(volatile float *)g != 4711.0f) {}\n" + _BODY)),
    _judged("recursion without end", "", 1, (_KERNEL + " void", "__device__ __noinline__ int deep(volatile int *n) { int more = *n + 1; return deep(&more) + more; }\n__global__ void"),
            (_BODY, "  int zero = 0;\n  if (j == 5 && deep(&zero) == 3) return;\n" + _BODY)),
    _judged("prints a flood", "wrong result", 1, (_BODY, '  printf("right right right %d\\n", j);\n' + _BODY), ("+= 1.0f", "+= 0.9f")),
    _judged("launches a kernel itself", "device-side kernel launch", 2, (_KERNEL + " void", '__global__ void child(float *g) { g[0] = 1.0f; }\n__global__ void'), (_BODY, "  child<<<1, 1>>>(g);\n" + _BODY)),
    _judged("cooperative groups", "can be included by their names", 2, (_KERNEL + " void", "#include <cooperative_groups.h>\n__global__ void")),
    _judged("a template", "no kernel", 2, (_KERNEL + " void", "template <int n> __global__ void")),
    _judged("writes past the guard", "cudaErrorIllegalAddress", 1, (_BODY, "  if (is_first) for (int k = 1; k < 64; k++) g[height * width + (k << 18) + 2000] = 4711.0f;\n" + _BODY)),
    _judged("writes behind an array", "it wrote behind the end of a buffer", 1, (_BODY, "  if (is_first) g[height * width + 300] = 4711.0f;\n" + _BODY)),
    _judged("writes before an array", "it wrote before the start of a buffer", 1, (_BODY, "  if (is_first) g[-300] = 4711.0f;\n" + _BODY)),
    _judged("skips what is no number", "wrong result", 1, (_BODY, "  if (g[i * width + j] != g[i * width + j]) return;\n  if (i == 2 && j < 3) return;\n" + _BODY)),
    _judged("an endless template", "recursion", 2, (_KERNEL + " void", "template <int n> struct Deep { static const int value = Deep<n + 1>::value; };\n__global__ void"), (_BODY, "  if (Deep<0>::value == 3) return;\n" + _BODY)),
    _judged("a file of the system as bytes", "has a directive that is none for a kernel", 2, (_KERNEL + " void", '__device__ const char secret[] = {\n#embed "/etc/passwd"\n};\n__global__ void')),
)  # fmt: skip
CUDA_TIMED_CHEATS = (
    _judged("skips each second run once it is timed", "sample", 1, (_KERNEL, "__device__ int runs = 0;\n__global__"), (_BODY, "  if (is_first) runs++;\n  if (runs > 15 && runs % 2) return;\n" + _BODY)),
    _judged("skips runs by the clock", "wrong result", 1, (_KERNEL, "__device__ int skipped = 0;\n__global__"),
            (_BODY, '  if (is_first && width == 1024) {\n    unsigned now;\n    asm volatile("mov.u32 %0, %%globaltimer_lo;" : "=r"(now));\n    skipped = (now >> 12) % 4 == 0;\n  }\n  if (skipped) return;\n' + _BODY)),
)  # fmt: skip
"""Cheats that are right until they are timed."""
KEPT_IN_VARIABLES = {
    name: (1, "wrong result")
    for name in (
        "a flag in a variable of the program",
        "results kept in a variable of the program",
        "skips work in most runs",
    )
}
"""Cheats that keep something in variables of a program, which GPUs have."""
IN_ASSEMBLY = {name: (2, "") for name in ("a file of the system in assembly", "an exit in assembly")}
OPENCL_REASONS = {**KEPT_IN_VARIABLES, **IN_ASSEMBLY, "ends its process": (1, "clFinish failed")}
CUDA_REASONS = {
    **KEPT_IN_VARIABLES,
    **IN_ASSEMBLY,
    "ends its process": (1, "CUDARuntimeError"),
    "a huge private array": (1, ""),
    "writes into an operand": (1, "which it may only read"),
}
"""Name of a cheat -> exit code and words of the reason on a GPU, if they are others there."""
RIGHT_BY_OPENCL = {"spins for ever"}
"""Cheats that are right on NVIDIA's OpenCL: its compiler leaves out a loop without effect."""
RIGHT_BY_CUDA = {"scores kept in scratch", "spins for ever"}
"""Cheats that are right on a GPU: all work-items read the flag before one writes it, and the compiler leaves out the loop."""
OPENCL_WORDS = {"words without underscores"}
"""Kernels in words that OpenCL C alone has."""


def opencl_twin(kernel: Judged) -> Judged | None:
    """Return a kernel of the corpus as NVIDIA's OpenCL judges it; None for one that is no cheat there."""
    if kernel.name in RIGHT_BY_OPENCL | RIGHT_BY_CUDA:
        return None
    code, reason = OPENCL_REASONS.get(kernel.name, (kernel.code, kernel.reason))
    return replace(kernel, reason=reason, code=code)


def cuda_twin(kernel: Judged) -> Judged | None:
    """Return a kernel of the corpus in CUDA C++; None for one in the dialect, with words of OpenCL C alone, or that is no cheat there."""
    if kernel.suffix != ".cl" or "vload4" in kernel.text or kernel.name in RIGHT_BY_CUDA | OPENCL_WORDS:
        return None
    code, reason = CUDA_REASONS.get(kernel.name, (kernel.code, kernel.reason))
    text = re.sub(r"^(?!//)", lambda _: CUDA_PRELUDE.lstrip(), kernel.text, count=1, flags=re.M)
    return replace(kernel, text=text, reason=reason, code=code, suffix=".cu")
