"""The one error a user can cause. Shown as a single line everywhere: shell, notebook, papermill."""


class UsageError(Exception):
    """Bad input: the message says what was wrong and what would be right. The command line exits with code 2."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook for a custom traceback: a reader's typo needs no stack."""
        return [f"{type(self).__name__}: {self}"]


def one_of(what: str, given: object, valid: "list[str] | tuple[str, ...]") -> UsageError:
    """The error for a name that is not in a list, with the closest valid ones first.

    >>> str(one_of("scale", "quik", ["quick", "published"]))
    "unknown scale 'quik'; valid: quick, published (did you mean 'quick'?)"
    """
    import difflib

    close = difflib.get_close_matches(str(given), valid, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return UsageError(f"unknown {what} {str(given)!r}; valid: {', '.join(valid)}{hint}")
