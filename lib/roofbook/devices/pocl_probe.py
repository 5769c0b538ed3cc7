"""Compile and run a probe kernel by PoCL for one CPU by name. `pocl_cpu` runs this file as a program.

It is a process of its own because a CPU that does not fit may end it, or keep LLVM busy without end. It imports nothing of
this library, so that it starts quickly. Arguments: LLVM's name of the CPU ('' keeps PoCL's own), a folder that PoCL may use and
that takes the result, `narrow`, `whole` or a feature of INSTRUCTIONS, and where packages are looked for.
"""

import contextlib
import ctypes
import json
import os
import platform
import re
import sys
from pathlib import Path
from typing import Any

CPU_SECONDS = 20
"""Limit of the probe, in seconds of the processor, which a busy machine does not stretch. A probe that fits needs two."""
RESULT = "probe.json"
KERNEL = """
__kernel void narrow(__global float *x) {
  vstore4(fma(sqrt(vload4(0, x)), native_rsqrt(vload4(0, x)), fmax(vload4(0, x), 0.5f)), 0, x);
}
__kernel void wide(__global float *x) {
  const size_t i = get_global_id(0);
  vstore16(fma(sqrt(vload16(i, x)), native_rsqrt(vload16(i, x)), fmax(vload16(i, x), 0.5f)), i, x);
}
"""
"""Kernels of the probe: each makes 2.0 of 1.0. The narrow one has calls if the CPU lacks features; the wide one may crash."""
ON_TILES = """
__kernel void amx(__global float16 *x) {
  const int16 shapes = (int16)(1, 0, 0, 0, 0x400040, 0x400040, 0x400040, 0x400040, 0, 0, 0, 0, 0x10101010, 0x10101010, 0, 0);
  int16 rows[16];
  for (int i = 0; i < 16; i++) rows[i] = (int16)(i ? 0 : WORD);
  __asm__ volatile("ldtilecfg %0" : : "m"(shapes));
  __asm__ volatile("tilezero %%tmm0" : : : "memory");
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm1" : : "r"(rows), "r"(64l) : "memory");
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm2" : : "r"(rows), "r"(64l) : "memory");
  __asm__ volatile("PRODUCT %%tmm1, %%tmm2, %%tmm0" : : : "memory");
  __asm__ volatile("tilestored %%tmm0, (%0,%1,1)" : : "r"(rows), "r"(64l) : "memory");
  __asm__ volatile("tilerelease" : : : "memory");
  *x = VALUE;
}
"""
"""A kernel that multiplies a row of WORDs by itself in tiles of AMX, by PRODUCT, which makes VALUE of each word."""
INSTRUCTIONS = {
    "vnni": """
__kernel void vnni(__global float16 *x) {
  int16 sums = (int16)(-62), fours = (int16)(0x04040404), mask;
  ushort lanes;
  __asm__("vpunpcklbw %1, %1, %0" : "=v"(fours) : "v"(fours));
  __asm__("vpdpbusd %1, %1, %0" : "+v"(sums) : "v"(fours));
  __asm__("vptestmd %1, %1, %0" : "=Yk"(lanes) : "v"(sums));
  __asm__("vpcompressd %1, %0%{%2%}%{z%}" : "=v"(mask) : "v"(sums), "Yk"(lanes));
  *x = __builtin_convertvector(mask, float16);
}
""",
    "avx512-bf16": """
__kernel void bf16(__global float16 *x) {
  float16 sums = (float16)(-6.0f);
  __asm__("vdpbf16ps %1, %1, %0" : "+v"(sums) : "v"((int16)(0x40004000)));
  *x = sums;
}
""",
    "amx-int8": ON_TILES.replace("WORD", "0x01010101")
    .replace("PRODUCT", "tdpbssd")
    .replace("VALUE", "__builtin_convertvector(rows[0], float16) - 2.0f"),
    "amx-bf16": ON_TILES.replace("WORD", "0x3f803f80")
    .replace("PRODUCT", "tdpbf16ps")
    .replace("VALUE", "as_float16(rows[0])"),
}
"""Feature -> kernel with its instructions within the text, which makes 2.0 of 1.0 in all sixteen places."""
_names: dict[int, tuple[Any, str]] = {}
"""Names that this process gave to PoCL, by their address: the text, kept alive, and PoCL's own name in that place."""


ASK_FOR_FEATURE, TILES = 0x1023, 18
"""ARCH_REQ_XCOMP_PERM and XFEATURE_XTILEDATA of Linux (arch_prctl, Documentation/arch/x86/xstate.rst)."""


def needs_tiles(feature: str) -> bool:
    """Return whether kernels with the instructions of a feature have tiles of AMX."""
    return feature.startswith("amx-")


def ask_for_tiles() -> str:
    """Ask Linux for tiles of AMX for all threads of this process; return '' if they may use them, else the system's reason.

    Without it the first instruction on a tile ends the process. Asking again is harmless.
    """
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return "only Linux on x86 has them"
    libc = ctypes.CDLL(None, use_errno=True)
    call_of_arch_prctl = 158
    refused = libc.syscall(ctypes.c_long(call_of_arch_prctl), ctypes.c_long(ASK_FOR_FEATURE), ctypes.c_long(TILES))
    return os.strerror(ctypes.get_errno()) if refused else ""


def own_name(device: Any) -> str:
    """Return the name that PoCL itself has for the CPU of an OpenCL device; '' where it cannot be found."""
    field = _field(device)
    if field is None:
        return ""
    return _names[field.value][1] if field.value in _names else ctypes.string_at(field.value).decode()


def rename(device: Any, name: str) -> bool:
    """Let PoCL compile for the CPU of this name. Returns whether the place of the name was found."""
    field = _field(device)
    if field is None:
        return False
    if ctypes.string_at(field.value) != name.encode():
        text = ctypes.create_string_buffer(name.encode())
        address = ctypes.addressof(text)
        _names[address] = text, own_name(device)
        field.value = address
    return True


def _field(device: Any) -> Any:
    """Return the pointer to the CPU's name in PoCL's structure of a device, or None.

    PoCL has no setting for the name. The version that PoCL gives out ends with it, so the pointer is the one to such a text.
    """
    version = device.version.encode()
    if b"pocl" not in version.lower():
        return None
    spans = _readable_spans()
    best, best_length = None, 0
    for offset in range(0, 4096, 8):
        if not _within(spans, device.int_ptr + offset, 8):
            break
        field = ctypes.c_uint64.from_address(device.int_ptr + offset)
        if field.value in _names:
            return field
        text = _text_at(spans, field.value, len(version))
        if text and len(text) > best_length and version.endswith(b"-" + text):
            best, best_length = field, len(text)
    return best


def _readable_spans() -> list[tuple[int, int]]:
    """Return the spans of memory that this process can read and write: PoCL's structure and its names lie on the heap."""
    try:
        with open("/proc/self/maps") as file:
            lines = [line.split() for line in file]
    except OSError:
        return []
    spans = [line[0].split("-") for line in lines if line[1].startswith("rw")]
    return [(int(low, 16), int(high, 16)) for low, high in spans]


def _within(spans: list[tuple[int, int]], address: int, length: int) -> bool:
    return any(low <= address and address + length <= high for low, high in spans)


def _text_at(spans: list[tuple[int, int]], address: int, longest: int) -> bytes:
    """Return the text of at most `longest` bytes at an address; b'' where none lies there."""
    high = next((high for low, high in spans if low <= address < high), 0)
    text, end, _ = ctypes.string_at(address, max(0, min(longest + 1, high - address))).partition(b"\0")
    return text if end else b""


def calls_of(library: bytes) -> list[str]:
    """Return the built-in functions that a kernel's compiled library still calls, by OpenCL's names."""
    names = {(int(length), text) for length, text in re.findall(rb"_Z(\d+)(\w+)", library)}
    return sorted({text[:length].decode().removeprefix("_cl_") for length, text in names})


def main(cpu: str, folder: Path, how: str) -> None:
    import pyopencl as cl

    if needs_tiles(how) and ask_for_tiles():
        return
    devices = [device for platform in cl.get_platforms() for device in platform.get_devices(cl.device_type.CPU)]
    device = next(candidate for candidate in devices if "pocl" in candidate.version.lower())
    if cpu and not rename(device, cpu):
        return
    context = cl.Context([device])
    queue = cl.CommandQueue(context)
    program = cl.Program(context, INSTRUCTIONS.get(how, KERNEL)).build()
    names = program.kernel_names.split(";") if how in INSTRUCTIONS else ["narrow", "wide"]
    calls: set[str] = set()
    for name in names:
        values = bytearray(memoryview((ctypes.c_float * 16)(*[1.0] * 16)).cast("B"))
        kernel = cl.Kernel(program, name)
        flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
        buffer = cl.Buffer(context, flags, hostbuf=values)
        kernel.set_arg(0, buffer)
        cl.enqueue_nd_range_kernel(queue, kernel, (1,), (1,))
        cl.enqueue_copy(queue, values, buffer)
        queue.finish()
        count = 4 if name == "narrow" else 16
        right = list((ctypes.c_float * 16).from_buffer(values))[:count] == [2.0] * count
        for library in folder.rglob(f"{name}.so"):
            calls.update(calls_of(library.read_bytes()))
        if not right or (calls and how == "narrow"):
            break
    (folder / RESULT).write_text(json.dumps({"calls": sorted(calls), "right": right}))


if __name__ == "__main__":
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.path[:] = sys.argv[4].split(os.pathsep)
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    os._exit(0)
