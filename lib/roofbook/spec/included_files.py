"""The files that a stranger's kernel text may include: the lab's kernel files and the dialect, and no other file in any way."""

import re
from collections.abc import Sequence
from pathlib import Path

MAY_INCLUDE = "the lab's own .k, .h and .inc files can be included by their names"
_HARMLESS = re.compile(
    r'\s*#\s*(?:line \d+ "[^"\\\n]*"'
    r"|pragma\s+(?:OPENCL|STDC|once|unroll|nounroll|clang\s+(?:loop|fp)|GCC\s+(?:unroll|ivdep))\b.*)?"
)
"""Directives that may stay in a stranger's expanded text, since none of them opens a file."""
_DIRECTIVE = re.compile(r"\s*(?:#|%:)|.*\*/\s*(?:#|%:)|.*\\\s*$")
"""A line that a compiler takes for a directive, also behind a comment, or a line that continues in the next."""


def may_be_included(file: Path, folders: Sequence[Path]) -> bool:
    """Return whether a file, and the target of a link, is a kernel file in one of these folders."""
    real = file.resolve()
    is_there = real.parent in [folder.resolve() for folder in folders]
    return is_there and all(path.suffix in (".k", ".h", ".inc") for path in (file, real))


def forbidden_directive(expanded: str) -> str:
    """Return the first directive in expanded text without comments by which a compiler may open a file; '' for none.

    It is cut at 60 characters.
    """
    for line in expanded.split("\n"):
        plain = line.replace("??=", "#").replace("??/", "\\")
        pragmas = re.findall(r'_Pragma\s*\(?\s*(?:"([^"]*)")?', plain)
        if (_DIRECTIVE.match(plain) and not _HARMLESS.fullmatch(line)) or not all(
            _HARMLESS.fullmatch(f"#pragma {words}") for words in pragmas
        ):
            return " ".join(line.split())[:60]
    return ""
