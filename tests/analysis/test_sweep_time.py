"""How long a sweep takes on many devices: from the rows of the store, and by the longest case."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.sweep_time import Cost, cost_of, forecast, makespan
from roofbook.store.parquet import Store

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def row(case: str, variant: str, run: str, began: float, ended: float, **more: Any) -> dict[str, Any]:
    snapshot = {"time": (BEGAN + timedelta(seconds=ended)).isoformat(timespec="seconds")}
    return {
        "run": run, "started": BEGAN + timedelta(seconds=began), "lab": "made", "variant": variant, "case": case,
        "role": "step", "device": "card", "backend": "cuda", "policy": "{}", "cell_key": variant, "env_key": "e",
        "status": "ok", "provenance": json.dumps(snapshot), **more,
    }  # fmt: skip


def test_the_seconds_of_a_case_are_those_of_its_whole_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for run, a, b in (("r1", 10, 20), ("r2", 12, 22), ("r3", 30, 24)):
        store.append([row("a", name, run, 0, a) for name in ("one", "two")])
        store.append([row("b", name, run, a + 2, a + 2 + b) for name in ("one", "two")])
    store.append([row("a", "one", "r4", 0, 1)])  # of `rerun`: one variant alone
    store.append([row("b", "one", "r5", 0, 999, role="profile")])
    store.append([row("a", "one", "r6", 0, 999, device="other")])
    cost = cost_of(store, "made", "card")
    assert cost.seconds == {"a": pytest.approx(12.5), "b": pytest.approx(22.5)}
    assert cost.between == pytest.approx(1.5)
    assert cost_of(store, "made", "nowhere") == Cost({}, 0.0)


pieces = st.lists(st.floats(0.1, 1e3), min_size=1, max_size=40)


@given(pieces, st.integers(1, 64))
def test_a_sweep_is_bounded_by_its_longest_case_and_by_all_work(seconds: list[float], devices: int) -> None:
    least = max(max(seconds), sum(seconds) / devices)
    assert least - 1e-6 <= makespan(seconds, devices) <= 4 / 3 * least + max(seconds)
    assert makespan(seconds, 1) == pytest.approx(sum(seconds))
    assert makespan(seconds, len(seconds)) == max(seconds)


def test_a_forecast_counts_every_run_and_the_start_of_each_case() -> None:
    costs = [Cost({"long": 9.0, "short": 1.0}, 1.0), Cost({"other": 4.0}, 0.0)]
    one, four, many = forecast(costs, 2, [1, 4, 64])
    assert one.seconds == 2 * (10 + 2 + 4) and one.speedup == one.busy == 1
    assert many.seconds == 10 and many.speedup == pytest.approx(3.2) and many.busy == pytest.approx(3.2 / 64)
    assert four.seconds == 10
