"""The process in which a reader's kernel runs: `python -m roofbook.measure.answer_worker ORDER`. kernel_process.py starts it.

It compiles the kernel, runs it on inputs that it receives, and returns the outputs as bytes. It never learns the right outputs:
its parent compares. The kernel may crash this process, hang it, or send messages in its name.
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

from ..devices.contract import BuildFailed
from ..devices.find import open_device
from ..errors import UsageError, UserFacingError
from ..spec import registry
from ..spec.exercise import Answer, exercises
from ..spec.plan import Case, Runnable, Variant
from ..spec.submission import Submission, SubmittedRun, SubmittedText, lab_folder
from .background_group import PARENT, end_with_parent
from .buffer_ledger import BufferLedger, Garbage
from .frames import read_frame, write_frame
from .kernel_process import RESOURCES
from .placement import Target, target_of
from .sampling import flush_of
from .verify import reason_of

LARGEST_FILE = 1 << 30
"""Largest number of bytes of a file that this process may write."""
GUARD = 1 << 20
"""Bytes before and behind each buffer in which a write is noticed."""
Reply = tuple[dict[str, Any], bytes]


class Workbench:
    """One variant on one device, planned on one case at a time. Each public method answers one request."""

    def __init__(self, variant: Variant, target: Target) -> None:
        self._variant, self._device = variant, target.device
        self._runnable: Runnable | None = None
        self._refused = ""
        """Messages of the compiler about a text that it refused."""

    def plan(self, payload: Any) -> Reply:
        """Plan a case on inputs, and reset it on garbage. payload: case, inputs, and whether buffers are guarded."""
        self.close(None)
        self._case, self._inputs, guarded = payload
        self._ledger = BufferLedger(guarded=guarded)
        self._ledger.guard_bytes = GUARD if guarded else 0
        try:
            self._runnable = self._plan_on(self._ledger, self._inputs)
        except BuildFailed as error:
            self._refused = str(error.__cause__ or error)
            raise
        self._ledger.reset(self._runnable, change=Garbage())
        self._ledger.remember_operands()
        return {}, b""

    def renew(self, payload: Any) -> Reply:
        """Replace the inputs of the plan, and reset it, on garbage or on NaN. payload: inputs, and whether on garbage.

        Buffers, kernels and host code stay the same objects, so a run takes as long as on the earlier inputs.
        """
        inputs, garbage = payload
        ledger = BufferLedger()
        runnable = self._plan_on(ledger, inputs)
        self._ledger.take_operands(ledger)
        runnable.close()
        overwrite_arrays(self._inputs, inputs)
        self._ledger.reset(self._present_runnable(), change=Garbage() if garbage else None)
        self._ledger.remember_operands()
        return {}, b""

    def run(self, payload: Any) -> Reply:
        """Run once. payload: whether the cache is emptied first, and whether launches that a plan times itself are judged."""
        cold, judged = payload
        if cold:
            flush_of(self._device)()
        with self._ledger.judging_timed_launches() if judged else nullcontext(lambda: 0.0) as judging_s:
            start = time.perf_counter()
            own_seconds = self._present_runnable().run()
            seconds = time.perf_counter() - start - judging_s()
        return {"seconds": seconds if own_seconds is None else own_seconds}, b""

    def outputs(self, _: Any) -> Reply:
        """Return the outputs of the last run."""
        arrays = {name: np.ascontiguousarray(array) for name, array in self._present_runnable().outputs().items()}
        form = [[name, array.dtype.str, list(array.shape)] for name, array in arrays.items()]
        return {"arrays": form}, b"".join(array.tobytes() for array in arrays.values())

    def check_launches(self, _: Any) -> Reply:
        """Check that launches which the plan times itself left the same results as the launches before them."""
        self._ledger.check_launches()
        return {}, b""

    def check_operands(self, _: Any) -> Reply:
        """Check that operands are as before the first run on them, and that the guards of buffers are untouched."""
        self._ledger.check_operands()
        self._ledger.check_guards()
        return {}, b""

    def facts(self, _: Any) -> Reply:
        """Return what the compiler says of the kernel: registers and bytes of memory."""
        facts = self._present_runnable().facts()
        return {"facts": {name: int(facts[name]) for name in RESOURCES if name in facts}}, b""

    def log(self, _: Any) -> Reply:
        """Return all messages of the compiler for the last plan."""
        return {"log": self._refused or getattr(self._runnable, "log", "")}, b""

    def close(self, _: Any) -> Reply:
        """Release the device's memory."""
        if self._runnable:
            self._runnable.close()
        self._runnable = None
        return {}, b""

    def _plan_on(self, ledger: BufferLedger, inputs: Mapping[str, Any]) -> Runnable:
        case: Case = self._case
        return ledger.plan(lambda: self._variant.plan(self._device, self._variant, case, inputs))

    def _present_runnable(self) -> Runnable:
        assert self._runnable is not None
        return self._runnable


REQUESTS = ("plan", "renew", "run", "outputs", "check_launches", "check_operands", "facts", "log", "close")
"""Methods of Workbench that a request may call."""


def overwrite_arrays(inputs: Mapping[str, Any], new_inputs: Mapping[str, Any]) -> None:
    """Write the numbers of new inputs of the same case into the arrays of `inputs`, which a plan may still reference."""
    for name, value in inputs.items():
        if isinstance(value, np.ndarray):
            np.copyto(value, new_inputs[name])
        elif isinstance(value, Mapping):
            overwrite_arrays(value, new_inputs[name])


def serve(make: Callable[[], Workbench], requests: BinaryIO, replies: BinaryIO) -> None:
    """Make a workbench, report it, and answer requests until there are no more."""
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
    """Return the reason of a failure as a row of the store has it."""
    try:
        return reason_of(error)
    except UserFacingError as usage:
        return str(usage)


def workbench_of(order: Mapping[str, Any]) -> Workbench:
    """Return the workbench for an order.

    It is that of a `variant` of the lab, of the answer to an `exercise`, or of a `submission`. The file `text` has the text.
    """
    lab = registry.get(order["lab"])
    if "variant" in order:
        variant = lab.variant(order["variant"])
    elif "exercise" in order:
        exercise = exercises(lab).named(lab.name, order["exercise"])
        variant = lab.variant(exercise.step)
        assert variant.source is not None
        variant = replace(variant, source=Answer.to(exercise, variant.source, Path(order["text"])))
    else:
        source = SubmittedText(Path(order["text"]), lab_folder=lab_folder(lab))
        options = {"lab": lab, "submission": Submission.of_data(order["submission"])}
        variant = Variant("submitted", None, source, SubmittedRun, "", "", options=options)
    target = target_of(variant, open_device(order["device"], lab.preferred_backend))
    if target is None or target.device.name != order["model"]:
        raise UsageError(f"{order['device']} is another device there than {order['model']}")
    target.device.queue()  # a driver that cannot run any kernel fails here: that is no fault of the kernel
    return Workbench(variant, target)


def limit_itself(memory_gib: float | None) -> None:
    """Let this process end with its parent, be the first to be killed when memory is short, and write no large file.

    memory_gib: memory that it may take; None for no limit.
    """
    if PARENT in os.environ:
        end_with_parent()
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, LARGEST_FILE))
    if memory_gib is not None:  # addresses alone are not counted: a GPU's driver reserves many
        resource.setrlimit(resource.RLIMIT_DATA, (int(memory_gib * 2**30),) * 2)


def main(order_text: str) -> None:
    """Answer requests on standard input. Output of the kernel goes to standard error."""
    order = json.loads(order_text)
    limit_itself(order.get("memory_gib"))
    with os.fdopen(os.dup(0), "rb") as requests, os.fdopen(os.dup(1), "wb") as replies:
        with open(os.devnull, "rb") as nothing:
            os.dup2(nothing.fileno(), 0)
        os.dup2(2, 1)
        serve(lambda: workbench_of(order), requests, replies)
    os._exit(0)  # a kernel may have broken an orderly exit


if __name__ == "__main__":
    main(sys.argv[1])
