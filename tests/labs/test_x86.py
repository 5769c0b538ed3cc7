"""Steps whose kernels have x86 instructions in their text: by stand-ins on any CPU, and refused in a sentence without them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import cast

import numpy as np
import pytest

from roofbook.devices import opencl, pocl_cpu, pocl_probe
from roofbook.devices.backends import X86_INSTRUCTIONS
from roofbook.devices.contract import Device, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.measure.sanitize import reason_unchecked
from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.plan import Variant

from . import x86

CASES = {
    "cnn": ["17to10ch-9x17-k3", "5to7ch-6x33-k5", "2to3ch-2x3-k1"],
    "convpool": ["7x6x9x9-k3", "3x9x12x12-k5-w60", "2x130x8x8-k1-w0-x0"],
}
"""Lab -> sizes that divide no tile: an odd map, several parts of a map, several turns of channels."""
STEPS = [
    (lab, variant)
    for lab in map(registry.get, registry.names())
    for variant in lab.ladder
    if variant.needs & X86_INSTRUCTIONS
]
steps = pytest.mark.parametrize(("lab", "variant"), [pytest.param(*step, id=step[1].name) for step in STEPS])


@pytest.mark.parametrize("size", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in (1, 2))])
@steps
def test_is_right_by_its_instructions(lab: Lab, variant: Variant, size: int) -> None:
    case = lab.case(CASES[lab.name][size])
    drawn = lab.inputs(case, seed=3)
    run = variant.plan(cast(Device, x86.InOpenCL(host_cpu())), variant, case, drawn)
    run.reset()
    run.run()
    error, tolerance, compared = lab.check(case, variant, run.outputs(), lab.reference(case, drawn))
    assert error <= tolerance, compared
    run.close()


def refusal(lab: Lab, variant: Variant, device: Device) -> str:
    """Return the sentence by which a step refuses a device."""
    case = lab.case(CASES[lab.name][0])
    with pytest.raises(Unsupported) as refused:
        variant.plan(device, variant, case, lab.inputs(case, seed=3))
    return str(refused.value)


@steps
def test_a_cpu_without_them_is_refused_in_a_sentence(
    lab: Lab, variant: Variant, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = host_cpu()
    if not getattr(device, "compiles_for", None):
        pytest.skip("no PoCL")
    (feature,) = variant.needs & X86_INSTRUCTIONS
    name, needed = pocl_cpu.INSTRUCTIONS[feature]
    start = "kernels with x86 instructions do not run on it: "
    monkeypatch.setattr(pocl_cpu, "processor_flags", lambda: needed - {sorted(needed)[-1]})
    assert refusal(lab, variant, device) == f"{start}this CPU has no {name}"
    monkeypatch.setattr(pocl_cpu, "processor_flags", lambda: needed)
    monkeypatch.setattr(pocl_cpu, "_runs_instructions", lambda *_: False)
    monkeypatch.setitem(vars(device), "compiles_for", pocl_cpu.CpuChoice("", "haswell", ()))
    assert refusal(lab, variant, device) == f"{start}PoCL's compiler takes none of {name} for haswell"
    monkeypatch.setitem(vars(device), "compiles_for", None)
    assert refusal(lab, variant, device) == f"{start}its compiler is not known to take x86 instructions within a text"
    if pocl_probe.needs_tiles(feature):
        monkeypatch.setattr(pocl_cpu, "_runs_instructions", lambda *_: True)
        monkeypatch.setattr(pocl_probe, "ask_for_tiles", lambda: "Operation not supported")
        monkeypatch.setitem(vars(device), "compiles_for", pocl_cpu.CpuChoice("", "haswell", ()))
        reason = "the system gives this process no tiles of AMX: Operation not supported"
        assert refusal(lab, variant, device) == start + reason
    assert reason_unchecked(variant, device) == "its kernel has x86 instructions in it, which no tool of ours knows"


@pytest.mark.parametrize("feature", sorted(X86_INSTRUCTIONS))
def test_the_probe_says_what_pocl_takes(feature: str) -> None:
    """For a CPU without AVX-512 the compiler refuses them, in a process of its own; for others it depends on this one."""
    device = host_cpu()
    if not isinstance(device, opencl.OpenCLDevice) or not device.compiles_for:
        pytest.skip("no PoCL")
    assert pocl_cpu.run_probe("haswell", feature) is None
    if not pocl_cpu.INSTRUCTIONS[feature][1] <= pocl_cpu.processor_flags():
        assert device.lacks_instructions(feature) == f"this CPU has no {pocl_cpu.INSTRUCTIONS[feature][0]}"
        return
    outcome = pocl_cpu.run_probe(device.compiles_for.name, feature)
    assert bool(outcome and outcome.right) == (device.lacks_instructions(feature) == "")


def test_a_product_of_tiles_has_three_of_them() -> None:
    """The processor refuses a product with one tile twice (Intel's manual, volume 2, TDPBSSD and TDPBF16PS: #UD)."""
    peaks = registry.get(registry.PEAKS).ladder
    texts = [
        variant.text.render("opencl")
        for variant in (*(step for _, step in STEPS), *peaks)
        if "amx" in str(variant.needs)
    ]
    texts += [kernel for feature, kernel in pocl_probe.INSTRUCTIONS.items() if pocl_probe.needs_tiles(feature)]
    for text in texts:
        products = [re.findall(r"tmm\W*(\d)", product) for product in re.findall(r'"tdp[^;]*;', text)]
        assert products and all(len(set(tiles)) == len(tiles) == 3 for tiles in products), text


def test_an_instruction_without_a_stand_in_is_named() -> None:
    with pytest.raises(ValueError, match=r"^nothing stands in for vpaddd$"):
        x86.in_opencl('__asm__("vpaddd %2, %1, %0" : "=v"(a) : "v"(b), "v"(c));')
    with pytest.raises(ValueError, match=r"^assembly of another form$"):
        x86.in_opencl('__asm__("nop");')


@pytest.mark.parametrize("peak", ["dots-s8", "dots-bf16", "tiles-s8", "tiles-bf16"])
def test_the_peak_adds_up_its_products(peak: str) -> None:
    lab = registry.get(registry.PEAKS)
    variant = lab.variant(peak)
    few = replace(next(case for case in lab.cases("test") if not lab.skip_reason(variant, case)), units=5)
    drawn = lab.inputs(few, seed=3)
    run = variant.plan(cast(Device, x86.InOpenCL(host_cpu())), variant, few, drawn)
    run.reset()
    run.run()
    outputs = run.outputs()
    error, tolerance, _ = lab.check(few, variant, outputs, lab.reference(few, drawn))
    assert error <= tolerance and outputs["ends"].any()
    wrong = {"ends": outputs["ends"] + (np.arange(outputs["ends"].shape[-1]) == 3)}
    assert lab.check(few, variant, wrong, lab.reference(few, drawn))[0] > tolerance
    run.close()
