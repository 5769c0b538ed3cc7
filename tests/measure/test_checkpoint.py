"""An interrupted case goes on where it was: its samples are put aside, and found again by cells that are the same."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from roofbook.devices import provenance
from roofbook.measure.checkpoint import Checkpoint
from roofbook.measure.measurement import Samples
from roofbook.store import schema

from .made_up import QUIET, Bench, made

FIRST, SECOND = "20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"


def of(folder: Path, *, resume: bool = True) -> Checkpoint:
    return Checkpoint.of_case(folder, "toy", "small", resume=resume)


def interrupted(bench: Bench, folder: Path, fails: str, **options: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        bench(
            made("a"), made("b", "a", fails={fails: KeyboardInterrupt()}),
            **{"run": FIRST, "checkpoint": of(folder), **options},
        )  # fmt: skip


def again(bench: Bench, folder: Path, *, resume: bool = True, **options: Any) -> Checkpoint:
    """Measure the interrupted variants again, now to the end, and return the checkpoint."""
    checkpoint = of(folder, resume=resume)
    bench(made("a"), made("b", "a"), **{"run": SECOND, "checkpoint": checkpoint, **options})
    return checkpoint


@pytest.fixture(autouse=True)
def same_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant that is interrupted differs from one that is not in its options alone: no part of its identity here."""
    monkeypatch.setattr("roofbook.spec.plan.Variant.fingerprint", lambda self: {"name": self.name})


@pytest.mark.parametrize("fails", ["timed run 3", "timed run 6", "timed run 13"])
def test_an_interrupted_case_goes_on_with_its_samples_and_in_its_run(bench: Bench, tmp_path: Path, fails: str) -> None:
    interrupted(bench, tmp_path, fails)
    assert bench.rows == []
    (file,) = tmp_path.iterdir()
    before = {key: record["samples"] for key, record in json.loads(file.read_text()).items()}
    taken = sum(map(len, before.values()))
    again(bench, tmp_path)
    warm_ups = 3
    assert len(bench.log.of("timed run")) == warm_ups + sum(len(row["samples_s"]) for row in bench.rows) - taken
    for row in bench.rows:
        earlier = before.get(f"{row['cell_key']} {row['env_key']} {row['role']}", [])
        assert row["samples_s"][: len(earlier)] == earlier and len(row["samples_s"]) in (11, 12), (
            "but for the round cut short"
        )
        assert row["rounds"] == sorted(set(row["rounds"])) and row["run"] == FIRST
        assert len(row["wall_s"]) == len(row["clock_mhz"]) == len(row["rounds"]) == len(row["samples_s"])
    assert list(tmp_path.iterdir()) == [], "what became rows is no longer kept aside"


@pytest.mark.parametrize("fails", ["timed run 2", "timed run 3", "timed run 4"])
def test_cells_of_few_samples_have_as_many_rounds_in_common_as_without_an_interrupt(
    bench: Bench, tmp_path: Path, fails: str
) -> None:
    few = replace(QUIET, budget_s=0.05)  # runs take 0.1 s: the least samples that a cell may have
    again(bench, tmp_path / "whole", policy=few)
    assert [row["rounds"] for row in bench.rows] == [[0, 1, 2]] * 3
    interrupted(bench, tmp_path, fails, policy=few)
    again(bench, tmp_path, policy=few)
    assert len(set.intersection(*(set(row["rounds"]) for row in bench.rows))) == 3


def test_a_cell_that_goes_on_is_not_held_against_the_limit_again(bench: Bench, tmp_path: Path) -> None:
    short = replace(QUIET, limit_s=0.05)  # runs take 0.1 s
    interrupted(bench, tmp_path, "timed run 13")
    again(bench, tmp_path, policy=short)
    assert [row["status"] for row in bench.rows] == ["ok"] * 3
    anew = tmp_path / "anew"
    again(bench, anew, policy=short)
    assert [row["status"] for row in bench.rows] == ["failed"] * 3


def test_a_half_written_sample_is_dropped(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, calls = provenance.Clocks.read, iter(range(1000))

    def interrupted_once(self: provenance.Clocks) -> dict[str, Any]:
        if next(calls) == 4:
            raise KeyboardInterrupt
        return read(self)

    monkeypatch.setattr(provenance.Clocks, "read", interrupted_once)
    interrupted(bench, tmp_path, "never")
    records = of(tmp_path).samples.values()
    assert sum(len(record["samples"]) for record in records) == 4
    assert all(len(record["samples"]) == len(record["walls"]) == len(record["rounds"]) for record in records)


def test_samples_are_put_aside_save_if_due_for_a_process_that_is_killed(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoint, "EVERY_S", 0.25)  # runs take 0.1 s
    seen: list[int] = []

    class Watched(Checkpoint):
        def write(self, begun: Mapping[str, Samples], done: Collection[str]) -> None:
            super().write(begun, done)
            seen.append(sum(len(taken["samples"]) for taken in of(tmp_path).samples.values()))

    bench(made("a"), made("b", "a"), run=FIRST, checkpoint=Watched.of_case(tmp_path, "toy", "small"))
    assert seen == [*range(1, 36, 3), 36, 0], (
        "after every third sample, before the last checks, nothing when all are rows"
    )


def test_samples_of_a_finished_measurement_stay_until_its_row_is_stored(bench: Bench, tmp_path: Path) -> None:
    def refuse(rows: Any) -> None:
        raise OSError("no space left on the device")

    with pytest.raises(OSError, match="no space"):
        bench(made("a"), made("b", "a"), run=FIRST, checkpoint=of(tmp_path), keep=refuse)
    again(bench, tmp_path)
    assert [len(row["samples_s"]) for row in bench.rows] == [12] * 3 and {row["run"] for row in bench.rows} == {FIRST}
    assert len(bench.log.of("timed run")) == 3, "they are warmed up, and no sample is taken"


def test_without_going_on_samples_are_taken_anew(bench: Bench, tmp_path: Path) -> None:
    interrupted(bench, tmp_path, "timed run 6")
    again(bench, tmp_path, resume=False)
    assert {row["run"] for row in bench.rows} == {SECOND} and list(tmp_path.iterdir()) == []
    assert len(bench.log.of("timed run")) == 3 + 3 * 12


def test_samples_of_another_code_or_machine_do_not_count_and_stay(bench: Bench, tmp_path: Path) -> None:
    interrupted(bench, tmp_path, "timed run 6")
    records = of(tmp_path).samples
    bench.device.name = "Made Up 2000"
    left = again(bench, tmp_path)
    assert {row["run"] for row in bench.rows} == {SECOND} and left.samples == records
    bench.device.name = "Made Up 1000"
    again(bench, tmp_path, policy=replace(QUIET, seed=QUIET.seed + 1))
    assert {row["run"] for row in bench.rows} == {SECOND} and len(bench.log.of("timed run")) == 3 + 3 * 12


def test_a_case_is_in_one_run_only(bench: Bench, tmp_path: Path) -> None:
    """Rounds pair samples of a run: those that were taken in two of them do not mix."""
    interrupted(bench, tmp_path, "timed run 6")
    checkpoint = of(tmp_path)
    first = min(checkpoint.samples)
    checkpoint.write({first: {**checkpoint.samples[first], "run": "20251231T000000Z-cccccc"}}, ())
    again(bench, tmp_path)
    assert {row["run"] for row in bench.rows} == {FIRST}
    assert len({row["rounds"][0] for row in bench.rows}) == 2, "it began in a later round than the others"


def test_samples_as_an_older_version_kept_them_do_not_count(bench: Bench, tmp_path: Path) -> None:
    interrupted(bench, tmp_path, "timed run 6")
    checkpoint = of(tmp_path)
    checkpoint.write({key: {"run": FIRST, "samples": [1.0]} for key in checkpoint.samples}, ())
    again(bench, tmp_path)
    assert {row["run"] for row in bench.rows} == {SECOND} and list(tmp_path.iterdir()) == []


WRONG: list[Any] = [None, "x", "../x", 3, -1, float("nan"), 10**400, [], [None], ["x"], {}, {"a": 1}, [{}], [1.0] * 99]


@pytest.mark.parametrize("name", ["", "run", "samples", "walls", "emptying", "parts", "rounds", "clocks", "started"])
def test_samples_that_were_edited_do_not_end_a_run(bench: Bench, tmp_path: Path, name: str) -> None:
    interrupted(bench, tmp_path, "timed run 6")
    (file,) = tmp_path.iterdir()
    stored = json.loads(file.read_text())
    key = min(stored)
    for wrong in WRONG:
        bench.rows.clear()
        file.write_text(json.dumps(stored | {key: stored[key] | {name: wrong} if name else wrong}))
        again(bench, tmp_path)
        assert [row["status"] for row in bench.rows] == ["ok"] * 3, wrong
        schema.table(bench.rows)
        for row in bench.rows:
            schema.check(row)
            assert len(row["samples_s"]) == len(row["wall_s"]) == len(row["rounds"]) > 0, wrong


@given(text=st.one_of(st.text(), st.sampled_from(["[]", "null", "1", '{"a": 1', "[1]", '[["a"]]'])))
def test_a_file_that_is_not_whole_is_no_loss(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    folder = tmp_path_factory.mktemp("unfinished")
    (folder / "toy.small.json").write_text(text, encoding="utf-8", errors="replace")
    checkpoint = of(folder)
    assert checkpoint.samples == {} or isinstance(json.loads(text), dict)
    checkpoint.write({"k": {"run": FIRST}}, ())
    assert of(folder).samples["k"] == {"run": FIRST}
    checkpoint.write({}, list(checkpoint.samples))
    assert os.listdir(folder) == []
