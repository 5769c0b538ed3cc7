"""Tuning by the command: a row for each point at once, failed ones too; where it stopped it goes on; its answer is a set."""

from __future__ import annotations

import json
import re
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from roofbook.store.parquet import Store

from ..cli.commands import process
from ..conftest import Command

KNOBS = ("--knob", "LANES=1,4", "--knob", "VECTOR=float,float4")
TUNE = ("tune", "stencil", "float4", *KNOBS, "--scale", "test")
"""A search of four points; two of them load vectors of another length than they count, and fail."""


@pytest.fixture(scope="module")
def place(unmeasured: Callable[[], Path]) -> Path:
    return unmeasured()


def points(place: Path, results: str) -> pd.DataFrame:
    return Store(place / results / "tuning").rows("stencil")


def test_each_point_is_a_row_and_a_later_command_measures_none_again(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    code, out, err = command(*TUNE, "--results", "tuned")
    assert code == 0, err
    assert "4 of 4 points measured, 2 of them failed" in out and re.search(r"failed, as float4@\S+: ", out)
    rows = points(place, "tuned")
    assert sorted(rows["variant"]) == ["float4", "float4@LANES=1", "float4@LANES=1,VECTOR=float", "float4@VECTOR=float"]
    assert rows["reason"].notna().tolist() == (rows["status"] == "failed").tolist()
    assert {
        len(samples) for samples, status in zip(rows["samples_s"], rows["status"], strict=True) if status == "ok"
    } == {1}
    assert re.search(
        r"^float4(@\S+)?: [\d.]+\s\Ss per \w+, the\s+fastest(, within the\s+noise\s+of\s+one\s+other)?$", out, re.M
    )
    again = re.search(r"Again: `(roofbook rerun stencil float4 [^`]+)`", " ".join(out.split()))
    assert again and again[1].endswith(f"--results {place / 'tuned'}")
    measured = Store(place / "tuned").rows("stencil")
    assert set(measured["variant"]) == {"float4", "float4@LANES=1,VECTOR=float"} and measured["run"].nunique() == 1
    code, out, err = command(
        *TUNE, "--results", "tuned", "--strategy", "random", "--cache", "cache.json", "--t4", "t4.json"
    )
    assert code == 0 and "4 of 4 points measured, 4 of them before, 2 of them failed" in out
    assert len(points(place, "tuned")) == 4
    cache, t4 = (json.loads((place / name).read_text()) for name in ("cache.json", "t4.json"))
    assert list(cache["cache"]) == ["1,float", "1,float4", "4,float", "4,float4"] and len(t4["results"]) == 4
    assert all(entry["compile_time"] > 0 for entry in cache["cache"].values() if "times" in entry)
    arguments = [word for word in TUNE if word not in KNOBS]
    code, out, err = command(*arguments, "--results", "tuned", "--import", "t4.json")
    assert code == 0 and "4 of 4 points measured, 4 of them before" in out, err


@pytest.mark.thorough
def test_ctrl_c_keeps_what_was_measured_and_the_same_command_goes_on(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    arguments = (*TUNE, "--results", "stopped")
    run = process(*arguments, cwd=place)
    deadline = time.monotonic() + 500
    while not list(place.glob("stopped/tuning/local/*/*/*.parquet")) and time.monotonic() < deadline:
        time.sleep(0.01)
    run.send_signal(signal.SIGINT)
    _, err = run.communicate(timeout=500)
    assert run.returncode == 130
    assert err.strip() == "stopped; finished measurements are in the store, and the same command continues from there"
    before = points(place, "stopped")
    assert 1 <= len(before) < 4
    code, out, err = command(*arguments)
    assert code == 0 and f"4 of 4 points measured, {len(before)} of them before" in out, err
    after = points(place, "stopped")
    assert len(after) == 4 and set(before["run"]) < set(after["run"])


def test_without_time_left_only_stored_points_count(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(place)
    code, out, err = command(*TUNE, "--results", "never", "--minutes", "0")
    assert (code, out.split(";")[0]) == (1, "0 of 4 points measured, 0 of them failed")
    assert err.strip() == "error: no point of float4 is right on " + err.strip().partition(" on ")[2]
    assert not (place / "never" / "tuning").exists() or not len(points(place, "never"))


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--knob", "LANES"), "--knob LANES is no NAME=VALUE,VALUE"),
        (("--knob", "LANES=1,"), "is no NAME=VALUE,VALUE"),
        (("--knob", "LANES=1", "--knob", "LANES=2"), "names a knob twice"),
        (("--where", "LANES <="), "`LANES <=` is no restriction: invalid syntax"),
        (("--strategy", "best"), "unknown strategy 'best'"),
        (("--minutes", "-1"), "--minutes"),
    ],
)
def test_bad_input_is_one_line(
    place: Path, command: Command, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], reason: str
) -> None:
    monkeypatch.chdir(place)
    knobs = () if "--knob" in arguments else KNOBS
    code, _, err = command("tune", "stencil", "float4", *knobs, *arguments)
    assert code == 2 and reason in err and len(err.strip().splitlines()) == 1
