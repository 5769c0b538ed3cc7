"""Changed lines of a step: the difference of its kernel, or of its host code, cut to what a reader takes in at a glance.

Serves the pages' views of a step. `roofbook diff` and the page of kernels have the whole difference.
"""

import ast
import difflib
import inspect
import operator
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from .host_code import PLAN_MODULES

if TYPE_CHECKING:
    from .plan import Variant

MOST = 15
"""Most changed lines of an excerpt."""
_EMPTY = re.compile(r"\s*(?://.*|/?\*.*|#\s.*)?")
"""Body of a changed line that is blank or a comment."""
_SETTING = re.compile(r"\s*#\s*(?:define|undef|include|pragma|if|ifdef|ifndef|endif|else)\b")
_LOOP = re.compile(r"\b(?:for|while)\b")
_BRACE = re.compile(r"\s*[{}]+;?\s*")
_INDENT = 4
LONGEST = 150
"""Most letters of a line in an excerpt: macros of a kernel, written out, may have thousands."""
_SHOWN = tuple(module for module in PLAN_MODULES if not module.startswith("roofbook.spec"))
GAP = "\u22ee"
"""Line of an excerpt in place of lines that did not change, or that it leaves out."""


@dataclass(frozen=True)
class Excerpt:
    """Changed lines of a step. lines: each begins with + or -, or is GAP. changed: number of all changed lines."""

    lines: Sequence[str]
    changed: int
    of_host: bool = False
    """Whether they are of the host's code or its settings rather than of the kernel."""

    @property
    def line_count(self) -> int:
        """Number of changed lines in the excerpt."""
        return sum(line != GAP for line in self.lines)


def excerpt(diff: str, *, of_host: bool = False) -> Excerpt:
    """Return the changed lines of a unified diff: all if they are at most MOST, otherwise those of its innermost loop.

    Blank lines and comments are left out. The weight of a line grows with its indentation, so the choice falls on the part that
    runs most often; among equals, the first. Long lines and continued ones, such as lists of operands, weigh little. Sums
    and products of sizes are worked out, as a compiler does.
    """
    blocks = [[_with_sizes(line) for line in block] for block in _blocks(diff)]
    lines = [(number, line) for number, block in enumerate(blocks) for line in block]
    start = 0
    if len(lines) > MOST:
        weights = [_weight(line, previous) for (_, line), (_, previous) in zip(lines, [(0, ""), *lines], strict=False)]
        sums = [sum(weights[first : first + MOST]) for first in range(len(lines) - MOST + 1)]
        start = max(range(len(sums)), key=lambda first: (sums[first], -first))
    chosen = lines[start : start + MOST]
    while len(lines) > MOST and chosen and _BRACE.fullmatch(chosen[0][1][1:]):
        del chosen[0]
    lines_kept: list[str] = []
    for previous, (number, line) in zip([None, *chosen], chosen, strict=False):
        lines_kept += [GAP] * (previous is not None and previous[0] != number)
        lines_kept.append(line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}\u2026")
    return Excerpt(_dedented(lines_kept), len(lines), of_host)


def of_host(parent: "Variant", variant: "Variant") -> Excerpt:
    """Return the changed lines of the host's code: the options that differ, then those of the plan's class."""
    names = [name for name in {**parent.options, **variant.options} if _option(parent, name) != _option(variant, name)]
    options = [
        f"{mark}{name} = {value!r}"
        for name in names
        for mark, value in (("-", _option(parent, name)), ("+", _option(variant, name)))
        if value is not None
    ]
    if parent.plan is variant.plan:
        return Excerpt(options, len(options), of_host=True)
    before, after = _own_lines(parent.plan, variant.plan), _own_lines(variant.plan, parent.plan)
    code = excerpt("\n".join(difflib.unified_diff(before, after, lineterm="", n=0)), of_host=True)
    room = max(0, MOST - len(options))
    lines = [*options, *[GAP] * bool(options and code.lines), *code.lines][: room + len(options) + bool(options)]
    return Excerpt(lines, len(options) + code.changed, of_host=True)


def _option(variant: "Variant", name: str) -> Any:
    options: Mapping[str, Any] = variant.options
    return options.get(name)


def _own_lines(plan: type, parent_plan: type) -> list[str]:
    """Return the code of a plan and of the classes that it inherits from, without those of its parent's plan."""
    parts = [part for part in plan.__mro__ if part not in parent_plan.__mro__ and part.__module__.startswith(_SHOWN)]
    return [line for part in parts for line in _code_lines(part)]


@cache  # Python parses the whole module to find the source of a class
def _code_lines(plan: type) -> tuple[str, ...]:
    """Return the lines of a class without docstrings, comments and empty bodies; none if its source is not at hand."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(plan)))
    except (OSError, TypeError, SyntaxError):
        return ()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    return tuple(line for line in ast.unparse(tree).splitlines() if line.strip() != "pass")


def _blocks(diff: str) -> list[list[str]]:
    """Return the changed lines of a diff in runs without an unchanged line between them."""
    blocks: list[list[str]] = [[]]
    for line in diff.splitlines():
        if line.startswith(("---", "+++")) and not blocks[-1] and len(blocks) == 1:
            continue  # the head
        if line[:1] in ("+", "-"):
            if not _EMPTY.fullmatch(line[1:]):
                blocks[-1].append(line.rstrip())
        elif blocks[-1]:
            blocks.append([])
    return [block for block in blocks if block]


_OF_SIZES = re.compile(r"(?<![\w\])])\(([\d\s+*/%<?:-]*\d)\)")
"""Expression of integers in parentheses that call no function."""
_OPERATIONS: Mapping[type, Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip


def _with_sizes(line: str) -> str:
    """Return a line in which each expression of integers in parentheses is its value."""
    previous = ""
    while previous != line:
        previous, line = line, _OF_SIZES.sub(_value_text, line)
    return line


def _value_text(match: re.Match[str]) -> str:
    condition, has_choice, choices = match[1].partition("?")
    try:
        if not has_choice:
            return str(_value(match[1]))
        low, high = condition.split("<")
        first, second = choices.split(":")
        return str(_value(first if _value(low) < _value(high) else second))
    except (ValueError, SyntaxError, KeyError, AttributeError, ZeroDivisionError):
        return match[0]


def _value(text: str) -> int:
    """Return the value of sums and products of integers, as C computes it."""

    def of(node: Any) -> int:
        if isinstance(node, ast.Constant):
            return int(str(node.value))
        return _OPERATIONS[type(node.op)](of(node.left), of(node.right))

    return of(ast.parse(text.strip(), mode="eval").body)


def _weight(line: str, previous: str) -> float:
    """Return how much a line tells. previous: the changed line before it."""
    body = line[1:]
    if _SETTING.match(body) or _BRACE.fullmatch(body) or len(line) > LONGEST:
        return 0.25
    if line[0] == "-" or previous.rstrip().endswith((",", "(")):
        return 0.5
    depth = (len(body) - len(body.lstrip())) / _INDENT
    return 1 + depth + bool(_LOOP.search(body))


def _dedented(lines: Sequence[str]) -> list[str]:
    """Return lines without the blanks that all have after their mark."""
    bodies = [line[1:] for line in lines if line != GAP]
    common = min((len(body) - len(body.lstrip()) for body in bodies), default=0)
    return [line if line == GAP else line[0] + line[1 + common :] for line in lines]
