"""Effects of techniques: which steps count for one, alone or with others, and in how many measurements they pay."""

from __future__ import annotations

from collections import Counter

from roofbook.analysis import technique_effects
from roofbook.analysis.technique_effects import devices_of, effects_by_step, tagged_steps
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.spec.techniques import TECHNIQUES
from roofbook.store.parquet import Store

from .technique_effects import BY_CUDA, BY_OPENCL, CPU, STEPS, effect


def test_a_step_counts_for_each_of_its_techniques_but_not_for_one_that_it_takes_away() -> None:
    by_key = {known.technique.key: known for known in technique_effects.technique_effects(STEPS)}
    assert list(by_key) == list(TECHNIQUES)
    staging, clusters = by_key["staging"], by_key["clusters"]
    assert [step.step.name for step in staging.steps] == [step.step.name for step in STEPS]
    assert [step.step.name for step in staging.adding] == ["local-tile", "tensor-columns"]
    assert [step.step.name for step in staging.alone] == ["local-tile"]
    assert staging.counts == Counter(slower=2, undecided=1, faster=1, same=1)
    assert [step.step.name for step in clusters.adding] == ["tensor-columns"] and not clusters.alone
    assert not by_key["fusion"].adding and by_key["layout"].steps == [STEPS[1]]
    assert [step.pays for step in STEPS] == [False, True, True, False]


def test_gpus_come_first_and_of_one_gpu_cuda() -> None:
    assert devices_of(STEPS) == [BY_CUDA, BY_OPENCL, CPU]


def test_recorded_effects_are_those_of_the_tables() -> None:
    """One lab's steps, of which `local-memory` changes nothing on any GPU, and a CPU pays for it."""
    lab = registry.get("stencil")
    steps = tagged_steps(lab, effects_by_step(lab, Store(project_root() / "results", ("recorded",))))
    assert [step.step.name for step in steps] == [
        step.name for step in lab.ladder if step.parent and step.role == "step"
    ]
    staged = next(step for step in steps if step.step.name == "local-memory")
    words = {kind: {e.ratio.word for e in staged.effects if e.device.kind == kind} for kind in ("gpu", "cpu")}
    assert words["gpu"] <= {"same", "undecided"} and words["cpu"] == {"slower"}
    assert {e.scale for e in staged.effects} == {"published", "large"}
    assert tagged_steps(lab, {"local-memory": [effect(CPU, (1, 1, 1))]})[0].effects == []
