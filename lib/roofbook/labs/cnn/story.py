"""What the lab's page says in sentences, and what its checks let pass. Every number is read or computed."""

import math
from typing import TYPE_CHECKING

from ...device import Device
from ...lab import Measured
from . import LAB
from .problem import what_passes

if TYPE_CHECKING:
    from ...report.html import Table

PAIRS = (
    ("One sub-tile per work-item", [("tiled", "sequential")]),
    ("One tap at a time for the whole sub-tile", [("permuted", "global-id")]),
    ("Unrolled", [("unrolled", "permuted")]),
    ("Separate loops for the last stages", [("fissioned", "aligned")]),
    ("Through local memory", [("local-tile", "fissioned")]),
    ("As an implicit matrix product", [("implicit-gemm", "fissioned"), ("double-buffered", "implicit-gemm")]),
    ("Explicit vectors", [("vectors", "fissioned")]),
    ("Tensor cores in fp16, conversion included", [("tensor-fp16", "double-buffered"), ("tensor-cluster", "tensor-fp16")]),
    ("Tensor cores, more taps from each box of pixels",
     [("tensor-columns", "tensor-prepared"), ("tensor-window", "tensor-wide-stores")]),
    ("Relaxed barriers", [("tensor-relaxed", "tensor-window")]),
    ("Tensor cores with split operands", [("tensor-split", "double-buffered")]),
    ("Compared with PyTorch on the GPU in fp32", [("double-buffered", "torch-fp32"), ("tensor-split", "torch-fp32")]),
    ("Compared with PyTorch in fp16, both converted beforehand",
     [("tensor-relaxed", "torch-fp16"), ("tensor-relaxed", "torch-compiled")]),
    ("Compared with PyTorch on the host's CPU", [("vectors", "torch-cpu")]),
)  # fmt: skip
"""What changes, and the pairs (rung, held against) that show it."""


def summary(experiment: Measured) -> str:
    """One paragraph a case. What was not measured is left out."""
    from ...report.prose import conclusions

    return conclusions(LAB, experiment)


def demonstration(device: Device) -> "Table":
    """What the course's check and the bound for fp32 let pass. Computed on the host: precisions and mistakes are emulated."""
    import pandas as pd

    from ...report import units as show
    from ...report.html import Cell, Row, Table

    found = what_passes()
    lines = [
        Row(
            [
                Cell(each.computed),
                Cell(each.inputs),
                Cell("NaN" if math.isnan(each.rms) else f"{each.rms:.1e}", "num"),
                Cell(f"{each.course_wrong} of {each.outputs}", "num"),
                Cell("passes" if each.passes_course else "refused"),
                Cell("NaN" if math.isnan(each.rms) else show.number(each.error_over_bound, 2), "num"),
                Cell("passes" if each.passes_bound else "refused"),
            ]
        )
        for each in found
    ]
    columns = [
        Cell("Computed with"),
        Cell("Inputs drawn from"),
        Cell("rms error / rms result", "num"),
        Cell("Wrong by the course's check", "num"),
        Cell("The course's check"),
        Cell("Largest error / tolerance for fp32", "num"),
        Cell("The tolerance for fp32"),
    ]
    notes = [
        "The course's check: no output is NaN, or has a relative error over 0.001 and an absolute error over 0.05.",
        "The tolerance for fp32: steps in fp32 and with split operands must meet it on this page.",
        "Emulated by NumPy on a layer of as many channels as the published one, but smaller; sums are in fp32 throughout.",
    ]
    return Table("What two checks let pass", columns, lines, pd.DataFrame(found), notes, "checks")
