"""lbmpy as a peer: the lab's step from a generator of lattice Boltzmann kernels, for a CPU or an NVIDIA GPU.

lbmpy is optional, and is imported when a peer is created, never before. A peer that cannot run says why in one line.
"""

from __future__ import annotations

import functools
import importlib.util
import tempfile
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...devices.contract import BuildFailed, Device, Graph, Unsupported
from ...devices.host import processors
from ...peers import compilers
from ...spec.kernel_run import ceil_div
from ...spec.plan import Case, Plan, Variant
from .grid import fused_bytes, lattice_conditions
from .problem import EX, EY, OPPOSITE, Params

LINE = 16
"""Number of floats in a cache line."""


class Generated(NamedTuple):
    """Kernels of pystencils for even and odd steps, or one for both, and the places where a step leaves the populations."""

    steps: list[Any]
    drives: list[Any]
    """Kernels for accelerate_flow on the populations that the step of the same kind reads; none if nothing drives the flow."""
    left: list[list[tuple[int, int, int]]]
    """Place of each population after a step: (plane, dx, dy), in that plane, at the cell that far away."""


class Lbmpy(Plan):
    """Base of both peers. D2Q9, single relaxation time, fp32; omega is an argument of the kernels.

    Option `bare`: only stream and collide; no cell is blocked, nothing drives the flow, no speeds are added up, and `outputs`
    has no `av_vels`. Raises Unsupported if lbmpy or a compiler is missing, and BuildFailed.
    """

    traffic = staticmethod(fused_bytes)
    conditions = staticmethod(lattice_conditions)

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        reason = self.missing()
        if reason:
            raise Unsupported(reason)
        self.units, self.bare = case.units, bool(variant.options.get("bare"))
        self.params: Params = inputs["params"]
        self.start, self.fluid = inputs["f"], ~inputs["obstacles"]
        self.fluid_cells = int(self.fluid.sum())
        params = self.params
        self.omega = np.float32(params.omega)
        self.w1, self.w2 = (np.float32(params.density * params.accel / part) for part in (9, 36))
        self.none = np.float32(0)
        self.now = 0

    @staticmethod
    def missing() -> str | None:
        """Return a line that names the missing package; None if all are installed. Imports none."""
        for module, package in (("lbmpy", "lbmpy"), ("cpuinfo", "py-cpuinfo")):
            if importlib.util.find_spec(module) is None:
                return f"{package} is not installed: pip install 'roofbook[peers]'"
        return None

    @staticmethod
    def generated(make: Callable[..., Generated], *form: Any) -> Generated:
        """Generate kernels by `for_cpu` or `for_gpu`. Raises Unsupported for another version of lbmpy or pystencils."""
        try:
            return make(*form)
        except ImportError as error:
            import importlib.metadata

            raise Unsupported(f"lbmpy {importlib.metadata.version('lbmpy')} does not load: {error}") from error

    @abstractmethod
    def write(self, f: NDArray[np.float32]) -> None:
        """Set the state from f (9, ny, nx), and poison the memory that a step writes."""

    @abstractmethod
    def read(self) -> NDArray[np.float32]:
        """Return the state as f (9, ny, nx)."""

    def reset(self) -> None:
        self.now = 0
        self.write(self.start)
        self.av_vels = np.full(self.units, np.nan)

    def outputs(self) -> dict[str, np.ndarray]:
        f = self.read().astype(np.float64)
        return {"f": f} if self.bare else {"f": f, "av_vels": self.av_vels.copy()}

    def facts(self) -> dict[str, Any]:
        import importlib.metadata

        return {name: importlib.metadata.version(name) for name in ("lbmpy", "pystencils")}


class OnCpu(Lbmpy):
    """Two grids, OpenMP and vectors. NumPy writes the periodic copies into rows and columns around a grid in each step."""

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        super().__init__(device, variant, case, inputs)
        self.threads = processors()
        generated = self.generated(for_cpu, self.bare, self.threads)
        self.target = generated.steps[0].target.name
        self.steps, self.drives = (
            [_loaded(kernel) for kernel in kernels] for kernels in (generated.steps, generated.drives)
        )
        nx, ny = self.params.nx, self.params.ny
        self.grids = [aligned(9, ny + 2, nx + 2) for _ in range(2)]
        cells = aligned(1, ny + 2, nx + 2)[0]
        cells[1:-1, 1:-1] = self.fluid
        shared = {"cell": cells.T, "omega": self.omega, "w1": self.w1, "w2": self.w2}
        self.arguments = [{"src": a.T, "dst": b.T, **shared} for a, b in (self.grids, self.grids[::-1])]

    def write(self, f: NDArray[np.float32]) -> None:
        self.grids[0][:, 1:-1, 1:-1] = f
        self.grids[1][:] = np.nan

    def read(self) -> NDArray[np.float32]:
        return self.grids[self.now][:, 1:-1, 1:-1]

    def run(self) -> None:
        sums = np.zeros(self.units, np.float32)
        for step in range(self.units):
            f, arguments = self.grids[self.now], self.arguments[self.now]
            if not self.bare:
                self.drives[0](**arguments)
            f[:, 0], f[:, -1] = f[:, -2], f[:, 1]
            f[:, :, 0], f[:, :, -1] = f[:, :, -2], f[:, :, 1]
            self.steps[0](**arguments, speed=sums[step : step + 1])
            self.now = 1 - self.now
        self.av_vels = sums.astype(np.float64) / self.fluid_cells

    def facts(self) -> dict[str, Any]:
        return {**super().facts(), "threads": compilers.threads_of_a_team(self.threads), "target": self.target}

    @staticmethod
    def compilers(variant: Variant) -> dict[str, str]:
        return compilers.cxx_compiler()


class OnGpu(Lbmpy):
    """All steps of a run as one CUDA graph. The kernels wrap around the sides of the grid themselves.

    Options: `pattern`, lbmpy's name of a streaming pattern: "pull" takes two grids, "aa", "esotwist", "esopull" and "esopush"
    take one; `block`, threads of a block (columns, rows).
    """

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        from ...devices.cuda import Kernel

        super().__init__(device, variant, case, inputs)
        nx, ny = self.params.nx, self.params.ny
        self.block = variant.options["block"]
        generated = self.generated(for_gpu, variant.options["pattern"], self.bare, nx, ny, self.block)
        self.left = generated.left
        self.queue = device.queue()
        in_place = generated.left[0] != generated.left[1]
        self.buffers = [device.empty(4 * 9 * nx * ny) for _ in range(1 if in_place else 2)]
        self.sums = device.empty(4 * self.units)
        self.cells = device.upload(self.fluid.astype(np.int8))
        grids = [_array(buffer, np.float32, 9, ny, nx).T for buffer in self.buffers]
        shared = {"cell": _array(self.cells, np.int8, ny, nx).T, "omega": self.omega}
        self.arguments = [{"src": a, "dst": b, **shared} for a, b in ((grids[0], grids[-1]), (grids[-1], grids[0]))]
        sums = _array(self.sums, np.float32, self.units)
        self.slots = [sums[step : step + 1] for step in range(self.units)]
        self.steps, self.drives = (
            [kernel.compile() for kernel in kernels] for kernels in (generated.steps, generated.drives)
        )
        # Compile and load kernels here, not while a graph is recorded.
        self.loaded = [Kernel(kernel.raw_kernel, "kernel") for kernel in (*self.steps, *self.drives)]
        self.graphs: dict[int, Graph] = {}

    def write(self, f: NDArray[np.float32]) -> None:
        planes = np.empty_like(f)
        for population, (plane, dx, dy) in zip(f, self.left[1], strict=True):
            planes[plane] = np.roll(population, (dy, dx), axis=(0, 1))
        for buffer in self.buffers[1:]:
            self.queue.write(buffer, np.full_like(f, np.nan))
        self.queue.write(self.buffers[0], planes)

    def read(self) -> NDArray[np.float32]:
        planes = self.queue.read(self.buffers[self.now % len(self.buffers)], np.empty_like(self.start))
        left = self.left[1 - self.now]
        return np.stack([np.roll(planes[plane], (-dy, -dx), axis=(0, 1)) for plane, dx, dy in left])

    def submit(self) -> None:
        if not self.bare:
            self.drives[self.now](**self.arguments[self.now], w1=self.w1, w2=self.w2)
        for step, slot in enumerate(self.slots):
            kind = (self.now + step) % 2
            w1, w2 = (self.none, self.none) if step == self.units - 1 else (self.w1, self.w2)
            self.steps[kind](**self.arguments[kind], w1=w1, w2=w2, speed=slot)

    def run(self) -> None:
        self.queue.write(self.sums, np.zeros(self.units, np.float32))
        if self.now not in self.graphs:
            self.graphs[self.now] = self.queue.record(self.submit)
        self.graphs[self.now].launch()
        self.now = (self.now + self.units) % 2
        self.av_vels = self.queue.read(self.sums, np.empty(self.units, np.float32)) / self.fluid_cells

    def facts(self) -> dict[str, Any]:
        block = "x".join(map(str, self.block))
        return {**super().facts(), "group": block, **self.loaded[0].resources()}

    def close(self) -> None:
        self.graphs.clear()
        self.arguments, self.slots = [], []
        self.steps, self.drives = [], []
        for buffer in (*self.buffers, self.sums, self.cells):
            buffer.release()


def _array(buffer: Any, dtype: type, *shape: int) -> Any:
    """Return a device's memory as a CuPy array."""
    return buffer.memory.view(dtype).reshape(shape)


def aligned(planes: int, rows: int, columns: int) -> NDArray[np.float32]:
    """Return zeros (planes, rows, columns) in which the second column of each row begins a cache line.

    There are three lines between planes: with sides that are powers of two, all planes would share few sets of a cache.
    """
    row = ceil_div(columns + LINE - 1, LINE) * LINE
    plane = rows * row + 3 * LINE
    memory = np.zeros(planes * plane + LINE, np.float32)
    first = -memory.ctypes.data // 4 % LINE
    grids = memory[first : first + planes * plane].reshape(planes, plane)[:, : rows * row]
    return grids.reshape(planes, rows, row)[:, :, LINE - 1 : LINE - 1 + columns]


# -- generated kernels -------------------------------------------------------------------------------------------------


@functools.cache
def for_cpu(bare: bool, threads: int) -> Generated:
    """Generate kernels for grids of any size with a layer of copies around them, for the widest vectors of this CPU.

    pystencils has no condition on vectors: a factor of 0 or 1 selects fluid cells, and a separate kernel drives the flow.
    """
    import pystencils as ps
    from lbmpy.fieldaccess import StreamPullTwoFieldsAccessor
    from lbmpy.updatekernels import create_lbm_kernel

    src, dst, cell = ps.fields("src(9), dst(9), cell: float32[2D]", layout="fzyx")
    rule = relaxation()
    if not bare:
        fluid = cell.center
        rule = completed(rule, lambda a, b: fluid * a + (1 - fluid) * b, lambda relaxed: relaxed)
    vectors = [
        target for target in ps.Target.available_vector_cpu_targets() if target.name != "ARM_SVE"
    ]  # of unknown width
    jit, _ = _compiler()
    widest = vectors[-1] if vectors else ps.Target.GenericCPU
    config = ps.CreateKernelConfig(target=widest, jit=jit, default_dtype="float32", ghost_layers=1)
    config.cpu.openmp.enable, config.cpu.openmp.num_threads = True, threads
    config.cpu.vectorize.enable = config.cpu.vectorize.assume_inner_stride_one = bool(vectors)
    step = ps.create_kernel(create_lbm_kernel(rule, src, dst, StreamPullTwoFieldsAccessor()), config)
    row = ps.CreateKernelConfig(jit=jit, default_dtype="float32", iteration_slice=ps.make_slice[1:-1, -3:-2])
    drives = [] if bare else [ps.create_kernel(drive_of([src(i) for i in range(9)], cell), row)]
    return Generated([step], drives, [])


@functools.cache
def for_gpu(pattern: str, bare: bool, nx: int, ny: int, block: tuple[int, int]) -> Generated:
    """Generate kernels for grids of one size. A step also drives the flow for the next."""
    import pystencils as ps
    import sympy as sp
    from lbmpy.advanced_streaming.utility import Timestep, get_accessor
    from lbmpy.updatekernels import create_lbm_kernel

    src, dst = ps.fields(f"src(9), dst(9): float32[{nx}, {ny}]", layout="fzyx")
    cell = ps.fields(f"cell: int8[{nx}, {ny}]", layout="fzyx")
    rule = relaxation()
    if not bare:
        driven = sp.Eq(ps.DEFAULTS.spatial_counters[1], ny - 2)
        fluid = sp.Ne(cell.center, 0)
        rule = completed(rule, lambda a, b: sp.Piecewise((a, fluid), (b, True)), lambda f: pushed(f, driven))

    def config(**space: Any) -> Any:
        config_of_kernel = ps.CreateKernelConfig(
            target=ps.Target.CUDA, default_dtype="float32", index_dtype="int32", **space
        )
        config_of_kernel.skip_independence_check = (
            True  # it fails, though no two cells share a population in any pattern
        )
        config_of_kernel.gpu.default_block_size = (*block, 1)
        config_of_kernel.gpu.assume_warp_aligned_block_size = config_of_kernel.gpu.use_cub_reductions = True
        return config_of_kernel

    kinds = [get_accessor(pattern, kind) for kind in (Timestep.EVEN, Timestep.ODD)]
    steps = [create_lbm_kernel(rule, src, dst, periodic(kind)) for kind in kinds]
    writers = [] if bare else kinds[::-1]
    drives = [drive_of(periodic(kind).write(src, rule.method.stencil), cell) for kind in writers]
    row = config(iteration_slice=ps.make_slice[:, ny - 2])
    return Generated(
        [ps.create_kernel(step, config(ghost_layers=0)) for step in steps],
        [ps.create_kernel(drive, row) for drive in drives],
        [[_place(access) for access in kind.write(src, rule.method.stencil)] for kind in kinds],
    )


def _place(access: Any) -> tuple[int, int, int]:
    """Return (plane, dx, dy) of an access of pystencils."""
    return int(access.index[0]), int(access.offsets[0]), int(access.offsets[1])


def relaxation() -> Any:
    """Return lbmpy's own collision in the lab's order of directions, with the quadratic equilibrium and a symbol omega."""
    import sympy as sp
    from lbmpy import LBMConfig, LBStencil, Method, Stencil, create_lb_collision_rule

    stencil = LBStencil(Stencil.D2Q9, ordering="counterclockwise")
    assert stencil.stencil_entries == tuple(zip(EX, EY, strict=True))
    return create_lb_collision_rule(
        lbm_config=LBMConfig(
            stencil=stencil, method=Method.SRT, relaxation_rate=sp.Symbol("omega"), compressible=True, zero_centered=False
        )
    )  # fmt: skip


def completed(rule: Any, choose: Callable[[Any, Any], Any], drive: Callable[[Any], Any]) -> Any:
    """Complete a collision: blocked cells swap opposite directions instead, and |u| is added to the sum.

    choose(a, b): a in fluid, b in a blocked cell. drive: function of the nine relaxed populations of fluid.
    """
    import sympy as sp
    from lbmpy.methods.abstractlbmethod import LbmCollisionRule
    from pystencils import AddReductionAssignment, Assignment, DynamicType, TypedSymbol

    before, after = rule.method.pre_collision_pdf_symbols, rule.method.post_collision_pdf_symbols
    relaxed = sp.symbols("relaxed_:9")
    ux, uy = rule.method.first_order_equilibrium_moment_symbols  # a collision does not change them
    collided = [Assignment(symbol, rule.main_assignments_dict[f]) for symbol, f in zip(relaxed, after, strict=True)]
    results = [
        Assignment(f, choose(result, before[opposite]))
        for f, result, opposite in zip(after, drive(relaxed), OPPOSITE, strict=True)
    ]
    speed = TypedSymbol("speed", DynamicType.NUMERIC_TYPE)
    results.append(AddReductionAssignment(speed, choose(sp.sqrt(ux**2 + uy**2), 0)))
    return LbmCollisionRule(rule.method, results, [*rule.subexpressions, *collided])


def pushed(f: Any, condition: Any) -> list[Any]:
    """Return the nine populations after accelerate_flow in cells where `condition` holds."""
    import sympy as sp

    w1, w2 = sp.symbols("w1 w2")
    enough = sp.And(condition, f[3] > w1, f[6] > w2, f[7] > w2)
    gains = (0, w1, 0, -w1, 0, w2, -w2, -w2, w2)
    return [
        value + sp.Piecewise((gain, enough), (0, True)) if gain else value for value, gain in zip(f, gains, strict=True)
    ]


def drive_of(places: list[Any], cell: Any) -> list[Any]:
    """Return the assignments of accelerate_flow on populations at these places of a grid."""
    import sympy as sp
    from pystencils import Assignment

    f = sp.symbols("f_:9")
    loads = [Assignment(symbol, place) for symbol, place in zip(f, places, strict=True)]
    return loads + [
        Assignment(place, value)
        for place, old, value in zip(places, f, pushed(f, sp.Ne(cell.center, 0)), strict=True)
        if value is not old
    ]


def periodic(pattern: Any) -> Any:
    """Return a pattern of lbmpy that wraps around the sides of the grid.

    lbmpy's PeriodicTwoFieldsAccessor does this for the pattern "pull".
    """
    import sympy as sp
    from lbmpy.fieldaccess import PdfFieldAccessor
    from pystencils import DEFAULTS

    def wrapped(place: Any) -> Any:
        offsets = []
        for offset, at, size in zip(place.offsets, DEFAULTS.spatial_counters, place.field.spatial_shape, strict=False):
            side = 0 if offset < 0 else size - 1
            offsets.append(sp.Piecewise((offset * (1 - size), sp.Eq(at, side)), (offset, True)) if offset else 0)
        return place.field[tuple(offsets)](*place.index)

    class Periodic(PdfFieldAccessor):  # type: ignore[misc]
        is_inplace = pattern.is_inplace

        def read(self, field: Any, stencil: Any) -> list[Any]:
            return [wrapped(place) for place in pattern.read(field, stencil)]

        def write(self, field: Any, stencil: Any) -> list[Any]:
            return [wrapped(place) for place in pattern.write(field, stencil)]

    return Periodic()


# -- the C++ compiler --------------------------------------------------------------------------------------------------


@functools.cache
def _compiler() -> tuple[Any, tempfile.TemporaryDirectory[str]]:
    """Return pystencils' compiler for CPUs, and this process's folder for compiled files.

    Its default folder may be shared by machines with other vectors. Its default -Ofast makes gcc 12 and older turn off
    subnormals in the whole process.
    """
    from pystencils.jit import CpuJit
    from pystencils.jit.cpu.compiler_info import CompilerInfo

    if not CompilerInfo.get_available_compilers():
        raise Unsupported("lbmpy finds no C++ compiler: install g++ or clang++")
    folder = tempfile.TemporaryDirectory()
    return CpuJit(CompilerInfo.get_default(optlevel="3"), objcache=folder.name), folder


def _loaded(kernel: Any) -> Any:
    """Compile a generated kernel to a function of its arguments by name. Raises BuildFailed."""
    from pystencils.jit.error import JitError

    try:
        return kernel.compile()
    except JitError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        raise BuildFailed(next((line for line in lines if " error: " in line), lines[0])) from error
