"""Outcomes of predictions: a step's speedup over its parent confirms or refutes one by its interval."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, get_args

from ..measure import stats
from ..spec.prediction import SAME, Prediction, predicted
from .readings import TOO_FEW, Speedup, cases_of, faster
from .verdicts import NEAR

if TYPE_CHECKING:
    from ..spec.plan import Variant
    from .lab_data import LabData

Whys = Mapping[str, str]
"""Cause of a step's effect by scope: words for kinds of devices, backends, classes of cases, or a case.

The first scope that fits holds.
"""
Outcome = Literal["confirmed", "refuted", "undecided"]


def outcome(prediction: Prediction, ratio: Speedup) -> Outcome:
    """Return the outcome of a prediction, given the ratio parent / step.

    It is confirmed if all of the interval lies in the predicted range, refuted if all of it lies beyond one end, and undecided
    otherwise. An end of 1 is that of every table, by `Speedup.word`: if a table calls a step faster or slower, that confirms no
    'as fast'; if it calls it the same, that confirms no difference. A prediction of about a factor f has the range from f/1.25
    to 1.25 f and, so that a small effect is not taken for none, from half of it to twice as much on a logarithmic scale, as in
    the verdicts on claims.
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
    """Return the predictions for a step on a device, by case; cases without one are left out."""
    by_case = {}
    for case in data.cases:
        readings = data.on(case.name).readings if case.name in cases_of(data.rows) else {}
        if reading := readings.get(variant.name):  # a program of the host runs on another device than the lab
            words = {str(reading.row["device_kind"]), str(reading.row["backend"]), data.lab.case_class(case)}
            if prediction := predicted(variant.predicts, words):
                by_case[case.name] = prediction
    return by_case


def whys_of_step(data: "LabData", variant: "Variant", whys: Mapping[str, Whys]) -> dict[str, str]:
    """Return the causes that a lab states of a step's effect on a device, by case; cases without one are left out.

    whys: those of all steps, as `Publication.whys`.
    """
    causes = {}
    for case in data.cases:
        words = {data.device.kind, data.device.backend, data.lab.case_class(case), case.name}
        scoped = whys.get(variant.name, {})
        if cause := next((text for scope, text in scoped.items() if set(scope.split()) <= words), ""):
            causes[case.name] = cause
    return causes


def counted(data: "LabData") -> Counter[Outcome]:
    """Return the number of a lab's predictions with each outcome on a device, one prediction for each step and case."""
    outcomes = Counter[Outcome]()
    for variant in data.lab.ladder:
        for case, prediction in of_step(data, variant).items():
            readings = data.on(case).readings
            reading = readings[variant.name]
            if reading.ok and (ratio := faster(readings.get(variant.parent or ""), reading)):
                outcomes[outcome(prediction, ratio)] += 1
    return outcomes


def sentence(outcomes: Counter[Outcome]) -> str:
    """Return 'Of 12 predictions 8 were confirmed, 3 were refuted, and 1 is undecided.'; '' for none."""
    total = outcomes.total()
    if not total:
        return ""
    verbs = {"confirmed": ("was", "were"), "refuted": ("was", "were"), "undecided": ("is", "are")}
    numbers = {word: outcomes[word] for word in get_args(Outcome) if outcomes[word]}
    parts = [f"{number} {verbs[word][number != 1]} {word}" for word, number in numbers.items()]
    listed = parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
    return f"Of {total} prediction{'s' * (total != 1)} that can be judged here, a step on a case each, {listed}."
