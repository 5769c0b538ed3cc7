"""The D2Q9 lattice Boltzmann problem in NumPy: cases, float64 reference, analytic solutions and error bounds.

Every variant and peer of the lab is compared with `reference`. All arrays are f[9, ny, nx], with the directions
0 rest, 1 E, 2 N, 3 W, 4 S, 5 NE, 6 NW, 7 SW, 8 SE; north is towards larger y. All units are lattice units.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from ...spec.bands import by_bands
from ...spec.rounding import DEVIATIONS

Array = NDArray[np.floating]
Mask = NDArray[np.bool_]

EX = (0, 1, 0, -1, 0, 1, -1, -1, 1)
EY = (0, 0, 1, 0, -1, 1, 1, -1, -1)
WEIGHTS = np.array([4 / 9] + [1 / 9] * 4 + [1 / 36] * 4)
OPPOSITE = (0, 3, 4, 1, 2, 7, 8, 5, 6)
UNIT_ROUNDOFF = 2.0**-24  # for float32
HALF_ROUNDOFF = 2.0**-11  # for fp16, in which a population is stored as its difference from rest

CASES: dict[str, dict[str, tuple[int, int]]] = {
    "quick": {"128x128": (50, 21), "1024x1024": (2, 4)},
    "published": {"128x128": (4000, 51), "128x256": (4000, 51), "256x256": (4000, 51), "1024x1024": (1000, 10)},
    "large": {"4096x4096": (50, 2)},
    "test": {"40x24": (8, 5)},
}
"""Scale -> case -> (steps of a timed sample, steps of the check). An in-place variant needs an even number when timed."""
AWKWARD_STEPS = 13
"""Number of time steps on an awkward grid: two walks and one more step."""


@dataclass(frozen=True)
class Params:
    """The values of the course's parameter file: sizes in cells, `density` per cell, `accel` of the driven row ny-2.

    Raises ValueError with one line that says which values are right.
    """

    nx: int
    ny: int
    iterations: int
    reynolds_dim: int
    density: float
    accel: float
    omega: float

    def __post_init__(self) -> None:
        for name, least in (("nx", 1), ("ny", 2), ("iterations", 1), ("reynolds_dim", 1)):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not least <= value < 2**31:
                reason = " (row ny-2 is the accelerated one)" if name == "ny" else ""
                raise ValueError(f"{name} must be an integer from {least} to 2147483647{reason}, not {value!r}")
        if 9 * int(self.nx) * int(self.ny) >= 2**31:
            raise ValueError(f"nx*ny must be below 2**31/9 cells (32-bit indices), not {self.nx}*{self.ny}")
        for name, right, high in (
            ("density", "a finite number above 0", math.inf),
            ("accel", "a finite number, 0 or more", math.inf),
            ("omega", "a number above 0 and below 2", 2.0),
        ):
            value = getattr(self, name)
            number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
            if not (number and 0 <= value < high and (value > 0 or name == "accel")):
                raise ValueError(f"{name} must be {right}, not {value!r}")

    @property
    def viscosity(self) -> float:
        """Kinematic viscosity nu = (2/omega - 1)/6."""
        return (2 / self.omega - 1) / 6


def box(
    nx: int, ny: int, iterations: int = 200, accel: float = 0.005, density: float = 0.1, omega: float = 1.85
) -> tuple[Params, Mask]:
    """Return a case with a blocked perimeter, like the course's square cases."""
    params = Params(nx, ny, iterations, 10, density, accel, omega)
    obstacles = np.zeros((ny, nx), bool)
    obstacles[[0, -1]] = obstacles[:, [0, -1]] = True
    return params, obstacles


def asymmetric(nx: int, ny: int) -> tuple[Params, Mask]:
    """Return a case whose obstacles have no symmetry, with other parameters than the course's.

    About a tenth of the cells are blocked, most of them single, but the grid is open: fluid leaves it and enters opposite.
    """
    params = Params(nx, ny, iterations=200, reynolds_dim=10, density=0.37, accel=0.011, omega=1.3)
    obstacles = np.random.default_rng(nx).random((ny, nx)) < 0.1
    obstacles[1 : ny // 3, nx // 4] = obstacles[ny // 2, nx // 2 : nx - 2] = True
    return params, obstacles


def published() -> dict[str, tuple[Params, Mask]]:
    """Return the course's four cases by their name, nx x ny."""
    cases = {
        "128x128": box(128, 128, 40000),
        "128x256": box(128, 256, 40000),
        "256x256": box(256, 256, 80000),
        "1024x1024": box(1024, 1024, 20000, accel=0.01),
    }
    channel = cases["128x256"][1]
    channel[:] = False
    channel[:, [0, 127]] = True
    channel[127, :] = True
    cases["1024x1024"][1][:, 341] = True
    return cases


def initial(params: Params, dtype: DTypeLike = np.float64) -> Array:
    """Return fluid at rest, f[i] = w[i]*density in every cell (obstacles too): (9, ny, nx)."""
    f = np.empty((9, params.ny, params.nx), dtype)
    f[:] = (WEIGHTS * params.density)[:, None, None]
    return f


def disturb(f: Array, seed: int, most: float) -> None:
    """Change each population of f (9, ny, nx) in place, by a share of it that is drawn from -`most` to `most`.

    The shares are one stream of random numbers in the order of the array. Bands on all cores advance PCG64 to their part.
    """
    rows = f.reshape(-1, f.shape[2])

    def change(band: slice) -> None:
        random = np.random.Generator(np.random.PCG64(seed).advance(band.start * rows.shape[1]))
        rows[band] *= 1 + random.uniform(-most, most, rows[band].shape).astype(np.float32)

    by_bands(len(rows), rows.shape[1], change)


def macroscopic(f: Array) -> tuple[Array, Array, Array]:
    """Return density and velocity (rho, ux, uy) of f, each (ny, nx)."""
    rho = f.sum(axis=0)
    ux = (f[1] + f[5] + f[8] - (f[3] + f[6] + f[7])) / rho
    uy = (f[2] + f[5] + f[6] - (f[4] + f[7] + f[8])) / rho
    return rho, ux, uy


def equilibrium(rho: Array, ux: Array, uy: Array) -> Array:
    """Return the quadratic (second order in u) equilibrium, (9, ny, nx)."""
    square = 1.5 * (ux * ux + uy * uy)
    f = np.empty((9, *np.shape(rho)), np.result_type(rho, ux, uy))
    for i in range(9):
        eu = 3 * (EX[i] * ux + EY[i] * uy)
        f[i] = WEIGHTS[i] * rho * (1 + eu + 0.5 * eu * eu - square)
    return f


def reference(params: Params, obstacles: Mask, steps: int, f: Array | None = None) -> tuple[Array, Array]:
    """Take `steps` steps in float64 from `f` (default: `initial`), which is not changed.

    Returns the final f (9, ny, nx) and av_vels (steps,), the mean of |u| over fluid cells after each collision.
    Raises ValueError if shapes disagree or there is no fluid cell.
    """
    run = followed(params, obstacles, steps, f)
    return run.f, run.av_vels


class Followed(NamedTuple):
    """A run in float64: the results of `reference`, and the distance of the populations from rest.

    `spread` and `farthest`, (steps + 1,), are the root mean square and the largest |f - w density| / (w density) at the start
    and after each step.
    """

    f: Array
    av_vels: Array
    spread: Array
    farthest: Array


def followed(params: Params, obstacles: Mask, steps: int, f: Array | None = None) -> Followed:
    """Take the steps of `reference`, and return the distance from rest as well."""
    obstacles = np.asarray(obstacles, bool)
    f = initial(params) if f is None else np.array(f, np.float64)
    if obstacles.shape != (params.ny, params.nx) or f.shape != (9, *obstacles.shape):
        raise ValueError(f"expected obstacles ({params.ny}, {params.nx}) and f (9, {params.ny}, {params.nx})")
    fluid = ~obstacles
    if not fluid.any():
        raise ValueError("no fluid cell: at least one cell must be free of obstacles")
    row = params.ny - 2
    w1, w2 = params.density * params.accel / 9, params.density * params.accel / 36
    gain = np.array([0, w1, 0, -w1, 0, w2, -w2, -w2, w2])
    av_vels, spread, farthest = np.empty(steps), np.empty(steps + 1), np.empty(steps + 1)
    at_rest = (WEIGHTS * params.density)[:, None, None]

    def from_rest(rows: slice, state: Array = f) -> tuple[float, float]:
        distance = state[:, rows] / at_rest - 1
        return float(np.square(distance).sum()), float(np.abs(distance).max())

    def note(step: int, distances: list[tuple[float, float]]) -> None:
        squares, largest = zip(*distances, strict=True)
        spread[step], farthest[step] = math.sqrt(sum(squares) / (9 * fluid.size)), max(largest)

    note(0, by_bands(params.ny, params.nx, from_rest))
    for step in range(steps):
        driven = fluid[row] & (f[3, row] - w1 > 0) & (f[6, row] - w2 > 0) & (f[7, row] - w2 > 0)
        f[:, row] += gain[:, None] * driven
        before, f = f, np.empty_like(f)

        def moved_and_collided(
            rows: slice, before: Array = before, after: Array = f
        ) -> tuple[float, tuple[float, float]]:
            numbers = np.arange(rows.start, rows.stop)
            moved = np.stack([np.roll(before[i, (numbers - EY[i]) % params.ny], EX[i], axis=1) for i in range(9)])
            rho, ux, uy = macroscopic(moved)
            relaxed = moved + params.omega * (equilibrium(rho, ux, uy) - moved)
            after[:, rows] = np.where(obstacles[rows], moved[list(OPPOSITE)], relaxed)
            rho, ux, uy = macroscopic(after[:, rows])
            return float(np.hypot(ux, uy)[fluid[rows]].sum()), from_rest(rows, after)

        speeds, distances = zip(*by_bands(params.ny, params.nx, moved_and_collided), strict=True)
        av_vels[step] = sum(speeds) / fluid.sum()
        note(step + 1, list(distances))
    return Followed(f, av_vels, spread, farthest)


def with_thin_cells(params: Params, obstacles: Mask, f: Array) -> Array:
    """Return a copy of f with six fluid cells of row ny-2 that may not be driven: a population has less than the drive takes.

    In three cells one of f3, f6 and f7 is thin from the start, for the drive of the first step. Into three others so much of
    one of them flows, with its opposite, that the first step's collision makes it negative, for the drive of the second step.
    """
    f, row = f.copy(), params.ny - 2
    free = np.flatnonzero(~obstacles[row])
    cells = free[np.arange(1, 7) * len(free) // 7]
    for k, thin, rich in zip((3, 6, 7), cells[:3], cells[3:], strict=True):
        f[k, row, thin] = params.density * params.accel * WEIGHTS[k] / 4
        for i in (k, OPPOSITE[k]):
            f[i, (row - EY[i]) % params.ny, (rich - EX[i]) % params.nx] = 4 * WEIGHTS[i] * params.density
    return f


def mass(f: Array) -> float:
    """Return the total mass, summed in float64: every step conserves it."""
    return sum(by_bands(f.shape[1], f.shape[2], lambda rows: float(f[:, rows].sum(dtype=np.float64))))


def momentum(f: Array) -> tuple[float, float]:
    """Return the total momentum (x, y), summed in float64: it is conserved if nothing is blocked and accel is 0."""
    total = f.sum(axis=(1, 2), dtype=np.float64)
    return float(np.dot(EX, total)), float(np.dot(EY, total))


def reynolds(av_vel: float, params: Params) -> float:
    """Return the Reynolds number of a mean speed over reynolds_dim cells."""
    return float(av_vel) * params.reynolds_dim / params.viscosity


# -- analytic solutions ------------------------------------------------------------------------------------------------


def taylor_green(nx: int, ny: int, u0: float = 0.01, density: float = 0.1) -> Array:
    """Return one Taylor-Green vortex period on a periodic nx x ny grid, in equilibrium: float64 (9, ny, nx).

    Velocities decay by `taylor_green_decay` with kx = 2*pi/nx, ky = 2*pi/ny while u0 is small against 1/sqrt(3).
    """
    kx, ky = 2 * np.pi / nx, 2 * np.pi / ny
    y, x = np.meshgrid(np.arange(ny) + 0.5, np.arange(nx) + 0.5, indexing="ij")
    ux = -u0 * math.sqrt(ky / kx) * np.cos(kx * x) * np.sin(ky * y)
    uy = u0 * math.sqrt(kx / ky) * np.sin(kx * x) * np.cos(ky * y)
    pressure = -0.25 * density * u0**2 * (ky / kx * np.cos(2 * kx * x) + kx / ky * np.cos(2 * ky * y))
    return equilibrium(density + 3 * pressure, ux, uy)


def taylor_green_decay(nu: float, kx: float, ky: float, t: float) -> float:
    """Return the factor of the velocity after t steps: exp(-nu (kx^2 + ky^2) t)."""
    return math.exp(-nu * (kx**2 + ky**2) * t)


# -- error of a float32 run --------------------------------------------------------------------------------------------


def error(f: Array, f_ref: Array) -> float:
    """Return the largest |f - f_ref| over all cells and directions, relative to w[i] * mean density. NaN if f holds one."""
    if f.shape != f_ref.shape:
        raise ValueError(f"shapes differ: {f.shape} and {f_ref.shape}")
    density = mass(f_ref) / f_ref[0].size

    def largest(rows: slice) -> list[float]:
        return [np.max(np.abs(f[k, rows] - f_ref[k, rows].astype(np.float64))) for k in range(9)]

    return float(np.max(np.max(by_bands(f.shape[1], f.shape[2], largest), axis=0) / (WEIGHTS * density)))


def mean_square_error(f: Array, f_ref: Array) -> float:
    """Return the mean over all cells and directions of ((f - f_ref) / (w[i] * mean density))^2. NaN if f holds one."""
    density = mass(f_ref) / f_ref[0].size

    def squares(rows: slice) -> float:
        difference = (f[:, rows] - f_ref[:, rows].astype(np.float64)) / (WEIGHTS * density)[:, None, None]
        return float(np.square(difference).sum())

    return sum(by_bands(f.shape[1], f.shape[2], squares)) / f_ref.size


class Tolerance(NamedTuple):
    """Allowed `error`, root of `mean_square_error`, and `error_av_vels` after some steps."""

    largest: float
    mean_square: float
    speeds: float


def share_left(steps: int, omega: float) -> Array:
    """Return the share of a population's squared error that is left after `steps`, ..., 1, 0 more steps.

    Independent errors of relative size e in the nine populations put sqrt(0.58) e into density and velocity, which keep it: 1/4
    as density, 1/3 as velocity times 3 e_i. Each step relaxes the other errors by 1 - omega.
    """
    left: Array = 7 / 12 + 5 / 12 * (1 - omega) ** (2 * np.arange(steps, -1, -1.0))
    return left


def tolerance(run: Followed, params: Params, cells: int, half: bool = False) -> Tolerance:
    """Return the allowed errors of a run in float32 with `cells` fluid cells, stored in fp16 (`half`) or not.

    `bound` and `bound_av_vels` give the largest errors of float32. For the mean square, a step's dozen roundings come to 3.5 u,
    of which `share_left` is left, and to a drift of the density of 0.3 u a step. Errors in fp16 are uniform over a spacing:
    at most HALF_ROUNDOFF / sqrt(3) of the distance from rest, at the start and in each step. The mean square takes `spread` as
    this distance, the largest error `farthest`. A mean speed averages the errors of the velocity over all fluid cells; these
    are, in each direction, 1/36 of a step's mean square.
    """
    steps = len(run.av_vels)
    left = share_left(steps, params.omega)
    single = UNIT_ROUNDOFF**2 * (3.5**2 * left[1:].sum() + (0.3 * steps) ** 2)
    largest, speeds = bound(steps), bound_av_vels(run.av_vels, cells)
    stored = 0.0
    if half:
        variance = HALF_ROUNDOFF**2 / 3
        stored = variance * float(left @ run.spread**2)
        largest += DEVIATIONS * math.sqrt(variance * float(left @ run.farthest**2))
        drift = math.sqrt(variance * float(run.spread @ run.spread) / 36 / cells)
        speeds += DEVIATIONS * drift / max(float(np.max(run.av_vels)), UNIT_ROUNDOFF)
    return Tolerance(largest, math.sqrt(single + stored), speeds)


def bound(steps: int) -> float:
    """Return the bound of `error` after n = `steps` steps in float32: u * (64 sqrt(n) + 2 n), u = 2**-24.

    Relative to its weight, one population takes 5 to 10 roundings a step: the density (8 additions), the velocity (5
    additions, 1 division), the equilibrium and the relaxation. Errors outside density and momentum die out as
    |1 - omega|^n, those two are conserved and stay. Where roundings differ from cell to cell they add up as a random
    walk, hence sqrt(n); the factor 64 is 5 standard deviations, for the largest of 10^7 values, of a dozen roundings,
    and covers the first steps from rest, in which whole rows hold one value, round alike and grow by 3 to 5 u a step.
    Where roundings do not average out the density drifts: 0.25 to 0.3 u a step in round-to-nearest, hence the linear
    term, with room for another order of operations. Float32 runs lie 3 to 30 times below. A step too many from rest
    is 30000 u in the first steps and 3000 u after 200 to 500: check 200 steps or fewer, or from a noisy start.
    """
    return UNIT_ROUNDOFF * (64 * math.sqrt(steps) + 2 * steps)


def error_av_vels(av_vels: Array, av_ref: Array) -> float:
    """Return the largest |av_vels - av_ref| over all steps, relative to the largest av_ref. NaN if av_vels holds one."""
    if np.shape(av_vels) != np.shape(av_ref):
        raise ValueError(f"shapes differ: {np.shape(av_vels)} and {np.shape(av_ref)}")
    return float(np.max(np.abs(np.asarray(av_vels, np.float64) - av_ref)) / max(np.max(av_ref), UNIT_ROUNDOFF))


def bound_av_vels(av_ref: Array, cells: int) -> float:
    """Return the bound of `error_av_vels` for float32, from the reference and the number of fluid cells.

    A velocity is a sum of populations of both signs, so its error is absolute (against the lattice speed, 1), and the
    mean over cells averages it: u * (1 + sqrt(n)/4 + n/50), the terms of `bound` without the density, which cancels in
    u. The sum of `cells` values of one sign adds u * sqrt(cells) relative to the mean, in any order in which roundings are
    independent. They are not where one float adds up so many that each rounds the same way: such a sum is not accepted.
    """
    steps = len(av_ref)
    speed = max(float(np.max(av_ref)), UNIT_ROUNDOFF)
    return UNIT_ROUNDOFF * ((1 + math.sqrt(steps) / 4 + steps / 50) / speed + math.sqrt(cells))


# -- checks of a run of many steps -------------------------------------------------------------------------------------


def mass_error(f: Array, start: Array) -> float:
    """Return |mass of f / mass of start - 1|. NaN if f holds one."""
    return abs(mass(f) / mass(start) - 1)


def tolerance_of_mass(steps: int) -> float:
    """Return the largest accepted `mass_error`: the drift of the density in `bound`, 2 u a step.

    Errors of fp16 average out over the cells.
    """
    return UNIT_ROUNDOFF * (64 + 2 * steps)


def error_of_last(f: Array, obstacles: Mask, av_vels: Array) -> float:
    """Return |last of av_vels - mean speed of the state f| / mean speed of f."""
    fluid = ~obstacles

    def total(rows: slice) -> float:
        _, ux, uy = macroscopic(f[:, rows].astype(np.float64))
        return float(np.hypot(ux, uy)[fluid[rows]].sum())

    speed = sum(by_bands(len(fluid), fluid.shape[1], total)) / int(fluid.sum())
    return abs(float(av_vels[-1]) - speed) / max(speed, UNIT_ROUNDOFF)


def tolerance_of_last(f: Array, obstacles: Mask, speed: float, half: bool) -> float:
    """Return the largest accepted `error_of_last`: one step of `bound_av_vels`.

    In fp16 (`half`) the state was rounded after its speed was computed. This changes a population by at most HALF_ROUNDOFF of
    its distance from rest, and a velocity by a sixth of that.
    """
    allowed = bound_av_vels(np.array([speed]), int((~obstacles).sum()))
    if half:
        at_rest = f.mean(axis=(1, 2), keepdims=True, dtype=np.float64)
        allowed += HALF_ROUNDOFF * float(np.sqrt(np.mean((f / at_rest - 1) ** 2))) / max(speed, UNIT_ROUNDOFF)
    return allowed
