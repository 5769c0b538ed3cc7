"""The errors that a user sees. Shown without a stack everywhere: shell, notebook, papermill."""

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class UserFacingError(Exception):
    """An error whose message says all that a user can act on."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook for a custom traceback: a reader's typo needs no stack."""
        return [f"{type(self).__name__}: {self}"]


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
    "unknown scale 'quik'; valid: quick, published (did you mean 'quick'?)"
    """
    import difflib

    close = difflib.get_close_matches(str(given), near or valid, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    error = UsageError(f"unknown {what} {str(given)!r}; valid: {', '.join(valid)}{hint}")
    error.is_unknown_name = True
    return error


@contextmanager
def plain_ctrl_c() -> Iterator[None]:
    """Around what a program does: Ctrl-C leaves it as KeyboardInterrupt, and nothing is said of it on the way out.

    So do SIGTERM and SIGHUP.

    Click and the import of an extension module make it the cause of an error of their own. Python notes an interrupt that came
    through code of a string, as dataclasses are made by; `python -m` would then end by the signal whatever the exit code. Other
    code of a string takes the note back. And objects of libraries that were left half made complain when they are thrown away.
    """
    if threading.current_thread() is threading.main_thread():
        for name in ("SIGTERM", "SIGHUP"):  # whoever ends it, what was measured is kept
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) == signal.SIG_DFL:  # `nohup` ignores SIGHUP
                signal.signal(number, signal.default_int_handler)
    try:
        yield
    except (KeyboardInterrupt, ImportError, RuntimeError) as error:
        if not isinstance(error, KeyboardInterrupt) and not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        sys.unraisablehook = lambda _: None
        exec("")
        raise KeyboardInterrupt from error
