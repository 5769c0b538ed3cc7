"""The identity of code: what it does, whatever is said about it and wherever it stands.

Of Python it is the syntax tree without comments, docstrings, annotations, import lines and names of modules; of kernels
and C the tokens. Serves the identity of a measurement, and what pages are made from.
"""

import ast
import hashlib
import importlib.util
import inspect
import json
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..paths import cache_key, cached_text, read_cached, write_cached

INSIDE = ("roofbook.labs.", "roofbook.peers", "roofbook.spec.kernel_run")
"""Modules whose code drives launches: what a plan uses of these, or of its own package where a lab lies outside of this
one, is part of its identity. Of all others the names are."""
PACKAGE = "roofbook"
TELLING = ("facts", "theory", "compilers")
"""Methods of a plan that only tell of a run: no part of what was timed."""

_KIND = "plan"
"""Under which hashes of plans are kept between processes: to read their modules takes longer than all else of a plan."""
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<line>^[ \t]*\#(?:\\\n|[^\n])*)|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*"""
    r"""|\.?\d(?:[eEpP][+-]|[\w.])*|<<=|>>=|<<|>>|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|\S)""",
    re.M | re.S,
)


def tokens_of(text: str) -> str:
    """Kernel text or C without comments, its tokens apart by one blank; each line of the preprocessor stays a line."""
    found: list[str] = []
    for match in _TOKEN.finditer(text):
        if line := match["line"]:
            found.append("\n" + " ".join(tokens_of(line.strip()[1:]).split()).join(("#", "\n")))
        elif token := match["token"]:
            found.append(token)
    return " ".join(found)


def source_text(path: Path) -> str:
    """Return a source file's text, whatever the locale: UTF-8, with or without an editor's byte order mark.

    Lines end in a line feed alone. Raises UsageError for what is no such text.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name} is no text in UTF-8 at byte {error.start}: save it as UTF-8") from None


@lru_cache(maxsize=4096)
def hash_of_text(text: str) -> str:
    """Of kernel text or C: comments and white space change none."""
    return _of(tokens_of(text).encode())


def hash_of_code(files: Iterable[tuple[str, bytes]]) -> str:
    """Hash of files by name and text: of Python their syntax trees, which are kept between processes, of others the text."""
    listed = sorted(files)
    texts = json.dumps([sys.version, *((name, hashlib.sha256(text).hexdigest()) for name, text in listed)])

    def made() -> str:
        known = [(name, _of_python(text) if name.endswith(".py") else _of(text)) for name, text in listed]
        return _of(json.dumps(known).encode())

    return cached_text("code", _of(texts.encode()), made)


@cache
def hash_of_plan(plan: Callable[..., Any]) -> str:
    """Of the class or function that drives a variant's launches, and of all classes, functions and constants that it uses.

    Those of INSIDE, wherever they stand; TELLING is left out. What the plan has as `sources`, in another language, counts too.
    Errors: UsageError where the plan does not stand in a file that can be imported.
    """
    own = inspect.unwrap(plan)
    place = own.__module__, own.__qualname__.partition(".")[0]
    others = [path for path in getattr(plan, "sources", ()) if path.suffix != ".py"]
    texts = {str(path): _of(path.read_bytes()) for path in others}
    key = cache_key(__file__, *place)
    known = json.loads(read_cached(_KIND, key) or "{}")
    if known.get("texts") == texts and known["modules"] == _modules(known["modules"]):
        return str(known["hash"])
    reader = _Reader(own.__module__)
    reader.read(*place)
    if not reader.found:
        raise UsageError(
            f"{own.__module__}.{own.__qualname__}: a plan must stand at the top level of a module in a file"
        )
    hashes = [hash_of_text(source_text(path)) for path in others]
    made = _of(json.dumps([sorted(reader.found.values()), hashes]).encode())
    kept = {"modules": _modules(reader.modules), "texts": texts, "hash": made}
    write_cached(_KIND, key, json.dumps(kept).encode())
    return made


def _modules(names: Iterable[str]) -> dict[str, str | None]:
    """The modules that a plan's hash is made from, this one among them, with hashes of their texts."""
    return {name: _hash_of_module(name) for name in sorted({__name__, *names})}


@cache
def _hash_of_module(name: str) -> str | None:
    """Of its text; None where there is no such module, or none in Python."""
    path = _file_of_module(name)
    return _of(path.read_bytes()) if path else None


def _file_of_module(name: str) -> Path | None:
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # as of a notebook's names, which have no file
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@dataclass
class _Module:
    """A module as text: its definitions by name, and what its imports bind: (module, name of it or None)."""

    name: str
    definitions: Mapping[str, ast.stmt]
    imports: Mapping[str, tuple[str, str | None]]


@cache
def _module(name: str) -> _Module | None:
    """None where there is no such module, or none in Python."""
    if (path := _file_of_module(name)) is None:
        return None
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    tree = ast.parse(path.read_text(encoding="utf-8"))
    definitions: dict[str, ast.stmt] = {}
    for node in tree.body:
        for bound in _bound(node):
            definitions[bound] = node
    imports = {bound: to for node in ast.walk(tree) for bound, to in _imported(node, package)}
    return _Module(name, definitions, imports)


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (each.id for each in ast.walk(target) if isinstance(each, ast.Name))


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """What an import binds, and to what: a module, or a name of one."""
    if isinstance(node, ast.ImportFrom):
        up = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*up, *([node.module] if node.module else [])])
        for alias in node.names:
            yield alias.asname or alias.name, (base, alias.name)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], (alias.name, None)


@dataclass
class _Reader:
    """Reads definitions and all that they use, each once: of INSIDE and of the package of `home`, a module."""

    home: str
    found: dict[tuple[str, str], str] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    """All that were looked at."""

    def read(self, module: str, name: str) -> None:
        """A definition of a module, or of the one that it imports it from."""
        if (module, name) in self.found or not self._is_inside(module):
            return
        self.modules.add(module)
        if (known := _module(module)) is None:
            return
        if name in known.definitions:
            self.found[module, name], uses, looked_at = _definition(module, name)
            self.modules |= looked_at
            for place in uses:
                self.read(*place)
        elif name in known.imports:
            base, of = known.imports[name]
            self.read(base, of or "")

    def _is_inside(self, module: str) -> bool:
        return module.startswith(INSIDE) or (_top(module) == _top(self.home) != PACKAGE)


def _top(module: str) -> str:
    return module.partition(".")[0]


@cache
def _definition(module: str, name: str) -> tuple[str, list[tuple[str, str]], set[str]]:
    """A definition as text, what it uses, as modules and names in them, and which modules that was asked of."""
    known = _module(module)
    assert known
    plain = _Plain(known)
    node = plain.visit(pickle.loads(pickle.dumps(known.definitions[name])))  # its own copy
    return _written(node), [*((module, used) for used in plain.used), *plain.places], plain.looked_at


class _Plain(ast.NodeTransformer):
    """Takes away what does nothing: docstrings, annotations, imports, names of modules; and notes the names that are used."""

    def __init__(self, module: _Module) -> None:
        self.module = module
        self.used: list[str] = []
        self.places: list[tuple[str, str]] = []
        self.looked_at: set[str] = set()

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [each for each in body if not _is_idle(each)] or [ast.Pass()]
        return super().generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [each for each in node.body if getattr(each, "name", None) not in TELLING]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """A field keeps its name, and its value where it has one."""
        self.generic_visit_of(node.target)
        value = self.visit(node.value) if node.value else ast.Constant(...)
        return ast.Assign([node.target], value)

    def generic_visit_of(self, target: ast.AST) -> None:
        for each in ast.iter_child_nodes(target):
            self.visit(each)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """`module.name` is `name`."""
        if isinstance(node.value, ast.Name) and (place := self._module_of(node.value.id)):
            self.places.append((place, node.attr))
            return ast.Name(node.attr, ast.Load())
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if node.id in self.module.definitions or node.id in self.module.imports:
            self.used.append(node.id)
        return node

    def _module_of(self, name: str) -> str | None:
        """The module of this project that a name stands for."""
        if name in self.module.definitions or name not in self.module.imports:
            return None
        base, of = self.module.imports[name]
        full = f"{base}.{of}" if of else base
        if _top(full) not in (PACKAGE, _top(self.module.name)):
            return None
        self.looked_at.add(full)
        return full if _module(full) else None


def _is_idle(node: ast.AST) -> bool:
    return _is_docstring(node) or isinstance(node, ast.Import | ast.ImportFrom)


def _written(node: Any) -> str:
    """A syntax tree as text, the same by every version of Python: node types and what they hold, but for places."""
    if isinstance(node, ast.AST):
        held = ((name, getattr(node, name, None)) for name in node._fields if name not in _UNWRITTEN)
        inner = ",".join(f"{name}={_written(value)}" for name, value in held if value is not None and value != [])
        return f"{type(node).__name__}({inner})"
    if isinstance(node, list):
        return f"[{','.join(map(_written, node))}]"
    return repr(node)


_UNWRITTEN = {"ctx", "kind", "type_comment", "type_params", "type_ignores"}


@cache
def _of_python(text: bytes) -> str:
    """Of the syntax tree without comments, docstrings and places; of the text where there is none."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _of(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [each for each in body if not _is_docstring(each)]
    return _of(_written(tree).encode())


def _is_docstring(node: ast.AST) -> bool:
    """Of a module, class or function, or of the name that is assigned above it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
