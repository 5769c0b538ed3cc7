"""Structures of pointers, which WGSL lacks: a kernel takes what they point to instead, as arguments of its own.

A kernel that only sets a structure's pointers is left to the host. It binds what they point to wherever the structure is given.
"""

import re
from typing import NamedTuple

_STRUCTURE = re.compile(r"\bstruct (\w+) \{\s*((?:\w+ )+)(\*[\w\s,*]+);\s*\};")
_SETS_POINTERS = re.compile(r"_Noreturn void (\w+)\([^)]*\) \{((?:\s*\w+->\w+ = \w+;)+)\s*\}")


class TextWithoutPointers(NamedTuple):
    """A kernel's text without structures of pointers."""

    text: str
    """Rewritten text, with as many lines as before."""
    setters: list[str]
    """Names of the kernels that only set pointers: the text has them no more."""


def spread(text: str) -> TextWithoutPointers:
    """Return a text in which `grid->f0` of a parameter `struct nine *grid` is a parameter `grid_f0`."""
    structures = _STRUCTURE.findall(text)
    if not structures:
        return TextWithoutPointers(text, [])
    text = _STRUCTURE.sub(_blank, text)
    setters = [name for name, _ in _SETS_POINTERS.findall(text)]
    text = _SETS_POINTERS.sub(_blank, text)
    for structure, pointee, declared in structures:
        fields = re.findall(r"\w+", declared)
        parameter = re.compile(rf"(?:\b(?:volatile|const) )*\bstruct {structure} \*(?:restrict )?(\w+)")
        for name in set(parameter.findall(text)):
            text = re.sub(rf"\b{name}->(\w+)", rf"{name}_\1", text)
        text = parameter.sub(", ".join(rf"{pointee}*\1_{field}" for field in fields), text)
    return TextWithoutPointers(text, setters)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")
