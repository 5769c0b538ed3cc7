"""Texts of the convpool page: sentences on measured variants alone, and a table of results that guard and check let pass."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.devices.contract import Device
from roofbook.labs.convpool import LAB
from roofbook.labs.convpool.demonstration import Outcome, added, check_outcomes, pooled, products_of, rounded, saturated
from roofbook.labs.convpool.problem import Layer, inputs, reference

from ..fake_measurements import FakeMeasurements, demonstration_table

HOST = cast(Device, None)  # the table is computed without a device


# -- sentences ---------------------------------------------------------------------------------------------------------


def test_the_summary_tells_the_fastest_rung_beside_the_base_and_a_peer() -> None:
    names = [variant.name for variant in (*LAB.ladder, *LAB.peers)]
    paragraphs = publication(LAB).summary(cast(Measured, FakeMeasurements(LAB, "strips", *names))).split("\n\n")
    assert [paragraph.split("**")[1] for paragraph in paragraphs] == [f"{case.name}." for case in LAB.cases("test")]
    for text, case in zip(paragraphs, LAB.cases("test"), strict=True):
        over = f"so much over on {case.name}"
        assert f"`strips`: the time of strips on {case.name} per layer, which is {over} `sequential-c`." in text
        assert (
            f"Under equal conditions `strips` is {over} the best peer, `torch-cpu`." in text
            and NOT_MEASURED not in text
        )


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    summary = publication(LAB).summary(cast(Measured, FakeMeasurements(LAB, "lists", "filter-groups")))
    assert summary.count("`lists`: the time of lists on") == 2 and NOT_MEASURED not in summary
    assert "so much over" not in summary and "peer" not in summary
    nothing = publication(LAB).summary(cast(Measured, FakeMeasurements(LAB)))
    assert nothing.count(NOT_MEASURED) == 2, "once a case the page says that there is none"


def test_no_step_is_left_out_of_the_pairs_by_mistake() -> None:
    pairs = {pair for _, pairs_of_kind in publication(LAB).pairs for pair in pairs_of_kind}
    steps = {variant.name: variant.parent for variant in LAB.ladder if variant.role == "step" and variant.parent}
    untold = {name for name, parent in steps.items() if (name, parent) not in pairs}
    assert untold == {"row-groups", "fast-math", "tiles", "tensor-prepared"}


# -- ways to add up ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["3x2x6x6-k3", "2x3x4x4-k5"])
def test_the_emulated_layer_is_the_labs(name: str) -> None:
    layer = Layer.named(name)
    arrays = inputs(layer, 5, 1.0, 1.0)
    products = products_of(arrays["x"], arrays["weight"])
    assert products.shape == (layer.depth * layer.kernel**2, *layer.conv_shape)
    for dtype in (np.int32, np.int64, np.float32):
        np.testing.assert_array_equal(pooled(added(products, dtype)), reference(layer, **arrays)["out"])
    one_channel = products[layer.kernel**2 : 2 * layer.kernel**2].sum(axis=0)
    alone = {"x": arrays["x"][1:2], "weight": arrays["weight"][:, 1:2]}
    right = reference(Layer(1, layer.filters, layer.size, layer.kernel), **alone)["out"]
    np.testing.assert_array_equal(pooled(one_channel), right, err_msg="the products of a channel lie side by side")


def test_sums_of_too_few_bits_by_hand() -> None:
    products = np.array([30000, 30000, -30000, -30000, -30000], np.int32).reshape(5, 1, 1, 1)
    assert added(products, np.int16).item() == -30000, "it wrapped there and back"
    assert added(products[:2], np.int16).item() == 60000 - 2**16
    assert saturated(products).item() == -32768 and saturated(products[:2]).item() == 32767
    assert rounded(np.array([2049, 65519, 65520])).tolist() == [2048, 65504, math.inf]
    edge = np.array([2**24, 1, 1], np.int32).reshape(3, 1, 1, 1)
    assert added(edge, np.float32).item() == 2**24 and added(edge[::-1], np.float32).item() == 2**24 + 2


# -- the table ---------------------------------------------------------------------------------------------------------


def outcomes(all_outcomes: list[Outcome], drawn: str) -> dict[str, Outcome]:
    return {outcome.sums: outcome for outcome in all_outcomes if outcome.inputs == drawn}


def test_what_passes_and_what_is_refused() -> None:
    all_outcomes = check_outcomes()
    for drawn in ("as published", "without zeros"):
        for sums, outcome in outcomes(all_outcomes, drawn).items():
            exact = sums in ("int32", "fp32", "int32, from the last product to the first")
            assert outcome.guarded and outcome.passes == exact == (outcome.wrong == 0)
            assert outcome.passes_rounded == exact or "rounded to fp16" in sums
    assert outcomes(all_outcomes, "as published")["int32, the results rounded to fp16"].passes_rounded
    assert not outcomes(all_outcomes, "without zeros")["int32, the results rounded to fp16"].passes_rounded, (
        "past fp16's end"
    )
    alike = [name for name in dict.fromkeys(outcome.inputs for outcome in all_outcomes) if name.endswith("throughout")]
    exact_in_fp32, past_it, exact_in_int32, past_that = (outcomes(all_outcomes, name) for name in alike)
    assert (exact_in_fp32["fp32"].wrong, past_it["fp32"].passes) == (0, False) and past_it["int32"].passes
    assert exact_in_int32["int32"].passes and past_that["int32"].wrong == past_that["int32"].outputs
    for outcome in past_that.values():
        assert not (outcome.guarded or outcome.passes or outcome.passes_rounded)


def test_the_table_says_what_was_found() -> None:
    table = demonstration_table(LAB, HOST)
    all_outcomes = check_outcomes()
    assert list(table.frame.columns) == list(Outcome._fields) and len(table.rows) == len(table.frame) == len(
        all_outcomes
    )
    for row, outcome in zip(table.rows, all_outcomes, strict=True):
        drawn, sums, wrong, guarded, passes, passes_rounded = (cell.text for cell in row.cells)
        assert (drawn, sums, wrong) == (outcome.inputs, outcome.sums, f"{outcome.wrong} of {outcome.outputs}")
        words = {True: "passes", False: "refused"} if outcome.guarded else {False: "not asked"}
        assert guarded == ("passes" if outcome.guarded else "refused")
        assert (passes, passes_rounded) == (words[outcome.passes], words[outcome.passes_rounded])
