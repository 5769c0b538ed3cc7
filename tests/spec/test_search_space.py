"""The space that tuning searches: its points, the variants that they stand for, and the values that sweeps declare."""

from __future__ import annotations

from typing import Any

import pytest

from roofbook.errors import UsageError
from roofbook.spec import registry
from roofbook.spec.search_space import SearchSpace, search_space


def space(lab: str, step: str, *where: str, **values: Any) -> SearchSpace:
    the_lab = registry.get(lab)
    return search_space(the_lab, the_lab.variant(step), the_lab.cases("quick")[0], values, where)


def test_restrictions_leave_out_points() -> None:
    whole = space("convpool", "strips", TOGETHER=("1", "8"), CHUNK=("16", "48", "64"))
    assert len(whole.points()) == 6
    part = space(
        "convpool", "strips", "TOGETHER * CHUNK <= 64", "CHUNK != 48", TOGETHER=("1", "8"), CHUNK=("16", "48", "64")
    )
    assert [tuple(point.values()) for point in part.points()] == [("1", "16"), ("1", "64")]
    with pytest.raises(UsageError, match="no point of the space meets `CHUNK > 64`"):
        space("convpool", "strips", "CHUNK > 64", CHUNK=("16", "48")).points()


def test_a_point_is_named_by_what_differs_from_the_step_whatever_the_space() -> None:
    strips = space("convpool", "strips", TOGETHER=("8", "4"), CHUNK=("48", "16"))
    own, *turned = [strips.variant(point) for point in strips.points()]
    assert own is strips.step
    assert [variant.name for variant in turned] == [
        "strips@CHUNK=16",
        "strips@TOGETHER=4",
        "strips@CHUNK=16,TOGETHER=4",
    ]
    assert strips.lab.variant(turned[-1].name) == turned[-1] and turned[-1].role == "sweep"


def test_sides_that_are_options_of_the_plan_are_knobs_too() -> None:
    cnn = space(
        "cnn", "fissioned", "group[0] * group[1] * group[2] <= 64", group=("4x8x2", "8x8x2"), UNROLL=("ROLLED",)
    )
    (point,) = cnn.points()
    variant = cnn.variant(point)
    assert variant.name == "fissioned@UNROLL=ROLLED,group=4x8x2"
    assert variant.options["group"] == (4, 8, 2) and variant.text.settings["UNROLL"] == "ROLLED"
    assert variant.differs == ("source", "options") and cnn.lab.variant(variant.name) == variant


def test_without_values_the_sweeps_of_the_step_declare_them() -> None:
    assert space("convpool", "strips").values == {
        "TOGETHER": ("8", "1", "2", "4"), "PARTS": ("4", "1", "2"), "CHUNK": ("48", "16", "32", "64"),
    }  # fmt: skip
    assert "WIDTH" not in space("cnn", "fissioned").values, "a size of the case is none"


@pytest.mark.parametrize(
    ("lab", "step", "values", "reason"),
    [
        ("stencil", "float2", {}, "no sweep of stencil declares values of the knobs of float2: write --knob "),
        ("lenet", "openmp", {"X": ("1",)}, "openmp has no knobs to tune; steps that have a kernel: "),
        ("convpool", "strips", {"CHUNKS": ("16",)}, "strips.k has no knob CHUNKS; its knobs: "),
        ("cnn", "fissioned", {"WIDTH": ("16",)}, "WIDTH is a size of the case"),
        ("cnn", "fissioned", {"group": ("4x",)}, "group=4x: the value is sides such as 16x4"),
        ("lenet", "streams", {"segment": ("1x2",)}, "segment=1x2: the value is a whole number"),
        ("convpool", "strips", {"CHUNK": ("16",) * 1001, "PARTS": ("1",) * 1000}, "1,001,000 points"),
    ],
)  # fmt: skip
def test_a_space_that_the_step_cannot_have_is_refused(lab: str, step: str, values: dict[str, Any], reason: str) -> None:
    with pytest.raises(UsageError) as error:
        space(lab, step, **values)
    assert reason in str(error.value)
