"""The layer by libraries that multiply bytes: exact, and laid out in their time unless they are prepared."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from roofbook.devices.find import host_cpu
from roofbook.labs.convpool import LAB, tuned
from roofbook.labs.convpool.plans import SENTINEL
from roofbook.peers import cudnn, pytorch

needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))
BYTES = ("cudnn-int8", "cudnn-int8-prepared", "cublas-int8", "cublas-int8-prepared")


class Convolution:
    """Stand-in for `cudnn.GraphConvolution` on a CPU, in double precision, which is exact."""

    def __init__(self, torch: Any, x: Any, weight: Any, y: Any, padding: int) -> None:
        assert all(tensor.is_contiguous(memory_format=torch.channels_last) for tensor in (x, weight, y))
        assert (x.dtype, weight.dtype, y.dtype) == (torch.int8, torch.int8, torch.int32)
        self.torch, self.y, self.padding, self.closed = torch, y, padding, 0

    def __call__(self, x: Any, weight: Any) -> Any:
        return self.y.copy_(self.torch.conv2d(x.double(), weight.double(), padding=self.padding))

    def facts(self) -> dict[str, Any]:
        return {"cudnn plan": 0}

    def close(self) -> None:
        self.closed += 1


@needs_torch
@pytest.mark.parametrize("layer", ["32x16x9x9-k5", "16x32x6x6-k3-w0-x0", "16x16x5x5-k1"])
@pytest.mark.parametrize("name", BYTES)
def test_it_is_exact_and_lays_operands_out_in_its_time_unless_they_are_prepared(
    monkeypatch: pytest.MonkeyPatch, name: str, layer: str
) -> None:
    monkeypatch.setattr(cudnn, "GraphConvolution", Convolution)
    variant, case = LAB.variant(name), LAB.case(layer)
    inputs = LAB.inputs(case, 5)
    peer: Any = variant.plan(host_cpu(), replace(variant, options={**variant.options, "compile": False}), case, inputs)
    laid: list[str] = []
    lay = peer.lay
    peer.lay = lambda *operands: laid.append("laid out") or lay(*operands)  # type: ignore[func-returns-value]
    for _ in range(2):
        peer.reset()
        assert (peer.outputs()["out"] == SENTINEL).all()
        peer.run()
        assert LAB.check(case, variant, peer.outputs(), LAB.reference(case, inputs))[0] == 0
    assert peer.out.dtype == peer.torch.int32 and peer.out.is_contiguous()
    assert len(laid) == (0 if variant.options.get("prepared") else 2)
    graph = getattr(peer, "graph", None)
    peer.close()
    assert graph is None or graph.closed == 1


def test_they_are_compared_with_the_steps_that_do_the_same() -> None:
    assert LAB.conditions(LAB.variant("cudnn-int8")) == LAB.conditions(LAB.variant("tensor-int8")) == ()
    assert LAB.conditions(LAB.variant("cudnn-int8-prepared")) == LAB.conditions(LAB.variant("tensor-split-k"))
    assert LAB.conditions(LAB.variant("cublas-int8-prepared")) == ("starts from an input that is already unfolded",)


def test_layers_that_do_not_fit_are_excused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pytorch, "missing", lambda: None)
    monkeypatch.setattr(cudnn, "missing", lambda: None)
    misfit = "not on this case: int8 takes depth and filters by sixteen, and maps of 5x5 at least"
    for layer, reason in (
        ("32x16x5x5-k3", None),
        ("24x16x5x5-k3", misfit),
        ("16x24x5x5-k3", misfit),
        ("16x16x4x4-k3", misfit),
    ):
        assert {LAB.skip_reason(LAB.variant(name), LAB.case(layer)) for name in BYTES} == {reason}
    assert tuned.CudnnInt8.missing() is None
