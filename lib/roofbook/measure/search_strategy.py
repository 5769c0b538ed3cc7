"""Strategies that choose the next point of a search space: all in order, at random, or by a sampler of Optuna."""

import importlib.util
import random
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import UsageError, one_of
from ..paths import installing
from ..spec.search_space import Point, number_or_text

SAMPLERS = {"tpe": "TPESampler", "nsga2": "NSGAIISampler", "cmaes": "CmaEsSampler", "gp": "GPSampler"}
"""Strategy -> sampler of Optuna."""
STRATEGIES = ("exhaustive", "random", *SAMPLERS)
MOST_REPEATS = 50
"""Number of proposals in a row that are outside of the space or measured already, after which a random point follows."""


class Strategy(ABC):
    """Chooses points of a space, each once."""

    @abstractmethod
    def propose(self) -> Point | None:
        """Return the next point; None if none is left."""

    def learn(self, point: Point, seconds: float | None) -> None:
        """Take the result of a point: its seconds, None if it failed. Override if it decides which points follow."""


class InOrder(Strategy):
    """All points, in their order."""

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = iter(points)

    def propose(self) -> Point | None:
        return next(self._points, None)


class Sampled(Strategy):
    """Points that a sampler of Optuna proposes, with the results so far in mind."""

    def __init__(self, points: Sequence[Point], sampler: str, seed: int, first: Sequence[Point]) -> None:
        """Raise UsageError if Optuna, or a package that the sampler needs, is not installed.

        first: points that come before those of the sampler.
        """
        if importlib.util.find_spec("optuna") is None:
            raise UsageError(f"strategy {sampler} needs Optuna: {installing('tune')}")
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        try:
            chosen = getattr(optuna.samplers, SAMPLERS[sampler])(seed=seed)
        except ImportError as error:
            raise UsageError(f"strategy {sampler} needs another package: {' '.join(str(error).split())}") from None
        self._study = optuna.create_study(sampler=chosen)
        self._failed = optuna.trial.TrialState.FAIL
        self._left = {tuple(point.values()): point for point in points}
        self._first = [tuple(point.values()) for point in first]
        self._knobs = {knob: in_order({point[knob] for point in points}) for knob in points[0]}
        self._spare = random.Random(seed)
        self._trials: dict[tuple[str, ...], Any] = {}
        self._results: dict[tuple[str, ...], float | None] = {}

    def propose(self) -> Point | None:
        while self._first:
            if (values := self._first.pop(0)) in self._left:
                return self._enqueued(values)
        for _ in range(MOST_REPEATS if self._left else 0):
            trial = self._study.ask()
            values = tuple(self._value(trial, knob) for knob in self._knobs)
            if values in self._left:
                return self._taken(values, trial)
            self._tell(trial, self._results.get(values))
        return self._enqueued(self._spare.choice(list(self._left))) if self._left else None

    def _enqueued(self, values: tuple[str, ...]) -> Point:
        """Return a point that the sampler did not propose, with a trial of its own."""
        self._study.enqueue_trial(
            {knob: self._as_sampled(knob, value) for knob, value in zip(self._knobs, values, strict=True)}
        )
        trial = self._study.ask()
        for knob in self._knobs:
            self._value(trial, knob)
        return self._taken(values, trial)

    def learn(self, point: Point, seconds: float | None) -> None:
        values = tuple(point.values())
        self._results[values] = seconds
        self._tell(self._trials.pop(values), seconds)

    def _taken(self, values: tuple[str, ...], trial: Any) -> Point:
        self._trials[values] = trial
        return self._left.pop(values)

    def _tell(self, trial: Any, seconds: float | None) -> None:
        """Report a result; without one the trial has failed, and the sampler leaves it out."""
        if seconds is None:
            self._study.tell(trial, state=self._failed)
        else:
            self._study.tell(trial, seconds)

    def _is_ordered(self, knob: str) -> bool:
        return all(isinstance(number_or_text(value), int | float) for value in self._knobs[knob])

    def _as_sampled(self, knob: str, value: str) -> int | str:
        return self._knobs[knob].index(value) if self._is_ordered(knob) else value

    def _value(self, trial: Any, knob: str) -> str:
        """Return the trial's value of a knob. Numbers are sampled by their rank, so that neighbours are near."""
        values = self._knobs[knob]
        if self._is_ordered(knob):
            rank: int = trial.suggest_int(knob, 0, len(values) - 1)
            return values[rank]
        chosen: str = trial.suggest_categorical(knob, values)
        return chosen


def in_order(values: Iterable[str]) -> list[str]:
    """Return numbers by size, or other values by their texts."""
    numbers = {value: number_or_text(value) for value in values}
    are_numbers = all(isinstance(number, int | float) for number in numbers.values())
    return sorted(numbers, key=numbers.__getitem__ if are_numbers else None)


def strategy(name: str, points: Sequence[Point], seed: int = 0, first: Sequence[Point] = ()) -> Strategy:
    """Return a strategy over the points. first: points that come before all others, such as another device's best.

    Raise UsageError for an unknown name, and if the package that it needs is not installed.
    """
    if name not in STRATEGIES:
        raise one_of("strategy", name, list(STRATEGIES))
    if name in SAMPLERS:
        return Sampled(points, name, seed, first)
    ordered = list(points)
    if name == "random":
        random.Random(seed).shuffle(ordered)
    all_values = {tuple(point.values()): point for point in (*first, *ordered)}
    return InOrder(list(all_values.values()))


def evaluations_until(
    name: str, seconds: Mapping[tuple[str, ...], float | None], points: Sequence[Point], seed: int
) -> int:
    """Return how many points a strategy measures until it has one within 1 % of the best, replayed from known results.

    seconds: by the values of a point; None for a failed one.
    """
    enough = 1.01 * min(value for value in seconds.values() if value is not None)
    search, count = strategy(name, points, seed), 0
    while (point := search.propose()) is not None:
        count += 1
        result = seconds[tuple(point.values())]
        if result is not None and result <= enough:
            break
        search.learn(point, result)
    return count
