"""What the CNN page says: sentences without what was not measured, and a table of what two checks let pass."""

from __future__ import annotations

import math
from typing import cast

from roofbook.device import Device
from roofbook.lab import Measured
from roofbook.labs.cnn import LAB, story
from roofbook.labs.cnn.problem import Outcome, what_passes
from roofbook.report.prose import NOT_MEASURED

from ..known import Known, tells

HOST = cast(Device, None)  # the table is computed without a device


def test_the_summary_tells_every_pair_that_was_measured() -> None:
    names = [variant.name for variant in (*LAB.ladder, *LAB.peers)]
    said = LAB.summary(cast(Measured, Known(LAB, "vectors", "cublas", *names))).split("\n\n")
    assert [each.split("**")[1] for each in said] == [f"{case.name}." for case in LAB.cases("test")]
    for text, case in zip(said, LAB.cases("test"), strict=True):
        assert f"`vectors`: the time of vectors on {case.name} a layer" in text and NOT_MEASURED not in text
        for what, pairs in story.COMPARED:
            assert f"{what}: " in text
            for one, other in pairs:
                assert LAB.variant(one) and LAB.variant(other)
                assert tells(text, one, other, case.name)


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    said = LAB.summary(cast(Measured, Known(LAB, "vectors", "fissioned", "implicit-gemm", "sequential")))
    assert "`vectors` is so much over" in said and "`double-buffered` is" not in said and NOT_MEASURED not in said
    assert "PyTorch" not in said and "ensor" not in said
    nothing = LAB.summary(cast(Measured, Known(LAB)))
    assert nothing.count(NOT_MEASURED) == 2, "once a case the page says that there is none"


def test_the_fastest_rung_is_held_against_the_fastest_peer_and_that_is_told_once() -> None:
    said = LAB.summary(cast(Measured, Known(LAB, "vectors", "torch-cpu")))
    for case in LAB.cases("test"):
        assert f"The fastest peer measured is `torch-cpu`: `vectors` is so much over on {case.name} it." in said
    assert "Beside PyTorch" not in said


def test_the_table_says_what_each_check_lets_pass() -> None:
    table = LAB.demonstration(HOST)
    outcomes = what_passes()
    assert list(table.frame.columns) == list(Outcome._fields) and len(table.rows) == len(table.frame) == len(outcomes)
    for row, each in zip(table.rows, outcomes, strict=True):
        computed, drawn, rms, wrong, course, over, bound = (cell.text for cell in row.cells)
        assert (computed, drawn, wrong) == (each.computed, each.inputs, f"{each.course_wrong} of {each.outputs}")
        assert (course == "passes", bound == "passes") == (each.passes_course, each.passes_bound)
        assert {course, bound} <= {"passes", "refused"}
        assert (rms == over == "NaN") == math.isnan(each.rms)
        assert math.isnan(each.rms) or float(rms) > 0
