"""Restrictions on the points of a search space: Python expressions of knobs, as Kernel Tuner has them, such as `X * Y <= 1024`.

They are evaluated here, not by Python: an expression can compute with numbers and compare, and nothing else.
"""

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import UsageError

Names = Mapping[str, Any]
"""Name -> number, text, or sides such as (16, 4), whose numbers an index names."""

MOST_CHARACTERS = 1000
"""Largest number of characters of an expression."""
MOST_BITS = 4096
"""Largest number of bits of a power."""
_ARITHMETIC: Mapping[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip
_COMPARISONS: Mapping[type[ast.AST], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda value, values: value in values, ast.NotIn: lambda value, values: value not in values,
}  # fmt: skip
_UNARY: Mapping[type[ast.AST], Callable[[Any], Any]] = {
    ast.Not: operator.not_, ast.USub: operator.neg, ast.UAdd: operator.pos,
}  # fmt: skip


class Restriction:
    """A condition that each point of a search space must meet."""

    def __init__(self, expression: str, names: "frozenset[str] | set[str]") -> None:
        """names: those that the expression may have. Raise UsageError, in one line, for an expression of another form."""
        self.expression = " ".join(expression.split())
        if len(expression) > MOST_CHARACTERS:
            raise UsageError(f"the restriction `{self.expression[:40]}...` is longer than {MOST_CHARACTERS} characters")
        try:
            self._tree = ast.parse(self.expression, mode="eval").body
            self._check(self._tree, names)
        except (SyntaxError, ValueError) as error:
            reason = error.msg if isinstance(error, SyntaxError) else error
            raise self._error(f"{reason}") from None
        except (RecursionError, MemoryError):
            raise self._error("it is nested too deeply") from None

    def __call__(self, point: Names) -> bool:
        """Return whether a point meets the condition. Raise UsageError if it has no value there, as for a division by zero."""
        try:
            return bool(self._value(self._tree, point))
        except (TypeError, ValueError, ArithmeticError, IndexError) as error:
            values = ", ".join(f"{name}={point[name]}" for name in sorted(self._used()))
            raise UsageError(f"the restriction `{self.expression}` has no value at {values}: {error}") from None

    def _error(self, reason: str) -> UsageError:
        return UsageError(
            f"`{self.expression}` is no restriction: {reason}; write a comparison of numbers, such as `X * Y <= 1024`"
        )

    def _used(self) -> set[str]:
        return {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}

    def _check(self, node: ast.AST, names: "frozenset[str] | set[str]") -> None:
        """Raise UsageError for a name or a part of an expression that a restriction cannot have."""
        match node:
            case ast.Name(id=name):
                if name not in names:
                    raise self._error(f"there is no knob or size {name}; valid: {', '.join(sorted(names)) or 'none'}")
                return
            case ast.Constant(value=value):
                if isinstance(value, bool | int | float | str):
                    return
            case ast.BinOp(op=op) if type(op) in _ARITHMETIC or isinstance(op, ast.Pow):
                return self._check_all(names, node.left, node.right)
            case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
                return self._check_all(names, operand)
            case ast.BoolOp(values=values):
                return self._check_all(names, *values)
            case ast.Compare(left=left, ops=ops, comparators=right) if all(type(op) in _COMPARISONS for op in ops):
                return self._check_all(names, left, *right)
            case ast.Tuple(elts=members) | ast.List(elts=members):
                return self._check_all(names, *members)
            case ast.Subscript(value=ast.Name() as sides, slice=ast.Constant(value=int())):
                return self._check_all(names, sides)
        raise self._error(f"`{ast.unparse(node)}` is not allowed")

    def _check_all(self, names: "frozenset[str] | set[str]", *nodes: ast.AST) -> None:
        for node in nodes:
            self._check(node, names)

    def _value(self, node: ast.AST, point: Names) -> Any:
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return point[name]
            case ast.UnaryOp(op=op, operand=operand):
                return _UNARY[type(op)](self._value(operand, point))
            case ast.BinOp(left=left, op=op, right=right):
                return _computed(op, _number(self._value(left, point)), _number(self._value(right, point)))
            case ast.BoolOp(op=ast.And(), values=values):
                return all(self._value(value, point) for value in values)
            case ast.BoolOp(values=values):
                return any(self._value(value, point) for value in values)
            case ast.Compare(left=left, ops=ops, comparators=right):
                values = [self._value(part, point) for part in (left, *right)]
                triples = zip(values, ops, values[1:], strict=False)
                return all(_COMPARISONS[type(op)](first, second) for first, op, second in triples)
            case ast.Tuple(elts=members) | ast.List(elts=members):
                return tuple(self._value(member, point) for member in members)
            case ast.Subscript(value=ast.Name(id=name), slice=ast.Constant(value=index)):
                return point[name][index]
        raise AssertionError(f"{ast.unparse(node)} was checked")


def _number(value: Any) -> Any:
    """Return a number. Raise TypeError for any other value: texts and sides can be compared, and no more."""
    if not isinstance(value, int | float):
        raise TypeError(f"{value!r} is no number")
    return value


def _computed(op: ast.operator, left: Any, right: Any) -> Any:
    """Return the result of an operation. Raise ValueError for a power that would have too many digits."""
    if not isinstance(op, ast.Pow):
        return _ARITHMETIC[type(op)](left, right)
    if abs(right) * max(1, abs(left)).__trunc__().bit_length() > MOST_BITS:
        raise ValueError("a power is too large")
    result = left**right
    if isinstance(result, complex):
        raise ValueError("a root of a negative number")
    return result
