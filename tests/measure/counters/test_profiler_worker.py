"""The process that ncu watches: it verifies a run first, then has only the timed part of one watched."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from roofbook.devices import cuda
from roofbook.measure import profiler_worker
from roofbook.spec.lab import Lab

from .made_up import MadeUp


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, profiler_worker.Watch]:
    """Return a device with a log of its calls, and the watch that its queue starts and stops."""
    log: list[str] = []
    watch = profiler_worker.Watch(lambda: log.append("start"), lambda: log.append("stop"))

    def laps(self: Any, *submits: Callable[[], None]) -> list[float]:
        return [0.5 for submit in submits if not submit()]

    def traced(self: Any, queues: Sequence[Any], submit: Callable[[], None]) -> list[Any]:
        submit()
        return []

    monkeypatch.setattr(cuda.Queue, "__init__", lambda self, index: None)
    monkeypatch.setattr(cuda.Queue, "laps", laps)
    monkeypatch.setattr(cuda.CudaDevice, "__init__", lambda self, index: setattr(self, "index", index))
    monkeypatch.setattr(cuda.CudaDevice, "traced", traced)
    device: Any = profiler_worker.WatchedDevice(3, watch)
    device.log = log
    return device, watch


def profile(
    name: str, watched: tuple[Any, profiler_worker.Watch], scratch: Path, lab: Lab | None = None
) -> dict[str, Any]:
    lab = lab or MadeUp()
    device, watch = watched
    return profiler_worker.run(lab, lab.variant(name), lab.case("small"), device, watch, seed=7, scratch=scratch)


def test_a_run_that_was_verified_is_watched_as_a_whole(watched: Any, tmp_path: Path) -> None:
    answer = profile("by-host", watched, tmp_path)
    assert json.loads(json.dumps(answer)) == {"units": 5, "error": 0, "tolerance": 0.1, "compared": "of x"}
    assert watched[0].log == ["plan", "reset", "run", "reset", "start", "run", "stop", "close"]


def test_with_a_device_clock_the_timed_part_is_watched_and_the_check_is_not(watched: Any, tmp_path: Path) -> None:
    profile("by-clock", watched, tmp_path)
    once = ["reset", "run"]
    assert watched[0].log == ["plan", *once, "kernel", *once, "start", "kernel", "stop", "close"]


def test_work_on_several_queues_is_watched(watched: Any) -> None:
    device, watch = watched
    device.traced([], lambda: device.log.append("unwatched"))
    with watch.run():
        device.traced([], lambda: device.log.append("kernels"))
        device.log.append("between")
    device.traced([], lambda: device.log.append("after"))
    assert device.log == ["unwatched", "start", "kernels", "stop", "between", "after"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("wrong", "wrong result: error 0.5, allowed 0.1 (of x)"),
        ("nan", "wrong result: error nan, allowed 0.1 (of x)"),
        ("refused", "not supported here: no tensor cores"),
    ],
)
def test_a_wrong_or_refused_variant_is_not_watched(watched: Any, tmp_path: Path, name: str, reason: str) -> None:
    assert profile(name, watched, tmp_path) == {"reason": reason}
    assert "start" not in watched[0].log and watched[0].log[-1] in ("close", "plan")


def test_an_error_of_no_known_kind_is_the_reason(watched: Any, tmp_path: Path) -> None:
    (reason,) = profile("defect", watched, tmp_path).values()
    assert reason.startswith("KeyError: ") and reason.endswith(")")


def test_a_reference_is_computed_once_for_all_variants(watched: Any, tmp_path: Path) -> None:
    lab = MadeUp()
    assert "reason" in profile("wrong", watched, tmp_path, lab)
    assert "reason" not in profile("by-host", watched, tmp_path, lab)
    assert lab.references == 1
    no_room = tmp_path / "gone"
    assert "reason" not in profile("by-host", watched, no_room, lab) and lab.references == 2
