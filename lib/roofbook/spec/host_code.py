"""The identity of code: what it does, whatever is said about it and wherever it stands.

Python counts as its syntax tree, without comments, docstrings, annotations, import lines and names of modules; in a plan
names that only its own code sees do not count either. Kernels and C count as their tokens. Serves the identity of a
measurement, and what pages are made from.
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
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..paths import cache_key, cached_text, read_cached, write_cached
from . import python_names
from .python_names import Naming, Place, is_of_module, name_elsewhere, resolve_names, written

INSIDE = ("roofbook.labs.", "roofbook.peers", "roofbook.spec.kernel_run")
"""Modules whose code drives launches: what a plan uses of these, or of its own package where a lab lies outside of this
one, is part of its identity. Of all others the names are."""
PACKAGE = "roofbook"
TELLING = ("facts", "theory", "compilers")
"""Methods of a plan that only tell of a run: no part of what was timed."""

RECORDED = Path(__file__).with_name("recorded_plans.json")
"""See `_recorded_hashes`. Once all rows are recorded anew, the file goes."""

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
        return _recorded_hashes().get(known["hash"]) or str(known["hash"])
    closure = _Closure(own.__module__)
    closure.add(*place)
    if not closure.definitions:
        raise UsageError(
            f"{own.__module__}.{own.__qualname__}: a plan must stand at the top level of a module in a file"
        )
    hashes = [hash_of_text(source_text(path)) for path in others]
    made = _of(json.dumps([closure.texts(), hashes]).encode())
    kept = {"modules": _modules(closure.modules), "texts": texts, "hash": made}
    write_cached(_KIND, key, json.dumps(kept).encode())
    return _recorded_hashes().get(made, made)


@cache
def _recorded_hashes() -> dict[str, str]:
    """Hashes of plans as recorded rows have them, made when names of variables counted, by the hash that each plan has now."""
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def _modules(names: Iterable[str]) -> dict[str, str | None]:
    """Return the modules that a plan's hash is made from, with hashes of their texts; those that make it are among them."""
    return {name: _hash_of_module(name) for name in sorted({__name__, python_names.__name__, *names})}


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


class _Closure:
    """A plan and all definitions that it uses, each once: of INSIDE and of the package of `home`, a module."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.definitions: dict[Place, ast.stmt] = {}
        self.modules = set[str]()
        """All that were looked at."""

    def add(self, module: str, name: str) -> None:
        """Add a definition that stands in a module, or that the module imports, and what it uses, breadth first."""
        pending = [(module, name)]
        for used in pending:  # grows meanwhile
            place = self.place_of(*used)
            if place and place not in self.definitions:
                self.definitions[place], uses, looked_at = _definition(*place)
                self.modules |= looked_at
                pending += uses

    def place_of(self, module: str, name: str) -> Place | None:
        """Return where a name of a module is defined; None outside of what is part of a plan."""
        seen = set[Place]()
        while self._is_inside(module) and (module, name) not in seen:
            seen.add((module, name))
            self.modules.add(module)
            known = _module(module)
            if known is None:
                return None
            if name in known.definitions:
                return module, name
            if name not in known.imports:
                return None
            module, imported = known.imports[name]
            name = imported or ""
        return None

    def texts(self) -> list[str]:
        """Return the definitions as texts, in the order in which they are used."""
        naming = Naming(self.place_of, self.definitions)
        return [naming.write(place) for place in self.definitions]

    def _is_inside(self, module: str) -> bool:
        return module.startswith(INSIDE) or (_top(module) == _top(self.home) != PACKAGE)


def _top(module: str) -> str:
    return module.partition(".")[0]


@cache
def _definition(module: str, name: str) -> tuple[ast.stmt, list[Place], set[str]]:
    """Return a definition as a syntax tree of what it does, the names that it uses, and the modules that were looked at."""
    known = _module(module)
    assert known
    tree: ast.stmt = pickle.loads(pickle.dumps(known.definitions[name]))  # its own copy
    resolve_names(tree)
    plain = _Plain(known)
    return plain.visit(tree), plain.uses, plain.looked_at


class _Plain(ast.NodeTransformer):
    """Takes away what does nothing: docstrings, annotations, imports, names of modules; and notes the names that are used."""

    def __init__(self, module: _Module) -> None:
        self.module = module
        self.uses: list[Place] = []
        """In the order of the text."""
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
        if isinstance(node.value, ast.Name) and (module := self._module_of(node.value)):
            self.uses.append((module, node.attr))
            return name_elsewhere(module, node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if is_of_module(node) and (node.id in self.module.definitions or node.id in self.module.imports):
            self.uses.append((self.module.name, node.id))
        return node

    def _module_of(self, name: ast.Name) -> str | None:
        """Return the module of this project that a name stands for; None where it stands for something else."""
        if not is_of_module(name) or name.id in self.module.definitions or name.id not in self.module.imports:
            return None
        base, of = self.module.imports[name.id]
        full = f"{base}.{of}" if of else base
        if _top(full) not in (PACKAGE, _top(self.module.name)):
            return None
        self.looked_at.add(full)
        return full if _module(full) else None


def _is_idle(node: ast.AST) -> bool:
    return _is_docstring(node) or isinstance(node, ast.Import | ast.ImportFrom)


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
    return _of(written(tree).encode())


def _is_docstring(node: ast.AST) -> bool:
    """Of a module, class or function, or of the name that is assigned above it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
