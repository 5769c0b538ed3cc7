"""Prose and commands that fit a terminal: they break at spaces. Serves all that a command prints; tables: report/layout.py."""

import io
import re
import shutil
from collections.abc import Sequence
from functools import cache
from typing import Any, TextIO
from unicodedata import combining, east_asian_width

from .escaping import printable

_WORD = r"[^ \t\n]+"
_PIECE = re.compile(rf"(?:✓ )?{_WORD}(?: (?:[×=] {_WORD}|\[[-−+\d.,e∞\u202f ]+\][^ \t\n]*))*")
"""Text that is never broken: a word; a number with its interval, `12.3 [12.1, 12.6]`; `4 × 100`; `n = 3`."""
_QUOTED = re.compile(rf"[^ \t\n`]*`[^`\n]+`[^ \t\n]*|{_PIECE.pattern}")
_ARGUMENT = re.compile(r"""(?:[^ \t\n'"]|"[^"]*"|'[^']*'|["'])+""")


class PrintableStream(io.TextIOWrapper):
    """Standard output or standard error of a command: control characters in printed text become escapes.

    So does what a library prints, a warning of Python, or a text that came from a file without being looked at.
    """

    def write(self, text: str) -> int:
        return super().write(printable(text) if isinstance(text, str) else text)  # click tries whether bytes are taken

    def write_control(self, text: str) -> int:
        """Write control characters that the terminal must obey."""
        return super().write(text)


def printable_stream(stream: TextIO) -> TextIO:
    """Return a stream whose control characters become escapes; the stream itself if it is no terminal, pipe or file."""
    if type(stream) is not io.TextIOWrapper:
        return stream
    stream.flush()
    how: dict[str, Any] = {name: getattr(stream, name) for name in ("encoding", "line_buffering", "write_through")}
    return PrintableStream(stream.detach(), errors="replace", **how)


def write_control(stream: TextIO, text: str) -> None:
    """Write control characters that a terminal must obey, such as the end of a line that is renewed in place."""
    (stream.write_control if isinstance(stream, PrintableStream) else stream.write)(text)
    stream.flush()


def terminal_width() -> int:
    """Return the columns of the terminal at standard output; 80 if it is no terminal, such as a pipe."""
    return shutil.get_terminal_size((80, 24)).columns


def width(text: str) -> int:
    """Return the columns that a text takes in a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


@cache
def _columns(letter: str) -> int:
    return 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1


def pieces(text: str) -> list[str]:
    """Return the parts of a text between which a line may break."""
    return _PIECE.findall(text)


def say(text: str, hang: int = 0) -> None:
    """Print prose at once, each of its lines wrapped to the terminal.

    hang: columns by which the lines that follow are indented; what stands there in the first, such as a name, stays as it is.
    """
    print("\n".join(prose(text, terminal_width(), hang)), flush=True)


def prose(text: str, most: int, hang: int = 0) -> list[str]:
    """Break a text into lines of at most `most` columns. A text in backquotes is not broken if it fits one line.

    A longer command of roofbook in backquotes has lines of its own, fit to paste, as `command` breaks it. Control characters
    become escapes.
    """
    out = []
    for line in printable(text).split("\n"):
        if width(line) <= most:
            out.append(line)
            continue
        at = hang if line[hang - 1 : hang] == " " else len(line) - len(line.lstrip(" "))
        lead, parts = line[:at], list[str]()
        for word in _QUOTED.findall(line[at:]):
            if width(word) > most - hang and word.startswith("`roofbook "):
                if parts or lead.strip():
                    out += filled(parts, most, lead, " " * hang)
                out += command(word, most, hang)
                lead, parts = " " * hang, []
            else:
                parts += [word] if width(word) <= most - hang else pieces(word)
        out += filled(parts, most, lead, " " * hang) if parts else []
    return out


def command(text: str, most: int, indent: int = 0) -> list[str]:
    """Break a shell's command into lines, each but the last ending in a backslash, fit to paste.

    It breaks before an option, else between arguments. Of a quoted one that no line can hold the quotes are closed at a space
    and opened again where the next line begins, which to the shell is the same argument.
    """
    lead = " " * indent
    if width(text) + indent <= most:
        return [lead + text]
    room = most - len(lead) - 4  # behind the indent of the lines that follow, before the backslash
    groups: list[list[str]] = [[]]
    for argument in _ARGUMENT.findall(text):
        if argument.startswith(("-", "&&")):
            groups.append([])
        groups[-1].append(argument)
    joined_groups = [" ".join(group) for group in groups]
    parts = [
        part
        for group, one in zip(groups, joined_groups, strict=True)
        for part in ([one] if width(one) <= room else group)
    ]
    out: list[str] = []
    for line in filled(parts, most - 2, lead, lead + "  "):
        cut = _requoted(line, most) if width(line) > most - 2 else [line]
        out += [*(f"{piece}\\" for piece in cut[:-1]), f"{cut[-1]} \\"]
    return [*out[:-1], out[-1].removesuffix(" \\")]


def _requoted(argument: str, most: int) -> list[str]:
    """Split a quoted argument into several, to be joined without spaces; return it alone if it is not quoted as a whole."""
    quote = argument[:1]
    if len(argument) < 2 or quote not in "'\"" or argument[-1] != quote or quote in argument[1:-1] or "\\" in argument:
        return [argument]
    first, *further = argument[1:-1].split(" ")
    return [f"{quote}{part}{quote}" for part in filled([first, *(f" {word}" for word in further)], most - 4, joint="")]


def filled(parts: Sequence[str], most: int, lead: str = "", hang: str = "", joint: str = " ") -> list[str]:
    """Return as few lines as hold the parts. An indent is left out if it would push a part over the edge."""
    lines: list[str] = []
    for part in parts:
        if lines and width(lines[-1]) + len(joint) + width(part) <= most:
            lines[-1] += joint + part
        else:
            before = hang if lines else lead
            lines.append(before[: max(0, most - width(part))] + part)
    return lines or [lead]


def wrapped(text: str, most: int) -> list[str]:
    """Break the text of a table cell into lines of at most `most` columns."""
    return [text] if width(text) <= most else filled(pieces(text), most)
