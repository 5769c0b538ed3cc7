"""PyTorch's calls against the float64 references, the settings they leave behind, and their messages when they cannot run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from roofbook.devices.contract import BuildFailed, DriverFailed, OutOfMemory, Unsupported
from roofbook.devices.find import host_cpu
from roofbook.devices.host import processors
from roofbook.labs.cnn import problem as cnn
from roofbook.labs.cnn.peers import Product, TorchConvolution
from roofbook.labs.stencil import problem as stencil
from roofbook.labs.stencil.peers import Fused, TorchStencil
from roofbook.peers import pytorch
from roofbook.spec.plan import Case, Variant

from ..plain_plan import PlainPlan

needs_torch = pytest.mark.skipif(pytorch.missing() is not None, reason=str(pytorch.missing()))


def make(plan: Any, device: Any, inputs: Any, units: int = 1, **options: Any) -> Any:
    """Return the peer with these options, reset."""
    variant = Variant("peer", None, None, plan, "", "", role="peer", options=options)
    peer = plan(device, variant, Case("case", "test", {}, units), inputs)
    peer.reset()
    return peer


def convolution(device: Any, inputs: Any, precision: str = "fp32", layout: str = "NCHW", mode: str = "eager") -> Any:
    options: dict[str, Any] = {"precision": precision, "channels_last": layout == "NHWC", "compile": mode == "compiled"}
    return make(TorchConvolution, device, inputs, **options)


def run(peer: Any) -> Any:
    """Run a peer, whose time is the device's on a GPU and the caller's on a CPU, and hand back its outputs."""
    start = time.perf_counter()
    seconds = peer.run()
    assert seconds is None if peer.place.type == "cpu" else 0 < seconds < time.perf_counter() - start
    return peer.outputs()


@pytest.fixture
def place(device: Any) -> Any:
    """Device that PyTorch runs on: each in turn."""
    if device.backend != "cuda" and device.kind == "gpu":
        pytest.skip("PyTorch does not run on OpenCL's GPUs")
    return device


class Probe(PlainPlan, pytorch.Call):
    """Peer that calls `inputs["does"](torch)`."""

    def prepare(self, inputs: Any) -> None:
        self.does = inputs["does"]
        self.poisoned = self.torch.zeros(3)

    def poison(self) -> None:
        """Do nothing: there is no output."""

    def compute(self) -> None:
        self.does(self.torch)

    def result(self) -> dict[str, np.ndarray]:
        return {}


# -- right ---------------------------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize(("plan", "mode"), [(TorchStencil, "eager"), (TorchStencil, "compiled"), (Fused, "compiled")])
def test_the_stencil_adds_its_passes_to_g_and_starts_anew_after_reset(place: Any, plan: Any, mode: str) -> None:
    inputs = stencil.inputs(37, 53, seed=1)
    peer = make(plan, place, inputs, units=23, compile=mode == "compiled")
    for passes in (23, 46):
        right = stencil.reference(**inputs, passes=passes)
        limit = stencil.bound(right, inputs["g"], passes)
        assert stencil.error_over_bound(run(peer)["g"], right, limit) <= 1
    peer.reset()
    assert (peer.outputs()["g"] == inputs["g"]).all()


LAYERS = ["3to5ch-7x9-k3", "5to2ch-6x11-k5", "1to4ch-2x2-k1", "4to3ch-3x2-k2"]
ROUNDOFF = {"fp32": 0.0, "fp16": 2.0**-11, "bf16": 2.0**-8}


@needs_torch
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("precision", ROUNDOFF)
def test_the_layer_lies_within_its_bound(place: Any, name: str, layout: str, precision: str) -> None:
    layer = cnn.Layer.named(name)
    inputs = cnn.inputs(layer, seed=2)
    peer = convolution(place, inputs, precision, layout)
    order = peer.torch.channels_last if layout == "NHWC" else peer.torch.contiguous_format
    assert peer.x.is_contiguous(memory_format=order) and peer.weight.is_contiguous(memory_format=order)
    assert np.isnan(peer.outputs()["out"]).all()
    out, right = run(peer)["out"], cnn.reference(layer, **inputs)
    assert out.dtype == np.float64 and out.flags.c_contiguous
    assert cnn.error_over_bound(out, right, layer, ROUNDOFF[precision]) <= 1
    assert (cnn.error_over_bound(out, right, layer) <= 1) == (precision == "fp32")


@needs_torch
@pytest.mark.parametrize("prepared", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_the_product_is_the_layer_and_unfolds_when_it_is_to(
    place: Any, monkeypatch: pytest.MonkeyPatch, name: str, prepared: bool
) -> None:
    layer = cnn.Layer.named(name)
    inputs = cnn.inputs(layer, seed=11)
    peer = make(Product, place, inputs, prepared=prepared)
    functional, unfolded = peer.torch.nn.functional, []
    unfold = functional.unfold

    def counted(*arguments: Any) -> Any:
        unfolded.append(arguments)
        return unfold(*arguments)

    monkeypatch.setattr(functional, "unfold", counted)
    assert np.isnan(peer.outputs()["out"]).all()
    assert cnn.error_over_bound(run(peer)["out"], cnn.reference(layer, **inputs), layer) <= 1
    assert len(unfolded) == (0 if prepared else 1), "in the time that a run takes"


@needs_torch
def test_the_compiled_layer_lies_within_its_bound(place: Any) -> None:
    layer = cnn.Layer.named(LAYERS[0])
    inputs = cnn.inputs(layer, seed=3)
    peer = convolution(place, inputs, layout="NHWC", mode="compiled")
    assert peer.facts()["mode"] == "compiled"
    assert cnn.error_over_bound(run(peer)["out"], cnn.reference(layer, **inputs), layer) <= 1


@needs_torch
@pytest.mark.gpu
def test_fp32_and_tf32_do_not_disturb_each_other(device: Any) -> None:
    if device.backend != "cuda":
        pytest.skip("TF32 is an NVIDIA GPU's, by CUDA")
    layer = cnn.Layer.named("128ch-32x32-k5")
    inputs = cnn.inputs(layer, seed=4)
    right = cnn.reference(layer, **inputs)
    peers = {precision: convolution(device, inputs, precision, "NHWC") for precision in ("fp32", "tf32")}
    for _ in range(2):
        outs = {precision: run(peer)["out"] for precision, peer in peers.items()}
        assert cnn.error_over_bound(outs["fp32"], right, layer) <= 1
        assert cnn.error_over_bound(outs["tf32"], right, layer) > 1
        assert cnn.error_over_bound(outs["tf32"], right, layer, operand_roundoff=2.0**-11) <= 1


# -- clean ---------------------------------------------------------------------------------------------------------------


@needs_torch
@pytest.mark.parametrize(("precision", "allowed"), [("fp32", False), ("tf32", True)])
def test_settings_hold_while_a_call_runs_and_are_put_back(precision: str, allowed: bool) -> None:
    def settings(torch: Any) -> list[Any]:
        backend, products = torch.backends.cudnn, torch.backends.cuda.matmul
        switches = [backend.benchmark, backend.enabled, torch.is_inference_mode_enabled()]
        return [backend.allow_tf32, products.allow_tf32, *switches]

    seen: list[Any] = []
    peer = make(Probe, host_cpu(), {"does": lambda torch: seen.append(settings(torch))}, units=3, precision=precision)
    for before in (True, False):
        peer.torch.backends.cudnn.allow_tf32 = peer.torch.backends.cuda.matmul.allow_tf32 = before
        peer.run()
        assert settings(peer.torch) == [before, before, False, True, False]
        peer.does = lambda torch: 1 / 0
        with pytest.raises(ZeroDivisionError):
            peer.run()
        assert settings(peer.torch) == [before, before, False, True, False]
        peer.does = lambda torch: seen.append(settings(torch))
    peer.torch.backends.cudnn.allow_tf32 = True
    assert seen == [[allowed, allowed, True, True, True]] * 6


@needs_torch
def test_no_options_mean_eager_fp32_as_the_lab_lays_it_out(place: Any) -> None:
    peer = make(TorchConvolution, place, cnn.inputs(cnn.Layer.named(LAYERS[0]), seed=10))
    assert (peer.mode, peer.x.dtype, peer.x.is_contiguous()) == ("eager", peer.torch.float32, True)


@needs_torch
def test_facts_are_plain_and_close_lets_go_of_tensors(place: Any) -> None:
    peer = convolution(place, cnn.inputs(cnn.Layer.named(LAYERS[0]), seed=5))
    facts = json.loads(json.dumps(peer.facts()))
    assert facts["torch"] == peer.torch.__version__ and facts["mode"] == "eager"
    assert facts.get("threads") == processors() if place.kind == "cpu" else facts["cudnn"] > 0
    run(peer)
    peer.close()
    assert not [name for name, value in vars(peer).items() if isinstance(value, peer.torch.Tensor)]


@needs_torch
def test_inputs_are_copied() -> None:
    inputs = stencil.inputs(6, 8, seed=6)
    copies = {name: array.copy() for name, array in inputs.items()}
    for array in inputs.values():
        array.flags.writeable = False
    peer = make(TorchStencil, host_cpu(), inputs, compile=False)
    run(peer)["g"][:] = 0
    assert peer.outputs()["g"].any()
    assert all((inputs[name] == copies[name]).all() for name in inputs)


@needs_torch
def test_many_shapes_are_compiled_each_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch._dynamo.config, "cache_size_limit", 8)
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))  # what is traced is run as it is
    for height in range(5, 17):
        inputs = stencil.inputs(height, 6, seed=7)
        peer = make(TorchStencil, host_cpu(), inputs, compile=True)
        assert run(peer)["g"] == pytest.approx(stencil.reference(**inputs, passes=1)["g"], rel=1e-5)


# -- absent or refused ---------------------------------------------------------------------------------------------------


def test_the_labs_import_without_pytorch() -> None:
    code = "import sys, roofbook.labs.cnn.peers, roofbook.labs.stencil.peers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_missing_pytorch_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert pytorch.missing() == "PyTorch is not installed: pip install 'roofbook[peers]'"
    with pytest.raises(Unsupported, match=r"^PyTorch is not installed: pip install 'roofbook\[peers\]'$"):
        make(Probe, host_cpu(), {})
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "torch" or None)
    assert pytorch.missing() is None


def test_a_pytorch_that_does_not_load_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ImportError("libcudart.so.13: cannot open shared object file\nmore")

    host = host_cpu()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(Unsupported, match=r"does not load: libcudart.so.13: cannot open shared object file$"):
        make(Probe, host, {})


@needs_torch
def test_devices_that_pytorch_has_not_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = importlib.import_module("torch")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(Unsupported, match=r"on a CPU or by CUDA, not on opencl:1$"):
        make(Probe, SimpleNamespace(kind="gpu", backend="opencl", spec="opencl:1"), {})
    with pytest.raises(Unsupported, match=rf"^PyTorch {re.escape(torch.__version__)} has no CUDA here: .*$"):
        make(Probe, SimpleNamespace(kind="gpu", backend="cuda", spec="cuda:0"), {})
    with pytest.raises(Unsupported, match=r"^TF32 is an NVIDIA GPU's$"):
        convolution(host_cpu(), cnn.inputs(cnn.Layer.named(LAYERS[0]), seed=8), "tf32")


@needs_torch
def test_a_missing_compiler_is_said() -> None:
    config = importlib.import_module("torch._inductor.config")
    inputs = stencil.inputs(9, 11, seed=9)
    with config.patch({"cpp.cxx": (None, "no-such-compiler"), "force_disable_caches": True}):
        peer = make(TorchStencil, host_cpu(), inputs, compile=True)
        with pytest.raises(Unsupported, match=r"^torch.compile finds no C\+\+ compiler: install g\+\+ or set CXX$"):
            peer.run()


def fail(name: str, message: str, torch: Any) -> None:
    raise {"RuntimeError": RuntimeError, "OutOfMemoryError": torch.OutOfMemoryError}[name](message)


def does_not_trace(torch: Any) -> None:
    torch.compile(lambda: print("a graph break"), fullgraph=True)()


@needs_torch
@pytest.mark.parametrize(
    ("does", "kind", "message"),
    [
        (lambda torch: torch.empty(1 << 50), OutOfMemory, "tried to allocate 4503599627370496 bytes"),
        (
            partial(fail, "OutOfMemoryError", "CUDA out of memory. Tried\nmore"),
            OutOfMemory,
            "CUDA out of memory. Tried$",
        ),
        (
            partial(fail, "RuntimeError", "\nCUDA error: launch failure\nmore"),
            DriverFailed,
            "^CUDA error: launch failure$",
        ),
        (partial(fail, "RuntimeError", "cuDNN error: CUDNN_STATUS"), DriverFailed, "^cuDNN error: CUDNN_STATUS$"),
        (does_not_trace, BuildFailed, "^.*$"),
        (partial(fail, "RuntimeError", "sizes differ"), RuntimeError, "^sizes differ$"),
    ],
)
def test_errors_become_those_that_a_row_can_tell(does: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message) as caught:
        make(Probe, host_cpu(), {"does": does}).run()
    assert type(caught.value) is kind
