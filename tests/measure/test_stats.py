"""The statistics keep their word: A/A pairs differ at most 5 % of the time, a true 3 % is found, bad input refused."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import ArrayLike, NDArray

from roofbook.measure import stats

SERIES = 400
MANY = 2000
LIMIT = 0.05
Array = NDArray[np.float64]
Pair = tuple[Array, Array]
KINDS = ["normal", "spikes", "drift", "correlated", "clock states", "coarse timer"]
ROUNDS = [3, 5, 6, 10, 15, 31]

times = st.floats(1e-6, 1e6, allow_subnormal=False)
samples = st.lists(times, min_size=1, max_size=40)
pairs = st.integers(1, 40).flatmap(lambda n: st.tuples(*[arrays(float, n, elements=times)] * 2))


def noise(kind: str, rng: np.random.Generator, count: int, length: int) -> Array:
    """Run times around 1 in the order of time, shape (count, length)."""
    normal = rng.standard_normal((count, length))
    if kind == "spikes":
        spikes: Array = (rng.random(normal.shape) < 0.1) * rng.pareto(1.2, normal.shape)
        return np.exp(0.01 * normal) * (1 + 0.2 * spikes)
    if kind == "drift":
        return np.exp(0.01 * normal + np.linspace(0, 0.1, length))
    if kind == "correlated":
        for i in range(1, length):
            normal[:, i] = 0.5 * normal[:, i - 1] + math.sqrt(0.75) * normal[:, i]
        return np.exp(0.02 * normal)
    if kind == "clock states":
        slow: Array = (np.cumsum(rng.random(normal.shape) < 0.05, axis=1) % 2).astype(float)
        return np.exp(0.002 * normal) * (1 + 0.08 * slow)
    if kind == "coarse timer":
        return np.round(1000 * np.exp(0.001 * normal)) / 1000
    return np.exp(0.01 * normal)


def twins(
    kind: str, rng: np.random.Generator, rounds: int, *, series: int = SERIES, mirrored: bool = True
) -> tuple[Array, Array]:
    """A/A, both sides from one series by rounds: order at random and mirrored in the next round, or always a first."""
    times = noise(kind, rng, series, 2 * rounds).reshape(series, rounds, 2)
    swap = np.repeat(rng.random((series, (rounds + 1) // 2)) < 0.5, 2, axis=1)[:, :rounds]
    swap[:, 1::2] ^= True
    swap &= mirrored
    return np.where(swap, times[..., 1], times[..., 0]), np.where(swap, times[..., 0], times[..., 1])


def unpaired(a: ArrayLike, b: ArrayLike) -> stats.RatioEstimate:
    """Return the ratio of two variants with one run each, unpaired."""
    return stats.unpaired_ratio(stats.side([a]), stats.side([b]))


def claims(a: Array, b: Array) -> int:
    """Return the number of series for which a difference is claimed."""
    return sum(not stats.paired_ratio(*pair).same for pair in zip(a, b, strict=True))


def false_claims(kind: str, rounds: int) -> int:
    return claims(*twins(kind, np.random.default_rng(rounds), rounds))


kept_false_claims = cache(false_claims)
"""Numbers of false claims of the statistics in use, by kind of noise and number of rounds."""


def most(series: int, share: float = LIMIT, chance: float = 1e-3) -> int:
    """Return the number of false claims that a rule with error rate `share` exceeds only with probability `chance`."""
    tail = 1.0
    for count in range(series + 1):
        tail -= math.comb(series, count) * share**count * (1 - share) ** (series - count)
        if tail <= chance:
            return count
    return series


def too_many(count_of: Callable[[str, int], int]) -> list[str]:
    """Return the kinds of noise and numbers of rounds, alone or together, that have more false claims than the level allows.

    A cell of 400 may exceed the level by chance, once in a thousand at the level itself. Rows and columns have 2400 series
    and are held to the level as it is: at 3.5 %, which the sign test keeps, chance exceeds it less than once in 30,000.
    """
    counts = {(kind, rounds): count_of(kind, rounds) for kind in KINDS for rounds in ROUNDS}
    wrong = [f"{kind}, {rounds} rounds" for (kind, rounds), count in counts.items() if count > most(SERIES)]
    for rounds in ROUNDS:
        if sum(counts[kind, rounds] for kind in KINDS) > LIMIT * SERIES * len(KINDS):
            wrong.append(f"{rounds} rounds")
    for kind in KINDS:
        if sum(counts[kind, rounds] for rounds in ROUNDS) > LIMIT * SERIES * len(ROUNDS):
            wrong.append(kind)
    return wrong


def quiet(series: Array, limit: float) -> NDArray[np.bool_]:
    """Return whether relative_standard_error is below the limit, for all rows at once."""
    n = series.shape[1]
    ordered, rank = np.sort(series), stats._rank(n, 0.95)
    middle = (ordered[:, (n - 1) // 2] + ordered[:, n // 2]) / 2
    quantile = NormalDist().inv_cdf(1 - stats._tail(n, rank))
    is_certain: NDArray[np.bool_] = (ordered[:, n - rank] - ordered[:, rank - 1]) / 2 / quantile / middle < limit
    for row, expected in list(zip(series, is_certain, strict=True))[:: len(series) // 20]:
        assert expected == (stats.relative_standard_error(row) < limit)
    return is_certain


def until_quiet(a: Array, b: Array, limit: float = 0.003) -> NDArray[np.int64]:
    """The optional stopping rule of measure, of each pair of series: 10 to 50 rounds."""
    counts = np.full(len(a), a.shape[1])
    for n in range(a.shape[1] - 1, 9, -1):
        counts[quiet(a[:, :n], limit) & quiet(b[:, :n], limit)] = n
    return counts


def test_the_most_by_chance_is_a_binomial_quantile() -> None:
    assert most(400) == 35 and most(1) == 1 and most(10, 0.5, 0.5) == 5
    draw = np.random.default_rng(0).binomial(400, LIMIT, 200_000)
    assert 1e-4 < (draw > most(400)).mean() <= 1e-3 < (draw > most(400) - 1).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_twins_seldom_differ(kind: str) -> None:
    for rounds in ROUNDS:
        assert kept_false_claims(kind, rounds) <= most(SERIES), rounds


def test_twins_seldom_differ_over_all_kinds_and_over_all_rounds() -> None:
    assert too_many(kept_false_claims) == []


def test_intervals_one_rank_too_narrow_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    rank = stats._rank
    monkeypatch.setattr(stats, "_rank", lambda n, level: rank(n, level) + 1)
    wrong = too_many(false_claims)
    assert {"6 rounds", "10 rounds", "31 rounds", "normal", "correlated"} <= {*wrong}


def test_students_quantiles_are_those_of_scipy() -> None:
    from scipy.special import stdtrit

    quantiles = {n: stdtrit(n - 1, (1 + stats._FEW_LEVEL) / 2) for n in stats._T}
    assert pytest.approx(quantiles, abs=1e-6) == stats._T and min(quantiles) == stats.ENOUGH_RUNS


def plain_side(runs: list[list[float]]) -> tuple[float, float, float, int]:
    """Return the side of an unpaired ratio, computed run by run."""

    def wide(values: list[float]) -> tuple[float, float]:
        return stats._t_interval(values) if len(values) in stats._T else stats.median_ci(values, stats._FEW_LEVEL)[1:3]

    n, medians = min(map(len, runs)), [math.exp(stats._log_middle(sorted(run))) for run in runs]
    intervals = [wide(run) for run in runs] if n >= 3 else [(0.0, math.inf)]
    intervals = [wide(medians)] if len(runs) >= stats.ENOUGH_RUNS else intervals
    low, high = min(low for low, _ in intervals), max(high for _, high in intervals)
    return stats._log_middle(sorted(medians)), low, high, n


@given(st.lists(st.lists(st.lists(st.floats(1e-9, 1e3), min_size=1, max_size=12), min_size=1, max_size=9), max_size=5))
def test_sides_and_medians_by_column_are_those_of_each_measurement(measurements: list[list[list[float]]]) -> None:
    runs = [run for measurement in measurements for run in measurement]
    samples, lengths = np.array([sample for run in runs for sample in run]), np.array([*map(len, runs)], np.int64)
    assert stats.medians(samples, lengths).tolist() == [stats.median_ci(run).estimate for run in runs]
    sides = stats.sides(samples, lengths, np.array([*map(len, measurements)], np.int64))
    for side, measurement in zip(sides, measurements, strict=True):
        assert side == pytest.approx(plain_side(measurement), rel=1e-12) and side == stats.side(measurement)


def test_a_normal_quantile_instead_of_students_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stats, "_T", dict.fromkeys(stats._T, 1.96))
    assert {"3 rounds", "5 rounds"} <= {*too_many(false_claims)}


@pytest.mark.parametrize("kind", KINDS)
def test_twins_seldom_differ_when_sampling_stops_by_itself(kind: str) -> None:
    a, b = twins(kind, np.random.default_rng(1), 50, series=MANY)
    counts = until_quiet(a, b)
    ratios = [stats.paired_ratio(x[:n], y[:n]) for x, y, n in zip(a, b, counts, strict=True)]
    assert np.mean([not ratio.same for ratio in ratios]) <= LIMIT
    assert kind == "coarse timer" or len(set(counts)) > 5  # the rule really chose


def test_a_fixed_order_would_mistake_drift_for_a_difference() -> None:
    a, b = twins("drift", np.random.default_rng(1), 6, mirrored=False)
    assert claims(a, b) > most(SERIES)


@pytest.mark.parametrize("n", [3, 6, 7, 30])
def test_unpaired_twins_seldom_differ(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = noise("normal", rng, SERIES, n), noise("normal", rng, SERIES, n)
    ratios = [unpaired(*pair) for pair in zip(a, b, strict=True)]
    assert np.mean([not ratio.same for ratio in ratios]) <= LIMIT
    assert {ratio.how for ratio in ratios} == {"across runs"}


def between(rng: np.random.Generator, kind: str, series: int, runs: int) -> Array:
    """Return logarithms of A/A ratios of runs, shape (series, runs), with the spread that real runs showed."""
    draw = rng.standard_normal((series, runs))
    if kind == "two states":  # of the host's core, which now and then changes between the sides
        return 0.01 * draw + 0.4 * rng.choice([-1, 0, 0, 0, 0, 0, 0, 0, 1], draw.shape)
    if kind == "placement":  # of memory: a few ways, drawn once a run
        return 0.002 * draw + 0.03 * (rng.integers(0, 4, draw.shape) - rng.integers(0, 4, draw.shape))
    if kind == "heavy tails":
        return 0.01 * rng.standard_t(2, draw.shape)
    return 0.02 * draw


def in_run(ratio: float, sure: float) -> stats.RatioEstimate:
    """Return the estimate of one run, with an interval of plus and minus the share `sure`."""
    return stats.RatioEstimate(
        ratio, ratio * (1 - sure), ratio * (1 + sure), 20, abs(ratio - 1) < sure, "paired, sign test"
    )


@pytest.mark.parametrize("kind", ["normal", "two states", "placement", "heavy tails"])
@pytest.mark.parametrize("runs", [3, 4, 5, 6, 10])
def test_twins_that_differ_from_run_to_run_seldom_differ_over_runs(kind: str, runs: int) -> None:
    """Each run is sure of its own ratio to 0.1 %, so that one run alone would nearly always claim a difference."""
    logs = between(np.random.default_rng(runs), kind, MANY, runs)
    inner = [[in_run(ratio, 0.001) for ratio in row] for row in np.exp(logs)]
    assert np.mean([stats.over_runs(row[:1]).same for row in inner]) < 0.5
    assert np.mean([not stats.over_runs(row).same for row in inner]) <= LIMIT


def test_runs_are_judged_by_the_rule_of_rounds() -> None:
    for runs in (3, 5, 6, 9):
        ratios = np.exp(0.01 * np.random.default_rng(runs).standard_normal(runs))
        over_runs, rounds = (
            stats.over_runs([in_run(ratio, 0.5) for ratio in ratios]),
            stats.paired_ratio(ratios, np.ones(runs)),
        )
        assert over_runs == replace(rounds, how="over runs") and over_runs.n == runs


def test_one_run_gives_its_own_interval_and_two_give_their_span() -> None:
    first_run = stats.RatioEstimate(1.02, 1.01, 1.03, 10, False, "paired, sign test")
    second_run = stats.RatioEstimate(1.20, 1.18, 1.22, 10, False, "paired, sign test")
    assert stats.over_runs([first_run]) == first_run
    joined = stats.over_runs([first_run, second_run])
    assert (joined.low, joined.high, joined.how, joined.n) == (1.01, 1.22, "in both runs", 2)
    assert joined.estimate == pytest.approx(math.sqrt(1.02 * 1.20))
    few = stats.paired_ratio([1.0], [2.0])
    assert stats.over_runs([first_run, few]).how == "too few"
    with pytest.raises(ValueError, match="at least one run"):
        stats.over_runs([])


def test_a_difference_in_all_runs_is_detected() -> None:
    rng = np.random.default_rng(5)
    ratios = 1.10 * np.exp(0.01 * rng.standard_normal((300, 3)))
    ratios_over_runs = [stats.over_runs([in_run(ratio, 0.01) for ratio in row]) for row in ratios]
    assert np.mean([estimate.low > 1 for estimate in ratios_over_runs]) > 0.9


@given(st.lists(samples, min_size=1, max_size=8))
def test_a_median_over_runs_lies_in_its_interval(runs: list[list[float]]) -> None:
    median = stats.median_over_runs([stats.median_ci(run) for run in runs])
    assert median.low <= median.estimate <= median.high and median.n == sum(map(len, runs))
    assert median.estimate == pytest.approx(np.median([np.median(run) for run in runs]))
    if len(runs) >= stats.ENOUGH_RUNS:
        assert median.exact
    with pytest.raises(ValueError, match="at least one run"):
        stats.median_over_runs([])


@given(st.lists(st.lists(times, min_size=3, max_size=8), min_size=1, max_size=7), st.data())
def test_unpaired_runs_turn_round(runs: list[list[float]], data: st.DataObject) -> None:
    other_runs = data.draw(st.lists(st.lists(times, min_size=3, max_size=8), min_size=1, max_size=7))
    sides = stats.side(runs), stats.side(other_runs)
    forward, backward = stats.unpaired_ratio(*sides), stats.unpaired_ratio(*reversed(sides))
    assert forward.low <= forward.estimate <= forward.high
    assert forward.estimate == pytest.approx(1 / backward.estimate) and forward.low == pytest.approx(1 / backward.high)


@pytest.mark.parametrize("runs", [3, 5, 8])
def test_unpaired_twins_whose_runs_differ_seldom_differ(runs: int) -> None:
    """As devices are compared: each side has its own runs."""
    rng = np.random.default_rng(runs)
    shift = np.exp(0.05 * rng.standard_normal((SERIES, 2, runs, 1)))
    sides = shift * np.exp(0.01 * rng.standard_normal((SERIES, 2, runs, 10)))
    assert np.mean([not stats.unpaired_ratio(stats.side(list(a)), stats.side(list(b))).same for a, b in sides]) <= LIMIT


def test_a_true_difference_of_three_percent_is_detected() -> None:
    rng = np.random.default_rng(3)
    a, b = 1.03 * noise("normal", rng, 500, 15), noise("normal", rng, 500, 15)
    estimates = [stats.paired_ratio(*pair) for pair in zip(a, b, strict=True)]
    assert np.mean([ratio.low > 1 for ratio in estimates]) > 0.99
    assert np.mean([ratio.low <= 1.03 <= ratio.high for ratio in estimates]) >= 0.95


@pytest.mark.parametrize("n", [6, 10, 17, 50])
def test_median_interval_covers(n: int) -> None:
    rows = np.random.default_rng(n).lognormal(size=(MANY, n))
    assert np.mean([stats.median_ci(row).low <= 1 <= stats.median_ci(row).high for row in rows]) >= 0.94


def test_median_interval_ranks() -> None:
    assert stats.median_ci(range(1, 11)) == stats.Interval(5.5, 2, 9, 10)  # the classical table: 2nd and 9th of 10
    assert stats.median_ci(range(1, 51)) == stats.Interval(25.5, 18, 33, 50)
    assert stats.median_ci([3, 1, 2]) == stats.Interval(2, 1, 3, 3, exact=False)
    assert stats.median_ci([4.0]) == stats.Interval(4, 4, 4, 1, exact=False)
    assert stats.median_ci(np.ones(5000)).exact


def test_one_spike_does_not_keep_a_cell_running() -> None:
    quiet = 1 + 0.001 * np.sin(np.arange(10))
    spiked = np.append(quiet[:-1], 100.0)
    assert stats.relative_standard_error(spiked) < 2 * stats.relative_standard_error(quiet) < 0.002
    assert stats.relative_standard_error([1, 2] * 5) > 0.1  # two clock states are not quiet


def test_relative_standard_error_is_one() -> None:
    rows = np.exp(0.01 * np.random.default_rng(0).standard_normal((1000, 30)))
    mean = np.mean([stats.relative_standard_error(row) for row in rows])
    assert mean == pytest.approx(np.median(rows, axis=1).std(), rel=0.15)
    assert stats.relative_standard_error([1.0]) == math.inf
    assert stats.relative_standard_error([0.0] * 10) == math.inf


def test_too_few_rounds_claim_nothing() -> None:
    for ratio in (stats.paired_ratio([2, 2], [1, 1]), unpaired([2, 2], [1, 1, 1])):
        assert (ratio.same, ratio.how, ratio.low, ratio.high, ratio.n) == (True, "too few", 0, math.inf, 2)
        assert ratio.estimate == pytest.approx(2)


def test_rounds_are_matched() -> None:
    a, b = stats.by_round([1, 2, 3, 9], [0, 1, 1, 4], [5, 6, 7], [2, 1, 0])
    assert (a.tolist(), b.tolist()) == ([1, 2.5], [7, 6])
    assert stats.by_round([1], [0], [1], [1])[0].size == 0
    with pytest.raises(ValueError, match="round"):
        stats.by_round([1, 2], [0], [1], [1])


@given(pairs)
def test_ratio_inverts(pair: Pair) -> None:
    a, b = pair
    for ratio in (stats.paired_ratio, unpaired):
        forward, backward = ratio(a, b), ratio(b, a)
        assert (forward.n, forward.how) == (backward.n, backward.how)
        assert forward.estimate == pytest.approx(1 / backward.estimate)
        assert forward.low == pytest.approx(1 / backward.high if backward.high else math.inf)
        assert forward.high == pytest.approx(1 / backward.low if backward.low else math.inf)


@given(pairs, st.sampled_from([2.0**k for k in range(-30, 31)]))
def test_ratio_knows_no_unit(pair: Pair, scale: float) -> None:
    a, b = pair
    for ratio in (stats.paired_ratio, unpaired):
        plain, scaled = ratio(a, b), ratio(a * scale, b * scale)
        for field in ("estimate", "low", "high"):
            assert getattr(scaled, field) == pytest.approx(getattr(plain, field))
        times_scaled = ratio(a * scale, b)
        assert times_scaled.estimate == pytest.approx(scale * plain.estimate)


@given(samples)
def test_interval_holds_its_estimate(values: list[float]) -> None:
    interval = stats.median_ci(values)
    assert interval.low <= interval.estimate <= interval.high
    assert interval.estimate == pytest.approx(np.median(values))
    assert interval.exact == (len(values) >= 6)
    ratio = unpaired(values, values[::-1])
    assert ratio.low <= ratio.estimate <= ratio.high
    assert ratio.same
    assert stats.paired_ratio(values, values).same


@given(pairs)
def test_ratio_holds_its_estimate(pair: Pair) -> None:
    for ratio in (stats.paired_ratio(*pair), unpaired(*pair)):
        assert ratio.low <= ratio.estimate <= ratio.high
        assert ratio.same == (ratio.low <= 1 <= ratio.high)


@given(st.lists(times, max_size=8), st.sampled_from([math.nan, math.inf, -math.inf, -1.0]), st.integers(0, 8))
def test_bad_samples_are_refused(values: list[float], bad: float, position: int) -> None:
    broken = [*values[:position], bad, *values[position:]]
    for refused in (stats.median_ci, stats.relative_standard_error):
        with pytest.raises(ValueError, match="finite"):
            refused(broken)
    for ratio in (stats.paired_ratio, unpaired):
        for pair in ((broken, [1.0] * len(broken)), ([1.0] * len(broken), broken)):
            with pytest.raises(ValueError, match="finite"):
                ratio(*pair)


@given(pairs)
def test_lengths_of_pairs_agree(pair: Pair) -> None:
    a, b = pair
    assume(len(a) > 1)
    with pytest.raises(ValueError, match="equal lengths"):
        stats.paired_ratio(a, b[1:])


@pytest.mark.parametrize(
    ("function", "bad"), list(product((stats.median_ci, stats.relative_standard_error), ([], [[1.0, 2.0]], 3.0)))
)
def test_shapes_are_refused(function: Callable[[Any], object], bad: object) -> None:
    with pytest.raises(ValueError, match="shape"):
        function(bad)


def test_zero_has_no_ratio_and_a_level_is_a_share() -> None:
    for ratio in (stats.paired_ratio, unpaired):
        with pytest.raises(ValueError, match="positive"):
            ratio([0.0], [1.0])
        with pytest.raises(ValueError, match="shape"):
            ratio([], [])
    with pytest.raises(ValueError, match="level"):
        stats.median_ci([1.0], level=95)


# -- what an interval says ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1.011, 1.02, "faster"), (1.2, 3.0, "faster"), (0.5, 0.99, "slower"), (0.96, 1.04, "same"), (1.0, 1.05, "same"),
        (1.001, 1.002, "same"), (0.995, 0.999, "same"), (1.009, 1.2, "undecided"), (0.5, 0.991, "undecided"),
        (0.95, 1.04, "undecided"), (1.0, 1.06, "undecided"), (0.0, math.inf, "undecided"),
    ],
)  # fmt: skip
def test_the_one_rule(low: float, high: float, word: str) -> None:
    assert stats.relation(low, high) == word


@given(st.floats(0.01, 100), st.floats(1, 100))
def test_turned_round_it_says_the_opposite(low: float, width: float) -> None:
    opposite = {"faster": "slower", "slower": "faster", "same": "same", "undecided": "undecided"}
    assert stats.relation(low, low * width) == opposite[stats.relation(1 / (low * width), 1 / low)]
