"""The steps on several devices: each has some whole rows of the grid, and in each step gets its neighbours' nearest rows.

The devices form a ring, since the grid is periodic. Option `devices`: their number; a CPU is divided into parts with equally
many cores. Option `cores`: cores of a part, to use only some of all. Option `overlapping`: parts may share cores.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...devices.contract import Buffer, Device, Kernel, Message, Unsupported
from ...spec.bands import by_bands
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Plan, Variant
from ...spec.prediction import FASTER, SLOWER
from ...spec.source import Source
from .grid import fused_bytes, lattice_conditions, summed_in_chunks
from .plans import UNWRITTEN
from .problem import Params

HERE = Path(__file__).parent
ORDER = (0, 1, 3, 2, 5, 6, 4, 7, 8)
"""Order of a row's directions in slab.k: three that stay, three that leave northwards, three that leave southwards."""
NORTHWARDS, SOUTHWARDS = 3, 6
"""Index in ORDER of the first direction that leaves northwards, and southwards."""
LEAVING = 3
STEADY = 400
"""Least number of steps in a sample on GPUs: a loop on two of them begins and ends with half a millisecond of the host."""


class Halos(NamedTuple):
    """The populations that flow into a slab from its neighbours: three directions of a row each."""

    south: Buffer
    north: Buffer


def shares(rows: int, count: int) -> list[range]:
    """Return the rows of each of `count` devices: equally many, or one more."""
    return [range(rows * at // count, rows * (at + 1) // count) for at in range(count)]


class Slab:
    """Some rows of the grid on one device: two states and their halos. The plan knows which state is the present one."""

    def __init__(self, device: Device, source: Source, params: Params, rows: range, group: int, steps: int) -> None:
        """Allocate the slab. steps: number of steps whose partial sums are kept."""
        self.device, self.nx, self.rows, self.group = device, params.nx, rows, group
        self.queue = device.queue()
        self.queue.use()
        program = device.build(source.render(device.backend))
        self.accelerate, self.step = program.kernel("accelerate_flow"), program.kernel("slab")
        total = Source.of(HERE / "total.k")
        self.total = device.build(total.render(device.backend)).kernel("total")
        self.row = 4 * params.nx
        self.grids = [device.empty(9 * self.row * len(rows)) for _ in range(2)]
        self.halos = [Halos(device.empty(LEAVING * self.row), device.empty(LEAVING * self.row)) for _ in range(2)]
        self.groups_across = ceil_div(params.nx, group)
        self.groups = self.groups_across * len(rows)
        self.sums = device.empty(4 * self.groups * steps)
        driven = params.ny - 2
        self.driven = driven - rows.start if driven in rows else -1
        self.size = np.int32(params.nx), np.int32(len(rows))
        self.omega = np.float32(params.omega)
        self.w1 = np.float32(params.density * params.accel / 9)
        self.w2 = np.float32(params.density * params.accel / 36)

    def hold(self, obstacles: np.ndarray, units: int) -> None:
        """Copy the slab's rows of the obstacle map (ny, nx), and allocate the sums of so many steps."""
        self.obstacles = self.device.upload(np.ascontiguousarray(obstacles[self._own], np.int8))
        self.totals = self.device.empty(4 * units)

    @property
    def _own(self) -> slice:
        return slice(self.rows.start, self.rows.stop)

    def write(self, f: np.ndarray) -> None:
        """Set the first state from f (9, ny, nx) of the whole grid, and poison all other memory."""
        laid, rows_of_f = np.empty((len(self.rows), 9, self.nx), np.float32), f[:, self._own]

        def lay(rows: slice) -> None:
            for slot, direction in enumerate(ORDER):
                laid[rows, slot] = rows_of_f[direction, rows]

        by_bands(len(self.rows), self.nx, lay)
        self.queue.write(self.grids[0], laid)
        nothing = np.full(1 << 20, UNWRITTEN, np.float32)
        for buffer in (self.grids[1], self.sums, self.totals, *self.halos[0], *self.halos[1]):
            for offset in range(0, buffer.nbytes, nothing.nbytes):
                self.queue.send(buffer, nothing[: (buffer.nbytes - offset) // 4], offset)
        self.queue.finish()

    def read(self, state: int, f: np.ndarray) -> None:
        """Copy the slab's rows of a state into f (9, ny, nx)."""
        laid = self.queue.read(self.grids[state], np.empty((len(self.rows), 9, self.nx), np.float32))
        rows_of_f = f[:, self._own]

        def put(rows: slice) -> None:
            for slot, direction in enumerate(ORDER):
                rows_of_f[direction, rows] = laid[rows, slot]

        by_bands(len(self.rows), self.nx, put)

    def leaving(self, northwards: bool) -> int:
        """Return the offset in bytes, in a state, of the populations that leave it northwards, or southwards."""
        return self.row * ((len(self.rows) - 1) * 9 + NORTHWARDS if northwards else SOUTHWARDS)

    def drive(self, state: int) -> None:
        """Queue accelerate_flow if the driven row is in this slab."""
        if self.driven >= 0:
            self.queue.use()
            self.queue.launch(
                self.accelerate, (self.groups_across * self.group,), (self.group,), self.grids[state], self.obstacles,
                self.size[0], np.int32(self.driven), self.w1, self.w2,
            )  # fmt: skip

    def launch(self, state: int, slot: int, rows: range, last: bool, pushed: tuple[Buffer, ...] = ()) -> None:
        """Queue a step of some of the slab's rows, from a state to the other. The last step drives nothing any more."""
        none = np.float32(0)
        push = (none, none) if last else (self.w1, self.w2)
        self.queue.launch(
            self.step, (self.groups_across * self.group, len(rows)), (self.group, 1), self.grids[state],
            self.grids[1 - state], *self.halos[state], *pushed, self.obstacles, self.sums, np.int32(slot), *self.size,
            np.int32(rows.start), np.int32(rows.step), np.int32(self.driven), self.omega, *push,
        )  # fmt: skip

    def add_up(self, first: int, steps: int) -> None:
        """Queue the sums of |u| of the steps whose partial sums are kept, as those from step `first` on."""
        self.queue.use()
        self.queue.launch(
            self.total, (64 * steps,), (64,), self.sums, self.totals, np.int32(self.groups), np.int32(first)
        )

    def release(self) -> None:
        for buffer in (*self.grids, *self.halos[0], *self.halos[1], self.sums, self.obstacles, self.totals):
            buffer.release()


def fewer_rows(case: Case, variant: Variant) -> str | None:
    """Return the reason why a grid cannot be divided among the devices of a variant; None if it can."""
    return (
        "not on this case: fewer rows than devices" if variant.options.get("devices", 1) > case.params["ny"] else None
    )


class Slabs(Plan):
    """Base of the plans: one slab a device. They differ in how a step's halos are exchanged."""

    traffic = staticmethod(fused_bytes)
    conditions = staticmethod(lattice_conditions)
    refusal = staticmethod(fewer_rows)

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return max(case.units, STEADY) if device.kind == "gpu" else case.units

    run_options = staticmethod(summed_in_chunks)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        self.units, self.params, self.start = case.units, inputs["params"], inputs["f"]
        ny, count = self.params.ny, int(variant.options["devices"])
        if count > ny:
            raise Unsupported(f"{count} devices: the grid has {ny} rows")
        self.chunk = min(int(variant.options.get("chunk", self.units)), self.units, self.steps_kept(self.units))
        group = int(variant.text.settings["GROUP_SIZE"])
        self.devices: Sequence[Device] = device.several(
            count, variant.options.get("cores"), overlapping=bool(variant.options.get("overlapping"))
        )
        self.slabs = [
            Slab(member, variant.text, self.params, rows, group, self.chunk)
            for member, rows in zip(self.devices, shares(ny, count), strict=True)
        ]
        for slab in self.slabs:
            slab.hold(inputs["obstacles"], self.units)
        self.fluid_cells = int((~inputs["obstacles"]).sum())
        self.av_vels = np.full(self.units, UNWRITTEN)
        self.now = 0

    @staticmethod
    def steps_kept(units: int) -> int:
        """Return the largest number of steps whose partial sums are kept."""
        return units

    def around(self, at: int) -> tuple[int, int]:
        """Return the numbers of a slab's neighbours: south, north."""
        return (at - 1) % len(self.slabs), (at + 1) % len(self.slabs)

    @abstractmethod
    def exchange(self) -> None:
        """Queue the halos of the present state, which queued steps will reach."""

    def advance(self, slot: int, last: bool) -> None:
        """Queue a step, and the halos for the next."""
        for slab in self.slabs:
            slab.queue.use()
            slab.launch(self.now, slot, range(len(slab.rows)), last)
        self.now = 1 - self.now
        if not last:
            self.exchange()

    def reset(self) -> None:
        self.now = 0
        for slab in self.slabs:
            slab.write(self.start)
        self.av_vels[:] = UNWRITTEN

    def run(self) -> None:
        for slab in self.slabs:
            slab.drive(self.now)
        self.exchange()
        self.submit()
        for slab in self.slabs:
            slab.queue.flush()
        sums = [slab.queue.read(slab.totals, np.empty(self.units, np.float32)) for slab in self.slabs]
        self.av_vels[:] = np.sum(sums, axis=0, dtype=np.float64) / self.fluid_cells

    def submit(self) -> None:
        """Queue all steps, and the sums of their mean speeds."""
        self.steps(range(self.units))

    def steps(self, steps: range) -> None:
        """Queue steps, the first of which begins a chunk."""
        for step in steps:
            slot, last = step % self.chunk, step == self.units - 1
            self.advance(slot, last)
            if last or slot == self.chunk - 1:
                for slab in self.slabs:
                    slab.add_up(step - slot, slot + 1)

    def outputs(self) -> dict[str, np.ndarray]:
        f = np.empty((9, self.params.ny, self.params.nx))
        for slab in self.slabs:
            slab.read(self.now, f)
        return {"f": f, "av_vels": self.av_vels.copy()}

    def facts(self) -> dict[str, Any]:
        first = self.slabs[0]
        kernel: Kernel = first.step
        return {
            "group": f"{first.group}x1",
            "groups": sum(slab.groups for slab in self.slabs),
            "devices": len(self.devices),
            "took_part": [member.which for member in self.devices],
            "rows": [len(slab.rows) for slab in self.slabs],
            **kernel.resources(),
        }

    def close(self) -> None:
        for slab in self.slabs:
            slab.release()


class ByHost(Slabs):
    """The host fetches the populations that leave each slab, waits for all of them, and sends them to the neighbours."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        shape = (2, 2, LEAVING * self.params.nx)
        self.hosts = [member.pinned(shape, np.float32) for member in self.devices]
        """Host memory of each slab: by state, since one may be sent while the next arrives; then southwards, northwards."""

    def exchange(self) -> None:
        for slab, host in zip(self.slabs, self.hosts, strict=True):
            slab.queue.use()
            for northwards in (False, True):
                rows = host[self.now, int(northwards)]
                slab.queue.receive(slab.grids[self.now], rows, slab.leaving(northwards))
            slab.queue.flush()
        for slab in self.slabs:
            slab.queue.finish()
        for at, slab in enumerate(self.slabs):
            south, north = self.around(at)
            slab.queue.use()
            slab.queue.send(slab.halos[self.now].south, self.hosts[south][self.now, 1])
            slab.queue.send(slab.halos[self.now].north, self.hosts[north][self.now, 0])


class Direct(Slabs):
    """Each device copies rows from its neighbours' memory once these are computed. The host waits for nothing."""

    def exchange(self) -> None:
        reached = [slab.queue.mark() for slab in self.slabs] if len(self.slabs) > 1 else []
        for at, slab in enumerate(self.slabs):
            slab.queue.use()
            if reached:
                slab.queue.wait_for(*(reached[number] for number in {*self.around(at)}))
            self.fetch(at, slab.queue, self.now)

    def fetch(self, at: int, queue: Any, state: int) -> None:
        """Queue the copies of the halos of one slab."""
        slab = self.slabs[at]
        south, north = (self.slabs[number] for number in self.around(at))
        queue.fetch(slab.halos[state].south, south.grids[state], south.leaving(northwards=True))
        queue.fetch(slab.halos[state].north, north.grids[state], north.leaving(northwards=False))


class Overlapped(Direct):
    """The rows that neighbours wait for are computed first; a second queue copies them while the others are computed."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.beside = [member.queue() for member in self.devices]
        self.arrived: list[Any] = []
        """Marks in the queues `beside` after the copies of the present state's halos; none if `exchange` has queued them."""

    def run(self) -> None:
        self.arrived = []
        super().run()

    def advance(self, slot: int, last: bool) -> None:
        computed = []
        for at, slab in enumerate(self.slabs):
            rows = len(slab.rows)
            slab.queue.use()
            if self.arrived:
                slab.queue.wait_for(self.arrived[at])
            slab.launch(self.now, slot, range(0, rows, max(1, rows - 1)), last)
            computed.append(slab.queue.mark())
            if rows > 2:
                slab.launch(self.now, slot, range(1, rows - 1), last)
                slab.queue.flush()
        self.now = 1 - self.now
        self.arrived = []
        for at, queue in enumerate([] if last else self.beside):
            queue.use()
            queue.wait_for(*(computed[number] for number in {*self.around(at)}))
            self.fetch(at, queue, self.now)
            self.arrived.append(queue.mark())


class ByNccl(Slabs):
    """NCCL sends and receives the halos, in the queues that compute."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.messages = device.messages(self.devices, [slab.queue for slab in self.slabs])

    def exchange(self) -> None:
        messages = []
        for at, slab in enumerate(self.slabs):
            (south, north), grid = self.around(at), slab.grids[self.now]
            to_south, to_north = (self.slabs[number].halos[self.now] for number in (south, north))
            messages.append(Message(at, south, grid, slab.leaving(northwards=False), to_south.north))
            messages.append(Message(at, north, grid, slab.leaving(northwards=True), to_north.south))
        self.messages.exchange(messages)


class Stored(Direct):
    """The kernel stores leaving populations into the neighbours' halos; a step waits for both neighbours' last step."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        for at, member in enumerate(self.devices):
            for neighbour in (self.devices[place] for place in self.around(at)):
                if not member.reaches(neighbour):
                    raise Unsupported(f"{member.spec} does not reach the memory of {neighbour.spec}")
        self.stored: list[Any] = []
        """Marks after the step that stored the present halos; none before the first step of a run."""

    def run(self) -> None:
        self.stored = []
        super().run()

    def advance(self, slot: int, last: bool) -> None:
        stored = []
        for at, slab in enumerate(self.slabs):
            south, north = (self.slabs[number].halos[1 - self.now] for number in self.around(at))
            slab.queue.use()
            if self.stored:
                slab.queue.wait_for(*(self.stored[number] for number in {*self.around(at)}))
            slab.launch(self.now, slot, range(len(slab.rows)), last, (south.north, north.south))
            if len(self.slabs) > 1:
                stored.append(slab.queue.mark())
        self.stored, self.now = stored, 1 - self.now


class StoredFirst(Stored):
    """The rows that neighbours wait for are computed first, and are stored while the others are computed."""

    def advance(self, slot: int, last: bool) -> None:
        stored = []
        for at, slab in enumerate(self.slabs):
            south, north = (self.slabs[number].halos[1 - self.now] for number in self.around(at))
            pushed, rows = (south.north, north.south), len(slab.rows)
            slab.queue.use()
            if self.stored:
                slab.queue.wait_for(*(self.stored[number] for number in {*self.around(at)}))
            slab.launch(self.now, slot, range(0, rows, max(1, rows - 1)), last, pushed)
            if len(self.slabs) > 1:
                stored.append(slab.queue.mark())
            if rows > 2:
                slab.launch(self.now, slot, range(1, rows - 1), last, pushed)
        self.stored, self.now = stored, 1 - self.now


class StoredGraph(StoredFirst):
    """The launches and events of many steps on all devices, recorded once and submitted as one graph in the first queue."""

    recorded = 256

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.graphs = []
        """Graphs that start from either state; none if no step would be left after one."""
        for state in (0, 1) if self.units > self.chunk else ():
            self.now = state
            self.graphs.append(self.slabs[0].queue.record(self._recorded_steps))

    @staticmethod
    def steps_kept(units: int) -> int:
        """Return an even number, after which the states are as before. At least one step is left, which drives no more."""
        return max(2, min(StoredGraph.recorded, (units - 1) // 2 * 2))

    def _recorded_steps(self) -> None:
        self.stored = []
        self._others_follow()
        for slot in range(self.chunk):
            self.advance(slot, last=False)
        self._first_follows()

    def _others_follow(self) -> None:
        """Make later commands of the other queues wait for the first queue."""
        first, *other_queues = (slab.queue for slab in self.slabs)
        reached = first.mark()
        for queue in other_queues:
            queue.wait_for(reached)

    def _first_follows(self) -> None:
        """Make later commands of the first queue wait for all others."""
        first, *other_queues = (slab.queue for slab in self.slabs)
        first.wait_for(*(queue.mark() for queue in other_queues))

    def submit(self) -> None:
        replays = (self.units - 1) // self.chunk if self.graphs else 0
        for replay in range(replays):
            self._first_follows()
            self.slabs[0].queue.use()
            self.graphs[self.now].launch()
            self._others_follow()
            for slab in self.slabs:
                slab.add_up(replay * self.chunk, self.chunk)
        self.stored = []
        self.steps(range(replays * self.chunk, self.units))


SLAB = Source.of(HERE / "slab.k", PUSH=0)
TWO = {"devices": 2}
COUNTS = (1, 2, 4, 8)
GROWN: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "test": (40, (24, 48)),
    "quick": (1024, (8, 128, 1024, 2048)),
    "published": (1024, (8, 64, 256, 1024, 2048, 4096)),
    "large": (8192, (8, 1024, 8192, 16384)),
}
"""Scale -> columns of a grid, and numbers of rows for the series that compares several devices with one."""
SEVERAL = frozenset({"several"})

STEPS = (
    Variant(
        "slab", "flat-grid", SLAB, Direct,
        "Rows one after another, each with its nine directions side by side, and a halo for the rows beyond either end.",
        "The program for several devices, on one: two more copies of three rows a step, which slow a small grid down.",
        needs=SEVERAL, options={"devices": 1}, differs=("source", "plan", "options"), predicts={"small": SLOWER},
    ),
    Variant(
        "halo-by-host", "slab", SLAB, ByHost,
        "Two devices, half of the rows each. In each step the host fetches the outermost rows and sends them on.",
        "Two GPUs have twice the bandwidth. But both wait for the host in each step, which slows a small grid down.",
        needs=SEVERAL | {"pinned"}, options=TWO, differs=("plan", "options"), predicts={"small": SLOWER},
    ),
    Variant(
        "halo-direct", "halo-by-host", SLAB, Direct,
        "Each device copies the rows from its neighbour's memory; queues wait for each other by events, the host for none.",
        "Half of the copies, and no wait of the host: faster, the more so the smaller the grid.",
        needs=SEVERAL, options=TWO, differs=("plan",), predicts=FASTER,
    ),
    Variant(
        "halo-overlapped", "halo-direct", SLAB, Overlapped,
        "The outermost rows are computed first, and copied by a second queue while the others are computed.",
        "Hides the copy behind the inner rows. A small grid pays for it: one more launch and two more events a step.",
        needs=SEVERAL, options=TWO, differs=("plan",), predicts={"small": SLOWER},
    ),
    Variant(
        "halo-nccl", "halo-direct", SLAB, ByNccl,
        "NCCL sends and receives the rows, in the queues that compute.",
        "Made for many nodes and large messages: a message of a few rows costs more than a copy.",
        needs=SEVERAL | {"nccl"}, options=TWO, differs=("plan",), predicts={"small": SLOWER},
    ),
    Variant(
        "halo-stored", "halo-direct", SLAB.with_knobs(PUSH=1), Stored,
        "The kernel stores leaving populations straight into the neighbour's memory. A step waits for the last step of both "
        "neighbours.",
        "No copy is left, only the events: faster if launches and copies take the time.",
        needs=SEVERAL, options=TWO, differs=("source", "plan"), predicts={"small": FASTER},
    ),
    Variant(
        "halo-stored-overlapped", "halo-stored", SLAB.with_knobs(PUSH=1), StoredFirst,
        "The outermost rows come first, in a separate launch: neighbours have them long before they need them.",
        "No device waits for the other any more. A small grid pays for it with a second launch a step.",
        needs=SEVERAL, options=TWO, differs=("plan",), predicts={"small": SLOWER},
    ),
    Variant(
        "halo-stored-graph", "halo-stored-overlapped", SLAB.with_knobs(PUSH=1), StoredGraph,
        "The launches and events of 256 steps on both devices are recorded once and submitted as one CUDA graph.",
        "The host leaves the loop: four launches, and the events between them, took longer than a small grid's arithmetic.",
        needs=SEVERAL | {"graphs"}, options=TWO, differs=("plan",), predicts={"small": FASTER},
    ),
)  # fmt: skip

COUNTED = tuple(STEPS[6].at("devices", count, devices=count, cores=1) for count in COUNTS)
"""Points of halo-stored-overlapped on COUNTS devices; those of a CPU are one core each."""
