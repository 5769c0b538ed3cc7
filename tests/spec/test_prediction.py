"""Predicted effect of a step: its words, and where it holds."""

import math

import pytest

from roofbook.spec import registry
from roofbook.spec.lab import Lab
from roofbook.spec.prediction import (
    FASTER,
    FEW_PERCENT,
    LARGE,
    NO_GAIN,
    NO_LOSS,
    SAME,
    SCOPE_WORDS,
    SEVERAL,
    SLOWER,
    SMALL,
    Prediction,
    about,
    at_least,
    at_most,
    predicted,
    up_to,
)

from ..naming import naming

LABS = [registry.get(name) for name in registry.names()]


@pytest.mark.parametrize(
    ("prediction", "words"),
    [
        (FASTER, "faster"),
        (SLOWER, "slower"),
        (SAME, "as fast"),
        (NO_GAIN, "not faster"),
        (NO_LOSS, "not slower"),
        (SEVERAL, "at least 2 times as fast"),
        (FEW_PERCENT, "faster and at most 1.1 times as fast"),
        (at_most(1 / 0.9), "not slower and at most 1.11 times as fast"),
        (about(2), "about 2 times as fast"),
        (about(1 / 3), "about 3 times as slow"),
        (at_least(1 / 1.1), "at most 1.1 times as slow"),
        (Prediction(most=1 / 2), "at least 2 times as slow"),
        (Prediction(1.5, 3), "at least 1.5 times as fast and at most 3 times as fast"),
    ],
)
def test_a_prediction_says_its_range(prediction: Prediction, words: str) -> None:
    assert prediction.words == words


@pytest.mark.parametrize(("least", "most"), [(0, math.inf), (2, 1), (-1, 1), (math.nan, 2)])
def test_a_range_that_leaves_nothing_out_is_no_prediction(least: float, most: float) -> None:
    with pytest.raises(ValueError, match="excludes some factor"):
        Prediction(least, most)


def test_a_prediction_holds_where_all_of_its_words_do_and_of_several_the_first() -> None:
    predicts = {"gpu large": SAME, "gpu": FASTER, "cpu small": SLOWER}
    assert predicted(predicts, {"gpu", "cuda", LARGE}) is SAME
    assert predicted(predicts, {"gpu", "opencl", ""}) is FASTER
    assert predicted(predicts, {"cpu", "opencl", SMALL}) is SLOWER
    assert predicted(predicts, {"cpu", "opencl", LARGE}) is None
    assert predicted(up_to(3), set()) == up_to(3) and predicted(None, {"gpu"}) is None


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_step_predicts_over_a_parent_by_known_words_and_says_so_in_a_sentence(lab: Lab) -> None:
    for variant in filter(lambda variant: variant.predicts is not None, lab.all_variants()):
        with naming(variant.name):
            assert variant.parent and variant.expect and variant.role in ("step", "base", "probe")
            if not isinstance(variant.predicts, Prediction):
                assert variant.predicts and all({*words.split()} <= SCOPE_WORDS for words in variant.predicts)
                classes = {lab.case_class(case) for scale in ("quick", "published") for case in lab.cases(scale)}
                for words in variant.predicts:
                    assert {*words.split()} & {SMALL, LARGE} <= classes, "a class that a case of the lab has"


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_point_of_a_sweep_predicts_nothing(lab: Lab) -> None:
    assert not [v.name for sweep in lab.sweeps for v in sweep.variants if v.predicts is not None]


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_most_steps_of_a_lab_predict_something_that_can_be_refuted(lab: Lab) -> None:
    steps = [v for v in lab.ladder if v.parent and v.role == "step"]
    assert sum(v.predicts is not None for v in steps) > 0.7 * len(steps)
