"""The course's files: parameters and obstacles in, av_vels.dat and final_state.dat out.

They are those of the University of Bristol's coursework.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...devices.host import processors
from ...errors import UsageError
from ...paths import write_whole
from .problem import Array, Mask, Params, macroscopic

FIELDS = ("nx", "ny", "iterations", "reynolds_dim", "density", "accel", "omega")
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")

PathLike = str | os.PathLike[str]


def _shown(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:37] + "...")


def _lines(path: PathLike) -> Iterator[tuple[int, str]]:
    """Yield number and text of each line that is not empty; '#' starts a comment. Raises UsageError."""
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except IsADirectoryError:
        raise UsageError(f"{path}: is a directory, expected a text file") from None
    except (OSError, ValueError) as failure:
        raise UsageError(f"{path}: cannot be read: {failure}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise UsageError(f"{path}: is a binary file, expected a text file")
    for number, line in enumerate(text.split("\n"), 1):
        line = line.partition("#")[0].strip()
        if line:
            yield number, line


def read_params(path: PathLike) -> Params:
    """Read the parameter file: nx, ny, iterations, reynolds_dim, density, accel, omega, one value a line.

    Raises UsageError with the line, the text found and the text expected.
    """
    values: dict[str, float] = {}
    lines: dict[str, int] = {}
    for number, text in _lines(path):
        if len(values) == len(FIELDS):
            raise UsageError(f"{path}, line {number}: found {_shown(text)}, expected the end: {len(FIELDS)} values")
        name = FIELDS[len(values)]
        is_integer = name in FIELDS[:4]
        if not (_INTEGER if is_integer else _NUMBER).fullmatch(text):
            kind = "an integer" if is_integer else "a finite number"
            raise UsageError(f"{path}, line {number}: found {_shown(text)}, expected {name}, {kind}")
        values[name] = int(text) if is_integer else float(text)
        lines[name] = number
    if len(values) < len(FIELDS):
        missing = ", ".join(FIELDS[len(values) :])
        raise UsageError(f"{path}: found {len(values)} values, expected {len(FIELDS)}; missing: {missing}")
    try:
        return Params(**values)  # type: ignore[arg-type]
    except ValueError as wrong:
        field = str(wrong).split()[0]
        raise UsageError(f"{path}, line {lines.get(field, lines['ny'])}: {wrong}") from None


def read_obstacles(path: PathLike, nx: int, ny: int) -> Mask:
    """Read the obstacle file, lines 'x y 1' for blocked cells: bool (ny, nx). An empty file blocks nothing.

    Raises UsageError like `read_params`, also if no fluid cell is left, or none in the accelerated row ny-2.
    """
    obstacles = np.zeros((ny, nx), bool)
    for number, text in _lines(path):
        words = text.split()
        if len(words) != 3 or not all(_INTEGER.fullmatch(word) for word in words):
            raise UsageError(f"{path}, line {number}: found {_shown(text)}, expected three integers: x y 1")
        x, y, blocked = map(int, words)
        for name, value, size in (("x", x, nx), ("y", y, ny)):
            if not 0 <= value < size:
                raise UsageError(f"{path}, line {number}: found {name} = {value}, expected 0 to {size - 1}")
        if blocked != 1:
            raise UsageError(f"{path}, line {number}: found {blocked} as the third value, expected 1 (blocked)")
        obstacles[y, x] = True
    if obstacles.all():
        raise UsageError(f"{path}: blocks all {nx * ny} cells, expected at least one fluid cell")
    if obstacles[ny - 2].all():
        raise UsageError(f"{path}: blocks all of row {ny - 2}, which drives the flow; expected a fluid cell in it")
    return obstacles


def _write_bytes(path: PathLike, pieces: Iterable[bytes]) -> None:
    """Write a file. An earlier one is replaced only by a complete new one."""
    try:
        Path(path).parent.stat()  # a folder that is mistyped is not made
        write_whole(Path(path), pieces, durable=True)
    except OSError as failure:
        raise UsageError(f"{path}: cannot be written: {failure.strerror}") from None


def write_av_vels(path: PathLike, av_vels: Array) -> None:
    """Write av_vels.dat: a line 't:<tab>value' for each step."""
    values = np.asarray(av_vels, np.float64)
    steps = np.array([b"%d:\t" % step for step in range(len(values))], "S")
    width = steps.itemsize
    text = np.full((len(values), width + WIDTH + 1), ord("\n"), np.uint8)
    text[:, :width] = steps.view(np.uint8).reshape(len(values), width)
    text[:, width:-1] = scientific(values)
    _write_bytes(path, [bytes(text).translate(None, b"\0")])


def write_final_state(path: PathLike, f: Array, params: Params, obstacles: Mask) -> None:
    """Write final_state.dat: 'x y ux uy |u| pressure obstacle' for each cell, x fastest; pressure is density/3.

    A blocked cell is at rest and has the pressure of params.density. The last column is the cell's own flag; if a case is not
    symmetric in x and y, the course's program prints the flag of another cell there.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        rho, ux, uy = macroscopic(np.asarray(f, np.float64))
    fluid = ~np.asarray(obstacles, bool)
    ux, uy = np.where(fluid, ux, 0), np.where(fluid, uy, 0)
    pressure = np.where(fluid, rho, params.density) / 3
    values = np.stack([ux, uy, np.hypot(ux, uy), pressure], axis=-1)
    rows = max(1, CELLS_AT_ONCE // fluid.shape[1])

    def text(first: int) -> bytes:
        return _cells_text(first, values[first : first + rows], fluid[first : first + rows])

    with ThreadPoolExecutor(processors()) as pool:
        _write_bytes(path, pool.map(text, range(0, fluid.shape[0], rows)))


CELLS_AT_ONCE = 1 << 14
"""Number of cells that are turned into text at once: as many as a core's own cache holds."""


def _cells_text(first: int, values: Array, fluid: Mask) -> bytes:
    """Return the lines for the cells of some rows of the grid, from row `first` on. values: (rows, nx, 4)."""
    rows, nx, numbers = values.shape
    columns, up = (np.array([b"%d " % n for n in side], "S") for side in (range(nx), range(first, first + rows)))
    width, high = columns.itemsize, up.itemsize
    text = np.zeros((rows, nx, width + high + numbers * (WIDTH + 1) + 2), np.uint8)
    text[:, :, :width] = columns.view(np.uint8).reshape(1, nx, width)
    text[:, :, width : width + high] = up.view(np.uint8).reshape(rows, 1, high)
    middle = text[:, :, width + high : -2].reshape(rows, nx, numbers, WIDTH + 1)
    middle[..., :WIDTH] = scientific(values)
    middle[..., WIDTH] = ord(" ")
    text[:, :, width + high : -2] = middle.reshape(rows, nx, -1)
    text[:, :, -2] = ord("1") - fluid
    text[:, :, -1] = ord("\n")
    return bytes(text).translate(None, b"\0")


WIDTH = 20
"""Largest number of letters in a number written by '%.12E': -1.234567890123E-100."""
_LEAST, _MOST = -290, 300  # exponents whose powers of ten are normal numbers
_POWERS = np.array([float(f"1e{12 - e}") for e in range(_LEAST, _MOST)])
_FOURS = np.array([b"%04d" % n for n in range(10000)], "S4").view(np.uint32)
_EXPONENTS = np.array([b"E%+03d" % e for e in range(_LEAST, _MOST)], "S5").view(np.uint8).reshape(-1, 5)
_FIRST_FOUR, _FIFTH = np.ascontiguousarray(_EXPONENTS[:, :4]).view(np.uint32)[:, 0], _EXPONENTS[:, 4].copy()


def scientific(values: Array) -> NDArray[np.uint8]:
    """Write each number like '%.12E', in WIDTH bytes: shape (*values.shape, WIDTH). Bytes that a number does not need are 0.

    A number times a power of ten gives its 13 digits, with an error of at most 1e13 / 2**52 = 0.0022. Numbers that this error
    could round otherwise are left to Python, and so are numbers that have no such power.
    """
    plain = np.ascontiguousarray(values, np.float64).reshape(-1)
    size = np.abs(plain)
    with np.errstate(all="ignore"):
        exponent = np.floor(np.log10(size))
        usual = (exponent >= _LEAST) & (exponent < _MOST)
        exponent = np.where(usual, exponent, 0).astype(np.int64)
        digits = size * _POWERS[exponent - _LEAST]
        digits_13 = np.rint(digits)
        doubtful = (
            ~usual | (digits_13 < 1e12) | (digits_13 >= 1e13) | (np.abs(np.abs(digits - digits_13) - 0.5) < 0.003)
        )
    zero = size == 0
    digits_13[doubtful] = 0
    first_five = np.floor(digits_13 / 1e8)
    high, low = first_five.astype(np.uint32), (digits_13 - first_five * 1e8).astype(np.uint32)
    out = np.empty((len(plain), WIDTH), np.uint8)
    out[:, 0] = np.signbit(plain) * np.uint8(ord("-"))
    out[:, 1] = high // 10000 + ord("0")
    out[:, 2] = ord(".")
    fours = np.empty((len(plain), 3), np.uint32)
    for at, four in enumerate((high % 10000, low // 10000, low % 10000)):
        fours[:, at] = _FOURS[four]
    out[:, 3:15] = fours.view(np.uint8)
    out[:, 15:19] = _FIRST_FOUR[exponent - _LEAST].view(np.uint8).reshape(-1, 4)
    out[:, 19] = _FIFTH[exponent - _LEAST]
    for at in np.flatnonzero(doubtful & ~zero).tolist():
        out[at] = np.frombuffer(b"%.12E" % plain[at] + bytes(WIDTH), np.uint8, WIDTH)
    return out.reshape(*values.shape, WIDTH)
