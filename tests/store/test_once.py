"""Rows that are kept once: of several who measured the same case, the first; all of its rows, and of no other."""

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


def kept(store: Store) -> list[tuple[str, str]]:
    found = store.rows("made")
    return sorted(zip(found["run"], found["variant"], strict=True))


def test_of_many_who_measured_a_case_the_first_ones_rows_stay(tmp_path: Path) -> None:
    store, everybody = Store(tmp_path), Barrier(8)

    def append(number: int) -> None:
        everybody.wait()
        store.append(rows(f"run{number}", "one", "two"), once="case-1")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(append, range(8)))
    found = kept(store)
    assert len(found) == 2 and len({run for run, _ in found}) == 1
    store.append(rows("late", "one", "two"), once="case-1")
    assert kept(store) == found
    store.append(rows("late", "one"), once="case-2")
    assert len(kept(store)) == 3


def test_without_such_a_name_all_rows_of_a_run_stay(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(rows("run", "one"))
    store.append(rows("run", "two"))
    assert kept(store) == [("run", "one"), ("run", "two")]
