"""Effects of techniques that were never measured, for tests of the pages that show them."""

from __future__ import annotations

from roofbook.analysis.readings import Speedup
from roofbook.analysis.store_devices import StoreDevice
from roofbook.analysis.technique_effects import Effect, StepEffects
from roofbook.spec import registry
from roofbook.spec.techniques import step_tags

BY_CUDA = StoreDevice("a-gpu", "cuda", "A GPU", "gpu")
BY_OPENCL = StoreDevice("a-gpu", "opencl", "A GPU", "gpu")
CPU = StoreDevice("a-cpu", "opencl", "A CPU", "cpu")
FASTER, SLOWER, SAME, UNDECIDED = (2.0, 1.9, 2.1), (0.5, 0.4, 0.6), (1.0, 0.995, 1.005), (1.0, 0.5, 2.0)


def effect(device: StoreDevice, interval: tuple[float, float, float], case: str = "large") -> Effect:
    """Return an effect with a ratio and its interval."""
    return Effect(device, "published", case, Speedup(*interval, "", 3), "stencil/a-gpu.cuda#a~large")


def step(lab_name: str, name: str, *effects: Effect) -> StepEffects:
    """Return a step of a lab, with its own tags."""
    lab = registry.get(lab_name)
    return StepEffects(lab, lab.variant(name), step_tags(lab).get(name, ()), effects)


STEPS = [
    step("cnn", "local-tile", effect(BY_CUDA, SLOWER), effect(BY_OPENCL, SLOWER), effect(CPU, UNDECIDED)),
    step("cnn", "warps-fp16", effect(BY_CUDA, FASTER)),
    step("cnn", "tensor-columns", effect(BY_CUDA, FASTER), effect(BY_CUDA, SAME, "small")),
    step("stencil", "local-memory"),
]
"""Steps that stage operands: alone, taken away, with clusters, and without a measurement."""
