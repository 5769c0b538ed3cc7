"""The course's program with the lab's kernels, for the course's files: python -m roofbook.labs.lbm PARAMS OBSTACLES."""

from __future__ import annotations

import argparse
import datetime  # noqa: F401 - NumPy imports it from C, where Ctrl-C would read as a broken installation of NumPy
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...devices.driver import start_driver_of
from ...errors import UsageError
from ..course_program import Parser, exit_code
from .course_backend import PREFERRED

if TYPE_CHECKING:
    from .problem import Params


def _parser() -> Parser:
    parser = Parser(
        prog="python -m roofbook.labs.lbm",
        description="Run a D2Q9 lattice Boltzmann case from the course's files on one device.",
        epilog="Writes av_vels.dat and final_state.dat, in the format of the course's d2q9-bgk program.",
    )
    parser.add_argument(
        "params", metavar="PARAMS", help="a value a line: nx, ny, iterations, reynolds_dim, density, accel, omega"
    )
    parser.add_argument("obstacles", metavar="OBSTACLES", help="a line 'x y 1' for each blocked cell")
    parser.add_argument("--device", default="auto", help="auto, opencl:0, cuda:0, ... (default: %(default)s)")
    parser.add_argument(
        "--variant",
        help="a variant of the lab's ladder (default: the fastest in the store)",
    )
    parser.add_argument("--out", default=".", metavar="DIR", help="where both files go (default: here)")
    return parser


def _folder(name: str) -> Path:
    """Make the output folder, before a long run instead of after it. Raises UsageError."""
    try:
        Path(name).mkdir(parents=True, exist_ok=True)
    except OSError as failure:
        raise UsageError(f"--out {name}: cannot be a folder: {failure.strerror}") from None
    return Path(name)


BYTES_A_CELL, BYTES_A_STEP = 180, 50
"""Bytes that the host needs to write the results: for the grid in double precision, and for mean speeds as Python's numbers."""
FREE_ANYWHERE = 1 << 28
"""Bytes that every host has free: for less, free memory is not looked up, since the import for it takes a while."""


def _check_size(path: str, params: Params) -> None:
    """Raise UsageError for a case that does not fit the memory or single precision."""
    import numpy as np

    cells = params.nx * params.ny
    need = BYTES_A_CELL * cells + BYTES_A_STEP * params.iterations
    if need > FREE_ANYWHERE:
        import psutil

        free = psutil.virtual_memory().available
        if need > free:
            need_text = f"{cells} cells and {params.iterations} iterations need about {need / 1e9:.3g} GB of memory"
            raise UsageError(f"{path}: {need_text}, {free / 1e9:.3g} GB are free")
    single = np.finfo(np.float32)
    most, least = float(single.max), 36 * float(single.tiny)  # the smallest population of a cell is a 36th
    driven = params.density * params.accel
    if max(params.density, driven) > most:
        raise UsageError(f"{path}: density, and density times accel, must be at most {most:.3g} (single precision)")
    if params.density < least or (params.accel and driven < least):
        need_text = "density, and density times accel unless accel is 0,"
        raise UsageError(f"{path}: {need_text} must be at least {least:.3g} (single precision)")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code, as `exit_code` does."""
    return exit_code(_parser, _run, argv)


def _run(arguments: argparse.Namespace) -> None:
    start_driver_of(arguments.device, PREFERRED)

    from . import course  # the other imports run while the driver starts
    from .problem import reynolds

    params = course.read_params(arguments.params)
    _check_size(arguments.params, params)
    obstacles = course.read_obstacles(arguments.obstacles, params.nx, params.ny)
    folder = _folder(arguments.out)

    from .lattice import simulate

    start = time.perf_counter()
    lines: list[str] = []
    f, av_vels = simulate(arguments.device, arguments.variant, params, obstacles, lines.append)
    elapsed = time.perf_counter() - start
    course.write_final_state(folder / "final_state.dat", f, params, obstacles)
    course.write_av_vels(folder / "av_vels.dat", av_vels)
    print("==done==")
    for line in lines:
        print(f"Variant:\t\t\t{line}")
    print(f"Reynolds number:\t\t{reynolds(av_vels[-1], params):.12E}")
    print(f"Elapsed time:\t\t\t{elapsed:.6f} (s)")
    print(f"Written:\t\t\t{folder / 'final_state.dat'}, {folder / 'av_vels.dat'}")


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy's threads would wait in a loop for work that never comes
    os._exit(main())  # the operating system frees everything sooner than CuPy and Python would
