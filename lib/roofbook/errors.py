"""The errors that a user sees. Shown without a stack everywhere: shell, notebook, papermill."""

import contextlib
import io
import os
import sys
from collections.abc import Callable
from typing import IO

from .ctrl_c import plain_ctrl_c
from .escaping import printable
from .terminal import printable_stream


class UserFacingError(Exception):
    """An error whose message says all that a user can act on."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook for a custom traceback: a reader's typo needs no stack."""
        return [printable(f"{type(self).__name__}: {self}")]


class UsageError(UserFacingError):
    """Bad input: one line says the mistake, and then the right input. The command line exits with code 2."""

    is_unknown_name = False
    """Whether the input is a name that does not exist, rather than a name without a result yet."""


class Failed(UserFacingError):
    """Something that should have worked did not, through no fault of the user's. The command line exits with code 1."""


def one_of(
    noun: str, name: object, valid: "list[str] | tuple[str, ...]", near: "list[str] | None" = None
) -> UsageError:
    """Return the error for a name that is not in a list, with the closest name in `near`, by default in the list.

    noun: kind of the name in the message.

    >>> str(one_of("scale", "quik", ["quick", "published"]))
    "unknown scale 'quik' (did you mean 'quick'?); valid: quick, published"
    """
    import difflib

    close = difflib.get_close_matches(str(name), near or valid, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    error = UsageError(f"unknown {noun} {str(name)!r}{hint}; valid: {', '.join(valid)}")
    error.is_unknown_name = True
    return error


def of_system(error: OSError) -> str:
    """Return the system's message with the file's name, such as `/mnt/out.csv: No space left on device`."""
    message = error.strerror or " ".join(str(error).split()) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {message}" if isinstance(error.filename, str | bytes) else message


def program(work: Callable[[], object], stopped: str) -> int:
    """Do the work of a program, and return its exit code. Unless it is 0, a line on standard error says the reason.

    The code is 2 for errors that the user can mend: a UsageError, too little memory, a full disk. It is 1 for a Failed and,
    without a line, if the reader of a pipe has closed it, as `head` does. It is 130 for Ctrl-C, with the line `stopped`.
    Characters that the encoding of standard output lacks become question marks.
    """
    try:
        _have_streams()
        with plain_ctrl_c():
            work()
            _print_what_is_left()
        return 0
    except BrokenPipeError:
        return 1
    except UsageError as error:
        return complain(f"error: {_one_line(error)}", 2)
    except Failed as error:
        return complain(f"error: {error}", 1)
    except OSError as error:
        return complain(f"error: {_one_line(of_system(error))}", 2)
    except MemoryError as error:
        return complain(f"error: not enough memory: {error}".removesuffix(": "), 2)
    except KeyboardInterrupt:
        return complain(stopped, 130)
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                _let_go(stream)


def _one_line(text: object) -> str:
    """Return a text with its ends of lines written out: a file's name may have some."""
    return str(text).replace("\n", "\\n")


def complain(line: str, code: int) -> int:
    """Print the reason why a program ends on standard error, and return the exit code."""
    warn(line)
    return code


def warn(line: str) -> None:
    """Print a line on standard error, if possible. Control characters are printed as escapes."""
    with contextlib.suppress(OSError):
        print(printable(line), file=sys.stderr)


def _have_streams() -> None:
    """Open the null device for each closed standard stream: the next file that is opened would take its number."""
    closed = [number for number in range(3) if not _is_open(number)]
    for _ in closed:
        os.open(os.devnull, os.O_RDWR)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)
    if sys.stdout is None:
        raise UsageError("standard output is closed: nothing could be printed")
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    sys.stdout, sys.stderr = printable_stream(sys.stdout), printable_stream(sys.stderr)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _print_what_is_left() -> None:
    """Flush standard output. Raise a UsageError that names it if its device is full."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output: {of_system(error)}") from None


def _let_go(stream: IO[str]) -> None:
    """Flush a stream. If that fails, send the rest to the null device, so that Python does not complain when it exits."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
