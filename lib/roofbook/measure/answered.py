"""The process that runs a reader's kernel: `python -m roofbook.measure.answered ORDER`. Serves answer.py, which starts it.

The kernel may crash or hang it. Each line of JSON that it writes says which case it is at, or what came of all.
"""

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.find import open_device
from ..spec import registry
from ..spec.exercise import Answer, Write, case_of, exercises
from ..spec.lab import Lab, Variant
from ..spec.source import lined
from . import stats
from .checkpoint import Checkpoint
from .measurement import Measurement
from .placement import Setting, Target, target_of
from .policy import Policy
from .progress import silent
from .sampling import sample
from .verify import References, check_sample, once, prepare

NAME = "your answer"
BUDGET_S = 0.3
"""Seconds of samples of the answer, and of the step beside it."""


def wrong_on(at: Setting, answer: Variant, target: Target) -> dict[str, str] | None:
    """Why the answer is refused on a case, as a run is before it is timed, and `where` it errs most; None where it is right."""
    references, it = References(at), Measurement(answer, "step", *target)
    prepare(at, it, references)
    if it.runnable:
        it.runnable.close()
    if it.reason is None:
        return None
    where = ""
    if len(it.checks) == 1:  # of a small case of an awkward size the reason says which
        small = at.lab.verification_case(at.case, answer)
        given, right = references.before(small, answer)
        trial = answer.plan(target.device, answer, small, given)
        once(trial)
        where = furthest(trial.outputs(), right)
        trial.close()
    return {"reason": it.reason, "where": where}


def furthest(outputs: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    """Where outputs are furthest from what is right, such as `g[3, 5] is 1.2, right is 3.4`; '' where none can be compared.

    An element that is no number comes before all others: one that was never written is none.
    """
    worst, said = 0.0, ""
    for name, out in outputs.items():
        reference = right.get(name)
        if reference is None or np.shape(reference) != out.shape or not out.size:
            continue
        off = np.abs(out.astype(np.float64) - np.asarray(reference, np.float64))
        lost = np.isnan(off)
        at = np.unravel_index(int(np.argmax(np.where(lost, np.inf, off))), off.shape)
        place = f"{name}[{', '.join(map(str, at))}]"
        if lost.any():
            return f"{place} is no number, as what is never written; so are {int(lost.sum())} of {off.size} elements"
        if off[at] > worst:
            worst = float(off[at])
            said = f"{place} is {float(out[at]):.6g}, right is {float(np.asarray(reference)[at]):.6g}"
    return said


def timed(at: Setting, answer: Variant, step: Variant, target: Target) -> dict[str, Any]:
    """Seconds a unit of the answer, and how many times as fast as the step it is: from samples of one run, in turns."""
    references = References(at)
    both = [Measurement(answer, "step", *target), Measurement(step, "step", *target)]
    for it in both:
        prepare(at, it, references)
        if it.reason:
            return {"reason": it.reason}
    references.timing()
    sample(both, at.policy, silent, Checkpoint(), partial(check_sample, at, references, silent))
    if why := next((it.reason or "out of memory beside the other" for it in both if not it.sampled), None):
        return {"reason": why}
    mine, other = both
    ratio = stats.paired_ratio(*stats.by_round(other.samples, other.rounds, mine.samples, mine.rounds))
    assert mine.runnable is not None
    return {
        "case": at.case.name,
        "seconds": float(np.median(mine.samples)) / mine.runnable.units,
        "ratio": [ratio.estimate, ratio.low, ratio.high],
        "relation": stats.relation(ratio.low, ratio.high),
    }


def judged(lab: Lab, exercise: Write, text: Path, spec: str, *, take_time: bool, out: Any) -> None:
    """Check the answer on each case, then time it, and tell `out` line by line."""

    def tell(**said: Any) -> None:
        print(json.dumps(said), file=out, flush=True)

    step = lab.variant(exercise.step)
    assert step.source is not None
    answer = replace(step, name=NAME, source=Answer.to(exercise, step.source, text))
    target = target_of(step, open_device(spec, lab.preferred_backend))
    assert target is not None
    with lined():
        for name in exercise.cases:
            tell(at=name)
            if why := wrong_on(Setting(lab, case_of(lab, name), target.device, Policy()), answer, target):
                tell(wrong=why, case=name)
                return
        if take_time:
            name = exercise.timed or lab.cases("quick")[0].name
            tell(at=name)
            policy = Policy(budget_s=BUDGET_S)
            tell(timed=timed(Setting(lab, case_of(lab, name), target.device, policy), answer, step, target))
    tell(right=True)


def main(order: str) -> None:
    """Judge the answer that the order names, which `answer` writes."""
    given = json.loads(order)
    os.chdir("/")  # a compiler names files from the folder that they share with the one where it runs
    lab = registry.get(given["lab"])
    lab.prepare()
    exercise = exercises(lab).named(lab.name, given["exercise"])
    with Path(given["out"]).open("a") as out:
        judged(lab, exercise, Path(given["text"]), given["device"], take_time=given["time"], out=out)


if __name__ == "__main__":
    main(sys.argv[1])
