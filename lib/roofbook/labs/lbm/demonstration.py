"""The lab's demonstration of physics: conserved mass and momentum, and the decay of a vortex. All numbers are computed."""

import numpy as np

from ...analysis.publication import Demonstration
from ...devices.contract import Device
from ...spec.plan import Case, Variant
from . import LAB
from .problem import (
    Params,
    initial,
    macroscopic,
    mass,
    momentum,
    published,
    reference,
    taylor_green,
    taylor_green_decay,
)


def simulate(device: Device, variant: Variant, params: Params, obstacles: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return f after `params.iterations` steps of a variant from `f` (9, ny, nx): float64."""
    case = Case(f"{params.nx}x{params.ny}", "demonstration", {}, params.iterations)
    run = variant.plan(device, variant, case, {"params": params, "obstacles": obstacles, "f": f})
    run.reset()
    run.run()
    after = run.outputs()["f"]
    run.close()
    return after


def demonstration(device: Device) -> Demonstration:
    """Compute mass in the closed box, and mass, momentum and decay of a Taylor-Green vortex, on the device and in float64."""
    import pandas as pd

    variant = LAB.variant(LAB.best)
    box, walls = published()["128x128"]
    box = Params(**{**box.__dict__, "iterations": 400})
    start = initial(box, np.float32)
    boxed = simulate(device, variant, box, walls, start), reference(box, walls, box.iterations, start)[0]

    u0, size = 0.01, 64
    vortex = Params(size, size, 400, 10, 0.1, 0.0, 1.2)
    open_space = np.zeros((size, size), bool)
    swirl = taylor_green(size, size, u0, vortex.density)
    swirled = (
        simulate(device, variant, vortex, open_space, swirl.astype(np.float32)),
        reference(vortex, open_space, vortex.iterations, swirl)[0],
    )
    k = 2 * np.pi / size
    theory = taylor_green_decay(vortex.viscosity, k, k, vortex.iterations)

    def decay(f: np.ndarray) -> float:
        speed = [np.hypot(*macroscopic(state)[1:]).max() for state in (f, swirl)]
        return float(speed[0] / speed[1])

    lines, records = [], []
    for quantity, exact, (on_device, double) in (
        (f"Mass after {box.iterations} steps in the closed box, relative change", 0.0,
         [mass(f) / mass(start) - 1 for f in boxed]),
        (f"Mass after {vortex.iterations} steps of a Taylor-Green vortex, relative change", 0.0,
         [mass(f) / mass(swirl) - 1 for f in swirled]),
        ("Largest momentum component of the vortex, over its mass", 0.0,
         [max(map(abs, momentum(f))) / mass(f) for f in swirled]),
        ("Speed of the vortex, as a share of its initial speed", theory, [decay(f) for f in swirled]),
    ):  # fmt: skip
        cells = [f"{value:.4g}" for value in (exact, on_device, double)]
        lines.append([quantity, *cells])
        records.append({"what": quantity, "theory": exact, "device": on_device, "float64": double})
    heads = [
        "Quantity",
        "Theory",
        f"{variant.name}, fp32",
        "Reference, float64",
    ]
    return Demonstration(
        f"Physics on {device.name}",
        heads,
        lines,
        frozenset(heads[1:]),
        pd.DataFrame(records),
        [],
    )
