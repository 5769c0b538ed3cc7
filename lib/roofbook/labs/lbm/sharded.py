"""JAX as a peer: the lab's step as array operations, compiled by XLA, with the rows of the grid divided among devices.

JAX is optional, and is imported when a peer is created, never before. A peer that cannot run says why in one line.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from ...devices.contract import Device, Unsupported
from ...spec.plan import Case, Plan, Variant, least_bytes
from .grid import lattice_conditions
from .problem import EX, EY, OPPOSITE, WEIGHTS, Params
from .slabs import Slabs, fewer_rows

ROWS = "rows"
"""JAX's name of the axis along which the grid is divided among devices."""


class Jax(Plan):
    """One program for all steps: D2Q9, single relaxation time, fp32, every mean speed.

    In each step each device gets the outermost rows of its neighbours by `ppermute`; the devices form a ring. Option `devices`:
    their number; each has equally many rows. Raises Unsupported if JAX or a device is missing, or the rows do not divide.
    """

    traffic = staticmethod(least_bytes)
    conditions = staticmethod(lattice_conditions)
    refusal = staticmethod(fewer_rows)

    @classmethod
    def timed_units(cls, case: Case, variant: Variant, device: Device) -> int:
        return Slabs.timed_units(case, variant, device) if "devices" in variant.options else case.units

    def __init__(self, device: Device, variant: Variant, case: Case, inputs: Mapping[str, Any]) -> None:
        if reason := self.missing():
            raise Unsupported(reason)
        # JAX reads this when it opens a device. By default it would take all of a GPU's memory from other programs.
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        self.units, self.params = case.units, inputs["params"]
        count, rows = int(variant.options.get("devices", 1)), self.params.ny
        if rows % count:
            raise Unsupported(f"JAX gives each of {count} devices as many rows, and the grid has {rows}")
        self.devices = _places(jax, device, count)
        mesh = Mesh(np.array(self.devices), (ROWS,))
        self.place = {axes: NamedSharding(mesh, PartitionSpec(*[None] * axes, ROWS)) for axes in (0, 1)}
        self.start, fluid = inputs["f"], ~inputs["obstacles"]
        driven = np.zeros_like(fluid)
        driven[self.params.ny - 2] = fluid[self.params.ny - 2]
        self.cells = [jax.device_put(array, self.place[0]) for array in (fluid, driven)]
        self.fluid_cells = int(fluid.sum())
        program = partial(_steps, params=self.params, units=self.units, count=count)
        state, row = PartitionSpec(None, ROWS), PartitionSpec(ROWS)
        shared = jax.shard_map(program, mesh=mesh, in_specs=(state, row, row), out_specs=(state, PartitionSpec()))
        self.reset()
        self.program: Callable[..., Any] = jax.jit(shared, donate_argnums=0).lower(self.f, *self.cells).compile()

    @staticmethod
    def missing() -> str | None:
        """Return the reason, in one line, why there is no JAX; None if it is installed. Does not import it."""
        return None if importlib.util.find_spec("jax") else "JAX is not installed: pip install 'roofbook[peers]'"

    def reset(self) -> None:
        import jax

        self.f = jax.device_put(self.start, self.place[1])
        self.av_vels = np.full(self.units, np.nan)

    def run(self) -> None:
        self.f, speeds = self.program(self.f, *self.cells)
        self.av_vels = np.asarray(speeds, np.float64) / self.fluid_cells
        self.f.block_until_ready()

    def outputs(self) -> dict[str, np.ndarray]:
        return {"f": np.asarray(self.f, np.float64), "av_vels": self.av_vels.copy()}

    def facts(self) -> dict[str, Any]:
        import importlib.metadata

        facts = {"jax": importlib.metadata.version("jax"), "devices": len(self.devices)}
        return {**facts, "took_part": [str(jax_device) for jax_device in self.devices]}

    def close(self) -> None:
        for array in (self.f, *self.cells):
            array.delete()


def _places(jax: Any, device: Device, count: int) -> list[Any]:
    """Return JAX's devices for a device and those that follow it in the ring. Raises Unsupported."""
    if device.kind == "cpu":
        devices = jax.devices("cpu")
    else:
        chosen = device.several(count) if count > 1 else [device]
        numbers = [int(gpu.spec.partition(":")[2]) for gpu in chosen]
        try:
            gpus = {gpu.local_hardware_id: gpu for gpu in jax.devices("gpu")}
        except RuntimeError as error:
            raise Unsupported(f"JAX finds no GPU: {str(error).splitlines()[0]}") from None
        devices = [gpus[number] for number in numbers if number in gpus]
    if len(devices) < count:
        raise Unsupported(f"JAX has {len(devices)} of {count} devices")
    return list(devices[:count])


def _steps(f: Any, fluid: Any, driven: Any, *, params: Params, units: int, count: int) -> tuple[Any, Any]:
    """Take all steps of one device's rows: f (9, rows, nx), and the sums of |u| over all fluid cells, (units,)."""
    import jax
    import jax.numpy as jnp

    w1, w2 = (np.float32(params.density * params.accel / part) for part in (9, 36))
    gains = np.array([0, 1, 0, -1, 0, 0, 0, 0, 0], np.float32) * w1
    gains += np.array([0, 0, 0, 0, 0, 1, -1, -1, 1], np.float32) * w2
    weights, omega = WEIGHTS.astype(np.float32), np.float32(params.omega)
    northwards = [(at, (at + 1) % count) for at in range(count)]
    southwards = [(to, at) for at, to in northwards]

    def drive(state: list[Any], mask: Any) -> list[Any]:
        enough = mask & (state[3] > w1) & (state[6] > w2) & (state[7] > w2)
        return [f_i + jnp.where(enough, gain, 0) if gain else f_i for f_i, gain in zip(state, gains, strict=True)]

    def arrived(state: list[Any]) -> list[Any]:
        """Move the populations that go north or south by one row; the first row comes from a neighbour."""
        leaving = {1: [], -1: []}  # type: dict[int, list[Any]]
        for population, towards in zip(state, EY, strict=True):
            if towards:
                leaving[towards].append(population[-1 if towards > 0 else 0])
        arrived_rows = {
            1: list(jax.lax.ppermute(jnp.stack(leaving[1]), ROWS, northwards)),
            -1: list(jax.lax.ppermute(jnp.stack(leaving[-1]), ROWS, southwards)),
        }
        moved = []
        for population, towards in zip(state, EY, strict=True):
            if towards > 0:
                population = jnp.concatenate([arrived_rows[1].pop(0)[None], population[:-1]])
            elif towards < 0:
                population = jnp.concatenate([population[1:], arrived_rows[-1].pop(0)[None]])
            moved.append(population)
        return moved

    def step(state: list[Any], mask: Any) -> tuple[list[Any], Any]:
        moved = [jnp.roll(f_i, ex, axis=1) if ex else f_i for f_i, ex in zip(arrived(state), EX, strict=True)]
        rho = sum(moved[1:], moved[0])
        ux = (moved[1] + moved[5] + moved[8] - (moved[3] + moved[6] + moved[7])) / rho
        uy = (moved[2] + moved[5] + moved[6] - (moved[4] + moved[7] + moved[8])) / rho
        square = np.float32(1.5) * (ux * ux + uy * uy)
        after = []
        for population, weight, ex, ey, opposite in zip(moved, weights, EX, EY, OPPOSITE, strict=True):
            along = 3 * (ex * ux + ey * uy) if ex or ey else np.float32(0)
            at_rest = weight * rho * (1 + along + along * along / 2 - square)
            after.append(jnp.where(fluid, population + omega * (at_rest - population), moved[opposite]))
        return drive(after, mask), jnp.sum(jnp.where(fluid, jnp.sqrt(ux * ux + uy * uy), 0))

    state, before_last = jax.lax.scan(lambda now, _: step(now, driven), drive(list(f), driven), None, units - 1)
    state, last = step(state, jnp.zeros_like(driven))
    speeds = jnp.concatenate([before_last, last[None]])
    return jnp.stack(state), jax.lax.psum(speeds, ROWS)
