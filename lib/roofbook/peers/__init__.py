"""What a user would pick instead of the book's kernels: each peer is optional and says why when it cannot run."""

import os
import shlex
from typing import TYPE_CHECKING

from ..errors import UsageError

if TYPE_CHECKING:
    from ..spec.lab import Variant


def missing(variant: "Variant") -> str | None:
    """Why a peer cannot run on this machine, as its plan says it in one line; None where it can, and for what is no peer.

    Errors: UsageError where the quotation marks of CC do not match, which names a compiler.
    """
    given = os.environ.get("CC", "")
    try:
        shlex.split(given)  # here, as what is in cc.py is part of the identity of what it builds
    except ValueError as error:
        raise UsageError(f"CC={given} is no command: {str(error).lower()}") from None
    told = getattr(variant.plan, "missing", None)
    reason: str | None = told() if told else None
    return reason
