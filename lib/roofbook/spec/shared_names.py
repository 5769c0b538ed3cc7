"""Names that steps of several labs have, such as `unrolled`: a list in which they stand beside each other describes them."""

from functools import cache

from . import registry
from .plan import Variant


@cache
def shared_names() -> frozenset[str]:
    """Return the names of steps that ladders of several labs have."""
    ladders = [{step.name for step in registry.get(name).ladder} for name in registry.names_of_site()]
    names = [name for ladder in ladders for name in ladder]
    return frozenset(name for name in names if names.count(name) > 1)


def described(step: Variant, most: int = 60) -> str:
    """Return what a step changes in at most so many letters if a step of another lab has its name; else ''."""
    if step.name not in shared_names():
        return ""
    words = step.change.replace("`", "").removesuffix(".")
    if len(words) <= most:
        return words
    return f"{words[: most - 1].rpartition(' ')[0].rstrip(',;:')}\u2026"
