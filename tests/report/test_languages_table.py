"""Kernels in today's languages: each beside the best step like it and the step of its method, and none as a library."""

import re
from types import SimpleNamespace
from typing import Any

import pytest

from roofbook.analysis import kernel_languages
from roofbook.analysis.case_data import CaseData
from roofbook.analysis.kernel_languages import Comparison, comparisons
from roofbook.analysis.publication import publication
from roofbook.analysis.store_devices import StoreDevice
from roofbook.report.languages_table import languages, same_launches
from roofbook.spec import registry

from .inspection import line
from .rows import frame, row, row_with_facts

DEVICE = StoreDevice("some-gpu", "cuda", "Some GPU", "gpu")
FACTS = {"lines": 47, "import s": 0.5, "compile s": 0.25, "first result s": 0.8}


def data() -> CaseData:
    rows = frame(
        row("graph", 3e-6), row("deep-halo-pause", 1e-6, "graph"), row("lbmpy", 4e-6, role="peer"),
        row("early-launch", 1.6e-6, "graph"), row("half-storage-graph", 1.5e-6, "graph"),
        row_with_facts("triton-steps", 2e-6, parent="graph", role="dsl", facts=FACTS),
        row("numba-steps", 1e-9, "graph", role="dsl", error=2e-6),
    )  # fmt: skip
    order = ["graph", "early-launch", "half-storage-graph", "deep-halo-pause", "lbmpy", "triton-steps", "numba-steps"]
    return CaseData(rows, order, "256x256", peers=["lbmpy"])


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Comparison]:
    """Return the comparisons of a store whose only lab with such kernels is lbm."""
    case = registry.get("lbm").case("256x256", "published")
    record: Any = SimpleNamespace(store_device=DEVICE, cases=[case], on=lambda _: data())
    store: Any = SimpleNamespace(rows=lambda name, **_: [name] * (name == "lbm"))
    monkeypatch.setattr(kernel_languages, "recorded", lambda lab, _, scale: [record] * (scale == "published"))
    ((device, found),) = comparisons(store).items()
    assert device == DEVICE
    return found


def test_a_verified_kernel_is_compared_with_the_best_step_and_with_that_of_its_method(
    compared: list[Comparison],
) -> None:
    (comparison,) = compared
    assert comparison.kernel.variant == "triton-steps", "what is wrong has no line"
    assert comparison.step and comparison.step.variant == "deep-halo-pause"
    assert comparison.parent and comparison.parent.variant == "graph"
    first, second = comparison.ratio(), comparison.ratio_to_parent()
    assert first and first.estimate == pytest.approx(0.5, rel=0.02)
    assert second and second.estimate == pytest.approx(1.5, rel=0.02)
    assert comparison.card.startswith("lbm/some-gpu.cuda#triton-steps")


def test_the_table_has_times_lines_and_the_way_to_the_first_result(compared: list[Comparison]) -> None:
    table = languages("Some GPU, CUDA", compared)
    (record,) = table.frame.to_dict("records")
    assert record["seconds"] == pytest.approx(2e-6, rel=0.06) and record["lines"] == 47
    assert record["step_lines"] > 4 * record["lines"] and record["compile_s"] == 0.25
    assert "per step" in line(table, "triton-steps")
    assert re.search(r"<small>[^<]*deep-halo-pause</small>.*<small>[^<]*graph</small>", line(table, "triton-steps"))
    assert (record["step"], record["parent"]) == ("deep-halo-pause", "graph")
    assert "In 1 row, the kernel farthest from the best step like it has 0.5" in " ".join(table.notes)


def test_a_note_names_the_fastest_step_that_launches_as_a_kernel_does(compared: list[Comparison]) -> None:
    (comparison,) = compared
    assert comparison.alike and comparison.alike.variant == "early-launch"
    (sentence,) = same_launches(compared)
    assert re.fullmatch(
        r"The fastest steps that launch as triton-steps does, compared with it: early-launch is 1\.[23]\d* times as fast on "
        r"256x256\.",
        sentence,
    )
    assert sentence in languages("Some GPU, CUDA", compared).notes
    assert same_launches([comparison._replace(alike=None)]) == []


def test_steps_that_launch_as_a_kernel_does_are_of_its_precision_and_in_a_graph() -> None:
    for name in registry.names_of_site():
        lab = registry.get(name)
        for kernel, steps in publication(lab).same_launches.items():
            assert lab.variant(kernel).role == "dsl" and lab.variant(kernel).parent not in steps
            for step in map(lab.variant, steps):
                assert step.role == "step" and "graphs" in step.needs & lab.variant(kernel).needs, step.name
                assert (step.dtype, lab.conditions(step)) == (lab.variant(kernel).dtype, ()), step.name


def test_a_kernel_in_another_language_is_no_library() -> None:
    _, best, peer = data().ranked()
    assert best and best.variant == "deep-halo-pause" and peer and peer.variant == "lbmpy"


def test_without_rows_there_is_no_table() -> None:
    store: Any = SimpleNamespace(rows=lambda name, **_: [])
    assert comparisons(store) == {}
