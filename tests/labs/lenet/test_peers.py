"""The network in PyTorch against the float64 reference, its times, and its facts."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import Device, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.labs.lenet import LAB, network, peers, problem
from roofbook.labs.lenet.problem import Bounded, error_over_bound
from roofbook.peers import pytorch
from roofbook.spec.plan import Case, Variant

pytestmark = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))
ROUNDOFF = {"fp32": 0.0, "tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}
CASE = Case("batch-40", "test", {"batch": 40, "data": "digits"}, 1)


@pytest.fixture(scope="module")
def batch() -> dict[str, Any]:
    return problem.inputs(40, "digits", 2)


@pytest.fixture(scope="module")
def right(batch: dict[str, Any]) -> dict[str, Bounded]:
    return problem.reference(batch)


@pytest.fixture
def place(device: Device) -> Device:
    """Device that PyTorch runs on: each in turn."""
    if device.backend != "cuda" and device.kind == "gpu":
        pytest.skip("PyTorch does not run on OpenCL's GPUs")
    return device


def make(plan: Any, place: Device, batch: dict[str, Any], **options: Any) -> Any:
    return plan(place, Variant("peer", None, None, plan, "", "", role="peer", options=options), CASE, batch)


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("precision", ROUNDOFF)
@pytest.mark.parametrize("plan", [peers.Convolutions, peers.TorchWhole], ids=lambda plan: plan.__name__)
def test_a_peer_lies_within_the_bound_of_its_precision(
    place: Device, batch: dict[str, Any], right: dict[str, Bounded], plan: Any, precision: str, layout: str
) -> None:
    options = {"precision": precision, "channels_last": layout == "NHWC"}
    if precision == "tf32" and place.kind == "cpu":
        with pytest.raises(Unsupported, match=r"^TF32 is an NVIDIA GPU's$"):
            make(plan, place, batch, **options)
        return
    peer = make(plan, place, batch, **options)
    order = peer.torch.channels_last if layout == "NHWC" else peer.torch.contiguous_format
    assert peer.conv2.is_contiguous(memory_format=order) and peer.fc1.dtype == peer.torch.float32
    peer.reset()
    assert all(np.isnan(array).all() for array in peer.outputs().values())
    assert set(peer.outputs()) == ({"scores"} if plan is peers.TorchWhole else {"conv1", "conv2", "scores"})
    peer.run()
    out = peer.outputs()
    assert {array.dtype for array in out.values()} == {np.dtype(np.float64)}
    assert all(out[name].shape == right[name].value.shape for name in out)
    over = {name: error_over_bound(out[name], right[name], ROUNDOFF[precision]) for name in out}
    assert max(over.values()) <= 0.6, over
    if precision != "fp32":
        assert max(error_over_bound(out[name], right[name]) for name in out) > 1, "it needs the wider bound"
    peer.close()


@pytest.mark.parametrize("minibatch", [16, 40, 1000])
def test_products_are_right_in_parts_that_do_not_divide_the_batch(
    place: Device, batch: dict[str, Any], right: dict[str, Bounded], monkeypatch: pytest.MonkeyPatch, minibatch: int
) -> None:
    monkeypatch.setattr(peers, "MINIBATCH", minibatch)
    peer = make(peers.Products, place, batch)
    functional, unfolded = peer.torch.nn.functional, []
    unfold = functional.unfold

    def counted(images: Any, kernel: int) -> Any:
        unfolded.append(len(images))
        return unfold(images, kernel)

    monkeypatch.setattr(functional, "unfold", counted)
    peer.reset()
    peer.run()
    out = peer.outputs()
    assert set(out) == {"conv1", "conv2", "scores"}
    assert max(error_over_bound(out[name], right[name]) for name in out) <= 1
    assert set(unfolded) == ({40} if minibatch >= 40 else {16, 8}), "in the time that a run takes, some at a time"
    peer.close()


def test_a_run_tells_the_seconds_of_each_convolution(place: Device, batch: dict[str, Any]) -> None:
    peer = make(peers.Convolutions, place, batch, precision="fp32")
    peer.reset()
    for _ in range(2):
        start = time.perf_counter()
        seconds = peer.run()
        assert set(peer.parts) == {"op 1", "op 2", "op"} and min(peer.parts.values()) > 0
        assert seconds == peer.parts["op"] == peer.parts["op 1"] + peer.parts["op 2"] < time.perf_counter() - start
    peer.close()


def test_each_convolution_is_timed_when_it_is_called_again(
    place: Device, batch: dict[str, Any], monkeypatch: Any
) -> None:
    """Only the second call is timed: the first has warmed up, and later work is not in it."""
    peer = make(peers.Convolutions, place, batch, precision="fp32")
    peer.reset()
    done: list[str] = []
    conv2d, timed = peer.torch.conv2d, peer.timed

    def convolved(x: Any, weight: Any) -> Any:
        done.append(f"{tuple(x.shape[1:])}")
        return conv2d(x, weight)

    def clocked(call: Any) -> Any:
        done.append("from")
        seconds = timed(call)
        done.append("to")
        return seconds

    monkeypatch.setattr(peer.torch, "conv2d", convolved)
    monkeypatch.setattr(peer, "timed", clocked)
    peer.run()
    one, two = "(1, 86, 86)", "(4, 40, 40)"
    assert done == [one, "from", one, "to", two, "from", two, "to"]


def test_the_pass_has_the_copies_and_the_time_has_not(place: Device, batch: dict[str, Any]) -> None:
    peer = make(peers.TorchWhole, place, batch, precision="fp32")
    peer.reset()
    start = time.perf_counter()
    seconds = peer.run()
    assert set(peer.parts) == {"pass"} and seconds > 0 and seconds + peer.parts["pass"] < time.perf_counter() - start
    peer.close()


@pytest.mark.parametrize("plan", [peers.Convolutions, peers.TorchWhole], ids=lambda plan: plan.__name__)
def test_it_tells_of_its_accuracy_and_images(place: Device, batch: dict[str, Any], plan: Any) -> None:
    peer = make(plan, place, batch)
    peer.reset()
    peer.run()
    facts = peer.facts()
    assert facts["accuracy"] == network.accuracy(batch["weights"], batch["x"], batch["labels"])
    assert (facts["source"], facts["images"], facts["mode"]) == (batch["source"], 40, "eager")
    peer.close()
    assert not [value for value in vars(peer).values() if isinstance(value, peer.torch.Tensor)], "its memory is free"


@pytest.mark.gpu
def test_the_compiled_pass_is_right(device: Device, batch: dict[str, Any], right: dict[str, Bounded]) -> None:
    if device.backend != "cuda":
        pytest.skip("the lab compiles on an NVIDIA GPU alone")
    variant = LAB.variant("torch-whole-compiled")
    peer: Any = variant.plan(device, variant, CASE, batch)
    peer.reset()
    peer.run()
    assert peer.facts()["mode"] == "compiled"
    assert error_over_bound(peer.outputs()["scores"], right["scores"], problem.roundoff(variant.options)) <= 1
    peer.close()


def test_the_host_runs_the_labs_own(batch: dict[str, Any], right: dict[str, Bounded]) -> None:
    variant = LAB.variant("torch-cpu")
    peer = variant.plan(host_cpu(), variant, CASE, batch)
    peer.reset()
    peer.run()
    error, tolerance, _ = LAB.check(CASE, variant, peer.outputs(), right)
    assert error <= tolerance
    peer.close()
