"""Verification of measurements: outputs are poisoned, computed and compared with a reference, before and after the samples.

A variant that is wrong or too slow is not timed. One that turns out wrong after its last sample becomes a failed row.
"""

import math
import secrets
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.contract import BuildFailed, Device, DriverFailed, OutOfMemory, Unsupported
from ..errors import UserFacingError
from ..paths import LIBRARY
from ..spec.plan import Case, Runnable, Variant
from .buffer_ledger import BufferLedger, Garbage, LeftBuffer, OperandChanged, TimedLaunchDiffers
from .checked_runnable import BadValue, check_of, checked_runnable, closed_after, same_shapes
from .fast_math import FastMath, check_declared
from .measurement import Check, Measurement
from .placement import Setting
from .progress import Progress, silent


class DeviceLost(Exception):
    """The device no longer works: a kernel broke its context, and no other kernel can repair it."""


class KernelRefused(Exception):
    """A kernel failed in a process of its own. The message is the whole reason of its row."""


class OutOfTime(Exception):
    """A run would take longer than its limit."""


class TooLittleMemory(Exception):
    """Not enough free memory now; retry when the other variants have been released."""


COMPILE_ALLOWANCE_S = 10
"""Seconds that a driver may compile in a first run. A run that exceeds its limit by more is too slow by itself."""


def too_long(setting: Setting, measurement: Measurement, progress: Progress = silent) -> str | None:
    """Return the reason why a loop nest on one core is not begun; None if it may run or is another kind of variant.

    Its time on the lab's first quick case is scaled to this case and compared with the limit. Other variants use the device
    too badly on a small case; `prepare` judges them by a run of their own.
    """
    if measurement.variant.options.get("device") != "host":
        return None
    lab, policy = setting.lab, setting.policy
    small = lab.verification_case(lab.cases("quick")[0], measurement.variant)
    small_work = lab.work(small).flops * small.units
    work_ratio = (
        lab.work(setting.case).flops * lab.units(setting.case, measurement.variant, measurement.device) / small_work
    )
    if work_ratio <= 1:
        return None
    try:
        progress(measurement.variant.name, "plan of a small case")
        planned = _planned(measurement, measurement.variant, small, lab.inputs(small, policy.seed), progress)
        with closed_after(planned) as trial:
            progress(measurement.variant.name, "first run of a small case")
            seconds = work_ratio * run_once(trial)
            if seconds > policy.limit_s:  # a driver may have compiled in the first run
                seconds = work_ratio * run_once(trial)
    except Exception as error:
        return reason_of(error)
    if seconds <= policy.limit_s:
        return None
    return reason_of(
        OutOfTime(f"by its time on {small.name} it would take about {seconds:.0f} s, the limit is {policy.limit_s:g} s")
    )


class References:
    """Inputs on which the variants of a case are verified, and the right outputs. Each is computed once, for all variants.

    Checks before timing use inputs of a seed that is drawn for this run. Checks after timing use the timed inputs.
    """

    def __init__(self, setting: Setting, seed: int | None = None) -> None:
        """seed: of the inputs before timing; drawn if None."""
        self.lab, self.case = setting.lab, setting.case
        self.timed = setting.lab.inputs(setting.case, setting.policy.seed)
        self.seed = secrets.randbelow(1 << 31) if seed is None else seed
        self._drawn: Mapping[str, Any] | None = None
        self._before: dict[tuple[int, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._after: dict[int, Mapping[str, Any]] = {}
        self._awkward: dict[tuple[str, int, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._losses: dict[tuple[str, str], Mapping[str, Any]] = {}

    def before(self, case: Case, variant: Variant) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return the inputs on which a variant is verified before it is timed, and their right outputs."""
        name = self.lab.verified_on(variant)
        if self._drawn is None:
            self._drawn = self.lab.inputs(self.case, self.seed)
        if (case.units, name) not in self._before:
            inputs = self.lab.verification_inputs(case, name, self._drawn)
            self._before[case.units, name] = inputs, self.lab.reference(case, inputs)
        return self._before[case.units, name]

    def awkward(self, case: Case, variant: Variant) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return inputs and right outputs of a small case of `Lab.awkward_runs`, on which a variant is verified."""
        name = self.lab.verified_on(variant)
        key = case.name, case.units, name
        if key not in self._awkward:
            inputs = self.lab.verification_inputs(case, name, self.lab.inputs(case, self.seed))
            self._awkward[key] = inputs, self.lab.reference(case, inputs)
        return self._awkward[key]

    def losses(self, device: Device, variant: Variant) -> Mapping[str, Any]:
        """Return `Lab.device_losses` of a device and a variant, computed once."""
        key = f"{device.backend} {device.spec}", variant.name
        if key not in self._losses:
            self._losses[key] = self.lab.device_losses(device, variant)
        return self._losses[key]

    def timing(self) -> None:
        """Free the inputs and outputs that only checks before timing need: they can be as large as the timed ones."""
        self._drawn = None
        self._before.clear()

    def after(self, case: Case) -> Mapping[str, Any]:
        """Return the right outputs of the timed inputs on a case."""
        if case.units not in self._after:
            self._after[case.units] = self.lab.reference(case, self.timed)
        return self._after[case.units]


VERIFIED_ON_AWKWARD_SIZES = ("step", "base", "dsl")
"""Roles of variants that are verified on `Lab.awkward_runs` too. A point of a sweep is a step with one other setting."""
LONGEST_WARMED_S = 2.0
"""Seconds from which on a run needs no warm-up, unless compilation or the like made the first run long."""
LONGEST_EXCHANGED_S = 10.0
"""Seconds of a run above which a variant is not run on other operands."""


def prepare(
    setting: Setting,
    measurement: Measurement,
    references: References,
    progress: Progress = silent,
    *,
    others_hold_memory: bool = False,
) -> None:
    """Verify a measurement on poisoned outputs and plan the timed run; a failure becomes its reason.

    Outputs hold finite garbage here, and NaN in later checks: a kernel that computes only where it finds a NaN is wrong.

    others_hold_memory: whether other measurements are ready. If so, raises TooLittleMemory where memory is short, and leaves
    the measurement as it was.
    """
    lab, variant = setting.lab, measurement.variant
    ledger = BufferLedger(guarded=True)
    try:
        progress(variant.name, "check, with its reference")
        small = lab.verification_case(setting.case, variant)
        inputs, right = references.before(small, variant)
        progress(variant.name, "plan")
        planned = ledger.plan(lambda: _planned(measurement, variant, small, inputs, progress))
        with closed_after(planned) as trial:
            progress(variant.name, "first run")
            seconds = run_once(trial, ledger, change=Garbage())
            outputs = trial.outputs()
            progress(variant.name, "check of its outputs")
            losses = references.losses(measurement.device, variant)
            same_shapes(outputs, right)
            measurement.checks.append(check_of(lab.check(small, variant, outputs, {**right, **losses})))
            measurement.reason = reason_if_wrong(*measurement.checks[-1])
            if measurement.reason:
                return
            check_declared(variant, ledger.builds, host_flags(variant, trial))
            ledger.check()
            units = lab.units(setting.case, variant, measurement.device)
            progress(variant.name, "first run, again")
            measurement.run_s = _timed_run(setting, measurement, trial, ledger, seconds, (small.units, units))
        measurement.reason = verify_awkward_runs(setting, measurement, references, progress)
        if measurement.reason:
            return
        timed_case = replace(setting.case, units=units)
        progress(variant.name, "plan of the timed run")
        measurement.runnable = measurement.ledger.plan(
            lambda: _planned(measurement, variant, timed_case, references.timed, progress)
        )
        measurement.ledger.reset(measurement.runnable)
        measurement.ledger.remember_operands()
        measurement.seed = references.seed
    except Exception as error:
        measurement.release()
        measurement.reason = reason_of(error)
        check_alive(error, measurement.device)
        clear_error_frames(error)
        if others_hold_memory and lacks_memory(error):
            measurement.reason = None
            measurement.checks.clear()
            raise TooLittleMemory from error


def _planned(
    measurement: Measurement, variant: Variant, case: Case, inputs: Mapping[str, Any], progress: Progress
) -> Runnable:
    """Return the runnable that a variant plans for a case; it reports its stages and its return values are checked.

    variant: that of the measurement, or the same variant for another size.
    """
    runnable = variant.plan(measurement.device, variant, case, inputs)
    return checked_runnable(runnable, lambda stage: progress(measurement.variant.name, stage))


def verify_awkward_runs(
    setting: Setting, measurement: Measurement, references: References, progress: Progress = silent
) -> str | None:
    """Return why a step is wrong on a small case of an awkward size; None if it is right on all of them.

    Errors: those of the plan, except Unsupported: then the device is too small for such a case, which is skipped.
    """
    if measurement.role not in VERIFIED_ON_AWKWARD_SIZES:
        return None
    lab = setting.lab
    for variant, case in lab.awkward_runs(setting.case, measurement.variant):
        progress(measurement.variant.name, "check, small runs of awkward sizes")
        small, ledger = lab.verification_case(case, variant), BufferLedger(guarded=True)
        inputs, right = references.awkward(small, variant)
        try:
            progress(measurement.variant.name, "plan of an awkward size")
            planned = ledger.plan(lambda: _planned(measurement, variant, small, inputs, progress))  # noqa: B023 called at once
            with closed_after(planned) as trial:
                progress(measurement.variant.name, "first run of an awkward size")
                run_once(trial, ledger, change=Garbage())
                references_and_losses = {**right, **references.losses(measurement.device, variant)}
                outputs = trial.outputs()
                progress(measurement.variant.name, "check, small runs of awkward sizes")
                same_shapes(outputs, right)
                error, tolerance, compared = check_of(lab.check(small, variant, outputs, references_and_losses))
                check = Check(error, tolerance, f"{compared}, on {case.name}")
                if reason := reason_if_wrong(*check):
                    measurement.checks.append(check)
                    return reason
                ledger.check()
        except Unsupported:
            continue
    return None


def verify_again(
    setting: Setting,
    measurement: Measurement,
    references: References,
    progress: Progress = silent,
    *,
    others_hold_memory: bool = False,
) -> None:
    """Verify the timed runnable after its last sample, by one more run on poisoned outputs.

    A run on other operands comes before it. Afterwards operands must be as they were before the first run. The measurement
    is complete then; a result that is not accepted becomes its reason.
    others_hold_memory: whether others are still to be verified. If so, raises TooLittleMemory where memory is short.
    """
    try:
        progress(measurement.variant.name, "last run")
        run_on_other_operands(measurement)
        run_once(measurement.planned, measurement.ledger)
        measurement.checks.append(check_of_timed(setting, measurement, references, progress, "last check"))
        if reason := reason_if_wrong(*measurement.checks[-1]):
            measurement.reason = f"after its last sample: {reason}"
            return
        measurement.ledger.check_launches()
        measurement.ledger.check_operands()
        measurement.is_complete = True
    except Exception as error:
        measurement.reason = reason_of(error)
        check_alive(error, measurement.device)
        clear_error_frames(error)
        if others_hold_memory and lacks_memory(error):
            measurement.reason = None
            raise TooLittleMemory from error


def run_on_other_operands(measurement: Measurement) -> None:
    """Run a measurement on other operands, then restore them: results that it cached from earlier runs are wrong then.

    Skipped if a run takes longer than LONGEST_EXCHANGED_S.
    """
    if measurement.run_s <= LONGEST_EXCHANGED_S:
        with measurement.ledger.exchanged_operands(measurement.planned):
            measurement.planned.run()


def check_of_timed(
    setting: Setting, measurement: Measurement, references: References, progress: Progress, stage: str
) -> Check:
    """Compare the outputs of the last timed run with the right ones. Errors: those of the plan and of the lab.

    stage: reported to `progress` once the outputs are read.
    """
    timed_case = replace(setting.case, units=measurement.planned.units)
    losses = references.losses(measurement.device, measurement.variant)

    def right(case: Case) -> Mapping[str, Any]:
        return {**references.after(case), **losses}

    outputs = measurement.planned.outputs()
    progress(measurement.variant.name, stage)
    return check_of(setting.lab.check_timed(timed_case, measurement.variant, outputs, right))


def check_sample(
    setting: Setting, references: References, progress: Progress, measurement: Measurement, number: int
) -> None:
    """Check the outputs of sample `number`, taken on poisoned outputs; a wrong result becomes the measurement's reason."""
    measurement.sample_checks.append(
        check_of_timed(setting, measurement, references, progress, f"check of sample {number + 1}")
    )
    if reason := reason_if_wrong(*measurement.sample_checks[-1]):
        measurement.reason = f"sample {number + 1}: {reason}"
    else:
        measurement.ledger.check_launches()


def _timed_run(
    setting: Setting,
    measurement: Measurement,
    trial: Runnable,
    ledger: BufferLedger,
    seconds: float,
    units: tuple[int, int],
) -> float:
    """Return the expected seconds of a timed run, from the `seconds` of the trial's first run.

    The trial runs once more if its first run may have been long for another reason: the driver compiled, or a library tuned
    itself. units: of the trial, and of a timed run. Raises OutOfTime if a timed run would exceed the limit.
    """
    small, timed = units
    was_accepted = bool(measurement.samples)  # before an interrupt
    limit = math.inf if was_accepted else setting.policy.limit_s
    expected_s = seconds / small * timed
    if expected_s > limit:
        needs_second_run = timed > small or expected_s < limit + COMPILE_ALLOWANCE_S
    else:
        needs_second_run = expected_s > LONGEST_WARMED_S and (
            measurement.variant.role == "peer" or seconds < LONGEST_WARMED_S + COMPILE_ALLOWANCE_S
        )
    if needs_second_run:
        expected_s = run_once(trial, ledger) / small * timed
    if expected_s > limit:
        amount = f" of {timed} x {setting.lab.unit}" if timed > 1 else ""
        raise OutOfTime(f"a run{amount} would take {expected_s:.0f} s, the limit is {limit:g} s")
    return expected_s


def host_flags(variant: Variant, trial: Runnable) -> str:
    """Return the compiler flags of a plan's C program, from its facts; '' if it has none."""
    return str(trial.facts().get("flags", "")) if getattr(variant.plan, "sources", ()) else ""


def reason_if_wrong(error: float, tolerance: float, compared: str) -> str | None:
    """Return the reason why a result is not accepted; None if it is. A NaN as error or tolerance is not accepted."""
    return None if error <= tolerance else f"wrong result: error {error:.3g}, allowed {tolerance:.3g} ({compared})"


def run_once(
    trial: Runnable, ledger: BufferLedger | None = None, *, change: Callable[[np.ndarray], np.ndarray] | None = None
) -> float:
    """Run once on poisoned outputs, and return the seconds.

    ledger: of the trial's buffers; without it only arrays that `reset` fills are poisoned. change: maps each array that `reset`
    writes to the one written in its place.
    """
    ledger = ledger or BufferLedger()
    ledger.reset(trial, change=change)
    ledger.remember_operands()
    start = time.perf_counter()
    with ledger.judging_timed_launches() as judging_s:
        trial.run()
        return time.perf_counter() - start - judging_s()


NOT_SUPPORTED = "not supported here"
"""Start of the reason of a row whose device is too small for a kernel, or lacks something that it needs."""


def reason_of(error: Exception) -> str:
    """Return the reason of a failed row in one line: known kinds of errors in words, others by their type and place.

    Raises the error itself if it is one that the user has to see.
    """
    words_by_kind: dict[type[Exception], str] = {
        BuildFailed: "does not build",
        OutOfMemory: "out of memory",
        MemoryError: "out of memory",
        OutOfTime: "out of time",
        Unsupported: NOT_SUPPORTED,
        OperandChanged: "not accepted",
        TimedLaunchDiffers: "not accepted",
        FastMath: "not accepted",
        BadValue: "not accepted",
        LeftBuffer: "not accepted",
        DriverFailed: "the driver refused",
    }
    message = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, KernelRefused):
        return message
    for kind, words in words_by_kind.items():
        if isinstance(error, kind):
            return f"{words}: {message}"
    if isinstance(error, UserFacingError):
        raise error
    if _of_a_driver(error):
        return f"{type(error).__name__}: {message}"
    return describe_error(error)


def clear_error_frames(error: BaseException | None) -> None:
    """Clear the frames of an error and of its causes, so that their locals, such as tensors, are freed at once.

    A frame that names its own error is a reference cycle, which Python would collect much later.
    """
    seen = set[int]()
    while error and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def lacks_memory(error: Exception) -> bool:
    """Return whether the device or the host ran out of memory. A driver may report that only at a launch."""
    return isinstance(error, OutOfMemory | MemoryError) or (
        _of_a_driver(error) and type(error).__name__ in ("MemoryError", "OutOfMemoryError")
    )


def _of_a_driver(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("pyopencl", "cupy", "cupy_backends")


MAPPING_FAILED = "failed to map segment from shared object"
"""Message of the loader for a library on a file system that is mounted noexec."""


def describe_error(error: Exception) -> str:
    """Return an error's type, message and the line of the project where it arose."""
    message = " ".join(str(error).split())
    frames = [f for f in traceback.extract_tb(error.__traceback__) if LIBRARY in Path(f.filename).parents]
    place = f" ({frames[-1].filename.rpartition('/')[2]}, line {frames[-1].lineno})" if frames else ""
    if MAPPING_FAILED in message:
        place += "; its file system may be mounted noexec: TMPDIR and XDG_CACHE_HOME name other folders"
    return f"{type(error).__name__}: {message}"[:300] + place


def check_alive(error: Exception, device: Device) -> None:
    """Raise DeviceLost if the device takes no more work after this error of its driver."""
    if not _of_a_driver(error):
        return
    try:
        device.upload(np.arange(2, dtype=np.uint8)).release()
    except Exception as lost:
        raise DeviceLost(describe_error(lost)) from error
