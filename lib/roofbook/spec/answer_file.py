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
"""Most bytes that a kernel's text may have."""
WRITER_S, PIPE_S = 3.0, 60.0
"""Seconds to wait for a writer into a pipe, and for the end of the pipe."""
PART = 1 << 16
"""Bytes that are read at once."""
STANDARD_INPUT = "-"
MARKS = {b"\xff\xfe\x00\x00": "UTF-32", b"\x00\x00\xfe\xff": "UTF-32", b"\xff\xfe": "UTF-16", b"\xfe\xff": "UTF-16"}
"""Byte order mark at the start of a text -> its encoding, for encodings that are refused."""


@dataclass(frozen=True)
class AnswerFile:
    """A reader's answer: the text of a kernel."""

    name: str
    """Name of the file in messages."""
    text: str
    """Text with line feeds alone."""


def read_answer(file: Path) -> AnswerFile:
    """Read a text file in UTF-8, with or without a byte order mark; `-` is standard input.

    Raise UsageError for another kind of file or encoding, for more than LARGEST bytes, and for a pipe without a writer.
    """
    label = "standard input" if str(file) == STANDARD_INPUT else on_one_line(str(file))
    try:
        content = _content(file, label)
    except OSError as error:
        raise UsageError(f"{label}: {of_system(OSError(error.errno, error.strerror))}") from None
    name = label if str(file) == STANDARD_INPUT else on_one_line(file.name)
    return AnswerFile(name, decoded(content, label))


def on_one_line(text: str) -> str:
    r"""Return text with escapes in place of characters that are not printable, line ends included.

    >>> on_one_line("a\nb c")
    'a\\nb c'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def _content(file: Path, label: str) -> bytes:
    """Read a file or standard input. label: its name in messages."""
    if str(file) == STANDARD_INPUT:
        if sys.stdin is None or os.isatty(0):
            raise UsageError(f"{label} is a terminal; give a file, or a pipe with the kernel's text")
        return _all_of(os.dup(0), label)
    return _all_of(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), label)


def _all_of(descriptor: int, label: str) -> bytes:
    """Read a file or pipe to its end, and close it. Raise UsageError for other kinds of files, and for too many bytes."""
    try:
        status = os.fstat(descriptor)
        if stat.S_ISDIR(status.st_mode):
            raise UsageError(f"{label} is a directory; a file with the kernel's text is meant")
        if not (stat.S_ISREG(status.st_mode) or stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)):
            raise UsageError(f"{label} is a device; a file with the kernel's text is meant")
        if status.st_size > LARGEST and stat.S_ISREG(status.st_mode):
            raise UsageError(f"{label} has {status.st_size} bytes; a kernel's text has {LARGEST} at most")
        return _read(descriptor, label, is_pipe=not stat.S_ISREG(status.st_mode))
    finally:
        os.close(descriptor)


def _read(descriptor: int, label: str, *, is_pipe: bool) -> bytes:
    """Read to the end. Raise UsageError for too many bytes, and for a pipe without a writer or an end."""
    start, content = time.monotonic(), b""
    while True:
        waited = time.monotonic() - start
        part = _part(descriptor) if is_pipe else os.read(descriptor, PART)
        if part == b"" and (content or not is_pipe or waited > WRITER_S):
            break
        content += part or b""
        if len(content) > LARGEST:
            raise UsageError(f"{label} has more than {LARGEST} bytes; a kernel's text may have no more")
        if waited > PIPE_S:
            raise UsageError(f"{label} is a pipe that did not end within {PIPE_S:g} s")
        if not part:
            time.sleep(0.05)
    if is_pipe and not content:
        raise UsageError(f"{label} is a pipe into which nobody wrote within {WRITER_S:g} s")
    return content


def _part(descriptor: int) -> bytes | None:
    """Return the bytes that are in a pipe: none at its end or without a writer; None if the writer has written none yet."""
    if os.get_blocking(descriptor) and not select.select([descriptor], [], [], 0)[0]:
        return None
    try:
        return os.read(descriptor, PART)
    except BlockingIOError:
        return None


def decoded(content: bytes, label: str) -> str:
    """Decode UTF-8, and make all line ends line feeds. Raise UsageError for another encoding."""
    mark = next((name for start, name in MARKS.items() if content.startswith(start)), None)
    if mark:
        raise UsageError(f"{label} is no text in UTF-8 but in {mark}; save it as UTF-8")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise UsageError(
            f"{label} is no text in UTF-8: byte 0x{content[error.start]:02x} in line {line}; save it as UTF-8"
        ) from None
    if "\0" in text:
        raise UsageError(f"{label} is no text in UTF-8: it has zero bytes; save it as UTF-8")
    return text.replace("\r\n", "\n").replace("\r", "\n")
