"""Whether a device's native roots are a processor's estimates: their bits then depend on how wide its vectors are."""

from __future__ import annotations

from functools import cache

from roofbook.devices.contract import Device
from roofbook.labs.stencil import LAB
from roofbook.measure.placement import target_of


@cache
def are_estimates(device: Device) -> bool:
    """By the check's own words: the error of one step that has native roots is beyond what others may have."""
    variant, case = LAB.variant("native-rsqrt"), LAB.case("6x1024", "test")
    target = target_of(variant, device)
    assert target is not None
    given = LAB.inputs(case, seed=1)
    run = variant.plan(target.device, variant, case, given)
    run.reset()
    run.run()
    error, tolerance, _ = LAB.check(case, variant, run.outputs(), LAB.reference(case, given))
    run.close()
    assert error <= tolerance
    return tolerance > 1
