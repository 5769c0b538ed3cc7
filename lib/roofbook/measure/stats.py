"""Statistics of raw samples: medians, ratios, their confidence intervals, and the error by which sampling stops.

Used by measure (the stop rule) and report (the columns). Run times are skewed and have spikes, so nothing here assumes a
normal distribution if there are enough samples to do without.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import truediv
from statistics import NormalDist, median
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

How = Literal["paired, sign test", "paired, t on log ratios", "over runs", "in both runs", "across runs", "too few"]

LEVEL = 0.95
"""Level of every confidence interval in the book."""
CONFIDENCE = f"{100 * LEVEL:g} %"
"""Level of the confidence intervals, as tables and figures write it."""

# Paired intervals are a little wider: noise that is correlated from sample to sample raises the rate of false
# differences by a third if rounds are mirrored, and 3 to 5 ratios do not show the shape of their noise.
_SIGN_LEVEL, _FEW_LEVEL = 0.965, 0.975

_T = {3: 6.205347, 4: 4.176535, 5: 3.495406, 6: 3.163381}
"""Student's t at _FEW_LEVEL, two-sided, by the number of samples.

Four numbers do not earn a package: SciPy is installed only because scikit-learn needs it, and importing its `stdtrit` would add
0.2 s of processor time to every command that compares two times. A test compares them with SciPy's.
"""

ENOUGH_RUNS = 3
"""Number of runs from which on an interval is over runs, so that it holds for the next run too."""

FEWEST = 3
"""Fewest samples of a run with which its ratio to another run has an interval."""
EQUAL = 1.05
"""Equality band of the book: two times count as equal if their ratio is known to lie within this factor of 1."""
LEAST = 1.01
"""Smallest factor that is claimed as a difference. Addresses of buffers and earlier launches change a kernel's time by as
much, in one direction for a whole run."""
Relation = Literal["faster", "slower", "same", "undecided"]


class Interval(NamedTuple):
    """Median with its confidence interval, in the unit of the samples.

    `exact` is False if there are too few samples to reach the level (under 6 at 95 %): low and high are then the extremes.
    """

    estimate: float
    low: float
    high: float
    n: int
    exact: bool = True


@dataclass(frozen=True)
class RatioEstimate:
    """Ratio a / b with its confidence interval of at least 95 %; n is the number of pairs, or the smaller sample count.

    `same`: the interval includes 1. The function `relation` returns the claim. With too few samples the interval is 0 to
    infinity.
    """

    estimate: float
    low: float
    high: float
    n: int
    same: bool
    how: How


def within_equal(low: float, high: float) -> bool:
    """Return whether the whole interval of a ratio lies in the equality band."""
    return low >= 1 / EQUAL and high <= EQUAL


def relation(low: float, high: float, least: float = LEAST) -> Relation:
    """Return the claim that the interval [low, high] of reference / own allows. All tables, sentences and verdicts use it.

    `faster` or `slower` if the whole interval lies beyond `least`; otherwise `same` if it lies in the equality band, else
    `undecided`.
    """
    if low > least:
        return "faster"
    if high < 1 / least:
        return "slower"
    return "same" if within_equal(low, high) else "undecided"


def median_ci(samples: ArrayLike, level: float = LEVEL) -> Interval:
    """Return the median and its distribution-free interval between two order statistics (binomial; ties only widen it).

    samples: 1-D, finite, not negative; any unit. Raises ValueError otherwise, or if level is outside (0, 1).
    """
    return interval_of(sorted(_valid_samples(samples)), level)


def interval_of(ordered: Sequence[float], level: float = LEVEL) -> Interval:
    """Return the result of `median_ci` for samples that are valid and sorted."""
    n = len(ordered)
    k = _rank(n, level)
    low, high = (ordered[k - 1], ordered[n - k]) if k else (ordered[0], ordered[-1])
    return Interval(_middle(ordered), low, high, n, exact=k > 0)


def paired_ratio(a: ArrayLike, b: ArrayLike) -> RatioEstimate:
    """Return a / b of paired samples: a[i] and b[i] belong to the same round.

    From 6 rounds on, the interval is that of a sign test on the ratios of rounds, which assumes no shape of the noise. For 3
    to 5 rounds, where no sign test reaches 95 %, it is Student's t on the logarithms. Load and slow drift affect both sides
    of a round alike and cancel, as long as neither side always comes first. So the order must be drawn at random for one
    round and mirrored in the next.
    Raises ValueError for lengths that differ and for samples that are not finite and positive.
    """
    top, bottom = _valid_samples(a, positive=True), _valid_samples(b, positive=True)
    if len(top) != len(bottom):
        raise ValueError(f"paired samples have equal lengths, not {len(top)} and {len(bottom)}")
    ratios = sorted(map(truediv, top, bottom))
    n = len(ratios)
    # The geometric middle, so that ratio(b, a) is 1 / ratio(a, b) for an even number of rounds as well.
    estimate = math.exp(_log_middle(ratios))
    if n < 3:
        return RatioEstimate(estimate, 0.0, math.inf, n, True, "too few")
    if n < 6:
        low, high = _t_interval(ratios)
        return _ratio(estimate, low, high, n, "paired, t on log ratios")
    k = _rank(n, _SIGN_LEVEL)
    return _ratio(estimate, ratios[k - 1], ratios[n - k], n, "paired, sign test")


def over_runs(runs: Sequence[RatioEstimate]) -> RatioEstimate:
    """Return a / b over runs, given the ratio of each run: one run is one sample, however many rounds it has.

    From ENOUGH_RUNS on, the estimate is the median of the runs' ratios, with the interval of `paired_ratio` for as many
    rounds. For two runs the interval covers both; one run's ratio is returned as it is. n is the number of runs, or of a
    single run's rounds. Raises ValueError without any run.
    """
    if not runs:
        raise ValueError("a ratio over runs needs at least one run")
    if len(runs) == 1:
        return runs[0]
    ratio = paired_ratio([run.estimate for run in runs], np.ones(len(runs)))
    if len(runs) >= ENOUGH_RUNS:
        return replace(ratio, how="over runs")
    how: How = "too few" if any(run.how == "too few" for run in runs) else "in both runs"
    return _ratio(ratio.estimate, *_hull(runs), len(runs), how)


def median_over_runs(runs: Sequence[Interval]) -> Interval:
    """Return the median of the runs' medians, with its interval as in `over_runs`. n is the number of samples of all runs."""
    if not runs:
        raise ValueError("a median over runs needs at least one run")
    if len(runs) == 1:
        return runs[0]
    n, medians = sum(run.n for run in runs), tuple([run.estimate for run in runs])
    middle = median_ci(medians)
    if len(runs) < ENOUGH_RUNS or not all(medians):
        return Interval(middle.estimate, *_hull(runs), n, all(run.exact for run in runs))
    low, high = (middle.low, middle.high) if middle.exact else _t_interval(medians)
    return Interval(middle.estimate, min(low, middle.estimate), max(high, middle.estimate), n)


class RatioSide(NamedTuple):
    """One side of an unpaired ratio: the runs of a measurement."""

    log_middle: float
    """Logarithm of the geometric middle of the runs' middles."""
    low: float
    high: float
    n: int
    """The fewest samples of a run."""


def side(runs: Sequence[ArrayLike]) -> RatioSide:
    """Return the side of an unpaired ratio from the samples of its runs. Raises ValueError as paired_ratio."""
    samples = [_valid_samples(run, positive=True) for run in runs]
    lengths = np.array([*map(len, samples)], np.int64)
    return sides(np.concatenate(samples), lengths, np.array([len(runs)]))[0]


def medians(values: NDArray[np.float64], lengths: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the median of each of many lists that lie one after another in `values`."""
    middles = np.empty(len(lengths))
    for numbers, ordered in _by_length(values, lengths):
        middles[numbers] = _middle(ordered)
    return middles


def sides(samples: NDArray[np.float64], lengths: NDArray[np.int64], runs: NDArray[np.int64]) -> list[RatioSide]:
    """Return `side` of many measurements, computed by column.

    samples: valid ones, one run after another. lengths: number of samples of each run. runs: number of runs of a measurement.
    """
    if not len(runs):
        return []
    run_middles, run_lows, run_highs = _wide_intervals(samples, lengths)
    log_middles, lows, highs = _wide_intervals(np.exp(run_middles), runs)
    starts, are_many = np.cumsum(runs) - runs, runs >= ENOUGH_RUNS
    lows = np.where(are_many, lows, np.minimum.reduceat(run_lows, starts))
    highs = np.where(are_many, highs, np.maximum.reduceat(run_highs, starts))
    fields = (log_middles, lows, highs, np.minimum.reduceat(lengths, starts))
    return list(map(RatioSide, *(field.tolist() for field in fields)))


def unpaired_ratio(a: RatioSide, b: RatioSide) -> RatioEstimate:
    """Return a / b of samples from different runs, from the intervals of the two medians at 97.5 % each (Bonferroni).

    Each side is the samples of one run or more. From ENOUGH_RUNS on, the interval of a side is over its runs; with fewer it
    covers the interval of each run. It cannot include differences between whole runs (clocks, placement, neighbours), so
    `how` is 'across runs'. n: the fewest samples of a run.
    """
    n, estimate = min(a.n, b.n), math.exp(a.log_middle - b.log_middle)
    if n < FEWEST:
        return RatioEstimate(estimate, 0.0, math.inf, n, True, "too few")
    return _ratio(estimate, a.low / b.high, a.high / b.low, n, "across runs")


def relative_standard_error(samples: ArrayLike) -> float:
    """Return the standard error of the median, relative to the median, for the stop rule. Infinity for under 2 samples.

    It is half the order-statistic interval over the normal quantile of its actual coverage. With the sample deviation, one
    spike would keep a measurement running for ever; the median absolute deviation would miss samples that alternate between
    two clock states. Tables show the same interval. Raises ValueError as median_ci.
    """
    interval = median_ci(samples)
    if interval.n < 2 or interval.estimate == 0:
        return math.inf
    tail = _tail(interval.n, max(_rank(interval.n, LEVEL), 1))
    return (interval.high - interval.low) / 2 / NormalDist().inv_cdf(1 - tail) / interval.estimate


def by_round(
    a: ArrayLike, a_rounds: Sequence[int], b: ArrayLike, b_rounds: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the samples of two rows of one run, matched by round: the median of each round that both rows have.

    The arrays are empty if the rows share no round. Raises ValueError if samples and rounds differ in length.
    """
    rows = []
    for samples, rounds in ((a, a_rounds), (b, b_rounds)):
        values, numbers = np.asarray(samples, float), np.asarray(rounds)
        if values.shape != numbers.shape:
            raise ValueError(f"each sample has its round, not {values.size} samples and {numbers.size} rounds")
        groups: dict[int, list[float]] = {}
        for number, sample in zip(numbers.tolist(), values.tolist(), strict=True):
            groups.setdefault(int(number), []).append(sample)
        rows.append({number: median(group) for number, group in groups.items()})
    shared = sorted(rows[0].keys() & rows[1].keys())
    return np.array([rows[0][r] for r in shared], float), np.array([rows[1][r] for r in shared], float)


def _ratio(estimate: float, low: float, high: float, n: int, how: How) -> RatioEstimate:
    low, high = min(low, estimate), max(high, estimate)  # exp(log(x)) may leave the interval by one rounding
    return RatioEstimate(estimate, low, high, n, low <= 1 <= high, how)


def _valid_samples(samples: ArrayLike, *, positive: bool = False) -> list[float]:
    """Return samples as numbers of Python, which are quicker than NumPy's for the dozen samples that most runs have."""
    if isinstance(samples, tuple) and samples and type(samples[0]) is float:
        values = list(samples)
    else:
        array = np.asarray(samples, dtype=np.float64)
        if array.ndim != 1 or not len(array):
            raise ValueError(f"samples are a non-empty list of numbers, not of shape {array.shape}")
        values = array.tolist()
    least = min(values)
    if not all(map(math.isfinite, values)) or (least <= 0 if positive else least < 0):
        raise ValueError(f"samples are finite and {'positive' if positive else 'not negative'}")
    return values


def _middle(ordered: Any) -> Any:
    """Return the median of sorted values; of those of many lists, each list a column, if they are an array of two axes."""
    n = len(ordered)
    return (ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _log_middle(ordered: Sequence[float]) -> float:
    """Return the middle of the logarithms of sorted positive values."""
    n = len(ordered)
    return (math.log(ordered[(n - 1) // 2]) + math.log(ordered[n // 2])) / 2


def _t_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the interval of Student's t on the logarithms of 3 to 6 positive values; it always holds their median."""
    logs = [math.log(value) for value in values]
    n, mean = len(logs), math.fsum(logs) / len(logs)
    half = _T[n] * math.sqrt(math.fsum((log - mean) ** 2 for log in logs) / (n - 1) / n)
    return math.exp(mean - half), math.exp(mean + half)


def _wide_intervals(
    values: NDArray[np.float64], lengths: NDArray[np.int64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return middle logarithms and wide intervals of many lists of positive values; 0 to infinity for under 3 values.

    The wide interval is the 97.5 % interval of the median, by order statistics from 7 values on.
    """
    middles, lows, highs = np.empty(len(lengths)), np.zeros(len(lengths)), np.full(len(lengths), math.inf)
    for numbers, ordered in _by_length(values, lengths):
        n, logs = len(ordered), np.log(ordered)
        middles[numbers] = _middle(logs)
        if n in _T:
            mean = logs.sum(axis=0) / n
            half = _T[n] * np.sqrt(((logs - mean) ** 2).sum(axis=0) / (n - 1) / n)
            lows[numbers], highs[numbers] = np.exp(mean - half), np.exp(mean + half)
        elif rank := _rank(n, _FEW_LEVEL):
            lows[numbers], highs[numbers] = ordered[rank - 1], ordered[n - rank]
    return middles, lows, highs


def _by_length(
    values: NDArray[np.float64], lengths: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """Yield the numbers of all lists of one length, and their sorted values as columns."""
    starts = np.cumsum(lengths) - lengths
    for length in np.unique(lengths).tolist():
        numbers = np.flatnonzero(lengths == length)
        yield numbers, np.sort(values[starts[numbers] + np.arange(length)[:, None]], axis=0)


def _hull(runs: Sequence[Interval | RatioEstimate]) -> tuple[float, float]:
    """Return the smallest interval that holds those of all runs."""
    return min(run.low for run in runs), max(run.high for run in runs)


@lru_cache(maxsize=4096)
def _rank(n: int, level: float) -> int:
    """Return the largest k for which the k-th smallest and k-th largest of n hold the median at the level; 0 for none."""
    if not 0 < level < 1:
        raise ValueError(f"a level is between 0 and 1, not {level}")
    # Twice the sum of the binomial terms must stay within 1 - level; whole numbers, since 2**n leaves the floats.
    limit, total, term, k = int((1 - level) / 2 * 2**53), 0, 1, 0
    while k < n // 2 and (total + term) << 53 <= limit << n:
        total += term
        term = term * (n - k) // (k + 1)
        k += 1
    return k


@lru_cache(maxsize=4096)
def _tail(n: int, k: int) -> float:
    """Return the probability that the median lies below the k-th smallest of n."""
    return float(sum(math.comb(n, i) for i in range(k)) / 2**n)
