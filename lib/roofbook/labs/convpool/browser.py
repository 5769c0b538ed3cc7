"""Runs of the sparse layer in a browser: a layer for every GPU, a small and the published one; operands from drawn numbers."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...spec.browser_run import BrowserRun, Drawn
from ...spec.plan import Case
from . import plans
from .problem import LARGEST, NEURON_DENSITY, Int16


def sizes(case: Case) -> dict[str, int]:
    """Return the number of drawn numbers: an order and a value for each element of both operands."""
    layer = plans.layer(case)
    counts = {"x": math.prod(layer.x_shape), "weight": math.prod(layer.weight_shape)}
    return {f"{part} of {name}": count for name, count in counts.items() for part in ("order", "value")}


def inputs(case: Case, drawn: Drawn) -> dict[str, Int16]:
    """Return `x` and `weight` with the published sparsity, as `problem.inputs` has it."""
    layer = plans.layer(case)
    groups = {"x": (layer.x_shape, layer.size**2, NEURON_DENSITY)}
    groups["weight"] = (layer.weight_shape, layer.kernel**2, 1 / layer.kernel**2)
    return {
        name: sparse(drawn[f"order of {name}"], drawn[f"value of {name}"], group, density).reshape(shape)
        for name, (shape, group, density) in groups.items()
    }


def sparse(order: NDArray[np.float32], value: NDArray[np.float32], group: int, density: float) -> Int16:
    """Return whole numbers, of which those that come first in the order are not zero in each `group` of neighbours."""
    whole = np.floor(value).astype(np.int16)
    whole[whole >= 0] += 1
    first = np.argsort(order.reshape(-1, group), axis=1, kind="stable")[:, : max(1, round(density * group))]
    kept = np.zeros_like(whole).reshape(-1, group)
    np.put_along_axis(kept, first, np.take_along_axis(whole.reshape(-1, group), first, axis=1), axis=1)
    return kept


def arrays(inputs: Mapping[str, Any]) -> dict[str, Int16]:
    """Return what plans put in buffers: the input with its border, and the weights."""
    border = inputs["weight"].shape[-1] // 2
    return {"padded x": np.pad(inputs["x"], ((0, 0), (border, border), (border, border))), "weight": inputs["weight"]}


BROWSER = BrowserRun(
    cases=("256x256x16x16-k3", "64x64x32x32-k3", "512x512x32x32-k3"),
    ranges={
        f"{part} of {name}": span
        for name in ("x", "weight")
        for part, span in (("order", (0.0, 1.0)), ("value", (-float(LARGEST), float(LARGEST))))
    },
    script=Path(__file__).with_name("browser.js"),
    sizes=sizes,
    inputs=inputs,
    arrays=arrays,
)
