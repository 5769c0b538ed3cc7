"""The stencil's ladder: the knob behind each name, its sweeps, excuses, work and traffic, and every published figure."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.analysis.publication import publication
from roofbook.devices.contract import Device
from roofbook.labs.stencil import LAB, SHAPES
from roofbook.labs.stencil.problem import PUBLISHED_PASSES
from roofbook.spec.plan import SCALES, Case, missing

from .. import banded_reference
from .. import sizes as sizes_of

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "stencil.csv"
DEVICE = cast(Device, SimpleNamespace(kind="gpu"))

EXPECTED_KNOBS = {
    "no-ifs": {"BOUNDS"},
    "compiled-sizes": {"SIZES", "HEIGHT", "WIDTH"},
    "rsqrt": {"ROOT"},
    "native-rsqrt": {"ROOT"},
    "local-memory": {"STAGING", "GROUP_SIZE"},
    "local-memory-tasks-2": {"TASKS"},
    "tasks-2": {"TASKS"},
    "tasks-4": {"TASKS"},
    "tasks-8": {"TASKS"},
    "tasks-16": {"TASKS"},
    "float2": {"VECTOR", "LANES"},
    "float4": {"VECTOR", "LANES"},
    "float8": {"VECTOR", "LANES"},
    "float16": {"VECTOR", "LANES"},
    "fused": {"PASSES"},
    "fused-float16": {"VECTOR", "LANES"},
    "fused@without=one launch": {"PASSES"},
    "fused@without=wide types": {"VECTOR", "LANES"},
    "native-rsqrt@wg=8x16": {"BOUNDS"},
    "tasks-2@wg2=64x1": set[str](),
    "local-memory-tasks-2@staged=64x1": set[str](),
    "checked@lanes=100": set[str](),
    "native-rsqrt@misaligned=0": set[str](),
    "native-rsqrt@misaligned=31": {"OFFSET"},
    "checked@walk=rows": set[str](),
    "checked@walk=columns": {"WALK"},
    "fused@vector=4": set[str](),
    "fused@vector=2": {"VECTOR", "LANES"},
}
"""Knobs that each variant is named for, written down apart from the ladder."""


def case(size: str) -> Case:
    height, width = map(int, size.split("x"))
    return Case(size, "test", {"height": height, "width": width, "iterations": 23}, 23)


@pytest.mark.parametrize("name", EXPECTED_KNOBS)
def test_the_knob_that_changes_is_the_one_the_rung_is_named_for(name: str) -> None:
    variant = LAB.variant(name)
    parent = LAB.variant(cast(str, variant.parent))
    assert variant.source and parent.source and variant.source.path == parent.source.path
    assert {
        knob for knob, _ in set(variant.source.settings.items()) ^ set(parent.source.settings.items())
    } == EXPECTED_KNOBS[name]


def test_every_rung_of_one_text_is_in_that_list() -> None:
    for variant in LAB.ladder:
        parent = LAB.variant(variant.parent) if variant.parent else None
        same = parent and parent.source and variant.source and parent.source.path == variant.source.path
        assert bool(same) == (variant.name in EXPECTED_KNOBS or variant.role == "base"), variant.name


def test_only_what_needs_a_launch_of_its_own_has_options() -> None:
    assert {variant.name: dict(variant.options) for variant in LAB.ladder if variant.options} == {
        "sequential": {"device": "host"},
        "sequential-c": {"device": "host"},
    }
    groups = {variant.name.partition("@")[2]: variant.options for sweep in LAB.sweeps for variant in sweep.variants}
    assert groups["wg=8x16"]["group"] == (8, 16) and groups["lanes=100"]["group"] == (100, 1)
    assert groups["wg2=64x1"]["group"] == (64, 1) and not groups["misaligned=3"]


def test_sweeps_have_the_points_that_were_asked_for() -> None:
    points = {sweep.axis: [variant.point for variant in sweep.variants] for sweep in LAB.sweeps}
    assert points["misaligned"] == [str(floats) for floats in range(32)]
    assert {f"{length}x1" for length in (32, 64, 128, 256, 512, 1024)} <= set(points["wg"]) == set(SHAPES)
    assert points["lanes"] == ["96", "100", "128"] and points["walk"] == ["rows", "columns"]
    assert points["vector"] == ["1", "2", "4", "8", "16"] and points["without"] == ["one launch", "wide types"]
    assert {"64x1", "128x1"} <= set(points["wg2"]) == set(points["staged"]), "the pair of lengths that was published"


# -- excuses -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "size", "reason"),
    [
        ("sequential", "3x3", None),
        ("checked", "5x13", None),
        ("checked@lanes=100", "5x13", None),
        ("checked@walk=columns", "5x13", None),
        ("native-rsqrt@wg=8x16", "5x13", None),
        ("no-ifs", "34x128", None),
        ("no-ifs", "34x100", "the width is not a multiple of 128"),
        ("local-memory", "3x64", "the width is not a multiple of 128"),
        ("native-rsqrt@misaligned=1", "5x13", "the width is not a multiple of 128"),
        ("tasks-2", "34x128", "the width is not a multiple of 256"),
        ("tasks-2@wg2=64x1", "34x128", None),
        ("local-memory-tasks-2", "34x128", "the width is not a multiple of 256"),
        ("tasks-8", "3x1024", None),
        ("tasks-8", "3x1152", "the width is not a multiple of 1024"),
        ("flat", "5x13", None),
        ("float2", "5x13", "the width is not a multiple of 2"),
        ("float4", "7x48", None),
        ("fused", "5x14", "the width is not a multiple of 4"),
        ("fused-float16", "7x48", None),
        ("streams", "5x13", None),
        ("fused@vector=16", "7x40", "the width is not a multiple of 16"),
    ],
)
def test_a_variant_is_excused_from_a_size_for_the_right_reason(name: str, size: str, reason: str | None) -> None:
    assert LAB.skip_reason(LAB.variant(name), case(size)) == (f"not on this case: {reason}" if reason else None)


def test_the_published_sizes_fit_every_variant() -> None:
    for scale in ("quick", "published", "large"):
        for sized_case in LAB.cases(scale):
            excused = [variant.name for variant in LAB.all_variants() if LAB.skip_reason(variant, sized_case)]
            narrow = ["tasks-16"] * (scale == "quick")  # sixteen parts of its width are narrower than a group
            assert excused == narrow + [peer.name for peer in LAB.peers if missing(peer)]


# -- work and time -----------------------------------------------------------------------------------------------------


def test_all_passes_together_need_each_float_once() -> None:
    published = LAB.case("8192x8192")
    work, inner = LAB.work(published), 8190 * 8192
    assert work.bytes * PUBLISHED_PASSES == pytest.approx(16 * inner)
    assert work.flops * PUBLISHED_PASSES == pytest.approx((2 + PUBLISHED_PASSES) * inner)
    assert work.footprint == 12 * inner
    assert LAB.rate(published) == (inner / 1e9, "billion elements/s")


@pytest.mark.parametrize(
    ("name", "passes"),
    [("sequential", 23), ("checked", 23), ("float16", 23), ("fused", 1), ("fused@without=one launch", 23),
     ("fused@vector=1", 1), ("torch-compiled", 23)],
)  # fmt: skip
def test_traffic_is_a_sweep_over_memory_a_pass_or_one_for_all(name: str, passes: int) -> None:
    for sized_case in LAB.cases("quick"):
        inner = (sized_case.params["height"] - 2) * sized_case.params["width"]
        assert LAB.traffic(sized_case, LAB.variant(name)) == pytest.approx(16 * inner * passes / 23)


def test_a_sample_has_all_passes_but_for_the_sequential_one() -> None:
    for scale in SCALES:
        for sized_case in LAB.cases(scale):
            assert sized_case.units == sized_case.params["iterations"] == PUBLISHED_PASSES
            for variant in LAB.all_variants():
                alone = variant.name in ("sequential", "sequential-c") and scale != "test"
                assert LAB.units(sized_case, variant, DEVICE) == (1 if alone else PUBLISHED_PASSES)


# -- published figures -------------------------------------------------------------------------------------------------


def test_every_published_figure_has_ours_beside_it() -> None:
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        figures = list(csv.DictReader(file))
    mapping: Any = publication(LAB).mapping(DEVICE)
    ours = {}
    for row in figures:
        assert row["metric"] == "time" and publication(LAB).cases[row["case"]] == LAB.cases("published")[0].name
        key = row["variant"], row["device"]
        ours[key] = mapping.get(key, mapping.get(row["variant"]))
    assert {variant for (_, device), variant in ours.items() if device == "host CPU"} == {"sequential"}
    assert {published: variant for (published, device), variant in ours.items() if device == "Tesla K20m"} == {
        "work-group 128x1, 1 task per work-item": "local-memory",
        "work-group 128x1, 2 tasks per work-item": "local-memory-tasks-2",
        "work-group 64x1, 2 tasks per work-item": "local-memory-tasks-2@staged=64x1",
    }
    assert len(ours) == len(figures) == 6


def test_these_steps_move_less_than_the_problem_needs() -> None:
    assert sizes_of.moving_less(LAB) == set()


def test_it_takes_sizes_that_no_scale_lists(tmp_path: Path) -> None:
    sizes_of.unlisted(LAB, "7x1000", "7x2", tmp_path)


def test_the_reference_does_not_depend_on_its_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    banded_reference.same_by_bands(LAB, "37x64", "g", {"g"}, monkeypatch)


def test_only_kernels_with_a_native_root_ask_for_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel for CPUs has no knob for its vector: the width is a constant of its text."""
    asked: list[int] = []
    monkeypatch.setattr("roofbook.labs.stencil.native_root_loss", lambda device, lanes: asked.append(lanes))
    losses = {variant.name: LAB.device_losses(DEVICE, variant) for variant in LAB.all_variants()}
    assert not losses["openmp"] and not losses["sequential"] and not losses["checked"], "no kernel, or an exact root"
    asked.clear()
    for name, lanes in {"native-rsqrt": 1, "float4": 4, "fused-float16": 16, "streams": 16}.items():
        assert LAB.device_losses(DEVICE, LAB.variant(name)) and asked[-1] == lanes, name
