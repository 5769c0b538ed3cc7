"""Check of a reader's kernel, for `roofbook exercise --check` and `roofbook judge`. Right, or wrong, where and why.

The kernel runs in a process of its own. This process draws the inputs in secret, keeps the right outputs, and compares.
A kernel is right only if all its outputs arrived and are right.
"""

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.contract import Device
from ..errors import Failed, UsageError
from ..escaping import printable
from ..paths import scratch_folder
from ..spec.answer_file import AnswerFile, on_one_line
from ..spec.exercise import HOLE, Write, case_of
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from ..spec.submission import Submission
from . import stats
from .checkpoint import Checkpoint
from .kernel_process import Form, KernelProcess, ProcessEnded, RemoteLedger, RemoteRunnable, output_form
from .measurement import Measurement
from .placement import Setting, Target, target_of
from .policy import Policy
from .progress import silent
from .sampling import sample
from .sandbox import Sandbox
from .verify import KernelRefused, References, check_of_timed, check_sample, reason_if_wrong, run_once, verify_again

LIMIT_S = 120.0
"""Seconds that a request to the kernel's process may take. Most take a few seconds."""
RETRY_LIMIT_S = 15.0
"""Seconds that a request may take once an earlier one was out of time: the other cases are still tried."""
BUDGET_S = 3.0
"""Seconds of samples of the answer, and of the book's step, including new inputs before each sample."""
CHECKS_S = 10.0
"""Seconds of checks of samples. Within them each sample of the answer is checked, later only samples drawn in secret."""
BUILD = "does not build: "
FILE = "answer"
"""Name, without its ending, of the file that the compiler sees in place of the reader's."""
MOST_LOG_CHARACTERS = 20_000
"""Largest number of characters of the compiler's messages that are shown."""
DRAWS = 10_000
"""Largest number of sizes that are drawn to find one that a lab has. Of a CNN's layers one in 200 is valid."""
BEATS = 2.0
"""Times as fast as the measured peaks allow: a kernel beyond it does not do all of the work, or its time is wrong."""
MOST_REASON_CHARACTERS = 300
"""Largest number of characters of a reason."""


@dataclass(frozen=True)
class Limits:
    """Limits of a kernel's process."""

    request_s: float = LIMIT_S
    """Seconds that a request to it may take."""
    memory_gib: float | None = None
    """Memory that it may take; None for no limit."""


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True)
class Task:
    """Task of a kernel: the cases on which it is judged, and the variants beside which it is timed."""

    step: Variant
    """Step whose tolerance holds, and first of those that a right kernel is timed beside."""
    cases: tuple[Case, ...]
    timed: Case
    """Case on which a right kernel is timed."""
    order: Mapping[str, Any]
    """Part of the order for the kernel's process that says how its text is launched."""
    suffix: str = ".k"
    """Ending of the file's name: its language."""
    form: Callable[[Case], Form] | None = None
    """Returns type and shape of each output on a case; None for those of the step."""
    rivals: tuple[Variant, ...] = ()
    """Further variants that a right kernel is timed beside."""
    bounds: Mapping[str, float] = field(default_factory=dict)
    """Least seconds of a unit by dtype, by the device's measured peaks; none where the store has no peaks."""


def task_of_submission(
    lab: Lab,
    submission: Submission,
    case: Case,
    suffix: str,
    step: Variant,
    *rivals: Variant,
    bounds: Mapping[str, float],
) -> Task:
    """Return the task of a submitted kernel: its own launch, on small cases of awkward sizes and on `case`, which is timed."""

    def form(timed_case: Case) -> Form:
        arrays = lab.output_arrays(timed_case)
        return {
            name: (np.dtype(np.float64) if np.dtype(dtype).kind == "f" else np.dtype(dtype), shape)
            for name, (dtype, shape) in arrays.items()
        }

    awkward_cases = [lab.awkward_case(name) for name in lab.awkward]
    small = tuple(small_case for small_case in awkward_cases if not lab.skip_reason(step, small_case))
    if drawn := drawn_case(lab, step, [small_case.name for small_case in small]):
        small = (*small, drawn)
    return Task(step, small, case, {"submission": submission.as_data()}, suffix, form, rivals, bounds)


def drawn_case(lab: Lab, step: Variant, names: Sequence[str]) -> Case | None:
    """Return a case near one of `names`, with larger sizes, drawn in secret; None if the step runs on none."""
    for _ in range(DRAWS if names else 0):
        parts = re.split(r"(\d+)", secrets.choice(names))  # each second part is a number; the same ones stay the same
        larger = {
            number: str(secrets.choice([int(number) + more for more in range(1, 9)] + [2 * int(number)]))
            for number in parts[1::2]
        }
        name = "".join(larger.get(part, part) for part in parts)
        try:
            drawn = lab.awkward_case(name)
            if name not in names and not lab.skip_reason(step, drawn):
                return drawn
        except UsageError:  # a size that the lab does not have
            continue
    return None


def task_of(lab: Lab, exercise: Write) -> Task:
    """Return the task of an exercise: the step's own launch, on its cases."""
    timed = exercise.timed or lab.cases("quick")[0].name
    cases = tuple(case_of(lab, name) for name in exercise.cases)
    return Task(lab.variant(exercise.step), cases, case_of(lab, timed), {"exercise": exercise.name})


@dataclass(frozen=True)
class CaseMark:
    """Result of an answer on one case."""

    case: str
    reason: str = ""
    """Why it is not right; '' if it is."""
    worst_element: str = ""
    """Element with the largest error, such as `g[3, 5] is 1.2, right is 3.4`."""


@dataclass(frozen=True)
class Mark:
    """Result of an answer on all cases."""

    cases: tuple[CaseMark, ...]
    """Results by case, in the order of the checks; the last case is the timed one."""
    sandbox: Sandbox
    does_not_compile: str = ""
    """First message of the compiler; '' if the kernel compiles."""
    has_hole: bool = False
    """Whether the text still contains the words that mark the hole."""
    timed: Mapping[str, Any] | None = field(default=None)
    """Time of a right answer: `case`, `seconds`, `ratio` to the step with its interval, `relation`; `ratios` to all by name;
    `facts` of the kernel by its compiler; `share` of the bound, if the peaks are known."""
    log: str = ""
    """All messages of the compiler about the kernel's file."""

    @property
    def code(self) -> int:
        """Exit code of the command: 0 if all cases are right, 1 if one is wrong, 2 if the kernel does not compile."""
        if self.does_not_compile:
            return 2
        return int(not self.cases or any(mark.reason for mark in self.cases))


def judge(
    lab: Lab,
    task: Task,
    answer: AnswerFile,
    device: Device,
    sandbox: Sandbox,
    *,
    take_time: bool = True,
    limits: Limits = DEFAULT_LIMITS,
) -> Mark:
    """Check a kernel on all cases of a task, and time a right one in turns with the book's step.

    Errors: UsageError if the step does not run on `device`, or its process does not start; Failed if the step fails.
    """
    step = task.step
    target = target_of(step, device)
    if target is None:
        raise UsageError(f"{step.name} does not run on {device.spec}, so no kernel can be compared with it there")
    lab.prepare()
    cases = (*task.cases, task.timed) if take_time else task.cases
    marks: list[CaseMark] = []
    mark = partial(Mark, sandbox=sandbox, has_hole=HOLE in answer.text)
    with scratch_folder() as scratch, _Processes(lab, task, answer, target, sandbox, scratch, limits) as processes:
        for case in cases:
            marks.append(_mark_on(case, lab, step, processes))
            if marks[-1].reason.startswith(BUILD) and len(marks) == 1:
                message = marks[0].reason.removeprefix(BUILD)
                return mark((), does_not_compile=_plain(message, answer), log=processes.log)
        timed = None
        if take_time and not any(result.reason for result in marks):
            setting = Setting(lab, task.timed, target.device, Policy(cache="warm", budget_s=BUDGET_S))
            timed = _time(setting, task, processes)
            if "reason" in timed:
                marks[-1] = CaseMark(task.timed.name, timed["reason"])
                timed = None
        log = processes.log
    marks_shown = tuple(replace(result, reason=_plain(result.reason, answer)) for result in marks)
    return mark(marks_shown, timed=timed, log=log)


class _Processes(AbstractContextManager["_Processes"]):
    """Processes of one check: the kernel's, started again when it has ended, and those of the book's own kernels."""

    def __init__(
        self, lab: Lab, task: Task, answer: AnswerFile, target: Target, sandbox: Sandbox, scratch: Path, limits: Limits
    ) -> None:
        self._order = {"lab": lab.name, "device": target.device.spec, "model": target.device.name}
        self._task = task
        self._answer, self._sandbox, self._scratch, self.target = answer, sandbox, scratch, target
        self._started: list[KernelProcess] = []
        self._current: KernelProcess | None = None
        self._limits = limits
        self.limit_s = limits.request_s
        self.log = ""
        """Messages of the compiler about the kernel's file, by its own name."""

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.end()

    def of_answer(self) -> KernelProcess:
        """Return the process of the reader's kernel, a new one if the last has ended. Errors: UsageError."""
        if self._current is None or self._current.has_ended:
            order = {**self._task.order, "memory_gib": self._limits.memory_gib}
            self._current = self._start(order, self._answer.text)
        self._current.limit_s = self.limit_s
        return self._current

    def note_log(self) -> None:
        """Set `log` to the messages of the compiler about the kernel's file, unless it is set: its process may end soon."""
        if self.log or self._current is None or self._current.has_ended:
            return
        try:
            header, _ = self._current.ask("log")
        except KernelRefused:
            return
        shown, lines = True, []
        for line in str(header.get("log", ""))[:MOST_LOG_CHARACTERS].splitlines():
            if place := _PLACE.match(line):
                shown = re.fullmatch(_FILE, place[1]) is not None
            if shown:
                lines.append(re.sub(rf"\S*\b{_FILE}(?=:|\b)", lambda _: self._answer.name, printable(line)))
        self.log = "\n".join(lines)

    def of_variant(self, name: str) -> KernelProcess:
        """Return a process of one of the book's own variants. Errors: UsageError."""
        return self._start({"variant": name})

    def _start(self, order_of_kernel: dict[str, Any], kernel_text: str = "") -> KernelProcess:
        folder = self._scratch / str(len(self._started))
        folder.mkdir()
        text = folder / f"{FILE}{self._task.suffix}"
        text.write_text(kernel_text, encoding="utf-8")
        order = {**self._order, **order_of_kernel, "text": str(text)}
        try:
            process = KernelProcess(order, folder, self._sandbox, LIMIT_S)
        except KernelRefused as error:
            sandbox_hint = "; --no-sandbox runs it without one" if self._sandbox.is_used else ""
            folder_hint = f" (its own folder is within {self._scratch.parent}; TMPDIR names another)"
            hint = folder_hint if str(self._scratch) in str(error) else ""
            raise UsageError(
                f"the process for the kernel does not start: {on_one_line(str(error))}{hint}{sandbox_hint}"
            ) from None
        self._started.append(process)
        return process


LOSSES: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
"""Cache of `References.losses` by lab: measured errors of a device's functions."""


class SecretInputs(References):
    """Inputs that are drawn in secret for each judged run, and the right outputs on those drawn last."""

    def __init__(self, lab: Lab, case: Case, *, special: str | None = None) -> None:
        """special: name of verification inputs of the lab, which reveal more errors; every second draw uses them."""
        self.lab, self.case, self._special = lab, case, special
        self._number = 0
        self._losses = LOSSES.setdefault(lab.name, {})

    def draw(self) -> Mapping[str, Any]:
        """Draw inputs, and keep them for `after`."""
        self.inputs = self.lab.inputs(self.case, secrets.randbelow(1 << 31))
        if self._special is not None and self._number % 2 == 0:
            self.inputs = self.lab.verification_inputs(self.case, self._special, self.inputs)
        self._number += 1
        return self.inputs

    def after(self, case: Case) -> Mapping[str, Any]:
        return self.lab.reference(case, self.inputs)


def _mark_on(case: Case, lab: Lab, step: Variant, processes: _Processes) -> CaseMark:
    """Run the kernel twice, each time on other secret inputs, and compare all its outputs."""
    small = lab.verification_case(case, step)
    secret_inputs = SecretInputs(lab, small, special=lab.verified_on(step))
    try:
        process = processes.of_answer()
        runnable = RemoteRunnable(process, small, secret_inputs.draw)
        processes.note_log()
        ledger = RemoteLedger(process, runnable)
        for number in range(2):
            if number:
                ledger.reset(runnable)
            with ledger.judging_timed_launches():
                runnable.run()
            right = {**secret_inputs.after(small), **secret_inputs.losses(processes.target.device, step)}
            reason, worst_element = compare_outputs(lab, small, step, runnable.outputs(), right)
            if reason:
                return CaseMark(case.name, reason, worst_element)
            ledger.check_launches()
            ledger.check_operands()
    except KernelRefused as error:
        if isinstance(error, ProcessEnded) and error.is_out_of_time:
            processes.limit_s = min(processes.limit_s, RETRY_LIMIT_S)
        processes.note_log()
        if not str(error).startswith(BUILD):
            process.end()  # what failed may have broken the device's context, which is no fault of the next case
        return CaseMark(case.name, str(error))
    return CaseMark(case.name)


def compare_outputs(
    lab: Lab, case: Case, step: Variant, outputs: Mapping[str, np.ndarray], right: Mapping[str, Any]
) -> tuple[str, str]:
    """Return why outputs are wrong, and the element with the largest error; two empty texts if they are right.

    The tolerance is that of the step, whatever the kernel claims about itself.
    """
    for name, array in outputs.items():
        reference = _values(right.get(name))
        if isinstance(reference, np.ndarray) and reference.shape != array.shape:
            return f"{name} has the shape {array.shape}, right is {reference.shape}", ""
    try:
        with np.errstate(all="ignore"):
            reason = reason_if_wrong(*lab.check(case, step, outputs, right))
    except (KeyError, ValueError, IndexError, TypeError) as error:
        return f"its outputs do not have the form of the right ones ({type(error).__name__})", ""
    return (reason, describe_worst_element(outputs, right)) if reason else ("", "")


def _values(reference: Any) -> Any:
    """Return the right values of an output from its reference, which may also hold error bounds."""
    return getattr(reference, "value", reference)


def describe_worst_element(outputs: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    """Return the element with the largest error, such as `g[3, 5] is 1.2, right is 3.4`; '' if no output can be compared.

    A NaN comes before all others: elements that were never written are NaN.
    """
    worst, words = 0.0, ""
    for name, out in outputs.items():
        reference = _values(right.get(name))
        if reference is None or np.shape(reference) != out.shape or not out.size:
            continue
        with np.errstate(all="ignore"):
            errors = np.abs(out.astype(np.float64) - np.asarray(reference, np.float64))
        not_numbers = np.isnan(errors)
        at = np.unravel_index(int(np.argmax(np.where(not_numbers, np.inf, errors))), errors.shape)
        element = f"{name}[{', '.join(map(str, at))}]"
        if not_numbers.any():
            count = int(not_numbers.sum())
            return f"{element} is no number, as what is never written; so are {count} of {errors.size} elements"
        if errors[at] > worst:
            worst = float(errors[at])
            words = f"{element} is {float(out[at]):.6g}, right is {float(np.asarray(reference)[at]):.6g}"
    return words


YOURS = "your answer"
"""Name of a reader's kernel among the variants that are timed."""


@dataclass
class _Contestant:
    """A variant that is timed beside others, in a process of its own, on inputs that are drawn in secret."""

    measurement: Measurement
    secret_inputs: SecretInputs

    @property
    def seconds(self) -> list[float]:
        """Seconds per unit of each sample."""
        return [sample_s / self.measurement.planned.units for sample_s in self.measurement.samples]

    def speedup_of(self, other: "_Contestant") -> list[float]:
        """Return how many times as fast the other one is, with its interval: [estimate, low, high]."""
        rounds = self.measurement.rounds, other.measurement.rounds
        ratio = stats.paired_ratio(*stats.by_round(self.seconds, rounds[0], other.seconds, rounds[1]))
        return [ratio.estimate, ratio.low, ratio.high]


def _time(at: Setting, task: Task, processes: _Processes) -> dict[str, Any]:
    """Return the answer's seconds per unit and its speedups, from samples in turns; or the `reason` of a failure.

    All are sampled and judged like all variants, each in its process. Each sample has new inputs, so that no cached result
    shortens it. Rivals that fail are left out. Errors: Failed for the step.
    """
    step = _contestant(at, task.step, task.step, processes.of_variant(task.step.name), processes.target)
    of_step = step.measurement.runnable
    form_of_step = of_step.form if isinstance(of_step, RemoteRunnable) else None

    def form(timed_case: Case) -> Form | None:
        return task.form(timed_case) if task.form else form_of_step

    answer = _contestant(at, replace(task.step, name=YOURS), task.step, processes.of_answer(), processes.target, form)
    rivals = [
        _contestant(at, rival, rival, processes.of_variant(rival.name), processes.target) for rival in task.rivals
    ]
    contestants = [step, answer, *(rival for rival in rivals if not rival.measurement.reason)]
    if not (answer.measurement.reason or step.measurement.reason):
        secrets_of = {contestant.measurement.variant.name: contestant.secret_inputs for contestant in contestants}
        checks_s = 0.0

        def check(measurement: Measurement, number: int) -> None:
            nonlocal checks_s
            start = time.perf_counter()
            check_sample(at, secrets_of[measurement.variant.name], silent, measurement, number)
            checks_s += time.perf_counter() - start

        sample(
            [contestant.measurement for contestant in contestants],
            at.policy,
            silent,
            Checkpoint(),
            check,
            always_judged=lambda measurement: measurement is answer.measurement and checks_s < CHECKS_S,
        )
    for contestant in contestants:
        if contestant.measurement.runnable and not contestant.measurement.reason:
            verify_again(at, contestant.measurement, contestant.secret_inputs)
    if step.measurement.reason:
        raise Failed(f"the book's {task.step.name} fails on {at.case.name}: {step.measurement.reason}")
    if answer.measurement.reason:
        return {"reason": answer.measurement.reason}
    ratio = step.speedup_of(answer)
    seconds = float(np.median(answer.seconds))
    least = min(task.bounds.values(), default=0.0)
    if (
        seconds * BEATS < least <= BEATS * float(np.median(step.seconds))
    ):  # where the step beats them too, the peaks are wrong
        return {
            "reason": f"not accepted: {seconds:.3g} s per {at.lab.unit} is {least / seconds:.3g} times as fast as the measured"
            f" peaks of this device allow ({least:.3g} s): it does not do all of the work"
        }
    assert isinstance(answer.measurement.runnable, RemoteRunnable)
    bound_s = task.bounds.get(task.step.dtype)
    return {
        "case": at.case.name,
        "seconds": seconds,
        "facts": answer.measurement.runnable.resources(),
        "share": bound_s / seconds if bound_s else None,
        "ratio": ratio,
        "relation": stats.relation(ratio[1], ratio[2]),
        "ratios": {task.step.name: ratio}
        | {
            rival.measurement.variant.name: rival.speedup_of(answer)
            for rival in contestants[2:]
            if not rival.measurement.reason
        },
    }


def _contestant(
    at: Setting,
    variant: Variant,
    step: Variant,
    process: KernelProcess,
    target: Target,
    form: Callable[[Case], Form | None] = lambda case: None,
) -> _Contestant:
    """Return a variant that was run and checked once, or that has the `reason` of its failure.

    step: decides the units. form: returns that of its outputs on a case; None for the one that they have.
    """
    measurement = Measurement(variant, "step", *target)
    followed_units = at.lab.verification_case(at.case, step).units  # beyond these a reference would take too long
    timed_case = replace(at.case, units=min(at.lab.units(at.case, step, at.device), followed_units))
    secret_inputs = SecretInputs(at.lab, timed_case)
    try:
        is_answer = variant.name == YOURS
        measurement.runnable = runnable = RemoteRunnable(
            process, timed_case, secret_inputs.draw, timed=True, guarded=is_answer
        )
        measurement.ledger = RemoteLedger(process, runnable)
        measurement.run_s = run_once(runnable, measurement.ledger)
        runnable.form = form(timed_case) or output_form(runnable.outputs())
        measurement.checks.append(check_of_timed(at, measurement, secret_inputs, silent, "first check"))
        measurement.reason = reason_if_wrong(*measurement.checks[-1])
    except KernelRefused as error:
        measurement.reason = str(error)
    return _Contestant(measurement, secret_inputs)


_PLACE = re.compile(r"(?:(?:fatal )?error: |warning: )?(?:\S*/)?([^\s/:]+):\d+(?=:)")
"""Start of a compiler's message: the file and the line, behind the kind of message or before it."""
_FILE = rf"{FILE}\.(?:cl|cu|k)"


def _plain(message: str, answer: AnswerFile) -> str:
    """Return a compiler's message on one line, with the file as the reader named it.

    A message about another file may quote that file, so it is left out.
    """
    place = _PLACE.match(message)
    if place and not re.fullmatch(_FILE, place[1]):
        return "the compiler refuses it; its message is about another file and not shown"
    text = re.sub(rf"\S*\b{_FILE}(?=:|\b)", lambda _: answer.name, message)
    return on_one_line(" ".join(text.split()))[:MOST_REASON_CHARACTERS]
