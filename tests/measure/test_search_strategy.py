"""Strategies: each point once, the same order for the same seed, and what a sampler of Optuna learns."""

from __future__ import annotations

from itertools import product

import pytest

from roofbook.errors import UsageError
from roofbook.measure.search_strategy import STRATEGIES, evaluations_until, strategy
from roofbook.spec.search_space import Point

POINTS: list[Point] = [
    {"GROUP": group, "EACH": each, "ORDER": order}
    for group, each, order in product(("128", "32", "64"), ("1", "2", "4", "8"), ("ROWS", "COLUMNS"))
    if int(group) * int(each) <= 256
]


def seconds(point: Point) -> float | None:
    if point["EACH"] == "8":
        return None
    return abs(int(point["GROUP"]) - 64) + abs(int(point["EACH"]) - 2) + (point["ORDER"] == "ROWS") + 1.0


def walked(name: str, seed: int = 0, first: tuple[Point, ...] = ()) -> list[tuple[str, ...]]:
    search, order = strategy(name, POINTS, seed, first), []
    while (point := search.propose()) is not None:
        order.append(tuple(point.values()))
        search.learn(point, seconds(point))
    return order


@pytest.mark.parametrize("name", ["exhaustive", "random", "tpe"])
def test_a_strategy_proposes_each_point_once_and_first_those_that_it_was_given(name: str) -> None:
    all_points = [tuple(point.values()) for point in POINTS]
    order = walked(name, 3)
    assert sorted(order) == sorted(all_points) and order == walked(name, 3)
    assert name == "exhaustive" or order != walked(name, 4)
    with_leading = walked(name, 1, (POINTS[7], POINTS[4]))
    assert with_leading[:2] == [all_points[7], all_points[4]] and len(with_leading) == len(POINTS)


def test_a_sampler_looks_near_good_points() -> None:
    known = {tuple(point.values()): seconds(point) for point in POINTS}
    sampled, drawn = ([evaluations_until(name, known, POINTS, seed) for seed in range(8)] for name in ("tpe", "random"))
    assert max(sampled) <= len(POINTS) and sum(sampled) < 1.2 * sum(drawn)


def test_the_number_of_measurements_until_the_best_is_replayed() -> None:
    known = {tuple(point.values()): seconds(point) for point in POINTS}
    best = min(known, key=lambda values: known[values] or 1e9)
    assert evaluations_until("exhaustive", known, POINTS, 0) == 1 + [tuple(p.values()) for p in POINTS].index(best)
    assert evaluations_until("random", known, POINTS, 5) == 1 + walked("random", 5).index(best)


def test_an_unknown_strategy_and_one_without_its_package_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match=r"unknown strategy 'tpee'.*did you mean 'tpe'"):
        strategy("tpee", POINTS)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in set(STRATEGIES) - {"exhaustive", "random"}:
        with pytest.raises(UsageError, match=f"strategy {name} needs Optuna: .*tune"):
            strategy(name, POINTS)
