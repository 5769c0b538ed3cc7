"""What its checks let pass. Every number is computed."""

import math

from ...analysis.publication import Demonstration
from ...devices.contract import Device
from .problem import what_passes


def demonstration(device: Device) -> Demonstration:
    """What the course's check and the bound for fp32 let pass. Computed on the host: precisions and mistakes are emulated."""
    import pandas as pd

    from ...analysis import format as show

    found = what_passes()
    lines = [
        [
            each.computed,
            each.inputs,
            "NaN" if math.isnan(each.rms) else f"{each.rms:.1e}",
            f"{each.course_wrong} of {each.outputs}",
            "passes" if each.passes_course else "refused",
            "NaN" if math.isnan(each.rms) else show.number(each.error_over_bound, 2),
            "passes" if each.passes_bound else "refused",
        ]
        for each in found
    ]
    heads = [
        "Computed with",
        "Inputs drawn from",
        "rms error / rms result",
        "Wrong by the course's check",
        "The course's check",
        "Largest error / tolerance for fp32",
        "The tolerance for fp32",
    ]
    notes = [
        "The course's check: no output is NaN, or has a relative error over 0.001 and an absolute error over 0.05.",
        "The tolerance for fp32: steps in fp32 and with split operands must meet it on this page.",
        "Emulated by NumPy on a layer of as many channels as the published one, but smaller; sums are in fp32 throughout.",
    ]
    return Demonstration(
        "What two checks let pass",
        heads,
        lines,
        frozenset({"rms error / rms result", "Wrong by the course's check", "Largest error / tolerance for fp32"}),
        pd.DataFrame(found),
        notes,
    )
