"""Parser of the reports of tools that check kernels: Oclgrind, and NVIDIA's compute-sanitizer.

Both report the lines of the kernel's own files, by `spec.source.lined`. A kernel shares their output, so it may print anything:
the patterns take time in proportion to the output, whole numbers have nine digits at most, and texts become one printable line.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

from .checked_runnable import plain_text


class SourceLine(NamedTuple):
    """A line of a kernel's own file."""

    file: str
    line: int


@dataclass(frozen=True)
class Defect:
    """One kind of mistake at one place of a kernel; a tool may report it for many work-items."""

    kind: str
    """Mistake in words, such as `write of 4 bytes out of bounds in global memory`."""
    kernel: str
    places: tuple[SourceLine, ...]
    """Lines of the accesses, two for a race; empty if the compiler kept no lines."""


_KINDS = (
    (r"(Read|Write)-write data race at (\w+) memory address .*", r"\1-write data race in \2 memory"),
    (r"Invalid (read|write) of size (\d+) at (\w+) memory address .*", r"\1 of \2 bytes out of bounds in \3 memory"),
    (r"Index \(\d+\) exceeds static array size \((\d+)\)", r"index out of bounds of an array of \1"),
    (r"Work-group divergence detected \((.*)\)", r"\1 that not all work-items of a group reach"),
    (r"Invalid __(\w+)__ (\S+) of size (\d+)(?: bytes)?", r"\2 of \3 bytes out of bounds in \1 memory"),
)
"""(pattern of a tool's message, our words). Other messages stay as they are."""


def _kind(message: str) -> str:
    for pattern, words in _KINDS:
        if match := re.fullmatch(pattern, message):
            message = match.expand(words)
            break
    return plain_text(message[:1].lower() + message[1:])


# -- Oclgrind ----------------------------------------------------------------------------------------------------------

_MESSAGE = re.compile(r"^(\S[^\n]*)\n\tKernel: +(\w+)\n((?:\t[^\n]*\n)*)", re.M)
"""Message, kernel, and the indented lines below."""
_AT = re.compile(r"^\tAt line (\d{1,9}) \(column \d+\) of (.*):$", re.M)
_FATAL = re.compile(r"^OCLGRIND FATAL ERROR[^\n]*\n([^\n]+)", re.M)
_STOPPED = re.compile(r"^Oclgrind: (\d{1,9}) errors generated - suppressing further errors$", re.M)


def of_oclgrind(text: str) -> Counter[Defect]:
    """Return the defects in Oclgrind's output with their numbers of reports, without Oclgrind's own failures."""
    failures = {m[1] for m in _FATAL.finditer(text)}
    counts: Counter[Defect] = Counter()
    for message, kernel, details in _MESSAGE.findall(text):
        if message not in failures:
            places = (SourceLine(file, int(line)) for line, file in _AT.findall(details))
            counts[Defect(_kind(message), plain_text(kernel), tuple(dict.fromkeys(places)))] += 1
    return counts


def failure_of_oclgrind(text: str) -> str | None:
    """Return why Oclgrind itself failed, such as an unknown instruction; None if it did not."""
    match = _FATAL.search(text)
    return plain_text(match[1]) or "no message" if match else None


def stopped_at(text: str) -> int | None:
    """Return the number of reports after which Oclgrind suppressed others; None if it printed all."""
    match = _STOPPED.search(text)
    return int(match[1]) if match else None


# -- compute-sanitizer -------------------------------------------------------------------------------------------------

_REPORT = re.compile(
    r"^========= (?P<what>(?:Invalid __|Barrier error|Uninitialized __|Misaligned |Illegal )[^\n]*)\n"
    r"(?P<more>(?:=========     [^\n]*\n)*)",
    re.M,
)
_RACE = re.compile(
    r"^========= (?:ERROR|Error|WARN\w*|Warning): Race reported between (?P<what>\w+) access (?P<more>[^\n]*)\n"
    r"(?P<others>(?:=========     and [^\n]*\n)+)", re.M
)  # fmt: skip
_OTHER_ACCESS = re.compile(r"^=========     and (\w+) access ([^\n]*?)(?: \[(\d{1,9}) hazards?\])?$", re.M)
_PLACES = (
    re.compile(
        r"^(?>[^\n]*?\b(?:at|Frame:) ?)(?>(?P<function>[^\n]+?)\+0x\w+ in )(?P<file>[^\n]+):(?P<line>\d{1,9})", re.M
    ),
    re.compile(r"^(?>[^\n]*?\bat 0x\w+ in )(?P<file>[^\n]+):(?P<line>\d{1,9}):(?P<function>[^\n]+)", re.M),
    re.compile(r"\b(?:at|Frame:) ?(?:0x\w+ in )?(?P<function>[^\n]+?)(?:\+0x\w+)?$", re.M),
)
"""Patterns of a location: of releases since 2023, of older ones, and without a line."""
_UNNAMED = re.compile(r"(?:\(anonymous namespace\)|<unnamed>)::")
"""Pattern of a C++ namespace without a name, as a prefix of what is in it."""
_DEVICE_FRAME = re.compile(r"^=========     +Device Frame:[^\n]*$", re.M)
"""Pattern of a function into which the one before is inlined; the last is the kernel."""


def of_sanitizer(text: str) -> Counter[Defect]:
    """Return the defects in the output of a tool of compute-sanitizer with their numbers of reports."""
    counts: Counter[Defect] = Counter()
    for report in _REPORT.finditer(text):
        kernel, places = _kernel_and_lines(report["more"], *_DEVICE_FRAME.findall(report["more"]))
        kind = _kind(report["what"].rstrip(". "))
        if "is misaligned" in report["more"]:
            kind = kind.replace("out of bounds", "at a misaligned address")
        counts[Defect(kind, kernel, places)] += 1
    for race in _RACE.finditer(text):
        first = f"at {race['more'].partition('at ')[2]}"
        for access, location, hazards in _OTHER_ACCESS.findall(race["others"]):
            kinds = sorted({race["what"].lower(), access.lower()})
            kind = f"{kinds[0]}-write data race in shared memory"
            counts[Defect(kind, *_kernel_and_lines(first, location))] += int(hazards or 1)
    return counts


def _kernel_and_lines(*locations: str) -> tuple[str, tuple[SourceLine, ...]]:
    """Return the kernel and the lines that locations name.

    The kernel is the function of the last location that is named without parameters. Only a kernel is, since it alone is
    `extern "C"`. Without such a function it is that of the last location.
    """
    matches = [match for text in locations for match in [_match(text)] if match]
    functions = [match["function"] for match in matches]
    kernels = [function for function in functions if "(" not in function] or functions
    lines = [SourceLine(m["file"], int(m["line"])) for m in matches if "file" in m.groupdict()]
    return _function_name(kernels[-1]) if kernels else "", tuple(dict.fromkeys(lines))


def _match(location: str) -> re.Match[str] | None:
    return next((match for pattern in _PLACES if (match := pattern.search(location))), None)


def _function_name(function: str) -> str:
    """Return `meet` of `void meet<(int)0, (int)192>()`. A text that begins with a bracket, as `<unknown>`, is kept."""
    words = re.split(r"[<(]", _UNNAMED.sub("", function), maxsplit=1)[0].split()
    return plain_text(words[-1] if words else function)
