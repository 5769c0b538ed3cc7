"""Background jobs: kernels of waiting labs are compiled early, in order; the others when they are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from roofbook.book import background_jobs, background_worker, render_recorded
from roofbook.measure import schedule
from roofbook.paths import project_root


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Replace compiling; return a list of the labs and the numbers of their kernels that were to be compiled."""
    lab_counts: list[tuple[str, int]] = []

    def prebuild(
        lab: Any, cells: Sequence[Any], device: Any, seed: int, tell: Callable[[str], Any], **options: Any
    ) -> int:
        assert options["from_last"], "no measurement waits at scale test"
        lab_counts.append((lab.name, len(cells)))
        return len(cells)

    monkeypatch.setattr(background_worker, "prebuild", prebuild)
    return lab_counts


def test_each_lab_has_a_file_once_it_is_compiled(tmp_path: Path, compiled: list[tuple[str, int]]) -> None:
    results = str(tmp_path / "results")
    labs: dict[str, dict[str, Any]] = {
        "stencil": {"scale": "test", "results": results, "variants": ["checked"], "cases": ["5x13"]},
        "no-lab": {"scale": "test", "results": results},
        "cnn": {"scale": "tset", "results": results},
        "lbm": {"scale": "test", "results": results, "variants": ["fused", "soa"]},
    }
    background_worker.compile_ahead(project_root(), labs, tmp_path)
    assert compiled == [("stencil", 1), ("lbm", 2)]
    assert {path.name for path in tmp_path.iterdir() if path.is_file()} == {"stencil", "lbm"}


def test_a_measurement_waits_for_kernels_that_a_background_job_compiles(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from roofbook.book.experiment import Experiment

    parameters = {"scale": "test", "results": str(tmp_path), "variants": ["checked"], "cases": ["5x13"]}
    experiment = Experiment("stencil", parameters)
    calls: list[str] = []
    monkeypatch.setattr(schedule, "prebuild", lambda lab, *_: calls.append(f"compile {lab.name}"))
    for was_compiled in (True, False):

        def wait_for(lab: str, tell: Callable[[], Any], waited: bool = was_compiled) -> bool:
            calls.append(f"wait {lab}")
            return waited

        monkeypatch.setattr(schedule, "wait_for", wait_for)
        schedule.bring_up_to_date(
            experiment.plan(), experiment.device, experiment.store, experiment.policy, remeasure=True
        )
    assert calls == ["wait stencil", "wait stencil", "compile stencil"]


def test_a_notebooks_kernels_are_compiled_while_its_peaks_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A background job compiles them, but not if the peaks are fresh or another background job is there already."""
    from roofbook.book import experiment as module

    started: list[Any] = []

    class NotedJobs(background_jobs.BackgroundJobs):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append((*arguments[1:], options))
            super().__init__(*arguments, **options)

    monkeypatch.setattr(module, "BackgroundJobs", NotedJobs)
    parameters = {
        "scale": "test",
        "results": str(tmp_path),
        "variants": ["checked"],
        "cases": ["5x13"],
        "budget_s": 1e-6,
    }
    experiment_here = module.Experiment("stencil", parameters)
    experiment_here.measure()
    assert started == [({"stencil": experiment_here.parameters}, {"done": ["peaks"]})]
    module.Experiment("stencil", parameters | {"remeasure": True}).measure()
    assert len(started) == 1, "the peaks are fresh"
    with background_jobs.BackgroundJobs(experiment_here.root, {}):
        module.Experiment("stencil", parameters | {"results": str(tmp_path / "other")}).measure()
    assert len(started) == 1, "the other job compiles for all labs"


def test_the_build_waits_for_the_background_job_that_draws_the_devices(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    messages: list[str] = []
    with background_jobs.BackgroundJobs(tmp_path, {}, draw=True) as jobs:
        assert jobs.is_leader_alive()
        jobs.wait_for_drawing(messages.append)
        assert not jobs.is_leader_alive() and messages == ["Drawing the labs on the other recorded devices"]
        jobs.wait_for_drawing(messages.append)
    assert len(messages) == 1, "nothing is left to wait for"


def test_drawing_in_the_background_draws_all_devices_and_hides_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[tuple[Any, ...]] = []

    def draw(*arguments: Any, **options: Any) -> None:
        calls.append((arguments, options))
        raise RuntimeError

    monkeypatch.setattr(render_recorded, "draw", draw)
    background_worker.draw_devices(tmp_path)
    assert calls == [((tmp_path,), {})]
