"""Predictions of a step's speedup over its parent, as ranges: `Variant.predicts`, which belongs to `Variant.expect`.

Serves authors of steps. analysis/predictions.py compares predictions with measurements.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

SMALL, LARGE = "small", "large"
"""Classes of cases, returned by `Lab.case_class`."""
SCOPE_WORDS = frozenset({"gpu", "cpu", "cuda", "opencl", SMALL, LARGE})
"""Words for the devices and cases of a prediction: kinds of devices, backends, classes of cases."""


@dataclass(frozen=True)
class Prediction:
    """A range of factors: how many times as fast as its parent a step is predicted to be."""

    least: float = 0.0
    most: float = math.inf
    """Upper end of the range. If both ends are equal, the prediction is about that factor."""
    claims: bool = True
    """Meaning of an end of 1: the step is faster (or slower) than its parent if True, not slower (or not faster) if False."""

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or (self.least == 0 and self.most == math.inf):
            raise ValueError(f"a prediction must be a range that excludes some factor, not {self.least} to {self.most}")

    @property
    def words(self) -> str:
        """The prediction in words of a page: 'faster', 'about 2 times as fast'."""
        if self.least == self.most:
            return "as fast" if self.least == 1 else f"about {_times(self.least)}"
        sides = ("faster", "slower") if self.claims else ("not slower", "not faster")
        lower = sides[0] if self.least == 1 else _end(self.least, "at least")
        upper = sides[1] if self.most == 1 else _end(self.most, "at most")
        return " and ".join([lower] * (self.least > 0) + [upper] * (self.most < math.inf))


def _times(factor: float) -> str:
    return f"{factor:.3g} times as fast" if factor >= 1 else f"{1 / factor:.3g} times as slow"


def _end(factor: float, bound: str) -> str:
    """Return an end of a range in words; '' for 0 and infinity. bound: `at least` or `at most`.

    Below 1 the words are 'times as slow', so the bound is reversed.
    """
    if factor < 1:
        bound = "at most" if bound == "at least" else "at least"
    return f"{bound} {_times(factor)}" if 0 < factor < math.inf else ""


FASTER = Prediction(least=1)
SLOWER = Prediction(most=1)
SAME = Prediction(1, 1)
"""Prediction of no effect."""
NO_GAIN = Prediction(most=1, claims=False)
"""Prediction of nothing or hardly anything to gain: as fast, or slower."""
NO_LOSS = Prediction(least=1, claims=False)
SEVERAL = Prediction(least=2)
"""Prediction of several or many times as fast."""


def about(factor: float) -> Prediction:
    """Predict a speedup near a factor, as 'twice as fast' is near 2."""
    return Prediction(factor, factor)


def at_least(factor: float) -> Prediction:
    """Predict a speedup of a factor or more."""
    return Prediction(least=factor)


def up_to(factor: float) -> Prediction:
    """Predict that a step is faster, by a factor at most."""
    return Prediction(1, factor)


def at_most(factor: float) -> Prediction:
    """Predict that a step is as fast, or faster by a factor at most."""
    return Prediction(1, factor, claims=False)


FEW_PERCENT = up_to(1.1)

Predicted = Prediction | Mapping[str, Prediction]
"""One prediction for all devices and cases, or predictions by scope, such as `gpu`, `large` or `cpu small`.

A scope has words of SCOPE_WORDS. The first scope holds of which all words apply.
"""


def check_words(variant: str, predicts: Predicted | None) -> None:
    """Raise ValueError if `predicts` of a variant is no prediction, or has a scope with unknown words."""
    if predicts is None or isinstance(predicts, Prediction):
        return
    if not isinstance(predicts, Mapping):
        raise ValueError(f"variant {variant}: predicts {predicts!r}, which is no Prediction")
    if unknown := {word for scope in predicts for word in scope.split()} - SCOPE_WORDS:
        valid = ", ".join(sorted(SCOPE_WORDS))
        raise ValueError(f"variant {variant}: predicts for {', '.join(sorted(unknown))}; there are {valid}")


def predicted(predicts: Predicted | None, scope_words: Set[str]) -> Prediction | None:
    """Return the prediction for a case on a device; None if there is none. scope_words: words that apply to both."""
    if predicts is None or isinstance(predicts, Prediction):
        return predicts
    return next((prediction for scope, prediction in predicts.items() if set(scope.split()) <= scope_words), None)
