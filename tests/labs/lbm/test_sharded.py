"""JAX's step against the float64 reference, on one device and shared out over several, and its messages when it cannot run.

The devices are JAX's own of the host: parts of one CPU, which exchange rows as GPUs do.
"""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.labs.lbm import LAB
from roofbook.labs.lbm.problem import bound, bound_av_vels, error, error_av_vels, reference
from roofbook.labs.lbm.sharded import Jax
from roofbook.spec.plan import Variant, missing

from .test_peers import RUNS, case_of, problem

needs_jax = pytest.mark.skipif(Jax.missing() is not None, reason=str(Jax.missing()))


@pytest.fixture(scope="module")
def parts() -> None:
    """Four devices of the host, set in JAX before it opens any."""
    import jax

    jax.config.update("jax_num_cpu_devices", 4)


def on(devices: int) -> Variant:
    return Variant("jax", None, None, Jax, "", "", role="peer", options={"devices": devices})


@needs_jax
@pytest.mark.parametrize(
    ("size", "devices"), [("1x2", 1), ("1x2", 2), ("5x4", 2), ("5x4", 4), ("17x9", 3), ("33x130", 2), ("40x24", 1)]
)
def test_it_lies_within_the_bounds_on_any_number_of_devices(parts: None, size: str, devices: int) -> None:
    inputs, variant = problem(size), on(devices)
    start, fluid = inputs["f"].copy(), int((~inputs["obstacles"]).sum())
    for steps, times in RUNS:
        run = variant.plan(host_cpu(), variant, case_of(inputs, steps), inputs)
        run.run()
        run.reset()
        assert np.isnan(run.outputs()["av_vels"]).all()
        for _ in range(times):
            run.run()
        outputs, facts = run.outputs(), run.facts()
        run.close()
        f, speeds = reference(inputs["params"], inputs["obstacles"], steps * times, start)
        assert error(outputs["f"], f) <= bound(steps * times), f"{steps} steps, {times} times"
        assert error_av_vels(outputs["av_vels"], speeds[-steps:]) <= bound_av_vels(speeds, fluid)
        assert facts["devices"] == devices == len({*facts["took_part"]})
        assert (inputs["f"] == start).all(), "the inputs are the lab's"


@needs_jax
def test_several_devices_compute_what_one_does(parts: None) -> None:
    """The populations are equal bit for bit; the mean speeds are added up in another order."""
    inputs, outputs = problem("33x130"), []
    for devices in (1, 2):
        run = Jax(host_cpu(), on(devices), case_of(inputs, 9), inputs)
        run.run()
        outputs.append(run.outputs())
        run.close()
    assert (outputs[0]["f"] == outputs[1]["f"]).all()
    np.testing.assert_allclose(outputs[0]["av_vels"], outputs[1]["av_vels"], rtol=1e-5)


@needs_jax
@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (3, "JAX gives each of 3 devices as many rows, and the grid has 130"),
        (5, "JAX has 4 of 5 devices"),
    ],
)
def test_what_cannot_be_shared_out_is_said(parts: None, devices: int, message: str) -> None:
    inputs = problem("33x130")
    with pytest.raises(Unsupported, match=message):
        Jax(host_cpu(), on(devices), case_of(inputs, 1), inputs)


@needs_jax
def test_the_labs_own_row_passes_the_labs_own_check(parts: None) -> None:
    case, variant = LAB.cases("test")[0], LAB.variant("jax-cpu")
    small = LAB.verification_case(case, variant)
    inputs = LAB.inputs(small, 20)
    run = variant.plan(host_cpu(), variant, small, inputs)
    run.run()
    over, most, _ = LAB.check(small, variant, run.outputs(), LAB.reference(small, inputs))
    run.close()
    assert over <= most


def test_the_rows_say_on_how_many_devices_they_ran() -> None:
    assert LAB.conditions(LAB.variant("jax-sharded")) == ("runs on 2 devices",)
    assert LAB.conditions(LAB.variant("jax")) == LAB.conditions(LAB.variant("jax-cpu")) == ()


def test_a_missing_package_is_an_excuse(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec

    def without(name: str, *arguments: Any) -> Any:
        return None if name == "jax" else find(name, *arguments)

    monkeypatch.setattr(importlib.util, "find_spec", without)
    variant = LAB.variant("jax-cpu")
    assert missing(variant) == "JAX is not installed: pip install 'roofbook[peers]'"
    inputs = problem("5x4")
    with pytest.raises(Unsupported, match="JAX is not installed"):
        Jax(host_cpu(), variant, case_of(inputs, 1), inputs)
