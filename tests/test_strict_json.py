"""Rows hold JSON that strict readers take, and one bad character or number never ends a case."""

import json
import math
from typing import Any

import pytest

from roofbook import strict_json
from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.measure.measurement import Check, Measurement
from roofbook.measure.placement import Setting, target_of
from roofbook.measure.policy import Policy
from roofbook.measure.row import row
from roofbook.spec import registry


def strictly(text: str) -> Any:
    def refuse(name: str) -> None:
        raise AssertionError(name)

    return json.loads(text.encode("utf-8"), parse_constant=refuse)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_a_number_that_is_none_becomes_null_wherever_it_stands(bad: float) -> None:
    parsed = strictly(strict_json.dumps({"a": bad, "b": [1.5, (bad, {"c": bad})], "d": 0, "e": True}))
    assert parsed == {"a": None, "b": [1.5, [None, {"c": None}]], "d": 0, "e": True}


def test_half_a_character_becomes_a_question_mark() -> None:
    assert strictly(strict_json.dumps({"na\udc80me": ["\ud800"], "whole": "é😀"})) == {"na?me": ["?"], "whole": "é😀"}


@pytest.mark.parametrize("error", [math.nan, math.inf])
def test_a_row_whose_check_failed_by_no_number_is_strict_json(error: float) -> None:
    try:
        cpu = host_cpu()
    except Unsupported as why:
        pytest.skip(str(why))
    lab = registry.get("stencil")
    variant = lab.variant("fused")
    target = target_of(variant, cpu)
    assert target
    measurement = Measurement(variant, variant.role, target.device, target.backend)
    measurement.checks = [Check(error, 1e-3, "a value")]
    measurement.reason = "wrong result: \udc80"
    stored_row = row(Setting(lab, lab.cases("test")[0], cpu, Policy()), measurement, "20260101T000000Z-000001")
    assert strictly(stored_row["extra"])["checks"]["before"]["error"] is None
    assert strictly(stored_row["provenance"])["environment"]


def test_a_name_that_an_object_has_twice_is_refused() -> None:
    unique = strict_json.unique_pairs
    assert json.loads('{"a": {"b": 1}, "b": [{"a": 2}]}', object_pairs_hook=unique) == {"a": {"b": 1}, "b": [{"a": 2}]}
    with pytest.raises(strict_json.RepeatedName, match="a name twice"):
        json.loads('[{"a": {"wrong": "a race", "wrong": null}}]', object_pairs_hook=unique)
