"""A step of the lattice in Numba: a thread pulls and collides one cell, and a block adds up its speeds.

Directions are those of problem.py. A cell of row ny-2 also does accelerate_flow of the next step, by w1 and w2.
"""

import math

import numpy as np
from numba import cuda, float32

BLOCK = 128
"""Threads of a block."""


@cuda.jit(device=True)
def relaxed(f, weight, density, along, square, omega):
    equilibrium = float32(1) + float32(3) * along + float32(4.5) * along * along - float32(1.5) * square
    return f + omega * (float32(weight) * density * equilibrium - f)


@cuda.jit
def step(source, target, obstacles, sums, done, number, omega, w1, w2):
    x, y = cuda.grid(2)
    _, ny, nx = source.shape
    speed, lane = float32(0), cuda.threadIdx.x
    if x < nx:
        west, east = x - 1 if x > 0 else nx - 1, x + 1 if x < nx - 1 else 0
        south, north = y - 1 if y > 0 else ny - 1, y + 1 if y < ny - 1 else 0
        f0, f1, f2 = source[0, y, x], source[1, y, west], source[2, south, x]
        f3, f4, f5 = source[3, y, east], source[4, north, x], source[5, south, west]
        f6, f7, f8 = source[6, south, east], source[7, north, east], source[8, north, west]
        if obstacles[y, x]:
            f1, f2, f3, f4, f5, f6, f7, f8 = f3, f4, f1, f2, f7, f8, f5, f6
        else:
            density = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
            ux, uy = (f1 + f5 + f8 - f3 - f6 - f7) / density, (f2 + f5 + f6 - f4 - f7 - f8) / density
            square = ux * ux + uy * uy
            f0 = relaxed(f0, 4 / 9, density, float32(0), square, omega)
            f1 = relaxed(f1, 1 / 9, density, ux, square, omega)
            f2 = relaxed(f2, 1 / 9, density, uy, square, omega)
            f3 = relaxed(f3, 1 / 9, density, -ux, square, omega)
            f4 = relaxed(f4, 1 / 9, density, -uy, square, omega)
            f5 = relaxed(f5, 1 / 36, density, ux + uy, square, omega)
            f6 = relaxed(f6, 1 / 36, density, uy - ux, square, omega)
            f7 = relaxed(f7, 1 / 36, density, -ux - uy, square, omega)
            f8 = relaxed(f8, 1 / 36, density, ux - uy, square, omega)
            speed = math.sqrt(square)
            if y == ny - 2 and f3 > w1 and f6 > w2 and f7 > w2:
                f1, f5, f8 = f1 + w1, f5 + w2, f8 + w2
                f3, f6, f7 = f3 - w1, f6 - w2, f7 - w2
        target[0, y, x], target[1, y, x], target[2, y, x] = f0, f1, f2
        target[3, y, x], target[4, y, x], target[5, y, x] = f3, f4, f5
        target[6, y, x], target[7, y, x], target[8, y, x] = f6, f7, f8
    speeds = cuda.shared.array(BLOCK, np.float32)
    speeds[lane] = speed
    reach = BLOCK // 2
    while reach > 0:
        cuda.syncthreads()
        if lane < reach:
            speeds[lane] += speeds[lane + reach]
        reach //= 2
    if lane == 0:
        sums[((done[0] + number) * ny + y) * cuda.gridDim.x + cuda.blockIdx.x] = speeds[0]
