"""What a page shows of rows that are as they were is not drawn again: it lies in _build/shown, a file for each thing shown.

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
"""What tells one row from another: a row never changes."""


class RenderCache:
    """A table, figure or note that is drawn when somebody asks for more than its HTML and text, or these are not known."""

    def __init__(self, path: Path, key: str, draw: Callable[[], Any]) -> None:
        """path: where HTML and text are kept. key: of all that they are made from."""
        self._path, self._key, self._draw = path, key, draw

    @cached_property
    def drawn(self) -> Any:
        """The thing itself."""
        return self._draw()

    @cached_property
    def _known(self) -> Mapping[str, str]:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found: dict[str, str] = json.loads(self._path.read_text(encoding="utf-8"))
            if found.get("made from") == self._key and {"html", "text"} <= found.keys():
                return found
        made = {"made from": self._key, "html": self.drawn.html, "text": repr(self.drawn)}
        with contextlib.suppress(OSError):
            write_whole(self._path, json.dumps(made))
        return made

    @property
    def html(self) -> str:
        return self._known["html"]

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self._known["text"]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # a notebook asks for many that nobody has
            raise AttributeError(name)
        return getattr(self.drawn, name)


def key_of(*made_from: Any) -> str:
    """A key of all that something is made from, as it stands: rows by what tells them apart, records by their fields."""
    return hashlib.sha256("\0".join(map(_said, made_from)).encode()).hexdigest()


def _said(thing: Any) -> str:
    if is_dataclass(thing) and not isinstance(thing, type):
        return f"{type(thing).__name__}({', '.join(_said(getattr(thing, each.name)) for each in fields(thing))})"
    if hasattr(thing, "itertuples"):
        return _rows(thing)
    if isinstance(thing, Mapping):
        return f"{{{', '.join(f'{name!r}: {_said(each)}' for name, each in thing.items())}}}"
    if isinstance(thing, set | frozenset):
        return repr(sorted(thing, key=repr))
    return repr(thing)


def _rows(rows: pd.DataFrame) -> str:
    told = [name for name in ROW if name in rows]
    return "\n".join(map(repr, zip(*(rows[name].astype(str) for name in told), strict=True)))
