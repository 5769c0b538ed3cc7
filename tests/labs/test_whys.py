"""Causes of refuted predictions: each step that the default view refutes has one, and no cause is of an unknown step."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from roofbook.analysis import predictions
from roofbook.analysis.publication import publication
from roofbook.analysis.readings import faster
from roofbook.analysis.recorded import RecordedData, recorded
from roofbook.analysis.store_devices import by_extent
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..recorded_labs import RECORDED


@pytest.fixture(scope="module")
def ranks() -> dict[str, int]:
    return by_extent(Store(project_root() / "results", ("recorded",)))


def refuted(data: RecordedData) -> Iterator[tuple[str, str]]:
    """Yield (step, case) of each prediction that measurements on a device refute."""
    for variant in data.lab.ladder:
        for case, prediction in predictions.of_step(data, variant).items():
            readings = data.on(case).readings
            reading, parent = readings[variant.name], readings.get(variant.parent or "")
            ratio = faster(parent, reading) if reading.ok else None
            if ratio and predictions.outcome(prediction, ratio) == "refuted":
                yield variant.name, case


@pytest.mark.parametrize("lab", RECORDED)
def test_each_step_that_the_default_view_refutes_says_why(lab: str, ranks: dict[str, int]) -> None:
    described = registry.get(lab)
    whys = publication(described).whys
    gpus = [
        data
        for data in recorded(described, Store(project_root() / "results", ("recorded",)))
        if data.store_device.kind == "gpu"
    ]
    first = max(gpus, key=lambda data: ranks[data.store_device.id])
    unexplained = [
        f"{step} on {case}"
        for step, case in refuted(first)
        if case not in predictions.whys_of_step(first, described.variant(step), whys)
    ]
    assert not unexplained, f"{lab}/whys.py says nothing of {', '.join(unexplained)} on {first.store_device}"


@pytest.mark.parametrize("lab", registry.names())
def test_a_cause_is_of_a_step_with_a_prediction_and_begins_within_a_sentence(lab: str) -> None:
    described = registry.get(lab)
    for step, causes in publication(described).whys.items():
        assert described.variant(step).predicts, step
        for scope, cause in causes.items():
            words = set(scope.split()) - {"gpu", "cpu", "cuda", "opencl", "small", "large"}
            assert words <= {case.name for scale in ("published", "large") for case in described.cases(scale)}, scope
            assert cause[0].islower() and not cause.endswith("."), step
