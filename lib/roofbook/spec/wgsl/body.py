"""The body of a function, statement by statement: from pycparser's tree to lines of WGSL."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pycparser import c_ast

from .values import (
    ADD,
    AND,
    BITS,
    BOOL,
    FLOAT,
    INT,
    LONG,
    MUL,
    NARROW,
    OR,
    PRIMARY,
    RELATION,
    SHIFT,
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
    common,
    convert,
    literal,
    promoted,
    safe,
)

Node = Any
"""A node of pycparser, which has no types of its own."""

UNROLL = "unroll"
"""Label that stands for the pragma before a loop."""
MOST_LINES = 2500
"""Lines that a loop may have when it is written out; a longer one stays a loop."""
ARITHMETIC = {"+": ADD, "-": ADD, "*": MUL, "/": MUL, "%": MUL}
RELATIONS = ("<", ">", "<=", ">=", "==", "!=")
AXES = "xyz"
UNIFORM = {
    "global_id": "global_invocation",
    "local_id": "local_invocation",
    "group_id": "workgroup",
    "groups": "num_groups",
}
"""Function of the dialect -> parameter of a kernel that answers it."""
SAME = {"fma": "fma", "sqrt": "sqrt", "rsqrt": "inverseSqrt", "fabs": "abs", "exp": "exp", "log": "log"}
"""Functions of floats that WGSL has -> their names there."""


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

    def comments_before(self, line: int) -> list[str]: ...

    def local_memory(self, declared: Node, name: str, element: Type, length: int) -> Memory: ...

    def called(self, name: str, arguments: Sequence["Value | Address"]) -> Value: ...

    def helper(self, name: str, text: str) -> str: ...


@dataclass
class Body:
    """Translates statements into `lines`. A value that needs statements of its own puts them before the statement it is in."""

    around: Surroundings
    result: Type = VOID
    lines: list[str] = field(default_factory=list)
    depth: int = 1
    scopes: list[dict[str, Symbol]] = field(default_factory=lambda: [{}])
    temporaries: int = 0

    # Names

    def symbol(self, name: str) -> Symbol:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        raise NotInWgsl(f"the name {name}, which the text does not declare")

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
                symbol = self.symbol(name)
                return symbol.number if isinstance(symbol, Variable) else None
            case c_ast.UnaryOp(op="-", expr=inner):
                value = self.number(inner)
                return None if value is None else -value
            case c_ast.TernaryOp():
                condition = self.number(node.cond)
                return None if condition is None else self.number(node.iftrue if condition else node.iffalse)
            case c_ast.BinaryOp(op=op, left=left, right=right):
                first, second = self.number(left), self.number(right)
                if first is None or second is None:
                    return None
                operations: dict[str, Callable[[int, int], int]] = {
                    "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__,
                    ">": int.__gt__, "<": int.__lt__, ">=": int.__ge__, "<=": int.__le__, "<<": int.__lshift__,
                    ">>": int.__rshift__, "==": int.__eq__, "!=": int.__ne__,
                }  # fmt: skip
                return int(operations[op](first, second)) if op in operations else None
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
                if self.is_pointer(base):
                    return self.address(base).plus(self.value(subscript))
                array = self.place(base)
                if isinstance(array, Place) and isinstance(array.type, Array):
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

    # Expressions

    def condition(self, node: Node) -> Value:
        return convert(self.value(node), BOOL)

    def value(self, node: Node) -> Value:
        """Return the value of an expression."""
        if isinstance(node, c_ast.Constant):
            return self.constant_value(node)
        if isinstance(node, c_ast.ID) and (number := self.number(node)) is not None:
            return literal(number)
        if isinstance(node, (c_ast.ID, c_ast.ArrayRef)):
            return self.load(self.place(node))
        if isinstance(node, c_ast.StructRef):
            return self.component(node)
        if isinstance(node, c_ast.Cast):
            return self.cast(node)
        if isinstance(node, c_ast.UnaryOp):
            return self.unary(node)
        if isinstance(node, c_ast.BinaryOp):
            return self.binary(node.op, self.value(node.left), self.value(node.right))
        if isinstance(node, c_ast.TernaryOp):
            return self.choice(node)
        if isinstance(node, c_ast.FuncCall):
            return self.call(node)
        if isinstance(node, c_ast.Assignment):
            self.assign(node)
            return self.load(self.place(node.lvalue))
        raise NotInWgsl(f"an expression of C that is a {type(node).__name__}")

    def constant_value(self, node: Node) -> Value:
        if "int" in node.type:
            if "long" in node.type:
                raise NotInWgsl("integers of 64 bits")
            number = int(node.value.rstrip("uUlL"), 0)
            kind = UINT if "u" in node.value.lower().removeprefix("0x") else INT
            if kind == UINT and node.value.lower().startswith("0x"):
                return Value(node.value.lower(), UINT, PRIMARY, number)
            return literal(number, kind)
        if node.type == "float":
            return Value(node.value.lower(), FLOAT)
        raise NotInWgsl(f"constants of the type {node.type}")

    def component(self, node: Node) -> Value:
        if isinstance(node.name, (c_ast.ID, c_ast.ArrayRef, c_ast.StructRef)) or (
            isinstance(node.name, c_ast.UnaryOp) and node.name.op == "*"
        ):
            return self.load(self.place(node))
        vector = self.value(node.name)
        return Value(f"{vector.at(PRIMARY)}.{node.field.name}", vector.type.scalar)

    def cast(self, node: Node) -> Value:
        type = self.type_of(node.to_type)
        if isinstance(node.to_type.type, c_ast.PtrDecl):
            raise NotInWgsl("pointers as numbers")
        value = self.value(node.expr)
        if type == LONG:
            return convert(promoted(value), LONG)
        if type.kind in NARROW:
            size, signed = NARROW[type.kind], type.kind.startswith("i")
            return Value(
                f"extractBits({convert(value, INT if signed else UINT).code}, 0u, {size}u)", INT if signed else UINT
            )
        return convert(value, type)

    def unary(self, node: Node) -> Value:
        match node.op:
            case "*":
                return self.load(self.place(node))
            case "!":
                return Value(f"!{self.condition(node.expr).at(UNARY)}", BOOL, UNARY)
            case "-" | "~":
                value = promoted(self.value(node.expr))
                number = None if value.number is None else -value.number if node.op == "-" else ~value.number
                if number is not None and value.type == INT:
                    return literal(number)
                return Value(f"{node.op}{value.at(PRIMARY)}", value.type, UNARY)
            case "+":
                return promoted(self.value(node.expr))
            case "p++" | "p--" | "++" | "--":
                place = self.place(node.expr)
                before = self.temporary("before")
                if node.op.startswith("p"):
                    self.emit(f"let {before} = {self.load(place).code};")
                self.step(node)
                value = self.load(place)
                return Value(before, value.type) if node.op.startswith("p") else value
        raise NotInWgsl(f"the operator {node.op}")

    def binary(self, op: str, left: Value, right: Value) -> Value:
        if op in ("&&", "||"):
            level = AND if op == "&&" else OR
            first, second = convert(left, BOOL), convert(right, BOOL)
            operands = [value.code if value.level in (level, *range(RELATION, PRIMARY + 1)) else f"({value.code})"
                        for value in (first, second)]  # fmt: skip
            return Value(f" {op} ".join(operands), BOOL, level)
        if op in ("<<", ">>"):
            first, shift = promoted(left), convert(promoted(right), UINT)
            return Value(f"{first.at(UNARY)} {op} {shift.at(UNARY)}", first.type, SHIFT)
        if op in ("&", "|", "^") and left.type == right.type == BOOL and op != "^":
            return Value(f"{left.at(UNARY)} {op} {right.at(UNARY)}", BOOL, BITS)
        first, second, type = common(left, right)
        if type.kind == "i64" and op not in ("+", "-", "*"):
            raise NotInWgsl("integers of 64 bits")
        if op in RELATIONS:
            if type.lanes > 1:
                raise NotInWgsl("comparisons of vectors as numbers")
            return Value(f"{first.at(SHIFT)} {op} {second.at(SHIFT)}", BOOL, RELATION)
        if op in ARITHMETIC:
            if (number := folded(op, first, second)) is not None:
                return literal(number)
            if type.lanes > 4:
                return self.by_parts(op, [first, second], type)
            level = ARITHMETIC[op]
            return Value(f"{first.at(level)} {op} {second.at(level + 1)}", type, level)
        if op in ("&", "|", "^"):
            return Value(f"{first.at(UNARY)} {op} {second.at(UNARY)}", type, BITS)
        raise NotInWgsl(f"the operator {op}")

    def by_parts(self, name: str, values: Sequence[Value], type: Type) -> Value:
        """Return an operation on vectors of eight or sixteen numbers, by a function on their parts of four."""
        if any(value.type != type for value in values):
            raise NotInWgsl("vectors of eight or sixteen numbers beside others")
        words = {"+": "sum", "-": "difference", "*": "product", "/": "quotient"}
        called = f"{words.get(name, name)}_of_{type.lanes}"
        arguments = [f"a{number}" for number in range(len(values))]
        parts = []
        for part in range(type.lanes // 4):
            operands = [f"{argument}[{part}]" for argument in arguments]
            parts.append(f" {name} ".join(operands) if name in words else f"{name}({', '.join(operands)})")
        heads = ", ".join(f"{argument}: {type.name}" for argument in arguments)
        text = f"fn {called}({heads}) -> {type.name} {{\n  return {type.name}({', '.join(parts)});\n}}"
        return Value(f"{self.around.helper(called, text)}({', '.join(value.code for value in values)})", type)

    def choice(self, node: Node) -> Value:
        """Return `condition ? a : b`: by select if both may be computed, else by an if before the statement."""
        if (number := self.number(node.cond)) is not None:
            return self.value(node.iftrue if number else node.iffalse)
        condition = self.condition(node.cond)
        branches, results = (node.iftrue, node.iffalse), []
        for branch in branches:
            before = len(self.lines)
            value = self.value(branch)
            results.append((value, self.lines[before:]))
            del self.lines[before:]
        first, second, type = self.alike(results[0][0], results[1][0])
        if not any(lines or self.reads_memory(branch) for branch, (_, lines) in zip(branches, results, strict=True)):
            return Value(f"select({second.code}, {first.code}, {condition.code})", type)
        name = self.temporary("chosen")
        self.emit(f"var {name}: {type.name};")
        self.emit(f"if ({condition.code}) {{")
        for value, (_, lines) in zip((first, second), results, strict=True):
            self.lines.extend(f"  {line}" for line in lines)
            self.emit(f"  {name} = {value.code};")
            self.emit("} else {" if value is first else "}")
        return Value(name, type)

    def reads_memory(self, node: Node) -> bool:
        """Return whether an expression reads a buffer or local memory, so that it is not computed in vain."""
        visitor = _Reads(self.is_pointer)
        visitor.visit(node)
        return visitor.reads

    def alike(self, first: Value, second: Value) -> tuple[Value, Value, Type]:
        """Return both values of a choice in one type."""
        if first.type == second.type == BOOL:
            return first, second, BOOL
        first, second, type = common(first, second)
        return convert(first, type), convert(second, type), type

    def call(self, node: Node) -> Value:
        name, nodes = node.name.name, node.args.exprs if node.args else []
        if name in ("global_id", "local_id", "group_id", "groups", "local_size", "global_size"):
            return self.position(name, self.constant(nodes[0]))
        if name in SAME or name in ("min", "max", "abs"):
            values = [promoted(self.value(argument)) for argument in nodes]
            if name in SAME:
                values = [convert(value, Type("f32", value.type.lanes)) for value in values]
            type = values[0].type
            for value in values[1:]:
                type = common(Value("", type), value)[2]
            if type.lanes > 4:
                return self.by_parts(SAME.get(name, name), values, type)
            arguments = ", ".join(convert(value, type).at(SHIFT) for value in values)
            return Value(f"{SAME.get(name, name)}({arguments})", type)
        if name == "float4_of":
            parts = ", ".join(convert(self.value(argument), FLOAT).at(SHIFT) for argument in nodes)
            return Value(f"vec4<f32>({parts})", Type("f32", 4))
        if name in ("as_float", "as_int", "as_uint"):
            return self.bits(self.value(nodes[0]), {"as_float": FLOAT, "as_int": INT, "as_uint": UINT}[name])
        if name == "load_half":
            return promoted(self.load(self.address(nodes[0]).plus(self.value(nodes[1]))))
        if name == "four_bytes":
            low, high, shift = (convert(self.value(argument), UINT).at(SHIFT) for argument in nodes)
            return Value(f"{self.around.helper('four_bytes', FOUR_BYTES)}({low}, {high}, {shift})", UINT)
        if name in ("atomic_add", "atomic_max"):
            return self.atomic(name, self.address(nodes[0]), self.value(nodes[1]))
        arguments_ = [
            self.address(argument) if self.is_pointer(argument) else self.value(argument) for argument in nodes
        ]
        return self.around.called(name, arguments_)

    def position(self, name: str, axis: int) -> Value:
        """Return a work-item's place in the range, or a size of the range."""
        around, lane = self.around, AXES[axis]
        around.axes.add(axis)
        if name == "local_size":
            return Value(f"i32(group_{lane})", INT)
        if name == "global_size":
            return self.binary("*", self.position("groups", axis), self.position("local_size", axis))
        around.builtins.add(UNIFORM[name])
        return Value(f"{UNIFORM[name]}.{lane}", INT)

    def atomic(self, name: str, address: Address, value: Value) -> Value:
        memory, type = address.memory, address.type
        memory.atomic = True
        at = address.index(1).code
        if type == FLOAT and name == "atomic_add":
            added = self.around.helper(f"add_to_{memory.name}", ADD_FLOAT.replace("MEMORY", memory.name))
            self.emit(f"{added}({at}, {convert(value, FLOAT).code});")
            return Value("0", VOID)
        word = {"atomic_add": "atomicAdd", "atomic_max": "atomicMax"}[name]
        return Value(f"{word}(&{memory.name}[{at}], {convert(value, type).code})", type)

    # Statements

    def statements(self, nodes: Sequence[Node]) -> None:
        """Translate statements up to the first that leaves: WGSL has no code behind it."""
        for node in nodes:
            self.statement(node)
            if isinstance(node, (c_ast.Return, c_ast.Break, c_ast.Continue)):
                break

    def statement(self, node: Node) -> None:
        if node is None:
            return
        if getattr(node, "coord", None):
            for comment in self.around.comments_before(node.coord.line):
                self.emit(comment)
        match node:
            case c_ast.Compound():
                with self.block(""):
                    self.statements(node.block_items or [])
            case c_ast.Decl():
                self.declare(node)
            case c_ast.DeclList():
                for declared in node.decls:
                    self.declare(declared)
            case c_ast.Assignment():
                self.assign(node)
            case c_ast.UnaryOp(op="p++" | "p--" | "++" | "--"):
                self.step(node)
            case c_ast.FuncCall():
                self.effect(node)
            case c_ast.ExprList():
                for expression in node.exprs:
                    self.statement(expression)
            case c_ast.If():
                self.branch(node)
            case c_ast.Label(name=name, stmt=c_ast.For() as loop) if name == UNROLL:
                if not (self.around.unroll and self.written_out(loop)):
                    self.loop(loop)
            case c_ast.For():
                self.loop(node)
            case c_ast.While():
                self.general_loop([], node.cond, [], node.stmt)
            case c_ast.DoWhile():
                with self.block("loop"):
                    self.inner(node.stmt)
                    with self.block("continuing"):
                        self.emit(f"break if !{self.condition(node.cond).at(UNARY)};")
            case c_ast.Return(expr=None):
                self.emit("return;")
            case c_ast.Return():
                self.emit(f"return {convert(self.value(node.expr), self.result).code};")
            case c_ast.Break():
                self.emit("break;")
            case c_ast.Continue():
                self.emit("continue;")
            case c_ast.EmptyStatement():
                pass
            case _:
                raise NotInWgsl(f"a statement of C that is a {type(node).__name__}")

    def inner(self, node: Node) -> None:
        """Translate the statements within braces that are there already."""
        self.statements(node.block_items or [] if isinstance(node, c_ast.Compound) else [node])

    def declare(self, node: Node) -> None:
        name, scope = node.name, self.scopes[-1]
        declared = node.type
        local = "_Atomic" in node.quals or "_Atomic" in _quals(declared)
        if isinstance(declared, c_ast.PtrDecl):
            pointer = PointerVariable(self.free(name), self.type_of(declared), None)
            if node.init:
                self.point(pointer, node.init, f"{'let' if 'const' in declared.quals else 'var'} {pointer.name}")
            else:
                self.emit(f"var {pointer.name}: i32;")
            scope[name] = pointer
            return
        if isinstance(declared, c_ast.ArrayDecl):
            scope[name] = self.array(node, local)
            return
        type, code = self.type_of(declared), self.free(name)
        if type == LONG or type.kind in NARROW:
            type = type if type == LONG else INT
        if type == LONG:
            raise NotInWgsl("integers of 64 bits")
        word = "let" if "const" in node.quals and node.init else "var"
        if isinstance(node.init, c_ast.InitList) and set(_numbers(node.init)) != {0}:
            raise NotInWgsl("structures and vectors that begin with other values than zero")
        if node.init is None or isinstance(node.init, c_ast.InitList):
            self.emit(f"var {code}: {type.name};")
        elif (
            isinstance(node.init, c_ast.TernaryOp)
            and self.reads_memory(node.init)
            and self.number(node.init.cond) is None
        ):
            self.emit(f"var {code}: {type.name};")
            self.choose(Place(code, type), node.init)
        else:
            value = convert(self.value(node.init), type)
            plain = type.name if value.number is not None or word == "var" else ""
            self.emit(f"{word} {code}{f': {plain}' if plain else ''} = {value.code};")
        scope[name] = Variable(code, type)

    def choose(self, place: Place | Address, node: Node) -> None:
        """Set a place to one of two values, of which only that one is computed."""
        with self.block(f"if ({self.condition(node.cond).code})", "} else {"):
            self.set(place, node.iftrue)
        self.depth += 1
        self.set(place, node.iffalse)
        self.depth -= 1
        self.emit("}")

    def set(self, place: Place | Address, node: Node) -> None:
        if isinstance(node, c_ast.TernaryOp) and self.reads_memory(node) and self.number(node.cond) is None:
            self.choose(place, node)
        else:
            self.store(place, self.value(node))

    def array(self, node: Node, local: bool) -> Symbol:
        lengths, declared = [], node.type
        while isinstance(declared, c_ast.ArrayDecl):
            lengths.append(self.constant(declared.dim))
            declared = declared.type
        element, name = self.type_of(declared), self.free(node.name)
        if local:
            if len(lengths) > 1:
                raise NotInWgsl("arrays of arrays in local memory")
            return self.around.local_memory(node, node.name, element, lengths[0])
        if element.kind in NARROW:
            element = INT
        type: Type | Array = element
        for length in reversed(lengths):
            type = Array(type, length)
        self.emit(f"var {name}: {type.name};")
        if node.init is not None and any(number != 0 for number in _numbers(node.init)):
            if len(lengths) > 1:
                raise NotInWgsl("arrays of arrays that begin with other values than zero")
            for at, value in enumerate(node.init.exprs):
                self.store(Place(f"{name}[{at}]", element), self.value(value))
        return Variable(name, type)

    def point(self, pointer: PointerVariable, node: Node, target: str) -> None:
        address = self.address(node)
        if pointer.memory not in (None, address.memory):
            raise NotInWgsl("pointers that may point into either of two arrays")
        pointer.memory = address.memory
        index = address.index(Address(address.memory, (), pointer.type).unit)
        self.emit(f"{target} = {convert(index, INT).code if index.type != LONG else index.code};")

    def assign(self, node: Node) -> None:
        if isinstance(node.lvalue, c_ast.ID) and isinstance(self.symbol(node.lvalue.name), PointerVariable):
            pointer = self.symbol(node.lvalue.name)
            assert isinstance(pointer, PointerVariable)
            if node.op == "=":
                self.point(pointer, node.rvalue, pointer.name)
            else:
                self.emit(f"{pointer.name} {node.op} {convert(self.value(node.rvalue), INT).code};")
            return
        if node.op == "=":
            if isinstance(node.rvalue, c_ast.TernaryOp):
                self.set(self.place(node.lvalue), node.rvalue)
                return
            value = self.value(node.rvalue)
            self.store(self.place(node.lvalue), value)
            return
        op = node.op.removesuffix("=")
        value, place = self.value(node.rvalue), self.place(node.lvalue)
        if isinstance(place, Place) and isinstance(place.type, Type):
            result = self.binary(op, Value(place.code, place.type), value)
            if result.type == place.type:
                operand = convert(
                    promoted(value), UINT if op in ("<<", ">>") else Type(place.type.kind, value.type.lanes)
                )
                self.emit(f"{place.code} {node.op} {operand.code};")
                return
            self.store(place, result)
            return
        self.store(place, self.binary(op, self.load(place), value))

    def step(self, node: Node) -> None:
        """Translate `i++` and the like."""
        if isinstance(node.expr, c_ast.ID) and isinstance(self.symbol(node.expr.name), PointerVariable):
            pointer = self.symbol(node.expr.name)
            assert isinstance(pointer, PointerVariable)
            self.emit(f"{pointer.name}{node.op[-2:]};")
            return
        place = self.place(node.expr)
        if isinstance(place, Place):
            self.emit(f"{place.code}{node.op[-2:]};")
        else:
            self.store(place, self.binary(node.op[-1], self.load(place), literal(1)))

    def effect(self, node: Node) -> None:
        """Translate a call whose value is not used."""
        name, nodes = node.name.name, node.args.exprs if node.args else []
        if name == "barrier":
            self.emit("workgroupBarrier();")
        elif name == "store_half":
            self.store(self.address(nodes[0]).plus(self.value(nodes[1])), self.value(nodes[2]))
        else:
            value = self.call(node)
            if value.code != "0":
                self.emit(f"{value.code};")

    def branch(self, node: Node) -> None:
        if (number := self.number(node.cond)) is not None:
            chosen = node.iftrue if number else node.iffalse
            if chosen is not None:
                self.statement(chosen)
            return
        with self.block(f"if ({self.condition(node.cond).code})", "}" if node.iffalse is None else "} else {"):
            self.inner(node.iftrue)
        if node.iffalse is not None:
            self.depth += 1
            with self.scope():
                self.inner(node.iffalse)
            self.depth -= 1
            self.emit("}")

    def written_out(self, node: Node) -> bool:
        """Write a loop out if its counter is known, and return whether it is."""
        counts = self.counts(node)
        if counts is None:
            return False
        name, values = counts
        before, temporaries = len(self.lines), self.temporaries
        for value in values:
            start = len(self.lines)
            with self.block(""):
                self.scopes[-1][name] = Variable("", INT, value)
                self.inner(node.stmt)
            inside = self.lines[start + 1 : -1]
            if not any(re.match(rf" {{{2 * self.depth + 2}}}(let|var) ", line) for line in inside):
                self.lines[start:] = [line[2:] for line in inside]  # no names, no braces
            if len(self.lines) - before > MOST_LINES:
                del self.lines[before:]
                self.temporaries = temporaries
                return False
        return True

    def counts(self, node: Node) -> tuple[str, Sequence[int]] | None:
        """Return the counter of a loop with its values; None if they are not known, or the loop has a break."""
        match node:
            case c_ast.For(
                init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first)]),
                cond=c_ast.BinaryOp(op=("<" | "<=" | ">" | ">=") as compared, left=c_ast.ID(name=tested), right=last),
                next=(
                    c_ast.UnaryOp(op="p++" | "++" | "p--" | "--", expr=c_ast.ID(name=stepped))
                    | c_ast.Assignment(op="+=" | "-=", lvalue=c_ast.ID(name=stepped))
                ) as update,
            ) if name == tested == stepped:
                by = self.number(update.rvalue) if isinstance(update, c_ast.Assignment) else 1
                start, end = self.number(first), self.number(last)
                if by and start is not None and end is not None and not _leaves(node.stmt):
                    by, beyond = (-by, -1) if "-" in update.op else (by, 1)
                    return name, range(start, end + (beyond if "=" in compared else 0), by)
        return None

    def loop(self, node: Node) -> None:
        starts = node.init.decls if isinstance(node.init, c_ast.DeclList) else [node.init] if node.init else []
        updates = node.next.exprs if isinstance(node.next, c_ast.ExprList) else [node.next] if node.next else []
        plain = len(starts) <= 1 and len(updates) <= 1
        if plain:
            parts = self.loop_head(starts, node.cond, updates)
            if parts:
                head, scope = parts
                self.scopes.append(scope)
                with self.block(head):
                    self.inner(node.stmt)
                self.scopes.pop()
                return
        self.general_loop(starts, node.cond, updates, node.stmt)

    def loop_head(
        self, starts: Sequence[Node], condition: Node, updates: Sequence[Node]
    ) -> tuple[str, dict[str, Symbol]] | None:
        """Return `for (...; ...; ...)` with the names that it declares; None if a part takes several statements."""
        before, depth = len(self.lines), self.depth
        self.depth = 0
        self.scopes.append({})
        parts = []
        for nodes in (starts, [condition] if condition else [], updates):
            at = len(self.lines)
            for part in nodes:
                if nodes is starts or nodes is updates:
                    self.statement(part)
                else:
                    code = self.condition(part).code
                    self.emit(f"{code};")
            parts.append(self.lines[at:])
        scope, self.depth = self.scopes.pop(), depth
        del self.lines[before:]
        if any(len(lines) > 1 for lines in parts):
            return None
        start, test, update = ("".join(lines).removesuffix(";") for lines in parts)
        return f"for ({start}; {test}; {update})", scope

    def general_loop(self, starts: Sequence[Node], condition: Node, updates: Sequence[Node], body: Node) -> None:
        """Translate a loop whose parts take several statements."""
        with self.block("" if starts else "loop"):
            for start in starts:
                self.statement(start)
            if starts:
                with self.block("loop"):
                    self.round(condition, updates, body)
            else:
                self.round(condition, updates, body)

    def round(self, condition: Node, updates: Sequence[Node], body: Node) -> None:
        if condition is not None:
            self.emit(f"if !{self.condition(condition).at(PRIMARY + 1)} {{ break; }}")
        self.inner(body)
        if updates:
            with self.block("continuing"):
                for update in updates:
                    self.statement(update)


FOUR_BYTES = """// Four bytes of two words, from a byte of the first on.
fn four_bytes(low: u32, high: u32, shift: u32) -> u32 {
  return select((low >> shift) | (high << (32u - shift)), low, shift == 0u);
}"""
ADD_FLOAT = """// WGSL has atomics of integers only: add to a float by comparing and exchanging.
fn add_to_MEMORY(i: i32, value: f32) {
  var seen = atomicLoad(&MEMORY[i]);
  loop {
    let exchange = atomicCompareExchangeWeak(&MEMORY[i], seen, bitcast<u32>(bitcast<f32>(seen) + value));
    if (exchange.exchanged) { break; }
    seen = exchange.old_value;
  }
}"""


def folded(op: str, first: Value, second: Value) -> int | None:
    """Return the value of an operation on two integer literals that are not negative; None for any other."""
    if first.number is None or second.number is None or first.type != INT or min(first.number, second.number) < 0:
        return None
    operations: dict[str, Callable[[int, int], int]] = {
        "+": int.__add__, "-": int.__sub__, "*": int.__mul__, "/": int.__floordiv__, "%": int.__mod__,
    }  # fmt: skip
    return None if op in "/%" and not second.number else operations[op](first.number, second.number)


class _Reads(c_ast.NodeVisitor):  # type: ignore[misc]
    """Finds elements of buffers and of local memory, by the names that are arrays or pointers there."""

    def __init__(self, is_pointer: Callable[[Node], bool]) -> None:
        self.is_pointer, self.reads = is_pointer, False

    def visit_ArrayRef(self, node: Node) -> None:
        self.reads = self.reads or self.is_pointer(node.name)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: Node) -> None:
        self.reads = self.reads or node.op == "*"
        self.generic_visit(node)


class _Leaves(c_ast.NodeVisitor):  # type: ignore[misc]
    """Finds a break or a continue."""

    leaves = False

    def visit_Break(self, node: Node) -> None:
        self.leaves = True

    def visit_Continue(self, node: Node) -> None:
        self.leaves = True


def _leaves(node: Node) -> bool:
    visitor = _Leaves()
    visitor.visit(node)
    return visitor.leaves


def _quals(node: Node) -> list[str]:
    while isinstance(node, c_ast.ArrayDecl):
        node = node.type
    return list(getattr(node, "quals", []))


def _numbers(node: Node) -> Iterator[float]:
    """Yield the numbers of an initialiser; NaN for an expression that is none."""
    if isinstance(node, c_ast.InitList):
        for part in node.exprs:
            yield from _numbers(part)
    else:
        yield float(node.value.rstrip("uUlLfF")) if isinstance(node, c_ast.Constant) else float("nan")
