"""The errors that a user sees. Shown without a stack everywhere: shell, notebook, papermill."""

import contextlib
import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from .escaping import printable
from .terminal import printable_stream


class UserFacingError(Exception):
    """An error whose message says all that a user can act on."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook for a custom traceback: a reader's typo needs no stack."""
        return [printable(f"{type(self).__name__}: {self}")]


class UsageError(UserFacingError):
    """Bad input: one line says what was wrong and what would be right. The command line exits with code 2."""

    is_unknown_name = False
    """Whether the input names what does not exist, rather than what has no result yet."""


class Failed(UserFacingError):
    """Something that should have worked did not, through no fault of the user's. The command line exits with code 1."""


def one_of(
    what: str, given: object, valid: "list[str] | tuple[str, ...]", near: "list[str] | None" = None
) -> UsageError:
    """The error for a name that is not in a list, with the closest one in `near` (the list itself unless given).

    >>> str(one_of("scale", "quik", ["quick", "published"]))
    "unknown scale 'quik' (did you mean 'quick'?); valid: quick, published"
    """
    import difflib

    close = difflib.get_close_matches(str(given), near or valid, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    error = UsageError(f"unknown {what} {str(given)!r}{hint}; valid: {', '.join(valid)}")
    error.is_unknown_name = True
    return error


def of_system(error: OSError) -> str:
    """What the system refused, and of which file: `/mnt/out.csv: No space left on device`."""
    said = error.strerror or " ".join(str(error).split()) or type(error).__name__
    return f"{os.fsdecode(error.filename)}: {said}" if isinstance(error.filename, str | bytes) else said


def program(work: Callable[[], object], stopped: str) -> int:
    """Do the work of a program. Returns its exit code, after one line on standard error unless it is 0.

    2 is for what the user can mend: a UsageError, or what the system refused, such as memory, or a write to a full disk. 1 is
    for a Failed, and, without a line, for a reader who has had enough, as `head` has. 130 is for Ctrl-C, of which the line
    is `stopped`. Standard output takes what its encoding lacks as a question mark.
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
        return complain(f"error: {error}", 2)
    except Failed as error:
        return complain(f"error: {error}", 1)
    except OSError as error:
        return complain(f"error: {of_system(error)}", 2)
    except MemoryError as error:
        return complain(f"error: not enough memory: {error}".removesuffix(": "), 2)
    except KeyboardInterrupt:
        return complain(stopped, 130)
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                _let_go(stream)


def complain(line: str, code: int) -> int:
    """Say why a program ends, if standard error takes it. Returns the code."""
    warn(line)
    return code


def warn(line: str) -> None:
    """Print a line on standard error, if that takes it; what a terminal would obey is written out."""
    with contextlib.suppress(OSError):
        print(printable(line), file=sys.stderr)


def _have_streams() -> None:
    """Have all three. One that is closed is none of Python's, and the next file that is opened would take its number."""
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
    """Errors: UsageError that names standard output, where its device is full."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"standard output: {of_system(error)}") from None


def _let_go(stream: IO[str]) -> None:
    """Write what is left. What cannot be written must not be tried again, with a complaint, on the way out."""
    try:
        stream.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def plain_ctrl_c() -> Iterator[None]:
    """Around what a program does: Ctrl-C leaves it as KeyboardInterrupt, and nothing is said of it on the way out.

    So do SIGTERM and SIGHUP.

    Click and the import of an extension module make another error of it, as does what fails on its way out. Python notes an
    interrupt that came through code of a string, as dataclasses are made by; `python -m` would then end by the signal whatever
    the exit code. Other code of a string takes the note back. And objects of libraries that were left half made complain when
    they are thrown away, as do coroutines that nobody awaits any more.
    """
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):  # whoever ends it, what was measured is kept
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # `nohup` ignores SIGHUP
                signal.signal(number, signal.default_int_handler)
    try:
        yield
    except (KeyboardInterrupt, Exception) as error:
        if not is_ctrl_c(error):
            raise
        sys.unraisablehook = lambda _: None
        warnings.simplefilter("ignore")
        exec("")
        raise KeyboardInterrupt from error


def is_ctrl_c(error: BaseException) -> bool:
    """Whether an error is Ctrl-C, or one that came of it.

    >>> is_ctrl_c(OSError()), is_ctrl_c(KeyboardInterrupt())
    (False, True)
    """
    found: list[BaseException] = [error]
    for each in found:  # grows meanwhile, and errors may name one another
        found += [more for more in (each.__cause__, each.__context__) if more and more not in found]
    return any(isinstance(each, KeyboardInterrupt) for each in found)


@contextmanager
def ctrl_c_waits() -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP take effect at the end of the block.

    While a process starts, nobody could end it yet. A module by nanobind, such as duckdb or pyopencl, aborts Python where its
    import is interrupted, or loses the interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    names = [name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in (getattr(signal, name) for name in names)}
    held = [number for number, handler in before.items() if callable(handler)]  # an ignored one stays ignored
    for number in held:
        signal.signal(number, lambda which, _: came.append(which))
    try:
        yield
    finally:
        for number in held:
            signal.signal(number, before[number])
        if came:
            signal.raise_signal(came[0])
