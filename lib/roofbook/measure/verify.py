"""Correct before fast: outputs are poisoned, computed and compared with a reference, before the samples and after them.

What is wrong or too slow is not timed; what turns out wrong after its last sample has no time.
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
from ..spec.lab import Case, Runnable, Variant
from .buffer_ledger import BufferLedger, Garbage, LeftBuffer, OperandChanged, TimedLaunchDiffers
from .checked_runnable import BadValue, check_of, checked_runnable, close_silently, same_shapes
from .fast_math import FastMath, check_declared
from .measurement import Check, Measurement
from .placement import Setting
from .progress import Progress, silent


class DeviceLost(Exception):
    """A device that answers no more: what a kernel did to its context, no other can undo."""


class KernelRefused(Exception):
    """A failure in the process of a kernel. The message is its whole reason."""


class OutOfTime(Exception):
    """A run that would outlast its limit."""


class NoRoom(Exception):
    """Of the memory, others hold what a measurement needs: it can be made ready once they are done."""


COMPILING_S = 10
"""A first run that outlasts its limit by more than this did so by itself, not by what its driver compiled."""


def too_long(at: Setting, it: Measurement, progress: Progress = silent) -> str | None:
    """Why a plain loop nest on one core is not begun here: by its time on the lab's first quick case it outlasts the limit.

    Others use a small case too badly to be judged by it; they run once and are judged by that.
    """
    if it.variant.options.get("device") != "host":
        return None
    lab, policy = at.lab, at.policy
    small = lab.verification_case(lab.cases("quick")[0], it.variant)
    done = lab.work(small).flops * small.units
    more = lab.work(at.case).flops * lab.units(at.case, it.variant, it.device) / done
    if more <= 1:
        return None
    trial = None
    try:
        progress(it.variant.name, "plan of a small case")
        trial = _planned(it, it.variant, small, lab.inputs(small, policy.seed), progress)
        progress(it.variant.name, "first run of a small case")
        seconds = more * once(trial)
        if seconds > policy.limit_s:  # a driver may have compiled in the first run
            seconds = more * once(trial)
        trial.close()
        trial = None
    except Exception as error:
        return reason_of(error)
    finally:
        close_silently(trial)
    if seconds <= policy.limit_s:
        return None
    return reason_of(
        OutOfTime(f"by its time on {small.name} it would take about {seconds:.0f} s, the limit is {policy.limit_s:g} s")
    )


class References:
    """What the variants of a case are verified on, and the right outputs: each made once, for all of them.

    A check before timing has inputs of a seed that is drawn for this run, one after it the very inputs that are timed.
    """

    def __init__(self, at: Setting, seed: int | None = None) -> None:
        """seed: that of the first check, in place of one that is drawn."""
        self.lab, self.case = at.lab, at.case
        self.timed = at.lab.inputs(at.case, at.policy.seed)
        self.seed = secrets.randbelow(1 << 31) if seed is None else seed
        self._drawn: Mapping[str, Any] | None = None
        self._before: dict[tuple[int, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._after: dict[int, Mapping[str, Any]] = {}
        self._awkward: dict[tuple[str, int, str], tuple[Mapping[str, Any], Mapping[str, Any]]] = {}
        self._losses: dict[tuple[str, str], Mapping[str, Any]] = {}

    def before(self, case: Case, variant: Variant) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Inputs that a variant is verified on before it is timed, and the right outputs on a case with its units."""
        name = self.lab.verified_on(variant)
        if self._drawn is None:
            self._drawn = self.lab.inputs(self.case, self.seed)
        if (case.units, name) not in self._before:
            given = self.lab.verification_inputs(case, name, self._drawn)
            self._before[case.units, name] = given, self.lab.reference(case, given)
        return self._before[case.units, name]

    def awkward(self, case: Case, variant: Variant) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
        """Return inputs and right outputs of a small case of `Lab.awkward_runs`, on which a variant is verified."""
        name = self.lab.verified_on(variant)
        key = case.name, case.units, name
        if key not in self._awkward:
            given = self.lab.verification_inputs(case, name, self.lab.inputs(case, self.seed))
            self._awkward[key] = given, self.lab.reference(case, given)
        return self._awkward[key]

    def losses(self, device: Device, variant: Variant) -> Mapping[str, Any]:
        """Return what `Lab.device_losses` has of a device and a variant."""
        key = f"{device.backend} {device.spec}", variant.name
        if key not in self._losses:
            self._losses[key] = self.lab.device_losses(device, variant)
        return self._losses[key]

    def timing(self) -> None:
        """Let go of what only the checks before timing need: it can be as large as what is timed."""
        self._drawn = None
        self._before.clear()

    def after(self, case: Case) -> Mapping[str, Any]:
        """The right outputs of the timed inputs on a case with its units."""
        if case.units not in self._after:
            self._after[case.units] = self.lab.reference(case, self.timed)
        return self._after[case.units]


VERIFIED_ON_AWKWARD_SIZES = ("step", "base")
"""Roles of variants that are verified on `Lab.awkward_runs` too. A point of a sweep is a step with one thing set otherwise."""
WARM_S = 2.0
"""A variant whose run takes so long needs none to warm it up, unless what a first run does beside it is what takes long."""
EXCHANGED_S = 10.0
"""A variant whose run takes longer is not run on other operands."""


def prepare(
    at: Setting, it: Measurement, references: References, progress: Progress = silent, *, beside: bool = False
) -> None:
    """Verify a measurement on poisoned outputs and make what will be timed; a failure becomes its reason.

    Outputs hold finite garbage here, and NaN in later checks: a kernel that computes only where it finds a NaN is wrong.

    beside: others that are ready hold memory. Raises NoRoom, as if nothing had been tried, where too little is left.
    """
    lab, variant = at.lab, it.variant
    trial, ledger = None, BufferLedger(guarded=True)
    try:
        progress(variant.name, "check, with its reference")
        small = lab.verification_case(at.case, variant)
        given, right = references.before(small, variant)
        progress(variant.name, "plan")
        trial = ledger.plan(lambda: _planned(it, variant, small, given, progress))
        progress(variant.name, "first run")
        seconds = once(trial, ledger, change=Garbage())
        outputs = trial.outputs()
        progress(variant.name, "check of its outputs")
        losses = references.losses(it.device, variant)
        same_shapes(outputs, right)
        it.checks.append(check_of(lab.check(small, variant, outputs, {**right, **losses})))
        it.reason = wrong(*it.checks[-1])
        if it.reason:
            return
        check_declared(variant, ledger.builds, host_flags(variant, trial))
        ledger.check_guards()
        ledger.check_launches()
        ledger.check_operands()
        units = lab.units(at.case, variant, it.device)
        progress(variant.name, "first run, again")
        it.run_s = _timed_run(at, it, trial, ledger, seconds, (small.units, units))
        closing, trial = trial, None
        closing.close()
        it.reason = verify_awkward_runs(at, it, references, progress)
        if it.reason:
            return
        whole = replace(at.case, units=units)
        progress(variant.name, "plan of what is timed")
        it.runnable = it.ledger.plan(lambda: _planned(it, variant, whole, references.timed, progress))
        it.ledger.reset(it.runnable)
        it.ledger.remember_operands()
        it.seed = references.seed
    except Exception as error:
        it.release()
        it.reason = reason_of(error)
        check_alive(error, it.device)
        forget(error)
        if beside and lacks_memory(error):
            it.reason = None
            it.checks.clear()
            raise NoRoom from error
    finally:
        close_silently(trial)


def _planned(it: Measurement, variant: Variant, case: Case, inputs: Mapping[str, Any], progress: Progress) -> Runnable:
    """Return what a plan makes for a case: it announces what it is at, and what it returns is checked.

    variant: that of the measurement, or the same one of another size.
    """
    made = variant.plan(it.device, variant, case, inputs)
    return checked_runnable(made, lambda stage: progress(it.variant.name, stage))


def verify_awkward_runs(
    at: Setting, it: Measurement, references: References, progress: Progress = silent
) -> str | None:
    """Return why a step is refused on a small case of an awkward size; None where it is right on all of them.

    Errors: those of the plan, but for Unsupported: the device is too small for such a case.
    """
    if it.role not in VERIFIED_ON_AWKWARD_SIZES:
        return None
    lab = at.lab
    for variant, case in lab.awkward_runs(at.case, it.variant):
        progress(it.variant.name, "check, small runs of awkward sizes")
        small, ledger, trial = lab.verification_case(case, variant), BufferLedger(guarded=True), None
        given, right = references.awkward(small, variant)
        try:
            progress(it.variant.name, "plan of an awkward size")
            trial = ledger.plan(lambda: _planned(it, variant, small, given, progress))  # noqa: B023 called at once
            progress(it.variant.name, "first run of an awkward size")
            once(trial, ledger, change=Garbage())
            known = {**right, **references.losses(it.device, variant)}
            outputs = trial.outputs()
            progress(it.variant.name, "check, small runs of awkward sizes")
            same_shapes(outputs, right)
            error, tolerance, compared = check_of(lab.check(small, variant, outputs, known))
            check = Check(error, tolerance, f"{compared}, on {case.name}")
            if why := wrong(*check):
                it.checks.append(check)
                return why
            ledger.check_guards()
            ledger.check_launches()
            ledger.check_operands()
            closing, trial = trial, None
            closing.close()
        except Unsupported:
            continue
        finally:
            close_silently(trial)
    return None


def verify_again(
    at: Setting, it: Measurement, references: References, progress: Progress = silent, *, beside: bool = False
) -> None:
    """Verify the very object that was timed, after its last sample, by one more run on poisoned outputs.

    A run on other operands comes before that one, and its operands must be what they were before its first run. It is whole
    then; a result that is not accepted becomes its reason. beside: others hold memory. Raises NoRoom where too little is left
    for this run.
    """
    try:
        assert it.runnable is not None
        progress(it.variant.name, "last run")
        run_on_others(it)
        once(it.runnable, it.ledger)
        it.checks.append(check_of_timed(at, it, references, progress, "last check"))
        if why := wrong(*it.checks[-1]):
            it.reason = f"after its last sample: {why}"
            return
        it.ledger.check_launches()
        it.ledger.check_operands()
        it.whole = True
    except Exception as error:
        it.reason = reason_of(error)
        check_alive(error, it.device)
        forget(error)
        if beside and lacks_memory(error):
            it.reason = None
            raise NoRoom from error


def run_on_others(it: Measurement) -> None:
    """Run a measurement on other operands, and restore them: results that it keeps instead of computing them are wrong then.

    Not where a run takes longer than EXCHANGED_S.
    """
    assert it.runnable is not None
    if it.run_s <= EXCHANGED_S:
        with it.ledger.exchanged(it.runnable):
            it.runnable.run()


def check_of_timed(at: Setting, it: Measurement, references: References, progress: Progress, stage: str) -> Check:
    """Compare the outputs of the last run of what is timed with the right ones. Errors: those of the plan and of the lab.

    stage: what `progress` is told once the outputs are here.
    """
    assert it.runnable is not None
    whole = replace(at.case, units=it.runnable.units)
    losses = references.losses(it.device, it.variant)

    def right(case: Case) -> Mapping[str, Any]:
        return {**references.after(case), **losses}

    outputs = it.runnable.outputs()
    progress(it.variant.name, stage)
    return check_of(at.lab.check_timed(whole, it.variant, outputs, right))


def check_sample(at: Setting, references: References, progress: Progress, it: Measurement, number: int) -> None:
    """Check the outputs of sample `number`, which was taken on poisoned outputs; a wrong result becomes the reason."""
    it.sample_checks.append(check_of_timed(at, it, references, progress, f"check of sample {number + 1}"))
    if why := wrong(*it.sample_checks[-1]):
        it.reason = f"sample {number + 1}: {why}"
    else:
        it.ledger.check_launches()


def _timed_run(
    at: Setting, it: Measurement, trial: Runnable, ledger: BufferLedger, seconds: float, units: tuple[int, int]
) -> float:
    """Seconds of a timed run, by the `seconds` of the trial's first run, or by one more where that may have been long for
    something else: what a driver compiled in it, or a library tried out, as it does in the first run of each object.

    units: of the trial, and of a timed run. Raises OutOfTime where a timed run would outlast the limit.
    """
    small, timed = units
    limit = math.inf if it.samples else at.policy.limit_s  # with samples it was let in before it was interrupted
    whole = seconds / small * timed
    if whole > limit:
        again = timed > small or whole < limit + COMPILING_S
    else:
        again = whole > WARM_S and (it.variant.role == "peer" or seconds < WARM_S + COMPILING_S)
    if again:
        whole = once(trial, ledger) / small * timed
    if whole > limit:
        of = f" of {timed} x {at.lab.unit}" if timed > 1 else ""
        raise OutOfTime(f"a run{of} would take {whole:.0f} s, the limit is {limit:g} s")
    return whole


def host_flags(variant: Variant, trial: Runnable) -> str:
    """Return the flags of a plan's C program, as its facts tell them; '' where it has none."""
    return str(trial.facts().get("flags", "")) if getattr(variant.plan, "sources", ()) else ""


def wrong(error: float, tolerance: float, compared: str) -> str | None:
    """The reason of a result that is not accepted; None for one that is. A NaN on either side is not accepted."""
    return None if error <= tolerance else f"wrong result: error {error:.3g}, allowed {tolerance:.3g} ({compared})"


def once(
    trial: Runnable, ledger: BufferLedger | None = None, *, change: Callable[[np.ndarray], np.ndarray] | None = None
) -> float:
    """Return the seconds of one run on poisoned outputs.

    ledger: of its buffers; without it only what `reset` fills is poisoned. change: what `reset` writes in place of its arrays.
    """
    ledger = ledger or BufferLedger()
    ledger.reset(trial, change=change)
    ledger.remember_operands()
    start = time.perf_counter()
    with ledger.judging_timed_launches() as judging_s:
        trial.run()
        return time.perf_counter() - start - judging_s()


def reason_of(error: Exception) -> str:
    """One line for a failed row: what is known to go wrong by its kind, all else by its name and place."""
    known: dict[type[Exception], str] = {
        BuildFailed: "does not build",
        OutOfMemory: "out of memory",
        MemoryError: "out of memory",
        OutOfTime: "out of time",
        Unsupported: "not supported here",
        OperandChanged: "not accepted",
        TimedLaunchDiffers: "not accepted",
        FastMath: "not accepted",
        BadValue: "not accepted",
        LeftBuffer: "not accepted",
        DriverFailed: "the driver refused",
    }
    said = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, KernelRefused):
        return said
    for kind, words in known.items():
        if isinstance(error, kind):
            return f"{words}: {said}"
    if isinstance(error, UserFacingError):
        raise error
    if _of_a_driver(error):
        return f"{type(error).__name__}: {said}"
    return told(error)


def forget(error: BaseException | None) -> None:
    """Let go of what the frames of an error hold, such as the tensors of a call: an error that a frame of its own names is
    a circle, which Python would look for much later."""
    seen = set[int]()
    while error and id(error) not in seen:
        seen.add(id(error))
        traceback.clear_frames(error.__traceback__)
        error = error.__cause__ or error.__context__


def lacks_memory(error: Exception) -> bool:
    """Whether there was too little of it, the device's or the host's. A driver may find that out when a kernel is launched."""
    return isinstance(error, OutOfMemory | MemoryError) or (
        _of_a_driver(error) and type(error).__name__ in ("MemoryError", "OutOfMemoryError")
    )


def _of_a_driver(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] in ("pyopencl", "cupy", "cupy_backends")


MAPPING_FAILED = "failed to map segment from shared object"
"""What the loader says of a library on a file system that is mounted noexec."""


def told(error: Exception) -> str:
    """What an error of no known kind is, and where in the project it arose."""
    said = " ".join(str(error).split())
    places = [each for each in traceback.extract_tb(error.__traceback__) if LIBRARY in Path(each.filename).parents]
    where = f" ({places[-1].filename.rpartition('/')[2]}, line {places[-1].lineno})" if places else ""
    if MAPPING_FAILED in said:
        where += "; its file system may be mounted noexec: TMPDIR and XDG_CACHE_HOME name other folders"
    return f"{type(error).__name__}: {said}"[:300] + where


def check_alive(error: Exception, device: Device) -> None:
    """Raises DeviceLost where the device takes no more work after this error."""
    if not _of_a_driver(error):
        return
    try:
        device.upload(np.arange(2, dtype=np.uint8)).release()
    except Exception as lost:
        raise DeviceLost(told(lost)) from error
