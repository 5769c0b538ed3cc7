"""The verdict on a prediction: intervals against ranges, by examples and as properties."""

import math
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from roofbook.analysis.predictions import Outcome, counted, of_step, outcome, sentence
from roofbook.analysis.readings import TOO_FEW, Speedup
from roofbook.analysis.recorded import RecordedData
from roofbook.analysis.recorded import recorded as records
from roofbook.measure.stats import EQUAL, LEAST, within_equal
from roofbook.spec import registry
from roofbook.spec.prediction import (
    FASTER,
    FEW_PERCENT,
    NO_GAIN,
    NO_LOSS,
    SAME,
    SEVERAL,
    SLOWER,
    Prediction,
    about,
    at_least,
    at_most,
    up_to,
)
from roofbook.store.parquet import Store

from .test_comparison import row, store


def came(prediction: Prediction, low: float, high: float, how: str = "") -> Outcome:
    return outcome(prediction, Speedup(math.sqrt(low * high), low, high, how))


@pytest.mark.parametrize(
    ("prediction", "low", "high", "right"),
    [
        (FASTER, 1.02, 1.04, "confirmed"),
        (FASTER, 1.2, 30, "confirmed"),
        (FASTER, 1.005, 1.3, "undecided"),
        (FASTER, 0.9, 1.3, "undecided"),
        (FASTER, 0.98, 1.03, "refuted"),  # the same, as a table says
        (FASTER, 0.5, 0.9, "refuted"),
        (SLOWER, 0.5, 0.9, "confirmed"),
        (SLOWER, 0.98, 1.03, "refuted"),
        (SLOWER, 0.9, 1.2, "undecided"),
        (SAME, 0.96, 1.04, "confirmed"),
        (SAME, 1.02, 1.04, "refuted"),  # faster, as a table says
        (SAME, 1.0105, 1.0118, "refuted"),
        (SAME, 0.97, 0.985, "refuted"),
        (SAME, 1.005, 1.03, "confirmed"),
        (SAME, 1.0, 1.2, "undecided"),
        (SAME, 1.06, 1.2, "refuted"),
        (SAME, 0.5, 0.9, "refuted"),
        (NO_GAIN, 0.5, 1.04, "confirmed"),
        (NO_GAIN, 1.0, 1.2, "undecided"),
        (NO_GAIN, 1.02, 1.04, "refuted"),
        (NO_GAIN, 1.03, 1.2, "refuted"),
        (NO_LOSS, 0.96, 0.98, "refuted"),
        (NO_GAIN, 1.06, 1.2, "refuted"),
        (NO_LOSS, 0.97, 3, "confirmed"),
        (NO_LOSS, 0.8, 0.9, "refuted"),
        (SEVERAL, 2.1, 90, "confirmed"),
        (SEVERAL, 1.9, 2.1, "undecided"),
        (SEVERAL, 1.5, 1.9, "refuted"),
        (up_to(3), 1.5, 2.9, "confirmed"),
        (up_to(3), 2.9, 3.2, "undecided"),
        (up_to(3), 3.1, 3.2, "refuted"),
        (up_to(3), 0.98, 1.0, "refuted"),
        (FEW_PERCENT, 1.02, 1.06, "confirmed"),
        (at_most(1.11), 0.98, 1.02, "confirmed"),
        (at_most(1.11), 0.8, 0.9, "refuted"),
        (about(2), 1.7, 2.4, "confirmed"),
        (about(2), 1.5, 1.7, "undecided"),
        (about(2), 1.2, 1.5, "refuted"),
        (about(2), 2.6, 3.0, "refuted"),
        (about(1.1), 1.06, 1.15, "confirmed"),
        (about(1.1), 0.99, 1.02, "refuted"),  # half of a small effect is none
        (about(1 / 3), 0.3, 0.4, "confirmed"),
        (about(1 / 3), 0.5, 0.6, "refuted"),
        (at_least(1 / 1.1), 0.95, 1.2, "confirmed"),
        (at_least(1 / 1.1), 0.8, 0.9, "refuted"),
    ],
)
def test_what_came_of_a_prediction(prediction: Prediction, low: float, high: float, right: Outcome) -> None:
    assert came(prediction, low, high) == right


def test_one_or_two_samples_decide_nothing() -> None:
    assert came(FASTER, 0, math.inf, TOO_FEW) == came(FASTER, 2, 3, TOO_FEW) == "undecided"


# Ends of intervals and of ranges as logarithms on two grids that never meet, so that rounding never decides a tie.
ends = st.integers(-300, 300).map(lambda steps: steps / 100 + 0.0037)
intervals = st.tuples(ends, ends).map(lambda pair: (math.exp(min(pair)), math.exp(max(pair))))
factors = st.integers(-200, 200).map(lambda steps: math.exp(steps / 100))
predictions = st.one_of(
    st.sampled_from([FASTER, SLOWER, SAME, NO_GAIN, NO_LOSS]),
    factors.map(about),
    factors.map(at_least),
    factors.map(lambda most: Prediction(most=most)),
    st.tuples(factors, factors).map(lambda pair: Prediction(min(pair), max(pair))),
)


def turned(prediction: Prediction) -> Prediction:
    """Return the prediction of the ratio turned round, which is the parent's over the step."""
    most = 1 / prediction.least if prediction.least else math.inf
    return Prediction(1 / prediction.most if prediction.most < math.inf else 0.0, most, prediction.claims)


@given(predictions, intervals)
def test_turned_round_it_comes_to_the_same(prediction: Prediction, ours: tuple[float, float]) -> None:
    low, high = ours
    assert came(turned(prediction), 1 / high, 1 / low) == came(prediction, low, high)


@given(predictions, st.lists(ends, min_size=4, max_size=4))
def test_to_know_more_never_turns_a_verdict_but_where_the_book_calls_it_the_same(
    prediction: Prediction, logs: list[float]
) -> None:
    low, finer_low, finer_high, high = map(math.exp, sorted(logs))
    assume(not within_equal(finer_low, finer_high))
    assert came(prediction, low, high) in ("undecided", came(prediction, finer_low, finer_high))


@given(intervals)
def test_faster_slower_and_as_fast_are_never_confirmed_against_a_table(ours: tuple[float, float]) -> None:
    word = Speedup(math.sqrt(ours[0] * ours[1]), *ours, "").word
    predicted = (("faster", FASTER), ("slower", SLOWER), ("same", SAME))
    came_to = {name: came(prediction, *ours) for name, prediction in predicted}
    assert came_to == {
        name: "confirmed" if name == word else "undecided" if word == "undecided" else "refuted" for name in came_to
    }
    assert (came(NO_GAIN, *ours) == "refuted") == (word == "faster")
    assert (came(NO_LOSS, *ours) == "refuted") == (word == "slower")


@given(factors, intervals)
def test_what_holds_about_a_factor_lies_on_its_side(factor: float, ours: tuple[float, float]) -> None:
    if came(about(factor), *ours) == "confirmed" and max(factor, 1 / factor) > EQUAL:
        assert (ours[0] > 1) == (factor > 1) and (ours[1] < 1) == (factor < 1)
        assert came(FASTER if factor > 1 else SLOWER, *ours) != "refuted" or within_equal(*ours)


@given(factors)
def test_the_predicted_factor_itself_is_confirmed(factor: float) -> None:
    assume(max(factor, 1 / factor) > LEAST)
    assert came(about(factor), factor, factor) == came(at_least(factor), factor, factor) == "confirmed"


@pytest.fixture
def data(tmp_path: Path) -> RecordedData:
    rows = [
        row("no-finish", 1e-3),
        row("fused", 5e-4),
        row("soa", 4e-4),
        row("chunks-1792", 1e-4),
        row("kept-partials", 1e-4),
    ]
    store(tmp_path, *({**fields, "case": case} for fields in rows for case in ("128x128", "1024x1024")))
    return records(registry.get("lbm"), Store(tmp_path))[0]


def test_predictions_hold_on_the_cases_that_they_speak_of(data: RecordedData) -> None:
    lab = data.lab
    assert of_step(data, lab.variant("fused")) == {"1024x1024": up_to(3)}
    assert of_step(data, lab.variant("chunks-1792")) == {"128x128": SAME, "1024x1024": SAME}
    assert of_step(data, lab.variant("tree")) == {}, "it was not measured, and predicts nothing"


def test_a_page_counts_what_came_of_its_predictions(data: RecordedData) -> None:
    assert counted(data) == {"confirmed": 4}
    assert (
        sentence(counted(data)) == "Of 4 predictions that can be judged here, a step on a case each, 4 were confirmed."
    )
    several: Counter[Outcome] = Counter({"confirmed": 1, "refuted": 2, "undecided": 1})
    assert sentence(several).endswith(" each, 1 was confirmed, 2 were refuted and 1 is undecided.")
    assert sentence(Counter()) == ""
