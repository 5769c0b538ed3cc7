"""Judges a reader's kernel for an exercise: `roofbook exercise LAB NAME --check FILE`. Right, or wrong, where and why.

The kernel runs in a process of its own. This one draws the inputs in secret, keeps the right outputs to itself, and compares:
a kernel is right where all its outputs came and are right, never because nothing was heard of it.
"""

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..devices.contract import Device
from ..errors import Failed, UsageError
from ..paths import scratch_folder
from ..spec.answer_file import AnswerFile, on_one_line
from ..spec.exercise import HOLE, Write, case_of
from ..spec.lab import Case, Lab, Variant
from . import stats
from .checkpoint import Checkpoint
from .kernel_process import Form, KernelProcess, ProcessEnded, RemoteLedger, RemoteRunnable, form_of
from .measurement import Measurement
from .placement import Setting, Target, target_of
from .policy import Policy
from .progress import silent
from .sampling import sample
from .sandbox import Sandbox
from .verify import KernelRefused, References, check_of_timed, check_sample, reason_if_wrong, run_once, verify_again

LIMIT_S = 120.0
"""Seconds that a request to the kernel's process may take: seconds are what most need."""
AGAIN_S = 15.0
"""The same once a request was not answered in time: the other cases are still tried."""
BUDGET_S = 3.0
"""Seconds of samples of the answer, and of the step beside it, with what comes before each: other inputs, an empty cache."""
BUILD = "does not build: "
FILE = "answer.k"
"""Name of the file that the compiler sees, whatever the reader's is called."""
MOST_WORDS = 300
"""Characters of a reason."""


@dataclass(frozen=True)
class CaseMark:
    """What came of an answer on one case."""

    case: str
    reason: str = ""
    """Why it is not right; '' where it is."""
    where: str = ""
    """The element that errs most, such as `g[3, 5] is 1.2, right is 3.4`."""


@dataclass(frozen=True)
class Mark:
    """What came of an answer."""

    cases: tuple[CaseMark, ...]
    """In the order in which they were tried; the last is the one on which it is timed."""
    sandbox: Sandbox
    does_not_compile: str = ""
    """The compiler's first message."""
    has_hole: bool = False
    """Whether the words that mark the hole still stand in the text."""
    timed: Mapping[str, Any] | None = field(default=None)
    """Of a right one: `case`, `seconds`, `ratio` to the step with its interval, `relation`."""

    @property
    def code(self) -> int:
        """The command's exit code: 0 all right, 1 wrong on a case or while it was timed, 2 no kernel that a compiler takes."""
        if self.does_not_compile:
            return 2
        return int(not self.cases or any(mark.reason for mark in self.cases))


def judge(
    lab: Lab, exercise: Write, answer: AnswerFile, device: Device, sandbox: Sandbox, *, take_time: bool = True
) -> Mark:
    """Check a kernel on all cases of the exercise, and time a right one beside the step.

    Errors: UsageError where the step does not run on `device`, or its process does not start; Failed where the step fails.
    """
    step = lab.variant(exercise.step)
    target = target_of(step, device)
    if target is None:
        raise UsageError(f"{exercise.step} does not run on {device.spec}, so no answer to {exercise.name} does")
    lab.prepare()
    names = list(exercise.cases)
    if take_time:
        names.append(exercise.timed or lab.cases("quick")[0].name)
    marks: list[CaseMark] = []
    mark = partial(Mark, sandbox=sandbox, has_hole=HOLE in answer.text)
    with scratch_folder() as scratch, _Processes(lab, exercise, answer, target, sandbox, scratch) as processes:
        for name in names:
            marks.append(_mark_on(case_of(lab, name), lab, step, processes))
            if marks[-1].reason.startswith(BUILD) and len(marks) == 1:
                message = marks[0].reason.removeprefix(BUILD)
                return mark((), does_not_compile=_plain(message, answer))
        timed = None
        if take_time and not any(result.reason for result in marks):
            setting = Setting(lab, case_of(lab, names[-1]), target.device, Policy(cache="warm", budget_s=BUDGET_S))
            timed = _time(setting, step, processes)
            if "reason" in timed:
                marks[-1] = CaseMark(names[-1], timed["reason"])
                timed = None
    shown = tuple(replace(result, reason=_plain(result.reason, answer)) for result in marks)
    return mark(shown, timed=timed)


class _Processes:
    """The processes of one judgement: the kernel's, started again where it has ended, and the step's."""

    def __init__(
        self, lab: Lab, exercise: Write, answer: AnswerFile, target: Target, sandbox: Sandbox, scratch: Path
    ) -> None:
        self._order = {
            "lab": lab.name,
            "exercise": exercise.name,
            "device": target.device.spec,
            "model": target.device.name,
        }
        self._answer, self._sandbox, self._scratch, self.target = answer, sandbox, scratch, target
        self._started: list[KernelProcess] = []
        self._current: KernelProcess | None = None
        self.limit_s = LIMIT_S

    def __enter__(self) -> "_Processes":
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._started:
            process.end()

    def of_answer(self) -> KernelProcess:
        """Return the process of the reader's kernel, a new one where the last has ended. Errors: UsageError."""
        if self._current is None or self._current.has_ended:
            self._current = self._start(with_answer=True)
        self._current.limit_s = self.limit_s
        return self._current

    def of_step(self) -> KernelProcess:
        """Return a process of the book's own kernel. Errors: UsageError."""
        return self._start(with_answer=False)

    def _start(self, *, with_answer: bool) -> KernelProcess:
        folder = self._scratch / str(len(self._started))
        folder.mkdir()
        text = folder / FILE
        text.write_text(self._answer.text, encoding="utf-8")
        order = {**self._order, "text": str(text) if with_answer else ""}
        try:
            process = KernelProcess(order, folder, self._sandbox, LIMIT_S)
        except KernelRefused as error:
            without = "; --no-sandbox runs it without one" if self._sandbox.is_used else ""
            where = f" (its own folder is within {self._scratch.parent}; TMPDIR names another)"
            named = where if str(self._scratch) in str(error) else ""
            raise UsageError(
                f"the process for the kernel does not start: {on_one_line(str(error))}{named}{without}"
            ) from None
        self._started.append(process)
        return process


LOSSES: dict[str, dict[tuple[str, str], Mapping[str, Any]]] = {}
"""Measured errors of the functions of a device, by lab, then as `References.losses` has them: found once."""


class SecretInputs(References):
    """Inputs that are drawn in secret for each judged run, and the right outputs on those drawn last."""

    def __init__(self, lab: Lab, case: Case, *, special: str | None = None) -> None:
        """special: name of those by which the lab verifies a variant, which show what others hide; half of them are so."""
        self.lab, self.case, self._special = lab, case, special
        self._number = 0
        self._losses = LOSSES.setdefault(lab.name, {})

    def draw(self) -> Mapping[str, Any]:
        """Draw inputs."""
        self.inputs = self.lab.inputs(self.case, secrets.randbelow(1 << 31))
        if self._special is not None and self._number % 2 == 0:
            self.inputs = self.lab.verification_inputs(self.case, self._special, self.inputs)
        self._number += 1
        return self.inputs

    def after(self, case: Case) -> Mapping[str, Any]:
        return self.lab.reference(case, self.inputs)


def _mark_on(case: Case, lab: Lab, step: Variant, processes: _Processes) -> CaseMark:
    """Run the kernel twice, each time on other secret inputs, and compare all that it hands over."""
    small = lab.verification_case(case, step)
    secret = SecretInputs(lab, small, special=lab.verified_on(step))
    try:
        process = processes.of_answer()
        runnable = RemoteRunnable(process, small, secret.draw)
        ledger = RemoteLedger(process, runnable)
        for number in range(2):
            if number:
                ledger.reset(runnable)
            with ledger.judging_timed_launches():
                runnable.run()
            right = {**secret.after(small), **secret.losses(processes.target.device, step)}
            reason, where = compared(lab, small, step, runnable.outputs(), right)
            if reason:
                return CaseMark(case.name, reason, where)
            ledger.check_launches()
            ledger.check_operands()
    except KernelRefused as error:
        if isinstance(error, ProcessEnded) and error.is_out_of_time:
            processes.limit_s = min(LIMIT_S, AGAIN_S)
        return CaseMark(case.name, str(error))
    return CaseMark(case.name)


def compared(
    lab: Lab, case: Case, step: Variant, outputs: Mapping[str, np.ndarray], right: Mapping[str, Any]
) -> tuple[str, str]:
    """Why outputs are refused, and where they err most; two empty texts where they are right.

    The tolerance is that of the step: what the kernel says of itself counts for nothing.
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
    return (reason, furthest(outputs, right)) if reason else ("", "")


def _values(reference: Any) -> Any:
    """Return what an output should be, of a reference that has its bounds beside it too."""
    return getattr(reference, "value", reference)


def furthest(outputs: Mapping[str, Any], right: Mapping[str, Any]) -> str:
    """Return where outputs are furthest from what is right, such as `g[3, 5] is 1.2, right is 3.4`; '' where none compares.

    An element that is no number comes before all others: one that was never written is none.
    """
    worst, words = 0.0, ""
    for name, out in outputs.items():
        reference = _values(right.get(name))
        if reference is None or np.shape(reference) != out.shape or not out.size:
            continue
        with np.errstate(all="ignore"):
            errors = np.abs(out.astype(np.float64) - np.asarray(reference, np.float64))
        lost = np.isnan(errors)
        at = np.unravel_index(int(np.argmax(np.where(lost, np.inf, errors))), errors.shape)
        element = f"{name}[{', '.join(map(str, at))}]"
        if lost.any():
            return (
                f"{element} is no number, as what is never written; so are {int(lost.sum())} of {errors.size} elements"
            )
        if errors[at] > worst:
            worst = float(errors[at])
            words = f"{element} is {float(out[at]):.6g}, right is {float(np.asarray(reference)[at]):.6g}"
    return words


def _time(at: Setting, step: Variant, processes: _Processes) -> dict[str, Any]:
    """Return seconds a unit of the answer, and how many times as fast as the step it is, from samples in turns; or `reason`.

    Both are sampled and judged as all variants are, each in its process. Each sample has inputs of its own, so that no result
    that is kept shortens one. Errors: Failed for the step.
    """
    secrets_of = dict[str, SecretInputs]()
    pair = []
    form: Form | None = None
    for name, process in ((step.name, processes.of_step()), ("your answer", processes.of_answer())):
        it = Measurement(replace(step, name=name), "step", *processes.target)
        pair.append(it)
        whole = replace(at.case, units=at.lab.units(at.case, step, at.device))
        secret = secrets_of[name] = SecretInputs(at.lab, whole)
        try:
            it.runnable = runnable = RemoteRunnable(process, whole, secret.draw, timed=True)
            it.ledger = RemoteLedger(process, runnable)
            it.run_s = run_once(runnable, it.ledger)
            runnable.form = form = form or form_of(runnable.outputs())
            it.checks.append(check_of_timed(at, it, secret, silent, "first check"))
            it.reason = reason_if_wrong(*it.checks[-1])
        except KernelRefused as error:
            it.reason = str(error)
    own, answer = pair
    if not (answer.reason or own.reason):
        sample(
            pair,
            at.policy,
            silent,
            Checkpoint(),
            lambda it, n: check_sample(at, secrets_of[it.variant.name], silent, it, n),
        )
    for it in pair:
        if it.runnable and not it.reason:
            verify_again(at, it, secrets_of[it.variant.name])
    if own.reason:
        raise Failed(f"the book's {step.name} fails on {at.case.name}: {own.reason}")
    if answer.reason:
        return {"reason": answer.reason}
    ratio = stats.paired_ratio(*stats.by_round(own.samples, own.rounds, answer.samples, answer.rounds))
    assert answer.runnable is not None
    return {
        "case": at.case.name,
        "seconds": float(np.median(answer.samples)) / answer.runnable.units,
        "ratio": [ratio.estimate, ratio.low, ratio.high],
        "relation": stats.relation(ratio.low, ratio.high),
    }


_PLACE = re.compile(r"(\S*?)([^\s/:]+)(:\d+(?::\d+)?): (?:fatal )?error: ")


def _plain(message: str, answer: AnswerFile) -> str:
    """Return a message on one line, with the file as the reader named it.

    What a compiler says of another file may show what stands in that: it is left out.
    """
    place = _PLACE.match(message)
    if place and place[2] != FILE:
        return "the compiler refuses it; its message is about another file and not shown"
    named = re.sub(r"\S*" + re.escape(FILE) + r"(?=:|\b)", lambda _: answer.name, message)
    return on_one_line(" ".join(named.split()))[:MOST_WORDS]
