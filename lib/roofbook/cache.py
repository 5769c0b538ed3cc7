"""The folder of what can be made again: compiled C, downloaded images, expanded kernels."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path


def cache_dir() -> Path:
    """$XDG_CACHE_HOME/roofbook, or ~/.cache/roofbook."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roofbook"


def text(kind: str, key: str, make: Callable[[], str]) -> str:
    """The text that `make` makes, or what it made for the same key before. A file that is not whole is made again.

    Where the folder cannot be written or read, nothing is kept.
    """
    path = cache_dir() / kind / key
    with contextlib.suppress(OSError, UnicodeDecodeError):
        found, _, kept = path.read_text(encoding="utf-8").partition("\n")
        if found == _digest(kept):
            return kept
    made = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{key}.{os.getpid()}.tmp")
        part.write_text(f"{_digest(made)}\n{made}", encoding="utf-8")
        os.replace(part, path)
    return made


def _digest(kept: str) -> str:
    return hashlib.sha256(kept.encode()).hexdigest()
