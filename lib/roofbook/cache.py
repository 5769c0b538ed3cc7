"""The folder of what can be made again: compiled C and CUDA, downloaded images, expanded kernels."""

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path


def cache_dir() -> Path:
    """$XDG_CACHE_HOME/roofbook, or ~/.cache/roofbook."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "roofbook"


def text(kind: str, key: str, make: Callable[[], str]) -> str:
    """The text that `make` makes, or what it made for the same key before: as `binary` keeps bytes."""
    return binary(kind, key, lambda: make().encode()).decode()


def binary(kind: str, key: str, make: Callable[[], bytes]) -> bytes:
    """The bytes that `make` makes, or what it made for the same key before. A file that is not whole is made again.

    key: letters and digits, the name of the file. Where the folder cannot be written or read, nothing is kept.
    """
    path = cache_dir() / kind / key
    with contextlib.suppress(OSError):
        found, _, kept = path.read_bytes().partition(b"\n")
        if found == _digest(kept):
            return kept
    made = make()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{key}.{os.getpid()}.tmp")
        part.write_bytes(_digest(made) + b"\n" + made)
        os.replace(part, path)
    return made


def key_of(*parts: str) -> str:
    """A key that other parts do not have."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def _digest(kept: bytes) -> bytes:
    return hashlib.sha256(kept).hexdigest().encode()
