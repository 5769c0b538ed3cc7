"""The grid on several devices: the same bits in each cell as on one, however the rows divide and the halos travel.

On a CPU the devices are its parts. Where it has too few cores for as many as are asked for, parts share them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, Unsupported
from roofbook.labs.lbm import LAB, slabs
from roofbook.labs.lbm.problem import Array
from roofbook.spec.plan import Variant

from .test_variants import case_of, inputs_of, named, problem, right, run

NAMES = [step.name for step in slabs.STEPS if "devices" in step.options]
AWKWARD = ["1x3", "5x4", "63x31", "33x130", "17x9", "64x64"]
"""Grids (columns x rows): as many rows as devices, one more, primes, rows shorter and a bit longer than a group, and halves."""


def on(variant: Variant, devices: int, **options: Any) -> Variant:
    return replace(variant, options={**variant.options, "devices": devices, "overlapping": True, **options})


def outputs_of(device: Device, variant: Variant, size: str, steps: int, times: int = 1) -> dict[str, Array]:
    if device.kind == "gpu":
        try:
            device.several(variant.options["devices"])
        except Unsupported as fewer:
            pytest.skip(str(fewer))
    return run(device, variant, case_of(size, steps), inputs_of(size), times)


@cache
def on_one(device: Device, name: str, size: str) -> dict[str, Array]:
    """Return the outputs of a step for one device after 5 steps, and 5 more."""
    return outputs_of(device, LAB.variant(name), size, 5, times=2)


@pytest.mark.parametrize("devices", [1, 2, 3])
@pytest.mark.parametrize("variant", named(*NAMES))
def test_each_cell_has_the_bits_that_it_has_on_one_device(device: Device, variant: Variant, devices: int) -> None:
    """Compare outputs after an odd number of steps, then as many again from there."""
    for size in AWKWARD:
        one = on_one(device, "slab", size)
        several = outputs_of(device, on(variant, devices), size, 5, times=2)
        np.testing.assert_array_equal(several["f"], one["f"], err_msg=size)
        np.testing.assert_allclose(several["av_vels"], one["av_vels"], rtol=2e-7, err_msg=size)
        if device.kind == "cpu":  # a GPU's compiler may fuse other products and sums in another kernel
            np.testing.assert_array_equal(one["f"], on_one(device, LAB.best, size)["f"], err_msg=size)


@pytest.mark.parametrize("variant", named("halo-direct", "halo-overlapped", "halo-stored", "halo-stored-overlapped"))
def test_no_device_runs_ahead_of_its_neighbours(device: Device, variant: Variant) -> None:
    """Many short steps on slabs of unlike height: a row that is overwritten or read too early shows in some cell."""
    one = outputs_of(device, LAB.variant("slab"), "16x4", 400)
    several = outputs_of(device, on(variant, 3), "16x4", 400)
    np.testing.assert_array_equal(several["f"], one["f"])


@pytest.mark.parametrize("chunk", [1, 3, 7])
def test_partial_sums_are_added_up_in_chunks_too(device: Device, chunk: int) -> None:
    variant = on(LAB.variant("halo-overlapped"), 2, chunk=chunk)
    case = case_of("33x130", 7)
    measured, allowed, quantity = LAB.check(case, variant, outputs_of(device, variant, "33x130", 7), right("33x130", 7))
    assert measured <= allowed, f"{quantity} is {measured:.3g}"


def test_a_halo_that_is_not_brought_is_seen(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    """One of a slab's two halos, in one step: its row is of two steps before, or was never written."""
    fetch, calls = slabs.Direct.fetch, 0

    def forgetful(self: slabs.Direct, at: int, queue: Any, state: int) -> None:
        nonlocal calls
        calls += 1
        if calls != 4:
            fetch(self, at, queue, state)

    monkeypatch.setattr(slabs.Direct, "fetch", forgetful)
    variant = on(LAB.variant("halo-direct"), 2)
    outputs = outputs_of(device, variant, "17x9", 7)
    measured, allowed, _ = LAB.check(case_of("17x9", 7), variant, outputs, right("17x9", 7))
    assert calls == 14 and not measured <= allowed


def test_a_row_says_how_many_devices_took_part_and_which(device: Device) -> None:
    variant = on(LAB.variant("halo-direct"), 3)
    outputs_of(device, variant, "17x9", 1)
    runnable = variant.plan(device, variant, case_of("17x9", 1), inputs_of("17x9"))
    facts = runnable.facts()
    runnable.close()
    assert facts["devices"] == 3 and facts["rows"] == [3, 3, 3] and len(set(facts["took_part"])) == 3
    assert all(
        label.startswith(device.spec if device.kind == "cpu" else device.backend) for label in facts["took_part"]
    )
    assert LAB.conditions(variant) == ("runs on 3 devices",) and LAB.conditions(LAB.variant("slab")) == ()
    assert variant.fingerprint()["options"]["devices"] == "3"


def test_more_devices_than_rows_or_than_there_are_is_said(device: Device) -> None:
    many = on(LAB.variant("halo-direct"), 10)
    assert LAB.skip_reason(many, case_of("17x9", 1)) == "not on this case: fewer rows than devices"
    for options, message in (
        ({"devices": 10}, r"^10 devices: the grid has 9 rows$"),
        ({"devices": 4, "cores": device.compute_units}, r"^4 (parts of \d+: .* has \d+|devices of this model: .*)$"),
    ):
        with pytest.raises(Unsupported, match=message):
            variant = replace(many, options=options)
            variant.plan(device, variant, case_of("17x9", 1), inputs_of("17x9"))


@pytest.mark.parametrize(("ny", "count"), [(9, 2), (31, 3), (4, 4), (130, 7)])
def test_rows_are_shared_out_evenly_and_one_has_the_drive(ny: int, count: int, device: Device) -> None:
    params, shares = replace(problem("17x9")[0], ny=ny), slabs.shares(ny, count)
    assert [row for share in shares for row in share] == list(range(ny)) and len(shares) == count
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    slabs_of_device = [slabs.Slab(device, slabs.SLAB, params, share, 64, 1) for share in shares]
    assert [slab.driven + slab.rows.start for slab in slabs_of_device if slab.driven >= 0] == [ny - 2]


class ResubmittedGraph:
    """Graph that submits the recorded work anew, for a backend that has none."""

    def __init__(self, submit: Callable[[], None]) -> None:
        self.launch = submit


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 10, 13])
def test_recorded_steps_and_those_after_them_are_the_steps_of_the_plain_loop(
    device: Device, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Graphs have four steps: none, one or several are submitted, and the remaining steps one by one."""
    graph = LAB.variant("halo-stored-graph")
    if device.kind == "cpu":
        monkeypatch.setattr(type(device.queue()), "record", lambda self, submit: ResubmittedGraph(submit))
        graph = replace(graph, needs=slabs.SEVERAL)
    monkeypatch.setattr(slabs.StoredGraph, "recorded", 4)
    plain = outputs_of(device, on(LAB.variant("halo-stored-overlapped"), 3), "33x130", steps, times=2)
    graphed = outputs_of(device, on(graph, 3), "33x130", steps, times=2)
    np.testing.assert_array_equal(graphed["f"], plain["f"])
    np.testing.assert_array_equal(graphed["av_vels"], plain["av_vels"])
