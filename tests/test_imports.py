"""The rooms of the library in their order: who may import whom; and one name for one thing, in files and in classes.

Every import counts, also one inside a function and one for the type checker alone.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

LIBRARY = Path(__file__).parents[1] / "lib" / "roofbook"

ROOMS = (
    *(
        "escaping",
        "strict_json",
        "terminal",
        "ctrl_c",
        "errors",
        "git",
        "memory",
        "paths",
        "own_python",
        "process_keeper",
        "process_tree",
        "devices",
        "spec",
        "peers",
        "store",
        "measure",
        "analysis",
        "report",
        "book",
        "cli",
        "__main__",
    ),
)
"""In the order in which a figure travels: a room knows those before it. The package itself knows all of them."""

LAB_KNOWS = {"ctrl_c", "errors", "paths", "process_tree", "terminal", "devices", "spec", "peers", "analysis", "report"}
KNOWS_LABS = {"book", "cli"}
FINDS_LABS = ("spec.registry", "labs")
"""The one module that imports the package of the labs, and no lab, to find them by name."""

Import = tuple[str, int, str]
"""Module that imports, its line, and the module that is imported: dotted names below the package, '' the package."""


def module_of(path: Path, library: Path) -> str:
    parts = path.relative_to(library).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def modules(library: Path) -> dict[str, Path]:
    return {module_of(path, library): path for path in sorted(library.rglob("*.py"))}


def statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements of a module, those within others too. None lies within an expression."""
    left: list[ast.AST] = [tree]
    for node in left:  # grows meanwhile
        yield node
        for name in ("body", "orelse", "finalbody", "handlers", "cases"):
            inner = getattr(node, name, ())
            left += inner if isinstance(inner, list) else ()


def imports(library: Path) -> Iterator[Import]:
    """Each import of a module of the package `library`, wherever in a file it is. A name that is no module is its
    package's."""
    paths_by_module = modules(library)
    for module, path in paths_by_module.items():
        package = module if path.name == "__init__.py" else module.rpartition(".")[0]
        for node in statements(tree_of(path)):
            if isinstance(node, ast.Import):
                imported_names = [alias.name for alias in node.names if alias.name.split(".")[0] == library.name]
                yield from ((module, node.lineno, name.partition(".")[2]) for name in imported_names)
            elif isinstance(node, ast.ImportFrom):
                if node.level:
                    above = package.split(".") if package else []
                    base = ".".join(above[: len(above) - node.level + 1] + (node.module or "").split(".")).strip(".")
                elif node.module and node.module.split(".")[0] == library.name:
                    base = node.module.partition(".")[2]
                else:
                    continue
                for alias in node.names:
                    inner = f"{base}.{alias.name}".strip(".")
                    yield module, node.lineno, inner if inner in paths_by_module else base


def allowed(module: str, imported: str) -> bool:
    room, imported_room = module.split(".")[0], imported.split(".")[0]
    if not room or room == imported_room:  # the package, which opens an experiment, and a room's own modules
        return True
    if room == "labs":
        return imported_room in LAB_KNOWS
    if imported_room == "labs":
        return room in KNOWS_LABS or (module, imported) == FINDS_LABS
    return imported_room in ROOMS[: ROOMS.index(room)]


def violations(library: Path) -> list[str]:
    paths_by_module = modules(library)
    offenders = [
        f"{paths_by_module[module].relative_to(library.parent)}:{line}: imports {imported or library.name}"
        for module, line, imported in imports(library)
        if not allowed(module, imported)
    ]
    return list(dict.fromkeys(offenders))  # several names of one module, in one line


def doubled(names: Iterator[tuple[str, str]]) -> list[str]:
    """Names that are there more than once, each with its places."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for name, place in names:
        places[name].append(place)
    return [f"{name}: {', '.join(paths)}" for name, paths in places.items() if len(paths) > 1]


def of_one_lab(path: Path, library: Path) -> str:
    """The lab in whose folder a file lies, '' for none: its names are told from another lab's by the lab's."""
    place = path.relative_to(library).parts
    return place[1] if place[0] == "labs" and len(place) > 2 else ""


def files(library: Path) -> Iterator[tuple[str, str]]:
    """Module files, each of which must have a name of its own, but for those of the labs."""
    for path in sorted(library.rglob("*.py")):
        if path.stem not in ("__init__", "__main__") and not of_one_lab(path, library):
            yield path.stem, str(path.relative_to(library))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def classes(library: Path, lab: str) -> Iterator[tuple[str, str]]:
    """Return the public classes of all rooms and of one lab. A driver's class may have the name of its contract."""
    for path in sorted(library.rglob("*.py")):
        if of_one_lab(path, library) not in ("", lab):
            continue
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                bases = {ast.unparse(base).rpartition(".")[2] for base in node.bases}
                if node.name not in bases:
                    yield node.name, f"{path.relative_to(library)}:{node.lineno}"


def test_every_room_has_its_place() -> None:
    assert {module.split(".")[0] for module in modules(LIBRARY)} == {"", "labs", *ROOMS}


def test_a_room_imports_the_rooms_before_it() -> None:
    offenders = violations(LIBRARY)
    assert not offenders, "\n".join(offenders)


def circle(library: Path) -> list[str]:
    """Return modules that import each other in a circle, in its order; none where there is no circle."""
    imported_by: defaultdict[str, set[str]] = defaultdict(set)
    for module, _, imported in imports(library):
        if imported and imported != module:
            imported_by[module].add(imported)
    try:
        TopologicalSorter(imported_by).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert circle(LIBRARY) == []


@pytest.mark.parametrize(
    ("last", "modules_in_circle"), [("import os", set()), ("from .one import y", {"one", "two", "three"})]
)
def test_a_circle_is_reported(tmp_path: Path, last: str, modules_in_circle: set[str]) -> None:
    texts = {"one": "from . import two", "two": "def late():\n    from .three import x", "three": last}
    for name, text in texts.items():
        (tmp_path / f"{name}.py").write_text(text)
    assert set(circle(tmp_path)) == modules_in_circle


def test_no_two_modules_have_one_name() -> None:
    doubled_names = doubled(files(LIBRARY))
    assert not doubled_names, "\n".join(doubled_names)


def test_no_two_public_classes_have_one_name() -> None:
    """Classes of rooms have different names; so have those of a lab, among themselves and from the rooms'."""
    labs = ["", *(path.parent.name for path in LIBRARY.glob("labs/*/__init__.py"))]
    doubled_names = list(dict.fromkeys(message for lab in labs for message in doubled(classes(LIBRARY, lab))))
    assert not doubled_names, "\n".join(doubled_names)


# -- what the tests above would find -----------------------------------------------------------------------------------

MADE_UP = {
    "__init__.py": "def open():\n    from .book.page import Page\n",
    "errors.py": "",
    "paths.py": "from .errors import UsageError\nimport made_up.errors\nimport os\n",
    "labs/__init__.py": "",
    "labs/one/__init__.py": "from .. import two\nfrom ...report import html\nfrom ...book import page\n",
    "labs/two/__init__.py": "from ...analysis import stats\nfrom ... import UsageError\n",
    "labs/two/plans.py": "from made_up.store.parquet import Store\n",
    "spec/__init__.py": "",
    "spec/lab.py": "if TYPE_CHECKING:\n    from ..report.html import (\n        Cell,\n        Row,\n    )\n",
    "spec/registry.py": "from .. import labs\nfrom ..labs import one\n",
    "spec/source.py": "def late():\n    import made_up.labs.two as two\n    from .. import labs\n",
    "store/__init__.py": "from .parquet import Store\n",
    "store/parquet.py": "from ..spec.lab import Lab\n",
    "analysis/__init__.py": "",
    "analysis/stats.py": "from .. import book, spec, made\n",
    "report/__init__.py": "from . import html\n",
    "report/html.py": "from ..measure_of import nothing\n",
    "book/__init__.py": "from ..labs.one import LAB\nfrom ..report import html\n",
    "book/page.py": "try:\n    from ..cli import main\nexcept ImportError:\n    from ..errors import UsageError\n",
    "cli.py": "from .book.page import Page\nfrom .labs import two\n",
}
"""A package with the mistakes that one could make, and their opposites beside them."""


@pytest.fixture
def made_up(tmp_path: Path) -> Path:
    for name, text in MADE_UP.items():
        path = tmp_path / "made_up" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "made_up"


def test_an_import_against_the_order_is_reported_wherever_it_is(made_up: Path) -> None:
    assert violations(made_up) == [
        "made_up/analysis/stats.py:1: imports book",
        "made_up/analysis/stats.py:1: imports made_up",
        "made_up/book/page.py:2: imports cli",
        "made_up/labs/one/__init__.py:3: imports book.page",
        "made_up/labs/two/__init__.py:2: imports made_up",
        "made_up/labs/two/plans.py:1: imports store.parquet",
        "made_up/report/html.py:1: imports measure_of",
        "made_up/spec/lab.py:2: imports report.html",
        "made_up/spec/registry.py:2: imports labs.one",
        "made_up/spec/source.py:2: imports labs.two",
        "made_up/spec/source.py:3: imports labs",
    ]


def test_a_duplicate_name_is_reported(made_up: Path) -> None:
    (made_up / "labs/two/errors.py").write_text("class Wrong: ...\n")
    (made_up / "labs/one/errors.py").write_text("class Wrong: ...\nclass Store: ...\nclass _Own: ...\n")
    (made_up / "store/parquet.py").write_text("class Store: ...\nclass _Own: ...\nclass Html(str): ...\n")
    (made_up / "report/html.py").write_text("class Html(html.Html): ...\n")
    assert doubled(files(made_up)) == []
    assert doubled(classes(made_up, "two")) == []
    assert doubled(classes(made_up, "one")) == ["Store: labs/one/errors.py:2, store/parquet.py:1"]
    (made_up / "book/html.py").write_text("")
    (made_up / "report/page.py").write_text("class Store: ...\n")
    assert doubled(files(made_up)) == ["html: book/html.py, report/html.py", "page: book/page.py, report/page.py"]
    assert doubled(classes(made_up, "")) == ["Store: report/page.py:1, store/parquet.py:1"]
