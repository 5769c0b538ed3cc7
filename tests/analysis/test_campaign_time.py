"""How long a sweep takes on many devices: from the rows of the store, and by the longest case."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.analysis.campaign_time import Cost, cost_of, forecast, makespan, measured_campaigns
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
    assert cost_of(store, "made", "nowhere", "cuda") == Cost({}, 0.0)


def test_the_start_of_a_process_is_from_the_runs_name_to_its_first_case(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for at, start in enumerate((4, 6, 0)):
        began = 100 * at
        run = f"{BEGAN + timedelta(seconds=began):%Y%m%dT%H%M%SZ}-abcdef"
        store.append([row("a", "one", run, began + start, began + start + 9)])
        store.append([row("b", "one", run, began + start + 10, began + start + 19)])
    assert cost_of(store, "made", "card", "cuda").start == pytest.approx(5.5)


pieces = st.lists(st.floats(0.1, 1e3), min_size=1, max_size=40)


@given(pieces, st.integers(1, 64))
def test_a_sweep_is_bounded_by_its_longest_case_and_by_all_work(seconds: list[float], devices: int) -> None:
    least = max(max(seconds), sum(seconds) / devices)
    assert least - 1e-6 <= makespan(seconds, devices) <= 4 / 3 * least + max(seconds)
    assert makespan(seconds, 1) == pytest.approx(sum(seconds))
    assert makespan(seconds, len(seconds)) == max(seconds)


def test_a_forecast_counts_every_run_and_the_start_of_each_case() -> None:
    costs = [(Cost({"long": 9.0, "short": 1.0}, 1.0), 2), (Cost({"other": 4.0}, 0.0), 3)]
    one, four, many = forecast(costs, [1, 4, 64])
    assert one.seconds == 2 * (10 + 2) + 3 * 4 and one.speedup == one.busy == 1
    assert many.seconds == 10 and many.speedup == pytest.approx(3.6) and many.busy == pytest.approx(3.6 / 64)
    assert four.seconds == 10


def test_the_table_of_the_page_has_each_number_of_devices_and_the_longest_case() -> None:
    from roofbook.report.campaign_table import DEVICES, forecast_table

    costs = {"A card": [("one", Cost({"a": 99.0, "b": 1.0}, 1.0), 1), ("two", Cost({"c": 50.0}, 0.0), 2)]}
    table = forecast_table(costs)
    assert list(table.frame["devices"]) == list(DEVICES) == [1, 2, 64, 1024]
    assert list(table.frame["seconds"]) == [202, 102, 100, 100]
    assert set(table.frame["longest_case"]) == {"one a"} and "one a, 99" in table.text


def test_a_store_without_a_gpu_has_no_table(tmp_path: Path) -> None:
    from roofbook.book.fragments import sweep_time

    assert sweep_time(tmp_path) == ""
    assert "H200" in sweep_time(Path(__file__).parents[2] / "results")


def campaign_rows(began: float, cards: dict[str, str], took: dict[str, tuple[float, float]]) -> list[dict[str, Any]]:
    """Return the rows of a campaign. cards: card by case. took: start and end by case, in seconds after the command's start."""
    run = f"{BEGAN + timedelta(seconds=began):%Y%m%dT%H%M%SZ}-{began:06.0f}"
    rows = []
    for case, card in cards.items():
        first, last = took[case]
        for variant in ("one", "two"):
            piece = row(case, variant, run, began + first, began + last, device_kind="gpu", device_name="A card")
            provenance = json.loads(piece["provenance"])
            piece["provenance"] = json.dumps(
                {**provenance, "gpu": {"uuid": card}, "git": {"commit": "c0ffee" * 6 + "cafe"}}
            )
            rows.append(piece)
    return rows


ONE, TWO = {"a": "x", "b": "x"}, {"a": "x", "b": "y"}
IN_TURN, AT_ONCE = {"a": (4.0, 14.0), "b": (15.0, 34.0)}, {"a": (4.0, 15.0), "b": (4.0, 25.0)}


def test_a_sweep_on_one_card_and_on_two_is_found_and_its_first_run_left_out(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for began, cards, took in (
        (0, TWO, {"a": (4.0, 90.0), "b": (4.0, 99.0)}),
        (100, ONE, IN_TURN), (200, TWO, AT_ONCE), (300, ONE, {"a": (4.0, 16.0), "b": (17.0, 40.0)}),
        (400, {"a": "z", "b": "z"}, IN_TURN),  # another host's card
        (500, {"a": "x"}, {"a": (4.0, 14.0)}),  # another sweep
    ):  # fmt: skip
        store.append(campaign_rows(began, cards, took))
    (campaign,) = measured_campaigns(store)
    assert (campaign.lab, campaign.cases, campaign.measurements) == ("made", 2, 4)
    assert campaign.seconds == {1: [34.0, 40.0], 2: [25.0]}
    cases = (14 + 16) / 2 - 4 + 0.5, (34 - 15 + 40 - 17) / 2 + 0.5
    assert campaign.modelled == {1: pytest.approx(sum(cases) + 2 * 3.5), 2: pytest.approx(max(cases) + 3.5)}


@pytest.mark.parametrize("kinds", [[ONE], [TWO], [ONE, ONE], [TWO, TWO], [ONE, TWO]])
def test_one_kind_of_sweep_is_no_comparison(tmp_path: Path, kinds: list[dict[str, str]]) -> None:
    store = Store(tmp_path)
    for at, cards in enumerate(kinds):
        store.append(campaign_rows(100 * at, cards, IN_TURN))
    assert measured_campaigns(store) == [], "of two runs of both kinds the first does not count"


def test_the_table_of_sweeps_has_a_line_for_each_number_of_cards(tmp_path: Path) -> None:
    from roofbook.report.campaign_table import campaigns_table

    store = Store(tmp_path)
    for at, cards in enumerate((TWO, ONE, TWO)):
        store.append(campaign_rows(100 * at, cards, IN_TURN if cards is ONE else AT_ONCE))
    table = campaigns_table(measured_campaigns(store))
    assert table.frame[["cards", "seconds", "speedup"]].values.tolist() == [[1, 34, 1], [2, 25, pytest.approx(34 / 25)]]
