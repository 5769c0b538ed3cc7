"""Compiles kernels ahead of their measurement, on all cores: `python -m roofbook.measure.precompile`.

An OpenCL driver for CPUs compiles a kernel on one core, when it is first launched, and keeps the result on disk. So each
of several processes launches a part of the kernels once; whoever measures afterwards finds them compiled. What goes wrong
here is no matter: it goes wrong again where it is measured, and is told there.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from .. import memory, own_python
from ..devices import provenance
from ..devices.backends import has
from ..devices.contract import Device
from ..devices.opencl import AFFINITY
from ..paths import cache_key, write_whole
from ..spec.lab import Case, Lab, Variant
from .beside import as_parent, end_with_parent

FEWEST = 8
"""Kernels for which it pays to start processes."""
SCALES = ("quick", "test")
"""Those at which a launch takes less than compiling."""

Cell = tuple[Case, Variant]


class Compilers:
    """Processes that compile, each a share of a lab's kernels at a time. As a context it ends them.

    They start when they are first needed. One that has died does its share no more, and the next share is another one's.
    """

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "Compilers":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe
                with contextlib.suppress(BrokenPipeError):  # of what it was not there to read
                    pipe.close()

    def compile(self, orders: Sequence[Mapping[str, Any]]) -> None:
        """Each order by a process of its own, and wait for all. An order is the arguments of `launch`."""
        # PoCL compiles in one of its threads: bound, those of two processes may share a processor while another idles.
        free = {**own_python.environment(), **as_parent(), AFFINITY: "0"}
        pipe, null = subprocess.PIPE, subprocess.DEVNULL
        alive = [process for process in self._processes if process.poll() is None]
        for _ in range(len(orders) - len(alive)):
            process = subprocess.Popen([sys.executable, "-m", __name__], env=free, stdin=pipe, stdout=pipe, stderr=null)
            self._processes.append(process)
            alive.append(process)
        at_work = alive[: len(orders)]
        for process, order in zip(at_work, orders, strict=True):
            assert process.stdin
            with contextlib.suppress(BrokenPipeError):
                process.stdin.write(json.dumps(order).encode() + b"\n")
                process.stdin.flush()
        for process in at_work:
            assert process.stdout
            if not process.stdout.readline():  # it has died, or is about to: nothing more is to be had of it
                process.kill()
                process.wait()


def prebuild(
    lab: Lab, cells: Sequence[Cell], device: Device, seed: int, tell: Callable[[str], Any],
    *, meet: bool = False, compilers: Compilers | None = None,
) -> int:  # fmt: skip
    """Have the kernels of these cells compiled by as many processes as there are cores; return how many there were.

    0 where that would not pay: on a GPU, with few kernels that are not compiled yet, or few cores, at other scales than SCALES.

    meet: whoever measures them does not wait, but compiles from the first on. So these begin with the last, on the other cores.
    compilers: those of several labs; else they start for this one, and end with it.
    """
    if not has(device.backend, "compiles-at-launch") or device.kind != "cpu":
        return 0
    asked = {_mark(lab, *cell, device): cell for cell in cells if cell[1].source and cell[0].scale in SCALES}
    due = {mark: cell for mark, cell in asked.items() if not mark.exists()}
    cores = os.cpu_count() or 1
    workers = min(cores - meet, len(due))
    if cores < 2 or len(due) < FEWEST:
        return 0
    tell(f"compiling {len(due)} kernels")
    (scale,) = {case.scale for case, _ in due.values()}
    by_kernel: dict[str, list[tuple[str, str, str]]] = {}  # what is the same may be left out by who has compiled it
    for mark, (case, variant) in reversed(due.items()) if meet else due.items():
        assert variant.source
        by_kernel.setdefault(variant.source.sha256, []).append((case.name, variant.name, str(mark)))
    groups = list(by_kernel.values())
    workers = min(workers, len(groups))
    shares = [[cell for group in groups[at::workers] for cell in group] for at in range(workers)]
    order = {"lab_name": lab.name, "scale": scale, "spec": device.spec, "seed": seed}
    with contextlib.nullcontext(compilers) if compilers else Compilers() as processes:
        processes.compile([{**order, "cells": share} for share in shares])
    return len(due)


def _mark(lab: Lab, case: Case, variant: Variant, device: Device) -> Path:
    """The empty file that says that a cell's kernels were compiled. It lies in the cache of PoCL, and goes when that does."""
    cache_of_all = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    pocl = os.environ.get("POCL_CACHE_DIR") or os.path.join(cache_of_all, "pocl", "kcache")
    what = [
        lab.name,
        case.name,
        case.params,
        case.units,
        variant.name,
        variant.fingerprint(),
        provenance.environment(device),
    ]
    return Path(pocl, "roofbook", cache_key(json.dumps(what, sort_keys=True, default=str)))


def launch(lab_name: str, scale: str, spec: str, seed: int, cells: Sequence[tuple[str, str, str]]) -> None:
    """Launch each cell's kernels once, on the case that measuring them begins with. Of cells whose programs are the same, and
    launched the same way, one is enough. cells: case, variant, and the file that says afterwards that it was done.
    """
    from ..devices.find import open_device
    from ..spec import registry

    lab = registry.get(lab_name)
    device = open_device(spec, lab.preferred_backend)
    lab.prepare()

    @cache
    def inputs(case: str) -> Any:
        return lab.inputs(lab.case(case, scale), seed)

    launched = set[Any]()
    for name, variant_name, mark in cells:
        with contextlib.suppress(Exception):
            variant, before = lab.variant(variant_name), device.programs_built
            trial = variant.plan(device, variant, lab.verification_case(lab.case(name, scale), variant), inputs(name))
            shapes = [(option, value) for option, value in variant.options.items() if isinstance(value, tuple)]
            way = variant.plan, variant.source and variant.source.sha256, tuple(sorted(shapes))
            if device.programs_built > before or way not in launched:
                trial.reset()
                trial.run()
                launched.add(way)
            trial.close()
            write_whole(Path(mark), "")


def main() -> None:
    """Do what each line of standard input says, and tell of each that it is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for whoever waits, who ends this process
    end_with_parent()
    memory.keep_freed()
    memory.collect_seldom()
    told = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a driver prints is no message
    for line in sys.stdin:
        with contextlib.suppress(Exception):
            launch(**json.loads(line))
        print("done", file=told)


if __name__ == "__main__":
    main()
