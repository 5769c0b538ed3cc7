"""The reference against a plain loop, the course's table, conservation and analytic flows; the bounds' two sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from roofbook.labs.lbm import LAB, problem
from roofbook.labs.lbm.problem import (
    EX,
    EY,
    OPPOSITE,
    WEIGHTS,
    Array,
    Mask,
    Params,
    bound,
    bound_av_vels,
    box,
    error,
    error_av_vels,
    followed,
    initial,
    macroscopic,
    mean_square_error,
    reference,
    tolerance,
)
from roofbook.spec.plan import Case

from .driven_channel import driven_channel


def poiseuille(ny: int, force: float, nu: float, density: float) -> Array:
    """Return the steady ux (ny,) of a channel along x under a body force per cell and step, rows 0 and ny-1 blocked.

    Bounce-back puts the walls half way between cells: at y = 1/2 and y = ny - 3/2.
    """
    y = np.arange(ny)
    return np.clip(force / (2 * nu * density) * (y - 0.5) * (ny - 1.5 - y), 0, None)


def reference_plain(params: Params, obstacles: Mask, steps: int, f: Array) -> tuple[Array, list[float]]:
    """Run the algorithm word for word, one cell after another, to compare the vectorised reference with."""
    nx, ny = params.nx, params.ny
    cells = [[[float(f[i, y, x]) for i in range(9)] for x in range(nx)] for y in range(ny)]
    w1, w2 = params.density * params.accel / 9, params.density * params.accel / 36
    av_vels = []
    for _ in range(steps):
        for x in range(nx):
            c = cells[ny - 2][x]
            if not obstacles[ny - 2, x] and c[3] - w1 > 0 and c[6] - w2 > 0 and c[7] - w2 > 0:
                c[1] += w1
                c[5] += w2
                c[8] += w2
                c[3] -= w1
                c[6] -= w2
                c[7] -= w2

        def pulled(y: int, x: int, was: list[list[list[float]]] = cells) -> list[float]:
            return [was[(y - EY[i]) % ny][(x - EX[i]) % nx][i] for i in range(9)]

        moved = [[pulled(y, x) for x in range(nx)] for y in range(ny)]
        total, count = 0.0, 0
        for y in range(ny):
            for x in range(nx):
                m = moved[y][x]
                if obstacles[y, x]:
                    cells[y][x] = [m[OPPOSITE[i]] for i in range(9)]
                    continue
                rho = sum(m)
                ux = sum(EX[i] * m[i] for i in range(9)) / rho
                uy = sum(EY[i] * m[i] for i in range(9)) / rho
                out = []
                for i in range(9):
                    eu = EX[i] * ux + EY[i] * uy
                    equilibrium = WEIGHTS[i] * rho * (1 + 3 * eu + 4.5 * eu**2 - 1.5 * (ux**2 + uy**2))
                    out.append(m[i] + params.omega * (equilibrium - m[i]))
                cells[y][x] = out
                rho = sum(out)
                ux = sum(EX[i] * out[i] for i in range(9)) / rho
                uy = sum(EY[i] * out[i] for i in range(9)) / rho
                total += math.sqrt(ux**2 + uy**2)
                count += 1
        av_vels.append(total / count)
    return np.array(cells).transpose(2, 0, 1), av_vels


def float32_run(params: Params, obstacles: Mask, steps: int, start: Array | None = None) -> tuple[Array, Array]:
    """Run the algorithm in float32 throughout, as a kernel without tricks would."""
    one = np.float32
    fluid, row = ~obstacles, params.ny - 2
    w1, w2 = one(params.density * params.accel / 9), one(params.density * params.accel / 36)
    gain = np.array([0, w1, 0, -w1, 0, w2, -w2, -w2, w2], one)
    weights, omega = WEIGHTS.astype(one), one(params.omega)
    f, av_vels = initial(params, one) if start is None else start.copy(), []
    for _ in range(steps):
        driven = fluid[row] & (f[3, row] > w1) & (f[6, row] > w2) & (f[7, row] > w2)
        f[:, row] += gain[:, None] * driven
        moved = np.stack([np.roll(f[i], (EY[i], EX[i]), axis=(0, 1)) for i in range(9)])
        rho, ux, uy = macroscopic(moved)
        square = one(1.5) * (ux * ux + uy * uy)
        relaxed = np.empty_like(moved)
        for i in range(9):
            eu = one(3) * (EX[i] * ux + EY[i] * uy)
            relaxed[i] = moved[i] + omega * (weights[i] * rho * (one(1) + eu + one(0.5) * eu * eu - square) - moved[i])
        f = np.where(obstacles, moved[list(OPPOSITE)], relaxed)
        rho, ux, uy = macroscopic(f)
        av_vels.append(np.sqrt(ux * ux + uy * uy)[fluid].sum(dtype=one) / one(fluid.sum()))
    assert f.dtype == one
    return f, np.array(av_vels)


@settings(max_examples=40)
@given(
    nx=st.integers(1, 6),
    ny=st.integers(2, 6),
    accel=st.sampled_from([0.0, 0.005, 0.9, 3.0]),
    omega=st.sampled_from([0.6, 1.0, 1.85]),
    seed=st.integers(0, 2**32 - 1),
)
def test_reference_is_the_plain_loop(nx: int, ny: int, accel: float, omega: float, seed: int) -> None:
    draw = np.random.default_rng(seed)
    params = Params(nx, ny, 1, 10, 0.1, accel, omega)
    obstacles = draw.random((ny, nx)) < 0.3
    obstacles[draw.integers(ny), draw.integers(nx)] = False
    f = initial(params) * draw.uniform(0.7, 1.3, (9, ny, nx))
    before = f.copy()
    got, av = reference(params, obstacles, 4, f)
    want, av_want = reference_plain(params, obstacles, 4, f)
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(av, av_want, rtol=1e-10, atol=1e-14)
    np.testing.assert_array_equal(f, before)


def test_published_cases_are_the_courses() -> None:
    cases = problem.published()
    fluid = {name: int((~obstacles).sum()) for name, (_, obstacles) in cases.items()}
    assert fluid == {"128x128": 15876, "128x256": 32130, "256x256": 64516, "1024x1024": 1043462}
    for name, (params, obstacles) in cases.items():
        assert name == f"{params.nx}x{params.ny}" and obstacles.shape == (params.ny, params.nx)
        assert (params.reynolds_dim, params.density, params.omega) == (10, 0.1, 1.85)
    assert [p.iterations for p, _ in cases.values()] == [40000, 40000, 80000, 20000]
    assert [p.accel for p, _ in cases.values()] == [0.005, 0.005, 0.005, 0.01]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("nx", 0),
        ("nx", 1.5),
        ("nx", True),
        ("nx", 2**31),
        ("ny", 1),
        ("iterations", 0),
        ("reynolds_dim", -1),
        ("density", 0.0),
        ("density", math.inf),
        ("accel", math.nan),
        ("accel", -0.1),
        ("omega", 0.0),
        ("omega", 2.0),
        ("omega", "1"),
    ],
)
def test_params_refuse_in_one_line(field: str, value: object) -> None:
    right = {"nx": 8, "ny": 8, "iterations": 1, "reynolds_dim": 1, "density": 0.1, "accel": 0.0, "omega": 1.0}
    with pytest.raises(ValueError, match=f"^{field} must be [^\n]*not [^\n]*$"):
        Params(**(right | {field: value}))  # type: ignore[arg-type]


def test_params_refuse_more_cells_than_32_bit_indices() -> None:
    with pytest.raises(ValueError, match=r"nx\*ny must be below"):
        Params(2**15, 2**13, 1, 1, 0.1, 0.0, 1.0)


def test_no_fluid_cell_and_wrong_shapes_are_refused() -> None:
    params, obstacles = box(5, 4)
    with pytest.raises(ValueError, match="no fluid cell"):
        reference(params, np.ones_like(obstacles), 1)
    with pytest.raises(ValueError, match="expected obstacles"):
        reference(params, obstacles.T, 1)


def test_mass_is_conserved_and_momentum_in_a_periodic_box() -> None:
    params, obstacles = box(24, 20)
    f, _ = reference(params, obstacles, 300)
    assert problem.mass(f) == pytest.approx(0.1 * 24 * 20, rel=1e-12)
    periodic = Params(16, 12, 1, 1, 0.1, 0.0, 1.85)
    start = problem.equilibrium(np.full((12, 16), 0.1), np.full((12, 16), 0.03), np.full((12, 16), -0.02))
    f, av = reference(periodic, np.zeros((12, 16), bool), 100, start)
    assert problem.momentum(f) == pytest.approx((0.03 * 0.1 * 192, -0.02 * 0.1 * 192), rel=1e-12)
    assert av[-1] == pytest.approx(math.hypot(0.03, 0.02), rel=1e-12)


@pytest.mark.parametrize(("nx", "ny"), [(32, 32), (48, 32)])
def test_taylor_green_vortex_decays(nx: int, ny: int) -> None:
    params = Params(nx, ny, 1, 1, 0.1, 0.0, 1.5)
    start = problem.taylor_green(nx, ny)
    f, av = reference(params, np.zeros((ny, nx), bool), 400, start)
    decay = problem.taylor_green_decay(params.viscosity, 2 * math.pi / nx, 2 * math.pi / ny, 400)
    assert 0.02 < decay < 0.3
    _, ux, uy = macroscopic(f)
    _, ux0, uy0 = macroscopic(start)
    assert np.hypot(ux - decay * ux0, uy - decay * uy0).max() < 0.03 * decay * np.hypot(ux0, uy0).max()
    assert av[-1] / np.hypot(ux0, uy0).mean() == pytest.approx(decay, rel=0.02)


def channel(ny: int, accel: float, omega: float) -> tuple[Params, Mask]:
    obstacles = np.zeros((ny, 3), bool)
    obstacles[[0, -1]] = True
    return Params(3, ny, 1, 1, 0.1, accel, omega), obstacles


def test_body_force_gives_the_poiseuille_profile() -> None:
    ny, force = 18, 1e-6
    params, obstacles = channel(ny, 0.0, 1 / (0.5 + math.sqrt(3 / 16)))  # omega at which bounce-back has no slip
    push = 3 * force * np.multiply(WEIGHTS, EX)[:, None, None] * ~obstacles
    f = initial(params)
    for _ in range(3000):
        f, _ = reference(params, obstacles, 1, f + push)
    want = poiseuille(ny, force, params.viscosity, params.density)
    _, ux, _ = macroscopic(f + push / 2)  # the flow's velocity has half of the push
    assert want.max() > 1e-3 and want[0] == want[-1] == 0
    np.testing.assert_allclose(ux[1:-1, 0], want[1:-1], rtol=0, atol=1e-6 * want.max())


@pytest.mark.parametrize("omega", [0.7, 1.0, 1.3])
def test_the_labs_own_drive_gives_a_straight_line(omega: float) -> None:
    params, obstacles = channel(16, 1e-4, omega)
    f, _ = reference(params, obstacles, 4000)
    _, ux, _ = macroscopic(f)
    np.testing.assert_allclose(ux[1:-2, 0], driven_channel(params), rtol=1e-3)


SIZES = [(32, 32, 1), (32, 32, 10), (48, 20, 100), (128, 128, 200), (32, 32, 500)]


@pytest.mark.parametrize(("nx", "ny", "steps"), SIZES)
def test_bounds_lie_above_float32_and_below_a_wrong_step(nx: int, ny: int, steps: int) -> None:
    params, obstacles = box(nx, ny)
    want, av_want = reference(params, obstacles, steps)
    f, av = float32_run(params, obstacles, steps)
    assert 3 <= bound(steps) / error(f, want) <= 100
    assert 3 <= bound_av_vels(av_want, int((~obstacles).sum())) / error_av_vels(av, av_want) <= 100
    one_more, av_more = reference(params, obstacles, steps + 1)
    assert error(one_more, want) > bound(steps)
    assert error_av_vels(av_more[1:], av_want) > bound_av_vels(av_want, obstacles.size)
    swapped = f[[0, 2, 1, 3, 4, 5, 6, 7, 8]]
    assert error(swapped, want) > bound(steps)


@pytest.mark.parametrize(("nx", "ny", "steps"), [(40, 24, 8), (128, 128, 21), (256, 256, 4)])
def test_bounds_hold_from_a_noisy_start(nx: int, ny: int, steps: int) -> None:
    params, obstacles = box(nx, ny)
    start = (initial(params) * np.random.default_rng(1).uniform(0.9, 1.1, (9, ny, nx))).astype(np.float32)
    want, av_want = reference(params, obstacles, steps, start)
    f, av = float32_run(params, obstacles, steps, start)
    assert 3 <= bound(steps) / error(f, want) <= 100
    assert error_av_vels(av, av_want) <= bound_av_vels(av_want, int((~obstacles).sum()))
    assert error(reference(params, obstacles, 1, want)[0], want) > 100 * bound(steps)


@pytest.mark.parametrize("name", ["40x24", "128x256", "1024x1024"])
def test_thin_cells_are_kept_from_the_drive_by_one_population_each(name: str) -> None:
    """Three cells in the first step and three in the second, each by another of f3, f6 and f7."""
    case = LAB.case(name)
    inputs = LAB.inputs(case, 20)
    params, obstacles = inputs["params"], inputs["obstacles"]
    thin = LAB.verification_inputs(case, LAB.verified_on(LAB.variant("fused")), inputs)["f"].astype(np.float64)
    taken = params.density * params.accel * WEIGHTS[[3, 6, 7], None]
    row, fluid = params.ny - 2, ~obstacles[params.ny - 2]

    def short(f: Array) -> list[list[bool]]:
        lacks = f[[3, 6, 7], row] - taken <= 0
        return sorted(lacks[:, lacks.any(axis=0) & fluid].T.tolist())

    expected = [[False, False, True], [False, True, False], [True, False, False]]
    assert short(inputs["f"]) == [] and short(thin) == expected
    assert short(reference(params, obstacles, 1, thin)[0]) == expected
    assert np.array_equal(inputs["f"], LAB.inputs(case, 20)["f"]), "what is timed stays as it is"


@pytest.mark.parametrize(("steps", "half"), [(1, False), (5, False), (21, False), (2, True), (5, True), (21, True)])
def test_the_mean_square_is_that_of_the_roundings(steps: int, half: bool) -> None:
    """The difference from rest is stored in fp16, as half-storage does; all other arithmetic is float32's."""
    params, obstacles = box(64, 48)
    start = (initial(params) * np.random.default_rng(1).uniform(0.9, 1.1, (9, 48, 64))).astype(np.float32)
    run = followed(params, obstacles, steps, start)
    f, av_vels = start, []
    for _ in range(steps):
        f, speeds = float32_run(params, obstacles, 1, stored(params, f) if half else f)
        av_vels += list(speeds)
    f = stored(params, f) if half else f
    allowed = tolerance(run, params, int((~obstacles).sum()), half)
    assert 0.2 < math.sqrt(mean_square_error(f, run.f)) / allowed.mean_square < 1.2
    assert error(f, run.f) < 0.7 * allowed.largest
    assert error_av_vels(np.array(av_vels), run.av_vels) < 0.7 * allowed.speeds


def stored(params: Params, f: Array) -> Array:
    at_rest = (WEIGHTS * params.density)[:, None, None]
    return (((f - at_rest) * 1024).astype(np.float16).astype(np.float64) / 1024 + at_rest).astype(np.float32)


def test_a_nan_or_another_shape_does_not_pass() -> None:
    params, obstacles = box(8, 8)
    want, av_want = reference(params, obstacles, 3)
    f, av = want.copy(), av_want.copy()
    f[4, 5, 6] = av[1] = np.nan
    assert not error(f, want) <= bound(3)
    assert not error_av_vels(av, av_want) <= bound_av_vels(av_want, 36)
    with pytest.raises(ValueError, match="shapes differ"):
        error(want[:, :-1], want)
    with pytest.raises(ValueError, match="shapes differ"):
        error_av_vels(av_want[:-1], av_want)


def test_reynolds_number_of_the_table() -> None:
    params, _ = problem.published()["128x128"]
    speed = 9.751927 * params.viscosity / 10
    assert problem.reynolds(speed, params) == pytest.approx(9.751927)


# -- what a timed run of many steps must still be ----------------------------------------------------------------------

STEPS = 60


@pytest.fixture(scope="module")
def long_run() -> tuple[Case, dict[str, Array], Callable[[Case], Mapping[str, Any]]]:
    """(case, outputs, reference): float32 outputs of a right variant after more steps than the reference has."""
    case = LAB.cases("test")[0]
    inputs = LAB.inputs(case, 20)
    run = followed(inputs["params"], inputs["obstacles"], STEPS, inputs["f"].astype(np.float64))
    outputs = {"f": run.f.astype(np.float32), "av_vels": run.av_vels.astype(np.float32)}
    return replace(case, units=STEPS), outputs, lambda small: LAB.reference(small, inputs)


def timed(
    long_run: tuple[Case, dict[str, Array], Callable[[Case], Mapping[str, Any]]], **changed: Array
) -> tuple[float, str]:
    case, outputs, right = long_run
    over, tolerance, quantity = LAB.check_timed(case, LAB.variant("fused"), {**outputs, **changed}, right)
    assert tolerance == 1
    return over, quantity


def test_a_long_run_is_told_by_its_first_steps_its_mass_and_its_last_speed(long_run: Any) -> None:
    assert timed(long_run)[0] < 0.5


def test_a_long_run_that_goes_wrong_after_the_steps_that_are_verified_is_found_out(long_run: Any) -> None:
    _, outputs, _ = long_run
    f, speeds = outputs["f"], outputs["av_vels"]
    over, quantity = timed(long_run, f=f * np.float32(1 + 1e-4))
    assert over > 1 and quantity.startswith("change of the mass")
    over, quantity = timed(long_run, av_vels=np.append(speeds[:-1], speeds[-2]))
    assert over > 1 and quantity.startswith("error of the last mean speed"), "as of a state that is a step older"
    shifted = np.append(speeds[1:], speeds[-1])
    assert timed(long_run, av_vels=shifted)[0] > 1
    unwritten = np.where(np.arange(STEPS) == STEPS - 7, np.nan, speeds)
    over, quantity = timed(long_run, av_vels=unwritten)
    assert not over <= 1 and quantity.startswith("mean speeds that are no positive number")
    assert not timed(long_run, f=np.full_like(f, np.nan))[0] <= 1
