"""What tools that watch kernels find wrong, read from their text: Oclgrind's, and that of NVIDIA's compute-sanitizer.

Both name the lines of `spec.source.lined`: those of the kernel's own files.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple


class SourceLine(NamedTuple):
    """A line of a kernel's own file."""

    file: str
    line: int


@dataclass(frozen=True)
class Defect:
    """One kind of mistake at one place of a kernel; a tool may report it for many work-items."""

    kind: str
    """Such as `write of 4 bytes out of bounds in global memory`."""
    kernel: str
    places: tuple[SourceLine, ...]
    """Of a race those of both accesses; none where the compiler kept no line."""


_KINDS = (
    (r"(Read|Write)-write data race at (\w+) memory address .*", r"\1-write data race in \2 memory"),
    (r"Invalid (read|write) of size (\d+) at (\w+) memory address .*", r"\1 of \2 bytes out of bounds in \3 memory"),
    (r"Index \(\d+\) exceeds static array size \((\d+)\)", r"index out of bounds of an array of \1"),
    (r"Work-group divergence detected \((.*)\)", r"\1 that not all work-items of a group reach"),
    (r"Invalid __(\w+)__ (\S+) of size (\d+)(?: bytes)?", r"\2 of \3 bytes out of bounds in \1 memory"),
)
"""A tool's words -> ours. What is not here is told as the tool has it."""


def _kind(said: str) -> str:
    for pattern, words in _KINDS:
        if found := re.fullmatch(pattern, said):
            said = found.expand(words)
            break
    return said[:1].lower() + said[1:]


# -- Oclgrind ----------------------------------------------------------------------------------------------------------

_MESSAGE = re.compile(r"^(\S[^\n]*)\n\tKernel: +(\w+)\n((?:\t[^\n]*\n)*)", re.M)
"""What is wrong, in which kernel, and the indented lines below."""
_AT = re.compile(r"^\tAt line (\d+) \(column \d+\) of (.*):$", re.M)
_FATAL = re.compile(r"^OCLGRIND FATAL ERROR[^\n]*\n([^\n]+)", re.M)
_STOPPED = re.compile(r"^Oclgrind: (\d+) errors generated - suppressing further errors$", re.M)


def of_oclgrind(said: str) -> Counter[Defect]:
    """What Oclgrind wrote, each finding with how often it was reported; Oclgrind's own failures are none."""
    failures = {found[1] for found in _FATAL.finditer(said)}
    found: Counter[Defect] = Counter()
    for what, kernel, more in _MESSAGE.findall(said):
        if what not in failures:
            places = (SourceLine(file, int(line)) for line, file in _AT.findall(more))
            found[Defect(_kind(what), kernel, tuple(dict.fromkeys(places)))] += 1
    return found


def failure_of_oclgrind(said: str) -> str | None:
    """What Oclgrind itself cannot do, such as an instruction that it does not know; None where it did all."""
    found = _FATAL.search(said)
    return found[1].strip() if found else None


def stopped_at(said: str) -> int | None:
    """After how many reports Oclgrind fell silent; None where it told all."""
    found = _STOPPED.search(said)
    return int(found[1]) if found else None


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

_REPORT = re.compile(
    r"^========= (?P<what>(?:Invalid __|Barrier error|Uninitialized __)[^\n]*)\n(?P<more>(?:=========     [^\n]*\n)*)",
    re.M,
)
_RACE = re.compile(
    r"^========= (?:ERROR|Error|WARN\w*|Warning): Race reported between (?P<what>\w+) access (?P<more>[^\n]*)\n"
    r"(?P<others>(?:=========     and [^\n]*\n)+)", re.M
)  # fmt: skip
_OTHER = re.compile(r"^=========     and (\w+) access ([^\n]*?)(?: \[(\d+) hazards?\])?$", re.M)
_PLACES = (
    re.compile(r"\bat (?P<kernel>\w+)(?:\([^\n]*\))?\+0x\w+ in (?P<file>[^\n]+):(?P<line>\d+)"),
    re.compile(r"\bat 0x\w+ in (?P<file>[^\n]+):(?P<line>\d+):(?P<kernel>\w+)"),
    re.compile(r"\bat (?:0x\w+ in )?(?P<kernel>\w+)"),
)
"""Where it was: as releases since 2023 write it, as those before do, and where there is no line."""


def of_sanitizer(said: str) -> Counter[Defect]:
    """What a tool of compute-sanitizer wrote, each finding with how often it was reported."""
    found: Counter[Defect] = Counter()
    for report in _REPORT.finditer(said):
        kernel, places = _where(report["more"])
        kind = _kind(report["what"].rstrip(". "))
        if "is misaligned" in report["more"]:
            kind = kind.replace("out of bounds", "at a misaligned address")
        found[Defect(kind, kernel, places)] += 1
    for race in _RACE.finditer(said):
        kernel, one = _where(f"at {race['more'].partition('at ')[2]}")
        for access, where, hazards in _OTHER.findall(race["others"]):
            kinds = sorted({race["what"].lower(), access.lower()})
            kind = f"{kinds[0]}-write data race in shared memory"
            places = tuple(dict.fromkeys((*one, *_where(where)[1])))
            found[Defect(kind, kernel, places)] += int(hazards or 1)
    return found


def _where(said: str) -> tuple[str, tuple[SourceLine, ...]]:
    """The kernel and the place that a report names."""
    for pattern in _PLACES:
        if found := pattern.search(said):
            known = found.groupdict()
            place = (SourceLine(known["file"], int(known["line"])),) if "file" in known else ()
            return known["kernel"], place
    return "", ()
