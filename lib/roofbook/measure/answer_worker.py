"""The process in which a reader's kernel runs: `python -m roofbook.measure.answer_worker ORDER`. Serves answer.py.

It compiles the kernel, runs it on inputs that it is sent, and hands the outputs over as bytes. What is right it never learns:
the process that started it compares. The kernel may crash this process, hang it, or speak in its name.
"""

import json
import os
import pickle
import resource
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ..devices.find import open_device
from ..errors import UsageError, UserFacingError
from ..spec import registry
from ..spec.exercise import Answer, exercises
from ..spec.lab import Case, Runnable, Variant
from .background_group import PARENT, end_with_parent
from .buffer_ledger import BufferLedger, Garbage
from .frames import read_frame, write_frame
from .placement import Target, target_of
from .sampling import flush_of
from .verify import reason_of

LARGEST_FILE = 1 << 30
"""Bytes of a file that this process may write."""
Reply = tuple[dict[str, Any], bytes]


class Workbench:
    """One variant on one device, planned on one case at a time. Each public method serves one request."""

    def __init__(self, variant: Variant, target: Target) -> None:
        self._variant, self._device = variant, target.device
        self._runnable: Runnable | None = None

    def plan(self, payload: Any) -> Reply:
        """Plan a case on inputs, and reset it on garbage. payload: case, inputs, and whether buffers are guarded."""
        self.close(None)
        self._case, self._inputs, guarded = payload
        self._ledger = BufferLedger(guarded=guarded)
        self._runnable = self._planned(self._ledger, self._inputs)
        self._ledger.reset(self._runnable, change=Garbage())
        self._ledger.remember_operands()
        return {}, b""

    def renew(self, payload: Any) -> Reply:
        """Put other inputs in place of those of the plan, and reset it, on garbage or on NaN.

        Buffers, kernels and host code stay the same objects, so a run takes as long as on the inputs before.
        """
        inputs, garbage = payload
        ledger = BufferLedger()
        other = self._planned(ledger, inputs)
        self._ledger.take_operands(ledger)
        other.close()
        overwrite(self._inputs, inputs)
        self._ledger.reset(self._planned_one(), change=Garbage() if garbage else None)
        self._ledger.remember_operands()
        return {}, b""

    def run(self, payload: Any) -> Reply:
        """Run once. payload: whether the cache is emptied first, and whether launches that a plan times itself are judged."""
        cold, judged = payload
        if cold:
            flush_of(self._device)()
        with self._ledger.judging_timed_launches() if judged else nullcontext(lambda: 0.0) as judging_s:
            start = time.perf_counter()
            own = self._planned_one().run()
            seconds = time.perf_counter() - start - judging_s()
        return {"seconds": seconds if own is None else own}, b""

    def outputs(self, _: Any) -> Reply:
        """Hand over what the last run computed."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self._planned_one().outputs().items()}
        form = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
        return {"arrays": form}, b"".join(array.tobytes() for array in arrays.values())

    def check_launches(self, _: Any) -> Reply:
        """Say whether the launches that the plan times itself left the results of those before."""
        self._ledger.check_launches()
        return {}, b""

    def check_operands(self, _: Any) -> Reply:
        """Compare operands with what they held before the first run on them, and look behind the ends of guarded buffers."""
        self._ledger.check_operands()
        self._ledger.check_guards()
        return {}, b""

    def close(self, _: Any) -> Reply:
        """Release the device's memory."""
        if self._runnable:
            self._runnable.close()
        self._runnable = None
        return {}, b""

    def _planned(self, ledger: BufferLedger, inputs: Mapping[str, Any]) -> Runnable:
        case: Case = self._case
        return ledger.plan(lambda: self._variant.plan(self._device, self._variant, case, inputs))

    def _planned_one(self) -> Runnable:
        assert self._runnable is not None
        return self._runnable


REQUESTS = ("plan", "renew", "run", "outputs", "check_launches", "check_operands", "close")
"""Names of the methods of Workbench that may be asked for."""


def overwrite(inputs: Mapping[str, Any], others: Mapping[str, Any]) -> None:
    """Write the numbers of other inputs of the same case into the arrays of these, which a plan may hold on to."""
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            np.copyto(value, others[name])
        elif isinstance(value, Mapping):
            overwrite(value, others[name])


def serve(make: Callable[[], Workbench], requests: BinaryIO, replies: BinaryIO) -> None:
    """Make a workbench, say so, and answer requests until there are no more."""
    try:
        workbench = make()
    except Exception as error:
        write_frame(replies, {"reason": reason_in_words(error)})
        return
    write_frame(replies, {})
    while frame := read_frame(requests):
        header, payload = frame
        try:
            assert header["do"] in REQUESTS
            reply = getattr(workbench, header["do"])(pickle.loads(payload) if payload else None)
        except Exception as error:
            reply = {"reason": reason_in_words(error)}, b""
        write_frame(replies, *reply)


def reason_in_words(error: Exception) -> str:
    """Return the reason of a failure as a row of the store would have it."""
    try:
        return reason_of(error)
    except UserFacingError as usage:
        return str(usage)


def workbench_of(order: Mapping[str, Any]) -> Workbench:
    """Return the workbench that an order asks for: for the answer in the file `text`, or without one for the step itself."""
    lab = registry.get(order["lab"])
    exercise = exercises(lab).named(lab.name, order["exercise"])
    variant = lab.variant(exercise.step)
    assert variant.source is not None
    if order["text"]:
        variant = replace(variant, source=Answer.to(exercise, variant.source, Path(order["text"])))
    target = target_of(variant, open_device(order["device"], lab.preferred_backend))
    if target is None or target.device.name != order["model"]:
        raise UsageError(f"{order['device']} is another device there than {order['model']}")
    target.device.queue()  # a driver that can run no kernel says so here: that is no fault of the kernel
    return Workbench(variant, target)


def limit_itself() -> None:
    """End with the process that started this one, be the first to end where memory is short, and write no large file."""
    if PARENT in os.environ:
        end_with_parent()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))


def main(order: str) -> None:
    """Serve requests on standard input. What the kernel prints goes to standard error."""
    limit_itself()
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as replies:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        serve(lambda: workbench_of(json.loads(order)), requests, replies)
    os._exit(0)  # a kernel may have left anything in the way of an orderly end


if __name__ == "__main__":
    main(sys.argv[1])
