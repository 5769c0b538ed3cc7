"""Features of Hopper GPUs alone: their architectures, and the driver's description of a tensor for their TMA."""

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from .contract import DriverFailed, Unsupported

ARCHITECTURES = range(90, 100)
COMPILER_OPTIONS = ("-arch=sm_90a",)
"""Options with which a compiler accepts instructions that only Hopper has."""
MAP_BYTES = 128


@cache
def _encode() -> Any:
    """Return the driver's function cuTensorMapEncodeTiled. It is looked up once, which takes longer than many kernels.

    Raise Unsupported without an NVIDIA driver.
    """
    from ctypes.util import find_library  # loads a good deal

    name = find_library("cuda")
    if name is None:
        raise Unsupported("no NVIDIA driver library")
    return ctypes.CDLL(name).cuTensorMapEncodeTiled


def tensor_map(
    buffer: Any,
    sizes: Sequence[int],
    box: Sequence[int],
    half: bool,
    strides: Sequence[int] | None = None,
    size: int = 2,
    swizzled: bool = True,
) -> bytes:
    """Return the driver's description of a tensor for TMA, MAP_BYTES bytes.

    sizes, box: elements along each dimension of the tensor and of a tile, the innermost first. size: bytes of an element: 2
    (fp16 if `half`, otherwise bf16) or 4 (fp32). strides: bytes between neighbours along each dimension but the innermost; by
    default the tensor has no gaps. swizzled: rows of a tile are 128 bytes, and swizzled. Raise Unsupported without an NVIDIA
    driver, and DriverFailed with the driver's error code.
    """
    if not hasattr(buffer, "memory"):  # a device on paper has no address to describe
        return bytes(MAP_BYTES)
    rank = len(sizes)
    space = (ctypes.c_uint64 * (MAP_BYTES // 8 + 8))()
    start = -(-ctypes.addressof(space) // 64) * 64
    strides = strides or [size * int(np.prod(sizes[: at + 1])) for at in range(rank - 1)]
    error = _encode()(
        ctypes.c_void_p(start), 7 if size == 4 else 6 if half else 9, rank, ctypes.c_void_p(buffer.memory.data.ptr),
        (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * (rank - 1))(*strides), (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank), 0, 3 if swizzled else 0, 2, 0,
    )  # fmt: skip
    if error:
        raise DriverFailed(f"cuTensorMapEncodeTiled stopped with error {error}")
    return ctypes.string_at(start, MAP_BYTES)


def tensor_map_of_bytes(buffer: Any, sizes: Sequence[int], box: Sequence[int], strides: Sequence[int]) -> bytes:
    """Return the driver's description of a tensor of bytes for TMA, MAP_BYTES bytes. Rows of a tile are swizzled.

    sizes, box, strides: as of `tensor_map`. Raise Unsupported without an NVIDIA driver, and DriverFailed with the driver's
    error code.
    """
    if not hasattr(buffer, "memory"):
        return bytes(MAP_BYTES)
    rank = len(sizes)
    space = (ctypes.c_uint64 * (MAP_BYTES // 8 + 8))()
    start = -(-ctypes.addressof(space) // 64) * 64
    error = _encode()(
        ctypes.c_void_p(start), 0, rank, ctypes.c_void_p(buffer.memory.data.ptr),
        (ctypes.c_uint64 * rank)(*sizes), (ctypes.c_uint64 * (rank - 1))(*strides), (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank), 0, 3, 2, 0,
    )  # fmt: skip
    if error:
        raise DriverFailed(f"cuTensorMapEncodeTiled stopped with error {error}")
    return ctypes.string_at(start, MAP_BYTES)
