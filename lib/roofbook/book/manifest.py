"""What each page, fragment and recorded section, and the site, was made from: in one file, _build/manifest.json.

A thing is stale where anything of this is another now, or where it is not as it was made. A manifest that is missing or torn
knows nothing: all is made again.
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
"""What `stale` gives beside the names of what changed: of a thing that is not there, that the manifest does not know, or that
another hand has changed since."""

_WORDS = {MISSING: "not made yet", UNKNOWN: "not in the manifest", EDITED: "edited since"}


def because(stale: Sequence[str]) -> str:
    """Why a thing is made again, in words.

    >>> because(["kernels", "store"]), because(["library", EDITED]), because([MISSING])
    ('kernels and store changed', 'library changed, edited since', 'not made yet')
    """
    names = [name for name in stale if name not in _WORDS]
    listed = " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
    return ", ".join([f"{listed} changed"] * bool(names) + [_WORDS[name] for name in stale if name in _WORDS])


class Manifest:
    """The manifest of a checkout. Several processes may use it at once, and any may be killed."""

    def __init__(self, root: Path) -> None:
        self.root, self.path = root, root / "_build" / "manifest.json"

    def stale(self, thing: Path, made_from: Mapping[str, str]) -> list[str]:
        """The names of what changed since `thing` was made, or MISSING, UNKNOWN, EDITED; none where it is up to date."""
        known, content = self._of(thing), _content(thing)
        if not known or (content is None and known["content"] is not None):
            return [MISSING if content is None else UNKNOWN]
        before = known["made_from"]
        changed = [name for name in {**made_from, **before} if before.get(name) != made_from.get(name)]
        return changed + [EDITED] * (content != known["content"])

    def record(self, thing: Path, made_from: Mapping[str, str], parameters: Mapping[str, Any] | None = None) -> None:
        """Keep what `thing`, as it lies there, was made from, and with which parameters. That it is not there is kept too."""
        with self._locked():
            self._put(thing, made_from, parameters)

    def write(
        self, thing: Path, text: str | bytes, made_from: Mapping[str, str], parameters: Mapping[str, Any] | None = None
    ) -> None:
        """Write `thing` and record it, so that no other process comes between. Of '' there is no file.

        One that says the same already stays as it is: who goes by its time has nothing to do.
        """
        data = text.encode() if isinstance(text, str) else text
        with self._locked():
            if text:
                if _content(thing) != hashlib.sha256(data).hexdigest():
                    write_whole(thing, text)
            else:
                thing.unlink(missing_ok=True)
            self._put(thing, made_from, parameters)

    def forget(self, thing: Path) -> None:
        """Know nothing of `thing`: before what makes it in several steps, of which one may be the last."""
        with self._locked():
            self._save({name: known for name, known in self._read().items() if name != self._name(thing)})

    def made_from(self, thing: Path) -> dict[str, str]:
        """What `thing` was made from when it was recorded last; nothing where it was not."""
        return dict(self._of(thing).get("made_from", {}))

    def parameters(self, thing: Path) -> dict[str, Any] | None:
        """With which parameters `thing`, which may be gone, was made last. None where unknown, or not of what lies there."""
        known = self._of(thing)
        return dict(known["parameters"]) if known and _content(thing) in (None, known["content"]) else None

    def _name(self, thing: Path) -> str:
        return thing.relative_to(self.root).as_posix()

    def _of(self, thing: Path) -> dict[str, Any]:
        return self._read().get(self._name(thing), {})

    def _put(self, thing: Path, made_from: Mapping[str, str], parameters: Mapping[str, Any] | None) -> None:
        known = {"content": _content(thing), "made_from": dict(made_from), "parameters": dict(parameters or {})}
        self._save({**self._read(), self._name(thing): known})

    def _read(self) -> dict[str, dict[str, Any]]:
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return {name: known for name, known in found.items() if _is_whole(known)} if isinstance(found, dict) else {}

    def _save(self, things: Mapping[str, dict[str, Any]]) -> None:
        write_whole(self.path, json.dumps(things, indent=1, sort_keys=True) + "\n")

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """One process at a time; the system takes the lock from one that dies."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with open_lock(self.path.with_suffix(".lock")) as lock:
            with contextlib.suppress(OSError):  # a file system without locks: what is lost is made again
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def making(root: Path, say: Callable[[str], None]) -> Iterator[None]:
    """For pages and their site: one process of a checkout at a time. One that must wait says so."""
    path = root / "_build" / "making.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    with open_lock(path) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("Another process makes pages of this book; this one goes on when that is done")
            fcntl.flock(lock, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: what two processes make at once is made again
            pass
        yield


def _is_whole(known: Any) -> bool:
    return (
        isinstance(known, dict)
        and isinstance(known.get("content"), str | None)
        and all(isinstance(known.get(name), dict) for name in ("made_from", "parameters"))
    )


def _content(thing: Path) -> str | None:
    try:
        return hashlib.sha256(thing.read_bytes()).hexdigest()
    except FileNotFoundError:
        return None
