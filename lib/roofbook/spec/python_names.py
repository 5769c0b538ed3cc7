"""Python code as text that does not depend on local and private names. Serves the identity of host code, host_code.py.

A local variable, a parameter, or a private function, class, constant, attribute or method may be renamed, and the text stays
the same.
"""

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Address = tuple[str, str]
"""(module, name at its top level)"""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_IGNORED_FIELDS = {"ctx", "kind", "type_comment", "type_params", "type_ignores"}
_NAME_FIELDS = {"ExceptHandler": "name", "MatchAs": "name", "MatchStar": "name", "MatchMapping": "rest"}
"""Nodes that bind a variable by a string, and the field that holds it."""


def is_private(name: str) -> bool:
    """Return whether a name begins with an underscore, and is none of Python's own such as `__init__`.

    >>> [is_private(name) for name in ("_sum", "__sum", "__init__", "sum", "_")]
    [True, True, False, False, False]
    """
    return name.startswith("_") and name.strip("_") != "" and not (name.startswith("__") and name.endswith("__"))


def tree_text(node: Any) -> str:
    """Return a syntax tree as text with all its names, without line numbers: the same by every version of Python."""
    return _tree_text(node, lambda node: {})


def _tree_text(node: Any, names_of: Callable[[Any], Mapping[str, Any]]) -> str:
    """Return a syntax tree as text. names_of: takes a node, and returns the values that replace some of its fields."""
    if isinstance(node, _Text):
        return node
    if isinstance(node, list):
        return f"[{','.join(_tree_text(part, names_of) for part in node)}]"
    if not isinstance(node, ast.AST):
        return repr(node)
    fields = {name: getattr(node, name, None) for name in node._fields if name not in _IGNORED_FIELDS}
    fields.update(names_of(node))
    texts = (
        f"{name}={_tree_text(value, names_of)}" for name, value in fields.items() if value is not None and value != []
    )
    return f"{type(node).__name__}({','.join(texts)})"


class _Text(str):
    """Text that `_tree_text` returns unchanged, without quotes."""

    __slots__ = ()


class _Scope:
    """The variables of a function, a class body, a comprehension, or the module."""

    def __init__(self, node: ast.AST | None = None, outer: "_Scope | None" = None) -> None:
        self.is_class, self.outer = isinstance(node, ast.ClassDef), outer
        self.names, self.parameters = set[str](), set[str]()
        if isinstance(node, _FUNCTIONS):
            self.parameters = {argument.arg for argument in _arguments(node.args)}
        if node:
            bound, elsewhere = _names_bound_in(node)
            self.names = (bound | self.parameters) - elsewhere

    def owner_of(self, name: str) -> "_Scope | None":
        """Return the scope whose variable a name stands for here; None if it is the module's or Python's own."""
        scope: _Scope | None = self
        while scope and scope.outer:
            if name in scope.names and (scope is self or not scope.is_class):
                return scope
            scope = scope.outer
        return None


def _arguments(arguments: ast.arguments) -> Iterator[ast.arg]:
    """Yield all parameters of a function: first by position, then by keyword, then `*` and `**`."""
    yield from (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    yield from (argument for argument in (arguments.vararg, arguments.kwarg) if argument)


def _names_bound_in(scope: ast.AST) -> tuple[set[str], set[str]]:
    """Return the names that a scope's own code binds, and those that it declares to be another scope's."""
    bound, elsewhere = set[str](), set[str]()
    pending = [*_own_code(scope)]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
            pending += node.decorator_list
            continue
        elif isinstance(node, ast.Global | ast.Nonlocal):
            elsewhere.update(node.names)
        elif isinstance(node, ast.Lambda):
            continue
        elif isinstance(node, _COMPREHENSIONS):  # a name that it assigns by := is bound in the scope around it
            bound.update(inner.target.id for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
            continue
        elif string := getattr(node, _NAME_FIELDS.get(type(node).__name__, ""), None):
            bound.add(string)
        pending += ast.iter_child_nodes(node)
    return bound, elsewhere


def _own_code(scope: ast.AST) -> list[ast.AST]:
    """Return the nodes that run in a scope; defaults and decorators, for example, run in the scope around it."""
    if isinstance(scope, _COMPREHENSIONS):
        return [generator.target for generator in scope.generators]
    body = getattr(scope, "body", [])
    return list(body) if isinstance(body, list) else [body]


def resolve_names(definition: ast.stmt) -> None:
    """Set `node.scope` of each name within a definition to the scope of its variable, or to None if it is the module's.

    definition: a statement at the top level of a module.
    """
    _resolve(definition, _Scope())


def is_of_module(name: ast.Name) -> bool:
    """Return whether a resolved name is the module's or Python's own, and no variable of a function or class."""
    return getattr(name, "scope", None) is None


def name_elsewhere(module: str, name: str) -> ast.Name:
    """Return a resolved name that stands for a name of another module."""
    node = ast.Name(name, ast.Load())
    node.address = module, name  # type: ignore[attr-defined]
    return node


def _resolve(node: ast.AST, scope: _Scope) -> None:
    """Set `scope` of all names in a tree that stands in a scope."""
    if isinstance(node, ast.Name):
        _set_scope(node, node.id, scope)
    elif isinstance(node, ast.arg):
        _set_scope(node, node.arg, scope)
    elif string := getattr(node, _NAME_FIELDS.get(type(node).__name__, ""), None):
        _set_scope(node, string, scope)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        _set_scope(node, node.name, scope)
    if isinstance(node, ast.Global | ast.Nonlocal):
        node.names = []  # each use of such a name has its scope
    if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
        inner = _Scope(node, scope)
        parameters = [*_arguments(node.args)] if isinstance(node, _FUNCTIONS) else []
        inner_ids = {id(part) for part in (*_own_code(node), *parameters)}
        for parameter in parameters:
            _resolve(parameter, inner)
        for part in ast.iter_child_nodes(node):
            for below in ast.iter_child_nodes(part) if isinstance(part, ast.arguments) else [part]:
                if id(below) not in inner_ids:
                    _resolve(below, scope)
                elif below not in parameters:
                    _resolve(below, inner)
    elif isinstance(node, _COMPREHENSIONS):
        inner = _Scope(node, scope)
        first = node.generators[0].iter
        _resolve(first, scope)
        for part in ast.iter_child_nodes(node):
            for below in ast.iter_child_nodes(part) if isinstance(part, ast.comprehension) else [part]:
                if below is not first:
                    _resolve(below, inner)
    else:
        for part in ast.iter_child_nodes(node):
            _resolve(part, scope)


def _set_scope(node: Any, name: str, scope: _Scope) -> None:
    node.scope = scope.owner_of(name)


@dataclass
class Naming:
    """Writes definitions of one closure as text. Names that only the closure uses become numbers; others stay."""

    address_of: Callable[[str, str], Address | None]
    """Takes a module and a name in it. Returns the address of its definition in the closure, or None if it is not there."""
    definitions: Mapping[Address, ast.stmt]
    """All definitions of the closure, with names that `resolve_names` has resolved."""
    _numbers: dict[Any, str] = field(default_factory=dict)
    """Names that became numbers so far."""
    _private_attributes: set[str] = field(init=False)
    """Private names of attributes and methods that the closure defines."""
    _keywords: set[str] = field(init=False)
    """Keywords in calls of functions outside of the closure: parameters with these names are not renamed."""

    def __post_init__(self) -> None:
        nodes = [(address[0], node) for address, tree in self.definitions.items() for node in ast.walk(tree)]
        self._private_attributes = {name for _, node in nodes for name in _attributes_defined(node) if is_private(name)}
        self._keywords = {
            keyword.arg
            for module, node in nodes
            if isinstance(node, ast.Call) and self._parameters_of(node, module) is None
            for keyword in node.keywords
            if keyword.arg
        }

    def write(self, address: Address) -> str:
        """Return a definition as text, node types with their fields: the same by every version of Python."""
        return _tree_text(self.definitions[address], lambda node: self._names_of(node, address[0]))

    def _names_of(self, node: Any, module: str) -> dict[str, Any]:
        """Return the fields of a node that hold names, with the texts that replace them."""
        match node:
            case ast.Name():
                return {"id": self._variable(node, node.id, module)}
            case ast.arg():
                return {"arg": self._variable(node, node.arg, module)}
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                return {"name": self._variable(node, node.name, module)}
            case ast.Attribute():
                return {"attr": self._attribute(node.attr)}
            case ast.Call():
                names = self._parameters_of(node, module) or []
                return {"keywords": [
                    ast.keyword(_Text(f"parameter {names.index(word.arg)}"), word.value) if word.arg in names else word
                    for word in node.keywords
                ]}  # fmt: skip
            case ast.keyword(arg=_Text()):
                return {"arg": node.arg}
        if string := getattr(node, field_name := _NAME_FIELDS.get(type(node).__name__, ""), None):
            return {field_name: self._variable(node, string, module)}
        return {}

    def _variable(self, node: Any, name: str, module: str) -> "_Text":
        """Return the text for a name of a variable or definition."""
        scope = getattr(node, "scope", None)
        if scope is None:
            address = self.address_of(*getattr(node, "address", (module, name)))
            if address is None:
                return _Text(repr(name))
            return self._numbered(address, "definition") if is_private(address[1]) else _Text(repr(address[1]))
        if scope.is_class:
            return self._attribute(name)
        if name in scope.parameters and name in self._keywords:
            return _Text(repr(name))
        return self._numbered((scope, name), "variable")

    def _attribute(self, name: str) -> "_Text":
        """Return the text for a name of an attribute."""
        return self._numbered(name, "attribute") if name in self._private_attributes else _Text(repr(name))

    def _numbered(self, key: Any, kind: str) -> "_Text":
        """Return a kind of name with a number: the same for the same key."""
        return _Text(self._numbers.setdefault(key, f"{kind} {len(self._numbers)}"))

    def _parameters_of(self, call: ast.Call, module: str) -> Sequence[str] | None:
        """Return the parameters of the called function; None if it is not a function of the closure."""
        function = call.func
        if not isinstance(function, ast.Name) or getattr(function, "scope", None):
            return None
        address = self.address_of(*getattr(function, "address", (module, function.id)))
        called = self.definitions.get(address) if address else None
        if not isinstance(called, ast.FunctionDef | ast.AsyncFunctionDef) or called.decorator_list:
            return None
        return [argument.arg for argument in (*called.args.posonlyargs, *called.args.args, *called.args.kwonlyargs)]


def _attributes_defined(node: Any) -> Iterator[str]:
    """Yield the names of attributes that a node defines: by assignment to one, or as a name of a class."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.attr
    elif (scope := getattr(node, "scope", None)) and scope.is_class:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
