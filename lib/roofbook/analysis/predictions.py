"""What came of a prediction: a verdict on a step by the interval of its speedup over its parent."""

import math
from collections import Counter
from typing import TYPE_CHECKING, Literal

from ..measure import stats
from ..spec.prediction import SAME, Prediction, predicted
from .readings import TOO_FEW, Speedup, cases_of, faster
from .verdicts import NEAR

if TYPE_CHECKING:
    from ..spec.lab import Variant
    from .lab_data import LabData

Outcome = Literal["confirmed", "refuted", "undecided"]


def outcome(prediction: Prediction, ratio: Speedup) -> Outcome:
    """What a ratio, parent / step, says of a prediction.

    It is confirmed where all of the interval lies in the predicted range, refuted where all of it lies beyond one end, and
    undecided else. An end of 1 is that of every table, by `Speedup.word`: what a table calls faster or slower confirms no
    'as fast', and what it calls the same confirms no difference. What is predicted to be about a factor f lies from
    f/1.25 to 1.25 f and, so that a small effect is not taken for none, from half of it to twice as much on a logarithmic scale,
    as in the verdicts on claims.
    """
    if TOO_FEW in ratio.how:
        return "undecided"
    if prediction == SAME:
        return "confirmed" if ratio.word == "same" else "undecided" if ratio.word == "undecided" else "refuted"
    least, most = _range(prediction)
    above, below = ratio.low >= least, ratio.high < least
    if least == 1 and prediction.claims:
        above, below = ratio.word == "faster", ratio.word in ("slower", "same")
    elif least == 1:
        above, below = ratio.low >= 1 / stats.EQUAL and ratio.word != "slower", ratio.word == "slower"
    within, beyond = ratio.high <= most, ratio.low > most
    if most == 1 and prediction.claims:
        within, beyond = ratio.word == "slower", ratio.word in ("faster", "same")
    elif most == 1:
        within, beyond = ratio.high <= stats.EQUAL and ratio.word != "faster", ratio.word == "faster"
    return "confirmed" if above and within else "refuted" if below or beyond else "undecided"


def _range(prediction: Prediction) -> tuple[float, float]:
    factor = prediction.least
    if factor != prediction.most:
        return prediction.least, prediction.most
    near, far = (math.sqrt(factor), factor**2) if factor > 1 else (factor**2, math.sqrt(factor))
    return max(factor / NEAR, near), min(factor * NEAR, far)


def of_step(data: "LabData", variant: "Variant") -> dict[str, Prediction]:
    """By case what is predicted of a step on a device; without the cases of which nothing is."""
    found = {}
    for case in data.cases:
        own = data.on(case.name).readings.get(variant.name) if case.name in cases_of(data.rows) else None
        if own:  # a program of the host runs on another device than the lab
            where = {str(own.row["device_kind"]), str(own.row["backend"]), data.lab.case_class(case)}
            if said := predicted(variant.predicts, where):
                found[case.name] = said
    return found


def counted(data: "LabData") -> Counter[Outcome]:
    """How many predictions of a lab came to what on a device, each on each case by itself."""
    found = Counter[Outcome]()
    for variant in data.lab.ladder:
        for case, said in of_step(data, variant).items():
            readings = data.on(case).readings
            own = readings[variant.name]
            if own.ok and (ratio := faster(readings.get(variant.parent or ""), own)):
                found[outcome(said, ratio)] += 1
    return found


def sentence(found: Counter[Outcome]) -> str:
    """'Of 12 predictions 8 were confirmed, 3 were refuted, and 1 is undecided.'; '' for none."""
    total = found.total()
    if not total:
        return ""
    few: dict[Outcome, tuple[str, str]] = {
        "confirmed": ("was", "were"),
        "refuted": ("was", "were"),
        "undecided": ("is", "are"),
    }
    parts = [f"{found[each]} {words[found[each] != 1]} {each}" for each, words in few.items() if found[each]]
    told = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {total} prediction{'s' * (total != 1)} that can be judged here, a step on a case each, {told}."
