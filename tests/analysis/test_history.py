"""History of a measurement: its versions, and the changes of code, driver, machine and time between them."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

from roofbook.analysis import history
from roofbook.analysis.history import CODE, DRIVER, MACHINE

from ..report.rows import row

PROVENANCE = {
    "environment": {"device": {"driver": "550"}, "libraries": {"numpy": "2.0"}},
    "machine": "aaaa",
    "cpu": "Some CPU",
    "gpu": {"uuid": "GPU-1", "driver": "550.1", "power_limit_w": 700.0},
    "git": {"commit": "c" * 40, "dirty": False},
}
"""Provenance of a row."""


def taken(day: int, seconds: float = 1e-3, **fields: Any) -> dict[str, Any]:
    """Return a row of a day of January."""
    provenance = PROVENANCE | fields.pop("facts", {})
    columns = {
        "cell_key": "cell",
        "env_key": "environment",
        "source_sha256": "source",
        "provenance": json.dumps(provenance),
    }
    when = {"run": f"2026010{day}T000000Z-aaaaaa", "started": pd.Timestamp(f"2026-01-0{day}T10:00:00Z")}
    return row(fields.pop("variant", "fused"), seconds, **(columns | when | fields))


def test_runs_of_one_code_are_one_version_whatever_their_order() -> None:
    rows = [taken(3), taken(1), taken(2)]
    (measurement_rows,) = history.by_measurement(rows).values()
    (only,) = history.versions(measurement_rows)
    assert [run.row["started"].day for run, _ in history.runs_with_changes(only.reading)] == [1, 2, 3]
    assert only.ratio is None and not only.changes and not only.changed
    assert history.change_sentence([only]).startswith("Unchanged code in 3 runs, by 1 commit: the longest median is ")
    (alone,) = history.versions([taken(1)])
    assert (
        history.change_sentence([alone])
        == "It was measured in one run: nothing tells yet whether another would differ."
    )


def test_each_run_has_its_own_median_and_the_version_that_over_all() -> None:
    (version,) = history.versions([taken(1, 1e-3), taken(2, 2e-3), taken(3, 3e-3)])
    medians = [reading.median for reading, _ in history.runs_with_changes(version.reading)]
    assert medians == pytest.approx(
        [medians[0], 2 * medians[0], 3 * medians[0]]
    ) and version.reading.median == pytest.approx(medians[1])
    assert version.spread == pytest.approx(3)


@pytest.mark.parametrize(
    ("fields", "kind", "text"),
    [
        ({"cell_key": "new", "source_sha256": "new"}, CODE, "the kernel's source changed"),
        ({"cell_key": "new"}, CODE, "its plan, its options or the host's code changed"),
        ({"cell_key": "new", "units": 50}, CODE, "a sample repeats it 50 times, no longer 100"),
        ({"cell_key": "new", "policy": '{"cache": "warm"}'}, CODE, "cache of the protocol changed: cold -> warm"),
        (
            {"cell_key": "new", "extra": '{"lbmpy": "2.0", "source": "clothes", "wgsl_sha256": "w"}'},
            CODE,
            "perhaps its translation to WGSL changed: the earlier row does not name its WGSL",
        ),
        ({"timed": "kernel"}, CODE, "what is timed changed: loop -> kernel"),
        (
            {"env_key": "new", "facts": {"environment": {"device": {"driver": "560"}, "libraries": {"numpy": "2.0"}}}},
            DRIVER,
            "the driver changed: 550 -> 560",
        ),
        ({"extra": '{"lbmpy": "2.1"}'}, DRIVER, "another version of a library, lbmpy: 2.0 -> 2.1"),
        ({"extra": '{"lbmpy": "2.0", "source": "digits"}'}, DRIVER, "other images, source: clothes -> digits"),
    ],
)
def test_what_changed_between_two_versions_is_named(fields: dict[str, Any], kind: str, text: str) -> None:
    cold: dict[str, Any] = {"policy": '{"cache": "cold"}', "extra": '{"lbmpy": "2.0", "source": "clothes"}'}
    before, after = history.versions([taken(1, 1e-3, **cold), taken(2, 2e-3, **cold | fields)])
    assert not before.changes and [(change.kind, change.text) for change in after.changes] == [(kind, text)]
    assert after.changed and after.ratio is not None and after.ratio.word == "slower"
    assert after.ratio.estimate == pytest.approx(1 / (2 * 100 / after.reading.units), rel=0.02)
    sentence = "2 versions in 2 runs, by 1 commit: its time changed once in these runs; others may differ by more."
    assert history.change_sentence([before, after]) == sentence


def test_another_translation_to_wgsl_is_named() -> None:
    was, now = (f'{{"wgsl_sha256": "{word}"}}' for word in ("old", "new"))
    _, after = history.versions([taken(1, cell_key="old", extra=was), taken(2, cell_key="new", extra=now)])
    assert [change.text for change in after.changes] == ["its translation to WGSL changed"]


def test_all_that_changed_between_two_versions_is_named_and_what_is_not_known_too() -> None:
    device = {"backend": "opencl"}
    libraries = {"numpy": "2.0", "pocl-binary-distribution": "5"}
    was = {"environment": {"device": device, "libraries": libraries, "python": "3.11"}, "gpu": None, "machine": None}
    now = {"environment": {"device": device, "libraries": {"numpy": "2.1"}, "python": "3.12"}}
    _, after = history.versions([taken(1, facts=was), taken(2, facts=now, env_key="new")])
    assert [change.text for change in after.changes] == [
        "the numpy changed: 2.0 -> 2.1",
        "the python changed: 3.11 -> 3.12",
        "perhaps another card: the earlier row does not say which it is of",
    ], "the distribution of PoCL counts for no device"


@pytest.mark.parametrize(
    ("facts", "kind", "text"),
    [
        ({"machine": "bbbb"}, MACHINE, "another machine: aaaa -> bbbb"),
        ({"gpu": {"uuid": "GPU-2", "driver": "550.1"}}, MACHINE, "another card: GPU-1 -> GPU-2"),
        ({"gpu": {"power_limit_w": 350.0}}, MACHINE, "another power limit, W: 700.0 -> 350.0"),
        ({"gpu": {"driver": "560.2"}}, DRIVER, "the GPU's driver changed: 550.1 -> 560.2"),
        ({"machine": None, "gpu": None}, "", ""),
        ({}, "", ""),
    ],
)
def test_what_differs_between_runs_of_one_version_is_named(facts: dict[str, Any], kind: str, text: str) -> None:
    """A fact that only one of both rows records is no change."""
    (version,) = history.versions([taken(1), taken(2, facts=facts)])
    first, second = history.runs_with_changes(version.reading)
    assert not first[1] and [(change.kind, change.text) for change in second[1]] == [(kind, text)] * bool(kind)


def test_a_change_of_three_runs_on_each_side_holds_in_others_too() -> None:
    old = [taken(day, 2e-3, cell_key="old") for day in (1, 2, 3)]
    versions = history.versions([*old, *(taken(day, 1e-3) for day in (4, 5, 6))])
    assert (
        versions[1].changed
        and history.change_sentence(versions) == "2 versions in 6 runs, by 1 commit: its time changed once."
    )


def test_noise_is_no_change_and_a_failure_has_no_time() -> None:
    versions = history.versions([taken(1, 1e-3), taken(2, 1.001e-3, cell_key="new")])
    assert not versions[1].changed and history.change_sentence(versions).endswith(
        "its time did not change beyond the noise."
    )
    failed = history.versions([taken(1), taken(2, cell_key="new", status="failed", reason="out of memory")])
    assert (
        failed[1].ratio is None
        and history.change_sentence(failed) == "It has no time: out of memory. It had one before."
    )
    again = history.versions(
        [taken(1, 1e-3), taken(2, cell_key="b", status="failed", reason="no"), taken(3, 2e-3, cell_key="c")]
    )
    assert again[2].changed, "compared with the last version that has a time"


def test_other_cases_scales_devices_controls_and_profiles_are_apart() -> None:
    apart: list[dict[str, Any]] = [
        {"case": "x"},
        {"scale": "large"},
        {"device": "other"},
        {"backend": "cuda"},
        {"role": "again"},
    ]
    rows_by_key = history.by_measurement(
        [taken(1), *(taken(1, **fields) for fields in apart), taken(2, role="profile")]
    )
    assert len(rows_by_key) == 1 + len(apart) and all(len(key_rows) == 1 for key_rows in rows_by_key.values())


def test_the_reading_of_the_tables_is_the_last_version() -> None:
    rows = [taken(1, 2e-3, cell_key="old"), taken(2, 1e-3), taken(3, 1.1e-3)]
    (measurement_rows,) = history.by_measurement(rows).values()
    reading = history.versions(measurement_rows)[-1].reading
    versions = history.versions(measurement_rows, reading)
    assert (
        versions[-1].reading is reading
        and len(versions) == 2
        and versions[1].ratio == history.versions(measurement_rows)[1].ratio
    )
