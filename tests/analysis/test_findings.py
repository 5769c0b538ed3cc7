"""The answer to a lab's question: from the records of the default device, and none without measurements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.recorded import recorded
from roofbook.analysis.sentences import joined
from roofbook.analysis.store_devices import by_extent
from roofbook.book.experiment import Experiment
from roofbook.paths import project_root
from roofbook.spec import registry
from roofbook.store.parquet import Store

from ..recorded_labs import RECORDED


@pytest.mark.parametrize("lab", RECORDED)
def test_a_story_answers_its_question_from_records(lab: str) -> None:
    store = Store(project_root() / "results", ("recorded",))
    ranks = by_extent(store)
    first = max(recorded(registry.get(lab), store), key=lambda data: ranks[data.store_device.id])
    answer = publication(first.lab).finding(Measured(first))
    assert first.case().name in answer and "(not measured)" not in answer
    assert not answer.strip().endswith((",", ";", " ."))


@pytest.mark.parametrize("lab", registry.names())
def test_without_measurements_there_is_no_answer(lab: str, tmp_path: Any) -> None:
    page = Experiment(lab, {"scale": "test", "results": str(tmp_path)})
    assert "The answer" not in page.summary().data


def test_no_words_are_joined_to_none() -> None:
    assert (joined([]), joined(["a"]), joined(["a", "b", "c"])) == ("", "a", "a, b and c")


def test_lbms_answer_says_whether_the_fastest_kernel_is_past_the_memory_bound() -> None:
    finding = publication(registry.get("lbm")).finding
    times = {"partly-ported": 1e-3, "fused": 1e-4, "on-chip": 1e-6}

    def measured(fastest: str) -> Any:
        return cast(Any, SimpleNamespace(
            cases=[SimpleNamespace(name="big")], seconds=lambda name, case: times[name], memory_bound=lambda name, case: 1e-5,
            fastest=lambda case: fastest, way=lambda case: [], value=lambda name, case: "some time",
            share_of_bound=lambda name, case: (0.5, "float32"),
        ))  # fmt: skip

    assert "is the fastest: 50.0" in finding(measured("fused"))
    assert "is past that bound" in finding(measured("on-chip")) and "arithmetic is the limit" in finding(
        measured("on-chip")
    )
