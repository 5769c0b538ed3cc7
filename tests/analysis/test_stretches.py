"""Stretches by column: what `roofbook history` lists, the same as one measurement at a time by its readings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from roofbook.analysis import history, readings
from roofbook.analysis.history import MACHINE, Change
from roofbook.analysis.stretches import Stretch, stretches
from roofbook.store import schema
from roofbook.store.file_check import NUMBER
from roofbook.store.parquet import Store
from roofbook.store.row_cache import FILE

from ..store.test_parquet import row as store_row
from .test_history import taken

RESULTS = Path(__file__).parents[2] / "results"
OTHER_GPU = {"gpu": {"uuid": "GPU-2", "driver": "550.1"}}


def as_table(rows: list[dict[str, Any]]) -> pa.Table:
    """Return rows as a table of the store has them."""
    files = pa.array(["file"] * len(rows))
    return schema.table(rows).append_column(FILE, files).append_column(NUMBER, pa.array(range(len(rows)), pa.int64()))


def by_readings(rows: Sequence[history.Row]) -> Iterator[tuple[readings.Reading, tuple[Change, ...], Any]]:
    """Yield reading, changes and ratio of each stretch of a measurement, computed from the readings of its runs."""
    before = None
    for version in history.versions(rows):
        groups: list[tuple[list[readings.Reading], tuple[Change, ...]]] = []
        for run, changed in (
            history.runs_with_changes(version.reading) if version.reading.ok else [(version.reading, ())]
        ):
            if changed or not groups:
                groups.append(([], changed if groups else version.changes))
            groups[-1][0].append(run)
        for runs, changed in groups:
            reading = readings.over_runs(runs[::-1]) if len(groups) > 1 else version.reading
            yield reading, changed, readings.faster(before, reading)
            before = reading if reading.ok else before


def assert_equal(by_measurement: list[list[Stretch]], rows: Sequence[history.Row]) -> None:
    """Check the stretches of all measurements among the rows against `by_readings`."""
    by_key = {history.key_of(of_measurement[0].oldest): of_measurement for of_measurement in by_measurement}
    expected = history.by_measurement(rows)
    assert by_key.keys() == expected.keys() and len(by_key) == len(by_measurement)
    for key, measurement_rows in expected.items():
        for stretch, (reading, changes, ratio) in zip(by_key[key], by_readings(measurement_rows), strict=True):
            assert stretch.oldest["run"] == history.first_run(reading).row["run"]
            assert (stretch.runs, stretch.reason, stretch.changes) == (len(reading.runs), reading.reason, changes)
            assert stretch.median == pytest.approx(reading.median, rel=1e-15, nan_ok=True)
            assert (stretch.ratio is None) == (ratio is None)
            if stretch.ratio and ratio:
                assert (stretch.ratio.how, stretch.ratio.word) == (ratio.how, ratio.word)
                numbers = [(r.estimate, r.low, r.high) for r in (stretch.ratio, ratio)]
                assert numbers[0] == pytest.approx(numbers[1], rel=1e-13)


def test_a_machine_that_takes_over_within_a_version_begins_a_stretch_of_its_own() -> None:
    """Whatever the rows' code, a time that moved with the card alone is a change, and its cause is the machine."""
    rows = [
        *(taken(day) for day in (1, 2, 3)),
        *(taken(day, 2e-3, facts=OTHER_GPU) for day in (4, 5, 6)),
        *(taken(day, cell_key="new") for day in (7, 8, 9)),
    ]
    (of_measurement,) = stretches(as_table(rows))
    first, second, third = of_measurement
    assert [stretch.runs for stretch in of_measurement] == [3, 3, 3]
    assert first.ratio is None and not first.changes
    assert second.ratio is not None and second.ratio.word == "slower" and not second.ratio.how.endswith("these runs")
    assert [(change.kind, change.text) for change in second.changes] == [(MACHINE, "another card: GPU-1 -> GPU-2")]
    assert third.ratio is not None and third.ratio.word == "faster", (
        "compared with the other card's, the last before it"
    )


def test_versions_of_one_run_are_compared_by_its_rounds() -> None:
    rows = [taken(1), taken(1, 1.02e-3, cell_key="new"), taken(2, facts=OTHER_GPU), taken(2, 1.02e-3, cell_key="new")]
    (of_measurement,) = stretches(as_table(rows))
    assert of_measurement[-1].ratio is not None and of_measurement[-1].ratio.runs > 0
    assert_equal([of_measurement], rows)


def test_samples_of_a_throttled_device_do_not_count() -> None:
    throttled = taken(2, 2e-3)
    throttled["samples_s"] = throttled["samples_s"][:10] + [sample * 3 for sample in throttled["samples_s"][10:]]
    throttled["sample_throttle"] = [""] * 10 + ["power cap, power brake"] * 10
    few = {**throttled, "run": "few", "cell_key": "few", "sample_throttle": [""] * 4 + ["power cap, power brake"] * 16}
    rows = [taken(1, 2e-3), throttled, few]
    by_measurement = list(stretches(as_table(rows)))
    assert_equal(by_measurement, rows)
    assert by_measurement[0][0].median == pytest.approx(2e-3, rel=0.05) and by_measurement[0][1].median > 3e-3


def test_rows_of_a_store_have_the_history_of_their_readings(tmp_path: Path) -> None:
    """A failed row without units, a control, a profile, another device, and a commit that alone differs are among them."""
    store = Store(tmp_path)
    measured: dict[str, Any] = {"units": 2, "error": 0.0, "bound": 1.0, "rounds": range(7)}
    facts = [{"cpu": "x", "threads_usable": 2, "machine": name, "load_1min": at} for at, name in enumerate("aab")]
    rows = [
        {**store_row(minute=at, run=f"r{at}", scale="quick", cell_key="new" if at > 3 else "old"), **measured}
        | {"samples_s": [(1 + at) * 1e-3 + at * 1e-5] * 7, "provenance": json.dumps(facts[at % 3])}
        for at in range(7)
    ]
    rows += [store_row(minute=9, run="r9", scale="quick", status="failed", reason="no memory")]
    rows += [{**rows[-2], "role": "again"}, {**rows[-2], "role": "profile", "extra": '{"tool": "t", "counters": {}}'}]
    rows += [{**rows[-4], "device": "other"}]
    store.append(rows)
    by_measurement = [of_measurement for table in store.by_device("lbm") for of_measurement in stretches(table)]
    assert_equal(by_measurement, readings.records(store.rows("lbm")))
    assert sorted(map(len, by_measurement)) == [1, 1, 7] and not list(stretches(store.table("lenet")))


def test_recorded_rows_have_the_history_of_their_readings() -> None:
    store = Store(RESULTS, ["recorded"])
    by_device = {table["device"][0].as_py(): table for table in store.by_device("cnn")}
    rows = readings.records(store.rows("cnn", device="nvidia-h200"))
    assert_equal(list(stretches(by_device["nvidia-h200"])), rows)
