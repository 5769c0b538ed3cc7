"""The lab's demonstration: right and wrong results that two checks accept. Every number is computed."""

import math

from ...analysis.publication import Demonstration
from ...devices.contract import Device
from .problem import check_outcomes


def demonstration(device: Device) -> Demonstration:
    """Tabulate the results that the course's check and the bound for fp32 accept. The host emulates precisions and mistakes."""
    import pandas as pd

    from ...analysis import format as show

    outcomes = check_outcomes()
    lines = [
        [
            outcome.computed,
            outcome.inputs,
            "NaN" if math.isnan(outcome.rms) else f"{outcome.rms:.1e}",
            f"{outcome.course_wrong} of {outcome.outputs}",
            "passes" if outcome.passes_course else "refused",
            "NaN" if math.isnan(outcome.rms) else show.number(outcome.error_over_bound, 2),
            "passes" if outcome.passes_bound else "refused",
        ]
        for outcome in outcomes
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
        pd.DataFrame(outcomes),
        notes,
    )
