"""Every variant, peer and sweep point of the LBM lab against the float64 reference, on every device that is present.

Grids are small, odd and no powers of two, with obstacles anywhere; starts are noisy, so no error hides in symmetry.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, Program, Unsupported
from roofbook.labs.lbm import (
    LAB,
    bands,
    deep_halo_ptx,
    fours,
    grid,
    haskell,
    on_chip,
    openacc,
    peers,
    persistent,
    plans,
    replay,
    sharded,
    slabs,
    team,
    walk_warps,
)
from roofbook.labs.lbm.problem import (
    UNIT_ROUNDOFF,
    Array,
    Mask,
    Params,
    bound,
    bound_av_vels,
    box,
    disturb,
    error,
    error_av_vels,
    initial,
    macroscopic,
    mass,
    momentum,
    reference,
    taylor_green,
    taylor_green_decay,
)
from roofbook.measure.placement import target_of
from roofbook.peers import cc
from roofbook.spec.lab import by_make
from roofbook.spec.plan import Case, Runnable, Variant, missing

from ... import mutants
from ...naming import naming
from ..sweep_points import params
from .driven_channel import driven_channel

SIZES = ["1x2", "5x4", "16x3", "17x9", "16x4", "40x24", "63x31", "64x64", "33x130", "64x32", "32x130"]
WALLS = {"5x4": "box", "40x24": "box", "63x31": "open", "64x64": "open"}
"""Grid -> its walls. All other grids have obstacles at random, a third of row ny-2 among them."""
FEW = ("33x130", "64x32")
"""Grids of the quick tests: the first is awkward, the second for variants that do not take it. Each grid is a kernel to be
compiled, so all others are thorough."""
WALKS = ("walk-down", "walk-paired", "walk-momentum", "walk-half")


@cache
def problem(size: str) -> tuple[Params, Mask, Array]:
    """Return parameters with a strong drive (a missing push shows in half precision too), obstacles and a noisy start."""
    nx, ny = map(int, size.split("x"))
    draw = np.random.default_rng(nx * 1000 + ny)
    obstacles = box(nx, ny)[1] if WALLS.get(size) == "box" else draw.random((ny, nx)) < 0.25
    if WALLS.get(size) == "open":
        obstacles[:] = False
    elif size not in WALLS:
        obstacles[ny - 2, ::3] = True
        obstacles[ny - 1, 0] = obstacles[ny - 2, nx // 2] = False
    params = Params(nx, ny, 1, 10, 0.1, 0.1, 1.7)
    start = initial(params, np.float32) * draw.uniform(0.9, 1.1, (9, ny, nx)).astype(np.float32)
    return params, obstacles, start


def case_of(size: str, steps: int) -> Case:
    params = problem(size)[0]
    return Case(size, "test", {**asdict(params), "check_steps": steps}, steps)


def inputs_of(size: str) -> dict[str, Any]:
    return dict(zip(("params", "obstacles", "f"), problem(size), strict=True))


@cache
def right(size: str, steps: int) -> Mapping[str, Any]:
    """Return the reference's state and mean speeds, as the lab hands them to its check."""
    return LAB.reference(case_of(size, steps), inputs_of(size))


def make(device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> Runnable:
    """Return the variant ready to run; skip the test where this device or machine cannot run it."""
    target = target_of(variant, device)
    if target is None:
        pytest.skip(f"{variant.name} is not for {device.spec}")
    if reason := missing(variant):
        pytest.skip(reason)
    if variant.plan is plans.Native and cc.compiler() is None:
        pytest.skip("no C compiler: none of CC, cc, gcc, clang")
    if math.prod(variant.options.get("group", (1,))) > target.device.max_work_group:
        pytest.skip(f"work-groups of {target.device.spec} have at most {target.device.max_work_group} work-items")
    try:
        return variant.plan(target.device, variant, case, inputs)
    except Unsupported as reason:
        if variant.plan is not openacc.OpenAcc:  # a GCC that does not offload tells it only when asked for a device
            raise
        pytest.skip(str(reason))


def run(device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any], times: int = 1) -> dict[str, Array]:
    """Return outputs after `times` runs, one after another."""
    runnable = make(device, variant, case, inputs)
    runnable.reset()
    for _ in range(times):
        runnable.run()
    outputs = runnable.outputs()
    assert isinstance(runnable.facts(), dict)
    runnable.close()
    return outputs


def named(*names: str) -> list[Any]:
    return [pytest.param(LAB.variant(name), id=name) for name in names]


def simulating() -> list[Variant]:
    """Return all variants that compute a flow: no probe, not the queue's empty kernels. Peers have other tests."""
    without_flow = (plans.QueueOnly, replay.QueueFromC, peers.OnCpu, peers.OnGpu, sharded.Jax)
    return [
        v
        for v in LAB.all_variants()
        if not (grid.computes_nothing(v) or grid.left_out(v)) and v.plan not in without_flow
    ]


SIMULATING = simulating()
VARIANTS = [
    *(pytest.param(variant, id=variant.name) for variant in SIMULATING if variant.role != "sweep"),
    *(param for param in params(LAB.sweeps) if param.values[0] in SIMULATING),
]
LADDER = [pytest.param(variant, id=variant.name) for variant in SIMULATING if variant.role == "step"]


# -- against the reference ---------------------------------------------------------------------------------------------


def why_not(variant: Variant, size: str) -> str | None:
    """Return the expected reason why a variant is excused from a grid; the lab's own words are compared with it."""
    nx, ny = map(int, size.split("x"))
    if variant.options.get("powers_of_two") and (nx.bit_count(), ny.bit_count()) != (1, 1):
        return "not on this case: a side is not a power of two"
    if variant.name == "vectors" and nx < 16:
        return "not on this case: narrower than 16 cells"
    if variant.options.get("devices", 1) > ny:
        return "not on this case: fewer rows than devices"
    if isinstance(variant.plan, type) and issubclass(variant.plan, persistent.Persistent):
        rows = [rows for rows in range(1, ny + 1) if ny % rows == 0 and ny <= 128 * rows and nx * rows <= 640]
        if nx % 32 or not rows:
            return "not on this case: the grid does not fit the registers of one block per multiprocessor"
    if variant.name == "strips" and min(nx, ny) < 4:
        return "not on this case: a side is shorter than a pass has steps"
    if variant.name in WALKS and min(nx, ny) < 6:
        return "not on this case: a side is shorter than a walk has steps"
    if isinstance(variant.plan, type) and issubclass(variant.plan, fours.Fours) and nx % 4:
        return "not on this case: rows are no multiple of four cells"
    walks_by_warps = isinstance(variant.plan, type) and issubclass(variant.plan, walk_warps.WalkWarps)
    if walks_by_warps and nx % 2:
        return "not on this case: rows of an odd number of cells"
    least = 10 if variant.plan is walk_warps.WalkShared else 9
    if walks_by_warps and min(nx, ny) < least:
        return f"not on this case: a side is shorter than {least} cells"
    if variant.plan in (on_chip.DeepHalo, on_chip.DeepHaloBranchless) and not held_in_tiles(nx, ny):
        return "not on this case: the blocks that run at once do not hold the grid"
    if variant.plan is deep_halo_ptx.DeepHaloPtx and not held_in_tiles(nx, ny):
        return "not on this case: the groups that run at once do not hold the grid"
    if variant.plan is on_chip.Resident:
        rows = [
            rows for rows in range(4, ny + 1) if ny % rows == 0 and ny <= 128 * rows and nx * (24 * rows - 16) <= 232448
        ]
        if nx % 32 or not rows:
            return "not on this case: the blocks that run at once do not hold the grid"
    return by_make(missing(variant))


def held_in_tiles(nx: int, ny: int) -> bool:
    """Return whether 128 blocks at most hold the grid in equal tiles, with a halo of two cells or more, a cell a thread."""
    return any(
        nx // x * (ny // y) <= 128 and (x + 4) * (y + 4) <= 992
        for x in range(2, nx + 1) if nx % x == 0
        for y in range(2, ny + 1) if ny % y == 0
    )  # fmt: skip


def quick_size(variant: Variant) -> str:
    return FEW[1] if why_not(variant, FEW[0]) else FEW[0]


@pytest.mark.parametrize("quick", [True, pytest.param(False, marks=pytest.mark.thorough)], ids=["quick", "further"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_variant_lies_within_the_bound(device: Device, variant: Variant, quick: bool) -> None:
    """An odd number of steps, and twice an even one: the second run goes on from where the first ended.

    Variants that can go on from an odd step do; the others say that they cannot.
    """
    even_only = isinstance(variant.plan, type) and issubclass(variant.plan, (plans.InPlace, plans.GraphedSteps))
    for size in SIZES:
        if why_not(variant, size) or quick != (size == quick_size(variant)):
            continue
        for steps, times in ((7, 1), (4, 2), (1, 1) if even_only else (3, 2)):
            outputs = run(device, variant, case_of(size, steps), inputs_of(size), times)
            expected = dict(right(size, steps * times))
            assert outputs["f"].shape == expected["f"].shape and outputs["av_vels"].shape == (steps,)
            expected["av_vels"] = expected["av_vels"][-steps:]
            case = case_of(size, steps * times)
            measured, allowed, quantity = LAB.check(case, variant, outputs, expected)
            assert measured <= allowed, f"{size}, {steps} steps, {times} times: {quantity} is {measured:.3g}"
            if "unit_roundoff" not in variant.options:
                assert error(outputs["f"], expected["f"]) <= bound(case.units)


@pytest.mark.parametrize(
    "cut", [(16, 16, 4), (16, 16, 5), (16, 16, 2), (8, 16, 3), (8, 16, 4), (16, 32, 4), (8, 8, 4), (4, 4, 2)], ids=str
)
@pytest.mark.parametrize(
    "variant", named("deep-halo", "deep-halo-momentum", "deep-halo-branchless", "deep-halo-pause", "deep-halo-ptx")
)
def test_steps_between_two_exchanges_are_right_however_few_blocks_hold_the_grid(
    device: Device, variant: Variant, cut: tuple[int, int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Grids are one column of blocks (halos to the left and right are their own cells), one block, and a few."""
    if not variant.is_for(device.backend, device.kind):
        pytest.skip("NVIDIA GPUs only")
    is_declared = variant.plan is deep_halo_ptx.DeepHaloPtx and not deep_halo_ptx.gives_local(device)
    if is_declared and deep_halo_ptx.local_bytes(on_chip.Tiling(*cut)) > deep_halo_ptx.DECLARED_BYTES:
        pytest.skip("more than 48 KiB of local memory")
    for module in (on_chip, deep_halo_ptx):
        monkeypatch.setattr(module, "tiling_of", lambda *grid_and_units: on_chip.Tiling(*cut))
    params, obstacles = box(16, 32, 50)
    f = initial(params, np.float32)
    disturb(f, 1, 0.1)
    case = Case("16x32", "test", {**asdict(params), "check_steps": 50}, 50)
    outputs = run(device, variant, case, {"params": params, "obstacles": obstacles, "f": f})
    expected, av_vels = reference(params, obstacles, 50, f.astype(np.float64))
    assert error(outputs["f"], expected) <= bound(50)
    assert error_av_vels(outputs["av_vels"], av_vels) <= bound_av_vels(av_vels, int((~obstacles).sum()))


def test_a_variant_is_kept_from_a_backend_for_a_reason() -> None:
    """Graphs, NCCL, subgroups and .cu files are CUDA's and not OpenCL's. OpenCL's alone are vector loads, the host's one
    work-item, the bands of a CPU, and a host in another language. C for one thread is the host's."""
    for variant in simulating():
        with naming(variant.name):
            compare_backends(variant)


def compare_backends(variant: Variant) -> None:
    """Compare the backends of a variant with those that its plan and kernel allow."""
    assert isinstance(variant.plan, type)
    if variant.source is None:
        reason_against_opencl = variant.plan is plans.Native or issubclass(variant.plan, plans.GraphedSteps)
        reason_against_cuda = variant.plan is plans.Native
    else:
        cuda_only = variant.source.path.suffix == ".cu"
        reason_against_opencl = (
            cuda_only
            or variant.role == "base"
            or "subgroups" in variant.needs
            or issubclass(variant.plan, (plans.GraphedSteps, slabs.ByNccl, slabs.StoredGraph))
        )
        for_cpus = variant.options.get("device") == "host" or variant.plan in (bands.Bands, team.Team)
        reason_against_cuda = for_cpus or "vload16" in variant.source.resolve()
        reason_against_cuda |= issubclass(variant.plan, haskell.HaskellHost)
    assert ("opencl" not in variant.backends) == reason_against_opencl
    assert ("cuda" not in variant.backends) == reason_against_cuda


def test_the_grids_reach_every_variant_and_every_reason() -> None:
    reasons: dict[str, list[str | None]] = {}
    for variant in simulating():
        reasons[variant.name] = [why_not(variant, size) for size in SIZES]
        assert [LAB.skip_reason(variant, case_of(size, 7)) for size in SIZES] == reasons[variant.name], variant.name
        runs = why_not(variant, quick_size(variant)) is None
        assert runs or missing(variant), f"{variant.name} runs on no grid of the quick tests"
    for name in (
        "bit-neighbours",
        "vectors",
        "persistent",
        "strips",
        "deep-halo",
        "deep-halo-ptx",
        "on-chip",
        "on-chip-momentum",
        *WALKS,
    ):
        assert any(reasons[name]), f"{name} is excused from no grid of this file"


@pytest.mark.parametrize("variant", named("kept-partials", "chunks-1792", "flat-grid", "vectors", "in-place"))
@pytest.mark.parametrize("chunk", [1, 3, 7, 8])
def test_chunks_that_do_not_divide_the_steps(device: Device, variant: Variant, chunk: int) -> None:
    chunked = replace(variant, options={**variant.options, "chunk": chunk})
    outputs = run(device, chunked, case_of("33x130", 7), inputs_of("33x130"))
    measured, allowed, quantity = LAB.check(case_of("33x130", 7), chunked, outputs, right("33x130", 7))
    assert measured <= allowed, f"{quantity} is {measured:.3g}"


@pytest.mark.parametrize("name", ["compared-neighbours", "warps-momentum", "fours-graph"])
@pytest.mark.parametrize("size", ["40x24", "64x64", "16x3"])
def test_the_arithmetic_of_a_graphed_step_is_right_without_its_graph(device: Device, name: str, size: str) -> None:
    graphed = LAB.variant(name)
    plan = fours.Fours if name == "fours-graph" else plans.KeptPartials
    source = graphed.text.with_knobs(PARTIALS="KEPT", REDUCE="TREE")
    variant = replace(graphed, needs=frozenset(), source=source, plan=plan)
    outputs = run(device, variant, case_of(size, 7), inputs_of(size))
    measured, allowed, quantity = LAB.check(case_of(size, 7), variant, outputs, right(size, 7))
    assert measured <= allowed, f"{quantity} is {measured:.3g}"


@pytest.mark.parametrize("size", ["40x24", "64x64", "16x3"])
def test_the_arithmetic_of_early_launches_is_right_one_after_the_other(
    device: Device, size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[str] = []

    def build_without_waits(text: str, options: Sequence[str] = ()) -> Program:
        built.append(re.sub(r'asm volatile\("griddepcontrol[^)]*\);', "", text))
        return build(built[-1], options)

    build = device.build
    monkeypatch.setattr(device, "build", build_without_waits)
    early = LAB.variant("early-launch")
    source = early.text.with_knobs(PARTIALS="KEPT", REDUCE="TREE")
    variant = replace(early, needs=frozenset(), source=source, plan=plans.KeptPartials)
    outputs = run(device, variant, case_of(size, 7), inputs_of(size))
    assert not any("griddepcontrol" in text for text in built)
    measured, allowed, quantity = LAB.check(case_of(size, 7), variant, outputs, right(size, 7))
    assert measured <= allowed, f"{quantity} is {measured:.3g}"


@pytest.mark.parametrize("value", [1.0, np.nan])
def test_a_wrong_result_says_which_quantity_is_wrong(value: float) -> None:
    case, expected = case_of("33x130", 7), right("33x130", 7)
    for name, quantity in (("f", "population"), ("av_vels", "mean speed")):
        outputs = {"f": expected["f"], "av_vels": expected["av_vels"], name: expected[name] + value}
        measured, allowed, message = LAB.check(case, LAB.variant("fused"), outputs, expected)
        assert not measured <= allowed and quantity in message and message.endswith(", over its tolerance")


def test_long_samples_of_the_chunks_reach_their_second_chunk(device: Device) -> None:
    for name, chunk in (("chunks-1792", 1792), ("chunks-3584", 3584)):
        assert LAB.units(LAB.cases("quick")[0], LAB.variant(name), device) > chunk
    wide = LAB.case("1024x1024", "quick")
    assert LAB.skip_reason(LAB.variant("chunks-1792"), wide) == (
        "not on this case at this scale: a sample has fewer time steps than a chunk"
    )
    assert LAB.skip_reason(LAB.variant("chunks-1792"), LAB.case("1024x1024", "published")) is None


@pytest.mark.parametrize("variant", LADDER)
def test_a_push_that_would_empty_a_population_is_refused(device: Device, variant: Variant) -> None:
    """With accel = 1 the noise decides, cell by cell, whether there is enough to take from."""
    size = quick_size(variant)
    if why_not(variant, size) or "unit_roundoff" in variant.options:
        pytest.skip("fp16 rounds the comparison itself")
    params, obstacles, start = problem(size)
    params = replace(params, accel=1.0, omega=1.0)
    before = start[[3, 6, 7], -2][:, ~obstacles[-2]] > 0.1 * np.array([[1 / 9], [1 / 36], [1 / 36]])
    assert 0.05 < before.all(axis=0).mean() < 0.5, "some cells are pushed, most are not"
    case = Case(size, "test", asdict(params), 2)
    outputs = run(device, variant, case, {"params": params, "obstacles": obstacles, "f": start})
    expected, av_wanted = reference(params, obstacles, 2, start)
    assert error(outputs["f"], expected) <= bound(2)
    np.testing.assert_allclose(outputs["av_vels"], av_wanted, rtol=1e-5)


def test_the_probe_changes_nothing_and_is_checked_for_it(device: Device) -> None:
    variant, size = LAB.variant("no-compute"), "17x9"
    case = LAB.verification_case(case_of(size, 7), variant)
    assert case.units == 6, "after an even number of steps the first grid is in its place again"
    outputs = run(device, variant, case, inputs_of(size))
    np.testing.assert_array_equal(outputs["f"], problem(size)[2])
    assert np.isnan(outputs["av_vels"]).all(), "sums that no kernel has written"
    assert LAB.check(case, variant, outputs, right(size, 6))[:2] == (0.0, 0.0)
    computed = run(device, LAB.variant("soa"), case, inputs_of(size))
    assert LAB.check(case, variant, computed, right(size, 6))[0] > 1e-4


def test_a_probe_without_steps_may_change_the_driven_row_alone() -> None:
    size, probe = "40x24", LAB.variant("deep-halo-exchange")
    case, expected = case_of(size, 5), right(size, 5)
    f = expected["start"].copy()
    f[1, -2] += 1e-3
    outputs = {"f": f, "av_vels": np.zeros(5)}
    assert LAB.check(case, probe, outputs, expected)[:2] == (0.0, 0.0)
    assert LAB.check_timed(replace(case, units=100), probe, outputs, lambda small: expected)[:2] == (0.0, 0.0)
    assert LAB.check(case, probe, {**outputs, "f": expected["f"]}, expected)[0] > 0
    for speeds in (
        np.full(5, np.nan),
        np.array([0, 0, 0, 0, np.nan]),
        np.array([0, 0, 1e-9, 0, 0]),
        expected["av_vels"],
    ):
        for units in (5, 100):
            unstored = {**outputs, "av_vels": speeds}
            measured, allowed, _ = LAB.check_timed(replace(case, units=units), probe, unstored, lambda small: expected)
            assert not measured <= allowed
    assert not LAB.check(case, probe, {**outputs, "f": np.full_like(f, np.nan)}, expected)[0] <= 0


@pytest.mark.parametrize("name", ["deep-halo-no-waits", "on-chip-no-waits"])
def test_a_probe_without_waits_is_verified_by_its_first_step(name: str) -> None:
    size, probe = "40x24", LAB.variant(name)
    case = LAB.verification_case(case_of(size, 5), probe)
    assert case.units == 1
    expected, later = right(size, 1), right(size, 5)
    outputs = {"f": expected["f"], "av_vels": expected["av_vels"]}
    measured, allowed, _ = LAB.check(case, probe, outputs, expected)
    assert measured <= allowed
    for speeds, is_accepted in (
        (expected["av_vels"] * 1.05, True), (expected["av_vels"] * 1.2, False), (expected["av_vels"] * np.nan, False)
    ):  # fmt: skip
        outputs = {"f": later["f"], "av_vels": np.append(speeds, np.full(99, np.nan))}
        measured, allowed, _ = LAB.check_timed(replace(case, units=100), probe, outputs, lambda small: expected)
        assert (measured <= allowed) == is_accepted


QUEUED = [pytest.param(v, id=v.name) for v in LAB.all_variants() if v.plan is plans.QueueOnly]


@pytest.mark.parametrize("variant", QUEUED)
def test_queued_kernels_see_all_their_arguments(device: Device, variant: Variant) -> None:
    case = LAB.cases("test")[0]
    runnable = make(device, variant, Case(case.name, "test", case.params, 20), {})
    runnable.reset()
    start = time.perf_counter()
    assert 0 < runnable.run() < time.perf_counter() - start  # type: ignore[operator]
    outputs = runnable.outputs()
    assert outputs["arguments"].tolist() == [variant.options["count"]]
    assert LAB.check(case, variant, outputs, {})[:2] == (0.0, 0.0)
    assert LAB.check(case, variant, {"arguments": np.array([-1])}, {})[0] > 0
    assert LAB.units(case, variant, device) == 50
    assert LAB.skip_reason(variant, case) is None
    other_case = LAB.case("1024x1024", "quick")
    assert LAB.skip_reason(variant, other_case) == "not on this case: queue time does not depend on the grid"


# -- the check itself --------------------------------------------------------------------------------------------------


def test_the_check_refuses_what_is_wrong() -> None:
    size, steps = "40x24", 5
    case, expected, variant = case_of(size, steps), right(size, steps), LAB.variant(LAB.best)

    def refused(f: Array, av_vels: Array, by: Variant = variant) -> bool:
        measured, allowed, _ = LAB.check(case, by, {"f": f, "av_vels": av_vels}, expected)
        return not measured <= allowed

    f, av_vels = expected["f"], expected["av_vels"]
    later, one = right(size, steps + 1), f.copy()
    one[3, 11, 7] *= 1 + 1e-4
    further_mistakes = [
        ("a step more", {"f": later["f"], "av_vels": av_vels}),
        ("the speeds of a step later", {"f": f, "av_vels": later["av_vels"][1:]}),
        ("two directions exchanged", {"f": f[[0, 2, 1, 3, 4, 5, 6, 7, 8]], "av_vels": av_vels}),
        ("speeds 1e-4 too large", {"f": f, "av_vels": av_vels * (1 + 1e-4)}),
        ("a population 1e-4 too large", {"f": one, "av_vels": av_vels}),
        ("directions last", {"f": f.transpose(1, 2, 0), "av_vels": av_vels}),
    ]
    outputs = {"f": f, "av_vels": av_vels}
    mutants.all_refused(lambda outputs: LAB.check(case, variant, outputs, expected), outputs, 1e-3, further_mistakes)
    half = LAB.variant("half-storage")
    assert refused(later["f"], av_vels, half) and refused(f, later["av_vels"][1:], half)


def test_half_storage_is_coarser_than_single_and_within_its_own_bound(device: Device) -> None:
    outputs = run(device, LAB.variant("half-storage"), case_of("64x64", 6), inputs_of("64x64"))
    state = error(outputs["f"], right("64x64", 6)["f"])
    assert bound(6) < state < right("64x64", 6)["allowed"][True].largest / 3


# -- physics -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variant", LADDER + named("openmp", "given-c"))
def test_mass_is_conserved(device: Device, variant: Variant) -> None:
    size = quick_size(variant)
    start = mass(problem(size)[2])
    after = mass(run(device, variant, case_of(size, 20), inputs_of(size))["f"])
    allowed = 1e-5 if "unit_roundoff" in variant.options else 20 * UNIT_ROUNDOFF
    assert abs(after / start - 1) <= allowed


@pytest.mark.parametrize("variant", LADDER + named("openmp", "given-c"))
def test_momentum_is_conserved_where_nothing_stands_or_pushes(device: Device, variant: Variant) -> None:
    size = quick_size(variant)
    params = replace(problem(size)[0], accel=0.0)
    noise = np.random.default_rng(3).uniform(0.9, 1.1, (9, params.ny, params.nx)).astype(np.float32)
    start = initial(params, np.float32) * noise
    start[1] *= np.float32(1.2)  # a wind from the west
    inputs = {"params": params, "obstacles": np.zeros((params.ny, params.nx), bool), "f": start}
    after = run(device, variant, Case(size, "test", asdict(params), 20), inputs)["f"]
    was, now = np.array(momentum(start)) / mass(start), np.array(momentum(after)) / mass(start)
    assert was[0] > 0.01
    allowed = (20 if "unit_roundoff" in variant.options else 2) * UNIT_ROUNDOFF
    np.testing.assert_allclose(now, was, rtol=0, atol=allowed)


FILES = named(
    "sequential", "ported", "fused", LAB.best, "vectors", "several-steps", "paired", "team", "team-neighbours", "in-place",
    "half-storage", "graph", "persistent", "strips", "deep-halo", "deep-halo-momentum", "deep-halo-branchless", "on-chip",
    "on-chip-momentum", "walk-down", "walk-momentum", "deep-halo-ptx", "walk-warps", "walk-shared", "fours", "slab",
    "halo-overlapped",
)  # fmt: skip
"""One variant of each kernel file, and each variant with another data flow."""


@pytest.mark.parametrize("variant", FILES)
def test_a_taylor_green_vortex_decays_as_it_should(device: Device, variant: Variant) -> None:
    nx, ny, steps = 32, 32, 200
    params = Params(nx, ny, steps, 1, 0.1, 0.0, 1.5)
    start = taylor_green(nx, ny, 0.05)
    inputs = {"params": params, "obstacles": np.zeros((ny, nx), bool), "f": start.astype(np.float32)}
    outputs = run(device, variant, Case("32x32", "test", asdict(params), steps), inputs)
    decay = taylor_green_decay(params.viscosity, 2 * math.pi / nx, 2 * math.pi / ny, steps)
    assert 0.1 < decay < 0.5
    _, ux, uy = macroscopic(outputs["f"])
    _, ux0, uy0 = macroscopic(start)
    assert np.hypot(ux - decay * ux0, uy - decay * uy0).max() < 0.03 * decay * np.hypot(ux0, uy0).max()
    assert outputs["av_vels"][-1] / np.hypot(ux0, uy0).mean() == pytest.approx(decay, rel=0.02)


@pytest.mark.parametrize("variant", named(LAB.best, "in-place"))
def test_the_driven_channel_settles_to_a_straight_line(device: Device, variant: Variant) -> None:
    params = Params(4, 14, 2500, 1, 0.1, 0.005, 1.0)
    obstacles = np.zeros((14, 4), bool)
    obstacles[[0, -1]] = True
    inputs = {"params": params, "obstacles": obstacles, "f": initial(params, np.float32)}
    outputs = run(device, variant, Case("4x14", "test", asdict(params), params.iterations + 1), inputs)
    _, ux, uy = macroscopic(outputs["f"])
    expected = driven_channel(params)
    assert expected.max() > 1e-3
    for column in ux.T:
        np.testing.assert_allclose(column[1:-2], expected, rtol=2e-3)
    assert np.abs(uy[1:-1]).max() < 1e-3 * expected.max()
    av_vels = outputs["av_vels"]
    assert av_vels[-1] == pytest.approx(av_vels[-100], rel=1e-4) and av_vels[-1] > 5 * av_vels[0]


# -- same kernels, same bits -------------------------------------------------------------------------------------------


def only_scheduled_otherwise() -> list[Any]:
    """Return pairs of variants that launch the same kernels for the same work-groups, from different host loops."""
    first: dict[tuple[str, str], Variant] = {}
    pairs = []
    for variant in simulating():
        if (
            variant.source is None or variant.role == "base" or "fast_math" in variant.options
        ):  # may be rounded otherwise
            continue
        if "devices" in variant.options:  # each of several adds up its own rows: test_slabs.py
            continue
        group = str(variant.options.get("group", (64, 1)))
        earlier = first.setdefault((variant.source.sha256, group), variant)
        if earlier is not variant:
            pairs.append(pytest.param(earlier, variant, id=f"{earlier.name}, {variant.name}"))
    for variant in simulating():
        if isinstance(variant.plan, type) and issubclass(variant.plan, plans.GraphedSteps):
            assert variant.parent
            parent = LAB.variant(variant.parent)
            if variant.source is None or parent.source is None:
                continue
            changed = {name for name, _ in variant.source.settings.items() ^ parent.source.settings.items()}
            if changed == {"PARTIALS"}:  # the same arithmetic in the same order
                pairs.append(pytest.param(parent, variant, id=f"{parent.name}, {variant.name}"))
    return pairs


def test_the_pairs_that_must_agree_are_found() -> None:
    pairs = {tuple(variant.name for variant in param.values) for param in only_scheduled_otherwise()}
    assert pairs >= {
        ("ported", "no-finish"), ("kept-partials", "chunks-1792"), ("kept-partials", "chunks-3584"),
        ("flat-grid", "c-host"), ("flat-grid", "haskell-host"), ("flat-grid", "flat-grid@wg=64x1"), ("flat-grid", "graph"),
        ("in-place", "in-place-graph"), ("half-storage", "half-storage-graph"), ("fours-momentum", "fours-graph"),
        ("bands", "several-steps"),
    }  # fmt: skip


@pytest.mark.parametrize(("one", "rescheduled"), only_scheduled_otherwise())
@pytest.mark.parametrize("steps", [7, 12])
def test_scheduling_alone_changes_no_bit(device: Device, one: Variant, rescheduled: Variant, steps: int) -> None:
    chunk = {"chunk": 5} if "chunk" in rescheduled.options else {}
    rescheduled = replace(rescheduled, options={**rescheduled.options, **chunk})
    size = "64x64" if why_not(one, "63x31") else "63x31"
    results = [run(device, v, case_of(size, steps), inputs_of(size)) for v in (one, rescheduled)]
    python, other = results
    np.testing.assert_array_equal(python["f"], other["f"])
    adds_in_c = isinstance(rescheduled.plan, type) and issubclass(rescheduled.plan, replay.ReadFromC)
    np.testing.assert_allclose(python["av_vels"], other["av_vels"], rtol=1e-6 if adds_in_c else 0)


@pytest.mark.parametrize("scale", ["test", pytest.param("published", marks=pytest.mark.thorough)])
def test_the_shape_of_a_work_group_changes_no_population(device: Device, scale: str) -> None:
    """Only the order in which the speeds are added up depends on it."""
    (sweep,) = (s for s in LAB.sweeps if s.axis == "wg")
    best = run(device, LAB.variant(LAB.best), case_of("33x130", 4), inputs_of("33x130"))
    for variant in sweep.at_scale(scale):
        if math.prod(variant.options["group"]) <= device.max_work_group:
            shaped = run(device, variant, case_of("33x130", 4), inputs_of("33x130"))
            np.testing.assert_array_equal(shaped["f"], best["f"], err_msg=variant.name)


def test_a_run_again_from_a_reset_gives_the_same_bits(device: Device) -> None:
    runnable = make(device, LAB.variant("in-place"), case_of("17x9", 6), inputs_of("17x9"))
    seen = []
    for _ in range(2):
        runnable.reset()
        assert np.isnan(runnable.outputs()["av_vels"]).all()
        runnable.run()
        seen.append(runnable.outputs())
    np.testing.assert_array_equal(seen[0]["f"], seen[1]["f"])
    np.testing.assert_array_equal(seen[0]["av_vels"], seen[1]["av_vels"])


def test_a_turned_grid_is_not_gone_on_from(device: Device) -> None:
    runnable = make(device, LAB.variant("in-place"), case_of("17x9", 3), inputs_of("17x9"))
    runnable.reset()
    runnable.run()
    with pytest.raises(AssertionError, match="an odd number of steps leaves the grid turned"):
        runnable.run()


def test_what_goes_on_from_even_steps_only_is_timed_on_even_steps(device: Device) -> None:
    for scale in ("quick", "published", "large", "test"):
        for case in LAB.cases(scale):
            for variant in LAB.ladder:
                assert isinstance(variant.plan, type)
                if issubclass(variant.plan, (plans.InPlace, plans.GraphedSteps)):
                    assert LAB.units(case, variant, device) % 2 == 0, (scale, case.name, variant.name)
