"""The fastest verified kernels of a lab on a device, by the store: times, errors, and a file that the judge accepts."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import own_python
from ..devices.contract import Device
from ..devices.find import open_device
from ..errors import UsageError
from ..escaping import read_json
from ..measure.answer import drawn_case, judge, task_of_submission
from ..measure.kernel_call import KernelCall
from ..measure.sandbox import sandbox
from ..paths import project_root
from ..process_tree import run_tool
from ..spec import registry
from ..spec.answer_file import AnswerFile
from ..spec.lab import Lab
from ..spec.plan import ROUNDS_OPERANDS, ROUNDS_RESULTS, Case, Variant
from ..spec.submission import submission_of
from ..store.parquet import Store
from . import format as show
from .opponents import is_here
from .readings import Reading, fastest_first, newest

MOST_TRIED = 8
"""Number of kernels of which a file is tried."""
TRACE_LIMIT_S = 300.0
"""Seconds in which the launches of a kernel must be found."""
_EXACTNESS = ("TF32", "bf16", "fp16")
"""Types that operands or results are rounded to, the most exact one first."""


@dataclass(frozen=True)
class Ranked:
    """A verified kernel with its time on a device, and the error that it was verified to."""

    variant: Variant
    reading: Reading
    conditions: tuple[str, ...]
    """Roundings of its operands and results; none for a kernel in full precision."""

    @property
    def rounding(self) -> int:
        """Rank of its least exact rounding; 0 without any."""
        words = " ".join(self.conditions)
        return max((rank for rank, name in enumerate(_EXACTNESS, 1) if name in words), default=0)

    @property
    def error(self) -> float:
        """Largest error of a check of its outputs."""
        return float(self.reading.row["error"])

    @property
    def tolerance(self) -> float:
        """Largest error that was accepted."""
        return float(self.reading.row["bound"])

    def __str__(self) -> str:
        rounded = f", {' and '.join(self.conditions)}" if self.conditions else ""
        compared = read_json(self.reading.row["extra"] or "{}").get("error_is", "")
        about = f" ({compared})" if compared else ""
        time = f"{show.duration(self.reading.median)} per {self.reading.row['unit']}"
        return f"{self.variant.name}: {time}{rounded}; error {self.error:.2g} of at most {self.tolerance:.2g}{about}"


def ranking(lab: Lab, store: Store, device: Device, case: Case) -> list[Ranked]:
    """Return the kernels with a verified time of today's text on a device, the fastest first; points of sweeps too.

    A kernel whose operands are laid out before its time begins is left out, as its time is not that of the problem. Raise
    UsageError, with the command that measures some, if there are none.
    """
    rows = store.rows(
        lab.name, case=case.name, device=device.slug, backend=device.backend, role=["step", "base", "sweep"]
    )
    ranked = []
    for reading in newest(rows, case.name).values() if len(rows) else ():
        try:
            variant = lab.variant(str(reading.row["variant"]))
        except UsageError:  # it is gone
            continue
        is_today = variant.source is not None and variant.source.sha256 == reading.row["source_sha256"]
        conditions = lab.conditions(variant)
        are_roundings = all(condition.startswith((ROUNDS_OPERANDS, ROUNDS_RESULTS)) for condition in conditions)
        is_fit = reading.ok and is_today and are_roundings and not lab.is_probe(variant)
        if is_fit and is_here(lab, variant, device, case):
            ranked.append(Ranked(variant, reading, conditions))
    if not ranked:
        right = f"roofbook run {lab.name} --device {device.spec} -p cases '[{case.name}]'"
        raise UsageError(
            f"no kernel of {lab.name} was measured on {case.name} and {device.spec}: `{right}` measures them"
        )
    by_reading = {id(kernel.reading): kernel for kernel in ranked}
    return [by_reading[id(reading)] for reading in fastest_first(kernel.reading for kernel in ranked)]


def front(ranked: Sequence[Ranked]) -> list[Ranked]:
    """Return the kernels that no other one beats in both exactness and time, the most exact first.

    ranked: the fastest first.
    """
    kept = list[tuple[int, Ranked]]()
    for place, kernel in sorted(enumerate(ranked), key=lambda pair: (pair[1].rounding, pair[0])):
        if not kept or place < kept[-1][0]:
            kept.append((place, kernel))
    return [kernel for _, kernel in kept]


def judged_file(lab: Lab, device: Device, case: Case, ranked: Sequence[Ranked]) -> tuple[Ranked, str, list[str]]:
    """Return the fastest kernel that a file with a head can say, its text, and why each faster one cannot be said.

    The text was judged right on the case and on those of the judge's sizes that the step can take. Raise UsageError, with the
    reason of the fastest, if there is none.
    """
    reasons = []
    for kernel in ranked[:MOST_TRIED]:
        try:
            text = _text(lab, device, case, kernel.variant)
            _refuse_wrong(lab, device, case, kernel.variant, text)
        except UsageError as error:
            reasons.append(f"{kernel.variant.name} cannot be said in a file: {error}")
        else:
            verified = f"verified to an error of {kernel.error:.2g}, {kernel.tolerance:.2g} at most"
            about = f"{kernel.variant.name} of {lab.name}, on {case.name}: {kernel.reading.median:.3g} s per {lab.unit}"
            command = f"roofbook judge {lab.name} FILE --against {kernel.variant.name}"
            return (
                kernel,
                f"// {about}; {verified}\n// Judged on sizes that this step can take: {command}\n{text}",
                reasons,
            )
    call = f"`--as {'cupy' if device.backend == 'cuda' else 'pyopencl'}` prints a call of the fastest"
    further = f"; nor can the next {len(reasons) - 1}" if len(reasons) > 1 else ""
    raise UsageError(f"{reasons[0]}{further}; {call}")


def suffix_of(device: Device) -> str:
    """Return the ending of a file in a device's language."""
    return ".cu" if device.backend == "cuda" else ".cl"


def _text(lab: Lab, device: Device, case: Case, variant: Variant) -> str:
    """Return a variant's submission, found in a process of its own, as a plan may break it."""
    awkward_cases = [name for name in lab.awkward if not lab.skip_reason(variant, lab.awkward_case(name))]
    drawn = [drawn_case(lab, variant, awkward_cases) for _ in range(2)]
    names = [case.name, *awkward_cases, *(extra.name for extra in drawn if extra)]
    command = [
        sys.executable,
        "-m",
        "roofbook.spec.launch_trace",
        lab.name,
        variant.name,
        device.spec,
        *dict.fromkeys(names),
    ]
    environment = {**own_python.environment(), **registry.environment()}
    run = run_tool(command, limit_s=TRACE_LIMIT_S, env=environment)
    if run.code or not run.output.strip():
        lines = [line for line in run.errors.splitlines() if line.strip()]
        raise UsageError(lines[-1] if lines else f"finding its launches ended with code {run.code}")
    return run.output.rstrip() + "\n"


def _refuse_wrong(lab: Lab, device: Device, case: Case, step: Variant, text: str) -> None:
    """Raise UsageError with the reason if the judge does not accept the text of a step."""
    lab.output_arrays(case)
    suffix = suffix_of(device)
    task = task_of_submission(lab, submission_of(text), case, suffix, step, bounds={})
    answer = AnswerFile(f"best{suffix}", text)
    task = replace(task, cases=(*task.cases, case))
    mark = judge(lab, task, answer, device, sandbox(None), take_time=False)
    if mark.code:
        reason = mark.does_not_compile or next(f"{m.case}: {m.reason}" for m in mark.cases if m.reason)
        raise UsageError(f"the judge refuses it: {reason}")


def fastest_call(lab_name: str, case_name: str, spec: str, results: str) -> KernelCall:
    """Return the fastest verified kernel whose plan takes the lab's arrays as they are. Raise UsageError if there is none."""
    lab = registry.get(lab_name)
    lab.prepare()
    device, case, reasons = open_device(spec, lab.preferred_backend), lab.case(case_name), []
    for kernel in ranking(lab, Store.of_project(project_root(), results), device, case)[:MOST_TRIED]:
        try:
            return KernelCall(lab, kernel.variant, case, device, kernel.error, kernel.tolerance, kernel.reading.median)
        except UsageError as error:
            reasons.append(f"{kernel.variant.name}: {error}")
    raise UsageError(f"none of the fastest kernels takes arrays as they are; {'; '.join(reasons)}")
