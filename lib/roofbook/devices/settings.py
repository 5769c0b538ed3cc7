"""Variables of the environment that change how kernels are compiled or run: PYOPENCL_BUILD_OPTIONS, OMP_THREAD_LIMIT...

Variables that are set are part of a measurement's key and of its row. Variables that only name a folder, a verbosity or the
visible devices are left out: the row names driver and device.
"""

import hashlib
import os
import re
import shlex
import shutil
from collections.abc import Mapping
from pathlib import Path

ANYWHERE = ("LD_PRELOAD", "LD_BIND_NOW", "GLIBC_TUNABLES", "MALLOC_", "TCMALLOC_", "MIMALLOC_")
"""Variables that every process reads: names, or beginnings of names that end in `_`."""
BY_BACKEND = {
    "opencl": (
        "PYOPENCL_", "POCL_", "CL_", "OPENCL_", "OCL_", "AMD_OCL_", "GPU_", "HSA_", "ROC_", "IGC_", "NEO_", "RUSTICL_",
        "CLOVER_", "LP_", "GALLIVM_", "CUDA_",
    ),
    "cuda": (
        "CUDA_", "CUPY_", "NVRTC_", "NVCC_", "NVIDIA_TF32_OVERRIDE", "CUBLAS_", "CUBLASLT_", "CUDNN_", "CUSPARSE_", "NCCL_",
        "TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "DISABLE_LLVM_OPT",
        "DISABLE_PTXAS_OPT", "CUTE_DSL_", "NUMBA_", "XLA_", "JAX_",
    ),
    "webgpu": ("WGPU_", "VK_", "MESA_", "LP_", "GALLIVM_", "RADV_", "ANV_", "MTL_", "DXVK_"),
}  # fmt: skip
"""Backend -> variables that it, its driver and the libraries that are compared on it read."""
ON_A_CPU = (
    "OMP_", "GOMP_", "KMP_", "LIBOMP_", "ACC_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NUMEXPR_", "DNNL_", "ONEDNN_", "ATEN_",
    "TORCH_", "PYTORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "XLA_", "JAX_", "TBB_", "GHCRTS",
)  # fmt: skip
"""Variables that programs on the host's CPU read."""
_ELSEWHERE = re.compile(
    r"""PYOPENCL_(CTX|TEST|COMPILER_OUTPUT|NO_CACHE|CACHE\w*)
    |POCL_(AFFINITY|DEBUG|CACHE|TRACING|PATH|LEAVE_KERNEL|KERNEL_CACHE|DEVICES|BUILDING|SIGFPE|SIGUSR2)\w*
    |O(CL|PENCL)_(ICD|VENDOR|LIB|INC|ROOT|SDK)\w*|CL_LOG\w*
    |CUDA_(VISIBLE_DEVICES|DEVICE_ORDER|CACHE_\w*|MPS_\w*|PKG\w*|TOOLKIT\w*|INC\w*|BIN\w*|LIB\w*|MAJOR\w*|MINOR\w*|NVCC\w*)
    |CUPY_(CACHE|DUMP|NUM_BUILD_JOBS|INSTALL)\w*|NCCL_(NVLS_ENABLE|SOCKET_IFNAME|IB_HCA)|XLA_PYTHON_CLIENT_PREALLOCATE
    |TORCH_(CUDA_ARCH_LIST|SHOW\w*|NCCL\w*|SYMM_MEM_DISABLE_MULTICAST)|PYTORCH_BUILD\w*|GPU_(VENDOR|NAME|TYPE|COUNT)
    |(OMP|KMP|GOMP)_(DISPLAY|SETTINGS|WARNINGS|VERSION|SHOW)\w*|KMP_DUPLICATE_LIB_OK
    |\w+_(VERSION|HOME|ROOT|DIR|PATH|PREFIX|DEBUG|VERBOSE|LOGS?|LOG_\w+|URL|TOKEN|KEY)""",
    re.X,
)
"""Names of those that decide no result and no time, that say which devices are seen, or that this library or one of its
packages sets itself: threadpoolctl sets KMP_DUPLICATE_LIB_OK when it is imported. TORCH_SYMM_MEM_DISABLE_MULTICAST is of
PyTorch's memory that several GPUs share, which nothing here uses.
"""
_OURS = {"OPENBLAS_THREAD_TIMEOUT": "4"}
"""Variables that this library sets for each process that measures (`peers.threads.QUIET`); another value is the user's."""
COUNTING_RULE = f"{_ELSEWHERE.pattern} {_OURS}"
"""Text that changes if `counted` does."""
COMPILING = (
    "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "COMPILER_PATH", "GCC_EXEC_PREFIX", "CCC_OVERRIDE_OPTIONS",
    "CCC_ADD_ARGS", "CLANG_CONFIG_FILE_USER_DIR", "CLANG_CONFIG_FILE_SYSTEM_DIR", "ICXCFG", "ICPXCFG", "NIX_CFLAGS_COMPILE",
    "NIX_LDFLAGS", "LD_RUN_PATH", "SOURCE_DATE_EPOCH", "GHC_ENVIRONMENT", "GHC_PACKAGE_PATH",
)  # fmt: skip
"""Variables that compilers of the host read."""
_LONGEST = 160


def of_device(backend: str, kind: str) -> dict[str, str]:
    """Return name -> value of the variables that are set and change the code or the speed of a device, fit to be published."""
    beginnings = (*ANYWHERE, *BY_BACKEND.get(backend, ()), *(ON_A_CPU if kind == "cpu" else ()))
    prefixes = tuple(beginning for beginning in beginnings if beginning.endswith("_"))
    named = {
        name: value
        for name, value in sorted(os.environ.items())
        if value and (name.startswith(prefixes) or name in beginnings)
    }
    return {name: published(value) for name, value in counted(named).items()}


def counted(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of a device's environment that are part of a key today."""
    return {
        name: value for name, value in variables.items() if not _ELSEWHERE.fullmatch(name) and _OURS.get(name) != value
    }


def of_compiling(command: str = "") -> dict[str, str]:
    """Return the variables that change how a compiler of the host compiles; `script` is the digest of a wrapper.

    command: the compiler; by default that of CC, else the first C compiler that there is.
    """
    settings = {name: published(value) for name in COMPILING if (value := os.environ.get(name))}
    try:
        words = shlex.split(command or os.environ.get("CC", ""))
    except ValueError:
        words = []
    path = shutil.which(words[0]) if words else shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    digest = _digest_of_script(path) if path else ""
    return {**settings, "script": digest} if digest else settings


def published(value: str) -> str:
    """Return a variable's value without names of users and folders: the last part of each path, and a digest of the value.

    >>> published("2"), published("-cl-opt-disable")
    ('2', '-cl-opt-disable')
    >>> published("/home/me/lib/libjemalloc.so.2")
    'libjemalloc.so.2 (3339fa25)'
    """
    plain = re.sub(r"[^\s=:;,]*[/\\@]([^\s=:;,/\\@]*)", r"\1", " ".join(value.split()))
    if plain == value and len(value) <= _LONGEST:
        return value
    return f"{plain[:_LONGEST]} ({hashlib.sha256(value.encode(errors='surrogateescape')).hexdigest()[:8]})"


def _digest_of_script(path: str) -> str:
    """Return eight digits of a wrapper's text; '' for a program, which its version tells."""
    try:
        with open(path, "rb") as file:
            text = file.read(1 << 20)
    except OSError:
        return ""
    return hashlib.sha256(text).hexdigest()[:8] if text.startswith(b"#!") and Path(path).name != "ccache" else ""
