"""Runs of the network in a browser: the report's smallest batch and one for a phone; noise in place of images."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.launch_recorder import RecordedRead
from ...spec.browser_run import Arrays, BrowserRun, Drawn, Reads
from ...spec.plan import Case, Variant
from .network import SHAPES
from .problem import CONV1, sampled

DIFFERENT = 16
"""Number of different images in a batch, which repeats them: the reference of each takes a browser some 30 ms."""


def sizes(case: Case) -> dict[str, int]:
    """Return the number of drawn numbers: the different images, and the weights of all layers."""
    return {"x": min(case.params["batch"], DIFFERENT) * CONV1.x_values} | {
        name: math.prod(shape) for name, shape in SHAPES.items()
    }


def inputs(case: Case, drawn: Drawn) -> dict[str, Any]:
    """Return a batch of noise with drawn weights, as `problem.inputs` has images with trained ones."""
    batch, images = case.params["batch"], drawn["x"].reshape(-1, *CONV1.x_shape)
    return {
        "x": images[np.arange(batch) % len(images)],
        "labels": np.zeros(batch, np.uint8),
        "weights": {name: drawn[name].reshape(shape) for name, shape in SHAPES.items()},
        "source": "drawn numbers",
        "images": len(images),
    }


def arrays(inputs: Mapping[str, Any]) -> Arrays:
    """Return what plans put in buffers: the batch, and the weights."""
    return {"x": inputs["x"], **inputs["weights"]}


def allowed(variant: Variant) -> dict[str, float] | str:
    """Return nothing; a reason for a step whose operands are rounded."""
    rounds = variant.options.get("operand_roundoff")
    return "its operands are rounded, and the check in the page is for fp32" if rounds else {}


def raw_outputs(inputs: Mapping[str, Any], outputs: Arrays, reads: Sequence[RecordedRead]) -> Reads | None:
    """Return the reads of all images' maps and scores; the plan's outputs have the maps of the sampled images alone."""
    batch, output_reads = len(inputs["x"]), {}
    for name, array in outputs.items():
        images = slice(None) if name == "scores" else sampled(batch)
        for read in reads:
            of_images = (batch, *array.shape[1:])
            if read.marks.size == math.prod(of_images) and np.array_equal(read.marks.reshape(of_images)[images], array):
                output_reads[name] = [read]
    return output_reads if output_reads.keys() == outputs.keys() else None


BROWSER = BrowserRun(
    cases=("batch-100", "batch-10"),
    ranges={
        "x": (-1.0, 1.0),
        "conv1": (-0.25, 0.25),
        "conv2": (-0.125, 0.125),
        "fc1": (-0.0625, 0.0625),
        "fc1_bias": (-0.5, 0.5),
        "fc2": (-0.25, 0.25),
        "fc2_bias": (-0.5, 0.5),
    },
    script=Path(__file__).with_name("browser.js"),
    sizes=sizes,
    inputs=inputs,
    arrays=arrays,
    raw_outputs=raw_outputs,
    allowed=allowed,
)
