"""The identity of Python code: what it does, whatever is said about it. A comment, a docstring or a blank line changes none."""

import ast
import hashlib
import json
import sys
from collections.abc import Iterable
from functools import cache

from ..paths import cached_text


def hash_of_code(files: Iterable[tuple[str, bytes]]) -> str:
    """Hash of files by name and text: of Python their syntax trees, which are kept between processes, of others the text."""
    listed = sorted(files)
    texts = json.dumps([sys.version, *((name, hashlib.sha256(text).hexdigest()) for name, text in listed)])

    def made() -> str:
        known = [(name, _of_python(text) if name.endswith(".py") else _of(text)) for name, text in listed]
        return _of(json.dumps(known).encode())

    return cached_text("code", _of(texts.encode()), made)


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
    return _of(ast.dump(tree).encode())


def _is_docstring(node: ast.AST) -> bool:
    """Of a module, class or function, or of the name that is assigned above it."""
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _of(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()
