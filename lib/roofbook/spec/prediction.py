"""What a step is predicted to bring over its parent, as a range, beside the sentence that says so: `Variant.predicts`.

Serves whoever writes a step. analysis/predictions.py says what came of it.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass

SMALL, LARGE = "small", "large"
"""Of `Lab.case_class`."""
WHERE = frozenset({"gpu", "cpu", "cuda", "opencl", SMALL, LARGE})
"""The words that say where a prediction holds: kinds of devices, backends, classes of cases."""


@dataclass(frozen=True)
class Prediction:
    """How many times as fast as its parent a step is predicted to be: from `least` to `most`. Equal ends: about as much.

    An end of 1 says on which side of its parent the step is. claims: that is a difference that a table may claim; else that
    there is none in the other direction.
    """

    least: float = 0.0
    most: float = math.inf
    claims: bool = True

    def __post_init__(self) -> None:
        if not 0 <= self.least <= self.most or (self.least == 0 and self.most == math.inf):
            raise ValueError(f"a prediction is a range that leaves something out, not {self.least} to {self.most}")

    @property
    def words(self) -> str:
        """What a page says of it: 'faster', 'about 2 times as fast'."""
        if self.least == self.most:
            return "as fast" if self.least == 1 else f"about {_times(self.least)}"
        sides = ("faster", "slower") if self.claims else ("not slower", "not faster")
        lower = sides[0] if self.least == 1 else _end(self.least, "at least")
        upper = sides[1] if self.most == 1 else _end(self.most, "at most")
        return " and ".join([lower] * (self.least > 0) + [upper] * (self.most < math.inf))


def _times(factor: float) -> str:
    return f"{factor:.3g} times as fast" if factor >= 1 else f"{1 / factor:.3g} times as slow"


def _end(factor: float, which: str) -> str:
    """An end of a range. Of what is slower the least is the most in times as slow."""
    if factor < 1:
        which = "at most" if which == "at least" else "at least"
    return f"{which} {_times(factor)}" if 0 < factor < math.inf else ""


FASTER = Prediction(least=1)
SLOWER = Prediction(most=1)
SAME = Prediction(1, 1)
"""No effect."""
NO_GAIN = Prediction(most=1, claims=False)
"""Nothing, little or hardly anything to gain: as fast, or slower."""
NO_LOSS = Prediction(least=1, claims=False)
SEVERAL = Prediction(least=2)
"""Several or many times as fast."""


def about(factor: float) -> Prediction:
    """Near a factor, as 'twice as fast' is near 2."""
    return Prediction(factor, factor)


def at_least(factor: float) -> Prediction:
    return Prediction(least=factor)


def up_to(factor: float) -> Prediction:
    """Faster, and by no more than a factor."""
    return Prediction(1, factor)


def at_most(factor: float) -> Prediction:
    """As fast, or faster by no more than a factor."""
    return Prediction(1, factor, claims=False)


FEW_PERCENT = up_to(1.1)

Predicted = Prediction | Mapping[str, Prediction]
"""One prediction for all, or by where it holds: `gpu`, `large`, `cpu small`. Words of WHERE; of several that fit the first."""


def check_words(variant: str, predicts: Predicted | None) -> None:
    """ValueError for what is no prediction, or one for a place that there is not."""
    if predicts is None or isinstance(predicts, Prediction):
        return
    if not isinstance(predicts, Mapping):
        raise ValueError(f"variant {variant}: predicts {predicts!r}, which is no Prediction")
    if unknown := {word for words in predicts for word in words.split()} - WHERE:
        known = ", ".join(sorted(WHERE))
        raise ValueError(f"variant {variant}: predicts for {', '.join(sorted(unknown))}; there are {known}")


def predicted(predicts: Predicted | None, where: Set[str]) -> Prediction | None:
    """What holds on a case of a device. where: those words of WHERE that are true of it. None where nothing is predicted."""
    if predicts is None or isinstance(predicts, Prediction):
        return predicts
    return next((each for words, each in predicts.items() if set(words.split()) <= where), None)
