"""Messages of a cluster's workers are checked before they are used: answers to orders, and progress."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from roofbook.book.campaign import check_answer
from roofbook.errors import Failed
from roofbook.measure import cluster, messages
from roofbook.measure.cluster import Job, WorkerPool

pytest.importorskip("distributed")

RUN = "20260101T000000Z-abcdef"
WHO = {
    "host": "one", "spec": "opencl:0", "slug": "cpu", "name": "CPU", "kind": "cpu", "card": None, "env_key": "e", "git": None,
}  # fmt: skip
MEASURE = {"do": "measure", "case": "small", "variants": ["a", "b"]}
KEPT = [["small", "a", "step", "ok", RUN], ["small", "b", "step", "failed", RUN], ["small", "a", "again", "ok", RUN]]


def test_rows_of_an_order_are_believed() -> None:
    check_answer(MEASURE, {"kept": KEPT})
    check_answer({"do": "worker_facts"}, WHO)
    check_answer({"do": "tables"}, {"texts": ["one\ntwo: 272\u202fGFLOP/s"]})
    cell = {"case": "small", "scale": "quick", "variant": "a", "state": "missing", "runs": 0, "key": "k"}
    stage = {"lab": "lbm", "policy": {"cache": "cold", "seed": 1}, "known": {"small": 2}, "seconds": {"small": 0.5}}
    check_answer({"do": "plan"}, {"title": "t", "device": "d", "stages": [{**stage, "cells": [cell]}]})


def without(field: str) -> dict[str, Any]:
    return {name: value for name, value in WHO.items() if name != field}


@pytest.mark.parametrize(
    ("order", "answer"),
    [
        (MEASURE, {"kept": KEPT * 1000}),
        (MEASURE, {"kept": [KEPT[0], KEPT[0]]}),
        (MEASURE, {"kept": [["other", *KEPT[0][1:]]]}),
        (MEASURE, {"kept": [["small", "c", "step", "ok", RUN]]}),
        (MEASURE, {"kept": [["small", "a", "step", "fine", RUN]]}),
        (MEASURE, {"kept": [["small", "a", "step", "ok", "../../etc"]]}),
        (MEASURE, {"kept": [["small", "a", "step", "ok", "\x1b[2J"]]}),
        (MEASURE, {"kept": [["small", ["a"], "step", "ok", RUN]]}),
        (MEASURE, {"kept": "2000000 measurements taken"}),
        (MEASURE, {"measured": 2_000_000}),
        (MEASURE, {"kept": KEPT, "more": 1}),
        ({"do": "worker_facts"}, without("card")),
        ({"do": "worker_facts"}, {**WHO, "name": "\x1b]0;x\x07"}),
        ({"do": "worker_facts"}, {**WHO, "kind": "fridge"}),
        ({"do": "worker_facts"}, {**WHO, "git": {"commit": "x"}}),
        ({"do": "specs"}, {"specs": [1]}),
        ({"do": "compile_ahead"}, {"compiled": True}),
        ({"do": "plan"}, {"title": "t", "device": "d", "stages": [{"lab": "x"}]}),
        ({"do": "tables"}, {"texts": ["\x1b[2J"]}),
    ],
)
def test_a_malformed_answer_to_an_order_is_refused(order: dict[str, Any], answer: dict[str, Any]) -> None:
    with pytest.raises(messages.BadMessage) as bad:
        check_answer(order, answer)
    assert str(bad.value).isprintable() and len(str(bad.value)) < 400


class Answered:
    """A future that has its result."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def done(self) -> bool:
        return True

    def result(self, timeout: float) -> Any:
        return self.answer

    def cancel(self) -> None:
        """Nothing runs."""


class Client:
    """A cluster whose workers answer at once: first their identity, then the answer that a test sets for each."""

    def __init__(self, answers: dict[str, Any]) -> None:
        self.answers, self.follow = answers, None

    def nthreads(self) -> dict[str, int]:
        return dict.fromkeys(self.answers, 1)

    def subscribe_topic(self, topic: str, handler: Callable[[Any], None]) -> None:
        self.follow = handler  # type: ignore[assignment]

    def submit(self, function: Any, order: Any, environment: Any, *, workers: list[str], **_: Any) -> Any:
        answer = {**WHO, "host": workers[0]} if order["do"] == "worker_facts" else self.answers[workers[0]]
        return Answered(answer)


@pytest.fixture
def crew(monkeypatch: pytest.MonkeyPatch) -> Callable[..., WorkerPool]:
    monkeypatch.setattr("distributed.wait", lambda *_, **__: None)
    monkeypatch.setattr(cluster, "POLL_S", 0.0)

    def make(answers: dict[str, Any], progress: list[tuple[str, str]] | None = None) -> WorkerPool:
        def tell(variant: str, stage: str) -> None:
            if progress is not None:
                progress.append((variant, stage))

        client: Any = Client(answers)
        return WorkerPool(client, {}, {"do": "worker_facts"}, lambda answer: "", tell, ours=True, check=check_answer)

    return make


def jobs(done: list[Any]) -> list[Job]:
    def killed(died: Any) -> Job | None:
        raise Failed(f"{len(died)} died")

    return [Job("small", lambda _: MEASURE, lambda place, answer: done.append((place.address, answer)), killed)]


@pytest.mark.parametrize(
    "hostile", [{"kept": KEPT * 1000}, "2000000 measurements taken", None.__class__, 7, {"error": 1}]
)
def test_a_worker_without_an_answer_is_dropped_and_another_one_does_its_job(
    crew: Callable[..., WorkerPool], hostile: Any
) -> None:
    done: list[Any] = []
    workers = crew({"hostile": hostile, "honest": {"kept": KEPT}})
    workers.run_jobs(jobs(done))
    assert done == [("honest", {"kept": KEPT})]
    assert "honest" not in workers.refused and set(workers.refused) <= {"hostile"}


def test_a_cluster_of_which_nobody_answers_ends(crew: Callable[..., WorkerPool]) -> None:
    with pytest.raises(Failed, match="2 died"):
        crew({"one": 7, "two": 8}).run_jobs(jobs([]))


def test_only_progress_messages_are_shown(crew: Callable[..., WorkerPool]) -> None:
    progress: list[tuple[str, str]] = []
    workers = crew({}, progress)
    follow: Any = workers.client.follow  # type: ignore[attr-defined]
    for event in (
        ("t", {"variant": "a", "what": "sample \x1b[2J"}),
        ("t", {"variant": 1, "what": "x"}),
        "x",
        ("t", None),
    ):
        follow(event)
    assert progress == [("a", "sample [2J")]
