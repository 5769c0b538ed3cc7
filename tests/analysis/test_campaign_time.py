"""The time that each case took: from the rows of the store."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from roofbook.analysis.campaign_time import Cost, cost_of
from roofbook.store.parquet import Store

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def row(case: str, variant: str, run: str, began: float, ended: float, **fields: Any) -> dict[str, Any]:
    snapshot = {"time": (BEGAN + timedelta(seconds=ended)).isoformat(timespec="seconds")}
    return {
        "run": run, "started": BEGAN + timedelta(seconds=began), "lab": "made", "variant": variant, "case": case,
        "role": "step", "device": "card", "backend": "cuda", "policy": "{}", "cell_key": variant, "env_key": "e",
        "status": "ok", "provenance": json.dumps(snapshot), **fields,
    }  # fmt: skip


def test_the_seconds_of_a_case_are_those_of_its_whole_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for run, a, b in (("r1", 10, 20), ("r2", 12, 22), ("r3", 30, 24)):
        store.append([row("a", name, run, 0, a) for name in ("one", "two")])
        store.append([row("b", name, run, a + 2, a + 2 + b) for name in ("one", "two")])
    store.append([row("a", "one", "r4", 0, 1)])  # of `rerun`: one variant alone
    store.append([row("b", "one", "r5", 0, 999, role="profile")])
    store.append([row("a", "one", "r6", 0, 999, device="other")])
    store.append([row("a", "one", "r7", 0, 999, backend="opencl")])
    cost = cost_of(store, "made", "card", "cuda")
    assert cost.seconds == {"a": pytest.approx(12.5), "b": pytest.approx(22.5)}
    assert cost.start == 0, "the names of these runs say no time"
    assert cost_of(store, "made", "nowhere", "cuda") == Cost({}, {}, 0.0)


def test_the_start_of_a_process_is_from_the_runs_name_to_its_first_case(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for at, start in enumerate((4, 6, 0)):
        began = 100 * at
        run = f"{BEGAN + timedelta(seconds=began):%Y%m%dT%H%M%SZ}-abcdef"
        store.append([row("a", "one", run, began + start, began + start + 9)])
        store.append([row("b", "one", run, began + start + 10, began + start + 19)])
    assert cost_of(store, "made", "card", "cuda").start == pytest.approx(5.5)
