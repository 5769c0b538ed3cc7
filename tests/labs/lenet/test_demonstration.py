"""Texts of the LeNet page: sentences on measured variants alone, and a table of results that the check lets pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import numpy as np
import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.devices.contract import Device
from roofbook.labs.lenet import LAB, demonstration, network
from roofbook.labs.lenet.problem import error_over_bound, inputs, reference, sampled
from roofbook.report.html import Table

from ..fake_measurements import FakeMeasurements, demonstration_table

HOST = cast(Device, None)  # the table is computed without a device
TOLD: Mapping[str, Any] = {"source": "drawn, 5 images", "images": 5, "accuracy": 0.8}


class MeasurementsWithFacts(FakeMeasurements):
    """Stand-in for measurements that have facts as well as times."""

    def __init__(self, *measured: str, facts: Mapping[str, Any] = TOLD) -> None:
        super().__init__(LAB, *measured)
        self.facts = facts

    def fact(self, variant: str, case: str, name: str) -> Any:
        return self.facts[name] if variant in self.measured else None


def summary(*measured: str) -> list[str]:
    return publication(LAB).summary(cast(Measured, MeasurementsWithFacts(*measured))).split("\n\n")


def test_the_summary_tells_the_fastest_rung_beside_the_base_and_a_peer() -> None:
    images, *paragraphs = summary("joint", *(variant.name for variant in (*LAB.ladder, *LAB.peers)))
    assert [paragraph.split("**")[1] for paragraph in paragraphs] == [f"{case.name}." for case in LAB.cases("test")]
    for text, case in zip(paragraphs, LAB.cases("test"), strict=True):
        over = f"so much over on {case.name}"
        assert f"`joint`: the time of joint on {case.name} per batch, which is {over} `sequential-c`." in text
        assert (
            f"Under equal conditions `joint` is {over} the best peer, `torch-cpu`." in text and NOT_MEASURED not in text
        )
        assert f"On {case.name}, with 5 different images, `sequential-c` classifies 80.0\u202f% correctly." in images
    assert images.startswith("**Images.** Drawn, 5 images. On ") and images.count("Drawn") == 1


def test_the_summary_tells_what_was_measured_on_other_images() -> None:
    class Mixed(MeasurementsWithFacts):
        def fact(self, variant: str, case: str, name: str) -> Any:
            changed = {"source": "digits"} if variant in ("openmp", "torch-cpu") else {}
            return {**self.facts, **changed}[name] if variant in self.measured else None

    paragraph = (
        publication(LAB).summary(cast(Measured, Mixed("baseline", "joint", "torch-cpu", "openmp"))).split("\n\n")[0]
    )
    assert paragraph.count("There `torch-cpu` and `openmp` had others: digits.") == len(LAB.cases("test"))
    assert "others" not in summary("joint", "baseline", "openmp")[0]


def test_the_pairs_reach_every_rung_of_one_kernel() -> None:
    names = {name for _, pairs in publication(LAB).pairs for pair in pairs for name in pair}
    assert {variant.name for variant in LAB.ladder if variant.role == "step"} - names <= {
        "streams-tiled",
        "streams-joint",
    }


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    images, *paragraphs, about = summary("joint", "baseline", "constant")
    assert "80.0" in images and about == "`baseline` stands in for `sequential-c`, which has no time here."
    assert "so much over" in paragraphs[0] and "peer" not in paragraphs[0] and NOT_MEASURED not in "".join(paragraphs)
    assert not any("Images" in text for text in summary("joint", "constant")), "the base tells which they are"
    nothing = "".join(summary())
    assert nothing.count(NOT_MEASURED) == len(LAB.cases("test")), "once a case the page says that there is none"


# -- the table ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table() -> Table:
    return demonstration_table(LAB, HOST)


@pytest.fixture(scope="module")
def outcomes(table: Table) -> dict[str, demonstration.Outcome]:
    assert list(table.frame.columns) == list(demonstration.Outcome._fields)
    return {
        outcome.computed: outcome for outcome in map(demonstration.Outcome._make, table.frame.itertuples(index=False))
    }


def test_the_ways_are_what_their_names_say() -> None:
    batch = inputs(9, "digits", 3)
    weights, images = batch["weights"], batch["x"]
    ways = dict(demonstration.ways(weights, images))
    right = network.forward(weights, images)
    plain = ways["fp32"]
    assert {array.dtype for array in plain.values()} == {np.dtype(np.float32)}
    for name, layer in (("conv1", "conv1"), ("conv2", "conv2"), ("scores", "fc2")):
        np.testing.assert_allclose(plain[name], right[layer], rtol=1e-4, atol=1e-3)
    for way, changed in {
        "TF32 operands": {"conv1", "conv2", "scores"},
        "fp16 operands": {"conv1", "conv2", "scores"},
        "bf16 operands": {"conv1", "conv2", "scores"},
        "fp32, one tap of one filter of layer 2 forgotten": {"conv2", "scores"},
        "fp32, the last row of layer 1's taps forgotten": {"conv1", "conv2", "scores"},
        "fp32, one input channel of layer 2 forgotten": {"conv2", "scores"},
        "fp32, the last column of layer 1 left empty": {"conv1", "conv2", "scores"},
        "fp32, without the pooling windows that the edge cuts off": {"scores"},
        "fp32, layer 2 a thousandth too large": {"conv2", "scores"},
        "fp32, one image taken for another": {"scores"},
        "fp32, one NaN": {"conv2", "scores"},
    }.items():
        maps = ways.pop(way)
        assert {name for name in maps if not np.array_equal(maps[name], plain[name])} == changed, way
    assert list(ways) == ["fp32"]


def test_one_tap_is_one_and_an_exchange_is_of_one_image() -> None:
    batch = inputs(9, "digits", 3)
    ways = dict(demonstration.ways(batch["weights"], batch["x"]))
    plain = ways["fp32"]
    tap = ways["fp32, one tap of one filter of layer 2 forgotten"]["conv2"]
    assert np.flatnonzero((tap != plain["conv2"]).any(axis=(0, 2, 3))).tolist() == [0]
    moved = ways["fp32, one image taken for another"]["scores"]
    assert np.flatnonzero((moved != plain["scores"]).any(axis=1)).tolist() == [2]
    empty = ways["fp32, one NaN"]
    assert np.isnan(empty["conv2"]).sum() == 1 and np.isnan(empty["scores"]).all(axis=1).tolist() == [False] * 8 + [
        True
    ]
    edge = demonstration.cut_off(np.ones((2, 16, 9, 9)))
    assert edge[:, :, :8, :8].all() and edge.sum() == 2 * 16 * 64


def test_the_exchanged_image_is_not_compared_value_by_value() -> None:
    assert 2 not in sampled(demonstration.IMAGES)


def test_only_fp32_passes_and_only_what_11_bits_can_be_passes_the_wider_check(
    outcomes: Mapping[str, demonstration.Outcome],
) -> None:
    assert [name for name, outcome in outcomes.items() if outcome.passes] == ["fp32"]
    assert [name for name, outcome in outcomes.items() if outcome.passes_rounded] == [
        "fp32", "TF32 operands", "fp16 operands",
    ]  # fmt: skip


def test_accuracy_alone_would_let_half_of_it_pass(table: Table, outcomes: Mapping[str, demonstration.Outcome]) -> None:
    right = outcomes["fp32"]
    assert right.moved == 0 and 0.8 < right.accuracy <= 1
    wrong = [outcome for outcome in outcomes.values() if not outcome.passes_rounded]
    unseen = [outcome for outcome in wrong if outcome.moved <= demonstration.IMAGES / 100]
    assert len(wrong) / 2 <= len(unseen) < len(wrong)
    assert all(abs(outcome.accuracy - right.accuracy) <= 0.011 for outcome in unseen)
    (note,) = [note for note in table.notes if "both checks refuse" in note]
    assert note.startswith(
        f"Of the {len(wrong)} ways that both checks refuse, {len(unseen)} change the class of at most one"
    )


def test_what_the_table_says_is_what_the_labs_check_says(outcomes: Mapping[str, demonstration.Outcome]) -> None:
    case = LAB.case(f"batch-{demonstration.IMAGES}")
    batch = inputs(demonstration.IMAGES, case.params["data"], 0)
    right = reference(batch)
    chosen = sampled(demonstration.IMAGES)
    for computed, maps in demonstration.ways(batch["weights"], batch["x"]):
        if computed.startswith(("TF32", "fp32, one NaN", "fp32, the windows")):
            outputs = {"conv1": maps["conv1"][chosen], "conv2": maps["conv2"][chosen], "scores": maps["scores"]}
            error, _, _ = LAB.check(case, LAB.ladder[0], outputs, right)
            outcome = outcomes[computed]
            assert max(outcome.conv1, outcome.conv2, outcome.scores) <= error or math.isnan(error)
            assert outcome.conv1 == error_over_bound(outputs["conv1"], right["conv1"])


def test_the_table_shows_each_way(table: Table, outcomes: Mapping[str, demonstration.Outcome]) -> None:
    for row, outcome in zip(table.rows, outcomes.values(), strict=True):
        computed, *over, passes, rounded, moved, accuracy = (cell.text for cell in row.cells)
        assert (computed, moved) == (outcome.computed, str(outcome.moved)) and float(accuracy) == pytest.approx(
            outcome.accuracy
        )
        assert (passes, rounded) == tuple(
            "passes" if ok else "refused" for ok in (outcome.passes, outcome.passes_rounded)
        )
        assert ["NaN" in text for text in over] == [
            math.isnan(error) for error in (outcome.conv1, outcome.conv2, outcome.scores)
        ]
