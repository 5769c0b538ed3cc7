"""What the CNN page says: sentences without what was not measured, and a table of what two checks let pass."""

from __future__ import annotations

import math
from typing import cast

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.analysis.sentences import NOT_MEASURED
from roofbook.devices.contract import Device
from roofbook.labs.cnn import LAB
from roofbook.labs.cnn.problem import Outcome, check_outcomes

from ..known import Known, shown

HOST = cast(Device, None)  # the table is computed without a device


def test_the_summary_tells_the_fastest_rung_beside_the_base_and_a_peer() -> None:
    names = [variant.name for variant in (*LAB.ladder, *LAB.peers)]
    *said, about = publication(LAB).summary(cast(Measured, Known(LAB, "vectors", "cublas", *names))).split("\n\n")
    assert [each.split("**")[1] for each in said] == [f"{case.name}." for case in LAB.cases("test")]
    for text, case in zip(said, LAB.cases("test"), strict=True):
        over = f"so much over on {case.name}"
        assert f"`vectors`: the time of vectors on {case.name} per layer, which is {over} `sequential-c`." in text
        assert f"Like for like the best peer is `cublas`: `vectors` is {over} it." in text and NOT_MEASURED not in text
    assert about == "`sequential-c` is the same loops by the host's C compiler: one thread, -O3."


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    said = publication(LAB).summary(cast(Measured, Known(LAB, "vectors", "fissioned")))
    assert said.count("`vectors`: the time of vectors on") == 2 and NOT_MEASURED not in said
    assert "so much over" not in said and "peer" not in said
    nothing = publication(LAB).summary(cast(Measured, Known(LAB)))
    assert nothing.count(NOT_MEASURED) == 2, "once a case the page says that there is none"


def test_the_table_says_what_each_check_lets_pass() -> None:
    table = shown(LAB, HOST)
    outcomes = check_outcomes()
    assert list(table.frame.columns) == list(Outcome._fields) and len(table.rows) == len(table.frame) == len(outcomes)
    for row, each in zip(table.rows, outcomes, strict=True):
        computed, drawn, rms, wrong, course, over, bound = (cell.text for cell in row.cells)
        assert (computed, drawn, wrong) == (each.computed, each.inputs, f"{each.course_wrong} of {each.outputs}")
        assert (course == "passes", bound == "passes") == (each.passes_course, each.passes_bound)
        assert {course, bound} <= {"passes", "refused"}
        assert (rms == over == "NaN") == math.isnan(each.rms)
        assert math.isnan(each.rms) or float(rms) > 0
