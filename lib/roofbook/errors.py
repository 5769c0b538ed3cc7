"""The errors that a user sees. Shown without a stack everywhere: shell, notebook, papermill."""

import sys


class Told(Exception):
    """An error whose message says all that a user can act on."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook for a custom traceback: a reader's typo needs no stack."""
        return [f"{type(self).__name__}: {self}"]


class UsageError(Told):
    """Bad input: one line says what was wrong and what would be right. The command line exits with code 2."""


class Failed(Told):
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
    return UsageError(f"unknown {what} {str(given)!r}; valid: {', '.join(valid)}{hint}")


def forget_interrupt() -> None:
    """Ctrl-C was dealt with: the exit code is the caller's, and nothing more is said on the way out.

    Python notes an interrupt that came through code of a string, as dataclasses are made by; `python -m` would then end by the
    signal whatever the exit code. Other code of a string takes the note back. And objects of libraries that were left half made
    complain when they are thrown away.
    """
    sys.unraisablehook = lambda _: None
    exec("")
