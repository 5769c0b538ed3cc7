"""Marks of steps: what a step needs of a device follows from its features and its text, in each lab."""

from __future__ import annotations

import re

import pytest

from roofbook.spec import registry
from roofbook.spec.step_marks import TENSOR_CORES, hardware_marks, hardware_of, marks

LABS = registry.names_of_site()
MATRIX_PRODUCT = re.compile(r"\bw?g?mma(?:\.sync|\.mma_async|_|::)")
"""An instruction of a warp's or a warpgroup's matrix product, or a call of a function for it."""


@pytest.mark.parametrize(
    ("lab", "step", "expected"),
    [
        ("cnn", "tensor-fp16", ("sm_90", "tensor cores")),
        ("cnn", "warps-fp16", ("tensor cores", "NVIDIA GPU")),
        ("cnn", "bf16-dots", ("AVX-512 BF16",)),
        ("cnn", "vectors", ("OpenCL",)),
        ("convpool", "vnni-lists", ("AVX-512 VNNI",)),
        ("convpool", "tensor-int8", ("tensor cores",)),
        ("lbm", "persistent", ("CUDA",)),
        ("lbm", "bands", ("CPU",)),
        ("lbm", "halo-nccl", ("CUDA", "several devices")),
        ("lbm", "sequential-c", ("CPU",)),
        ("lbm", "fused", ()),
    ],
)
def test_a_step_is_marked_with_what_it_needs(lab: str, step: str, expected: tuple[str, ...]) -> None:
    variant = registry.get(lab).variant(step)
    assert marks(variant) == expected
    assert tuple(hardware_of(expected)) == hardware_marks(variant)


@pytest.mark.parametrize("lab", LABS)
def test_each_step_that_not_all_devices_run_has_a_mark_and_no_other(lab: str) -> None:
    for step in registry.get(lab).ladder:
        runs_everywhere = {"opencl", "cuda"} <= step.backends and not step.kind and step.architectures.start == 80
        needs = step.needs | (step.source.needs if step.source else frozenset())
        assert bool(marks(step)) != (runs_everywhere and "several" not in needs and "ptx" not in needs), step.name


@pytest.mark.parametrize("lab", LABS)
def test_a_step_has_the_mark_of_tensor_cores_if_its_text_multiplies_matrices(lab: str) -> None:
    for step in registry.get(lab).ladder:
        text = step.source.resolve() if step.source else ""
        assert (TENSOR_CORES in marks(step)) == bool(MATRIX_PRODUCT.search(text)), step.name
