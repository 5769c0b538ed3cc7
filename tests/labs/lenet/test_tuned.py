"""Folded convolutions in PyTorch: that a block of pixels as channels changes no value, and that each run computes anew."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.find import host_cpu
from roofbook.labs.lenet import LAB, network, problem, tuned
from roofbook.labs.lenet.problem import LAYERS, Bounded, Layer
from roofbook.labs.lenet.tuned import Block
from roofbook.peers import pytorch
from roofbook.spec.plan import Case

needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))
CASE = Case("batch-5", "test", {"batch": 5, "data": "digits"}, 1)
FOLDED = [variant for variant in LAB.peers if variant.plan in (tuned.Folded, tuned.FoldedWhole)]


@pytest.fixture(scope="module")
def batch() -> dict[str, Any]:
    return problem.inputs(5, "digits", 2)


@pytest.fixture(scope="module")
def right(batch: dict[str, Any]) -> dict[str, Bounded]:
    return problem.reference(batch)


def test_blocks_cover_all_outputs_and_read_no_more_than_they_need() -> None:
    for layer in LAYERS:
        for block in (Block(1, 1), Block(1, 8), Block(3, 5)):
            for block_side, blocks, taps in zip(block, block.sides(layer), block.taps, strict=True):
                outputs = block_side * (blocks - taps + 1)
                assert layer.side <= outputs < layer.side + block_side
                assert (taps - 1) * block_side < network.KERNEL - 1 + block_side <= taps * block_side


@needs_torch
@pytest.mark.parametrize("block", ["1x1", "1x2", "2x1", "1x8", "2x2", "4x4", "3x5"])
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_a_folded_convolution_is_the_convolution(layer: Layer, block: str) -> None:
    import torch
    from torch.nn import functional

    torch.manual_seed(1)
    x, weight = torch.randn(2, *layer.x_shape).double(), torch.randn(layer.filters, layer.channels, 7, 7).double()
    by = Block.of(block)
    folded = tuned.folding(by, layer, torch.float64)(x)
    assert folded.is_contiguous(memory_format=torch.channels_last)
    maps = tuned.pooling(by, layer)(functional.conv2d(folded, tuned.folded_filters(weight, by)))
    true = functional.max_pool2d(functional.relu(functional.conv2d(x, weight)), layer.pool, ceil_mode=True)
    assert maps.dtype == torch.float32 and maps.is_contiguous()
    assert maps.shape == true.shape and (maps - true).abs().max() < 1e-5


@needs_torch
@pytest.mark.parametrize("variant", [pytest.param(v, id=v.name) for v in FOLDED])
def test_each_run_computes_anew_what_a_step_leaves(
    variant: Any, batch: dict[str, Any], right: dict[str, Bounded]
) -> None:
    variant = replace(variant, options={**variant.options, "compile": False})
    peer = variant.plan(host_cpu(), variant, CASE, batch)
    for _ in range(2):
        peer.reset()
        assert all(np.isnan(array).all() for array in peer.outputs().values())
        seconds = peer.run()
        assert seconds > 0 and LAB.check(CASE, variant, peer.outputs(), right)[0] <= 1
    is_whole = variant.plan is tuned.FoldedWhole
    assert set(peer.outputs()) == ({"scores"} if is_whole else {"pool1", "pool2", "scores"})
    assert set(peer.parts) == ({"pass"} if is_whole else {"op 1", "op 2", "op"})
    assert peer.facts()["accuracy"] == network.accuracy(batch["weights"], batch["x"], batch["labels"])
    peer.close()
    assert not [value for value in vars(peer).values() if isinstance(value, peer.torch.Tensor)], "its memory is free"


def test_they_are_compared_with_the_steps_that_do_the_same() -> None:
    conditions = {name: LAB.conditions(LAB.variant(name)) for name in ("tensor", "graph", "fused-pool")}
    rounds = "rounds results to fp16"
    assert {*LAB.conditions(LAB.variant("torch-folded"))} == {*conditions["tensor"], rounds}
    assert LAB.conditions(LAB.variant("torch-whole-folded")) == conditions["graph"]
    assert LAB.conditions(LAB.variant("torch-folded-fp32")) == conditions["fused-pool"]
