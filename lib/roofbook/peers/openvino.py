"""OpenVINO as a peer on the host's CPU: a network that it compiles for the processor, in fp32, bf16 or int8.

OpenVINO is optional, and is imported when a peer is created, never before. A peer that cannot run says why in one line.
"""

import importlib
import importlib.util
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..devices.backends import HOST
from ..devices.contract import BuildFailed, Device, Unsupported
from ..devices.host import processors
from ..spec.plan import LAID_OUT, Case, Plan, Variant, stated_conditions

DTYPES_MULTIPLIED = {"fp32": "float32", "bf16": "bfloat16", "int8": "int8"}
"""`Variant.dtype` by precision."""
HINTS = {"fp32": "f32", "bf16": "bf16", "int8": "f32"}
"""OpenVINO's hint of the type for what is not quantised, by precision."""
PRIMITIVES = {"fp32": ("f32",), "bf16": ("bf16",), "int8": ("I8", "i8", "u8")}
"""Ends of the names of OpenVINO's code for a convolution in a precision."""


def missing() -> str | None:
    """Return the reason, in one line, why there is no OpenVINO; None if it is installed. Does not import it."""
    if importlib.util.find_spec("openvino") is None:
        return "OpenVINO is not installed: pip install 'roofbook[peers]'"
    return None


def on_cpu(plan: type[Plan], precision: str, change: str, expect: str, **options: Any) -> Variant:
    """Return the row of a layer by OpenVINO. precision: a key of HINTS. options: those of the plan."""
    return Variant(
        f"openvino-{precision}", None, None, plan, change, expect, needs=frozenset({HOST}), role="peer",
        options={"precision": precision, **options}, dtype=DTYPES_MULTIPLIED[precision],
    )  # fmt: skip


class OpenVinoLayer(Plan):
    """Base of the peers by OpenVINO. A unit is an inference, by all cores that this process may use.

    The time is that of the whole call, as PyTorch's on a CPU: the input lies in memory as NumPy's fp32 (channels first), and so
    does the result. Weights are part of the network, so they are laid out before a run. Option `precision`: a key of HINTS.
    Raises Unsupported if OpenVINO is missing, or has no code for the precision on this CPU.
    """

    out: np.ndarray

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.openvino = _openvino()
        self.precision, self.units = str(variant.options["precision"]), case.units
        self.threads = processors()
        properties = {
            "INFERENCE_PRECISION_HINT": HINTS[self.precision],
            "INFERENCE_NUM_THREADS": self.threads,
            "NUM_STREAMS": 1,
        }
        try:
            self.compiled = self.openvino.Core().compile_model(self.network(inputs), "CPU", properties)
        except RuntimeError as error:
            raise BuildFailed(str(error).strip().splitlines()[-1]) from error
        self.primitive = self._primitive()
        if not self.primitive.endswith(PRIMITIVES[self.precision]):
            raise Unsupported(
                f"OpenVINO has no convolution in {self.precision} for this CPU: it takes {self.primitive}"
            )
        self.x = np.ascontiguousarray(inputs["x"][None], np.float32)
        self.out = np.empty(tuple(self.compiled.output(0).shape), np.float32)
        self.request = self.compiled.create_infer_request()
        self.request.set_input_tensor(self.openvino.Tensor(self.x, shared_memory=True))
        self.request.set_output_tensor(self.openvino.Tensor(self.out, shared_memory=True))

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why no network runs on this machine; None if they do."""
        return missing()

    @classmethod
    def conditions(cls, variant: Variant) -> tuple[str, ...]:
        return (*stated_conditions(variant), LAID_OUT)

    @abstractmethod
    def network(self, inputs: Mapping[str, Any]) -> Any:
        """Return the model with one input, x (1, C, H, W), and one output."""

    def _primitive(self) -> str:
        """Return OpenVINO's name of the code that it takes for the convolution, such as `brgconv_avx512_f32`."""
        operations = [operation.get_rt_info() for operation in self.compiled.get_runtime_model().get_ops()]
        names = [
            str(facts["primitiveType"].astype(str))
            for facts in operations
            if str(facts["layerType"].astype(str)) == "Convolution"
        ]
        return ", ".join(names) or "none"

    def reset(self) -> None:
        self.out.fill(np.nan)

    def run(self) -> None:
        for _ in range(self.units):
            self.request.infer()

    def facts(self) -> dict[str, Any]:
        return {"openvino": self.openvino.__version__, "threads": self.threads, "mode": self.primitive}

    def close(self) -> None:
        del self.request, self.compiled


def convolved_and_pooled(
    shape: tuple[int, ...], weight: np.ndarray, padding: int, precision: str, bias: np.ndarray | None = None
) -> Any:
    """Return a model of a convolution, a bias if given, ReLU and a maximum over windows of 2 x 2.

    shape: of the input, (1, C, H, W). weight: (O, C, k, k). In int8, inputs are rounded to -128 ... 127 in each inference, and
    weights must be such integers.
    """
    openvino = _openvino()
    ops = importlib.import_module("openvino.opset8")
    x = operand = ops.parameter(list(shape), np.float32)
    if precision == "int8":
        least, most = np.float32(-128), np.float32(127)
        operand = ops.fake_quantize(x, least, most, least, most, 256)
        factors = ops.multiply(ops.convert(ops.constant(weight.astype(np.int8)), "f32"), np.float32(1))
    else:
        factors = ops.constant(weight.astype(np.float32))
    sums = ops.convolution(operand, factors, [1, 1], [padding] * 2, [padding] * 2, [1, 1])
    if bias is not None:
        sums = ops.add(sums, ops.constant(bias.astype(np.float32).reshape(1, -1, 1, 1)))
    pooled = ops.max_pool(ops.relu(sums), [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", "explicit")
    return openvino.Model([pooled.output(0)], [x])


def _openvino() -> Any:
    if reason := missing():
        raise Unsupported(reason)
    try:
        return importlib.import_module("openvino")
    except (ImportError, OSError) as error:
        raise Unsupported(f"OpenVINO is installed but does not load: {error}") from error
