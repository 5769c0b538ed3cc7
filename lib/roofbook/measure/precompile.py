"""Compilation of kernels before their measurement, on all cores: `python -m roofbook.measure.precompile`.

An OpenCL driver for CPUs compiles a kernel on one core at its first launch, and caches the result on disk. So several
processes launch a share of the kernels once each. Failures are ignored here: they occur again in the measurement, which
reports them.
"""

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from .. import memory
from ..devices import provenance
from ..devices.backends import has
from ..devices.contract import Device, Unsupported
from ..devices.opencl import AFFINITY
from ..paths import cache_key, write_whole
from ..spec import registry
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from . import messages
from .background_group import end_with_parent
from .gpu_claim import open_lab
from .verify import VERIFIED_ON_AWKWARD_SIZES
from .worker_process import WorkerFailed, WorkerProcess

CELL_LIMIT_S = 60.0
"""Seconds in which a kernel must be compiled and launched; a slower one is left to its measurement."""
MOST_DEATHS = 3
"""Number of processes that may die of a share before the rest of it is left to the measurement."""
START_LIMIT_S = 600.0
"""Seconds in which a compiling process must start."""
LEAST_KERNELS = 8
"""Least number of kernels for which processes are started."""
SCALES = ("quick", "test")
"""Scales at which a launch takes less time than compiling."""

Cell = tuple[Case, Variant]


class _Compiler(WorkerProcess):
    """Process that compiles, in the process group of this one, so that it is paused with it while samples are taken."""

    def __init__(self) -> None:
        # PoCL compiles in one thread: if bound, those of two processes may share a processor while another idles.
        free = {**registry.environment(), AFFINITY: "0"}
        super().__init__([sys.executable, "-m", __name__], environment=free, own_session=False)

    def compile(self, order: Mapping[str, Any]) -> int | None:
        """Run an order. Return None if it is done, else the number of cells up to the one at which the process ended.

        If it hung, or ended before the first cell, that is the number of all cells. The process cannot be used any more then.
        """
        number, cells = -1, len(order["cells"])
        self.tell(order)
        try:
            while True:
                message = self.receive(
                    CELL_LIMIT_S if number >= 0 else START_LIMIT_S,
                    {"cell": lambda n: messages.has_shape(n, int) and 0 <= n < cells},
                    {"done": bool},
                )
                if "done" in message:
                    return None
                number = message["cell"]
        except WorkerFailed as failed:
            return cells if failed.hung or number < 0 else number + 1


class Compilers(AbstractContextManager["Compilers"]):
    """Processes that compile, each one share of a lab's kernels at a time. As a context manager, it ends them.

    They start when they are first needed. If one dies at a kernel, another one compiles the rest of its share. A share with a
    kernel that never ends is left to the measurement: other kernels are likely to have the same fault.
    """

    def __init__(self) -> None:
        self._all, self._idle = list[_Compiler](), list[_Compiler]()
        self._lock, self._is_over = threading.Lock(), False

    def __exit__(self, *_: object) -> None:
        self._kill()
        for compiler in self._all:
            compiler.end()

    def _kill(self) -> None:
        with self._lock:
            self._is_over = True
            for compiler in self._all:
                compiler.kill()

    def compile(self, orders: Sequence[Mapping[str, Any]]) -> None:
        """Run each order in a process of its own, and wait for all. An order is the arguments of `launch`."""
        shares = [threading.Thread(target=self._run_order, args=(order,)) for order in orders]
        try:
            for share in shares:
                share.start()
            for share in shares:
                share.join()
        except BaseException:  # Ctrl-C
            self._kill()
            for share in shares:
                if share.ident:  # it was started
                    share.join()
            raise

    def _run_order(self, order: Mapping[str, Any]) -> None:
        left, ended = list(order["cells"]), 0
        while left and ended < MOST_DEATHS and (compiler := self._take()):
            tried = compiler.compile({**order, "cells": left})
            if tried is None:
                with self._lock:
                    self._idle.append(compiler)
                return
            compiler.kill()
            left, ended = left[tried:], ended + 1

    def _take(self) -> _Compiler | None:
        """Return an idle process, or a new one; None after the end."""
        with self._lock:
            if self._is_over:
                return None
            if self._idle:
                return self._idle.pop(0)
            self._all.append(_Compiler())
            return self._all[-1]


def prebuild(
    lab: Lab, cells: Sequence[Cell], device: Device, seed: int, report: Callable[[str], Any],
    *, from_last: bool = False, compilers: Compilers | None = None,
) -> int:  # fmt: skip
    """Compile the kernels of these cells with one process per core, and return the number of kernels.

    It is 0 if compiling ahead does not pay: on a GPU, with few uncompiled kernels or few cores, or at scales not in SCALES.

    from_last: begin with the last kernel and leave one core free, since the measurement has begun and compiles from the first.
    compilers: processes that several labs share; by default they start for this call only.
    """
    if not has(device.backend, "compiles-at-launch") or device.kind != "cpu":
        return 0
    cell_by_mark = {_mark_of(lab, *cell, device): cell for cell in cells if cell[1].source and cell[0].scale in SCALES}
    due = {mark: cell for mark, cell in cell_by_mark.items() if not mark.exists()}
    cores = os.cpu_count() or 1
    workers = min(cores - from_last, len(due))
    if cores < 2 or len(due) < LEAST_KERNELS:
        return 0
    report(f"compiling {len(due)} kernels")
    (scale,) = {case.scale for case, _ in due.values()}
    by_kernel: dict[
        str, list[tuple[str, str, str]]
    ] = {}  # one process gets all cells of a kernel, and may compile it once
    for mark, (case, variant) in reversed(due.items()) if from_last else due.items():
        assert variant.source
        by_kernel.setdefault(variant.source.sha256, []).append((case.name, variant.name, str(mark)))
    groups = list(by_kernel.values())
    workers = min(workers, len(groups))
    shares = [[cell for group in groups[first::workers] for cell in group] for first in range(workers)]
    order = {"lab_name": lab.name, "scale": scale, "spec": device.spec, "seed": seed}
    with contextlib.nullcontext(compilers) if compilers else Compilers() as processes:
        processes.compile([{**order, "cells": share} for share in shares])
    return len(due)


def _mark_of(lab: Lab, case: Case, variant: Variant, device: Device) -> Path:
    """Return the path of the empty file that marks a cell's kernels as compiled. It is in PoCL's cache."""
    cache_of_all = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    pocl = os.environ.get("POCL_CACHE_DIR") or os.path.join(cache_of_all, "pocl", "kcache")
    fields = [
        lab.name,
        case.name,
        case.params,
        case.units,
        variant.name,
        variant.fingerprint(),
        provenance.environment(device),
    ]
    return Path(pocl, "roofbook", cache_key(json.dumps(fields, sort_keys=True, default=str)))


def launch(
    lab_name: str, scale: str, spec: str, seed: int, cells: Sequence[tuple[str, str, str]],
    report_number: Callable[[int], Any] = lambda number: None,
) -> None:  # fmt: skip
    """Launch each cell's kernels once, on all cases on which its variant is verified, with which a measurement begins.

    Cells with the same programs, launched the same way, are launched once. cells: (case, variant, path of the mark to write).
    report_number: called with the number of each cell before its launches.
    """
    lab, device = open_lab(lab_name, spec)
    inputs, launched = dict[tuple[str, str], Mapping[str, Any]](), set[Any]()

    def launch_once(variant: Variant, case: Case, *same: object) -> None:
        """same: further objects that launches must share to count as the same."""
        key = case.name, case.scale
        if key not in inputs:
            inputs[key] = lab.inputs(case, seed)
        shapes = [(option, value) for option, value in variant.options.items() if isinstance(value, tuple)]
        launch_key = variant.plan, variant.source and variant.source.sha256, tuple(sorted(shapes)), same
        before = device.programs_built
        trial = variant.plan(device, variant, lab.verification_case(case, variant), inputs[key])
        if device.programs_built > before or launch_key not in launched:
            trial.reset()
            trial.run()
            launched.add(launch_key)
        trial.close()

    verified = set[tuple[str, str]]()
    for number, (name, variant_name, mark) in enumerate(cells):
        report_number(number)
        with contextlib.suppress(Exception):
            variant, case = lab.variant(variant_name), lab.case(name, scale)
            launch_once(variant, case)
            is_verified = variant.role in VERIFIED_ON_AWKWARD_SIZES
            for awkward_variant, awkward_case in lab.awkward_runs(case, variant) if is_verified else ():
                if (run := (variant_name, awkward_case.name)) not in verified:
                    verified.add(run)
                    report_number(number)
                    with contextlib.suppress(Unsupported):
                        launch_once(awkward_variant, awkward_case, awkward_case.name)
            write_whole(Path(mark), "")


def main() -> None:
    """Run the order on each line of standard input, and report when it is done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C and ends this process
    end_with_parent()
    memory.keep_freed()
    memory.collect_seldom()
    tell = messages.messages_to_parent()
    for line in sys.stdin:
        with contextlib.suppress(Exception):
            launch(**json.loads(line), report_number=lambda number: tell(cell=number))
        tell(done=True)


if __name__ == "__main__":
    main()
