"""Answer of a tuning: the fastest point with all that are within its noise, by paired rounds."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..errors import Failed
from ..spec.plan import Variant
from . import format as show
from .readings import TOO_FEW, Reading, faster, newest
from .step_rerun import effect

if TYPE_CHECKING:
    import pandas as pd

WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@dataclass(frozen=True)
class TunedSet:
    """Points of a step that were measured in the same rounds, the fastest first."""

    step: Reading | None
    """The step as the lab has it; None if it has no time."""
    fastest: Reading
    equal: tuple[Reading, ...]
    """Points that no interval tells from the fastest."""
    slower: tuple[Reading, ...]

    def lines(self) -> list[str]:
        """Return the answer in sentences, one a line."""
        fastest, count = self.fastest, len(self.equal)
        number = WORDS[count] if count < len(WORDS) else str(count)
        noise = f", within the noise of {number} other{'s' * (count != 1)}" if count else ""
        lines = [f"{fastest.variant}: {show.duration(fastest.median)} per {fastest.row['unit']}, the fastest{noise}"]
        lines += [
            f"{reading.variant}: {show.duration(reading.median)}, {_compared(reading, fastest)}"
            for reading in (*self.equal, *self.slower)
        ]
        if self.step and self.step is not fastest:
            lines.append(
                f"{fastest.variant} is {effect(faster(self.step, fastest), f'{self.step.variant}, the step as it is')}"
            )
        return lines


def _compared(reading: Reading, fastest: Reading) -> str:
    """Return how a point's time compares with the fastest one's, with the interval."""
    ratio = faster(reading, fastest)
    assert ratio
    if TOO_FEW in ratio.how:
        return "of which too few samples were taken to tell"
    times = show.factor(ratio.estimate, ratio.low, ratio.high)
    return f"within the noise ({times})" if ratio.same else f"{times} of that time"


def tuned_set(rows: "pd.DataFrame", variants: Sequence[Variant], step: str, case: str) -> TunedSet:
    """Return the answer from rows of the same rounds. Raise Failed with the reason if no point has a verified time.

    rows: of the case on one device. step: the name of the step that was tuned.
    """
    readings = newest(rows, case, roles=("step", "sweep"))
    timed = sorted(
        (readings[v.name] for v in variants if v.name in readings and readings[v.name].ok), key=lambda r: r.median
    )
    if not timed:
        reasons = [reading.reason for reading in readings.values() if reading.reason]
        raise Failed(f"none of the best points was right again: {reasons[0] if reasons else 'they have no rows'}")
    first = timed[0]  # pairs of samples decide, since medians of few samples may be in another order
    fastest, *remaining = sorted(timed, key=lambda r: ratio.estimate if (ratio := faster(r, first)) else 1.0)
    equal = tuple(reading for reading in remaining if (ratio := faster(fastest, reading)) and ratio.same)
    slower = tuple(reading for reading in remaining if reading not in equal)
    return TunedSet(next((r for r in timed if r.variant == step), None), fastest, equal, slower)


def command_of(lab: str, step: str, case: str, variant: str, scale: str, device: str, results: str) -> str:
    """Return the command that measures a point once more beside its step, into the same store.

    results: the store's address; "results" is the project's own, which the command uses without an option.
    """
    _, at, knobs = variant.partition("@")
    options = [word for knob in knobs.split(",") if at for word in ("--knob", knob)]
    options += ["--scale", scale, "--device", device]
    options += [] if results == "results" else ["--results", results]
    return shlex.join(["roofbook", "rerun", lab, step, case, *options])
