"""The body of a function, statement by statement: from pycparser's tree to lines of WGSL."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from pycparser import c_ast

from .expressions import Expressions
from .memory_access import Node, Place, PointerVariable, Symbol, Variable, has_unsigned
from .values import (
    INT,
    LONG,
    NARROW,
    PRIMARY,
    UINT,
    UNARY,
    Address,
    Array,
    NotInWgsl,
    Type,
    Value,
    convert,
    literal,
    promoted,
)

UNROLL, ROLLED = "unroll", "rolled"
"""Labels that stand for pragmas before a loop: one that writes it out, and one that says how often it is unrolled."""
MOST_LINES = 2500
"""Lines that a loop may have when it is written out; a longer one stays a loop."""
MOST_LINES_UNASKED = 512
"""Lines that a loop without a pragma may have when it is written out because it indexes a private array."""


@dataclass
class Body(Expressions):
    """Translates statements into `lines`."""

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
            case c_ast.Label(name=name, stmt=c_ast.For() as loop) if name == ROLLED:
                self.loop(loop)
            case c_ast.Label(name=name, stmt=stmt) if name in (UNROLL, ROLLED):
                self.statement(stmt)  # a pragma before anything else is a hint that WGSL lacks
            case c_ast.For():
                if not (self.around.unroll and self.fixes_places(node) and self.written_out(node, MOST_LINES_UNASKED)):
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

    def fixes_places(self, node: Node) -> bool:
        """Return whether a private array has constant indices once a loop without a pragma is written out.

        Registers have no index, so an array that a loop indexes is in memory. Compilers of C and CUDA write short loops out for
        that; those of WGSL do not, since its loops count their rounds.
        """
        counts = self.counts(node)
        if counts is None:
            return False
        visitor = _IndexedPlaces(counts[0], lambda loop: self.counts(loop) is not None)
        visitor.visit(node.stmt)
        for array, subscripts, counters in visitor.places:
            symbol = self.symbol(array) if self.is_declared(array) else None
            private = isinstance(symbol, Variable) and isinstance(symbol.type, Array)
            if private and all(self.is_known(index, counters) for index in subscripts):
                return True
        return False

    def is_known(self, node: Node, counters: frozenset[str]) -> bool:
        """Return whether an index is a constant once loops over these counters are written out."""
        names = _names(node)
        return names is not None and all(name in counters or self.number(c_ast.ID(name)) is not None for name in names)

    def written_out(self, node: Node, most: int = MOST_LINES) -> bool:
        """Write a loop out if its counter is known, it has `most` lines then, and WGSL takes them. Return whether it is."""
        counts = self.counts(node)
        if counts is None:
            return False
        name, values = counts
        if len(values) > most:
            return False
        before, temporaries, comments = len(self.lines), self.temporaries, self.around.comments
        refused, self.refused = self.refused, False
        for value in values:
            start = len(self.lines)
            with self.block(""):
                self.scopes[-1][name] = Variable("", INT, value)
                self.inner(node.stmt)
            inside = self.lines[start + 1 : -1]
            if not any(re.match(rf" {{{2 * self.depth + 2}}}(let|var) ", line) for line in inside):
                self.lines[start:] = [line[2:] for line in inside]  # no names, no braces
            if self.refused or len(self.lines) - before > most:
                self.refused = refused
                del self.lines[before:]
                self.temporaries, self.around.comments = temporaries, comments
                return False
        self.refused = refused
        return True

    def counts(self, node: Node) -> tuple[str, Sequence[int]] | None:
        """Return the counter of a loop, an `int`, with its values; None if they are unknown, or if the loop can end early."""
        match node:
            case c_ast.For(
                init=c_ast.DeclList(decls=[c_ast.Decl(name=name, init=first) as counter]),
                cond=c_ast.BinaryOp(op=("<" | "<=" | ">" | ">=") as compared, left=c_ast.ID(name=tested), right=last),
                next=(
                    c_ast.UnaryOp(op="p++" | "++" | "p--" | "--", expr=c_ast.ID(name=stepped))
                    | c_ast.Assignment(op="+=" | "-=", lvalue=c_ast.ID(name=stepped))
                ) as update,
            ) if name == tested == stepped:
                by = self.number(update.rvalue) if isinstance(update, c_ast.Assignment) else 1
                start, end = self.number(first), self.number(last)
                kept = not _leaves(node.stmt) and name not in assigned(node.stmt) and not has_unsigned(last)
                if by and start is not None and end is not None and kept:
                    by = -by if "-" in update.op else by
                    beyond = 1 if by > 0 else -1
                    if (by > 0) == ("<" in compared) and self.type_of(counter.type) == INT:
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


class _Leaves(c_ast.NodeVisitor):  # type: ignore[misc]
    """Finds a break, a continue or a return."""

    leaves = False

    def visit_Break(self, node: Node) -> None:
        self.leaves = True

    def visit_Continue(self, node: Node) -> None:
        self.leaves = True

    def visit_Return(self, node: Node) -> None:
        self.leaves = True


class _Assigned(c_ast.NodeVisitor):  # type: ignore[misc]
    """Finds the names that a text sets."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def visit_Assignment(self, node: Node) -> None:
        if isinstance(node.lvalue, c_ast.ID):
            self.names.add(node.lvalue.name)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: Node) -> None:
        if node.op in ("p++", "p--", "++", "--") and isinstance(node.expr, c_ast.ID):
            self.names.add(node.expr.name)
        self.generic_visit(node)


def assigned(node: Node) -> set[str]:
    """Return the names that a function or a statement sets."""
    visitor = _Assigned()
    visitor.visit(node)
    return visitor.names


class _IndexedPlaces(c_ast.NodeVisitor):  # type: ignore[misc]
    """Finds elements of arrays whose subscripts have the counter of a loop."""

    def __init__(self, counter: str, is_counted: Callable[[Node], bool]) -> None:
        self.counter, self.is_counted, self.counters = counter, is_counted, frozenset({counter})
        self.places: list[tuple[str, list[Node], frozenset[str]]] = []
        """(array, subscripts, counters that are known once the loops around it are written out)."""

    def visit_For(self, node: Node) -> None:
        around = self.counters
        if self.is_counted(node):
            self.counters |= {node.init.decls[0].name}
        self.generic_visit(node)
        self.counters = around

    def visit_Label(self, node: Node) -> None:
        self.generic_visit(node.stmt if node.name == ROLLED else node)

    def visit_ArrayRef(self, node: Node) -> None:
        subscripts, base = [], node
        while isinstance(base, c_ast.ArrayRef):
            subscripts.append(base.subscript)
            base = base.name
        names = set[str]().union(*(_names(index) or () for index in subscripts))
        if isinstance(base, c_ast.ID) and self.counter in names:
            self.places.append((base.name, subscripts, self.counters))
        self.generic_visit(node)


def _names(node: Node) -> set[str] | None:
    """Return the names in an index; None if it has anything else than names, integers and arithmetic."""
    match node:
        case c_ast.ID(name=name):
            return {name}
        case c_ast.Constant():
            return set()
        case c_ast.BinaryOp(left=left, right=right):
            first, second = _names(left), _names(right)
            return None if first is None or second is None else first | second
    return None


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
