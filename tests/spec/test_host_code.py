"""Identity of code, of pages and of plans: a hash of their effect, whatever their form."""

from __future__ import annotations

import importlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from roofbook.errors import UsageError
from roofbook.paths import LIBRARY
from roofbook.spec import host_code, registry
from roofbook.spec.host_code import hash_of_code, hash_of_plan, hash_of_text
from roofbook.spec.source import Source

CODE = '''"""A module."""
import os

LIMIT = 3
"""How many."""

def count(n: int) -> int:
    """Count."""
    # as far as it goes
    return min(n, LIMIT)
'''


def hash_of(text: str, name: str = "a.py") -> str:
    return hash_of_code([(name, text.encode())])


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ('"""A module."""', '"""Another text."""\n\n'),
        ('"""How many."""', ""),
        ('    """Count."""\n', ""),
        ("# as far as it goes", "# no further"),
        ("    return min(n, LIMIT)", "\n\n    return min(\n        n, LIMIT\n    )"),
    ],
)
def test_words_about_code_change_nothing(was: str, now: str) -> None:
    assert was in CODE and hash_of(CODE.replace(was, now)) == hash_of(CODE)
    assert hash_of(CODE, "a.txt") != hash_of(CODE.replace(was, now), "a.txt"), "of other files the text counts"


@pytest.mark.parametrize(
    ("was", "now"), [("LIMIT = 3", "LIMIT = 4"), ("min(", "max("), ("n: int", "n: float"), ("import os", "")]
)
def test_what_code_does_changes_it(was: str, now: str) -> None:
    assert was in CODE and hash_of(CODE.replace(was, now)) != hash_of(CODE)


def test_code_that_is_half_written_counts_as_its_text() -> None:
    assert hash_of("def f(:") != hash_of("def f(: # here") and hash_of("def f(:") == hash_of("def f(:")
    assert hash_of_code([("a.py", b"1"), ("b.py", b"2")]) == hash_of_code([("b.py", b"2"), ("a.py", b"1")])
    assert hash_of_code([("a.py", b"1")]) != hash_of_code([("c.py", b"1")])


PLANS = '''"""Plans."""
import math

from .parts import STEPS, helper, unused

class Base:
    """What both share."""

    def run(self) -> None:
        # in steps
        for _ in range(STEPS):
            helper(self)

class Plan(Base):
    sources = ()

    def facts(self) -> dict:
        return {"steps": 1}

class Other(Base):
    pass
'''
PARTS = """STEPS = 4

def helper(of):
    return math.sqrt(2)

def unused():
    return 1
"""

NUMBERS = count()  # modules are read once by name


@pytest.fixture
def identity(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., str]]:
    """Function that hashes a plan in a new package, made of the texts of its modules."""
    monkeypatch.syspath_prepend(tmp_path)
    packages: list[str] = []

    def identity(plans: str = PLANS, parts: str = PARTS, *, module: str = "parts") -> str:
        packages.append(f"outside{next(NUMBERS)}")
        package = tmp_path / packages[-1]
        package.mkdir()
        for name, text in (("__init__", ""), ("plans", plans), (module, parts)):
            (package / f"{name}.py").write_text(text)
        importlib.invalidate_caches()
        return hash_of_plan(importlib.import_module(f"{packages[-1]}.plans").Plan)

    yield identity
    for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
        del sys.modules[name]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("# in steps", "# one after the other"),
        ('    """What both share."""\n\n', ""),
        ("def run(self) -> None:", "def run(self):"),
        ("import math\n", ""),
        ('{"steps": 1}', '{"steps": 2, "more": 3}'),
        ("class Other(Base):\n    pass", "class Other(Base):\n    more = 1"),
        ("            helper(self)", "            helper(\n                self\n            )"),
    ],
)
def test_what_does_nothing_to_a_launch_leaves_a_plan_the_same(identity: Callable[..., str], was: str, now: str) -> None:
    assert was in PLANS and identity(PLANS.replace(was, now)) == identity()


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("helper(self)", "helper(None)"),
        ("range(STEPS)", "range(STEPS + 1)"),
        ("class Plan(Base)", "class Plan(Other, Base)"),
    ],
)
def test_what_a_plan_does_makes_it_another(identity: Callable[..., str], was: str, now: str) -> None:
    text = PLANS.replace("class Other(Base):\n    pass\n", "").replace(
        "class Plan", "class Other(Base):\n    pass\n\nclass Plan"
    )
    assert was in text and identity(text.replace(was, now)) != identity(text)


@pytest.mark.parametrize(
    ("was", "now", "another"),
    [
        ("STEPS = 4", "STEPS = 5", True),
        ("math.sqrt(2)", "math.sqrt(3)", True),
        ("return 1", "return 2", False),
        ("def helper(of):", "def helper(of: object) -> float:", False),
    ],
)
def test_of_what_a_plan_imports_what_it_uses_counts(
    identity: Callable[..., str], was: str, now: str, another: bool
) -> None:
    assert was in PARTS and (identity(parts=PARTS.replace(was, now)) != identity()) == another


def test_a_plan_is_the_same_wherever_its_parts_stand(identity: Callable[..., str]) -> None:
    assert identity(PLANS.replace(".parts", ".pieces"), module="pieces") == identity()
    within = PLANS.replace("from .parts import STEPS, helper, unused\n", PARTS)
    assert identity(within, "") == identity()
    by_module = PLANS.replace("from .parts import STEPS, helper, unused", "from . import parts")
    by_module = by_module.replace("STEPS", "parts.STEPS").replace("helper(self)", "parts.helper(self)")
    assert identity(by_module) == identity()


NAMED = """
import math
from . import parts
from .parts import _halved

_LIMIT = 5

def _largest(numbers, above=0, *rest, least=1, **options):
    best = above
    for number in numbers:
        if (half := number / 2) > best:
            best = half
    return max([best for best in numbers if best > above], default=least)

class Plan:
    width = 3
    _depth = 4
    taller: int = _depth + 1

    def __init__(self, size):
        self._size, self.area = size, size * self.width
        self._sum = sum

    def run(self, sum=None):
        def inner(step=2):
            nonlocal total
            total += step
            return lambda x, y=total: x + y + step
        total = 0
        try:
            inner(step=3)
        except ValueError as error:
            print(error, sum, total)
        match total:
            case [first, *others]:
                total = first
            case {"key": held, **left}:
                total = held, left
        return _largest(others, above=_LIMIT, least=2), self._half(), self.area

    def _half(self):
        return _halved(self._size) + sum([self._depth]) + parts._halved(2)
"""
HALVED = "def _halved(number):\n    return number / 2\n\ndef whole(number):\n    return number\n"


def renamed(text: str, **names: str) -> str:
    """Return a text with some of its words replaced."""
    for was, now in names.items():
        assert re.search(rf"\b{was}\b", text), was
        text = re.sub(rf"\b{was}\b", now, text)
    return text


@pytest.mark.parametrize(
    "names",
    [
        {"best": "largest"},
        {"numbers": "values", "number": "value", "half": "part"},
        {"above": "floor", "least": "fewest"},
        {"rest": "remaining", "options": "settings"},
        {"size": "length"},
        {"inner": "add", "total": "result", "error": "problem"},
        {"x": "left_side", "y": "right_side"},
        {"first": "head", "others": "tail", "held": "entry", "left": "remainder"},
        {"_largest": "_biggest", "_LIMIT": "_FLOOR"},
        {"_depth": "_height", "_size": "_length", "_half": "_divided", "_sum": "_add"},
        {"self": "this"},
        {"best": "inner", "inner": "best"},
    ],
)
def test_names_that_only_the_code_itself_sees_may_change(identity: Callable[..., str], names: dict[str, str]) -> None:
    assert identity(renamed(NAMED, **names), HALVED) == identity(NAMED, HALVED)


def test_a_private_function_of_another_module_may_be_renamed(identity: Callable[..., str]) -> None:
    texts = (renamed(text, _halved="_by_two") for text in (NAMED, HALVED))
    assert identity(*texts) == identity(NAMED, HALVED)


def test_a_local_name_may_be_that_of_a_definition_that_is_not_used(identity: Callable[..., str]) -> None:
    named = NAMED.replace("import _halved", "import _halved, whole")
    assert identity(renamed(named, best="whole").replace("_halved, whole", "_halved"), HALVED) == identity(
        NAMED, HALVED
    )
    assert identity(renamed(named, total="parts_of", best="whole_of"), HALVED) == identity(NAMED, HALVED)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("width", "height"),
        ("self.area = size", "self.region = size"),
        ("taller", "smaller"),
        ("best = half", "best = number"),
        ("least=2)", "first=2)"),
        ("step=2", "stride=2"),
        ("max([best", "min([best"),
        ("sum([self._depth])", "len([self._depth])"),
        ("self._sum = sum", "self._sum = len"),
        ("x + y + step", "y + x + step"),
        ("lambda x, y=total", "lambda y, x=total"),
        ("_largest(others", "_largest(first"),
        ("print(error, sum", "print(sum, error"),
        ("return _halved(self._size)", "return _halved(self._sum)"),
        ("nonlocal total", "pass"),
        ("_LIMIT = 5", "_LIMIT = 6"),
        ("parts._halved(2)", "parts.whole(2)"),
        ("inner(step=3)", "inner(3)"),
        ("for best in numbers if best > above", "for best in numbers if half > above"),
    ],
)
def test_what_stands_for_something_else_is_another_plan(identity: Callable[..., str], was: str, now: str) -> None:
    assert was in NAMED and identity(NAMED.replace(was, now), HALVED) != identity(NAMED, HALVED)


def test_a_builtin_is_not_taken_for_a_variable_of_another_method(identity: Callable[..., str]) -> None:
    swapped = [renamed(NAMED, sum=name) for name in ("sum", "max", "min")]
    assert len({identity(text.replace("max([best", "sorted([best"), HALVED) for text in swapped}) == 3


ASKED = """
import outside.plans as plans
from roofbook.spec import host_code
print(host_code.hash_of_plan(plans.Plan), host_code._module.cache_info().misses)
"""


def test_between_processes_a_hash_is_kept_until_one_of_its_texts_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(LIBRARY.parent)]))
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    package = tmp_path / "outside"
    package.mkdir()
    listing = PLANS.replace("sources = ()", "sources = (Path(__file__).with_name('steps.c'),)")
    texts = {
        "__init__.py": "",
        "plans.py": f"from pathlib import Path\n{listing}",
        "parts.py": PARTS,
        "steps.c": "int a;",
    }

    def hash_in_new_process(**changed: str) -> tuple[str, bool]:
        """Return the hash, and whether it was computed from code."""
        for name, text in {**texts, **{name.replace("_", "."): text for name, text in changed.items()}}.items():
            (package / name).write_text(text)
        ran = subprocess.run([sys.executable, "-c", ASKED], capture_output=True, text=True, check=True)
        plan_hash, modules = ran.stdout.split()
        return plan_hash, modules != "0"

    first, read = hash_in_new_process()
    assert read and hash_in_new_process() == (first, False)
    for changed in ({"parts_py": PARTS.replace("4", "5")}, {"steps_c": "int b;"}, {"plans_py": PLANS}):
        plan_hash, read = hash_in_new_process(**changed)
        assert read and plan_hash != first, changed
    assert hash_in_new_process(steps_c="int a; // one") == (first, True)
    (hash_file,) = (tmp_path / "cache" / "roofbook" / "plan").iterdir()
    hash_file.write_text("torn")
    assert hash_in_new_process(steps_c="int a; // one") == (first, True)


def test_the_text_of_another_language_counts_but_for_its_comments(identity: Callable[..., str], tmp_path: Path) -> None:
    text = tmp_path / "steps.c"
    plans = PLANS.replace("sources = ()", f"sources = (Path({str(text)!r}),)").replace(
        "import math", "from pathlib import Path"
    )
    hashes = []
    for written in ("int a = 1;", "int a  =  1; // one", "int a = 2;"):
        text.write_text(written)
        hashes.append(identity(plans))
    assert hashes[0] == hashes[1] != hashes[2]


def test_a_plan_without_a_file_has_no_identity() -> None:
    scope: dict[str, Any] = {"__name__": "nowhere"}
    exec("class Plan: pass", scope)
    with pytest.raises(UsageError, match=r"nowhere\.Plan: a plan must stand at the top level of a module in a file"):
        hash_of_plan(scope["Plan"])


@pytest.mark.parametrize(
    ("now", "another"),
    [
        ("// above\n#define N 4\nKERNEL void f(int a) { a += N; }", False),
        ("#define  N  4 /* four */\nKERNEL void f(int a)\n{\n    a+=N;\n}\n", False),
        ("#define N 4\nKERNEL void f(int a) { a + = N; }", True),
        ("#define N 4\nKERNEL void f(int a) { a += N; } //\n", False),
        ("#define N 5\nKERNEL void f(int a) { a += N; }", True),
        ("#define N 4 KERNEL void f(int a) { a += N; }", True),
        ('#define N 4\nKERNEL void f(int a) { a += N; "//"; }', True),
    ],
)
def test_of_kernels_the_tokens_count(now: str, another: bool) -> None:
    text = "#define N 4\nKERNEL void f(int a) { a += N; }"
    assert (hash_of_text(now) != hash_of_text(text)) == another


def test_blank_space_within_a_string_counts() -> None:
    assert hash_of_text('"a  b"') != hash_of_text('"a b"') and hash_of_text("'//'") != hash_of_text("'/'")


def test_every_plan_of_the_labs_has_an_identity_of_its_own_code() -> None:
    for lab in registry.names():
        for plan in {variant.plan for variant in registry.get(lab).all_variants()}:
            assert len(hash_of_plan(plan)) == 64


def test_hashes_of_recorded_rows_are_those_of_plans_that_are_still_the_same() -> None:
    """Remove the hash of a plan that has changed from the file: it stands for nothing."""
    recorded = json.loads(host_code.RECORDED.read_text())
    plans = {variant.plan for lab in (*registry.names(), "peaks") for variant in registry.get(lab).all_variants()}
    assert set(recorded.values()) <= {hash_of_plan(plan) for plan in plans}


def test_a_source_reads_alike_whatever_the_locale_and_an_editors_mark(tmp_path: Path) -> None:
    plain, marked, latin = (tmp_path / name for name in ("plain.k", "marked.k", "latin.k"))
    text = "// café\r\nint a;\n"
    plain.write_bytes(text.encode())
    marked.write_bytes(text.encode("utf-8-sig"))
    latin.write_bytes(text.encode("latin-1"))
    assert host_code.source_text(plain) == host_code.source_text(marked) == "// café\nint a;\n"
    with pytest.raises(UsageError, match=r"latin\.k is no text in UTF-8 at byte 6: save it as UTF-8"):
        host_code.source_text(latin)


def test_a_kernel_with_an_editors_mark_is_the_same_kernel(tmp_path: Path) -> None:
    text = '#include "part.inc"\nKERNEL(k)(GLOBAL float *x) { x[0] = PART; }\n'
    sources = []
    for name, encoding in (("plain", "utf-8"), ("marked", "utf-8-sig")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "kernel.k").write_text(text, encoding=encoding)
        (folder / "part.inc").write_text("#define PART 1.0f\n", encoding=encoding)
        sources.append(Source.of(folder / "kernel.k"))
    assert sources[0].render("opencl") == sources[1].render("opencl")
    assert "\ufeff" not in sources[1].render("opencl") and "1.0f" in sources[1].render("opencl")
