"""What a user would pick instead of the book's kernels: each peer is optional and says why when it cannot run."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..spec.lab import Variant


def missing(variant: "Variant") -> str | None:
    """Why a peer cannot run on this machine, as its plan says it in one line; None where it can, and for what is no peer."""
    told = getattr(variant.plan, "missing", None)
    reason: str | None = told() if told else None
    return reason
