"""Findings of a sanitizer as text: each defect with the kernel's own lines. Serves `roofbook check`."""

import contextlib
from collections.abc import Sequence
from pathlib import Path

from ..analysis import format as show
from ..errors import UsageError
from ..measure.checked_runnable import plain_text
from ..measure.findings import Defect, SourceLine
from ..measure.sanitize import CheckedVariant
from ..spec.host_code import source_text

MOST_BYTES = 1 << 20
"""Largest size of a source file whose lines are printed."""


def findings(check: CheckedVariant, root: Path) -> list[str]:
    """Return each finding, followed by the lines of the kernel; files are named relative to `root`."""
    return [_finding(finding, count, root) for finding, count in check.defects.items()]


def summary(check: CheckedVariant) -> str:
    """Return one line: variant and tool, number of findings, and whether the result is right.

    It never says "nothing found" of a variant that did not run to its end.
    """
    count = len(check.defects)
    outcome = show.several(count, "finding")
    if check.failure or "reason" in check.outcome:
        outcome = f"not checked to its end, {outcome} before" if count else "not checked to its end"
    elif not count:
        outcome = "nothing found"
    text = f"{check.variant.name} on {check.case.name} by {check.tool}: {outcome}"
    if check.stopped:
        text += f" in the first {check.stopped} reports, after which it fell silent"
    return f"{text}; {_result(check)}"


def summary_of_all(checks: Sequence[CheckedVariant]) -> str:
    """Return one line on several variants: how many are clean, and the names of the others."""
    with_findings = [check.variant.name for check in checks if check.defects]
    failed = [check.variant.name for check in checks if not check.clean and not check.defects]
    parts = [f"{sum(check.clean for check in checks)} of {show.several(len(checks), 'variant')} are clean"]
    parts += [f"with findings: {', '.join(with_findings)}"] * bool(with_findings)
    parts += [f"wrong or not checked to the end: {', '.join(failed)}"] * bool(failed)
    return "; ".join(parts)


def _result(check: CheckedVariant) -> str:
    if check.reason:
        return check.reason
    if check.outcome["error"] is None:
        return "its result was not compared"
    mode = "" if check.outcome.get("optimised", True) else ", compiled without optimisation"
    return f"its result is right{mode} (error {check.outcome['error']:.3g}, allowed {check.outcome['tolerance']:.3g})"


def _finding(defect: Defect, count: int, root: Path) -> str:
    kernel = f", in kernel {defect.kernel}" if defect.kernel else ""
    head = f"{defect.kind}{kernel}{f', {count} times' * (count > 1)}"
    return "\n".join([head, *(f"  {_line(source_line, root)}" for source_line in defect.places)])


def _line(source_line: SourceLine, root: Path) -> str:
    """Return `lib/roofbook/labs/lbm/fused.k:58: const float f2 = FROM(2, south * nx + x);`."""
    name, lines = source_line.file, list[str]()
    with contextlib.suppress(
        OSError, ValueError, RuntimeError, UsageError
    ):  # the name is any text that a kernel printed
        path = Path(source_line.file).resolve()
        name = str(path.relative_to(root) if path.is_relative_to(root) else path)
        if path.is_file() and path.stat().st_size <= MOST_BYTES:
            lines = source_text(path).splitlines()
    place = f"{plain_text(name)}:{source_line.line}"
    return f"{place}: {plain_text(lines[source_line.line - 1])}" if 0 < source_line.line <= len(lines) else place
