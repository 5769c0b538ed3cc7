"""Peers: the libraries and C programs that a user would pick instead of the book's kernels. Each is optional."""

import os
import shlex
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..spec.lab import Variant


def missing(variant: "Variant") -> str | None:
    """Return the reason, in one line, why a peer cannot run on this machine; None if it can, and for a variant of our own.

    Raises UsageError if the variable CC, which names a compiler, has quotation marks that do not match.
    """
    command = os.environ.get("CC", "")
    try:
        shlex.split(command)  # here, since the code in cc.py is part of the identity of measurements
    except ValueError as error:
        raise UsageError(f"CC={command} is no command: {str(error).lower()}") from None
    reason_of_plan = getattr(variant.plan, "missing", None)
    reason: str | None = reason_of_plan() if reason_of_plan else None
    return reason
