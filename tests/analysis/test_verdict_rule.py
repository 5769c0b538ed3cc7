"""The rule that judges a published claim by an interval of ours: each kind of verdict, and properties over all intervals."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis import evidence, verdicts
from roofbook.analysis.evidence import Finding
from roofbook.measure import stats

JUDGED = verdicts.VERDICTS[:7]


def verdict(effect: float | None, low: float, high: float, turn: float = 1.0, below: bool = False) -> str:
    return verdicts.verdict(effect, Finding(math.sqrt(low * high), low, high, turn=turn, below=below))


@pytest.mark.parametrize(
    ("effect", "low", "high", "right"),
    [
        (4, 3.3, 3.5, "holds"),
        (4, 4.8, 5.1, "holds"),
        (4, 3.0, 3.1, "holds weaker"),
        (4, 1.02, 1.1, "holds weaker"),
        (4, 5.1, 5.2, "holds stronger"),
        (4, 4.8, 9, "holds stronger"),
        (4, 0.7, 0.98, "reversed"),
        (4, 0.992, 0.998, "no difference"),
        (4, 0.96, 1.04, "no difference"),
        (4, 0.9, 1.1, "undecided"),
        (4, 1.002, 1.004, "no difference"),
        (4, 1.02, 1.04, "holds weaker"),  # faster, as a table says
        (4, 1.005, 1.2, "undecided"),
        (4, 0.97, 0.985, "reversed"),
        (4, 0.9, 0.995, "undecided"),
        (4, 0.9, 3.5, "undecided"),
        (4, 0, math.inf, "undecided"),
        (0.25, 0.24, 0.26, "holds"),
        (0.25, 0.4, 0.5, "holds weaker"),
        (0.25, 0.1, 0.15, "holds stronger"),
        (0.25, 1.2, 1.3, "reversed"),
        (1.1, 1.08, 1.12, "holds"),
        (1.1, 1.02, 1.04, "holds weaker"),
        (1.03, 1.008, 1.03, "undecided"),  # the same, as a table says, and the same effect
        (1.2, 1.06, 1.08, "holds weaker"),
        (1.1, 1.25, 1.27, "holds stronger"),
        (1.1, 0.99, 1.02, "no difference"),
        (1.1, 0.97, 1.06, "undecided"),
        (1.0, 0.96, 1.04, "holds"),
        (1.005, 0.96, 1.03, "holds"),
        (1.005, 0.94, 1.03, "undecided"),
        (0.995, 1.005, 1.02, "holds"),
        (1.0, 1.02, 1.03, "a difference"),
        (1.0, 1.03, 1.1, "a difference"),
        (1.0, 0.97, 0.98, "a difference"),
        (1.0, 0.9, 1.2, "undecided"),
        (1.0, 1.06, 1.2, "a difference"),
        (1.01, 0.7, 0.8, "a difference"),
        (None, 1.02, 9, "holds"),
        (None, 0.5, 0.98, "reversed"),
        (None, 0.999, 1.004, "no difference"),
        (None, 1.01, 1.03, "no difference"),
        (None, 1.02, 1.06, "holds"),
        (None, 1.035, 1.05, "holds"),
        (None, 1.005, 1.2, "undecided"),
        (None, 0.9, 1.3, "undecided"),
        (None, 0, math.inf, "undecided"),
    ],
)
def test_the_verdict_on_a_ratio(effect: float | None, low: float, high: float, right: str) -> None:
    assert verdict(effect, low, high) == right


@pytest.mark.parametrize(
    ("effect", "turn", "ours", "right"),
    [
        (0.2, 0.5, 0.19, "holds"),
        (0.2, 0.5, 0.4, "holds weaker"),
        (0.2, 0.5, 0.05, "holds stronger"),
        (0.2, 0.5, 0.6, "reversed"),
        (2.2, 13.0, 2.0, "holds"),
        (2.2, 13.0, 20.0, "reversed"),
    ],
)
def test_the_verdict_on_what_turns_elsewhere(effect: float, turn: float, ours: float, right: str) -> None:
    assert verdict(effect, ours, ours, turn) == right


@pytest.mark.parametrize(
    ("low", "high", "right"),
    [
        (0.54, 0.56, "holds"),
        (0.5, 0.7, "holds"),
        (0.1, 0.1, "a difference"),
        (0.9, 0.9, "a difference"),
        (0.3, 0.47, "a difference"),
        (0.4, 0.5, "undecided"),
        (0.01, 0.99, "undecided"),
    ],
)
def test_a_quantity_is_the_same_or_another(low: float, high: float, right: str) -> None:
    assert verdict(0.6, low, high, turn=0.0) == right
    with pytest.raises(ValueError, match="judged by a published number"):
        verdict(None, low, high, turn=0.0)


@pytest.mark.parametrize(
    ("low", "high", "right"),
    [
        (1.1, 1.1, "holds"),
        (1.9, 1.99, "holds"),
        (1.9, 2.1, "undecided"),
        (2.01, 2.02, "reversed"),
        (2.2, 3.0, "reversed"),
    ],
)
def test_a_statement_may_be_that_ours_is_below(low: float, high: float, right: str) -> None:
    assert verdict(None, low, high, 2.0, below=True) == right
    assert verdict(1.0, low, high, 2.0, below=True) == right, "that a step gains nothing holds where it is slower"


@pytest.mark.parametrize(
    ("low", "high", "right"),
    [
        (0.9, 1.005, "holds"),
        (0.99, 1.04, "holds"),
        (1.011, 1.04, "reversed"),  # faster, as a table says
        (0.99, 1.06, "undecided"),
        (1.06, 1.07, "reversed"),
    ],
)
def test_what_gains_nothing_is_what_no_table_calls_faster(low: float, high: float, right: str) -> None:
    assert verdict(None, low, high, evidence.NO_GAIN, below=True) == right


@given(st.one_of(st.none(), st.integers(-300, 300).map(lambda steps: math.exp(steps / 100))), st.data())
def test_no_verdict_contradicts_the_word_of_a_table(effect: float | None, data: st.DataObject) -> None:
    low, high = sorted(math.exp(data.draw(st.integers(-60, 60)) / 300 + 0.0007) for _ in range(2))
    word, verdict_ = stats.relation(low, high), verdict(effect, low, high)
    claims_none = effect is not None and verdicts.no_difference(effect)
    side = "slower" if effect is not None and effect < 1 else "faster"
    if claims_none:
        allowed = {"holds"} if word == "same" else {"undecided"} if word == "undecided" else {"a difference"}
    elif word in ("faster", "slower"):
        allowed = {"holds", "holds weaker", "holds stronger"} if word == side else {"reversed"}
    else:
        allowed = {"no difference", "undecided"} if word == "same" else {"undecided"}
    assert verdict_ in allowed, (effect, low, high, word)


# Logarithms of effects on a grid and of the ends of intervals beside it, so that rounding never decides a tie.
logs = st.integers(-300, 300).map(lambda steps: steps / 100)
ends = st.integers(-300, 300).map(lambda steps: steps / 100 + 0.0037)
intervals = st.tuples(ends, ends).map(lambda pair: (math.exp(min(pair)), math.exp(max(pair))))


@given(logs, intervals)
def test_every_interval_gets_one_verdict_and_the_same_when_turned_round(log: float, ours: tuple[float, float]) -> None:
    effect, (low, high) = math.exp(log), ours
    verdict_ = verdict(effect, low, high)
    assert verdict_ in JUDGED
    assert verdict(1 / effect, 1 / high, 1 / low) == verdict_


@given(logs, intervals, st.sampled_from([0.5, 3.0, 13.0]))
def test_the_verdict_is_relative_to_where_the_statement_turns(
    log: float, ours: tuple[float, float], turn: float
) -> None:
    effect, (low, high) = math.exp(log), ours
    assert verdict(effect * turn, low * turn, high * turn, turn) == verdict(effect, low, high)


@given(logs)
def test_the_published_number_itself_holds(log: float) -> None:
    assert verdict(math.exp(log), math.exp(log), math.exp(log)) == "holds"


@given(st.integers(3, 300).map(lambda steps: math.exp(steps / 100)), ends, ends)
def test_more_of_the_effect_is_never_a_weaker_verdict(effect: float, first: float, second: float) -> None:
    order = ["reversed", "no difference", "holds weaker", "holds", "holds stronger"]
    smaller, larger = (verdict(effect, math.exp(end), math.exp(end)) for end in sorted((first, second)))
    assert order.index(smaller) <= order.index(larger)


@given(logs, intervals)
def test_a_difference_is_claimed_only_of_an_interval_without_one(log: float, ours: tuple[float, float]) -> None:
    if ours[0] <= 1 <= ours[1]:
        level = max(math.exp(log), math.exp(-log)) <= verdicts.NONE_PUBLISHED
        allowed = {"holds", "undecided"} if level else {"no difference", "undecided"}
        assert verdict(math.exp(log), *ours) in allowed
