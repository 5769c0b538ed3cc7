"""Kernels of labs that wait are compiled ahead, in order; what cannot be is left to who measures."""

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
    """Labs, and how many kernels were to be compiled of each, in place of compiling them."""
    found: list[tuple[str, int]] = []

    def prebuild(lab: Any, cells: Sequence[Any], device: Any, seed: int, tell: Callable[[str], Any], **how: Any) -> int:
        assert how["meet"], "at test nobody waits"
        found.append((lab.name, len(cells)))
        return len(cells)

    monkeypatch.setattr(background_worker, "prebuild", prebuild)
    return found


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


def test_who_measures_waits_for_what_is_compiled_ahead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from roofbook.book.experiment import Experiment

    given = {"scale": "test", "results": str(tmp_path), "variants": ["checked"], "cases": ["5x13"]}
    experiment = Experiment("stencil", given)
    asked: list[str] = []
    monkeypatch.setattr(schedule, "prebuild", lambda lab, *_: asked.append(f"compile {lab.name}"))
    for waited in (True, False):

        def wait_for(lab: str, tell: Callable[[], Any], waited: bool = waited) -> bool:
            asked.append(f"wait {lab}")
            return waited

        monkeypatch.setattr(schedule, "wait_for", wait_for)
        schedule.bring_up_to_date(
            experiment.plan(), experiment.device, experiment.store, experiment.policy, remeasure=True
        )
    assert asked == ["wait stencil", "wait stencil", "compile stencil"]


def test_a_notebooks_kernels_are_compiled_while_its_peaks_are_measured(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By a group that nobody waits for with the peaks; not with peaks that are fresh, nor where a group is there already."""
    from roofbook.book import experiment as module

    began: list[Any] = []

    class Noted(background_jobs.BackgroundJobs):
        def __init__(self, *given: Any, **more: Any) -> None:
            began.append((*given[1:], more))
            super().__init__(*given, **more)

    monkeypatch.setattr(module, "BackgroundJobs", Noted)
    given = {"scale": "test", "results": str(tmp_path), "variants": ["checked"], "cases": ["5x13"], "budget_s": 1e-6}
    here = module.Experiment("stencil", given)
    here.measure()
    assert began == [({"stencil": here.parameters}, {"done": ["peaks"]})]
    module.Experiment("stencil", given | {"remeasure": True}).measure()
    assert len(began) == 1, "the peaks are fresh"
    with background_jobs.BackgroundJobs(here.root, {}):
        module.Experiment("stencil", given | {"results": str(tmp_path / "other")}).measure()
    assert len(began) == 1, "somebody compiles for all labs"


def test_who_wants_the_devices_waits_for_whoever_draws_them(tmp_path: Path) -> None:
    (tmp_path / "experiments").mkdir()
    said: list[str] = []
    with background_jobs.BackgroundJobs(tmp_path, {}, draw=True) as beside:
        assert beside.is_leader_alive()
        beside.wait_for_drawing(said.append)
        assert not beside.is_leader_alive() and said == ["Drawing the labs on the other recorded devices"]
        beside.wait_for_drawing(said.append)
    assert len(said) == 1, "nothing is left to wait for"


def test_drawing_meanwhile_draws_all_and_says_nothing_of_what_goes_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[tuple[Any, ...]] = []

    def draw(*given: Any, **named: Any) -> None:
        drawn.append((given, named))
        raise RuntimeError

    monkeypatch.setattr(render_recorded, "draw", draw)
    background_worker.draw_devices(tmp_path)
    assert drawn == [((tmp_path,), {})]
