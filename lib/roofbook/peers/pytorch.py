"""PyTorch as a peer: the call that a user would write instead of a kernel, on the same inputs, timed like a variant.

PyTorch is optional, and is imported when a peer is created, never before. A peer that cannot run says why in one line.
"""

import importlib
import importlib.util
import logging
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from functools import cached_property
from typing import Any

import numpy as np

from ..devices.backends import HOST
from ..devices.contract import BuildFailed, Device, DriverFailed, OutOfMemory, Unsupported
from ..devices.host import processors
from ..spec.plan import Case, Plan, Variant, stated_conditions
from . import compilers

DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}


def missing() -> str | None:
    """Return the reason, in one line, why there is no PyTorch; None if it is installed. Does not import it."""
    if importlib.util.find_spec("torch") is None:
        return "PyTorch is not installed: pip install 'roofbook[peers]'"
    return None


DTYPES_MULTIPLIED = {"fp32": "float32", "tf32": "tfloat32", "fp16": "float16", "bf16": "bfloat16"}
"""`Variant.dtype` by precision."""


def on_cpu(plan: type[Plan]) -> Variant:
    """Return the row of a layer by PyTorch on the host's CPU."""
    return Variant(
        "torch-cpu", None, None, plan, "PyTorch on the CPU, fp32, channels last.", "oneDNN, in fp32.",
        needs=frozenset({HOST}), role="peer", options={"precision": "fp32", "channels_last": True},
    )  # fmt: skip


def on_gpu(
    name: str, plan: type[Plan], change: str, expect: str, precision: str | None = None, *, dtype: str = "",
    exact_operands: bool = False, **options: Any,
) -> Variant:  # fmt: skip
    """Return the row of a call on a GPU.

    precision: a key of DTYPES; None for a call that has a type of its own, `dtype`. exact_operands: operands are integers that
    each precision holds, so that only results are rounded. options: those of the call.
    """
    roundoff = {"tf32": 2.0**-11, "fp16": 2.0**-11, "bf16": 2.0**-8}.get(precision or "")
    if precision:
        options["precision"] = precision
    if roundoff and not exact_operands:
        options["operand_roundoff"] = roundoff
    elif roundoff and precision != "tf32":
        options["result_roundoff"] = roundoff
    return Variant(
        name, None, None, plan, change, expect, needs=frozenset({"pytorch"}), role="peer", options=options,
        dtype=dtype or DTYPES_MULTIPLIED[precision or "fp32"],
    )  # fmt: skip


HEAD_START_NS = 5_000_000
"""Nanoseconds that the device waits before a call is timed. In the first rounds of a run PyTorch's own code on the host is
slow, and its kernels would wait for it."""


class Call(Plan):
    """Base of the peers in PyTorch.

    Options: `compile` for torch.compile, else eager; `precision`, a key of DTYPES, fp32 by default, where "tf32" lets cuDNN
    and cuBLAS round operands; `channels_last`, images and filters in memory as NHWC.

    On a CPU the time is that of the whole call, with all cores that this process may use. On an NVIDIA GPU it is the device's
    time, taken by the queue of the CUDA backend, on whose stream PyTorch works. Raises Unsupported if PyTorch, its CUDA or a
    C++ compiler is missing; a missing compiler shows in the first `run`, which compiles.
    """

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.torch = _torch()
        self.options, self.units = variant.options, case.units
        self.mode = "compiled" if self.options.get("compile") else "eager"
        self.queue: Any = None
        if device.kind == "cpu":
            self.place, self.stream = self.torch.device("cpu"), nullcontext()
            self.torch.set_num_threads(processors())
        else:
            self.place = _gpu(self.torch, device)
            self.queue = device.queue(profiling=True)
            self.queue.head_start_ns = HEAD_START_NS
            stream = self.torch.cuda.ExternalStream(self.queue.stream.ptr, device=self.place)
            self.stream = self.torch.cuda.stream(stream)
        with self._settings():
            self.prepare(inputs)

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why no call runs on this machine; None if they do."""
        return missing()

    conditions = staticmethod(stated_conditions)

    @cached_property
    def form(self) -> dict[str, Any]:
        """Type and layout of images and filters, for `tensor`. Raises Unsupported for TF32 on a CPU, which has none."""
        precision, torch = self.options.get("precision", "fp32"), self.torch
        if precision == "tf32" and self.place.type == "cpu":
            raise Unsupported("TF32 is an NVIDIA GPU's")
        layout = torch.channels_last if self.options.get("channels_last") else torch.contiguous_format
        return {"dtype": getattr(torch, DTYPES[precision]), "memory_format": layout}

    @abstractmethod
    def prepare(self, inputs: Mapping[str, Any]) -> None:
        """Copy the lab's inputs into tensors of the type and layout that the call takes. Not timed."""

    @abstractmethod
    def poison(self) -> None:
        """Restore the inputs that `compute` overwrites, and fill the outputs with NaN."""

    @abstractmethod
    def compute(self) -> None:
        """Do one unit."""

    @abstractmethod
    def result(self) -> dict[str, np.ndarray]:
        """Return the outputs by name, as NumPy arrays."""

    def tensor(self, array: np.ndarray, **form: Any) -> Any:
        """Copy an array to the device. `form`: arguments of `Tensor.to`, such as dtype or memory_format."""
        return self.torch.tensor(array).to(self.place, **form)

    def array(self, tensor: Any) -> np.ndarray:
        """Return a float64 copy of a tensor, in C order."""
        float64: np.ndarray = tensor.float().cpu().numpy().astype(np.float64, order="C")
        return float64

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return `function` in the peer's mode. Its first call with tensors of a shape, type and layout compiles it."""
        if self.mode == "eager":
            return function
        self.torch._dynamo.config.cache_size_limit = 256  # 8 by default: a few cases in a few precisions
        logging.getLogger("torch.utils.cpp_extension").setLevel(
            logging.ERROR
        )  # it warns, with paths, if it finds no GPU
        compiled: Callable[..., Any] = self.torch.compile(function, dynamic=False, fullgraph=True)
        return compiled

    def reset(self) -> None:
        with self._settings():
            self.poison()

    def run(self) -> float | None:
        with self._settings():
            if self.queue:
                return float(self.queue.timed(self._submit))
            self._submit()
            return None

    def outputs(self) -> dict[str, np.ndarray]:
        with self._settings():
            return self.result()

    def facts(self) -> dict[str, Any]:
        facts = {"torch": str(self.torch.__version__), "mode": self.mode}
        if self.queue:
            return {**facts, "cudnn": self.torch.backends.cudnn.version()}
        threads, limit = self.torch.get_num_threads(), compilers.thread_limit()
        return {**facts, "threads": min(threads, limit or threads)}

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        compiles = HOST in variant.backends and bool(variant.options.get("compile"))
        return compilers.cxx_compiler() if compiles else {}

    def close(self) -> None:
        for name in [name for name, value in vars(self).items() if isinstance(value, self.torch.Tensor)]:
            delattr(self, name)
        if self.queue:
            self.torch.cuda.empty_cache()

    def _submit(self) -> None:
        for _ in range(self.units):
            self.compute()

    @contextmanager
    def _settings(self) -> Iterator[None]:
        """Set PyTorch's global settings by the options, and restore them afterwards. Its errors become the book's."""
        flags, products = self.torch.backends.cudnn.flags, self.torch.backends.cuda.matmul
        tf32, before = self.options.get("precision") == "tf32", products.allow_tf32
        with (
            warnings.catch_warnings(),
            self.torch.inference_mode(),
            self.stream,
            flags(enabled=True, benchmark=True, allow_tf32=tf32),
        ):
            warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")  # advises to turn them on
            products.allow_tf32 = tf32
            try:
                yield
            except Exception as error:
                raised = _converted(error)
                if raised is None:
                    raise
                raise raised from error
            finally:
                products.allow_tf32 = before


def _torch() -> Any:
    reason = missing()
    if reason:
        raise Unsupported(reason)
    try:
        return importlib.import_module("torch")
    except (ImportError, OSError) as error:
        raise Unsupported(f"PyTorch is installed but does not load: {_first_line(error)}") from error


def _gpu(torch: Any, device: Device) -> Any:
    """Return the torch.device of the same card as `device`."""
    if device.backend != "cuda":
        raise Unsupported(f"PyTorch runs on a CPU or by CUDA, not on {device.spec}")
    if not torch.cuda.is_available():
        raise Unsupported(f"PyTorch {torch.__version__} has no CUDA here: pytorch.org names the build for a driver")
    return torch.device(device.spec)


def _converted(error: Exception) -> Exception | None:
    """Convert an error of PyTorch's to one that `measure` handles; None for a defect of ours."""
    message = _first_line(error)
    if type(getattr(error, "inner_exception", None)).__name__ == "InvalidCxxCompiler":
        return Unsupported("torch.compile finds no C++ compiler: install g++ or set CXX")
    if type(error).__module__.startswith(("torch._dynamo", "torch._inductor")):
        return BuildFailed(message)
    if type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in message:
        return OutOfMemory(message)
    if isinstance(error, RuntimeError) and message.startswith(("CUDA", "cuDNN")):
        return DriverFailed(message)
    return None


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
