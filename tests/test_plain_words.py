"""The words of the code: names that describe their value, and docstrings that can be read alone."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from roofbook.paths import LIBRARY

ROOT = Path(__file__).parents[1]
NAMES_ONLY_A_NEIGHBOUR_EXPLAINS = set(
    re.findall(
        r"\w+",
        """each found it mine those these own told said known made kept gone wanted shown here there other others what where why
        whole given all more less both such its theirs beside asked meant rest left_over whoever item items thing things stuff
        obj elem tmp""",
    )
)
WITHOUT_SUBJECT = re.compile(r"(Of |The same|Those |That |What |As `|Whose |It |These |Such )")
MOST_NAMES = 0.01
"""Share of the names of a room that may be of NAMES_ONLY_A_NEIGHBOUR_EXPLAINS: tests of such names need some."""
MOST_WHATS = 0.002
"""Share of the words of a room's docstrings that may be 'what'."""


def rooms() -> dict[str, list[Path]]:
    """Return the Python files of each folder of the library, of its top folder, and of the tests."""
    folders = {folder.name: sorted(folder.rglob("*.py")) for folder in sorted(LIBRARY.iterdir()) if folder.is_dir()}
    named = {name: files for name, files in folders.items() if files}
    return {**named, "roofbook": sorted(LIBRARY.glob("*.py")), "tests": sorted((ROOT / "tests").rglob("*.py"))}


ROOMS = rooms()


def words_of(tree: ast.AST) -> tuple[list[tuple[int, str]], list[tuple[int, str]]]:
    """Return line and text of each name, and of each docstring.

    Names: the variables that code assigns, and parameters. Docstrings: those below a constant or an attribute included.
    """
    names, docstrings = list[tuple[int, str]](), list[tuple[int, str]]()
    left = [tree]
    for node in left:  # grows meanwhile; as ast.walk, in a fifth of its time
        match node:
            case ast.Name():
                if type(node.ctx) is ast.Store:
                    names.append((node.lineno, node.id))
                continue
            case ast.arg():
                names.append((node.lineno, node.arg))
            case ast.Constant():
                continue
            case ast.Expr(value=ast.Constant(value=str(text))):
                docstrings.append((node.lineno, text.strip()))
        for value in node.__dict__.values():
            if isinstance(value, ast.AST):
                left.append(value)
            elif isinstance(value, list):
                left += [part for part in value if isinstance(part, ast.AST)]
    return names, docstrings


class Words(NamedTuple):
    """Path, names and docstrings of a file, each with its line."""

    path: str
    names: list[tuple[int, str]]
    docstrings: list[tuple[int, str]]


@cache  # several tests read a room
def words(room: str) -> list[Words]:
    """Return the words of each file of a room."""
    trees = {
        str(path.relative_to(path.parents[-2])): ast.parse(path.read_text(encoding="utf-8")) for path in ROOMS[room]
    }
    return [Words(path, *words_of(tree)) for path, tree in trees.items()]


def empty_names(room: str) -> tuple[list[str], int]:
    """Return `file:line: name` of each name that only its neighbours explain, and the number of all names."""
    names = [
        (f"{path}:{line}: {name}", name.strip("_"))
        for path, names_of_file, _ in words(room)
        for line, name in names_of_file
        if name not in ("self", "cls", "_")
    ]
    return [path for path, name in names if name in NAMES_ONLY_A_NEIGHBOUR_EXPLAINS], len(names)


def whats(room: str) -> tuple[list[str], int]:
    """Return `file:line` of each docstring with the word 'what', once for each time, and the number of all words."""
    all_words = [
        (f"{path}:{line}", word)
        for path, _, texts in words(room)
        for line, text in texts
        for word in re.findall(r"[a-z']+", text.lower())
    ]
    return [path for path, word in all_words if word == "what"], len(all_words)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_names_say_what_a_value_is(room: str) -> None:
    empty, of_all = empty_names(room)
    assert len(empty) <= MOST_NAMES * of_all, "\n".join(empty)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_docstrings_open_with_a_verb_or_a_noun(room: str) -> None:
    without = [
        f"{path}:{line}: {text.splitlines()[0]}"
        for path, _, texts in words(room)
        for line, text in texts
        if WITHOUT_SUBJECT.match(text)
    ]
    assert not without, "\n".join(without)


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_docstrings_name_things_instead_of_asking_for_them(room: str) -> None:
    places, of_all = whats(room)
    assert len(places) <= MOST_WHATS * of_all, "\n".join(places)


def test_offenders_are_reported() -> None:
    tree = ast.parse(
        'def f(each, *, row):\n    """Of a row."""\n    for found in each:\n        _told = found\nLIMIT = 3\n"""What it is."""'
    )
    names, docstrings = words_of(tree)
    assert names == [(5, "LIMIT"), (1, "each"), (1, "row"), (3, "found"), (4, "_told")]
    assert sorted(docstrings) == [(2, "Of a row."), (6, "What it is.")]
    assert all(WITHOUT_SUBJECT.match(text) for _, text in docstrings)
