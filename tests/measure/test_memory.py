"""Variants that do not fit into memory together with others are measured after them, in rounds of their own."""

from __future__ import annotations

import gc
import json
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices.contract import OutOfMemory
from roofbook.measure import verify
from roofbook.measure.case_run import measure_case
from roofbook.measure.checkpoint import Checkpoint, checkpoint_key
from roofbook.measure.placement import Setting
from roofbook.measure.verify import DeviceLost
from roofbook.spec.plan import Case, Variant

from .made_up import CASE, QUIET, Bench, Made, made

FIRST, SECOND = "20260101T000000Z-aaaaaa", "20260102T000000Z-bbbbbb"


@pytest.fixture(autouse=True)
def same_variant(monkeypatch: pytest.MonkeyPatch) -> None:
    """A variant that is interrupted differs from one that is not in its options alone: no part of its identity here."""
    monkeypatch.setattr("roofbook.spec.plan.Variant.fingerprint", lambda self: {"name": self.name})


def kept(folder: Path, rows: Sequence[Mapping[str, Any]] = ()) -> Checkpoint:
    """Return the checkpoint of a folder whose store has these rows of the first run."""
    checkpoint = Checkpoint.of_case(folder, "toy", "small")
    checkpoint.finished = {
        FIRST: {
            checkpoint_key(row["cell_key"], row["env_key"], row["role"]): max(row["rounds"], default=-1) for row in rows
        }
    }
    return checkpoint


def point(name: str, **options: Any) -> Variant:
    """A variant that no control comes with."""
    return made(name, role="sweep", **options)


def test_a_variant_that_does_not_fit_with_others_is_timed_later_in_its_own_rounds(bench: Bench) -> None:
    bench(made("a", holds=0.25), *(made(name, "a", holds=0.25) for name in "bcdef"))
    assert {row["status"] for row in bench.rows} == {"ok"} and len(bench.rows) == 7
    assert bench.log.of("no room"), "seven do not fit"
    by_round = Counter(number for row in bench.rows for number in row["rounds"])
    assert by_round == dict.fromkeys(range(12), 4) | dict.fromkeys(range(12, 24), 3)
    assert all(len(row["rounds"]) == 12 and max(row["rounds"]) - min(row["rounds"]) == 11 for row in bench.rows)
    assert all({"before", "after"} <= json.loads(row["extra"])["checks"].keys() for row in bench.rows)
    assert bench.device.room == 1, "all of it is given back"


@pytest.mark.parametrize("stage", ["trial plan", "trial run", "timed reset"])
def test_a_variant_too_large_for_the_device_separates_no_others(bench: Bench, stage: str) -> None:
    never: dict[str, Any] = {"holds": 2} if stage == "trial plan" else {"fails": {stage: MemoryError("no room")}}
    bench(made("a", holds=0.25), made("b", "a", **never), made("c", "a", holds=0.25))
    assert bench.row("b")["reason"].startswith("out of memory: ") and bench.row("b")["rounds"] == []
    assert {tuple(row["rounds"]) for row in bench.rows if row["variant"] != "b"} == {tuple(range(12))}
    assert bench.device.room == 1


@pytest.mark.parametrize("grows", [1, 2, 4])
def test_a_variant_that_runs_out_of_memory_with_others_is_timed_after_them(bench: Bench, grows: int) -> None:
    """For example, a kernel takes memory in each run while a library keeps its own."""
    bench(
        made("a", holds=0.25), made("b", "a", holds=0.25, grows=(grows, 0.5)), made("c", "a", holds=0.25),
        made("d", "a", grows=(1, 2)),
    )  # fmt: skip
    assert bench.log.of("no room") and bench.row("d")["reason"] == "out of memory: more than is left"
    rounds = {row["variant"]: row["rounds"] for row in bench.rows}
    assert rounds["a"] == rounds["c"] == list(range(12)) and len(rounds["b"]) == 12 and rounds["d"] == []
    assert rounds["b"] == list(range(12, 24)), "a few samples beside the others would be all that is compared"
    assert bench.device.room == 1


@pytest.mark.parametrize("stops", ["timed run 5", "timed run 13"])
@pytest.mark.parametrize("again", range(3))
def test_an_interrupt_of_a_later_group_costs_no_samples_or_rounds(
    bench: Bench, tmp_path: Path, stops: str, again: int
) -> None:
    """`again`: in which order they come is drawn."""

    def ladder(**options: Any) -> list[Variant]:
        later = point("b", holds=0.25, grows=(1, 0.5), **options)
        return [point("a", holds=0.5), later, point("c", holds=0.1, grows=(1, 0.6))]

    with pytest.raises(KeyboardInterrupt):
        bench(*ladder(fails={stops: KeyboardInterrupt()}), run=FIRST, checkpoint=kept(tmp_path))
    first = bench.rows
    bench(*ladder(), run=SECOND, checkpoint=kept(tmp_path, first))
    rows = {row["variant"]: row["rounds"] for row in (*first, *bench.rows)}
    assert rows.keys() == set("abc") and len(first) + len(bench.rows) == 3
    assert all(len(rounds) in (11, 12) for rounds in rows.values()), "but for the round cut short"
    assert not set(rows["a"]) & {*rows["b"], *rows["c"]} and (first[0]["variant"] != "a" or rows["a"][0] == 0)


def test_an_interrupt_before_the_later_group_is_ready_costs_no_samples(bench: Bench, tmp_path: Path) -> None:
    def ladder() -> list[Variant]:
        return [point("a", holds=0.5), point("b", holds=0.25, grows=(4, 0.5))]

    stages, first = list[str](), list[dict[str, Any]]()

    def stop(variant: str, stage: str) -> None:
        stages.append(stage)
        if (
            variant == "b"
            and stage.startswith("check, ")
            and any(earlier_stage.startswith("sample") for earlier_stage in stages)
        ):
            raise KeyboardInterrupt

    bench.lab.ladder = tuple(ladder())
    with pytest.raises(KeyboardInterrupt):
        measure_case(
            Setting(bench.lab, CASE, bench.device, QUIET), ladder(), run=FIRST, keep=first.extend, progress=stop,
            checkpoint=kept(tmp_path),
        )  # fmt: skip
    assert [row["variant"] for row in first] == ["a"]
    bench(*ladder(), run=SECOND, checkpoint=kept(tmp_path, first))
    assert bench.row("b", "sweep")["status"] == "ok" and len(bench.row("b", "sweep")["rounds"]) == 12
    times_taken = Counter((row["run"], number) for row in (*first, *bench.rows) for number in row["rounds"])
    assert max(times_taken.values()) == 1, "none of them were taken side by side"


def test_an_interrupt_fails_no_waiting_variant(bench: Bench, tmp_path: Path) -> None:
    interrupted = point("a", holds=0.5, fails={"timed run 8": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        bench(interrupted, point("b", holds=0.25, grows=(4, 0.5)), run=FIRST, checkpoint=kept(tmp_path))
    assert bench.rows == []
    (file,) = tmp_path.iterdir()
    assert [len(variant_samples["samples"]) for variant_samples in json.loads(file.read_text()).values()] == [6], (
        "those of a"
    )


def test_a_lost_device_fails_no_waiting_variant(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def dead(array: Any) -> Any:
        raise RuntimeError("dead")

    lost = type("LogicError", (Exception,), {"__module__": "pyopencl"})("lost")
    monkeypatch.setattr(bench.device, "upload", dead, raising=False)
    with pytest.raises(DeviceLost):
        bench(point("a", holds=0.5, fails={"timed run 8": lost}), point("b", holds=0.25, grows=(4, 0.5)))
    assert [row["variant"] for row in bench.rows] == ["a"]


def test_the_last_check_waits_for_memory_too(bench: Bench) -> None:
    class Copies(Made):
        def outputs(self) -> Any:
            if self.timed:
                self.hold(0.5)
                self.hold(-0.5)
            return super().outputs()

    bench(point("a", holds=0.6), replace(point("b", holds=0.1), plan=Copies))
    assert bench.log.of("no room") == ["b"] * len(bench.log.of("no room"))
    assert {row["variant"]: (row["status"], len(row["rounds"])) for row in bench.rows} == {
        "a": ("ok", 12), "b": ("ok", 12),
    }  # fmt: skip


def test_a_failed_variant_holds_no_memory(bench: Bench) -> None:
    """A failed variant must free its memory, or other variants that need it would fail for good."""
    failed = point("a", holds=0.6, seconds=[2000.0], fails={"timed facts": ValueError("x")})
    bench(failed, point("b", holds=0.1, grows=(8, 0.5)), policy=replace(QUIET, limit_s=1e9))
    assert bench.row("a", "sweep")["status"] == "failed" and bench.row("b", "sweep")["status"] == "ok"


def test_memory_that_a_driver_lacks_at_a_launch_is_waited_for(bench: Bench) -> None:
    class Launches(Made):
        def run(self) -> float | None:
            if self.timed and self.device.room < 0.5:
                raise type("MemoryError", (Exception,), {"__module__": "pyopencl._cl"})("clFinish failed")
            return super().run()

    bench.device.upload = lambda array: bench.device.empty(array.nbytes)  # type: ignore[method-assign]
    bench(point("a", holds=0.6), replace(point("b", holds=0.1), plan=Launches))
    assert {row["variant"]: row["status"] for row in bench.rows} == {"a": "ok", "b": "ok"}


@pytest.mark.parametrize("stage", ["trial", "timed"])
def test_an_error_keeps_nothing_of_the_run_that_it_ended(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """An error must not keep the run alive, as PyTorch's errors keep tensors until Python collects cycles."""

    class Tensor:
        pass

    alive: list[weakref.ref[Tensor]] = []

    class Circle(Made):
        def run(self) -> float | None:
            if self.timed == (stage == "timed") and self.device.room < 0.5:
                tensor, error = Tensor(), OutOfMemory("64 bytes asked for")
                alive.append(weakref.ref(tensor))
                raise error
            return super().run()

    begun, released = verify.References.before, list[bool]()

    def before(self: verify.References, case: Case, variant: Variant) -> Any:
        released.extend(reference() is None for reference in alive)
        return begun(self, case, variant)

    monkeypatch.setattr(verify.References, "before", before)
    gc.disable()
    try:
        bench(point("a", holds=0.6), replace(point("b"), plan=Circle), replace(point("c"), plan=Circle))
    finally:
        gc.enable()
    assert released and all(released) and {row["status"] for row in bench.rows} == {"ok"}


def test_errors_that_name_each_other_as_their_cause_end(bench: Bench) -> None:
    first, second = OutOfMemory("64 bytes asked for"), ValueError("because")
    first.__cause__, second.__cause__ = second, first
    bench(point("a"), point("b", fails={"timed run 3": first}))
    assert bench.row("b", "sweep")["reason"] == "out of memory: 64 bytes asked for"
