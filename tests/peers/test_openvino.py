"""OpenVINO's networks against the references, and their message when they cannot run."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Unsupported
from roofbook.devices.find import host_cpu
from roofbook.labs.convpool import LAB
from roofbook.peers import openvino
from roofbook.spec.plan import LAID_OUT

needs_openvino = pytest.mark.skipif(openvino.missing() is not None, reason=str(openvino.missing()))
CASES = ["5x7x9x9-k3", "3x2x7x7-k5-w40", "17x33x12x12-k1-w0-x0"]


def ready(name: str, case: str, inputs: Any = None) -> Any:
    """Return a peer of convpool ready to run, or skip the test where OpenVINO has no such code for this CPU."""
    size, variant = LAB.case(case, "test"), LAB.variant(f"openvino-{name}")
    try:
        return variant.plan(host_cpu(), variant, size, inputs or LAB.inputs(size, seed=5))
    except Unsupported as lacking:
        if "OpenVINO has no convolution in" not in str(lacking):
            raise
        pytest.skip(str(lacking))


@needs_openvino
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("precision", openvino.HINTS)
def test_the_layer_is_right_in_each_precision(precision: str, case: str) -> None:
    peer, size, variant = ready(precision, case), LAB.case(case, "test"), LAB.variant(f"openvino-{precision}")
    peer.reset()
    assert np.isnan(peer.outputs()["out"]).all()
    assert peer.run() is None, "the caller takes the time"
    right = LAB.reference(size, LAB.inputs(size, seed=5))
    error, tolerance, compared = LAB.check(size, variant, peer.outputs(), right)
    assert error <= tolerance, compared
    facts = peer.facts()
    assert facts["openvino"] and facts["threads"] >= 1
    assert facts["mode"].endswith(openvino.PRIMITIVES[precision])
    peer.close()


@needs_openvino
def test_values_that_fit_no_byte_are_refused_in_int8() -> None:
    size = LAB.case(CASES[0], "test")
    inputs = {name: array * 100 for name, array in LAB.inputs(size, seed=5).items()}
    with pytest.raises(Unsupported, match=r"^values of up to \d+: a byte holds 127$"):
        ready("int8", CASES[0], inputs)


def test_its_weights_are_laid_out_beforehand_and_bf16_may_round_results() -> None:
    conditions = {name: LAB.variant(f"openvino-{name}") for name in openvino.HINTS}
    said = {name: variant.plan.conditions(variant) for name, variant in conditions.items()}
    assert said == {"fp32": (LAID_OUT,), "bf16": ("rounds results to bf16", LAID_OUT), "int8": (LAID_OUT,)}


def test_a_missing_package_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert openvino.missing() == "OpenVINO is not installed: pip install 'roofbook[peers]'"
    size, variant = LAB.case(CASES[0], "test"), LAB.variant("openvino-fp32")
    with pytest.raises(Unsupported, match=r"^OpenVINO is not installed: pip install 'roofbook\[peers\]'$"):
        variant.plan(host_cpu(), variant, size, LAB.inputs(size, seed=5))
