"""Record of the inputs of each page, fragment, recorded section and the site, in _build/manifest.json.

A product is stale if an input has changed or if it was edited. A missing or broken manifest has no entries: everything is made
again.
"""

import contextlib
import fcntl
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..paths import open_lock, write_whole

MISSING, UNKNOWN, EDITED = "missing", "unknown", "edited"
"""States that `stale` gives besides names of changed inputs: the product does not exist, is not recorded, or was edited."""

_WORDS = {MISSING: "not made yet", UNKNOWN: "not in the manifest", EDITED: "edited since"}


def reason_text(stale: Sequence[str]) -> str:
    """Return in words why a product is made again.

    >>> reason_text(["kernels", "store"]), reason_text(["library", EDITED]), reason_text([MISSING])
    ('kernels and store changed', 'library changed, edited since', 'not made yet')
    """
    names = [name for name in stale if name not in _WORDS]
    joined = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return ", ".join([f"{joined} changed"] * bool(names) + [_WORDS[name] for name in stale if name in _WORDS])


class Manifest:
    """The manifest of a checkout. Several processes may use it at once, and each may be killed."""

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "_build" / "manifest.json"

    def stale(self, product: Path, made_from: Mapping[str, str]) -> list[str]:
        """Return the names of the inputs that have changed since `product` was made, or MISSING, UNKNOWN, EDITED; empty if
        current.
        """
        record, content = self._record_of(product), _content(product)
        if not record or (content is None and record["content"] is not None):
            return [MISSING if content is None else UNKNOWN]
        old_inputs = record["made_from"]
        changed = [name for name in {**made_from, **old_inputs} if old_inputs.get(name) != made_from.get(name)]
        return changed + [EDITED] * (content != record["content"])

    def record(self, product: Path, made_from: Mapping[str, str], parameters: Mapping[str, Any] | None = None) -> None:
        """Record the inputs and parameters of `product` in its current state, even if it does not exist."""
        with self._locked():
            self._put(product, made_from, parameters)

    def write(
        self,
        product: Path,
        text: str | bytes,
        made_from: Mapping[str, str],
        parameters: Mapping[str, Any] | None = None,
    ) -> None:
        """Write `product` and record it under one lock. Empty text means no file.

        If the text is unchanged, the file keeps its time.
        """
        data = text.encode() if isinstance(text, str) else text
        with self._locked():
            if text:
                if _content(product) != hashlib.sha256(data).hexdigest():
                    write_whole(product, text)
            else:
                product.unlink(missing_ok=True)
            self._put(product, made_from, parameters)

    def forget(self, product: Path) -> None:
        """Remove the record of `product`, before it is made in several steps that may be interrupted."""
        with self._locked():
            self._save({name: record for name, record in self._read().items() if name != self._name(product)})

    def made_from(self, product: Path) -> dict[str, str]:
        """Return the inputs of `product` when it was last recorded; empty if it was not."""
        return dict(self._record_of(product).get("made_from", {}))

    def parameters(self, product: Path) -> dict[str, Any] | None:
        """Return the parameters with which `product` was last made; None if unknown, or if the product was edited.

        It may be gone.
        """
        record = self._record_of(product)
        return dict(record["parameters"]) if record and _content(product) in (None, record["content"]) else None

    def _name(self, product: Path) -> str:
        return product.relative_to(self.root).as_posix()

    def _record_of(self, product: Path) -> dict[str, Any]:
        return self._read().get(self._name(product), {})

    def _put(self, product: Path, made_from: Mapping[str, str], parameters: Mapping[str, Any] | None) -> None:
        record = {"content": _content(product), "made_from": dict(made_from), "parameters": dict(parameters or {})}
        self._save({**self._read(), self._name(product): record})

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            records = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return (
            {name: record for name, record in records.items() if _is_whole(record)} if isinstance(records, dict) else {}
        )

    def _save(self, records: Mapping[str, dict[str, Any]]) -> None:
        write_whole(self.path, json.dumps(records, indent=1, sort_keys=True) + "\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock for one process at a time; the system takes it from a process that dies."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open_lock(self.path.with_suffix(".lock")) as lock:
            with contextlib.suppress(OSError):  # a file system without locks: a lost record is made again
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def build_lock(root: Path, say: Callable[[str], None]) -> Iterator[None]:
    """Hold the lock for making pages and the site: one process of a checkout at a time. A process that must wait reports it."""
    path = root / "_build" / "making.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process makes pages of this book; this one goes on when that is done")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: two processes may both work
            pass
        yield


def _is_whole(record: Any) -> bool:
    return (
        isinstance(record, dict)
        and isinstance(record.get("content"), str | None)
        and all(isinstance(record.get(name), dict) for name in ("made_from", "parameters"))
    )


def _content(product: Path) -> str | None:
    try:
        return hashlib.sha256(product.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
