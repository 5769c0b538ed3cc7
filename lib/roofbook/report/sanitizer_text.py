"""What a tool found wrong in a variant, as text: each mistake with the kernel's own lines. Serves `roofbook check`."""

from pathlib import Path

from ..measure.findings import Defect, SourceLine
from ..measure.sanitize import Checked
from ..spec.host_code import source_text


def findings(it: Checked, root: Path) -> list[str]:
    """Each finding with the lines of the kernel below it; files are named from `root`."""
    return [_finding(finding, times, root) for finding, times in it.found.items()]


def summary(it: Checked) -> str:
    """What was run, how much was found, and whether the result is right.

    Nothing is said to be not there where the variant did not run to its end.
    """
    many = len(it.found)
    found = f"{many} finding{'s' * (many != 1)}"
    if it.failure or "reason" in it.told:
        found = f"not checked to its end, {found} before" if many else "not checked to its end"
    elif not many:
        found = "nothing found"
    said = f"{it.variant.name} on {it.case.name} by {it.tool}: {found}"
    if it.stopped:
        said += f" in the first {it.stopped} reports, after which it fell silent"
    return f"{said}; {_result(it)}"


def _result(it: Checked) -> str:
    if it.reason:
        return it.reason
    if it.told["error"] is None:
        return "its result was not compared"
    how = "" if it.told.get("optimised", True) else ", compiled without optimisation"
    return f"its result is right{how} (error {it.told['error']:.3g}, allowed {it.told['tolerance']:.3g})"


def _finding(found: Defect, times: int, root: Path) -> str:
    head = f"{found.kind}, in kernel {found.kernel}{f', {times} times' * (times > 1)}"
    return "\n".join([head, *(f"  {_line(place, root)}" for place in found.places)])


def _line(place: SourceLine, root: Path) -> str:
    """`lib/roofbook/labs/lbm/fused.k:58: const float f2 = FROM(2, south * nx + x);`"""
    path = Path(place.file).resolve()
    name = path.relative_to(root) if path.is_relative_to(root) else path
    lines = source_text(path).splitlines() if path.is_file() else []
    return f"{name}:{place.line}" + (f": {lines[place.line - 1].strip()}" if place.line <= len(lines) else "")
