"""Steps whose kernels have PTX in their text, on the host: the text that NVIDIA's OpenCL compiles, with the PTX done in C."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.backends import OPENCL
from roofbook.devices.contract import Device, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.measure.placement import target_of
from roofbook.measure.sanitize import reason_unchecked
from roofbook.peers import cc
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from ..devices.warps_in_c import InC, in_c

CASES = {
    "cnn": ["17to70ch-9x17-k3", "5to130ch-9x33-k5", "40to33ch-17x18-k2", "20to3ch-2x3-k1"],
    "lenet": ["batch-1", "batch-5"],
    "lbm": ["7x13", "5x7", "3x5"],
    "convpool": ["33x40x11x11-k3", "17x300x9x9-k5", "5x7x9x9-k1"],
}
"""Lab -> sizes that divide no tile: one and several chunks of channels, tiles of filters and pixels, and images a group."""
STEPS = [
    (lab, variant)
    for lab in map(registry.get, registry.names())
    for variant in lab.all_variants()
    if "ptx" in variant.needs and OPENCL.name in variant.backends
]
needs_compiler = pytest.mark.skipif(cc.compiler() is None, reason=str(cc.missing()))


def is_right(lab: Lab, variant: Variant, name: str, device: Device, plan: Any = None) -> bool:
    """Return whether the lab's check accepts the outputs of a variant on a device."""
    case = lab.awkward_case(name)
    drawn = lab.inputs(case, seed=3)
    run = (plan or variant.plan)(device, variant, case, drawn)
    run.reset()
    run.run()
    error, tolerance, _ = lab.check(case, variant, run.outputs(), lab.reference(case, drawn))
    return bool(error <= tolerance)


@needs_compiler
@pytest.mark.parametrize(
    ("lab", "variant", "name"),
    [
        pytest.param(lab, variant, name, id=f"{variant.name}-{name}", marks=[pytest.mark.thorough] * (number > 0))
        for lab, variant in STEPS
        if variant.role == "step"
        for number, name in enumerate(CASES[lab.name])
    ],
)
def test_is_right_by_its_ptx(lab: Lab, variant: Variant, name: str, tmp_path: Path) -> None:
    assert is_right(lab, variant, name, InC(tmp_path))


@pytest.mark.parametrize(("lab", "variant"), [pytest.param(*step, id=step[1].name) for step in STEPS])
def test_other_devices_and_older_gpus_are_refused_in_a_sentence(lab: Lab, variant: Variant, tmp_path: Path) -> None:
    case = lab.awkward_case(CASES[lab.name][0])
    for ptx, reason in ((0, "it is none, and its compiler takes no PTX"), (75, "this one has 7.5")):
        device = InC(tmp_path)
        device.ptx = ptx
        with pytest.raises(
            Unsupported, match=f"^an NVIDIA GPU of compute capability 8.0 or higher is needed; {reason}$"
        ):
            variant.plan(device, variant, case, lab.inputs(case, seed=3))
    assert target_of(variant, host_cpu()) is None
    assert (
        reason_unchecked(variant, host_cpu())
        == "its kernel has PTX in it, which only NVIDIA's tools know; name a CUDA device"
    )


def test_ptx_that_has_no_c_is_named() -> None:
    with pytest.raises(ValueError, match=r"^no C for the PTX bar\.sync 0;$"):
        in_c('__kernel void one(__global int *x) { asm volatile("bar.sync 0;"); }')


@needs_compiler
@pytest.mark.parametrize("element", ["f16", "tf32", "s8"])
def test_the_peak_from_opencl_adds_up_its_products(element: str, tmp_path: Path) -> None:
    lab = registry.get(registry.PEAKS)
    variant = lab.variant(f"ptx-{element}")
    few = replace(next(case for case in lab.cases("test") if not lab.skip_reason(variant, case)), units=4)
    drawn = lab.inputs(few, seed=3)
    run = variant.plan(InC(tmp_path), variant, few, drawn)
    run.reset()
    run.run()
    error, tolerance, _ = lab.check(few, variant, run.outputs(), lab.reference(few, drawn))
    assert error <= tolerance
