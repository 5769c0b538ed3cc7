"""A step of the lattice in Triton: a program pulls, collides and adds up the speeds of BLOCK cells of a row.

Directions are those of problem.py. A cell of row NY-2 also does accelerate_flow of the next step, by w1 and w2.
"""

import triton
import triton.language as tl


@triton.jit
def relaxed(f, weight: tl.constexpr, density, along, square, omega):
    return f + omega * (weight * density * (1 + 3 * along + 4.5 * along * along - 1.5 * square) - f)


@triton.jit
def step(
    source, target, obstacles, sums, done, number, omega, w1, w2, NX: tl.constexpr, NY: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    PLANE: tl.constexpr = NX * NY
    x, y = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.program_id(1)
    here, row, cell = x < NX, y * NX, y * NX + x
    west, east = tl.where(x == 0, NX - 1, x - 1), tl.where(x == NX - 1, 0, x + 1)
    south, north = tl.where(y == 0, NY - 1, y - 1) * NX, tl.where(y == NY - 1, 0, y + 1) * NX
    f0 = tl.load(source + cell, here, 1)
    f1 = tl.load(source + PLANE + row + west, here, 0)
    f2 = tl.load(source + 2 * PLANE + south + x, here, 0)
    f3 = tl.load(source + 3 * PLANE + row + east, here, 0)
    f4 = tl.load(source + 4 * PLANE + north + x, here, 0)
    f5 = tl.load(source + 5 * PLANE + south + west, here, 0)
    f6 = tl.load(source + 6 * PLANE + south + east, here, 0)
    f7 = tl.load(source + 7 * PLANE + north + east, here, 0)
    f8 = tl.load(source + 8 * PLANE + north + west, here, 0)
    fluid = tl.load(obstacles + cell, here, 1) == 0
    density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
    ux, uy = (f1 + f5 + f8 - f3 - f6 - f7) / density, (f2 + f5 + f6 - f4 - f7 - f8) / density
    square = ux * ux + uy * uy
    g0 = tl.where(fluid, relaxed(f0, 4 / 9, density, 0.0, square, omega), f0)
    g1 = tl.where(fluid, relaxed(f1, 1 / 9, density, ux, square, omega), f3)
    g2 = tl.where(fluid, relaxed(f2, 1 / 9, density, uy, square, omega), f4)
    g3 = tl.where(fluid, relaxed(f3, 1 / 9, density, -ux, square, omega), f1)
    g4 = tl.where(fluid, relaxed(f4, 1 / 9, density, -uy, square, omega), f2)
    g5 = tl.where(fluid, relaxed(f5, 1 / 36, density, ux + uy, square, omega), f7)
    g6 = tl.where(fluid, relaxed(f6, 1 / 36, density, uy - ux, square, omega), f8)
    g7 = tl.where(fluid, relaxed(f7, 1 / 36, density, -ux - uy, square, omega), f5)
    g8 = tl.where(fluid, relaxed(f8, 1 / 36, density, ux - uy, square, omega), f6)
    push = fluid & (y == NY - 2) & (g3 > w1) & (g6 > w2) & (g7 > w2)
    w1, w2 = tl.where(push, w1, 0), tl.where(push, w2, 0)
    tl.store(target + cell, g0, here)
    tl.store(target + PLANE + cell, g1 + w1, here)
    tl.store(target + 2 * PLANE + cell, g2, here)
    tl.store(target + 3 * PLANE + cell, g3 - w1, here)
    tl.store(target + 4 * PLANE + cell, g4, here)
    tl.store(target + 5 * PLANE + cell, g5 + w2, here)
    tl.store(target + 6 * PLANE + cell, g6 - w2, here)
    tl.store(target + 7 * PLANE + cell, g7 - w2, here)
    tl.store(target + 8 * PLANE + cell, g8 + w2, here)
    slot = (tl.load(done) + number) * tl.num_programs(0) * NY + y * tl.num_programs(0) + tl.program_id(0)
    tl.store(sums + slot, tl.sum(tl.where(fluid, tl.sqrt(square), 0)))
