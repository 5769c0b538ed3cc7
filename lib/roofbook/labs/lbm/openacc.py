"""OpenACC as a peer: openacc.c by GCC, on an NVIDIA GPU if GCC offloads to it, on a core of the host for a CPU device.

The program is a separate process that times its own loop; Python writes to it and reads from it by pipes. It is optional: a
row without it says which package to install. It runs only on the device that its row names.
"""

import contextlib
import functools
import os
import shlex
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import BuildFailed, Device, DriverFailed, Unsupported
from ...devices.nvml import NvmlCard
from ...peers import cc, compiled, compilers
from ...spec.plan import Case, Plan, Variant, least_bytes, no_conditions
from .grid import one_core_steps
from .plans import UNWRITTEN
from .problem import Params

HERE = Path(__file__).parent
FLAGS = ("-std=gnu11", "-fopenacc")
ON_HOST = (*cc.FAST, "-foffload=disable")
"""Flags on the host, those of the C + OpenMP program without offloading."""
ON_GPU = (
    "-O3", "-fno-math-errno", "-foffload=nvptx-none", "-foffload-options=nvptx-none=-march=sm_80",
    "-foffload-options=nvptx-none=-lm", "-no-pie", "-fcf-protection=none",
)  # fmt: skip
"""Flags on a GPU. Today's CUDA no longer assembles GCC's default architecture; sm_80 is the oldest that the book supports.
Ubuntu's GCC protects control flow by default, which GCC's compiler for NVIDIA GPUs refuses."""


@functools.cache
def compiler() -> tuple[str, ...] | None:
    """Return the command of a C compiler with OpenACC: CC if it is set, cc or gcc; None if none has it."""
    for words in filter(None, (shlex.split(os.environ.get("CC", "")), ["cc"], ["gcc"])):
        try:
            macros = compiled.output_of([*words, "-fopenacc", "-dM", "-E", "-x", "c", os.devnull])
        except BuildFailed:
            continue
        if "#define _OPENACC 20" in macros:  # a compiler that only skips the directives defines it as 1, or not at all
            return tuple(words)
    return None


def program(target: str) -> Path:
    """Compile openacc.c for `host` or `nvidia`. Raises BuildFailed, and Unsupported if GCC does not offload."""
    command = compiler()
    assert command, "rows where there is none are skipped"
    if (
        target == "nvidia"
        and not Path(
            compiled.output_of([*command, "-print-prog-name=accel/nvptx-none/mkoffload"]).strip()
        ).is_absolute()
    ):
        version = compiled.output_of([*command, "-dumpversion"]).strip().partition(".")[0]
        raise Unsupported(
            f"not here: GCC {version} lacks its compiler for NVIDIA GPUs (Debian: apt-get install gcc-{version}-offload-nvptx)"
        )
    flags = (*FLAGS, *(ON_GPU if target == "nvidia" else ON_HOST))
    return compiled.build([*command, *flags], OpenAcc.sources, cc._machine(command), last=["-lm"])


class OpenAcc(Plan):
    """The program on one case. Its state stays on the device between runs; `run` returns the seconds of its loop."""

    sources = (HERE / "openacc.c",)

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return one_core_steps(case, variant, device) if device.kind == "cpu" else case.units

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        if device.kind == "gpu" and "nvidia" not in " ".join(device.identity().values()).lower():
            raise Unsupported("GCC's OpenACC offloads to NVIDIA GPUs here, and this is none")
        self.where = "nvidia" if device.kind == "gpu" else "host"
        self.units, self.start = case.units, np.ascontiguousarray(inputs["f"], np.float32)
        self.av_vels = np.full(self.units, UNWRITTEN)
        self.process = subprocess.Popen(
            [program(self.where), *arguments(inputs["params"]), self.where], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.PIPE, env={**os.environ, **seen_by(device)}, start_new_session=True,
        )  # fmt: skip
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self.to, self.by, self.complaints = self.process.stdin, self.process.stdout, self.process.stderr
        first_line = self.by.readline().decode().strip()
        if first_line != self.where:
            reason = first_line.removeprefix("error: ") or self.last_words()
            self.close()
            raise Unsupported(f"the OpenACC program does not start: {reason}")
        self.tell(np.ascontiguousarray(inputs["obstacles"], np.uint8).tobytes())

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why no OpenACC runs on this machine; None if it may."""
        return None if compiler() else "not here: no C compiler with OpenACC (Debian: apt-get install gcc)"

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.openacc_compiler(compiler())

    def tell(self, command: bytes, array: np.ndarray | None = None) -> None:
        try:
            self.to.write(command)
            if array is not None:
                self.to.write(array.data)
            self.to.flush()
        except OSError:
            raise DriverFailed(f"the OpenACC program ended: {self.last_words()}") from None

    def answer(self, dtype: type, count: int) -> np.ndarray:
        """Read so many numbers from the program. Raises DriverFailed if it ended."""
        answer = self.by.read(count * np.dtype(dtype).itemsize)
        if len(answer) != count * np.dtype(dtype).itemsize:
            raise DriverFailed(f"the OpenACC program ended: {self.last_words()}")
        return np.frombuffer(answer, dtype)

    def last_words(self) -> str:
        """Return the last line of the program's errors, or its exit code."""
        code = self.process.wait()
        lines = self.complaints.read().decode(errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), f"exit code {code}")

    def reset(self) -> None:
        self.tell(b"s", self.start)
        self.av_vels[:] = UNWRITTEN

    def run(self) -> float:
        self.tell(b"r", np.array([self.units], np.int32))
        numbers = self.answer(np.float64, 1 + self.units)
        self.av_vels = numbers[1:].copy()
        return float(numbers[0])

    def outputs(self) -> dict[str, np.ndarray]:
        self.tell(b"g")
        f = self.answer(np.float32, self.start.size).reshape(self.start.shape)
        return {"f": f.astype(np.float64), "av_vels": self.av_vels.copy()}

    def facts(self) -> dict[str, Any]:
        if self.where == "nvidia":
            return {"ran on": "NVIDIA GPU", "flags": " ".join((*FLAGS, *ON_GPU))}
        return {"ran on": "host", "threads": 1, "flags": " ".join((*FLAGS, *ON_HOST))}

    def close(self) -> None:
        """Close the program's input, which ends it."""
        with contextlib.suppress(OSError):  # it has ended, and never read the last command
            self.to.close()
        self.process.wait()
        self.by.close()
        self.complaints.close()


def arguments(params: Params) -> list[str]:
    """Return the program's arguments: nx, ny, omega and both addends of the drive, exact numbers of fp32."""
    w1, w2 = (params.density * params.accel / part for part in (9, 36))
    return [str(params.nx), str(params.ny), *(float(np.float32(number)).hex() for number in (params.omega, w1, w2))]


def seen_by(device: Device) -> dict[str, str]:
    """Return the variable that shows a program only this GPU; none for an instance of a shared GPU, the only one visible."""
    card = (NvmlCard(device.pci_bus_id).facts() if device.kind == "gpu" else None) or {}
    return {"CUDA_VISIBLE_DEVICES": card["uuid"]} if card.get("uuid") and not card.get("mig") else {}
