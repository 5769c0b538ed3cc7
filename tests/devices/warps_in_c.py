"""An NVIDIA GPU by OpenCL, in C: kernels with PTX in their text run on the host, where no GPU is there.

A kernel is rendered for OpenCL, as NVIDIA's compiler gets it. The PTX in it becomes calls of functions in warps_in_c.h, and a
C compiler does the rest.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from roofbook.devices import contract
from roofbook.peers import cc
from roofbook.peers.one_thread import Kernel

HEADER = Path(__file__).with_suffix(".h")


def closing(text: str, start: int) -> int:
    """Return the position of the parenthesis that closes the one at `start`, outside of strings."""
    depth, is_string = 0, False
    for at in range(start, len(text)):
        if text[at] == '"':
            is_string = not is_string
        elif not is_string:
            depth += (text[at] == "(") - (text[at] == ")")
            if depth == 0:
                return at
    raise ValueError("no closing parenthesis")


def sections(statement: str) -> list[str]:
    """Split an asm statement at its colons, outside of strings and parentheses."""
    parts, depth, is_string = [""], 0, False
    for char in statement:
        is_string ^= char == '"'
        depth += 0 if is_string else (char in "([") - (char in ")]")
        if char == ":" and depth == 0 and not is_string:
            parts.append("")
        else:
            parts[-1] += char
    return [*parts, "", "", ""][:4]


def operands(section: str) -> list[str]:
    """Return the expressions of a section of an asm statement, without their constraints."""
    starts = [match.end() - 1 for match in re.finditer(r'"[^"]*"\s*\(', section)]
    return [section[start : closing(section, start) + 1] for start in starts]


def call_of(statement: str) -> str:
    """Return the C that does what the PTX of an asm statement does. Raise ValueError for PTX that it does not know."""
    text, outputs, inputs, _ = sections(statement)
    ptx = "".join(re.findall(r'"([^"]*)"', text))
    out, given = operands(outputs), operands(inputs)
    addresses = ", ".join(f"&{name}" for name in out)
    if ptx == "":  # keeps a value in a register
        return "(void)0"
    if "cvta.to.shared" in ptx:
        return f"({out[0]} = (unsigned int)((const char *){given[0]} - origin))"
    if ptx.startswith("cp.async.cg.shared.global") and ptx.endswith("16;"):
        return f"memcpy(LOCAL_AT({given[0]}), {given[1]}, 16)"
    if ptx in ("cp.async.commit_group;", "cp.async.wait_group %0;"):
        return "(void)0"
    if ptx.startswith("ldmatrix.sync.aligned.m8n8.x4.shared.b16"):
        return f"load_matrices((unsigned int *[]){{{addresses}}}, {given[0]})"
    if ptx.startswith("cvt.rn.f16x2.f32"):
        return f"({out[0]} = two_in_word({given[0]}, {given[1]}))"
    if ptx.startswith("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;"):
        return f"({out[0]} = of_lane({given[0]}, {given[1]}))"
    if "st.relaxed.gpu.global.b128" in ptx:
        return f"store_word({', '.join(given)})"
    if "ld.relaxed.gpu.global.b128" in ptx:
        return f"load_word({addresses}, {given[0]})"
    if ptx == "atom.relaxed.gpu.global.add.s32 %0, [%1], 1;":
        return f"({out[0]} = (*{given[0]})++)"
    if ptx == "ld.relaxed.gpu.global.s32 %0, [%1];":
        return f"({out[0]} = *{given[0]})"
    if ptx == "atom.relaxed.gpu.global.cas.b32 %0, [%1], %2, %3;":
        return f"({out[0]} = *{given[0]}, *{given[0]} = {out[0]} == {given[1]} ? {given[2]} : {out[0]})"
    if ptx.startswith("mma.sync.aligned.m16n8") and ".row.col." in ptx:
        begins_with_zero = int("{%10, %10, %10, %10}" in ptx)
        assert begins_with_zero or ptx.endswith("{%8, %9}, {%0, %1, %2, %3};")
        values = ", ".join(given[:6])
        name = ptx.split(" ")[0]
        return f'multiply("{name}", (void *[]){{{addresses}}}, (const unsigned int[]){{{values}}}, {begins_with_zero})'
    raise ValueError(f"no C for the PTX {ptx}")


def in_c(text: str) -> str:
    """Return a C program of OpenCL C with PTX in it; `launch_NAME(arguments, groups, items)` runs a kernel."""
    for match in reversed([*re.finditer(r"\basm(\s+volatile)?\s*\(", text)]):
        end = closing(text, match.end() - 1)
        text = text[: match.start()] + call_of(text[match.end() : end]) + text[end + 1 :]
    text = re.sub(r"__local ((?:\w+ )+\w+\[)", r"static \1", text).replace("__local ", "")
    launches = []
    for name, parameters in re.findall(r"__kernel[^;{}]*?void (\w+)\(([^)]*)\)", text):
        values = ", ".join(
            f"arguments[{number}]" if "*" in parameter else f"*({parameter.split()[-2]} *)arguments[{number}]"
            for number, parameter in enumerate(parameters.split(","))
        )
        launches.append(
            f"static void run_{name}(void) {{ {name}({values}); }}\n"
            f"void launch_{name}(void **given, int groups, int items) "
            f"{{ arguments = given; launch(run_{name}, groups, items); }}\n"
        )
    return f'#include "{HEADER}"\nstatic void **arguments;\n{text}\n{"".join(launches)}'


class Memory(contract.Buffer):
    def __init__(self, nbytes: int) -> None:
        self.nbytes, self.array = nbytes, np.full(nbytes + 16, 0xFF, np.uint8)
        self.start = -self.array.ctypes.data % 16

    @property
    def bytes(self) -> np.ndarray:
        return self.array[self.start : self.start + self.nbytes]

    def release(self) -> None:
        """Do nothing: NumPy frees the memory."""


class Program(contract.Program):
    def __init__(self, library: ctypes.CDLL) -> None:
        self.library = library

    def kernel(self, name: str) -> Kernel:
        return Kernel(name, self.library[f"launch_{name}"])


class Queue(contract.Queue):
    def launch(self, kernel: Any, global_size: Sequence[int], local_size: Sequence[int], *args: Any) -> None:
        (size,), (items,) = global_size, local_size
        assert size % items == 0
        arrays = [arg.bytes if isinstance(arg, Memory) else np.array([arg]) for arg in args]
        pointers = (ctypes.c_void_p * len(args))(*(array.ctypes.data for array in arrays))
        kernel.function(pointers, size // items, items)

    def write(self, buffer: Any, array: np.ndarray) -> None:
        buffer.bytes[: array.nbytes] = np.ascontiguousarray(array).view(np.uint8).reshape(-1)

    def read(self, buffer: Any, array: np.ndarray, offset: int = 0) -> np.ndarray:
        array[...] = buffer.bytes[offset : offset + array.nbytes].view(array.dtype).reshape(array.shape)
        return array

    def copy(self, target: Any, source: Any) -> None:
        target.bytes[: source.nbytes] = source.bytes

    def send(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        raise NotImplementedError

    def receive(self, buffer: Any, array: np.ndarray, offset: int = 0) -> None:
        raise NotImplementedError

    def laps(self, *submits: Callable[[], None]) -> list[float]:
        for submit in submits:
            submit()
        return [1e-6] * len(submits)

    def finish(self) -> None:
        """Do nothing: a launch has ended when it returns."""


class InC(contract.Device):
    """NVIDIA's OpenCL, by the host's C compiler."""

    backend, kind, name, spec = "opencl", "gpu", "Warps in C", "opencl:0"
    compute_units, max_work_group, max_clock_mhz = 1, 512, 1000
    memory_bytes, cache_bytes, local_bytes, ptx = 1 << 30, 1 << 20, 48 << 10, 90

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def identity(self) -> dict[str, str]:
        return {"backend": "opencl", "model": self.name}

    def build(self, text: str, options: Sequence[str] = ()) -> Program:
        number = len([*self.folder.glob("*.c")])
        source, library = self.folder / f"kernel{number}.c", self.folder / f"kernel{number}.so"
        source.write_text(in_c(text))
        command = [cc.compiler() or "cc", "-O1", "-w", "-shared", "-fPIC", "-o", str(library), str(source), "-lm"]
        subprocess.run(command, check=True)
        return Program(ctypes.CDLL(str(library)))

    def empty(self, nbytes: int) -> Memory:
        return Memory(nbytes)

    def queue(self, profiling: bool = False) -> Queue:
        return Queue()
