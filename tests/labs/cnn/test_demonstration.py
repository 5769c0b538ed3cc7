"""Texts of the CNN page: sentences on measured variants alone, and a table of results that two checks let pass."""

from __future__ import annotations

import math
from typing import cast

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.devices.contract import Device
from roofbook.labs.cnn import LAB
from roofbook.labs.cnn.problem import Outcome, check_outcomes

from ..fake_measurements import FakeMeasurements, demonstration_table

HOST = cast(Device, None)  # the table is computed without a device


def test_the_summary_tells_the_fastest_rung_beside_the_base_and_a_peer() -> None:
    names = [variant.name for variant in (*LAB.ladder, *LAB.peers)]
    measured = cast(Measured, FakeMeasurements(LAB, "vectors", "cublas", *names))
    paragraphs = publication(LAB).summary(measured).split("\n\n")
    assert [paragraph.split("**")[1] for paragraph in paragraphs] == [f"{case.name}." for case in LAB.cases("test")]
    for text, case in zip(paragraphs, LAB.cases("test"), strict=True):
        over = f"so much over on {case.name}"
        assert f"`vectors`: the time of vectors on {case.name} per layer, which is {over} `sequential-c`." in text
        assert (
            f"Under equal conditions `vectors` is {over} the best peer, `cublas`." in text and NOT_MEASURED not in text
        )


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    summary = publication(LAB).summary(cast(Measured, FakeMeasurements(LAB, "vectors", "fissioned")))
    assert summary.count("`vectors`: the time of vectors on") == 2 and NOT_MEASURED not in summary
    assert "so much over" not in summary and "peer" not in summary
    nothing = publication(LAB).summary(cast(Measured, FakeMeasurements(LAB)))
    assert nothing.count(NOT_MEASURED) == 2, "once a case the page says that there is none"


def test_the_table_says_what_each_check_lets_pass() -> None:
    table = demonstration_table(LAB, HOST)
    outcomes = check_outcomes()
    assert list(table.frame.columns) == list(Outcome._fields) and len(table.rows) == len(table.frame) == len(outcomes)
    for row, outcome in zip(table.rows, outcomes, strict=True):
        computed, drawn, rms, wrong, course, over, bound = (cell.text for cell in row.cells)
        assert (computed, drawn, wrong) == (
            outcome.computed,
            outcome.inputs,
            f"{outcome.course_wrong} of {outcome.outputs}",
        )
        assert (course == "passes", bound == "passes") == (outcome.passes_course, outcome.passes_bound)
        assert {course, bound} <= {"passes", "refused"}
        assert (rms == over == "NaN") == math.isnan(outcome.rms)
        assert math.isnan(outcome.rms) or float(rms) > 0
