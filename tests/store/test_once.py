"""Append with `once`: of several runs that measured the same case, only the rows of the first are stored."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Barrier
from typing import Any

from roofbook.store.parquet import Store


def rows(run: str, *variants: str) -> list[dict[str, Any]]:
    return [
        {
            "run": run, "started": datetime(2026, 1, 1, tzinfo=UTC), "lab": "made", "variant": name, "case": "a",
            "role": "step", "device": "card", "backend": "cuda", "policy": "{}", "cell_key": name, "env_key": "e",
            "status": "ok",
        }
        for name in variants
    ]  # fmt: skip


def runs_and_variants(store: Store) -> list[tuple[str, str]]:
    stored = store.rows("made")
    return sorted(zip(stored["run"], stored["variant"], strict=True))


def test_only_the_first_append_under_a_name_is_stored(tmp_path: Path) -> None:
    store, barrier = Store(tmp_path), Barrier(8)

    def append(number: int) -> None:
        barrier.wait()
        store.append(rows(f"run{number}", "one", "two"), once="case-1")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(8)))
    stored = runs_and_variants(store)
    assert len(stored) == 2 and len({run for run, _ in stored}) == 1
    store.append(rows("late", "one", "two"), once="case-1")
    assert runs_and_variants(store) == stored
    store.append(rows("late", "one"), once="case-2")
    assert len(runs_and_variants(store)) == 3


def test_without_a_name_all_appends_are_stored(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(rows("run", "one"))
    store.append(rows("run", "two"))
    assert runs_and_variants(store) == [("run", "one"), ("run", "two")]
