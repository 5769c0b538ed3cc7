"""The plans that launch this lab's kernels: the launches of a step, the host's waits, and when it reads the sums.

Each plan runs on one grid or two. The next `run` continues from the state of the last, so a moving fluid is timed.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ...devices.contract import Buffer, Device, Unsupported
from ...peers import compilers, one_thread
from ...spec.kernel_constants import constants
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Plan, Variant, least_bytes, no_conditions
from ...spec.source import Source
from .grid import (
    Grid,
    cells,
    fused_bytes,
    indexed_sums,
    knob,
    lattice_conditions,
    one_core_steps,
    step_bytes,
    summed_in_chunks,
)
from .problem import AWKWARD_STEPS, CASES, EX, EY, OPPOSITE, Params

HERE = Path(__file__).parent
UNWRITTEN = float("nan")
FAST_MATH = {"opencl": "-cl-fast-relaxed-math", "cuda": "--use_fast_math"}
WARP = 32
"""Work-items of a warp."""
MOST_SPEEDS = 1 << 33
"""Bytes of the kept speeds of a chunk that a step may take: the report had no more room either."""
LAUNCHES = {"quick": 2000, "test": 50}
"""Number of launches in a sample of the queue time, by scale; at other scales the published number."""


class Simulation(Plan):
    """Base of the plans: grids, the obstacle map, partial sums, and the mean speed of each step."""

    grids_needed = 2

    conditions = staticmethod(lattice_conditions)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        sides = case.params["nx"], case.params["ny"]
        if variant.options.get("powers_of_two") and any(side & (side - 1) for side in sides):
            return "not on this case: a side is not a power of two"
        if variant.options.get("narrowest", 0) > sides[0]:
            return f"not on this case: narrower than {variant.options['narrowest']} cells"
        return None

    run_options = staticmethod(indexed_sums)
    """Options with which one run takes all steps of a case; None if no run can."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.variant, self.units = device, variant, case.units
        self.params: Params = inputs["params"]
        self.start, obstacles = inputs["f"], inputs["obstacles"]
        self.fluid_cells = int((~obstacles).sum())
        params = self.params
        self.local = variant.options.get("group", (64, 1))
        self.group_size = self.local[0] * self.local[1]
        self.lay_out()
        self.row = -(-params.nx // self.group_size) * self.group_size
        self.queue = device.queue()
        self.source = variant.text.with_knobs(**self.knobs())
        fast = (FAST_MATH[device.backend],) if variant.options.get("fast_math") else ()
        self.program = device.build(self.source.render(device.backend), fast)
        self.solid = np.dtype(np.int8 if knob(variant, "SOLID") == "char" else np.int32)
        self.obstacles = device.upload(obstacles.astype(self.solid))
        self.grids = [Grid(device, variant, params) for _ in range(self.grids_needed)]
        if knob(variant, "GRID") == "STRUCT":
            for grid in self.grids:
                grid.point(device, self.program.kernel("point"))
        self.av_vels = np.full(self.units, np.nan)
        self.nx, self.ny, self.omega = np.int32(params.nx), np.int32(params.ny), np.float32(params.omega)
        self.w1 = np.float32(params.density * params.accel / 9)
        self.w2 = np.float32(params.density * params.accel / 36)
        self.now = 0

    def knobs(self) -> dict[str, Any]:
        """Return the knobs that follow from the case and the launch."""
        knobs: dict[str, Any] = {"GROUP_SIZE": self.group_size} if knob(self.variant, "GROUP_SIZE") else {}
        if knob(self.variant, "GRID") == "SIXTEEN":
            knobs["REST"] = f"{float(self.params.density)!r}f"
        return knobs

    def lay_out(self) -> None:
        """Set the launch: one work-item a cell, one partial sum a work-group."""
        sides = self.params.nx, self.params.ny
        self.size = tuple(-(-n // g) * g for n, g in zip(sides, self.local, strict=True))
        self.groups = self.size[0] * self.size[1] // self.group_size

    def reset(self) -> None:
        self.now = 0
        self.grids[0].write(self.start)
        for grid in self.grids[1:]:
            grid.write(np.full_like(self.start, UNWRITTEN))
        self.av_vels[:] = UNWRITTEN

    def outputs(self) -> dict[str, np.ndarray]:
        return {"f": self.grids[self.now].read(), "av_vels": self.av_vels.copy()}

    def facts(self) -> dict[str, Any]:
        kernel = self.program.kernel(self.main_kernel())
        return {"group": "x".join(map(str, self.local)), "groups": self.groups, **kernel.resources()}

    def main_kernel(self) -> str:
        return "fused"

    def close(self) -> None:
        for grid in self.grids:
            grid.release()
        self.obstacles.release()


class Sequential(one_thread.OneWorkItem, Simulation):
    """One work-item for everything."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; propagation and collision read and write, and a third walk reads speeds."""
        return step_bytes(case, variant, 5, 3, 4)

    timed_units = staticmethod(one_core_steps)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.kernel = self.program.kernel("sequential")
        self.sums = self.device.empty(4 * self.units)

    def main_kernel(self) -> str:
        return "sequential"

    def reset(self) -> None:
        super().reset()
        self.queue.write(self.sums, np.full(self.units, UNWRITTEN, np.float32))

    def run(self) -> None:
        cells, scratch = (grid.arguments[0] for grid in self.grids)
        for step in range(self.units):
            self.queue.launch(
                self.kernel, (1,), (1,), cells, scratch, self.obstacles, self.sums, np.int32(step),
                self.nx, self.ny, self.omega, self.w1, self.w2,
            )  # fmt: skip
        sums = self.queue.read(self.sums, np.empty(self.units, np.float32))
        self.av_vels[:] = sums / self.fluid_cells


class SequentialC(one_thread.AsC, Sequential):
    """The sequential loops compiled as C, on one thread."""


class ReadEachStep(Simulation):
    """The host reads the partial sums after each step and adds them up. Option `finish`: it also waits after each kernel."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.finish = self.queue.finish if variant.options.get("finish") else lambda: None
        self.counting = knob(variant, "COUNT_CELLS") == "1"
        self.sums, self.counts = device.empty(4 * self.groups), device.empty(4 * self.groups)
        self.partials = (self.sums, self.counts) if self.counting else (self.sums,)
        self.accelerate = self.program.kernel("accelerate_flow")
        self.host_sums, self.host_counts = np.empty(self.groups, np.float32), np.empty(self.groups, np.int32)

    def reset(self) -> None:
        super().reset()
        self.queue.write(self.sums, np.full(self.groups, UNWRITTEN, np.float32))
        self.queue.write(self.counts, np.full(self.groups, -1, np.int32))

    def step(self) -> None:
        self.queue.launch(self.accelerate, (self.row,), (self.group_size,), *self.grids[self.now].arguments,
                          self.obstacles, self.nx, self.ny, self.w1, self.w2)  # fmt: skip
        self.finish()
        self.rest_of_step(self.grids[self.now].arguments, self.grids[1 - self.now].arguments)

    def rest_of_step(self, source: tuple[Buffer, ...], target: tuple[Buffer, ...]) -> None:
        raise AssertionError("a plan of this lab says what a step is")

    def run(self) -> None:
        for step in range(self.units):
            self.step()
            self.queue.read(self.sums, self.host_sums)
            cells = self.fluid_cells
            if self.counting:
                cells = int(self.queue.read(self.counts, self.host_counts).sum())
            self.av_vels[step] = self.host_sums.sum() / cells if cells else np.nan


class SeparateKernels(ReadEachStep):
    """Five kernels a step, one for each function of the course's program."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; propagate and collision read and write, av_velocity only reads."""
        return step_bytes(case, variant, 5, 3, 4)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        names = ("propagate", "rebound", "collision", "av_velocity")
        self.propagate, self.rebound, self.collision, self.av_velocity = map(self.program.kernel, names)

    def main_kernel(self) -> str:
        return "collision"

    def rest_of_step(self, source: tuple[Buffer, ...], target: tuple[Buffer, ...]) -> None:
        launch, finish = self.queue.launch, self.finish
        launch(self.propagate, self.size, self.local, *source, *target, self.nx, self.ny)
        finish()
        launch(self.rebound, self.size, self.local, *target, *source, self.obstacles, self.nx, self.ny)
        finish()
        launch(self.collision, self.size, self.local, *target, *source, self.obstacles, self.nx, self.ny, self.omega)
        finish()
        launch(self.av_velocity, self.size, self.local, *source, self.obstacles, *self.partials, self.nx, self.ny)
        finish()


class Fused(ReadEachStep):
    """One kernel a step after accelerate_flow; the two grids are swapped."""

    traffic = staticmethod(fused_bytes)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.fused = self.program.kernel("fused")

    def rest_of_step(self, source: tuple[Buffer, ...], target: tuple[Buffer, ...]) -> None:
        self.queue.launch(self.fused, self.size, self.local, *source, *target, self.obstacles, *self.partials,
                          self.nx, self.ny, self.omega)  # fmt: skip
        self.now = 1 - self.now


class KeptPartials(Simulation):
    """The partial sums of all steps stay on the device and are added up there: at the end, or every `chunk` steps."""

    traffic = staticmethod(fused_bytes)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        chunk = variant.options.get("chunk", 0)
        if chunk > case.units and cells(case) > 1 << 17 and case.scale in ("quick", "test"):
            return "not on this case at this scale: a sample has fewer time steps than a chunk"
        return super().refusal(case, variant)

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return case.units + int(variant.options.get("chunk", 0))

    @classmethod
    def small_options(cls, variant: Variant) -> Mapping[str, Any]:
        return {"chunk": AWKWARD_STEPS // 3 + 1} if "chunk" in variant.options else {}

    run_options = staticmethod(summed_in_chunks)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.chunk = min(variant.options.get("chunk", self.units), self.units)
        self.sums, self.totals = device.empty(4 * self.groups * self.chunk), device.empty(4 * self.units)
        ending = device.build(Source.of(HERE / "total.k").render(device.backend))
        self.total, self.count_steps = ending.kernel("total"), ending.kernel("count_steps")
        self.separate = knob(variant, "ACCELERATE") == "SEPARATE"
        self.accelerate = device.build(self.accelerator().render(device.backend)).kernel("accelerate_flow")
        self.kernels = [self.program.kernel(name) for name in self.kernel_names()]

    def accelerator(self) -> Source:
        """Return the source that holds accelerate_flow."""
        return self.source

    def kernel_names(self) -> tuple[str, ...]:
        return "fused", "fused"

    def reset(self) -> None:
        super().reset()
        self.queue.write(self.sums, np.full(self.groups * self.chunk, UNWRITTEN, np.float32))
        self.queue.write(self.totals, np.full(self.units, UNWRITTEN, np.float32))

    def grids_of(self, step: int) -> tuple[Buffer, ...]:
        """Return the grid arguments of a step, counted from the present state."""
        number = (self.now + step) % 2
        return (*self.grids[number].arguments, *self.grids[1 - number].arguments)

    def phase(self, step: int) -> int:
        return (self.now + step) % 2

    def launch_accelerate(self, step: int) -> None:
        grid = self.grids[(self.now + step) % len(self.grids)].arguments
        self.queue.launch(self.accelerate, (self.row,), (self.group_size,), *grid, self.obstacles,
                          self.nx, self.ny, self.w1, self.w2)  # fmt: skip

    def arguments(self, step: int, slot: tuple[Any, ...], last: bool) -> tuple[Any, ...]:
        """Return all arguments of a step's kernel. A fused acceleration is for the next step, so the last has none."""
        none = np.float32(0)
        push = () if self.separate else (none, none) if last else (self.w1, self.w2)
        return (*self.grids_of(step), self.obstacles, self.sums, *slot, self.nx, self.ny, self.omega, *push)

    def launch_step(self, step: int, slot: tuple[Any, ...]) -> None:
        if self.separate or step == 0:
            self.launch_accelerate(step)
        arguments = self.arguments(step, slot, last=step == self.units - 1)
        self.queue.launch(self.kernels[self.phase(step)], self.size, self.local, *arguments)

    def add_up(self, first: int, steps: int) -> None:
        self.queue.launch(self.total, (64 * steps,), (64,), self.sums, self.totals,
                          np.int32(self.groups), np.int32(first))  # fmt: skip

    def submit(self) -> None:
        for step in range(self.units):
            self.launch_step(step, (np.int32(step % self.chunk),))
            if (step + 1) % self.chunk == 0 or step == self.units - 1:
                self.add_up(step - step % self.chunk, step % self.chunk + 1)

    def run(self) -> None:
        self.submit()
        self.now = (self.now + self.units) % 2
        totals = self.queue.read(self.totals, np.empty(self.units, np.float32))
        self.av_vels[:] = totals / self.fluid_cells

    def close(self) -> None:
        super().close()
        self.sums.release()
        self.totals.release()


class CellSpeeds(KeptPartials):
    """The speed of each cell is kept, not the sums of groups. At the end of a chunk one work-item adds up a step's."""

    @classmethod
    def traffic(cls, case: Case, variant: Variant, least: float) -> float:
        """Return the bytes; a speed a cell is written and read."""
        return fused_bytes(case, variant, least) + 8 * cells(case)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        needed = 4 * cells(case) * int(variant.options["chunk"])
        if needed > MOST_SPEEDS:
            return f"not on this case: the speeds of a chunk take {needed / 1e9:.3g} GB"
        return super().refusal(case, variant)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.boards = device.build(Source.of(HERE / "boards.k").render(device.backend)).kernel("boards")

    def lay_out(self) -> None:
        super().lay_out()
        self.groups = self.params.nx * self.params.ny

    def add_up(self, first: int, steps: int) -> None:
        numbers = (np.int32(number) for number in (self.groups, first, steps))
        self.queue.launch(self.boards, (64 * ceil_div(steps, 64),), (64,), self.sums, self.totals, *numbers)

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "groups": self.size[0] * self.size[1] // self.group_size}


class Vectors(KeptPartials):
    """Work-items that each compute a vector of cells of a row and their own partial sum."""

    def lay_out(self) -> None:
        columns = ceil_div(self.params.nx, constants(self.variant.text)["WIDTH"])
        self.size = (-(-columns // self.local[0]) * self.local[0], -(-self.params.ny // self.local[1]) * self.local[1])
        self.groups = columns * self.params.ny


class InPlace(KeptPartials):
    """One grid. Odd steps store each population in the place of its opposite at the neighbour; even steps put it back."""

    grids_needed = 1

    def kernel_names(self) -> tuple[str, ...]:
        return "from_neighbours", "in_the_cell"

    def main_kernel(self) -> str:
        return "from_neighbours"

    def grids_of(self, step: int) -> tuple[Buffer, ...]:
        return self.grids[0].arguments

    def launch_accelerate(self, step: int) -> None:
        if self.phase(step):
            raise AssertionError(
                "a run of an odd number of steps leaves the grid turned; the next cannot accelerate it"
            )
        super().launch_accelerate(step)

    def outputs(self) -> dict[str, np.ndarray]:
        f = self.grids[0].read()
        if self.now:
            turned = f
            f = np.empty_like(turned)
            for k, opposite in enumerate(OPPOSITE):
                f[opposite] = np.roll(turned[k], (EY[k], EX[k]), axis=(0, 1))
        return {"f": f, "av_vels": self.av_vels.copy()}


class CHost(KeptPartials):
    """The launches of `KeptPartials` from a loop in C: the difference is the cost of the Python host."""

    sources = (HERE / "native.py", HERE / "host.c")

    run_options = staticmethod(indexed_sums)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        from . import native

        self.even_odd = [self.program.kernel("fused") for _ in range(2)]
        self.loop = native.loop_opencl if device.backend == "opencl" else native.loop_cuda

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()

    def submit(self) -> None:
        self.launch_accelerate(0)
        if self.units > 1:
            even_odd = [self.arguments(step, (np.int32(0),), last=False) for step in range(2)]
            step_argument = len(even_odd[0]) - len(("step", "nx", "ny", "omega", "w1", "w2"))
            self.loop(self.queue, self.even_odd, self.size, self.local, even_odd, self.units - 1, step_argument)
        last = self.units - 1
        self.queue.launch(self.kernels[0], self.size, self.local, *self.arguments(last, (np.int32(last),), last=True))
        self.add_up(0, self.units)


class GraphedSteps(KeptPartials):
    """The launches of many steps, recorded once and submitted as one graph: the host leaves the loop."""

    recorded = 256

    run_options = staticmethod(indexed_sums)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.done = device.empty(4)
        self.steps = max(2, min(self.recorded, (self.units - 1) // 2 * 2))
        self.graph = None
        if self.units > self.steps:
            self.graph = self.queue.record(self.submit_recorded)

    def submit_recorded(self) -> None:
        for step in range(self.steps):
            arguments = self.arguments(step, (self.done, np.int32(step)), last=False)
            self.queue.launch(self.kernels[step % 2], self.size, self.local, *arguments)
        self.queue.launch(self.count_steps, (1,), (1,), self.done, np.int32(self.steps))

    def submit(self) -> None:
        if self.now:
            raise Unsupported("a graph was recorded for even steps: the number of units must be even")
        self.queue.write(self.done, np.zeros(1, np.int32))
        self.launch_accelerate(0)
        replays = (self.units - 1) // self.steps if self.graph else 0
        for _ in range(replays):
            assert self.graph is not None
            self.graph.launch()
        done = replays * self.steps
        for step in range(done, self.units):
            arguments = self.arguments(step, (self.done, np.int32(step - done)), last=step == self.units - 1)
            self.queue.launch(self.kernels[step % 2], self.size, self.local, *arguments)
        self.add_up(0, self.units)


class WarpSums(GraphedSteps):
    """A graph of steps in which each warp stores a partial sum of its own."""

    def lay_out(self) -> None:
        super().lay_out()
        self.groups *= self.group_size // WARP


class EarlySteps(WarpSums):
    """A graph in which each step's kernel may begin before the last step's has ended, and waits for it itself."""

    def submit_recorded(self) -> None:
        # The first step and count_steps have plain launches, so nothing begins early that reads or writes the number of steps
        # around a graph. Nor do the last steps, which follow the graphs.
        early = self.program.kernel("fused")
        early.configure(early=True)
        for step in range(self.steps):
            arguments = self.arguments(step, (self.done, np.int32(step)), last=False)
            self.queue.launch(early if step else self.kernels[0], self.size, self.local, *arguments)
        self.queue.launch(self.count_steps, (1,), (1,), self.done, np.int32(self.steps))


class QueueOnly(Plan):
    """An empty kernel with many arguments, queued many times: it times only the host's queueing."""

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    @classmethod
    def refusal(cls, case: Case, variant: Variant) -> str | None:
        is_first = case.name == next(iter(CASES[case.scale]), "")
        return None if is_first else "not on this case: queue time does not depend on the grid"

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return LAUNCHES.get(case.scale, 50000)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.device, self.units = device, case.units
        self.count: int = variant.options["count"]
        self.queue = device.queue()
        self.kernel = device.build(variant.text.render(device.backend)).kernel("queued")
        self.out = device.empty(4)
        buffers = [device.empty(64) for _ in range(self.count)]
        integers = [np.int32(1) for _ in range(self.count)]
        self.arguments = buffers if variant.options["kind"] == "buffer" else integers

    def reset(self) -> None:
        self.queue.write(self.out, np.array([-1], np.int32))

    def run(self) -> float:
        start = time.perf_counter()
        for _ in range(self.units):
            self.queue.launch(self.kernel, (1,), (1,), self.out, *self.arguments)
        seconds = time.perf_counter() - start
        self.queue.finish()
        return seconds

    def outputs(self) -> dict[str, np.ndarray]:
        return {"arguments": self.queue.read(self.out, np.empty(1, np.int32))}


class Native(Plan):
    """The lab's C programs as peers: `OpenMP` or `Given` of native.py, timed without allocation and copies."""

    sources = (HERE / "native.py", HERE / "openmp.c")

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(no_conditions)

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return one_core_steps(case, variant, device) if variant.options["program"] == "Given" else case.units

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        from . import native

        self.device, self.units, self.inputs = device, case.units, inputs
        self.make = getattr(native, variant.options["program"])
        self.reset()

    def reset(self) -> None:
        self.program = self.make(self.inputs["params"], self.inputs["obstacles"], self.inputs["f"])
        self.av_vels = np.full(self.units, UNWRITTEN)

    def run(self) -> None:
        self.av_vels = self.program.run(self.units).astype(np.float64)

    def outputs(self) -> dict[str, np.ndarray]:
        return {"f": self.program.state().astype(np.float64), "av_vels": self.av_vels}

    def facts(self) -> dict[str, Any]:
        requested = self.program.threads
        ran = compilers.threads_of_a_team(requested)
        fewer = {"threads asked for": requested} if ran < requested else {}
        return {"threads": ran, **fewer, "flags": " ".join(self.program.flags), "note": self.program.reason}

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.c_compiler()


class InPlaceGraph(GraphedSteps, InPlace):
    """The in-place steps as a graph."""
