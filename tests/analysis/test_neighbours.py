"""Effect of a busy card next to the measured one: rows that count as idle or busy, and the table of both."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from roofbook.analysis.neighbours import idle_against_busy
from roofbook.book.fragments import neighbours
from roofbook.report.neighbours_table import neighbours_table
from roofbook.store.parquet import Store

IDLE, BUSY = {"before": [0.0], "after": [3.0]}, {"before": [97.0], "after": [100.0]}


def row(run: int, other_cards: dict[str, Any], seconds: float, card: str = "GPU-a", **fields: Any) -> dict[str, Any]:
    provenance = {"neighbours": other_cards, "gpu": {"uuid": card}, "git": {"commit": "c" * 40}}
    return {
        "run": f"r{run}", "started": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=run), "lab": "made",
        "variant": "one", "case": "a", "role": "step", "device": "card", "device_name": "Card", "device_kind": "gpu",
        "backend": "cuda", "policy": "{}", "cell_key": "k", "env_key": "e", "status": "ok", "units": 1, "error": 0.0,
        "bound": 1.0, "unit": "call", "timed": "kernels", "samples_s": list(seconds * np.linspace(0.999, 1.001, 9)),
        "rounds": list(range(9)), "provenance": json.dumps(provenance), **fields,
    }  # fmt: skip


def test_the_same_measurement_is_compared_beside_idle_cards_and_beside_busy_ones(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.append(
        [row(at, other_cards, 2e-6 if other_cards is BUSY else 1e-6) for at, other_cards in enumerate([IDLE, BUSY] * 3)]
    )
    (comparison,) = idle_against_busy(store)
    assert (len(comparison.idle.runs), len(comparison.busy.runs)) == (3, 3)
    assert comparison.lost and comparison.lost.estimate == pytest.approx(2, rel=0.01) and comparison.lost.runs == 0
    table = neighbours_table([comparison])
    assert "made a one" in table.text and "2.00" in table.text
    assert table.frame["ratio"].tolist() == [pytest.approx(2, rel=0.01)]


@pytest.mark.parametrize(
    ("other_cards", "fields"),
    [
        ({"before": [97.0], "after": [10.0]}, {}),  # for a part of the time
        ({"before": [20.0], "after": [20.0]}, {}),
        ({"before": [97.0, 0.0], "after": [0.0, 97.0]}, {}),  # one before, another after
        ({"before": [], "after": []}, {}),  # a card alone
        ({"before": [97.0], "after": []}, {}),
        (BUSY, {"card": "GPU-b"}),
        (BUSY, {"cell_key": "another"}),
        (BUSY, {"device_kind": "cpu"}),
        (BUSY, {"role": "profile"}),
        (BUSY, {"error": 2.0}),
        (BUSY, {"provenance": "{}"}),
    ],
)
def test_what_is_of_another_card_code_or_kind_or_is_neither_idle_nor_busy_does_not_count(
    tmp_path: Path, other_cards: dict[str, Any], fields: dict[str, Any]
) -> None:
    store = Store(tmp_path)
    store.append([row(0, IDLE, 1e-6), row(1, other_cards, 1e-6, **fields)])
    assert idle_against_busy(store) == []


def test_the_fragment_is_of_recorded_rows(tmp_path: Path) -> None:
    assert neighbours(tmp_path) == ""
    assert "Beside a busy one" in neighbours(Path(__file__).parents[2] / "results")
