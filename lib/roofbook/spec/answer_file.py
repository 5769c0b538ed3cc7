"""Reads a file that a reader hands in: text of a sensible size, from a file or a pipe, and a name that fits on a line."""

import os
import select
import stat
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError, of_system
from ..escaping import printable

LARGEST = 1 << 20
"""Bytes that a kernel's text may have."""
WRITER_S, PIPE_S = 3.0, 60.0
"""Seconds to wait for somebody who writes into a pipe, and for all that is written."""
PART = 1 << 16
"""Bytes that are read at once."""
STANDARD_INPUT = "-"
MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""How a text of another encoding begins."""


@dataclass(frozen=True)
class AnswerFile:
    """What was handed in."""

    name: str
    """Of the file, as a message shows it."""
    text: str


def read_answer(file: Path) -> AnswerFile:
    """Read a text file in UTF-8, with or without a byte order mark; `-` is standard input.

    Errors: UsageError for what is no such file, larger than LARGEST, or a pipe into which nothing is written.
    """
    shown = "standard input" if str(file) == STANDARD_INPUT else on_one_line(str(file))
    try:
        content = _content(file, shown)
    except OSError as error:
        raise UsageError(f"{shown}: {of_system(OSError(error.errno, error.strerror))}") from None
    name = shown if str(file) == STANDARD_INPUT else on_one_line(file.name)
    return AnswerFile(name, _decoded(content, shown))


def on_one_line(text: str) -> str:
    r"""Return text with each character that is not printable as its escape, ends of lines too.

    >>> on_one_line("a\nb c")
    'a\\nb c'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _content(file: Path, shown: str) -> bytes:
    if str(file) == STANDARD_INPUT:
        if sys.stdin is None or os.isatty(0):
            raise UsageError(f"{shown} is a terminal; a file, or a pipe with the kernel's text, is meant")
        return _all_of(os.dup(0), shown)
    return _all_of(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), shown)


def _all_of(descriptor: int, shown: str) -> bytes:
    """Read to the end and close. Errors: UsageError for what is no file or pipe, and for too much."""
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{shown} is a directory; a file with the kernel's text is meant")
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)):
            raise UsageError(f"{shown} is a device; a file with the kernel's text is meant")
        if status.st_size > LARGEST and stat.S_ISREG(status.st_mode):
            raise UsageError(f"{shown} has {status.st_size} bytes; a kernel's text has {LARGEST} at most")
        return _read(descriptor, shown, is_pipe=not stat.S_ISREG(status.st_mode))
    finally:
        os.close(descriptor)


def _read(descriptor: int, shown: str, *, is_pipe: bool) -> bytes:
    start, content = time.monotonic(), b""
    while True:
        waited = time.monotonic() - start
        part = _part(descriptor) if is_pipe else os.read(descriptor, PART)
        if part == b"" and (content or not is_pipe or waited > WRITER_S):
            break
        content += part or b""
        if len(content) > LARGEST:
            raise UsageError(f"{shown} has more than {LARGEST} bytes, as many as a kernel's text may have")
        if waited > PIPE_S:
            raise UsageError(f"{shown} is a pipe that did not end within {PIPE_S:g} s")
        if not part:
            time.sleep(0.05)
    if is_pipe and not content:
        raise UsageError(f"{shown} is a pipe into which nobody wrote within {WRITER_S:g} s")
    return content


def _part(descriptor: int) -> bytes | None:
    """Return what a pipe has; empty at its end, and where nobody has opened it to write; None where there is nothing yet."""
    if os.get_blocking(descriptor) and not select.select([descriptor], [], [], 0)[0]:
        return None
    try:
        return os.read(descriptor, PART)
    except BlockingIOError:
        return None


def _decoded(content: bytes, shown: str) -> str:
    mark = next((name for start, name in MARKS.items() if content.startswith(start)), None)
    if mark:
        raise UsageError(f"{shown} is no text in UTF-8 but in {mark}; save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{shown} is no text in UTF-8: byte 0x{content[error.start]:02x} in line {line}; save it as UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{shown} is no text in UTF-8: it has zero bytes; save it as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
