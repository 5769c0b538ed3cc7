"""A step measured again beside its parent: the ratio of the new run, the noise of that run, and the ratio before."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..store.schema import CONTROL
from . import format as show
from .readings import TOO_FEW, Reading, Speedup, faster, newest
from .sentences import NOT_COMPARED, ratio_words

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class StepRerun:
    """Outcome of measuring a step and its parent in the same rounds of new runs."""

    case: str
    step: Reading
    """The step over the new runs."""
    parent: Reading | None
    """Its parent over the new runs; None for a step without a parent, or whose parent does not run here."""
    ratio: Speedup | None
    """Step over parent in the new runs; None if either has no verified time."""
    control: Speedup | None
    """The A/A control: a variant that was measured twice in the same rounds, over itself. None if there is none."""
    control_of: str
    """Name of that variant; '' for none."""
    before: Speedup | None
    """Step over parent in the newest earlier measurement of both; None without one."""
    before_started: str
    """Day of that measurement, such as `2026-11-28`; '' for none."""

    def lines(self) -> list[str]:
        """Return the outcome in sentences, one a line."""
        step, parent = self.step, self.parent
        lines = [f"{step.variant} on {self.case}: {show.duration(step.median)} per {step.row['unit']}"]
        if parent is None:
            return lines
        if not parent.ok:
            return [*lines, f"Its parent {parent.variant} has no time: {parent.reason}"]
        lines.append(effect(self.ratio, f"{parent.variant} ({show.duration(parent.median)})"))
        if self.control:
            control = show.factor(self.control.estimate, self.control.low, self.control.high)
            lines.append(f"{control}: {self.control_of} over itself, the A/A control of the same rounds")
        before = f"before, on {self.before_started}: {effect(self.before, parent.variant)}" if self.before else ""
        lines.append(before or "before: not measured here")
        return lines


def effect(ratio: Speedup | None, of: str) -> str:
    """Return a ratio in words, with the number of runs that it comes from."""
    assert ratio
    if TOO_FEW in ratio.how:
        return f"{NOT_COMPARED} with {of}"
    runs = {0: f", {ratio.how}" if ratio.how else "", 1: ", in one run"}.get(ratio.runs, f", in {ratio.runs} runs")
    return f"{ratio_words(ratio)} {of}{runs}"


def step_rerun(rows: "pd.DataFrame", variant: str, parent: str | None, case: str, runs: Collection[str]) -> StepRerun:
    """Return the outcome of new runs of a step and its parent.

    rows: all rows of both variants on the case, of the new runs and of earlier ones, on this device. runs: names of the new
    runs. `rows` has the step in one of them.
    """
    is_new = rows["run"].isin(list(runs))
    new, earlier = newest(rows[is_new], case), newest(rows[~is_new], case)
    control = next((reading for reading in new.values() if reading.role == CONTROL), None)
    control_ratio = faster(new.get(control.parent or ""), control) if control else None
    before = faster(earlier.get(parent or ""), earlier[variant]) if variant in earlier else None
    return StepRerun(
        case,
        new[variant],
        new.get(parent or ""),
        faster(new.get(parent or ""), new[variant]),
        control_ratio,
        (control.parent or "") if control and control_ratio else "",
        before,
        f"{earlier[variant].row['started']:%Y-%m-%d}" if before else "",
    )
