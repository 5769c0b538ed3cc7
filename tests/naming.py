"""One test of many variants, files or sizes: a failure says of which."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def naming(subject: object) -> Iterator[None]:
    """Add the name of the subject to an error that is raised within."""
    try:
        yield
    except Exception as failure:
        failure.add_note(f"in the check of {subject}")
        raise
