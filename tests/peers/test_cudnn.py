"""cuDNN's graphs as a peer asks for them: the plan taken, the message where there is none, handles that are released."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from roofbook.devices.contract import BuildFailed, Unsupported
from roofbook.peers import cudnn, pytorch


class cudnnGraphNotSupportedError(RuntimeError):
    """cuDNN's exception where none of its kernels fits."""


class Node:
    """A tensor of a graph, which remembers the attributes that were set."""

    def __init__(self, **attributes: Any) -> None:
        self.said = attributes

    def __getattr__(self, name: str) -> Any:
        return lambda value: (self.said.update({name.removeprefix("set_"): value}), self)[1]


class Graph:
    """Graph whose plans take the given microseconds; a plan of None does not build."""

    def __init__(self, plans: Sequence[float | None], supported: bool) -> None:
        self.plans, self.supported, self.ran = plans, supported, []  # type: ignore[var-annotated]
        self.built: list[int] = []

    def tensor(self, **attributes: Any) -> Node:
        return Node(**attributes)

    def conv_fprop(self, **attributes: Any) -> Node:
        self.asked = attributes
        return Node()

    def identity(self, **attributes: Any) -> Node:
        self.out = Node()
        return self.out

    def check_support(self) -> None:
        if not self.supported:
            raise cudnnGraphNotSupportedError("\nNo valid engine configs\nmore")

    def __getattr__(self, name: str) -> Any:
        assert name in ("validate", "build_operation_graph", "create_execution_plans")
        return lambda *_: None

    def get_execution_plan_count(self) -> int:
        return len(self.plans)

    def build_plan_at_index(self, plan: int) -> None:
        if self.plans[plan] is None:
            raise RuntimeError("\nit does not compile\nmore")
        self.built.append(plan)

    def get_workspace_size_plan_at_index(self, plan: int) -> int:
        return 100 + plan

    def execute_plan_at_index(self, tensors: Any, workspace: Any, plan: int, handle: Any) -> None:
        self.ran.append((plan, workspace, [*tensors.values()]))
        CLOCK[0] += cast(float, self.plans[plan])


CLOCK = [0.0]


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.at = CLOCK[0]

    def synchronize(self) -> None:
        """Do nothing: no kernel runs."""

    def elapsed_time(self, end: Event) -> float:
        return end.at - self.at


def tensor(*shape: int, dtype: str = "int8") -> Any:
    return SimpleNamespace(shape=shape, stride=lambda: shape[::-1], dtype=f"torch.{dtype}", device="cuda:0")


@pytest.fixture
def cudnn_with(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Function that makes a convolution whose cuDNN has these plans, with stand-ins for the library and PyTorch."""

    def make(*plans: float | None, supported: bool = True) -> Any:
        handles: list[str] = []
        graph = Graph(plans, supported)
        library = SimpleNamespace(
            __version__="1.0",
            create_handle=lambda: handles.append("handle") or "handle",  # type: ignore[func-returns-value]
            destroy_handle=handles.remove,
            set_stream=lambda handle, stream: None,
            pygraph=lambda **attributes: graph,
            data_type=SimpleNamespace(INT8="INT8", INT32="INT32"),
            heur_mode=SimpleNamespace(A="A", FALLBACK="FALLBACK"),
        )
        stream = SimpleNamespace(cuda_stream=7)
        torch = SimpleNamespace(
            uint8="uint8",
            empty=lambda size, dtype, device: size,
            cuda=SimpleNamespace(Event=Event, current_stream=lambda: stream),
        )
        monkeypatch.setattr(importlib, "import_module", lambda name: library)
        cudnn_with = SimpleNamespace(graph=graph, handles=handles)
        x, weight, y = tensor(1, 16, 8, 8), tensor(32, 16, 3, 3), tensor(1, 32, 8, 8, dtype="int32")
        cudnn_with.make = lambda: cudnn.GraphConvolution(torch, x, weight, y, padding=1)
        cudnn_with.operands = x, weight, y
        return cudnn_with

    return make


def test_the_fastest_of_the_first_plans_that_build_is_taken(cudnn_with: Any) -> None:
    stand_in = cudnn_with(30.0, None, 20.0, 1.0)
    convolution = stand_in.make()
    assert convolution.plan == 2 == stand_in.graph.built[-1], "the first three are tried, and that one is built last"
    _, weight, y = stand_in.operands
    other_input = tensor(1, 16, 8, 8)
    assert convolution(other_input, weight) is y
    assert stand_in.graph.ran[-1] == (2, 102, [other_input, weight, y])
    assert stand_in.graph.asked["padding"] == [1, 1] and stand_in.graph.asked["image"].said["stride"] == [8, 8, 16, 1]
    assert stand_in.graph.out.said == {
        "output": True, "data_type": "INT32", "dim": [1, 32, 8, 8], "stride": [8, 8, 32, 1],
    }  # fmt: skip
    assert json.loads(json.dumps(convolution.facts())) == {"cudnn graphs": "1.0", "cudnn plan": 2}
    convolution.close()
    convolution.close()
    assert not stand_in.handles


def test_where_no_plan_builds_or_cudnn_has_none_it_is_said_and_the_handle_is_let_go(cudnn_with: Any) -> None:
    for plans, supported, kind, reason in (
        ((None, None), True, BuildFailed, "^cuDNN builds none of its kernels for this: it does not compile$"),
        ((1.0,), False, Unsupported, "^cuDNN has no kernel for this: No valid engine configs$"),
    ):
        stand_in = cudnn_with(*plans, supported=supported)
        with pytest.raises(kind, match=reason):
            stand_in.make()
        assert not stand_in.handles


def test_a_library_that_does_not_load_is_said(cudnn_with: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in = cudnn_with(1.0)

    def refuse(name: str) -> None:
        raise ImportError(f"no module that {name} needs\nmore")

    monkeypatch.setattr(importlib, "import_module", refuse)
    with pytest.raises(
        Unsupported, match=r"^cuDNN's graphs are installed but do not load: no module that cudnn needs$"
    ):
        stand_in.make()
    assert not stand_in.handles


def test_what_is_missing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert cudnn.missing() == pytorch.missing() is not None
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name == "torch" or None)
    assert cudnn.missing() == "cuDNN's graphs are not installed: pip install nvidia-cudnn-frontend"
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert cudnn.missing() is None
