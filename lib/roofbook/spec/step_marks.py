"""Marks of a variant in lists of steps: the architecture, feature or language without which it does not run.

They follow from what the ladder says of a variant: its architectures, its kind and the features that it needs.
"""

from collections.abc import Sequence

from ..devices.backends import CUDA, HOST, OPENCL
from ..devices.pocl_cpu import INSTRUCTIONS
from .plan import Variant

TENSOR_CORES = "tensor cores"
MATRIX_PRODUCTS = frozenset({"mma", "wgmma"})
"""Features of matrix products on tensor cores. A kernel with PTX in its text has them if its dtype is not fp32."""
LANGUAGES = {CUDA.name: "CUDA", OPENCL.name: "OpenCL"}
CPU, GPU, NVIDIA, SEVERAL = "CPU", "GPU", "NVIDIA GPU", "several devices"
OTHER_MARKS = frozenset({*LANGUAGES.values(), CPU, GPU, NVIDIA, SEVERAL})
"""Marks that name no unit of the hardware."""


def hardware_marks(variant: Variant) -> tuple[str, ...]:
    """Return the architecture and the units of a device that a variant needs, such as 'sm_90' or 'AVX-512 VNNI'."""
    needs, first, last = _needs(variant), variant.architectures.start, variant.architectures.stop
    marks = []
    if first > 80:
        marks.append(f"sm_{first}{' or later' if last >= 1000 else ''}")
    if needs & MATRIX_PRODUCTS or ("ptx" in needs and variant.dtype != "float32"):
        marks.append(TENSOR_CORES)
    return (*marks, *(name for feature, (name, _) in INSTRUCTIONS.items() if feature in needs))


def hardware_of(marks_of_variant: Sequence[str]) -> list[str]:
    """Return those marks that name hardware, rather than a language or a kind of device."""
    return [mark for mark in marks_of_variant if mark not in OTHER_MARKS]


def marks(variant: Variant) -> tuple[str, ...]:
    """Return all that a variant needs of a device, in words of a list; none if it runs on all devices by all backends.

    Beside `hardware_marks`: the kind of device, the only language in which it can be written, and several devices.
    """
    needs, hardware = _needs(variant), hardware_marks(variant)
    if needs & {HOST, "cpu"} or variant.kind == "cpu":
        return hardware or (CPU,)
    marks = list(hardware)
    if "ptx" in needs:
        marks.append(NVIDIA)
    elif len(variant.backends) == 1:
        marks += [LANGUAGES[backend] for backend in variant.backends if backend in LANGUAGES and not hardware]
    if "several" in needs:
        marks.append(SEVERAL)
    return tuple(marks) or ((GPU,) if variant.kind == "gpu" else ())


def _needs(variant: Variant) -> frozenset[str]:
    return variant.needs | (variant.source.needs if variant.source else frozenset())
