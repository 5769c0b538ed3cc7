"""The answer to a lab's question: from the records of the default device, and none without measurements."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.conclusions import machine_note, probe_shares
from roofbook.analysis.format import THIN
from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.readings import Speedup
from roofbook.analysis.recorded import recorded
from roofbook.analysis.sentences import joined
from roofbook.analysis.store_devices import by_extent
from roofbook.book.experiment import Experiment
from roofbook.labs.lbm.publication import about_waits
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


@pytest.mark.parametrize("lab", RECORDED)
def test_the_fastest_of_a_kind_is_chosen_as_the_fastest_of_all(lab: str) -> None:
    for data in recorded(registry.get(lab), Store(project_root() / "results", ("recorded",))):
        measured = Measured(data)
        for case in data.cases:
            assert measured.fastest_by(lambda variant: "any", case.name) == {"any": measured.fastest(case.name)}
        assert measured.fastest_by(lambda variant: "", data.case().name) == {}


@pytest.mark.parametrize("lab", registry.names())
def test_without_measurements_there_is_no_answer(lab: str, tmp_path: Any) -> None:
    page = Experiment(lab, {"scale": "test", "results": str(tmp_path)})
    assert "The answer" not in page.summary().data


def measured_spreads(**spreads: tuple[float, int, int]) -> Any:
    """Return steps on a grid, each with seconds, runs and machines; the first is the fastest."""

    def ratio(name: str, reference: str, case: str) -> Speedup | None:
        if not {name, reference} <= set(spreads):
            return None
        factor = spreads[reference][0] / spreads[name][0]
        return Speedup(factor, factor, factor, "in one run" * (spreads[name][1] == 1))

    return cast(Any, SimpleNamespace(
        fastest=lambda case: next(iter(spreads)), near_fastest=lambda case: [*spreads],
        spread=lambda name, case: spreads[name][1:], seconds=lambda name, case: spreads.get(name, [None])[0],
        time_text=lambda name, case: f"{spreads[name][0]} s", ratio=ratio,
    ))  # fmt: skip


def test_a_fastest_step_of_fewer_machines_stands_beside_the_next_of_more() -> None:
    spreads = measured_spreads(a=(1, 3, 1), b=(1.1, 3, 1), c=(1.2, 10, 4), d=(1.3, 12, 5))
    assert machine_note(spreads, ["small", "big"]) == (
        "On small and big `a` has 3 runs on 1 and `c` 10 on 4 machines or GPUs. "
        "Other machines may reverse the order of two such steps."
    )
    assert machine_note(measured_spreads(a=(1, 3, 2), b=(1.1, 9, 2)), ["big"]) == ""


def test_probes_stand_beside_their_step_and_one_without_a_time_is_named() -> None:
    probes = {"no-waits": "without waits", "nothing": "without anything"}
    assert probe_shares(measured_spreads(step=(2.0, 3, 1)), "step", "big", probes) == ""
    assert probe_shares(measured_spreads(step=(2.0, 3, 1), nothing=(0.5, 3, 1)), "step", "big", probes) == (
        f"On big `step` takes 2.0 s. What remains of that time is "
        f"25.0{THIN}% without anything (`nothing`: 0.5 s). Not measured here: `no-waits`."
    )
    known = measured_spreads(**{"step": (2.0, 3, 1), "no-waits": (1.0, 1, 1), "nothing": (0.5, 3, 1)})
    assert probe_shares(known, "step", "big", probes) == (
        f"On big `step` takes 2.0 s. What remains of that time is 50.0{THIN}% without waits (`no-waits`: 1.0 s in one run) and "
        f"25.0{THIN}% without anything (`nothing`: 0.5 s)."
    )
    assert probe_shares(known, "other", "big", probes) == probe_shares(known, "step", "big", {}) == ""


def test_lbms_answer_says_how_much_of_a_time_is_no_waiting_and_what_that_leaves_to_gain() -> None:
    fast = {"a-step": (1.9, 3, 1), "deep-halo-ptx": (2.0, 3, 1)}
    assert about_waits(measured_spreads(**fast), ["big"]) == ""
    without_waits = about_waits(measured_spreads(**fast, **{"deep-halo-no-waits": (1.6, 3, 1)}), ["small", "big"])
    assert without_waits == (
        "How much of a step is waiting for neighbours? Without these waits a share of the time remains: "
        f"80.0{THIN}% on small and 80.0{THIN}% on big for `deep-halo-ptx` (`deep-halo-no-waits`). So if all words of "
        "neighbours were there in time, a step would be 1.25 times as fast at most: the rest is a group's own work."
    )
    both = measured_spreads(**fast, **{"deep-halo-no-waits": (1.6, 3, 1), "deep-halo-exchange": (1.0, 3, 1)})
    assert about_waits(both, ["small", "big"]).removeprefix(without_waits) == (
        f" Exchanges without any cell take 50.0{THIN}% on small and 50.0{THIN}% on big (`deep-halo-exchange`). Both probes "
        "send words and store sums, so their shares overlap."
    )


def test_no_words_are_joined_to_none() -> None:
    assert (joined([]), joined(["a"]), joined(["a", "b", "c"])) == ("", "a", "a, b and c")


def test_lbms_answer_says_whether_the_fastest_kernel_is_past_the_memory_bound() -> None:
    finding = publication(registry.get("lbm")).finding
    times = {"partly-ported": 1e-3, "fused": 1e-4, "on-chip": 1e-6}

    def measured(fastest: str) -> Any:
        return cast(Any, SimpleNamespace(
            cases=[SimpleNamespace(name="big")], seconds=lambda name, case: times.get(name),
            memory_bound=lambda name, case: 1e-5,
            fastest=lambda case: fastest, way=lambda case: [], time_text=lambda name, case: "some time",
            share_of_bound=lambda name, case: (0.5, "float32"), near_fastest=lambda case: [], spread=lambda name, case: (3, 1),
        ))  # fmt: skip

    assert "is the fastest: 50.0" in finding(measured("fused"))
    assert "is past that bound" in finding(measured("on-chip")) and "arithmetic is the limit" in finding(
        measured("on-chip")
    )
