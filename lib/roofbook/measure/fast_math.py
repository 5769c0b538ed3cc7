"""Detection of fast mathematics that a variant does not declare, in compiler options and in pragmas.

Fast mathematics lets a compiler re-order sums and approximate divisions and roots, so a kernel does another amount of work
than its neighbours on the ladder. The option `fast_math` of a variant declares it. Used by verify.
"""

import re
from collections.abc import Iterable, Sequence

from ..spec.plan import Variant

_SWITCH = re.compile(
    r"""-cl-(?:fast-relaxed-math|unsafe-math-optimizations|finite-math-only|mad-enable|no-signed-zeros|denorms-are-zero)
    |--?use[_-]fast[_-]math|--?ftz=true|--?prec-(?:div|sqrt)=false
    |-Ofast|-ff(?:ast|inite|p-model=(?:fast|aggressive))\S*|-f(?:unsafe-math-optimizations|associative-math|reciprocal-math)
    |-f(?:no-signed-zeros|no-honor-\w+|approx-func|denormal-fp-math=\S+)|-mrecip\S*|-mlow-precision\S*""",
    re.X,
)
"""Pattern of compiler options that change the results of sums, quotients or roots."""
_PRAGMA = re.compile(
    r"""clang\ fp\ .*\(\ ?(?:on|fast)|(?:STDC|OPENCL)\ (?:FP_CONTRACT|CX_LIMITED_RANGE)\ ON|fp_contract\ ?\(\ ?on
    |float_control\ ?\(\ ?precise\ ?,\ ?off|(?:GCC|clang)\ optimize.*(?:fast|unsafe|math)""",
    re.X,
)
_ATTRIBUTE = re.compile(r'__attribute__[\s(]+(?:__)?optimize(?:__)?\s*\(\s*"[^"]*(?:fast|unsafe|math)[^"]*"[\s)]*')
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_LINE = re.compile(r"""^[ \t]*\#[ \t]*pragma[ \t]+([^\n]*)|_Pragma\s*\(\s*"((?:\\.|[^"\\])*)"\s*\)""", re.M)


class FastMath(Exception):
    """A kernel was compiled with fast mathematics that its variant does not declare."""


def switches(options: Iterable[str]) -> list[str]:
    """Return the options of a compiler that switch fast mathematics on.

    >>> switches(["-O3", "-cl-std=CL1.2", "-cl-mad-enable"])
    ['-cl-mad-enable']
    """
    return [word for option in options for word in str(option).split() if _SWITCH.fullmatch(word)]


def pragmas(text: str) -> list[str]:
    r"""Return the pragmas and attributes of a kernel's text that switch fast mathematics on.

    >>> pragmas("#pragma unroll\n#pragma clang fp reassociate(on)\n")
    ['#pragma clang fp reassociate(on)']
    """
    code = _COMMENT.sub(" ", text.replace("\\\n", " "))
    lines = [" ".join((match[1] or match[2]).split()) for match in _LINE.finditer(code) if match[1] or match[2]]
    return [
        *(f"#pragma {line}" for line in lines if _PRAGMA.search(line)),
        *(match[0] for match in _ATTRIBUTE.finditer(code)),
    ]


def check_declared(variant: Variant, builds: Iterable[tuple[str, Sequence[str]]], host_flags: str = "") -> None:
    """Raise FastMath if a variant was built with fast mathematics and does not declare it.

    builds: texts and options of its kernels. host_flags: compiler flags of its C program. A peer is a library or a program as
    its users have it, and declares nothing.
    """
    if variant.options.get("fast_math") or variant.role == "peer":
        return
    for text, options in [*builds, ("", [host_flags])]:
        for switch in (*switches(options), *pragmas(text)):
            raise FastMath(f"it is compiled with {switch}; only a variant with the option fast_math may be")
