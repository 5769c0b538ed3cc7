"""Programs built by PoCL in a third of the time: only those functions of OpenCL C are declared that a kernel's text names.

PoCL has its compiler read opencl-c.h for each program, 18,000 declarations for a kernel that calls five of these functions.
The declarations here are lines of that file, so that the code of a kernel is the same.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

from roofbook.devices import contract, opencl

GUARD = "_OPENCL_H_"
"""Macro by which opencl-c.h is read once: where it is set, the file is skipped."""
STATEMENT = re.compile(r"^[ \t]*#[^\n]*|^[ \t]*[^#\s][^;]*;", re.M)
"""A directive on one line, or a declaration."""


@cache
def statements() -> list[tuple[str, str]]:
    """Return (name of a function, or '' for anything else; text) for each statement of PoCL's opencl-c.h; [] without it."""
    package = importlib.util.find_spec("pocl_binary_distribution")
    folders = package.submodule_search_locations if package else None
    files = [file for folder in folders or () for file in Path(folder).glob("**/pocl/include/opencl-c.h")]
    if not files:
        return []
    text = re.sub(r"\\[ \t]*\n", " ", files[0].read_text())
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", text, flags=re.S)
    text = re.sub(r"^ *#include .*$", "", text, flags=re.M)  # of a file that PoCL's own header includes
    inside = text.partition(f"#define {GUARD}\n")[2].rpartition("#endif")[0]
    named = [(statement, re.search(r"(\w+)\s*\(", statement)) for statement in STATEMENT.findall(inside)]
    return [
        (name[1] if name and not statement.lstrip().startswith("#") else "", statement) for statement, name in named
    ]


def with_declarations(text: str, options: tuple[str, ...]) -> str:
    """Return a text below the declarations of those functions that it or an option names, its lines numbered as before."""
    words = {*re.findall(r"\w+", text), *re.findall(r"\w+", " ".join(options))}
    kept = [statement for name, statement in statements() if not name or name in words]
    return "\n".join([*kept, "#line 1", text])


@contextmanager
def few_builtins() -> Iterator[None]:
    """Build programs on PoCL with the declarations that they need alone."""
    build = opencl.OpenCLDevice.build

    def quickly(self: opencl.OpenCLDevice, text: str, options: Sequence[str] = ()) -> contract.Program:
        if opencl.POCL in self.device.platform.name and statements():
            return build(self, with_declarations(text, tuple(options)), [*options, f"-D{GUARD}"])
        return build(self, text, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(opencl.OpenCLDevice, "build", quickly)
        yield
