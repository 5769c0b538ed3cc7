"""The layer by cuDNN's fused convolution: right in each precision, with results as a step leaves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.labs.cnn import LAB, tuned
from roofbook.peers import cudnn, pytorch
from roofbook.spec.plan import LAID_OUT

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
    inputs = LAB.inputs(case, 4)
    peer: Any = variant.plan(host_cpu(), replace(variant, options={**variant.options, "compile": False}), case, inputs)
    peer.reset()
    assert np.isnan(peer.outputs()["out"]).all()
    peer.run()
    assert LAB.check(case, variant, peer.outputs(), LAB.reference(case, inputs))[0] <= 1
    assert peer.out.dtype == torch.float32 and peer.out.is_contiguous()
    single = name == "cudnn-fused-fp32"
    assert seen == [(torch.float32, False) if single else (torch.float16, True)]
    assert (peer.x.dtype == torch.float16) == (name == "cudnn-fused-prepared")


def test_they_are_compared_with_the_steps_that_do_the_same() -> None:
    conditions = {
        name: {*LAB.conditions(LAB.variant(name))} for name in ("tensor-cluster", "tensor-relaxed", "tensor-split")
    }
    rounds = {"rounds results to fp16"}
    assert {*LAB.conditions(LAB.variant("cudnn-fused"))} == conditions["tensor-cluster"] | rounds
    for name in ("cudnn-fused-prepared", "torch-autotuned"):
        assert {*LAB.conditions(LAB.variant(name))} == conditions["tensor-relaxed"] | rounds
    assert {*LAB.conditions(LAB.variant("cudnn-fused-fp32"))} == conditions["tensor-split"] == set()
    assert LAB.conditions(LAB.variant("cudnn-fused-tf32-prepared")) == LAB.conditions(LAB.variant("tensor-tf32"))
    assert LAID_OUT not in LAB.conditions(LAB.variant("cudnn-fused-tf32"))


def test_channels_that_do_not_fit_are_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "missing", lambda: None)
    fused = [variant for variant in LAB.peers if variant.plan is tuned.FusedConvolution]
    for name, fits in (("16to8ch-7x9-k3", True), ("12to8ch-7x9-k3", False), ("8to12ch-7x9-k3", False)):
        whys = {LAB.skip_reason(variant, LAB.case(name)) for variant in fused}
        assert whys == {None if fits else "not on this case: cuDNN takes channels and filters by eight"}


class Graph:
    """Stand-in for `cudnn.GraphConvolution` on a CPU: sums in float32 of products that are exact."""

    def __init__(self, torch: Any, x: Any, weight: Any, y: Any, tried: int) -> None:
        assert all(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (x, weight, y)) and tried > 1
        assert (x.dtype, weight.dtype, y.dtype) == (torch.float16, torch.float16, torch.float32)
        self.torch, self.y = torch, y

    def __call__(self, x: Any, weight: Any) -> Any:
        return self.y.copy_(self.torch.conv2d(x.float(), weight.float()))

    def facts(self) -> dict[str, Any]:
        return {"cudnn plan": 0}

    def close(self) -> None:
        """Do nothing: there is no handle."""


@needs_torch
@pytest.mark.parametrize("lost", [False, True])
def test_split_operands_have_the_error_of_fp32_and_without_the_small_parts_they_have_not(
    monkeypatch: pytest.MonkeyPatch, lost: bool
) -> None:
    monkeypatch.setattr(cudnn, "GraphConvolution", Graph)
    if lost:
        parts = tuned.parts
        monkeypatch.setattr(tuned, "parts", lambda values: (parts(values)[0], 0 * parts(values)[1]))
    variant, case = LAB.variant("cudnn-split"), LAB.case("64to8ch-7x9-k3")
    inputs = LAB.inputs(case, 6)
    peer: Any = variant.plan(host_cpu(), replace(variant, options={"compile": False}), case, inputs)
    for _ in range(2):
        peer.reset()
        assert np.isnan(peer.outputs()["out"]).all()
        peer.run()
        over = LAB.check(case, variant, peer.outputs(), LAB.reference(case, inputs))[0]
        assert over > 10 if lost else over <= 0.5
    assert peer.out.is_contiguous() and peer.facts()["cudnn plan"] == 0
    peer.close()
    assert peer.graph is None


def test_the_split_peer_is_like_a_step_that_splits() -> None:
    assert LAB.conditions(LAB.variant("cudnn-split")) == LAB.conditions(LAB.variant("tensor-split-window")) == ()
