"""The LBM ladder: which knob each step turns, sweeps, published figures, cases. Tests of all labs: test_ladders.py."""

from __future__ import annotations

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from roofbook.analysis.lab_data import Measured
from roofbook.analysis.publication import publication
from roofbook.devices.contract import Device
from roofbook.errors import UsageError
from roofbook.labs.lbm import LAB, bands, grid, on_chip, persistent, plans, replay, team
from roofbook.labs.lbm.ladder import LADDER
from roofbook.labs.lbm.lattice import SHAPES, shape
from roofbook.spec.plan import SCALES, Variant

from .. import banded_reference
from .. import sizes as sizes_of

PUBLISHED = Path(__file__).parents[3] / "results" / "published" / "lbm.csv"

NO_COUNTERPART = {
    "achieved rate": "of their device and program",
    "achieved bandwidth": "of their device and program",
    "peak memory bandwidth": "of their device",
    "peak double-precision rate used for the ridge": "of their device",
}
COUNTED = {"bytes per iteration", "operations per iteration", "operational intensity"}


def machine(kind: str) -> Device:
    """Return a stand-in for a device, as the mapping needs it."""
    return cast(Device, SimpleNamespace(kind=kind))


def published_names() -> set[str]:
    with PUBLISHED.open(newline="", encoding="utf-8") as file:
        return {row["variant"] for row in csv.DictReader(file)}


# -- knobs -------------------------------------------------------------------------------------------------------------


def changed_knobs(variant: Variant, parent: Variant) -> set[str]:
    assert variant.source and parent.source
    return {name for name, _ in set(variant.source.settings.items()) ^ set(parent.source.settings.items())}


EXPECTED_KNOBS = {
    "soa": {"LAYOUT", "GRID"},
    "no-compute": {"PROBE"},
    "one-buffer": {"GRID"},
    "device-struct": {"GRID"},
    "no-count": {"COUNT_CELLS"},
    "tree": {"REDUCE"},
    "kept-partials": {"PARTIALS"},
    "cell-speeds-1792": {"REDUCE"},
    "select": {"OBSTACLE"},
    "accelerate-fused": {"ACCELERATE"},
    "bit-neighbours": {"NEIGHBOUR"},
    "hoisted": {"CONSTANTS"},
    "byte-obstacles": {"SOLID"},
    "flat-grid": {"GRID"},
    "paired": {"ARITHMETIC"},
    "graph": {"PARTIALS"},
    "warp-sums": {"REDUCE"},
    "compared-neighbours": {"NEIGHBOUR"},
    "warps-momentum": {"OBSTACLE"},
    "loads-at-once": {"BOUNDED"},
    "early-launch": {"EARLY"},
    "fours-graph": {"PARTIALS"},
    "fours-warps": {"REDUCE"},
    "half-storage": {"GRID", "REST"},
    "deep-halo-momentum": {"ARITHMETIC"},
    "deep-halo-pause": {"PAUSE"},
    "on-chip-momentum": {"ARITHMETIC"},
    "on-chip-no-waits": {"LEFT_OUT"},
    "deep-halo-no-waits": {"LEFT_OUT"},
    "deep-halo-exchange": {"LEFT_OUT"},
    "walk-paired": {"ARITHMETIC"},
    "walk-momentum": {"ARITHMETIC"},
    "walk-half": {"GRID", "REST"},
    "flat-grid@without=structure of arrays": {"LAYOUT"},
    "flat-grid@without=one buffer": {"GRID"},
    "flat-grid@without=tree reduction": {"REDUCE"},
    "flat-grid@without=select": {"OBSTACLE"},
    "flat-grid@without=fused acceleration": {"ACCELERATE"},
    "flat-grid@without=hoisted constants": {"CONSTANTS"},
    "flat-grid@without=byte obstacles": {"SOLID"},
}
"""Knobs that each variant is named for, written down apart from the ladder."""


@pytest.mark.parametrize("name", EXPECTED_KNOBS)
def test_the_knob_that_changes_is_the_one_the_rung_is_named_for(name: str) -> None:
    variant = LAB.variant(name)
    assert changed_knobs(variant, LAB.variant(cast(str, variant.parent))) == EXPECTED_KNOBS[name]


def test_every_optimisation_of_the_best_rung_can_be_left_out() -> None:
    (without,) = (sweep for sweep in LAB.sweeps if sweep.axis == "without")
    undone = {name for variant in without.variants for name in changed_knobs(variant, LAB.variant(LAB.best))}
    path, knobs = LAB.variant(LAB.best), set[str]()
    while path.name != "fused":
        parent = LAB.variant(cast(str, path.parent))
        knobs |= changed_knobs(path, parent)
        path = parent
    assert knobs - undone == {"COUNT_CELLS", "PARTIALS"}, "left out by another plan only"
    assert undone <= knobs


# -- sweeps ------------------------------------------------------------------------------------------------------------


def test_work_group_shapes_and_argument_counts() -> None:
    assert [sweep.axis for sweep in LAB.sweeps] == [
        *("without", "wg", "step", "c-wg", "buffers", "integers", "c-buffers", "c-integers", "devices"),
    ]
    _, groups, _, _, buffers, integers, c_buffers, c_integers, devices = LAB.sweeps
    assert [variant.options["devices"] for variant in devices.variants] == [1, 2, 4, 8]
    assert {variant.options["cores"] for variant in devices.variants} == {1}
    assert [variant.options["group"] for variant in groups.variants] == [shape(text) for text in SHAPES]
    assert {(1, 16), (1024, 1)} <= {variant.options["group"] for variant in groups.variants}
    for sweep, kind, plan in (
        *((buffers, "buffer", plans.QueueOnly), (integers, "integer", plans.QueueOnly)),
        *((c_buffers, "buffer", replay.QueueFromC), (c_integers, "integer", replay.QueueFromC)),
    ):
        for variant in sweep.variants:
            assert variant.plan is plan and variant.options["kind"] == kind and variant.source
            arguments = variant.source.resolve().count("GLOBAL int *b" if kind == "buffer" else "int i")
            assert arguments == variant.options["count"]


# -- published figures -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_every_published_variant_is_mapped_or_has_no_counterpart(kind: str) -> None:
    mapping = publication(LAB).mapping(machine(kind))
    names = published_names()
    on_cpu_only = set() if kind == "cpu" else {"optimised OpenCL on CPU"}
    assert names - set(mapping) - on_cpu_only == set(NO_COUNTERPART) | COUNTED
    assert not set(mapping) & (set(NO_COUNTERPART) | COUNTED)


def test_what_is_over_the_given_program_is_over_the_step_that_is_it() -> None:
    mapping = publication(LAB).mapping(machine("gpu"))
    assert mapping["given program, some kernels in OpenCL"] == "partly-ported" == LAB.variant("ported").parent
    assert mapping["optimised vs given program"] == (mapping["optimised, work-group 32x1"], "partly-ported")
    reported = mapping["optimised, work-group 32x1"]
    for claim, of_c, step in (("port", "c-host@step=ported", "ported"), ("total", "c-host@c-wg=32x1", reported)):
        *small, large = [piece.variants(LAB) for piece in publication(LAB).evidence[claim]]
        assert small == [("partly-ported", of_c, step)] * 2 and large == ("partly-ported", step)


def test_what_is_counted_is_published_and_follows_from_the_work() -> None:
    unmeasured = SimpleNamespace(peak_bandwidth=lambda: None, seconds=lambda variant, case: None)
    counted = publication(LAB).counted(cast(Measured, unmeasured))
    assert {name for name, _, _ in counted} == COUNTED
    cells = 128 * 128
    assert counted["bytes per iteration", "128x128", "bytes"] == f"{73 * cells} B (modelled)"
    assert counted["operations per iteration", "128x128", "flop"] == f"{124 * cells} FLOP (modelled)"
    assert counted["operational intensity", "128x128", "intensity"] == "1.70 FLOP/B (modelled)"
    reported, rate = "flat-grid@wg=32x1", {"128x128": 1e-6, "1024x1024": 1e-4}
    measured = SimpleNamespace(
        peak_bandwidth=lambda: 4e11, seconds=lambda variant, case: rate.get(case) if variant == reported else None
    )
    counted = publication(LAB).counted(cast(Measured, measured))
    assert counted["peak memory bandwidth", "", "bandwidth"].startswith("400\u202fGB/s")
    assert counted["achieved bandwidth", "1024x1024", "bandwidth"].startswith(f"{73 * 2**20 / 1e5:.0f}\u202fGB/s")
    assert reported in counted["achieved rate", "128x128", "rate"]
    assert ("achieved bandwidth", "256x256", "bandwidth") not in counted


# -- cases -------------------------------------------------------------------------------------------------------------


def test_cases_are_those_of_the_course_and_the_rest_are_boxes() -> None:
    for scale in SCALES:
        for case in LAB.cases(scale):
            assert case.scale == scale and case.name == f"{case.params['nx']}x{case.params['ny']}"
            assert case.params["check_steps"] >= 2 and case.units >= 2
            for variant in LADDER:
                checked = LAB.verification_case(case, variant).units
                least = 1 if grid.left_out(variant) == "WAITS" else 2
                assert least <= checked <= case.params["check_steps"]
                assert checked % 2 == 0 or not grid.computes_nothing(variant)
            work = LAB.work(case)
            cells = case.params["nx"] * case.params["ny"]
            assert work.bytes == work.footprint == 73 * cells and work.flops == 124 * cells
            assert LAB.rate(case) == (cells / 1e6, "MLUPS")
    assert [case.name for case in LAB.cases("published")] == ["128x128", "128x256", "256x256", "1024x1024"]
    assert LAB.case("128x256").params["iterations"] == 40000


def test_a_start_is_noisy_and_seeded() -> None:
    case = LAB.case("40x24", "test")
    one, again, other_seed = (LAB.inputs(case, seed)["f"] for seed in (1, 1, 2))
    assert (one == again).all() and (one != other_seed).mean() > 0.99 and one.shape == (9, 24, 40)
    means = one.mean(axis=(1, 2))
    assert means / means.sum() == pytest.approx(np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4), rel=0.02)
    assert (one / means[:, None, None] - 1).std() > 0.05


def test_these_steps_move_less_than_the_problem_needs() -> None:
    several_steps = (bands.Bands, team.Team, on_chip.SeveralSteps, persistent.Persistent)
    assert sizes_of.moving_less(LAB) == {
        v.name
        for v in LAB.ladder
        if grid.stores_half(v) or (issubclass(v.plan, several_steps) and v.options.get("steps") != 1)
    }


def test_the_reference_does_not_depend_on_its_bands(monkeypatch: pytest.MonkeyPatch) -> None:
    banded_reference.same_by_bands(LAB, "40x24", "f", {"f", "av_vels"}, monkeypatch)


def test_the_grids_of_the_series_are_cases_and_others_are_not() -> None:
    for scale in SCALES:
        (series,) = LAB.series(scale)
        cases = [LAB.case(name, scale) for _, name in series.points]
        assert [case.params["ny"] for case in cases] == [x for x, _ in series.points]
        assert all(case.units >= 2 and case.units % 2 == 0 and case.params["check_steps"] >= 2 for case in cases)
        assert all(name.startswith("halo-stored-overlapped@devices=") for name in series.variants)
    with pytest.raises(UsageError, match=r"^unknown case '1024x9' .*; valid: 128x128, 1024x1024"):
        LAB.case("1024x9", "quick")
