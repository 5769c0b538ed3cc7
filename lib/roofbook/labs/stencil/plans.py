"""The plans that launch the stencil's kernels: one launch a pass, one for all passes, or one work-item for everything."""

from abc import abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Device
from ...peers import one_thread
from ...spec.kernel_run import KernelRun, fit
from ...spec.plan import Case, Variant, no_conditions
from .problem import PUBLISHED_PASSES

HERE = Path(__file__).parent
UNWRITTEN = np.float32(np.nan)


class Stencil(KernelRun):
    """The three grids on a device. `run` adds `units` passes to g as it was after `reset`."""

    kernel_name: str

    conditions = staticmethod(no_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, case.units)
        self.g_start = inputs["g"]
        self.height, self.width = self.g_start.shape
        self.knobs = variant.text.settings
        self.group: tuple[int, ...] = variant.options.get("group", (128, 1))
        self.size = self.lay_out()
        fit(device, self.group)
        program = device.build(variant.text.with_knobs(**self.turned()).render(device.backend))
        self.kernel = program.kernel(self.kernel_name)
        self.offset = int(self.knobs.get("OFFSET", 0))
        r, b, self.g_placed = (self.placed(inputs[name]) for name in "rbg")
        self.r, self.b, self.g = self.buffers = [device.upload(array) for array in (r, b, self.g_placed)]

    def placed(self, grid: np.ndarray) -> np.ndarray:
        """Return a grid as its buffer holds it: flat, behind `offset` zeros."""
        return np.concatenate([np.zeros(self.offset, np.float32), grid.ravel()]) if self.offset else grid.ravel()

    @abstractmethod
    def lay_out(self) -> tuple[int, ...]:
        """Return the global size."""

    def turned(self) -> dict[str, Any]:
        """Return the knobs that follow from the case and the launch."""
        return {}

    def reset(self) -> None:
        self.queue.write(self.g, self.g_placed)

    def outputs(self) -> dict[str, np.ndarray]:
        buffer = self.queue.read(self.g, np.empty(self.offset + self.g_start.size, np.float32))
        return {"g": buffer[self.offset :].reshape(self.g_start.shape)}


class Sequential(one_thread.OneWorkItem, Stencil):
    """One work-item for everything."""

    kernel_name = "sequential"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least * PUBLISHED_PASSES

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return case.units if case.scale == "test" else 1  # one core: a pass says as much as 23

    def lay_out(self) -> tuple[int, ...]:
        self.group = (1,)
        return (1,)

    def submit(self) -> None:
        self.queue.launch(self.kernel, self.size, self.group, self.r, self.b, self.g,
                          np.int32(self.height), np.int32(self.width), np.int32(self.units))  # fmt: skip


class SequentialC(one_thread.AsC, Sequential):
    """The sequential loops compiled as C, on one thread."""


class Passes(Stencil):
    """One launch a pass, with work-items in two dimensions."""

    kernel_name = "one_pass"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        return least * PUBLISHED_PASSES

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        knobs, group = variant.text.settings, variant.options.get("group", (128, 1))
        if knobs["BOUNDS"] != "NONE":
            return None
        across, down = group[0] * int(knobs["TASKS"]), group[1]
        if case.params["width"] % across:
            return f"not on this case: the width is not a multiple of {across}"
        if (case.params["height"] - 2) % down:
            return f"not on this case: the inner rows are not a multiple of {down}"
        return None

    def lay_out(self) -> tuple[int, ...]:
        rows = self.height if self.knobs["BOUNDS"] == "CHECKED" else self.height - 2
        sides = (self.width // int(self.knobs["TASKS"]), rows)
        if self.knobs["WALK"] == "COLUMNS":
            sides = sides[::-1]
        return tuple(-(-side // group) * group for side, group in zip(sides, self.group, strict=True))

    def turned(self) -> dict[str, Any]:
        knobs: dict[str, Any] = {}
        if self.knobs["SIZES"] == "COMPILED":
            knobs |= {"HEIGHT": self.height, "WIDTH": self.width}
        if self.knobs["STAGING"] == "LOCAL_COPY":
            knobs |= {"GROUP_SIZE": int(np.prod(self.group))}
        return knobs

    def submit(self) -> None:
        sizes = () if self.knobs["SIZES"] == "COMPILED" else (np.int32(self.height), np.int32(self.width))
        for _ in range(self.units):
            self.queue.launch(self.kernel, self.size, self.group, self.r, self.b, self.g, *sizes)


class Flat(Stencil):
    """The inner rows as one range. Knob PASSES: how many passes a launch does."""

    kernel_name = "flat"

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes, divided by the passes of a launch."""
        return least * PUBLISHED_PASSES / int(variant.text.settings["PASSES"])

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        lanes = int(variant.text.settings["LANES"])
        return f"not on this case: the width is not a multiple of {lanes}" if case.params["width"] % lanes else None

    def lay_out(self) -> tuple[int, ...]:
        self.group = self.group[:1]
        self.count = (self.height - 2) * self.width
        items = self.count // int(self.knobs["LANES"])
        return (-(-items // self.group[0]) * self.group[0],)

    def turned(self) -> dict[str, Any]:
        fused = {"PASSES": self.units} if int(self.knobs["PASSES"]) > 1 else {}
        return {"WIDTH": self.width, "COUNT": self.count, **fused}

    def submit(self) -> None:
        for _ in range(1 if int(self.knobs["PASSES"]) > 1 else self.units):
            self.queue.launch(self.kernel, self.size, self.group, self.r, self.b, self.g)
