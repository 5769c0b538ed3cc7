"""The LBM ladder is well-formed: names, parents, published figures; a rung differs in what it names, nothing else."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from roofbook.device import Device
from roofbook.lab import SCALES, Variant
from roofbook.labs.lbm import LAB, LADDER, SHAPES, plans, shape
from roofbook.source import Source

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "lbm.csv"

NO_COUNTERPART = {
    "OpenACC": "another compiler's language",
    "Haskell host": "another host language",
    "achieved rate": "of their device and program",
    "achieved bandwidth": "of their device and program",
    "peak memory bandwidth": "of their device",
    "peak double-precision rate used for the ridge": "of their device",
}
COUNTED = {"bytes per iteration", "operations per iteration", "operational intensity"}

LADDER_PARAMS = [pytest.param(variant, id=variant.name) for variant in LADDER]


def machine(kind: str) -> Device:
    """All that the mapping asks of a device."""
    return cast(Device, SimpleNamespace(kind=kind))


def published_names() -> set[str]:
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        return {row["variant"] for row in csv.DictReader(file)}


# -- names -------------------------------------------------------------------------------------------------------------


def test_names_are_unique_and_parents_come_first() -> None:
    seen: set[str] = set()
    for variant in LAB.all_variants():
        assert variant.name not in seen, f"{variant.name} is there twice"
        assert variant.parent is None or variant.parent in seen, f"{variant.name} comes before its parent"
        seen.add(variant.name)


def test_there_is_one_base_and_the_best_is_a_rung() -> None:
    assert [variant.name for variant in LADDER if variant.parent is None] == [LAB.base] == [LADDER[0].name]
    assert LAB.best in {variant.name for variant in LADDER if variant.role == "step"}
    assert {variant.role for variant in LADDER} == {"step", "probe"}
    assert {variant.role for variant in LAB.peers} == {"peer"}


@pytest.mark.parametrize("variant", [*LADDER_PARAMS, *(pytest.param(peer, id=peer.name) for peer in LAB.peers)])
def test_a_rung_says_what_it_changes_and_what_is_expected(variant: Variant) -> None:
    for text in (variant.change, variant.expect):
        assert not text[0].islower() and text.endswith(".") and len(text) > 12 and "\n" not in text
    assert variant.backends and variant.backends <= {"opencl", "cuda", "host"}
    assert not {"@", "=", "/", " "} & set(variant.name)


def test_lookup_by_name() -> None:
    assert LAB.variant("fused") is LADDER[3] and LAB.variant("openmp") is LAB.peers[0]
    assert LAB.variant("flat-grid@wg=16x4").point == "16x4"
    with pytest.raises(Exception, match=r"unknown variant 'fusd'; valid: sequential, .*did you mean 'fused'"):
        LAB.variant("fusd")


# -- a rung differs from its parent in what it names -------------------------------------------------------------------


def changed_knobs(variant: Variant, parent: Variant) -> dict[str, tuple[Any, Any]]:
    assert variant.source and parent.source
    now, was = dict(variant.source.knobs), dict(parent.source.knobs)
    return {name: (was.get(name), now.get(name)) for name in sorted({*now, *was}) if now.get(name) != was.get(name)}


def with_parents() -> list[Any]:
    swept = [variant for sweep in LAB.sweeps for variant in sweep.variants]
    return [pytest.param(each, id=each.name) for each in (*LADDER, *swept) if each.parent is not None]


@pytest.mark.parametrize("variant", with_parents())
def test_a_rung_differs_in_what_it_names_and_nothing_else(variant: Variant) -> None:
    parent = LAB.variant(cast(str, variant.parent))
    assert variant.source and parent.source
    differs = {
        "source": variant.source.resolve() != parent.source.resolve(),
        "plan": variant.plan is not parent.plan,
        "options": dict(variant.options) != dict(parent.options),
    }
    assert set(variant.differs) == {name for name, is_so in differs.items() if is_so}
    assert len(set(variant.differs)) == len(variant.differs) >= 1
    if not differs["source"]:
        return
    if variant.source.path != parent.source.path:
        print(f"{variant.name}: {parent.source.path.name} -> {variant.source.path.name}")
        assert "plan" in variant.differs, "another data flow has a plan of its own"
        return
    changed = changed_knobs(variant, parent)
    print(f"{variant.name}:", ", ".join(f"{name} {was} -> {now}" for name, (was, now) in changed.items()))
    assert 1 <= len(changed) <= 2, changed


EXPECTED_KNOBS = {
    "soa": {"LAYOUT", "GRID"},
    "no-compute": {"PROBE"},
    "one-buffer": {"GRID"},
    "device-struct": {"GRID"},
    "no-count": {"COUNT_CELLS"},
    "tree": {"REDUCE"},
    "kept-partials": {"PARTIALS"},
    "select": {"OBSTACLE"},
    "accelerate-fused": {"ACCELERATE"},
    "bit-neighbours": {"NEIGHBOUR"},
    "hoisted": {"CONSTANTS"},
    "byte-obstacles": {"SOLID"},
    "flat-grid": {"GRID"},
    "graph": {"PARTIALS"},
    "half-storage": {"GRID", "REST"},
    "flat-grid@without=structure of arrays": {"LAYOUT"},
    "flat-grid@without=one buffer": {"GRID"},
    "flat-grid@without=tree reduction": {"REDUCE"},
    "flat-grid@without=select": {"OBSTACLE"},
    "flat-grid@without=fused acceleration": {"ACCELERATE"},
    "flat-grid@without=hoisted constants": {"CONSTANTS"},
    "flat-grid@without=byte obstacles": {"SOLID"},
}
"""Written down apart from the ladder: what each of these is named for."""


@pytest.mark.parametrize("name", EXPECTED_KNOBS)
def test_the_knob_that_changes_is_the_one_the_rung_is_named_for(name: str) -> None:
    variant = LAB.variant(name)
    assert set(changed_knobs(variant, LAB.variant(cast(str, variant.parent)))) == EXPECTED_KNOBS[name]


def test_every_optimisation_of_the_best_rung_can_be_left_out() -> None:
    (without,) = (sweep for sweep in LAB.sweeps if sweep.axis == "without")
    undone = {name for variant in without.variants for name in changed_knobs(variant, LAB.variant(LAB.best))}
    path, knobs = LAB.variant(LAB.best), set[str]()
    while path.name != "fused":
        parent = LAB.variant(cast(str, path.parent))
        knobs |= set(changed_knobs(path, parent))
        path = parent
    assert knobs - undone == {"COUNT_CELLS", "PARTIALS"}, "left out by another plan only"
    assert undone <= knobs


@pytest.mark.parametrize("variant", LADDER_PARAMS)
def test_every_knob_that_is_set_is_one_of_its_text(variant: Variant) -> None:
    assert variant.source
    for name, value in variant.source.knobs:
        other: Source = variant.source.without(name)
        assert Source.of(variant.source.path, **dict(variant.source.knobs)) == variant.source
        assert dict(other.knobs).get(name) is None and value != ""


# -- sweeps ------------------------------------------------------------------------------------------------------------


def test_sweeps_ask_a_question_and_vary_one_thing() -> None:
    assert [sweep.axis for sweep in LAB.sweeps] == ["without", "wg", "buffers", "integers"]
    for sweep in LAB.sweeps:
        assert sweep.question.endswith("?") and len(sweep.variants) >= 6
        for variant in sweep.variants:
            assert (variant.role, variant.axis) == ("sweep", sweep.axis) and variant.published is None
            queued = sweep.axis in ("buffers", "integers")
            assert variant.name == f"{'queue' if queued else LAB.best}@{sweep.axis}={variant.point}"
            first = f"queue@{sweep.axis}=1" if variant.point != "1" else None
            assert variant.parent == (first if queued else LAB.best)
            assert not variant.shows, "what the best rung's code shows need not be there"


def test_work_group_shapes_and_argument_counts() -> None:
    _, groups, buffers, integers = LAB.sweeps
    assert [variant.options["group"] for variant in groups.variants] == [shape(text) for text in SHAPES]
    assert {(1, 16), (1024, 1)} <= {variant.options["group"] for variant in groups.variants}
    for sweep, kind in ((buffers, "buffer"), (integers, "integer")):
        for variant in sweep.variants:
            assert variant.plan is plans.QueueOnly and variant.options["kind"] == kind and variant.source
            arguments = variant.source.resolve().count("GLOBAL int *b" if kind == "buffer" else "int i")
            assert arguments == variant.options["count"]


@pytest.mark.parametrize("variant", [pytest.param(each, id=each.name) for each in LAB.all_variants() if each.source])
def test_every_variant_renders_where_it_says_it_runs(variant: Variant) -> None:
    assert variant.source
    for backend, word in (("opencl", "__kernel"), ("cuda", "__global__")):
        if backend in variant.backends:
            assert f"{word} void " in variant.source.render(backend) or f"{word} __" in variant.source.render(backend)


# -- published figures -------------------------------------------------------------------------------------------------


def test_what_a_rung_calls_published_is_published() -> None:
    names = published_names()
    for variant in LAB.all_variants():
        assert variant.published is None or variant.published in names, variant.name


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_every_published_variant_is_mapped_or_has_no_counterpart(kind: str) -> None:
    mapping = LAB.published_mapping(machine(kind))
    names, known = published_names(), {variant.name for variant in LAB.all_variants()}
    assert set(mapping) <= names
    for ours in mapping.values():
        assert {ours} <= known if isinstance(ours, str) else set(ours) <= known
    on_cpu_only = set() if kind == "cpu" else {"optimised OpenCL on CPU"}
    assert names - set(mapping) - on_cpu_only == set(NO_COUNTERPART) | COUNTED
    assert not set(mapping) & (set(NO_COUNTERPART) | COUNTED)


def test_what_is_counted_is_published_and_follows_from_the_work() -> None:
    counted = LAB.counted()
    assert {name for name, _, _ in counted} == COUNTED
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        figures = {(row["variant"], row["case"], row["metric"]) for row in csv.DictReader(file)}
    assert set(counted) <= figures
    cells = 128 * 128
    assert counted["bytes per iteration", "128x128", "bytes"] == f"{73 * cells} B"
    assert counted["operations per iteration", "128x128", "flop"] == f"{124 * cells} FLOP"
    assert counted["operational intensity", "128x128", "intensity"] == "1.70 FLOP/B"


# -- cases -------------------------------------------------------------------------------------------------------------


def test_cases_are_those_of_the_course_and_the_rest_are_boxes() -> None:
    for scale in SCALES:
        for case in LAB.cases(scale):
            assert case.scale == scale and case.name == f"{case.params['nx']}x{case.params['ny']}"
            assert case.params["check_steps"] >= 2 and case.units >= 2
            for variant in LADDER:
                checked = LAB.checker(case, variant).units
                assert 2 <= checked <= case.params["check_steps"] and (variant.role != "probe" or checked % 2 == 0)
            work = LAB.work(case)
            cells = case.params["nx"] * case.params["ny"]
            assert work.bytes == work.footprint == 73 * cells and work.flops == 124 * cells
            assert LAB.rate(case) == (cells / 1e6, "MLUPS")
    assert [case.name for case in LAB.cases("published")] == ["128x128", "128x256", "256x256", "1024x1024"]
    assert LAB.case("128x256").params["iterations"] == 40000
    with pytest.raises(Exception, match="unknown case '99x99'; valid: 128x128"):
        LAB.case("99x99")


def test_a_start_is_noisy_and_seeded() -> None:
    case = LAB.case("40x24", "test")
    one, again, other = (LAB.inputs(case, seed)["f"] for seed in (1, 1, 2))
    assert (one == again).all() and (one != other).mean() > 0.99 and one.shape == (9, 24, 40)
    means = one.mean(axis=(1, 2))
    assert means / means.sum() == pytest.approx(np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4), rel=0.02)
    assert (one / means[:, None, None] - 1).std() > 0.05
