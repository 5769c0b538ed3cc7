"""A convolution as a graph of cuDNN's, in types that PyTorch does not offer: int8, or fp16 with sums in fp32.

For peers on an NVIDIA GPU. It needs NVIDIA's Python package for such graphs.
"""

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any

from ..devices.contract import BuildFailed, Unsupported
from . import pytorch

ROUNDS = 5
TRIED = 3
"""Number of cuDNN's kernels that are timed by default."""
TYPES = {"int8": ("INT8", "INT32"), "float16": ("HALF", "FLOAT")}
"""cuDNN's names for the type of operands and the type of their sums."""


def missing() -> str | None:
    """Return the reason, in one line, why no graph can be built; None if one can. Imports nothing."""
    if reason := pytorch.missing():
        return reason
    if importlib.util.find_spec("cudnn") is None:
        return "cuDNN's graphs are not installed: pip install nvidia-cudnn-frontend"
    return None


class GraphConvolution:
    """y = convolution of x by one kernel: the fastest of the first `tried` that cuDNN proposes.

    x (N, C, H, W) and weight (K, C, k, k), int8 or float16, and y (N, K, H + 2 padding - k + 1, W + ...), int32 or float32, are
    PyTorch's tensors, all channels-last; a call overwrites y. `tried` kernels are built and timed in cuDNN's order; each may
    take a second to compile. Raises Unsupported if cuDNN has no kernel, BuildFailed if it cannot build any.
    """

    def __init__(self, torch: Any, x: Any, weight: Any, y: Any, padding: int = 0, tried: int = TRIED) -> None:
        self.torch, self.handle, self.y, self.tried = torch, None, y, tried
        try:
            self.cudnn = importlib.import_module("cudnn")
            self.handle = self.cudnn.create_handle()
            self.graph, self.names = self._graph(x, weight, padding)
            self.plan, self.workspace = self._fastest(x, weight)
        except Exception as error:
            self.close()
            if isinstance(error, (ImportError, OSError)) or "Unable to find symbol" in str(error):
                raise Unsupported(f"cuDNN's graphs are installed but do not load: {_first_line(error)}") from error
            if type(error).__name__ == "cudnnGraphNotSupportedError":
                raise Unsupported(f"cuDNN has no kernel for this: {_first_line(error)}") from error
            raise

    def __call__(self, x: Any, weight: Any) -> Any:
        """Compute and return y for tensors of the first ones' shapes and strides, on PyTorch's current stream."""
        self._run(self.plan, self.workspace, x, weight)
        return self.y

    def facts(self) -> dict[str, Any]:
        return {"cudnn graphs": str(self.cudnn.__version__), "cudnn plan": self.plan}

    def close(self) -> None:
        """Destroy the handle."""
        if self.handle is not None:
            self.cudnn.destroy_handle(self.handle)
            self.handle = None

    def _graph(self, x: Any, weight: Any, padding: int) -> tuple[Any, Sequence[Any]]:
        """Return (the graph, its tensors x, weight and y)."""
        names = TYPES[str(x.dtype).removeprefix("torch.")]
        operands, sums = (getattr(self.cudnn.data_type, name) for name in names)
        graph = self.cudnn.pygraph(
            io_data_type=operands, intermediate_data_type=sums, compute_data_type=sums, handle=self.handle
        )
        image, filters = (
            graph.tensor(name=name, dim=list(tensor.shape), stride=list(tensor.stride()), data_type=operands)
            for name, tensor in (("x", x), ("weight", weight))
        )
        out = graph.conv_fprop(
            image=image, weight=filters, padding=[padding] * 2, stride=[1, 1], dilation=[1, 1], compute_data_type=sums
        )
        # A convolution alone would get other kernels, far slower: with an operation behind it, cuDNN compiles one.
        out = graph.identity(input=out.set_data_type(sums), compute_data_type=sums)
        out.set_output(True).set_data_type(sums).set_dim(list(self.y.shape)).set_stride(list(self.y.stride()))
        graph.validate()
        graph.build_operation_graph()
        graph.create_execution_plans([self.cudnn.heur_mode.A, self.cudnn.heur_mode.FALLBACK])
        graph.check_support()
        return graph, (image, filters, out)

    def _fastest(self, x: Any, weight: Any) -> tuple[int, Any]:
        """Return (number of the fastest plan, its workspace)."""
        timings: list[tuple[float, int, Any]] = []
        reason = ""
        for plan in range(min(self.tried, self.graph.get_execution_plan_count())):
            try:
                self.graph.build_plan_at_index(plan)
                needs = max(1, self.graph.get_workspace_size_plan_at_index(plan))
                workspace = self.torch.empty(needs, dtype=self.torch.uint8, device=self.y.device)
                timings.append((self._seconds(plan, workspace, x, weight), plan, workspace))
            except Exception as error:  # the next one may do
                reason = _first_line(error)
        if not timings:
            raise BuildFailed(f"cuDNN builds none of its kernels for this: {reason}")
        _, plan, workspace = min(timings, key=lambda timing: timing[:2])
        self.graph.build_plan_at_index(plan)
        return plan, workspace

    def _seconds(self, plan: int, workspace: Any, x: Any, weight: Any) -> float:
        """Return the seconds of the fastest of ROUNDS runs of a plan."""
        times: list[float] = []
        for _ in range(1 + ROUNDS):
            start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            self._run(plan, workspace, x, weight)
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end) * 1e-3)
        return min(times[1:])

    def _run(self, plan: int, workspace: Any, x: Any, weight: Any) -> None:
        self.cudnn.set_stream(handle=self.handle, stream=self.torch.cuda.current_stream().cuda_stream)
        tensors = dict(zip(self.names, (x, weight, self.y), strict=True))
        self.graph.execute_plan_at_index(tensors, workspace, plan, handle=self.handle)


class GraphCall(pytorch.Call):
    """Base of the peers with a graph of cuDNN's for their convolution."""

    graph: GraphConvolution | None = None

    @staticmethod
    def missing() -> str | None:
        return missing()

    def convolve(self, x: Any, weight: Any, dtype: Any, padding: int = 0, tried: int = TRIED) -> Any:
        """Convolve images with filters, both channels-last, to sums of a type. The first call builds the graph."""
        if self.graph is None:
            filters, _, kernel, _ = weight.shape
            sides = (side + 2 * padding + 1 - kernel for side in x.shape[2:])
            form = {"dtype": dtype, "memory_format": self.torch.channels_last}
            y = self.torch.empty((len(x), filters, *sides), device=self.place, **form)
            self.graph = GraphConvolution(self.torch, x, weight, y, padding=padding, tried=tried)
        return self.graph(x, weight)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), **(self.graph.facts() if self.graph else {})}

    def close(self) -> None:
        if self.graph:
            self.graph.close()
            self.graph = None
        super().close()


def _first_line(error: Exception) -> str:
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
