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
import threading
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
from ..process_tree import BadLine, Lines, ProcessTree
from ..spec.lab import Case, Lab, Variant
from . import messages
from .background_group import end_with_parent, parent_environment

CELL_S = 60.0
"""Seconds in which a kernel is compiled and launched ahead. One that takes longer is left to whoever measures it."""
MOST_ENDED = 3
"""Processes that a share may end: more kernels of it are likely to have the same fault, and are left to whoever measures."""
START_S = 600.0
"""Seconds in which a process that compiles gets ready."""
FEWEST = 8
"""Kernels for which it pays to start processes."""
SCALES = ("quick", "test")
"""Those at which a launch takes less than compiling."""

Cell = tuple[Case, Variant]


class _Compiler:
    """A process that compiles, in the process group of this one: what rests while samples are taken rests with it."""

    def __init__(self) -> None:
        # PoCL compiles in one of its threads: bound, those of two processes may share a processor while another idles.
        free = {**own_python.environment(), **parent_environment(), AFFINITY: "0"}
        self._tree = ProcessTree(
            [sys.executable, "-m", __name__], own_session=False, env=free,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self._process = self._tree.process
        assert self._process.stdout
        self._lines = Lines(self._process.stdout)

    def compile(self, order: Mapping[str, Any]) -> int | None:
        """Do an order. Returns None when it is done, else the number of the cell at which the process ended or hung; -1 for
        none. It is of no more use then."""
        assert self._process.stdin
        number, cells = -1, len(order["cells"])
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
            while True:
                line = self._lines.next(CELL_S if number >= 0 else START_S)
                said = messages.expect(
                    messages.parse(line),
                    {"cell": lambda n: messages.has_shape(n, int) and 0 <= n < cells},
                    {"done": bool},
                )
                if "done" in said:
                    return None
                number = said["cell"]
        except (OSError, ValueError, TimeoutError, messages.BadMessage, BadLine):
            return number

    def end(self) -> None:
        """Kill it, and all that it started."""
        self._tree.end()

    def close(self) -> None:
        """Close its pipes, once nobody reads them."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            with contextlib.suppress(BrokenPipeError):  # of what it was not there to read
                pipe.close()


class Compilers:
    """Processes that compile, each a share of a lab's kernels at a time. As a context it ends them.

    They start when they are first needed. One that dies or hangs at a kernel is ended, and another one does the rest of its
    share without that kernel.
    """

    def __init__(self) -> None:
        self._all, self._idle = list[_Compiler](), list[_Compiler]()
        self._lock, self._is_over = threading.Lock(), False

    def __enter__(self) -> "Compilers":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        for compiler in self._all:
            compiler.close()

    def _end(self) -> None:
        with self._lock:
            self._is_over = True
            for compiler in self._all:
                compiler.end()

    def compile(self, orders: Sequence[Mapping[str, Any]]) -> None:
        """Each order by a process of its own, and wait for all. An order is the arguments of `launch`."""
        shares = [threading.Thread(target=self._do, args=(order,)) for order in orders]
        try:
            for share in shares:
                share.start()
            for share in shares:
                share.join()
        except BaseException:  # Ctrl-C
            self._end()
            raise

    def _do(self, order: Mapping[str, Any]) -> None:
        left, ended = list(order["cells"]), 0
        while left and ended < MOST_ENDED and (compiler := self._take()):
            number = compiler.compile({**order, "cells": left})
            if number is None:
                with self._lock:
                    self._idle.append(compiler)
                return
            compiler.end()
            left, ended = left[number + 1 :] if number >= 0 else [], ended + 1

    def _take(self) -> _Compiler | None:
        """Return a process that is idle, or a new one; None where no more is to be done."""
        with self._lock:
            if self._is_over:
                return None
            if self._idle:
                return self._idle.pop(0)
            self._all.append(_Compiler())
            return self._all[-1]


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


def launch(
    lab_name: str, scale: str, spec: str, seed: int, cells: Sequence[tuple[str, str, str]],
    tell: Callable[[int], Any] = lambda number: None,
) -> None:  # fmt: skip
    """Launch each cell's kernels once, on the case that measuring them begins with. Of cells whose programs are the same, and
    launched the same way, one is enough. cells: case, variant, and the file that says afterwards that it was done. tell: takes
    the number of each cell before it is at it.
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
    for number, (name, variant_name, mark) in enumerate(cells):
        tell(number)
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

    def tell(**message: Any) -> None:
        print(json.dumps(message), file=told)

    for line in sys.stdin:
        with contextlib.suppress(Exception):
            launch(**json.loads(line), tell=lambda number: tell(cell=number))
        tell(done=True)


if __name__ == "__main__":
    main()
