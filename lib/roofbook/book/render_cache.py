"""Cache of drawn output in _build/shown, one file for each table or figure: unchanged rows are not drawn again.

Serves `roofbook rerun`, whose page shows one new measurement among hundreds of old ones.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..paths import write_whole

if TYPE_CHECKING:
    import pandas as pd

FOLDER = Path("_build", "shown")
ROW = ("run", "variant", "case", "role", "axis", "point", "started", "status")
"""Columns that identify a row: a row never changes."""


class RenderCache:
    """A table, figure or note that is drawn only if its HTML or text is not cached, or if another attribute is used."""

    def __init__(self, path: Path, key: str, draw: Callable[[], Any]) -> None:
        """path: the cache file. key: hash of all inputs."""
        self._path, self._key, self._draw = path, key, draw

    @cached_property
    def drawn(self) -> Any:
        """The table, figure or note itself."""
        return self._draw()

    @cached_property
    def _cached(self) -> Mapping[str, str]:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            cached: dict[str, str] = json.loads(self._path.read_text(encoding="utf-8"))
            if cached.get("made from") == self._key and {"html", "text"} <= cached.keys():
                return cached
        cached = {"made from": self._key, "html": self.drawn.html, "text": repr(self.drawn)}
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps(cached))
        return cached

    @property
    def html(self) -> str:
        return self._cached["html"]

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self._cached["text"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # notebooks look up many private attributes
            raise AttributeError(name)
        return getattr(self.drawn, name)


def key_of(*made_from: Any) -> str:
    """Return a key of all inputs in their current state: rows by their identifying columns, records by their fields."""
    return hashlib.sha256("\0".join(map(_text_of, made_from)).encode()).hexdigest()


def _text_of(input_: Any) -> str:
    if is_dataclass(input_) and not isinstance(input_, type):
        return (
            f"{type(input_).__name__}({', '.join(_text_of(getattr(input_, field.name)) for field in fields(input_))})"
        )
    if hasattr(input_, "itertuples"):
        return _rows(input_)
    if isinstance(input_, Mapping):
        return f"{{{', '.join(f'{name!r}: {_text_of(value)}' for name, value in input_.items())}}}"
    if isinstance(input_, set | frozenset):
        return repr(sorted(input_, key=repr))
    return repr(input_)


def _rows(rows: pd.DataFrame) -> str:
    names = [name for name in ROW if name in rows]
    return "\n".join(map(repr, zip(*(rows[name].astype(str) for name in names), strict=True)))
