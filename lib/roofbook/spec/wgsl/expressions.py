"""Expressions: from pycparser's tree to WGSL, with the types that C gives them."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pycparser import c_ast

from .memory_access import MemoryAccess, Node
from .values import (
    ADD,
    AND,
    BITS,
    BOOL,
    FLOAT,
    HALVES,
    INT,
    LONG,
    MUL,
    NARROW,
    OR,
    PRIMARY,
    RELATION,
    SHIFT,
    UINT,
    UNARY,
    VOID,
    Address,
    NotInWgsl,
    Type,
    Value,
    common,
    convert,
    literal,
    promoted,
)

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
OF_SUBGROUP = {
    "subgroup_number": "subgroup_id",
    "subgroup_count": "num_subgroups",
    "subgroup_lane": "subgroup_invocation_id",
}
"""Function of dialect/subgroups.h -> parameter of a kernel that answers it."""
SAME = {"fma": "fma", "sqrt": "sqrt", "rsqrt": "inverseSqrt", "fabs": "abs", "exp": "exp", "log": "log"}
"""Functions of floats that WGSL has -> their names there."""


OF_HALVES = {
    "two_halves": ((FLOAT, FLOAT), "vec2<f16>(vec2<f32>({0}, {1}))", HALVES),
    "both_halves": ((FLOAT,), "vec2<f16>(f16({0}))", HALVES),
    "half_products": ((HALVES, HALVES, HALVES), "fma({0}, {1}, {2})", HALVES),
    "first_half": ((HALVES,), "f32({0}.x)", FLOAT),
    "second_half": ((HALVES,), "f32({0}.y)", FLOAT),
}
"""Function of a text on two numbers of fp16 in a register -> its operands, the same in WGSL, and its result."""


@dataclass
class Expressions(MemoryAccess):
    """Translates expressions into values."""

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
        if name == "subgroup_sum":
            return Value(f"subgroupAdd({convert(self.value(nodes[0]), FLOAT).code})", FLOAT)
        if name in OF_SUBGROUP:
            self.around.builtins.add(OF_SUBGROUP[name])
            return Value(f"i32({OF_SUBGROUP[name]})", INT)
        if name in OF_HALVES:
            return self.of_halves(name, nodes)
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

    def of_halves(self, name: str, nodes: Sequence[Node]) -> Value:
        """Return the value of one of OF_HALVES."""
        operands, result = OF_HALVES[name][0], OF_HALVES[name][2]
        values = [convert(self.value(node), type) for node, type in zip(nodes, operands, strict=True)]
        codes = [value.at(PRIMARY if "{0}." in OF_HALVES[name][1] else SHIFT) for value in values]
        return Value(OF_HALVES[name][1].format(*codes), result)

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

    @abstractmethod
    def assign(self, node: Node) -> None:
        """Translate an assignment."""

    @abstractmethod
    def step(self, node: Node) -> None:
        """Translate `i++` and the like."""


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
