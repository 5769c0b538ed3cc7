"""The identity of code: hashes that change with its behaviour, but not with its comments, layout or location.

Python is hashed as a syntax tree without comments, docstrings, annotations, import lines and names of modules. In a plan,
names that only its own code uses are left out too (python_names.py). Kernels and C are hashed as tokens. Serves the identity
of measurements, and the decision which pages must be made again.
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
from .python_names import Address, Naming, is_of_module, name_elsewhere, resolve_names, tree_text

PLAN_MODULES = ("roofbook.labs.", "roofbook.peers", "roofbook.spec.kernel_run", "roofbook.spec.kernel_launch")
"""Prefixes of modules whose code drives launches. A definition in them that a plan uses is part of its identity, and so is
one of the package of a lab outside of `roofbook`. Other definitions count by their names alone."""
PACKAGE = "roofbook"
UNTIMED_METHODS = frozenset({
    "facts", "theory", "compilers",
    "traffic", "conditions", "refusal", "timed_units", "small_options", "verified_on", "run_options",
    "judge", "checked_units", "judge_lossy",
})  # fmt: skip
"""Methods of a plan that describe a run or its variants and are not timed: no part of its identity. What they decide of a run,
its units and inputs, is part of it by itself."""

RECORDED = Path(__file__).with_name("recorded_plans.json")
"""File of `_recorded_hashes`. Delete it once all rows have been recorded anew."""

_KIND = "plan"
"""Kind of the files in the cache on the disk that hold hashes of plans: to parse the modules of plans takes long."""
_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|(?P<line>^[ \t]*\#(?:\\\n|[^\n])*)|(?P<token>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[A-Za-z_]\w*"""
    r"""|\.?\d(?:[eEpP][+-]|[\w.])*|<<=|>>=|<<|>>|->|\+\+|--|&&|\|\||[-+*/%&|^=!<>]=|\S)""",
    re.M | re.S,
)


def tokens_of(text: str) -> str:
    """Return kernel text or C without comments, one blank between tokens. A directive of the preprocessor stays a line."""
    tokens: list[str] = []
    for match in _TOKEN.finditer(text):
        if line := match["line"]:
            tokens.append("\n" + " ".join(tokens_of(line.strip()[1:]).split()).join(("#", "\n")))
        elif token := match["token"]:
            tokens.append(token)
    return " ".join(tokens)


def source_text(path: Path) -> str:
    """Read a source file in UTF-8, with or without a byte order mark, whatever the locale. Lines end in a line feed alone.

    Raise UsageError if the text is not UTF-8.
    """
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path.name} is no text in UTF-8 at byte {error.start}: save it as UTF-8") from None


@lru_cache(maxsize=4096)
def hash_of_text(text: str) -> str:
    """Hash kernel or C text, ignoring comments and white space."""
    return _sha256(tokens_of(text).encode())


def hash_of_code(files: Iterable[tuple[str, bytes]]) -> str:
    """Hash files, given as (name, text): Python by its syntax tree, others by their text. The result is cached on the disk."""
    sorted_files = sorted(files)
    texts = json.dumps([sys.version, *((name, _sha256(text)) for name, text in sorted_files)])

    def hash_files() -> str:
        hashes = [
            (name, _hash_of_python(text) if name.endswith(".py") else _sha256(text)) for name, text in sorted_files
        ]
        return _sha256(json.dumps(hashes).encode())

    return cached_text("code", _sha256(texts.encode()), hash_files)


@cache
def hash_of_plan(plan: Callable[..., Any]) -> str:
    """Hash a plan and every class, function and constant it uses, recursively.

    plan: the class or function that drives a variant's launches. The definitions that it uses are taken from PLAN_MODULES;
    UNTIMED_METHODS are left out. Files of its attribute `sources` in other languages are hashed too. Raise UsageError if the
    plan is not at the top level of a module that is a file.
    """
    definition = inspect.unwrap(plan)
    address = definition.__module__, definition.__qualname__.partition(".")[0]
    foreign_files = [path for path in getattr(plan, "sources", ()) if path.suffix != ".py"]
    texts = {str(path): _sha256(path.read_bytes()) for path in foreign_files}
    key = cache_key(__file__, *address)
    cached = json.loads(read_cached(_KIND, key) or "{}")
    if cached.get("texts") == texts and cached["modules"] == _modules(cached["modules"]):
        return _recorded_hashes().get(cached["hash"]) or str(cached["hash"])
    closure = _Closure(definition.__module__)
    closure.add(*address)
    if not closure.definitions:
        raise UsageError(
            f"{definition.__module__}.{definition.__qualname__}: a plan must stand at the top level of a module in a file"
        )
    hashes = [hash_of_text(source_text(path)) for path in foreign_files]
    plan_hash = _sha256(json.dumps([closure.texts(), hashes]).encode())
    to_cache = {"modules": _modules(closure.modules), "texts": texts, "hash": plan_hash}
    write_cached(_KIND, key, json.dumps(to_cache).encode())
    return _recorded_hashes().get(plan_hash, plan_hash)


@cache
def _recorded_hashes() -> dict[str, str]:
    """Return today's hash of a plan -> its hash in recorded rows.

    The rows were made when names of variables counted. Since then plans were also written anew: constants come from the
    kernel's text, and code that several plans share is written once. They queue the same launches and copies as before.
    """
    return dict(json.loads(RECORDED.read_text(encoding="utf-8")))


def _modules(names: Iterable[str]) -> dict[str, str | None]:
    """Return module -> hash of its text, for the named modules and the two that compute hashes of plans."""
    return {name: _hash_of_module(name) for name in sorted({__name__, python_names.__name__, *names})}


@cache
def _hash_of_module(name: str) -> str | None:
    """Hash the text of a module; None if it is not a Python file."""
    path = _file_of_module(name)
    return _sha256(path.read_bytes()) if path else None


def _file_of_module(name: str) -> Path | None:
    """Return the Python file of a module; None if it has none."""
    try:
        spec = importlib.util.find_spec(name)
    except (ModuleNotFoundError, ValueError):  # a notebook's names have no file
        return None
    return Path(spec.origin) if spec and spec.origin and spec.origin.endswith(".py") else None


@dataclass
class _Module:
    """A module as syntax trees."""

    name: str
    definitions: Mapping[str, ast.stmt]
    """Name -> the statement at the top level that defines it."""
    imports: Mapping[str, tuple[str, str | None]]
    """Name that an import binds -> (module, name in that module); (module, None) if it binds the module itself."""


@cache
def _module(name: str) -> _Module | None:
    """Parse a module; None if it is not a Python file."""
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
    """Yield the names that a statement at the top level of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def _imported(node: ast.AST, package: str) -> Iterator[tuple[str, tuple[str, str | None]]]:
    """Yield each name that an import binds, with (module, name in that module), or (module, None) for a module itself."""
    if isinstance(node, ast.ImportFrom):
        parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*parents, *([node.module] if node.module else [])])
        for alias in node.names:
            yield alias.asname or alias.name, (base, alias.name)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.asname or alias.name.partition(".")[0], (alias.name, None)


class _Closure:
    """A plan and all definitions that it uses from PLAN_MODULES and from the package of the module `home`."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.definitions: dict[Address, ast.stmt] = {}
        self.modules = set[str]()
        """All modules that were read."""

    def add(self, module: str, name: str) -> None:
        """Add the definition that a name of a module stands for, and the definitions that it uses, breadth first."""
        pending = [(module, name)]
        for used in pending:  # grows in the loop
            address = self.address_of(*used)
            if address and address not in self.definitions:
                self.definitions[address], uses, modules = _definition(*address)
                self.modules |= modules
                pending += uses

    def address_of(self, module: str, name: str) -> Address | None:
        """Return the address of the definition that a name of a module stands for; None if it is not part of the plan."""
        seen = set[Address]()
        while self._is_part(module) and (module, name) not in seen:
            seen.add((module, name))
            self.modules.add(module)
            parsed = _module(module)
            if parsed is None:
                return None
            if name in parsed.definitions:
                return module, name
            if name not in parsed.imports:
                return None
            module, imported = parsed.imports[name]
            name = imported or ""
        return None

    def texts(self) -> list[str]:
        """Return the definitions as texts, in the order in which they are used."""
        naming = Naming(self.address_of, self.definitions)
        return [naming.write(address) for address in self.definitions]

    def _is_part(self, module: str) -> bool:
        """Return whether definitions of a module are part of the plan."""
        return module.startswith(PLAN_MODULES) or (_top(module) == _top(self.home) != PACKAGE)


def _top(module: str) -> str:
    """Return the first part of a module's name."""
    return module.partition(".")[0]


@cache
def _definition(module: str, name: str) -> tuple[ast.stmt, list[Address], set[str]]:
    """Return a definition as a simplified syntax tree, the names that it uses, and the modules that were read."""
    parsed = _module(module)
    assert parsed
    tree: ast.stmt = pickle.loads(pickle.dumps(parsed.definitions[name]))  # a copy, since it is changed
    resolve_names(tree)
    simplifier = _Simplifier(parsed)
    return simplifier.visit(tree), simplifier.uses, simplifier.modules


class _Simplifier(ast.NodeTransformer):
    """Removes docstrings, annotations, imports and names of modules from a syntax tree, and notes the names that it uses."""

    def __init__(self, module: _Module) -> None:
        self.module = module
        self.uses: list[Address] = []
        """(module, name) of each name of a module that is used, in the order of the text."""
        self.modules: set[str] = set()
        """Modules that were read."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [statement for statement in body if not _is_idle(statement)] or [ast.Pass()]
        return super().generic_visit(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        node.body = [statement for statement in node.body if not UNTIMED_METHODS.intersection(_bound(statement))]
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Turn an annotated assignment into a plain one; a field without a value gets `...` as its value."""
        for child in ast.iter_child_nodes(node.target):
            self.visit(child)
        value = self.visit(node.value) if node.value else ast.Constant(...)
        return ast.Assign([node.target], value)

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """Turn `module.name` into `name`."""
        if isinstance(node.value, ast.Name) and (module := self._module_of(node.value)):
            self.uses.append((module, node.attr))
            return name_elsewhere(module, node.attr)
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        if is_of_module(node) and (node.id in self.module.definitions or node.id in self.module.imports):
            self.uses.append((self.module.name, node.id))
        return node

    def _module_of(self, name: ast.Name) -> str | None:
        """Return the module of this project that a name stands for; None if it stands for no module."""
        if not is_of_module(name) or name.id in self.module.definitions or name.id not in self.module.imports:
            return None
        base, of = self.module.imports[name.id]
        full = f"{base}.{of}" if of else base
        if _top(full) not in (PACKAGE, _top(self.module.name)):
            return None
        self.modules.add(full)
        return full if _module(full) else None


def _is_idle(node: ast.AST) -> bool:
    """Return whether a statement is a docstring or an import."""
    return _is_docstring(node) or isinstance(node, ast.Import | ast.ImportFrom)


@cache
def _hash_of_python(text: bytes) -> str:
    """Hash Python by its syntax tree without comments and docstrings; by its text if that is no valid Python."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return _sha256(text)
    for node in ast.walk(tree):
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [statement for statement in body if not _is_docstring(statement)]
    return _sha256(tree_text(tree).encode())


def _is_docstring(node: ast.AST) -> bool:
    """Return whether a statement is a string alone: a docstring of a module, class, function, constant or attribute."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _sha256(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
