"""What a table may claim from raw samples: medians, ratios and their confidence intervals, and when to stop sampling.

Serves measure (the stop rule) and report (the columns). Run times are skewed and spiked, so nothing here takes a
normal distribution of them for granted where there are enough samples not to.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist, median
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

How = Literal["paired, sign test", "paired, t on log ratios", "over runs", "in both runs", "across runs", "too few"]

LEVEL = 0.95
"""Of every confidence interval of the book."""
CONFIDENCE = f"{100 * LEVEL:g} %"
"""The same, as tables and figures write it."""

# Paired intervals are drawn a little wider: noise that is correlated from sample to sample lifts the rate of
# false differences by a third where rounds are mirrored, and 3 to 5 ratios do not show the shape of their noise.
_SIGN_LEVEL, _FEW_LEVEL = 0.965, 0.975

# Student's t at _FEW_LEVEL, two-sided, by the number of samples: numpy has no quantiles, and few samples need few.
_T = {3: 6.205347, 4: 4.176535, 5: 3.495406, 6: 3.163381}


ENOUGH_RUNS = 3
"""From so many processes on, an interval is over runs: what it says holds in the next run too. With fewer, in these runs."""

EQUAL = 1.05
"""Two times whose ratio is known to lie within this factor of 1 count as equal: the equality band of the whole book."""
LEAST = 1.01
"""A difference is claimed beyond this factor alone: where its buffers lie and what runs before it make as much of a kernel's
time, in one direction for all of a run."""
Relation = Literal["faster", "slower", "same", "undecided"]


@dataclass(frozen=True)
class Interval:
    """A median with its confidence interval, in the unit of the samples.

    `exact` is False where so few samples (under 6 at 95 %) cannot reach the level: low and high are then the extremes.
    """

    estimate: float
    low: float
    high: float
    n: int
    exact: bool = True


@dataclass(frozen=True)
class RatioEstimate:
    """a / b with its confidence interval of at least 95 %; n is the number of pairs, or the smaller sample count.

    `same` says that the interval includes 1; `relation` says what may be claimed. With too few samples it is 0 to infinity.
    """

    estimate: float
    low: float
    high: float
    n: int
    same: bool
    how: How


def within_equal(low: float, high: float) -> bool:
    """Whether all of an interval of a ratio lies in the equality band."""
    return low >= 1 / EQUAL and high <= EQUAL


def relation(low: float, high: float, least: float = LEAST) -> Relation:
    """Return what the interval [low, high] of reference / own says: the one rule of tables, sentences, predictions and claims.

    `faster` or `slower` where all of it lies beyond `least`; of the others `same` where all of it lies in the equality band,
    else `undecided`.
    """
    if low > least:
        return "faster"
    if high < 1 / least:
        return "slower"
    return "same" if within_equal(low, high) else "undecided"


def median_ci(samples: ArrayLike, level: float = LEVEL) -> Interval:
    """The median and its distribution-free interval between two order statistics (binomial; ties only widen it).

    samples: 1-D, finite, not negative; any unit. Raises ValueError otherwise, or where level is outside (0, 1).
    """
    ordered = np.sort(_checked(samples))
    n = len(ordered)
    k = _rank(n, level)
    low, high = (ordered[k - 1], ordered[n - k]) if k else (ordered[0], ordered[-1])
    return Interval(_middle(ordered), float(low), float(high), n, exact=k > 0)


def paired_ratio(a: ArrayLike, b: ArrayLike) -> RatioEstimate:
    """a / b of samples taken side by side: a[i] and b[i] belong to the same round.

    From 6 rounds on, the sign test on the ratio of each round, which asks nothing of the noise's shape. For 3 to 5
    rounds, where no sign test reaches 95 %, Student's t on the logarithms. Load and slow drift hit both sides of a
    round alike and cancel, as long as neither side always comes first: with a fixed order, drift itself looks like a
    difference. The order that holds the level here is drawn at random for one round and mirrored in the next.
    Raises ValueError for lengths that differ and for samples that are not finite and positive.
    """
    top, bottom = _checked(a, positive=True), _checked(b, positive=True)
    if len(top) != len(bottom):
        raise ValueError(f"paired samples have equal lengths, not {len(top)} and {len(bottom)}")
    ratios = np.sort(top / bottom)
    n = len(ratios)
    # The geometric middle, so that ratio(b, a) is 1 / ratio(a, b) for an even number of rounds as well.
    estimate = math.exp(_middle(np.log(ratios)))
    if n < 3:
        return RatioEstimate(estimate, 0.0, math.inf, n, True, "too few")
    if n < 6:
        low, high = _t_interval(ratios)
        return _ratio(estimate, low, high, n, "paired, t on log ratios")
    k = _rank(n, _SIGN_LEVEL)
    return _ratio(estimate, float(ratios[k - 1]), float(ratios[n - k]), n, "paired, sign test")


def over_runs(runs: Sequence[RatioEstimate]) -> RatioEstimate:
    """a / b over runs, each a process of its own with its own ratio: one run is one sample, however many rounds it has.

    From ENOUGH_RUNS on, the middle of the runs' ratios with the interval that `paired_ratio` gives for as many rounds. Two
    runs show no spread: their interval covers both. One is as it is. n is the number of runs, of one that of its rounds.
    Raises ValueError for none.
    """
    if not runs:
        raise ValueError("a ratio over runs needs at least one run")
    if len(runs) == 1:
        return runs[0]
    found = paired_ratio([each.estimate for each in runs], np.ones(len(runs)))
    if len(runs) >= ENOUGH_RUNS:
        return replace(found, how="over runs")
    how: How = "too few" if any(each.how == "too few" for each in runs) else "in both runs"
    return _ratio(found.estimate, *_cover(runs), len(runs), how)


def median_over_runs(runs: Sequence[Interval]) -> Interval:
    """The middle of the medians of runs with its interval, as `over_runs` has it. n is the number of samples of all runs."""
    if not runs:
        raise ValueError("a median over runs needs at least one run")
    if len(runs) == 1:
        return runs[0]
    n, medians = sum(each.n for each in runs), [each.estimate for each in runs]
    middle = median_ci(medians)
    if len(runs) < ENOUGH_RUNS or not all(medians):
        return Interval(middle.estimate, *_cover(runs), n, all(each.exact for each in runs))
    low, high = (middle.low, middle.high) if middle.exact else _t_interval(medians)
    return Interval(middle.estimate, min(low, middle.estimate), max(high, middle.estimate), n)


def unpaired_ratio(a: Sequence[ArrayLike], b: Sequence[ArrayLike]) -> RatioEstimate:
    """a / b of samples from different runs, from the intervals of the two medians at 97.5 % each (Bonferroni).

    Each side is the samples of one run or more; the interval of a side is over its runs from ENOUGH_RUNS on. With fewer it
    covers that of each of them: what differs between runs as a whole (clocks, placement, neighbours) it cannot know, which
    is why the result says 'across runs'. n: the fewest samples of a run. Raises ValueError as paired_ratio.
    """
    sides = [[_checked(run, positive=True) for run in side] for side in (a, b)]
    n = min(len(run) for side in sides for run in side)
    middles = [[math.exp(_middle(np.sort(np.log(run)))) for run in side] for side in sides]
    middle_a, middle_b = (_middle(np.sort(np.log(side))) for side in middles)
    estimate = math.exp(middle_a - middle_b)
    if n < 3:
        return RatioEstimate(estimate, 0.0, math.inf, n, True, "too few")
    ends = []
    for side, medians in zip(sides, middles, strict=True):
        inner = [_wide_interval(each) for each in ([medians] if len(side) >= ENOUGH_RUNS else side)]
        ends.append((min(low for low, _ in inner), max(high for _, high in inner)))
    (low_a, high_a), (low_b, high_b) = ends
    return _ratio(estimate, low_a / high_b, high_a / low_b, n, "across runs")


def relative_standard_error(samples: ArrayLike) -> float:
    """The standard error of the median over the median: what the stop rule compares with its limit. Infinite under 2.

    Half the order-statistic interval over the normal quantile of the coverage it really has. The sample deviation
    would let one spike keep a cell running for ever; the median absolute deviation would call a cell quiet that flips
    between two clock states. This is also the very interval that the table shows. Raises ValueError as median_ci.
    """
    interval = median_ci(samples)
    if interval.n < 2 or interval.estimate == 0:
        return math.inf
    tail = _tail(interval.n, max(_rank(interval.n, LEVEL), 1))
    return (interval.high - interval.low) / 2 / NormalDist().inv_cdf(1 - tail) / interval.estimate


def by_round(
    a: ArrayLike, a_rounds: Sequence[int], b: ArrayLike, b_rounds: Sequence[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The samples of two rows of one run, matched by round for paired_ratio: the median of each round that both have.

    Raises ValueError where samples and rounds differ in length; empty arrays where the rows share no round.
    """
    rows = []
    for samples, rounds in ((a, a_rounds), (b, b_rounds)):
        values, numbers = np.asarray(samples, float), np.asarray(rounds)
        if values.shape != numbers.shape:
            raise ValueError(f"each sample has its round, not {values.size} samples and {numbers.size} rounds")
        groups: dict[int, list[float]] = {}
        for number, sample in zip(numbers.tolist(), values.tolist(), strict=True):
            groups.setdefault(int(number), []).append(sample)
        rows.append({number: median(those) for number, those in groups.items()})
    shared = sorted(rows[0].keys() & rows[1].keys())
    return np.array([rows[0][r] for r in shared], float), np.array([rows[1][r] for r in shared], float)


def _ratio(estimate: float, low: float, high: float, n: int, how: How) -> RatioEstimate:
    low, high = min(low, estimate), max(high, estimate)  # exp(log(x)) may leave the interval by one rounding
    return RatioEstimate(estimate, low, high, n, low <= 1 <= high, how)


def _checked(samples: ArrayLike, *, positive: bool = False) -> NDArray[np.float64]:
    values = np.asarray(samples, dtype=np.float64)
    if values.ndim != 1 or not len(values):
        raise ValueError(f"samples are a non-empty list of numbers, not of shape {values.shape}")
    if not np.isfinite(values).all() or (values <= 0 if positive else values < 0).any():
        raise ValueError(f"samples are finite and {'positive' if positive else 'not negative'}")
    return values


def _middle(ordered: NDArray[np.float64]) -> float:
    n = len(ordered)
    return float(ordered[(n - 1) // 2] + ordered[n // 2]) / 2


def _t_interval(values: ArrayLike) -> tuple[float, float]:
    """Student's t on the logarithms of 3 to 6 positive values; wide enough to hold their median always."""
    logs = np.log(values)
    half = _T[len(logs)] * logs.std(ddof=1) / math.sqrt(len(logs))
    return math.exp(logs.mean() - half), math.exp(logs.mean() + half)


def _wide_interval(values: ArrayLike) -> tuple[float, float]:
    """The 97.5 % interval of the middle of 3 values or more: by order statistics where 7 or more allow it."""
    if np.size(values) in _T:
        return _t_interval(values)
    interval = median_ci(values, _FEW_LEVEL)
    return interval.low, interval.high


def _cover(runs: Sequence[Interval | RatioEstimate]) -> tuple[float, float]:
    """The interval that holds those of all runs."""
    return min(each.low for each in runs), max(each.high for each in runs)


@lru_cache(maxsize=4096)
def _rank(n: int, level: float) -> int:
    """The largest k for which the k-th smallest and k-th largest of n hold the median at the level; 0 for none."""
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
    """The chance that the median lies below the k-th smallest of n."""
    return float(sum(math.comb(n, i) for i in range(k)) / 2**n)
