"""Names, types and memory of a function while it is translated: what a name stands for, and how memory is read and set."""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pycparser import c_ast

from .values import (
    ADD,
    INT,
    NARROW,
    PRIMARY,
    TYPES,
    UINT,
    UNARY,
    VOID,
    Address,
    Array,
    Memory,
    NotInWgsl,
    Type,
    Value,
    convert,
    literal,
    safe,
)

Node = Any
"""A node of pycparser, which has no types of its own."""
INT_MIN, INT_MAX = -(2**31), 2**31 - 1


def _quotient(dividend: int, divisor: int) -> int:
    """Return a quotient as C rounds it: toward zero."""
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _remainder(dividend: int, divisor: int) -> int:
    """Return a remainder with the sign of the dividend, as in C."""
    return dividend - divisor * _quotient(dividend, divisor)


OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": _quotient, "%": _remainder, ">": int.__gt__,
    "<": int.__lt__, ">=": int.__ge__, "<=": int.__le__, "<<": int.__lshift__, ">>": int.__rshift__, "==": int.__eq__,
    "!=": int.__ne__,
}  # fmt: skip
"""Operators of C on signed integers that are computed while a text is translated."""


class _Constants(c_ast.NodeVisitor):  # type: ignore[misc]
    """Finds whether an expression has unsigned constants."""

    unsigned = False

    def visit_Constant(self, node: Node) -> None:
        self.unsigned |= "u" in node.value.lower()


def has_unsigned(node: Node) -> bool:
    """Return whether an expression has a constant such as 4u, which makes C compare and divide without a sign."""
    visitor = _Constants()
    visitor.visit(node)
    return visitor.unsigned


@dataclass
class Variable:
    """A variable, or a parameter of a function."""

    code: str
    type: Type | Array
    number: int | None = None
    """Value of the counter of a loop that is written out."""


@dataclass
class PointerVariable:
    """A variable that points into a memory: in WGSL its index there, in elements of `type`."""

    name: str
    type: Type
    memory: Memory | None
    """None until it is first set."""


Symbol = Variable | PointerVariable | Memory


@dataclass(frozen=True)
class Place:
    """Something that can be read and set: a variable, an element of a private array, or a component of a vector."""

    code: str
    type: Type | Array


class Surroundings(Protocol):
    """The parts of a module that a body needs."""

    axes: set[int]
    unroll: bool
    structures: dict[str, dict[str, Type]]
    names: set[str]
    builtins: set[str]
    comments: list[tuple[int, str]]

    def comments_before(self, line: int) -> list[str]: ...

    def local_memory(self, declared: Node, name: str, element: Type, length: int) -> Memory: ...

    def called(self, name: str, arguments: Sequence["Value | Address"]) -> Value: ...

    def helper(self, name: str, text: str) -> str: ...


@dataclass
class MemoryAccess(ABC):
    """Reads and sets places of memory. A value that needs statements of its own puts them before the statement it is in."""

    around: Surroundings
    result: Type = VOID
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    scopes: list[dict[str, Symbol]] = field(default_factory=lambda: [{}])
    temporaries: int = 0
    refused: bool = False
    """Whether constants make an expression that WGSL refuses, even in code that never runs: a quotient by zero, a place
    outside an array."""
    # Names

    def symbol(self, name: str) -> Symbol:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise NotInWgsl(f"the name {name}, which the text does not declare")

    def is_declared(self, name: str) -> bool:
        """Return whether a name stands for something at this place of the text."""
        return any(name in scope for scope in self.scopes)

    def free(self, name: str) -> str:
        """Return a name of WGSL for a variable, other than the names of buffers and local arrays, which it would hide."""
        code = safe(name)
        while code in self.around.names:
            code += "_"
        return code

    @contextmanager
    def scope(self) -> Iterator[None]:
        self.scopes.append({})
        yield
        self.scopes.pop()

    def temporary(self, stem: str) -> str:
        self.temporaries += 1
        return f"{stem}_{self.temporaries}"

    def emit(self, line: str) -> None:
        self.lines.append("  " * self.depth + line)

    @contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        self.emit(f"{head} {{" if head else "{")
        self.depth += 1
        with self.scope():
            yield
        self.depth -= 1
        self.emit(tail)

    # Types and constants

    def type_of(self, node: Node) -> Type:
        """Return the type of a declaration without its pointers and axes."""
        while not isinstance(node, (c_ast.IdentifierType, c_ast.Struct)):
            node = node.type
        if isinstance(node, c_ast.Struct):
            if safe(node.name) not in self.around.structures:
                raise NotInWgsl("structures within others")
            return Type(safe(node.name))
        name = " ".join(word for word in node.names)
        if name not in TYPES:
            raise NotInWgsl(
                "vectors of eight or sixteen numbers" if re.search(r"(8|16)$", name) else f"numbers of the type {name}"
            )
        return TYPES[name]

    def constant(self, node: Node) -> int:
        """Return the value of an expression of constants, such as the length of an array."""
        value = self.number(node)
        if value is None:
            raise NotInWgsl("arrays whose length is no constant")
        return value

    def number(self, node: Node) -> int | None:
        """Return the value of an expression of integer literals; None for any other."""
        match node:
            case c_ast.Constant(type=kind, value=text) if "int" in kind:
                return int(text.rstrip("uUlL"), 0)
            case c_ast.ID(name=name):
                symbol = self.symbol(name) if self.is_declared(name) else None
                return symbol.number if isinstance(symbol, Variable) else None
            case c_ast.UnaryOp(op="-", expr=inner):
                value = self.number(inner)
                return None if value is None else -value
            case c_ast.TernaryOp():
                condition = self.number(node.cond)
                return None if condition is None else self.number(node.iftrue if condition else node.iffalse)
            case c_ast.BinaryOp(op=op, left=left, right=right):
                first, second = self.number(left), self.number(right)
                if first is None or second is None or op not in OPERATIONS:
                    return None
                defined = second != 0 if op in ("/", "%") else 0 <= second < 32 if op in ("<<", ">>") else True
                result = int(OPERATIONS[op](first, second)) if defined else None
                if result is None or not INT_MIN <= result <= INT_MAX:
                    self.refused = True
                    return None
                return None if min(first, second, result) < 0 and has_unsigned(node) else result
        return None

    # Pointers and memory

    def is_pointer(self, node: Node) -> bool:
        match node:
            case c_ast.ID(name=name):
                return isinstance(self.symbol(name), (PointerVariable, Memory))
            case c_ast.BinaryOp(op="+" | "-", left=left, right=right):
                return self.is_pointer(left) or self.is_pointer(right)
            case c_ast.Cast(to_type=to):
                return isinstance(to.type, c_ast.PtrDecl)
            case c_ast.UnaryOp(op="&"):
                return True
        return False

    def address(self, node: Node) -> Address:
        """Return the pointer that an expression is."""
        match node:
            case c_ast.ID(name=name):
                match self.symbol(name):
                    case Memory() as memory:
                        return Address(memory, (), memory.element)
                    case PointerVariable(memory=Memory() as memory) as pointer:
                        return Address(memory, (), pointer.type).plus(Value(pointer.name, INT))
            case c_ast.BinaryOp(op=op, left=left, right=right):
                if op == "+" and self.is_pointer(right):
                    left, right = right, left
                base, index = self.address(left), self.value(right)
                if op == "-":
                    index = Value(f"-{index.at(PRIMARY)}", INT, UNARY)
                return base.plus(index)
            case c_ast.Cast(to_type=to, expr=inner):
                return self.address(inner).seen_as(self.type_of(to))
            case c_ast.UnaryOp(op="&", expr=inner):
                place = self.place(inner)
                if isinstance(place, Address):
                    return place
        raise NotInWgsl("pointers that are neither an argument nor a place in one array")

    def place(self, node: Node) -> Place | Address:
        """Return what an expression names: a place, or the address of an element of memory."""
        match node:
            case c_ast.ID(name=name):
                symbol = self.symbol(name)
                if isinstance(symbol, Variable):
                    return Place(symbol.code, symbol.type)
            case c_ast.ArrayRef(name=base, subscript=subscript):
                number = self.number(subscript)
                if self.is_pointer(base):
                    memory = self.symbol(base.name) if isinstance(base, c_ast.ID) else None
                    self.refused |= number is not None and number < 0 and isinstance(memory, Memory)
                    return self.address(base).plus(self.value(subscript))
                array = self.place(base)
                if isinstance(array, Place) and isinstance(array.type, Array):
                    self.refused |= number is not None and not 0 <= number < array.type.length
                    return Place(f"{array.code}[{self.value(subscript).code}]", array.type.element)
            case c_ast.UnaryOp(op="*", expr=inner):
                return self.address(inner)
            case c_ast.StructRef(name=base, type=".", field=c_ast.ID(name=component)):
                lane = "xyzw".find(component) if len(component) == 1 else "0123".find(component.removeprefix("s"))
                place = self.place(base)
                fields = self.fields(place.type)
                if isinstance(place, Place) and component in fields:
                    return Place(f"{place.code}.{safe(component)}", fields[component])
                if lane >= 0 and isinstance(place, Address):
                    return Address(place.memory, (*place.terms, (literal(lane), 1)), place.type.scalar)
                if lane >= 0 and isinstance(place, Place) and isinstance(place.type, Type) and place.type.lanes <= 4:
                    return Place(f"{place.code}.{'xyzw'[lane]}", place.type.scalar)
        raise NotInWgsl("components of long vectors, and arrays of arrays in local memory")

    def fields(self, type: Type | Array) -> dict[str, Type]:
        """Return the fields of a structure; none for any other type."""
        return self.around.structures.get(type.kind, {}) if isinstance(type, Type) else {}

    def load(self, place: Place | Address) -> Value:
        if isinstance(place, Place):
            if isinstance(place.type, Array):
                raise NotInWgsl("arrays as values")
            return Value(place.code, place.type)
        memory, type = place.memory, place.type
        memory.loads.add(type)
        stored, name = memory.stored, memory.name
        if memory.element.kind in NARROW and memory.space == "storage":
            if type.kind not in NARROW:
                return self.bits(Value(f"{name}[{place.index(place.unit).code}]", UINT), type)
            return Value(f"{self.narrow(memory)}({place.index(1).code})", INT)
        if memory.atomic:
            value = Value(f"atomicLoad(&{name}[{place.index(1).code}])", stored)
        elif stored.lanes == type.lanes:
            value = Value(f"{name}[{place.index(type.lanes).code}]", stored)
        elif type.lanes == 1:
            index = place.index(1)
            lane = f"{index.at(UNARY)} & {stored.lanes - 1}"
            value = Value(f"{name}[{index.at(UNARY)} >> {stored.lanes.bit_length() - 1}u][{lane}]", stored.scalar)
        elif type.lanes > 4:
            index = self.fours(place, stored)
            fours = ", ".join(f"{name}[{index.at(ADD)} + {part}]" for part in range(type.lanes // 4))
            value = Value(f"{type.name}({fours})", type)
        else:
            index = self.kept(place.index(1), "at")
            lanes = [index.code, *(f"{index.at(ADD)} + {lane}" for lane in range(1, type.lanes))]
            parts = ", ".join(f"{name}[{at}]" for at in lanes)
            value = Value(f"vec{type.lanes}({parts})", Type(stored.kind, type.lanes))
        return self.bits(value, type)

    def fours(self, place: Address, stored: Type) -> Value:
        """Return the index of the first of several vectors of four, by which WGSL has a vector of eight or sixteen numbers."""
        if stored.lanes != 4:
            raise NotInWgsl("vectors of eight or sixteen numbers beside others")
        return self.kept(place.index(4), "at")

    def bits(self, value: Value, type: Type) -> Value:
        """Return the bits of a value as another type of the same size."""
        same = value.type.name == type.name
        return value if same else Value(f"bitcast<{type.name}>({value.code})", type)

    def narrow(self, memory: Memory) -> str:
        """Return the name of a function that reads a buffer of narrow integers."""
        kind = memory.element.kind
        size = NARROW[kind]
        per_word = 32 // size
        word = f"{memory.name}[i >> {per_word.bit_length() - 1}u]"
        if kind.startswith("i"):
            word = f"bitcast<i32>({word})"
        picked = f"extractBits({word}, u32(i & {per_word - 1}) * {size}u, {size}u)"
        return self.around.helper(
            f"{memory.name}_at",
            f"// Element i of an array of {size} bits an element, which WGSL has only in words.\n"
            f"fn {memory.name}_at(i: i32) -> i32 {{\n  return {picked if kind.startswith('i') else f'i32({picked})'};\n}}",
        )

    def kept(self, value: Value, stem: str) -> Value:
        """Return a value that is used several times, in a variable of its own unless it is a name or a number."""
        if re.fullmatch(r"\w+", value.code):
            return value
        name = self.temporary(stem)
        self.emit(f"let {name} = {value.code};")
        return Value(name, value.type)

    def store(self, place: Place | Address, value: Value) -> None:
        if isinstance(place, Place):
            if isinstance(place.type, Array):
                raise NotInWgsl("arrays as values")
            self.emit(f"{place.code} = {convert(value, place.type).code};")
            return
        memory, type = place.memory, place.type
        value = convert(value, type) if type.kind not in NARROW else convert(value, INT)
        if memory.element.kind in NARROW and memory.space == "storage":
            raise NotInWgsl("writing bytes or shorts: a word of four has one writer")
        memory.stores.add(type)
        if type.kind in NARROW:
            size = NARROW[type.kind]
            value = Value(f"extractBits({value.code}, 0u, {size}u)", INT)
        stored = memory.stored
        if memory.atomic:
            self.emit(f"atomicStore(&{memory.name}[{place.index(1).code}], {self.bits(value, stored).code});")
        elif stored.lanes == type.lanes:
            self.emit(f"{memory.name}[{place.index(type.lanes).code}] = {self.bits(value, stored).code};")
        elif type.lanes > 4:
            index, value = self.fours(place, stored), self.kept(value, "value")
            for lane in range(type.lanes // 4):
                self.emit(f"{memory.name}[{index.at(ADD)} + {lane}] = {value.code}[{lane}];")
        else:
            index, value = self.kept(place.index(1), "at"), self.kept(value, "value")
            for lane in range(type.lanes):
                at = f"{index.at(ADD)} + {lane}" if lane else index.code
                part = self.bits(Value(f"{value.code}.{'xyzw'[lane]}", type.scalar), stored)
                self.emit(f"{memory.name}[{at}] = {part.code};")

    @abstractmethod
    def value(self, node: Node) -> Value:
        """Return the value of an expression."""
