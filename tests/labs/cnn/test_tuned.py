"""The layer by cuDNN's fused convolution: right in each precision, with results as a step leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.labs.cnn import LAB, tuned
from roofbook.peers import pytorch
from roofbook.spec.lab import LAID_OUT

needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))
NAMES = ("cudnn-fused-fp32", "cudnn-fused", "cudnn-fused-prepared")


@needs_torch
@pytest.mark.parametrize("name", NAMES)
def test_it_is_right_and_converts_operands_in_its_time_unless_they_are_prepared(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    import torch

    def convolution(x: Any, weight: Any, bias: Any, *shape: Sequence[int] | int) -> Any:
        assert shape == ((1, 1), (0, 0), (1, 1), 1)
        seen.append((x.dtype, x.is_contiguous(memory_format=torch.channels_last)))
        return torch.relu(torch.conv2d(x, weight, bias))

    seen: list[Any] = []
    monkeypatch.setattr(torch, "cudnn_convolution_relu", convolution)
    variant, case = LAB.variant(name), LAB.case("16to8ch-7x9-k3")
    given = LAB.inputs(case, 4)
    peer: Any = variant.plan(host_cpu(), replace(variant, options={**variant.options, "compile": False}), case, given)
    peer.reset()
    assert np.isnan(peer.outputs()["out"]).all()
    peer.run()
    assert LAB.check(case, variant, peer.outputs(), LAB.reference(case, given))[0] <= 1
    assert peer.out.dtype == torch.float32 and peer.out.is_contiguous()
    single = name == "cudnn-fused-fp32"
    assert seen == [(torch.float32, False) if single else (torch.float16, True)]
    assert (peer.x.dtype == torch.float16) == (name == "cudnn-fused-prepared")


def test_they_are_compared_with_the_steps_that_do_the_same() -> None:
    said = {name: {*LAB.conditions(LAB.variant(name))} for name in ("tensor-cluster", "tensor-relaxed", "tensor-split")}
    rounds = {"rounds results to fp16"}
    assert {*LAB.conditions(LAB.variant("cudnn-fused"))} == said["tensor-cluster"] | rounds
    for name in ("cudnn-fused-prepared", "torch-autotuned"):
        assert {*LAB.conditions(LAB.variant(name))} == said["tensor-relaxed"] | rounds
    assert {*LAB.conditions(LAB.variant("cudnn-fused-fp32"))} == said["tensor-split"] == set()
    assert LAB.conditions(LAB.variant("cudnn-fused-tf32-prepared")) == LAB.conditions(LAB.variant("tensor-tf32"))
    assert LAID_OUT not in LAB.conditions(LAB.variant("cudnn-fused-tf32"))


def test_channels_that_do_not_fit_are_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "missing", lambda: None)
    fused = [variant for variant in LAB.peers if variant.plan is tuned.FusedConvolution]
    for name, fits in (("16to8ch-7x9-k3", True), ("12to8ch-7x9-k3", False), ("8to12ch-7x9-k3", False)):
        whys = {LAB.skip_reason(variant, LAB.case(name)) for variant in fused}
        assert whys == {None if fits else "not on this case: cuDNN takes channels and filters by eight"}
